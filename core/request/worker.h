/*
 * Workers: threads of the modules' own, one set for each generation. They are made before it goes
 * live, so that a failure is one of the reload, and wait; they run from workers_go() until they
 * return after workers_stop(). Each holds its generation. They end before the loops do, so what
 * they still hand over with bb_run() is carried out.
 */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include "core/generation/generation.h"

struct workers;

/* Makes the threads of all modules' workers. NULL (logged): one cannot be made. */
struct workers *workers_new(struct generation *generation);

/* Lets them run. */
void workers_go(struct workers *workers);

/* Tells all to return, by until_ms of the monotonic clock; does not wait. Again: only sooner. */
void workers_stop(struct workers *workers, int64_t until_ms);

/* Whether all have returned, how many have not. Any thread. */
bool workers_ended(const struct workers *workers);
size_t workers_running(const struct workers *workers);

/* Stops, joins and frees. */
void workers_free(struct workers *workers);

bool api_stopping(struct bb_worker_context *context);
int64_t api_leave_ms(struct bb_worker_context *context);
bool api_drained(struct bb_worker_context *context);
void api_wake(struct bb_host *host, const char *worker);

/* bb_run(), bb_run_then(): a request made by another thread (run.c). */
int api_run(struct bb_host *host, void (*work)(struct bb_request *, void *), void *arg);
int api_run_then(struct bb_host *host, void (*work)(struct bb_request *, void *),
                 void (*then)(void *, bool), void *arg);

/* Completions (completion.c). */
struct bb_completion *api_completion(struct bb_request *rq);
int api_completion_wait(struct bb_request *rq, struct bb_completion *completion,
                        int64_t timeout_ms);
void api_completion_signal(struct bb_completion *completion);

#endif
