/*
 * A separate thread, independent of the loops, reads the signals. SIGHUP: reload (reload.h).
 * SIGUSR1: reopen the log file. SIGTERM and SIGINT: each loop stops accepting, closes idle
 * connections, and finishes requests in progress, for at most 10 s.
 */
#ifndef CORE_STOP_H
#define CORE_STOP_H

#include <signal.h>

#include "core/module/engine.h"

struct signals;

/* SIGHUP and SIGUSR1 stay pending from now on: until the host handles them they would end it. */
void signals_hold_reload(void);

/*
 * Blocks the signals in this thread and in threads that it starts. Call before threads are created.
 */
void signals_block(sigset_t *set);

/* NULL: failed. */
struct signals *signals_new(struct engine *engine, const sigset_t *set);

/* Starts reading signals, once there is a reloader. Returns 0, or -1 (logged). */
int signals_go(struct signals *signals);

/*
 * Call after the loops have ended: the process ends within five seconds, even if a thread still
 * waits.
 */
void stop_rest(void);

/* Call after the loops have ended. NULL is allowed. */
void signals_free(struct signals *signals);

#endif
