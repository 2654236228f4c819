/*
 * The functions that module.c's tables name in addition to the folders' headers: the state of a
 * generation, metrics and jobs.
 */
#ifndef WEBHOOK_MODULE_H
#define WEBHOOK_MODULE_H

#include <busbar/busbar.h>

/* ---- state.c ---- */

int webhook_open(struct bb_host *host, void **state);
void webhook_start(struct bb_host *host, void *state);
void webhook_close(struct bb_host *host, void *state);

/* ---- metrics.c: any thread ---- */

double webhook_now(void *state, size_t value);
double webhook_attempts(void *state, size_t value);
double webhook_lost_leases(void *state, size_t value);
double webhook_lag(void *state, size_t value);
double webhook_states(void *state, size_t value);
double webhook_expanding(void *state, size_t value);

/* ---- jobs ---- */

void webhook_partitions(struct bb_request *rq);
void webhook_sweep(struct bb_request *rq);

#endif
