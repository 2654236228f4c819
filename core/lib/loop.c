#include "core/lib/loop.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/lib/fiber.h"
#include "core/lib/log.h"
#include "core/lib/meter.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"

enum { LOOP_EVENTS = 256 };

static void inbox_ready(struct watch *watch, uint32_t events)
{
    uint64_t count;

    (void)events;
    while (read(watch->fd, &count, sizeof count) > 0)
        ;
}

int loop_init(struct loop *loop, struct engine *engine, unsigned index)
{
    *loop = (struct loop){.engine = engine, .index = index};
    STAILQ_INIT(&loop->inbox);
    STAILQ_INIT(&loop->ready);
    STAILQ_INIT(&loop->patient);
    loop->now_ms = clock_mono_ms();
    loop->inbox_watch = (struct watch){.fd = -1, .ready = inbox_ready};
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    if (loop->epoll >= 0 && fd >= 0 && !pthread_mutex_init(&loop->inbox_lock, NULL) &&
        !loop_watch(loop, &loop->inbox_watch, fd, EPOLLIN))
        return 0;
    log_line(BB_ERROR, "cannot create an event loop", "reason", strerror(errno), NULL);
    if (fd >= 0)
        close(fd);
    if (loop->epoll >= 0)
        close(loop->epoll);
    return -1;
}

void loop_free(struct loop *loop)
{
    close(loop->inbox_watch.fd);
    close(loop->epoll);
    pthread_mutex_destroy(&loop->inbox_lock);
    atomic_store(&loop->iteration_ms, 0);
    arena_thread_end();
}

int loop_watch(struct loop *loop, struct watch *watch, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    int how = watch->fd < 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

    if (!events) {
        if (watch->fd >= 0)
            epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
        watch->fd = -1;
        watch->events = 0;
        return 0;
    }
    if (watch->fd == fd && watch->events == events)
        return 0;
    if (epoll_ctl(loop->epoll, how, fd, &event))
        return -1;
    watch->fd = fd;
    watch->events = events;
    return 0;
}

