/*
 * Signals are read by a thread of their own, which needs no loop. SIGHUP: a reload (reload.h).
 * SIGUSR1: the log opens its file again. SIGTERM and SIGINT: each loop stops accepting, closes what
 * is idle and finishes what runs, for 10 s at most.
 */
#ifndef CORE_STOP_H
#define CORE_STOP_H

#include <signal.h>

#include "core/engine/engine.h"

struct signals;

/* SIGHUP and SIGUSR1 wait from now on: what comes before the host listens is not its end then. */
void signals_hold_reload(void);

/* Blocks the signals in this thread and those it starts; before any thread. */
void signals_block(sigset_t *set);

/* NULL: failed. */
struct signals *signals_new(struct engine *engine, const sigset_t *set);

/* Begins to read them, once there is a reloader. 0, or -1 (logged). */
int signals_go(struct signals *signals);

/* After the loops have ended: five seconds from here the process ends, whoever still waits. */
void stop_rest(void);

/* After the loops have ended. NULL is fine. */
void signals_free(struct signals *signals);

#endif
