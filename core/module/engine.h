/*
 * The engine of the process: its event loops, generations (generation.h) and listening sockets.
 * engine_serve() in serve.c and cmd_module_run() in cmd_module.c create it.
 */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include "core/lib/listener.h"
#include "core/lib/loop.h"
#include "core/module/generation.h"
#include "core/module/quota.h"

struct pg_listener;
struct reloader;
struct job_record;

enum { GENERATIONS_MAX = 64 }; /* maximum in engine.alive; a further reload is refused */
enum { PAUSE_REASON = 256 };

enum schema_state {
    SCHEMA_NONE,    /* no database is configured */
    SCHEMA_PENDING, /* unknown: PostgreSQL is unavailable, or a migration is running */
    SCHEMA_UNFIT,   /* the tables do not match the modules, and an operator must act */
    SCHEMA_READY
};

struct engine {
    struct loop *loops;
    unsigned loop_count;
    pthread_mutex_t lock;          /* protects the members from here to `pause_reason` */
    struct generation *generation; /* the live one, which new requests use */
    LIST_HEAD(, generation) alive; /* the live one, draining ones, and one that goes live next */
    size_t alive_count;
    unsigned held;      /* see engine_hold() */
    unsigned next_loop; /* for bb_run(): the loops are used in turn */
    bool stopping;
    int64_t stop_ms;                 /* if `stopping`: deadline of the workers (monotonic) */
    char standstill[320];            /* description of the loop that was blocked last */
    char schema_problem[512];        /* why `schema` is not SCHEMA_READY */
    char connection_problem[512];    /* why `pg_listener` is not connected, in one line */
    char pause_reason[PAUSE_REASON]; /* the last member that `lock` protects */
    atomic_int pause;                /* enum pause_state */
    atomic_int schema;               /* enum schema_state */
    atomic_uint migrations_pending;  /* number of missing schema steps at the last check */
    struct job_record *job_log;      /* NULL in a command */
    atomic_uint stalls;              /* how many times a loop was blocked, see hang.h */
    int64_t started_ms;
    struct pg_listener *pg_listener; /* on loops[0]; NULL in a command or without a database */
    struct reloader *reloader;       /* NULL in a command */
    struct listeners listeners;      /* empty in a command */
};

/* Returns the live generation with an additional reference. Any thread. */
struct generation *engine_generation(struct engine *engine);

/*
 * Adds a reference to each generation in `alive`, and stores them in `list`, which must have room
 * for GENERATIONS_MAX. Returns their number.
 */
size_t engine_generations(struct engine *engine, struct generation **list);
void engine_generations_release(struct generation **list, size_t count);

/*
 * Keeps the loops running until engine_unhold(). Must not be called on a loop's thread. Returns 0,
 * or -1 if the host is stopping.
 */
int engine_hold(struct engine *engine);
void engine_unhold(struct engine *engine);

/* Adds a generation to `alive`. If the host is stopping, its workers are asked to return. */
void engine_add(struct engine *engine, struct generation *generation);

/* Returns whether a loop is blocked, according to the stall watchdog. Any thread. */
bool engine_stands(const struct engine *engine);

/* Returns whether engine_stop() was called. */
bool engine_stopping(struct engine *engine);
/* Returns whether nothing holds the engine and all workers have ended. */
bool engine_idle(struct engine *engine);

/*
 * Begins a stop: engine_hold() fails, and workers are asked to return by until_ms (monotonic).
 * Holds the engine: when engine_held_once() is true, nothing else uses the live generation's
 * modules, and the caller must call generation_quiesce() and engine_unhold().
 */
void engine_stop(struct engine *engine, int64_t until_ms);
bool engine_held_once(struct engine *engine);

/*
 * Background work (webhook deliveries, jobs, calls to other servers) can be paused: by an operator,
 * or because the database was restored or cloned. The database stores this state
 * (busbar_pause_reason() in schema.sql). Before the first query, work is paused. Any thread.
 */
#define PAUSE_QUESTION "SELECT busbar_pause_reason()" /* one row; NULL: not paused */

enum pause_state { PAUSE_UNKNOWN, PAUSE_OFF, PAUSE_ON };

/* Records the result of PAUSE_QUESTION (NULL: not paused), and logs a change. */
void pause_note(struct engine *engine, const char *reason);

/* Returns whether work is or may be paused; always false without a database and in a command. */
bool pause_holds(const struct engine *engine);

/* Like pause_holds(); if work is paused, also writes the reason. */
bool pause_why(struct engine *engine, char *reason, size_t size);

#endif
