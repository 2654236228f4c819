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

    pthread_mutex_init(&loop->inbox_lock, NULL);
    if (loop->epoll >= 0 && fd >= 0 && !loop_watch(loop, &loop->inbox_watch, fd, EPOLLIN))
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

/* Runs tasks. Stops when tasks of `heavy_us` or longer have together taken `share_us`. */
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

void loop_run(struct loop *loop)
{
    int64_t timer_ms = 0;

    meter_thread(loop->index);
    thread_schedule(0);
    /* after `stop`, still runs the messages in the inbox, because they own memory */
    while (!loop->stop || !loop_quiet(loop)) {
        bool ready = !STAILQ_EMPTY(&loop->ready) || !STAILQ_EMPTY(&loop->patient);
        int64_t wait = ready ? 0 : timer_ms;
        struct epoll_event events[LOOP_EVENTS];

        for (size_t i = 0; !ready && i < loop->part_count; i++) {
            const struct loop_part *part = &loop->parts[i];
            int64_t own = part->wait_ms ? part->wait_ms(part->of) : -1;

            if (own >= 0 && (wait < 0 || own < wait))
                wait = own;
        }
        atomic_store_explicit(&loop->iteration_ms, 0, memory_order_relaxed);
        int count =
            epoll_wait(loop->epoll, events, LOOP_EVENTS, wait > INT_MAX ? INT_MAX : (int)wait);

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
    atomic_store_explicit(&loop->iteration_ms, 0, memory_order_relaxed); /* not blocked */
    fiber_thread_end();
    arena_thread_end();
}

int64_t timers_run(struct bb_heap *timers, int64_t now_ms)
{
    struct bb_heap_node *first;

    while ((first = bb_heap_first(timers)) && first->at_ms <= now_ms) {
        struct timer *timer = BB_CONTAINER_OF(first, struct timer, node);

        bb_heap_remove(timers, first);
        timer->fire(timer);
    }
    return first ? first->at_ms - now_ms : -1;
}
