/*
 * The engine: the loops with what is in them, the live generation, thread pools, jobs, the ear for
 * PostgreSQL's notifications. One a process; made by engine_serve() or engine_command().
 */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include "core/generation.h"
#include "core/loop.h"

struct ear;
struct work_pools;
struct jobs;
struct workers;

struct engine {
    struct loop *loops;
    unsigned loop_count;
    pthread_mutex_t lock; /* guards `generation` */
    struct generation *generation;
    struct work_pools *pools;
    struct ear *ear;   /* on loops[0]; NULL in a command, and where no database is configured */
    struct jobs *jobs; /* on loops[0] */
    struct workers *workers; /* NULL: a command */
    atomic_uint next_loop;   /* for bb_run(): they take turns */
    int listen_fd;
};

/*
 * Serves HTTP until SIGTERM or SIGINT, with the calling thread as the first loop. Takes the
 * generation. Returns the exit status; what went wrong has been logged.
 */
int engine_serve(struct generation *generation);

/*
 * Runs a module's command on a loop without listener. Takes the generation and `options` (checked).
 * Returns the exit status; an error answer of the command has been printed to standard error.
 */
int engine_command(struct generation *generation, struct core_module *module,
                   const struct bb_command *command, json_t *options);

/* Pools, and loops with what is in them. 0, or -1 (logged); then engine_free() follows. */
int engine_init(struct engine *engine, unsigned loop_count);

/* Frees what there is, and lets go of the generation. No request may be alive any more. */
void engine_free(struct engine *engine);

/* The live generation, with one more holder. Any thread. */
struct generation *engine_generation(struct engine *engine);

#endif
