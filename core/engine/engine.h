/*
 * The engine: the loops with what is in them, the live generation and those that drain, the
 * connection for PostgreSQL's notifications. One a process; made by engine_serve() or
 * engine_command() (serve.h).
 */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include "core/generation/generation.h"
#include "core/loop/loop.h"
#include "core/request/quota.h"
#include "core/wire/listener.h"

struct pg_listener;
struct resolver;
struct reclaimer;
struct reloader;
struct job_log;

enum { GENERATIONS_MAX = 64 }; /* alive at a time; a reload beyond that is refused */
enum { PAUSE_REASON = 256 };

enum schema_state {
    SCHEMA_NONE,    /* no database is configured */
    SCHEMA_PENDING, /* not known yet: PostgreSQL is away, or a migration runs */
    SCHEMA_UNFIT,   /* the tables do not fit the modules, and a person must look */
    SCHEMA_READY
};

struct engine {
    struct loop *loops;
    unsigned loop_count;
    pthread_mutex_t lock;          /* guards from here … */
    struct generation *generation; /* the live one */
    struct generation *alive;      /* it, those that drain, and one that is about to go live */
    size_t alive_count;
    unsigned held;      /* see engine_hold() */
    unsigned next_loop; /* for bb_run(): they take turns */
    bool stopping;
    char standstill[320];            /* of the loop that began to stand last */
    char schema_problem[512];        /* see readiness.h */
    char pause_reason[PAUSE_REASON]; /* … to here; see pause.h */
    atomic_int pause;                /* enum pause_state */
    atomic_int schema;               /* enum schema_state */
    atomic_uint migrations_pending;  /* steps that the database was seen to lack */
    atomic_uint reloads_done, reloads_refused;
    struct job_log *job_log;               /* NULL: a command */
    atomic_uint stalls;                    /* see stall.h */
    char *conf, *database_url, *redis_url; /* of the start: no reload changes them */
    struct resolver *database_resolver, *redis_resolver;
    int64_t started_ms;
    struct quota_table *quotas[QUOTAS]; /* who has how much; of all pools NULL */
    struct pg_listener
        *pg_listener; /* on loops[0]; NULL in a command, and where no database is configured */
    struct reclaimer *reclaimer; /* these two NULL: a command */
    struct reloader *reloader;
    struct listeners listeners; /* none in a command */
};

/* The live generation, with one more holder. Any thread. */
struct generation *engine_generation(struct engine *engine);

/* All that are alive, each with one more holder; how many. `list` has GENERATIONS_MAX places. */
size_t engine_generations(struct engine *engine, struct generation **list);
void engine_generations_release(struct generation **list, size_t count);

/*
 * While held, the loops do not end, whatever signal comes; briefly, and from a thread that is none
 * of theirs. 0, or -1: the host is stopping.
 */
int engine_hold(struct engine *engine);
void engine_unhold(struct engine *engine);

/* Runs call(loop, arg) on every loop and waits for all. Only while held. */
void engine_each_loop(struct engine *engine, void (*call)(struct loop *loop, void *arg), void *arg);

/*
 * The same, but waits for no loop that stands: that one does it when it goes on, if it ever does.
 * ended(arg) is called behind the last one, maybe later and on a loop. The number of loops that
 * have not done it yet; -1: no memory, and nothing was called. Only while held.
 */
int engine_tell_loops(struct engine *engine, void (*call)(struct loop *loop, void *arg),
                      void (*ended)(void *arg), void *arg);

/* Whether a loop stands, as the watcher of stalls sees it. Any thread. */
bool engine_stands(const struct engine *engine);

/* The same with the reason, where one stands. */
bool engine_standstill(struct engine *engine, char *reason, size_t size);

/* Whether the host is stopping; whether nobody holds it and all workers have returned. Any thread.
 */
bool engine_stopping(struct engine *engine);
bool engine_idle(struct engine *engine);

/* Begins a stop: nobody may hold the loops any more, all workers are told to return. */
void engine_stop(struct engine *engine, int64_t until_ms);

#endif
