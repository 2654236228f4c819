/*
 * A separate thread, independent of the loops, handles signals. On SIGHUP it reloads (reload.h), on
 * SIGUSR1 it reopens the log file. On SIGTERM and SIGINT each loop stops accepting, closes idle
 * connections, and finishes requests in progress, for at most 10 s.
 */
#ifndef CORE_STOP_H
#define CORE_STOP_H

#include <signal.h>

#include "core/module/engine.h"

struct signals;

/* Blocks SIGHUP and SIGUSR1, which would end the process before the host can handle them. */
void signals_hold_reload(void);

/*
 * Blocks the signals in this thread and in threads that it starts. Call before threads are created.
 */
void signals_block(sigset_t *set);

/* Creates the state of the thread. NULL: failed. */
struct signals *signals_new(struct engine *engine, const sigset_t *set);

/* Starts the thread. Call after the reloader was created. Returns 0, or -1 (logged). */
int signals_go(struct signals *signals);

/*
 * Makes the process end within five seconds, even if a thread still waits. Call after the loops
 * have ended.
 */
void stop_rest(void);

/* Call after the loops have ended. NULL is allowed. */
void signals_free(struct signals *signals);

#endif
