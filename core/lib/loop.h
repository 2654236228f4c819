/*
 * An event loop: one thread and one epoll set, with libmicrohttpd, pipelined PostgreSQL
 * connections, Redis, timers and fibers. A request stays on the loop that accepted it. So only the
 * inbox, through which other threads pass work to the loop, needs a lock.
 *
 * An iteration: wait; read from PostgreSQL and Redis; process the inbox; fire timers; resume the
 * fibers that are ready; run libmicrohttpd, which starts fibers for new requests; send the
 * statements of all fibers to PostgreSQL, one batch per connection.
 */
#ifndef CORE_LOOP_H
#define CORE_LOOP_H

#include <busbar/heap.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* A timer of one loop, in the loop's heap, on the monotonic clock. Loop's thread only. */
struct timer {
    struct bb_heap_node node;
    void (*fire)(struct timer *); /* called on the loop's stack, after removal from the heap */
};

/* Sets or moves a timer. */
static inline void timer_set(struct bb_heap *timers, struct timer *timer, int64_t at_ms)
{
    bb_heap_set(timers, &timer->node, at_ms);
}

/* Removes a timer; no effect if it is not set. */
static inline void timer_clear(struct bb_heap *timers, struct timer *timer)
{
    bb_heap_remove(timers, &timer->node);
}

/*
 * An idle loop makes its periodic checks (connections, PostgreSQL, replicas) at multiples of this
 * interval, so that the processor wakes once for all. Must be below FRESH_MS (pg_listener.c).
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

/* Fires the timers that are due at now_ms. Returns milliseconds until the next one; -1: none. */
int64_t timers_run(struct bb_heap *timers, int64_t now_ms);

struct core_request;
struct http;
struct pg;
struct redis;
struct engine;
struct id_block;

/*
 * A file descriptor watched by the loop. Embedded in the object that uses it; must outlive the
 * iteration in which it is removed.
 */
struct watch {
    int fd;                                              /* -1: not watched */
    uint32_t events;                                     /* EPOLLIN, EPOLLOUT */
    void (*ready)(struct watch *watch, uint32_t events); /* NULL: events only wake the loop */
};

/* A message from another thread. The loop calls `run` on its own stack. */
struct message {
    STAILQ_ENTRY(message) next;
    void (*run)(struct message *message);
};

/* A call that the loop makes once, to continue a fiber. Embedded in the object that uses it. */
struct task {
    STAILQ_ENTRY(task) next;
    void (*run)(struct task *task);
    bool patient; /* low priority: no client waits for the task */
    bool first;   /* runs before the other tasks of its priority */
};

STAILQ_HEAD(tasks, task); /* in the order in which they will run */

/*
 * The loop calls run(of) in every iteration, after the tasks. An iteration waits for events for at
 * most wait_ms(of) milliseconds (-1, or wait_ms NULL: no limit).
 */
struct loop_part {
    void (*run)(void *of);
    int64_t (*wait_ms)(void *of);
    void *of;
};

enum {
    LOOP_PARTS = 2,
    LOOP_PG_POOLS = 5, /* PostgreSQL's pools: pg.h */
    LOOP_REPLICAS = 8  /* maximum number of `database.replicas` */
};

/* Statistics for monitoring, written by the loop twice a second. */
struct loop_stats {
    atomic_size_t requests, connections, rejected;
    atomic_size_t size[LOOP_PG_POOLS], ready[LOOP_PG_POOLS], waiting[LOOP_PG_POOLS],
        batches[LOOP_PG_POOLS]; /* per pool: connections, ready ones, queued requests, batches */
    atomic_size_t shared[LOOP_PG_POOLS],
        sharers[LOOP_PG_POOLS]; /* `shared` executions served `sharers` requests (pg_merge.c) */
    struct replica_stats {
        atomic_size_t state; /* index of pg_replica_states */
        atomic_size_t lag_ms, reads, returned;
    } replicas[LOOP_REPLICAS]; /* written by pg_replica.c on each change */
};

struct loop {
    struct engine *engine;
    const struct host_settings *host; /* the live generation's; reloads change the pointer */
    unsigned index;
    pthread_t thread;
    int epoll;
    int64_t now_ms;                    /* monotonic; set after waiting, and before timers fire */
    atomic_int_least64_t iteration_ms; /* when this iteration began; 0: the loop waits */
    /* duration of this iteration, set by the stall watchdog if the loop is blocked; else 0 */
    atomic_int_least64_t stands_ms;
    struct loop_seen {
        int64_t iteration_ms; /* start of the iteration, which identifies it */
        int64_t blocked_ms;   /* time between the checks that have seen this iteration */
        bool logged;
    } seen; /* private to the stall watchdog */
    struct bb_heap timers;
    struct watch inbox_watch; /* an eventfd */
    pthread_mutex_t inbox_lock;
    STAILQ_HEAD(, message) inbox;
    struct tasks ready, patient;     /* tasks that can run, of normal and of low priority */
    LIST_HEAD(, core_request) alive; /* all requests of this loop, of any kind */
    size_t requests;
    struct loop_part parts[LOOP_PARTS]; /* in the order in which they run */
    size_t part_count;
    struct pg *pg;
    struct redis *redis;
    struct id_block *ids; /* numbers reserved from sequences (sql.c) */
    unsigned ids_lost;    /* how many times all reserved numbers were discarded */
    struct http *http;    /* NULL: a loop without a listener (commands) */
    struct loop_stats stats;
    atomic_uint_least64_t answered; /* total number of HTTP requests answered */
    bool stop;                      /* loop_run() returns when the inbox is empty */
    atomic_bool ended;              /* has stopped; read by the first loop, which stops last */
};

/*
 * In an iteration the loop resumes fibers until long ones (LOOP_HEAVY_US or longer) have together
 * taken LOOP_SHARE_US. So I/O and new requests do not wait for many long fibers. Short fibers are
 * not counted: otherwise more would start than end in each iteration, and queues would overflow.
 */
enum { LOOP_SHARE_US = 5000, LOOP_HEAVY_US = 1000 };

/* The same limits for patient tasks, which have a long response or belong to a job. */
enum { LOOP_PATIENT_SHARE_US = 1000, LOOP_PATIENT_HEAVY_US = 250 };

/* Initializes a loop; the engine sets `pg`, `redis` and `http`. Returns 0, or -1 (logged). */
int loop_init(struct loop *loop, struct engine *engine, unsigned index);
void loop_free(struct loop *loop);

/* Runs until loop->stop is set and the inbox is empty. */
void loop_run(struct loop *loop);

/* Starts or changes a watch, or stops it (events 0). Returns 0, or -1 with errno. Loop's thread. */
int loop_watch(struct loop *loop, struct watch *watch, int fd, uint32_t events);

/* Adds the task to the tasks that are ready to run. Loop's thread. */
void loop_schedule(struct loop *loop, struct task *task);

/* Adds a part after the existing ones; at most LOOP_PARTS. Call before loop_run(). */
void loop_add_part(struct loop *loop, const struct loop_part *part);

/* Returns whether the inbox is empty. */
bool loop_quiet(struct loop *loop);

/* Sends a message to the loop. Any thread. */
void loop_post(struct loop *loop, struct message *message);

#endif
