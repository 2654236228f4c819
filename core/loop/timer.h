/*
 * Timers of one loop: a binary heap on the monotonic clock. A timer is embedded in what it times
 * and is in the heap at most once. Loop's thread only.
 */
#ifndef CORE_TIMER_H
#define CORE_TIMER_H

#include <stddef.h>
#include <stdint.h>

struct timer {
    int64_t at_ms;                /* monotonic */
    void (*fire)(struct timer *); /* called on the loop's stack; the timer is out of the heap */
    size_t slot;                  /* 1-based place in the heap; 0: not set */
};

struct timers {
    struct timer **heap; /* heap[1] fires first */
    size_t count, room;
};

/* So many the host's own timers, which have nobody to tell, find room for without memory. */
#define TIMERS_SPARE 48

/* Sets or moves one of the host's own timers. 0, or -1 when memory ran out (then it is not set). */
int timer_set(struct timers *timers, struct timer *timer, int64_t at_ms);

/* The same for what there are many of; it leaves TIMERS_SPARE places to the host. */
int timer_try(struct timers *timers, struct timer *timer, int64_t at_ms);

/* For what has nothing to do but to look: on the beat of jobs (job.c), so that the processor wakes
 * once for both. The listener's answers count for 900 ms (pg_listener.c).
 */
enum { TIMER_IDLE_MS = 500 };

/*
 * The next whole multiple of a period: what happens again and again and may happen a little earlier
 * meets other such things then, and the processor wakes once for all of them.
 */
static inline int64_t timer_beat(int64_t now_ms, int64_t period_ms)
{
    return now_ms - now_ms % period_ms + period_ms;
}

/* Takes a timer out; no effect on one that is not set. */
void timer_clear(struct timers *timers, struct timer *timer);

/* Fires what is due at now_ms. Returns the milliseconds to the next one, -1 without any. */
int64_t timers_run(struct timers *timers, int64_t now_ms);

void timers_free(struct timers *timers);

#endif
