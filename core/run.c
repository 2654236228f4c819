/* bb_run(): work that a thread of a module hands to a loop. */
#include <stdlib.h>

#include "core/request.h"
#include "core/worker.h"

enum { RUN_DEADLINE_MS = 60000 };

/* What travels to the loop. */
struct run {
    struct message message; /* first */
    struct loop *loop;
    struct bb_host *host;
    void (*work)(struct bb_request *, void *);
    void *arg;
};

struct run_request {
    struct core_request rq; /* first */
    struct run *run;
};

static void run_entry(struct core_request *rq)
{
    const struct run *run = ((struct run_request *)(void *)rq)->run;

    run->work(&rq->pub, run->arg);
}

static void run_ended(struct core_request *rq)
{
    free(((struct run_request *)(void *)rq)->run);
    generation_release(rq->generation); /* what travelled held it, see api_run() */
    request_free(rq);
}

/* On the loop. Where memory is short it comes again: what was promised is carried out. */
static void run_begin(struct message *message)
{
    struct run *run = (struct run *)(void *)message;
    struct run_request *made =
        request_make(sizeof *made, REQUEST_JOB, run->loop, handle_of(run->host)->generation);

    if (!made) {
        loop_post(run->loop, message);
        return;
    }
    made->run = run;
    made->rq.entry = run_entry;
    made->rq.ended = run_ended;
    made->rq.deadline_ms = run->loop->now_ms + RUN_DEADLINE_MS;
    request_enter(&made->rq, run->host);
    request_schedule(&made->rq);
}

/* The loops take turns. Where the host stops the first one takes all, for it ends last. */
static void hand_over(struct engine *engine, struct run *run)
{
    pthread_mutex_lock(&engine->lock);
    unsigned turn = engine->stopping ? 0 : engine->next_loop++ % engine->loop_count;

    run->loop = &engine->loops[turn];
    loop_post(run->loop, &run->message);
    pthread_mutex_unlock(&engine->lock);
}

int api_run(struct bb_host *host, void (*work)(struct bb_request *, void *), void *arg)
{
    struct generation *generation = handle_of(host)->generation;
    struct engine *engine = generation->engine;
    struct run *run = engine ? calloc(1, sizeof *run) : NULL;

    if (!run)
        return -1;
    *run = (struct run){.message.run = run_begin, .host = host, .work = work, .arg = arg};
    generation_acquire(generation);
    hand_over(engine, run);
    return 0;
}
