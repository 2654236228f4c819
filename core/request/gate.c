/*
 * Gates: what a request waits for and another thread finishes. Two hold a gate, the request and who
 * opens it; both let go on the request's loop, so nothing is locked.
 */
#include <stdlib.h>

#include "core/request/mistake.h"
#include "core/request/request.h"
#include "core/request/worker.h"

struct bb_gate {
    struct message message;  /* first */
    struct core_request *rq; /* NULL: nobody waits any more */
    struct loop *loop;
    struct timer timer;
    bool waited; /* once is all */
    bool open;
    bool done; /* open, or the time is over */
};

static void gate_opened(struct message *message)
{
    struct bb_gate *gate = (struct bb_gate *)(void *)message;

    if (!gate->rq) {
        free(gate);
        return;
    }
    gate->open = true;
    gate->done = true;
    request_wake(gate->rq);
}

static void gate_timer(struct timer *timer)
{
    struct bb_gate *gate = BB_CONTAINER_OF(timer, struct bb_gate, timer);

    gate->done = true;
    request_wake(gate->rq);
}

/* The request lets go; who opens it later frees it. */
static void gate_leave(void *arg)
{
    struct bb_gate *gate = arg;

    timer_clear(&gate->loop->timers, &gate->timer);
    gate->rq = NULL;
    if (gate->open)
        free(gate);
}

struct bb_gate *api_gate(struct bb_request *pub)
{
    struct core_request *rq = request_of(pub);
    struct bb_gate *gate = calloc(1, sizeof *gate);

    if (!gate)
        return NULL;
    gate->message.run = gate_opened;
    gate->timer.fire = gate_timer;
    gate->rq = rq;
    gate->loop = rq->loop;
    if (!arena_defer(rq->arena, gate_leave, gate))
        return gate;
    free(gate);
    return NULL;
}

int api_gate_wait(struct bb_request *pub, struct bb_gate *gate, int64_t timeout_ms)
{
    struct core_request *rq = request_of(pub);

    if (mistake_waits(rq, "bb_gate_wait()"))
        return -1;
    if (!gate || gate->waited || gate->rq != rq) {
        mistake(rq, "a module waits for a gate twice, or for that of another request", NULL);
        return -1;
    }
    gate->waited = true;
    if (timer_try(&gate->loop->timers, &gate->timer, gate->loop->now_ms + timeout_ms))
        return request_fail(rq, FAILED_MEMORY);
    if (request_wait(rq, &gate->done))
        return -1;
    return gate->open ? 0 : request_fail(rq, FAILED_DEADLINE);
}

void api_gate_open(struct bb_gate *gate)
{
    loop_post(gate->loop, &gate->message);
}
