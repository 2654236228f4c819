/* bb_run(), bb_run_then(): pass work from a module's thread to a loop. */

#include "core/module/engine.h"
#include "core/module/pool.h"
#include "core/module/request.h"

enum { RUN_DEADLINE_MS = 60000 };

/*
 * The calling thread allocates it completely, so that the loop can start it without memory. It has
 * a reference to the generation.
 */
struct run {
    struct core_request rq; /* first member */
    struct message message;
    struct arena *arena;
    struct loop *loop;
    struct bb_host *host;
    void (*work)(struct bb_request *, void *);
    void (*then)(void *, bool); /* NULL: bb_run() */
    void *arg;
    bool whole; /* `work` has returned */
};

static void run_entry(struct core_request *rq)
{
    struct run *run = (struct run *)(void *)rq;

    run->work(&rq->pub, run->arg);
    run->whole = true;
}

static void run_ended(struct core_request *rq)
{
    const struct run run = *(struct run *)(void *)rq;

    request_free(rq);
    if (run.then)
        run.then(run.arg, run.whole);
    generation_release(handle_of(run.host)->generation);
}

static void run_begin(struct message *message)
{
    struct run *run = BB_CONTAINER_OF(message, struct run, message);

    request_join(&run->rq, run->arena, REQUEST_JOB, run->loop, handle_of(run->host)->generation);
    run->rq.name = "bb_run()";
    run->rq.entry = run_entry;
    run->rq.ended = run_ended;
    run->rq.deadline_ms = run->loop->now_ms + RUN_DEADLINE_MS;
    request_enter(&run->rq, run->host);
    request_schedule(&run->rq);
}

int api_run_then(struct bb_host *host, void (*work)(struct bb_request *, void *),
                 void (*then)(void *, bool), void *arg)
{
    struct generation *generation = handle_of(host)->generation;
    struct engine *engine = generation->engine;
    struct arena *arena = engine ? arena_new() : NULL;
    struct run *run = arena ? arena_alloc(arena, sizeof *run) : NULL;

    if (!run) {
        arena_free(arena);
        return -1;
    }
    run->message.run = run_begin;
    run->arena = arena;
    run->host = host;
    run->work = work;
    run->then = then;
    run->arg = arg;
    generation_acquire(generation);
    pthread_mutex_lock(&engine->lock);
    /* in turn; while the host stops, the first loop gets all work, because it ends last */
    unsigned turn = engine->stopping ? 0 : engine->next_loop++ % engine->loop_count;

    run->loop = &engine->loops[turn];
    loop_post(run->loop, &run->message);
    pthread_mutex_unlock(&engine->lock);
    return 0;
}

int api_run(struct bb_host *host, void (*work)(struct bb_request *, void *), void *arg)
{
    return api_run_then(host, work, NULL, arg);
}
