/*
 * Timers of one loop: a binary heap on the monotonic clock. A timer is embedded in another struct,
 * and is in the heap at most once. Loop's thread only.
 */
#ifndef CORE_TIMER_H
#define CORE_TIMER_H

#include <stddef.h>
#include <stdint.h>

struct timer {
    int64_t at_ms;                /* monotonic */
    void (*fire)(struct timer *); /* called on the loop's stack, after removal from the heap */
    size_t slot;                  /* index in the heap, from 1; 0: not set */
};

struct timers {
    struct timer **heap; /* heap[1] fires first */
    size_t count, room;
};

/* Room in the heap for the host's own timers, whose callers cannot handle lack of memory. */
#define TIMERS_SPARE 48

/*
 * Sets or moves one of the host's own timers. Returns 0, or -1 if memory ran out (it is not set).
 */
int timer_set(struct timers *timers, struct timer *timer, int64_t at_ms);

/* Like timer_set(), for other timers: leaves room for TIMERS_SPARE timers of the host. */
int timer_try(struct timers *timers, struct timer *timer, int64_t at_ms);

/*
 * The period of polling. Jobs use the same period (job.c), so that the processor wakes once for
 * both. It is shorter than the 900 ms for which results of the PostgreSQL listener are valid.
 */
enum { TIMER_IDLE_MS = 500 };

/*
 * Returns the next multiple of a period. If periodic actions run at such times, the processor wakes
 * once for all of them.
 */
static inline int64_t timer_beat(int64_t now_ms, int64_t period_ms)
{
    return now_ms - now_ms % period_ms + period_ms;
}

/* Removes a timer; no effect if it is not set. */
void timer_clear(struct timers *timers, struct timer *timer);

/* Fires the timers that are due at now_ms. Returns milliseconds until the next one; -1: none. */
int64_t timers_run(struct timers *timers, int64_t now_ms);

void timers_free(struct timers *timers);

#endif
