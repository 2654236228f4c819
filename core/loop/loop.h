/*
 * An event loop: one thread, one epoll, and in it libmicrohttpd, pipelined PostgreSQL connections,
 * Redis, timers and fibers. Everything of a request happens on the loop that accepted it, so
 * nothing here is locked but the inbox, through which other threads hand work in.
 *
 * A turn: wait; read what PostgreSQL and Redis sent; take the inbox; fire timers; resume the fibers
 * that can go on; let libmicrohttpd run, which starts new ones; send what the fibers asked of
 * PostgreSQL in one batch a connection.
 */
#ifndef CORE_LOOP_H
#define CORE_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/loop/timer.h"

struct core_request;
struct fiber_pool;
struct http;
struct pg;
struct redis;
struct streams;
struct engine;
struct id_block;

/* A file descriptor in the loop. Embedded; must outlive the turn in which it is removed. */
struct watch {
    int fd;          /* -1: not watched */
    uint32_t events; /* EPOLLIN, EPOLLOUT */
    void (*ready)(struct watch *watch, uint32_t events);
};

/* A message from another thread; given back through `run` on the loop's stack. */
struct message {
    struct message *next;
    void (*run)(struct message *message);
};

/* What runs once, in the next turn: a fiber that can go on. Embedded. */
struct task {
    struct task *next;
    void (*run)(struct task *task);
    bool patient; /* comes after those that are not: no client waits for its next step */
};

/* Tasks in the order in which they were scheduled. */
struct tasks {
    struct task *first, *last;
};

/*
 * What runs in every turn, after the tasks: `run` with `of`. A turn does not wait longer than
 * wait_ms(of) says (-1: for ever); NULL: whatever long.
 */
struct loop_part {
    void (*run)(void *of);
    int64_t (*wait_ms)(void *of);
    void *of;
};

enum { LOOP_PARTS = 2, LOOP_PG_POOLS = 5 /* of PostgreSQL: pg.h */ };

/* What a loop last told of itself, for who watches; written by the loop twice a second. */
struct loop_stats {
    atomic_int_least64_t at_ms; /* when: monotonic; 0: not yet */
    atomic_size_t requests, connections, rejected;
    atomic_size_t ready[LOOP_PG_POOLS], waiting[LOOP_PG_POOLS],
        batches[LOOP_PG_POOLS]; /* by pool */
    atomic_size_t shared[LOOP_PG_POOLS],
        sharers[LOOP_PG_POOLS]; /* … and executions, ever: pg_keyed.c */
};

enum { LOOP_ADMITTED = 1024 };

struct loop {
    struct engine *engine;
    unsigned index;
    pthread_t thread;
    int epoll;
    int64_t now_ms;                 /* monotonic, of this turn */
    atomic_int_least64_t turn_ms;   /* when this turn began; 0: it waits */
    atomic_int_least64_t stands_ms; /* how long it takes already, by who watches; 0: it turns */
    struct timers timers;
    struct watch inbox_watch; /* an eventfd */
    pthread_mutex_t inbox_lock;
    struct message *inbox, *inbox_last;
    struct tasks ready, patient; /* those that can go on */
    struct core_request *alive;  /* requests of this loop, of every kind */
    size_t requests;             /* how many */
    struct fiber_pool *fibers;
    struct loop_part parts[LOOP_PARTS]; /* in the order of a turn */
    size_t part_count;
    struct pg *pg;
    struct redis *redis;
    struct id_block *ids;    /* blocks of sequences (sql.c) */
    struct http *http;       /* NULL: a loop without listener (commands) */
    struct streams *streams; /* with http */
    struct loop_stats stats;
    atomic_uint_least64_t answered;    /* HTTP requests, ever */
    uintptr_t admitted[LOOP_ADMITTED]; /* statements that may be sent (sql_admit.c) */
    bool stop;                         /* leave loop_run() after this turn */
    atomic_bool ended;                 /* the same, for the first loop, which ends last */
};

/*
 * How long fibers that take long are resumed in a turn; the others have the next turns, so that who
 * asks for little does not wait for all that many have asked at once. Those that take little are
 * all resumed: were they put off, more would begin in each turn than end, and queues overflow.
 */
enum { LOOP_SHARE_US = 5000, LOOP_HEAVY_US = 1000 };

/* The same for those that are patient: a page of a long answer or two. */
enum { LOOP_PATIENT_SHARE_US = 1000, LOOP_PATIENT_HEAVY_US = 250 };

/* 0, or -1 (logged). The parts pg, redis and http are set by the engine. */
int loop_init(struct loop *loop, struct engine *engine, unsigned index);
void loop_free(struct loop *loop);

/* Turns until loop->stop, and nothing waits in the inbox. */
void loop_run(struct loop *loop);

/* Begins to watch, changes the events, or ends (events 0). 0 or -1. Loop's thread. */
int loop_watch(struct loop *loop, struct watch *watch, int fd, uint32_t events);

/*
 * The same, registered anew even if the number is the one that is watched: a library has closed the
 * socket meanwhile, and the kernel gave its number to the next one.
 */
int loop_watch_anew(struct loop *loop, struct watch *watch, int fd, uint32_t events);

/* The task runs in this turn, or the next one. Loop's thread. */
void loop_schedule(struct loop *loop, struct task *task);

/* One part more, behind those that there are; at most LOOP_PARTS. Before loop_run(). */
void loop_add_part(struct loop *loop, const struct loop_part *part);

/* Whether nothing waits in the inbox. */
bool loop_quiet(struct loop *loop);

/* Hands a message to the loop; any thread. */
void loop_post(struct loop *loop, struct message *message);

#endif
