/*
 * Workers: threads of the modules' own, made when the host serves and joined when it stops. They
 * end before the loops do, so what they still hand over with bb_run() is carried out.
 */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include "core/engine.h"

struct workers;

/* Starts the workers of all modules. NULL (logged): a thread cannot be made. */
struct workers *workers_new(struct generation *generation);

/* Tells all to return; does not wait. */
void workers_stop(struct workers *workers);

/* Whether all have returned. Any thread. */
bool workers_ended(struct workers *workers);

/* Stops, joins and frees. */
void workers_free(struct workers *workers);

bool api_stopping(struct bb_seat *seat);
void api_wake(struct bb_host *host, const char *worker);

/* bb_run(): a request made by another thread (run.c). */
int api_run(struct bb_host *host, void (*work)(struct bb_request *, void *), void *arg);

/* Gates (gate.c). */
struct bb_gate *api_gate(struct bb_request *rq);
int api_gate_wait(struct bb_request *rq, struct bb_gate *gate, int64_t timeout_ms);
void api_gate_open(struct bb_gate *gate);

#endif
