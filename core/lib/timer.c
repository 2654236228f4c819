#include "core/lib/timer.h"

#include <stdlib.h>

static void timer_place(struct timers *timers, size_t slot, struct timer *timer)
{
    timers->heap[slot] = timer;
    timer->slot = slot;
}

static void timer_sift_up(struct timers *timers, size_t slot)
{
    struct timer *timer = timers->heap[slot];

    while (slot > 1 && timers->heap[slot / 2]->at_ms > timer->at_ms) {
        timer_place(timers, slot, timers->heap[slot / 2]);
        slot /= 2;
    }
    timer_place(timers, slot, timer);
}

static void timer_sift_down(struct timers *timers, size_t slot)
{
    struct timer *timer = timers->heap[slot];

    for (size_t child = slot * 2; child <= timers->count; child = slot * 2) {
        if (child < timers->count && timers->heap[child + 1]->at_ms < timers->heap[child]->at_ms)
            child++;
        if (timers->heap[child]->at_ms >= timer->at_ms)
            break;
        timer_place(timers, slot, timers->heap[child]);
        slot = child;
    }
    timer_place(timers, slot, timer);
}

static int timer_place_at(struct timers *timers, struct timer *timer, int64_t at_ms, size_t spare)
{
    timer_clear(timers, timer);
    if (timers->room - timers->count <= spare) {
        size_t room = timers->room ? timers->room * 2 : 64;
        struct timer **heap = realloc(timers->heap, (room + 1) * sizeof(struct timer *));

        if (!heap)
            return -1;
        timers->heap = heap;
        timers->room = room;
    }
    timer->at_ms = at_ms;
    timer_place(timers, ++timers->count, timer);
    timer_sift_up(timers, timer->slot);
    return 0;
}

int timer_set(struct timers *timers, struct timer *timer, int64_t at_ms)
{
    return timer_place_at(timers, timer, at_ms, 0);
}

int timer_try(struct timers *timers, struct timer *timer, int64_t at_ms)
{
    return timer_place_at(timers, timer, at_ms, TIMERS_SPARE);
}

void timer_clear(struct timers *timers, struct timer *timer)
{
    size_t slot = timer->slot;

    if (!slot)
        return;
    struct timer *last = timers->heap[timers->count--];
    timer->slot = 0;
    if (last == timer)
        return;
    timer_place(timers, slot, last);
    timer_sift_up(timers, slot);
    timer_sift_down(timers, last->slot);
}

int64_t timers_run(struct timers *timers, int64_t now_ms)
{
    while (timers->count && timers->heap[1]->at_ms <= now_ms) {
        struct timer *timer = timers->heap[1];

        timer_clear(timers, timer);
        timer->fire(timer);
    }
    return timers->count ? timers->heap[1]->at_ms - now_ms : -1;
}

void timers_free(struct timers *timers)
{
    free(timers->heap);
    *timers = (struct timers){0};
}
