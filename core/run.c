/* bb_run(): work that a thread of a module hands to a loop. */
#include <stdatomic.h>
#include <stdlib.h>

#include "core/log.h"
#include "core/request.h"
#include "core/worker.h"

enum { RUN_DEADLINE_MS = 60000 };

struct run {
    struct core_request rq; /* first */
    struct message message;
    struct loop *loop;
    struct bb_host *host;
    void (*work)(struct bb_request *, void *);
    void *arg;
};

static void run_entry(struct core_request *rq)
{
    struct run *run = (struct run *)(void *)rq;

    run->work(&rq->pub, run->arg);
}

static void run_ended(struct core_request *rq)
{
    request_clear(rq);
    free(rq);
}

/* On the loop. A fiber comes later where memory is short now: what was promised is carried out. */
static void run_begin(struct message *message)
{
    struct run *run = (struct run *)(void *)((char *)message - offsetof(struct run, message));

    if (request_init(&run->rq, REQUEST_JOB, run->loop, handle_of(run->host)->generation)) {
        loop_post(run->loop, message);
        return;
    }
    run->rq.entry = run_entry;
    run->rq.ended = run_ended;
    run->rq.deadline_ms = run->loop->now_ms + RUN_DEADLINE_MS;
    request_enter(&run->rq, run->host);
    request_schedule(&run->rq);
}

int api_run(struct bb_host *host, void (*work)(struct bb_request *, void *), void *arg)
{
    struct engine *engine = handle_of(host)->generation->engine;
    struct run *run = engine ? calloc(1, sizeof *run) : NULL;

    if (!run)
        return -1;
    unsigned turn = atomic_fetch_add(&engine->next_loop, 1);
    run->message.run = run_begin;
    run->loop = &engine->loops[turn % engine->loop_count];
    run->host = host;
    run->work = work;
    run->arg = arg;
    loop_post(run->loop, &run->message);
    return 0;
}