void loop_post(struct loop *loop, struct message *message)
{
    uint64_t one = 1;

    pthread_mutex_lock(&loop->inbox_lock);
    STAILQ_INSERT_TAIL(&loop->inbox, message, next);
    pthread_mutex_unlock(&loop->inbox_lock);
    while (write(loop->inbox_watch.fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

bool loop_quiet(struct loop *loop)
{
    BB_LOCKED(&loop->inbox_lock);
    return STAILQ_EMPTY(&loop->inbox);
}

void loop_schedule(struct loop *loop, struct task *task)
{
    struct tasks *tasks = task->patient ? &loop->patient : &loop->ready;

    if (task->first)
        STAILQ_INSERT_HEAD(tasks, task, next);
    else
        STAILQ_INSERT_TAIL(tasks, task, next);
}

void loop_add_part(struct loop *loop, const struct loop_part *part)
{
    loop->parts[loop->part_count++] = *part;
}

/* Runs tasks until tasks that each took at least `heavy_us` have taken `share_us` in total. */
static void loop_run_tasks(struct tasks *tasks, int64_t heavy_us, int64_t share_us)
{
    int64_t before = clock_mono_us(), spent_us = 0;
    struct task *task;

    while (spent_us < share_us && (task = STAILQ_FIRST(tasks))) {
        STAILQ_REMOVE_HEAD(tasks, next);
        task->run(task);
        int64_t now = clock_mono_us();

        if (now - before >= heavy_us)
            spent_us += now - before;
        before = now;
    }
}

static int loop_wait_ms(struct loop *loop, int64_t timer_ms)
{
    int64_t wait = timer_ms;

    if (!STAILQ_EMPTY(&loop->ready) || !STAILQ_EMPTY(&loop->patient))
        return 0;
    for (size_t i = 0; i < loop->part_count; i++) {
        const struct loop_part *part = &loop->parts[i];
        int64_t own = part->wait_ms ? part->wait_ms(part->of) : -1;

        if (own >= 0 && (wait < 0 || own < wait))
            wait = own;
    }
    return wait > INT_MAX ? INT_MAX : (int)wait;
}

void loop_run(struct loop *loop)
{
    int64_t timer_ms = 0;

    meter_thread(loop->index);
    thread_schedule(0);
    /* messages posted in the last iteration own memory */
    while (!loop->stop || !loop_quiet(loop)) {
        int timeout_ms = loop_wait_ms(loop, timer_ms);
        struct epoll_event events[LOOP_EVENTS];

        atomic_store_explicit(&loop->iteration_ms, 0, memory_order_relaxed);
        int count = epoll_wait(loop->epoll, events, LOOP_EVENTS, timeout_ms);

        loop->now_ms = clock_mono_ms();
        atomic_store_explicit(&loop->iteration_ms, loop->now_ms, memory_order_relaxed);
        for (int i = 0; i < count; i++) {
            struct watch *watch = events[i].data.ptr;

            if (watch->fd >= 0 && watch->ready)
                watch->ready(watch, events[i].events);
        }
        STAILQ_HEAD(, message) inbox = STAILQ_HEAD_INITIALIZER(inbox);

        pthread_mutex_lock(&loop->inbox_lock);
        STAILQ_CONCAT(&inbox, &loop->inbox);
        pthread_mutex_unlock(&loop->inbox_lock);
        for (struct message *at = STAILQ_FIRST(&inbox), *next; at; at = next) {
            next = STAILQ_NEXT(at, next);
            at->run(at);
        }
        timers_run(&loop->timers, loop->now_ms);
        loop_run_tasks(&loop->ready, LOOP_HEAVY_US, LOOP_SHARE_US);
        loop_run_tasks(&loop->patient, LOOP_PATIENT_HEAVY_US, LOOP_PATIENT_SHARE_US);
        for (size_t i = 0; i < loop->part_count; i++)
            loop->parts[i].run(loop->parts[i].of);
        loop->now_ms = clock_mono_ms(); /* the iteration may have been long */
        timer_ms = timers_run(&loop->timers, loop->now_ms);
    }
    atomic_store_explicit(&loop->iteration_ms, 0, memory_order_relaxed); /* ended, not blocked */
    fiber_thread_end();
    arena_thread_end();
}

/* Puts the timer that fires later below the other one, and returns the other one. NULL: none. */
static struct timer *timer_join(struct timer *a, struct timer *b)
{
    if (!a || !b)
        return a ? a : b;
    struct timer *first = b->at_ms < a->at_ms ? b : a;

    LIST_INSERT_HEAD(&first->later, first == a ? b : a, link);
    return first;
}

/* Joins two neighbors at a time, then the pairs, which keeps the heap flat. Empties the list. */
static struct timer *timer_join_all(struct timers *list)
{
    struct timers pairs = LIST_HEAD_INITIALIZER(pairs);
    struct timer *first = NULL, *at, *other;

    while ((at = LIST_FIRST(list))) {
        LIST_REMOVE(at, link);
        other = LIST_FIRST(list);
        if (other)
            LIST_REMOVE(other, link);
        at = timer_join(at, other);
        LIST_INSERT_HEAD(&pairs, at, link);
    }
    while ((at = LIST_FIRST(&pairs))) {
        LIST_REMOVE(at, link);
        first = timer_join(first, at);
    }
    return first;
}

/* Adds a timer with those below it; NULL: none. */
static void timer_add(struct timers *timers, struct timer *timer)
{
    struct timer *first = LIST_FIRST(timers);

    if (first)
        LIST_REMOVE(first, link);
    first = timer_join(first, timer);
    if (first)
        LIST_INSERT_HEAD(timers, first, link);
}

void timer_set(struct timers *timers, struct timer *timer, int64_t at_ms)
{
    timer_clear(timers, timer);
    timer->at_ms = at_ms;
    timer->set = true;
    timer_add(timers, timer);
}

void timer_clear(struct timers *timers, struct timer *timer)
{
    if (!timer->set)
        return;
    timer->set = false;
    LIST_REMOVE(timer, link);
    timer_add(timers, timer_join_all(&timer->later));
}

int64_t timers_run(struct timers *timers, int64_t now_ms)
{
    struct timer *timer;

    while ((timer = LIST_FIRST(timers)) && timer->at_ms <= now_ms) {
        timer_clear(timers, timer);
        timer->fire(timer);
    }
    return timer ? timer->at_ms - now_ms : -1;
}
