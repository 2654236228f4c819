/*
 * Completions: another thread signals a completion that a request waits for. A completion has two
 * references, the request's and the signaling thread's; both are released on the request's loop, so
 * no lock is needed.
 */
#include <stdlib.h>

#include "core/module/module_error.h"
#include "core/module/request.h"
#include "core/module/worker.h"

struct bb_completion {
    struct message message;  /* first member */
    struct core_request *rq; /* NULL: the request no longer waits */
    struct loop *loop;
    struct timer timer;
    bool waited; /* a second wait is not allowed */
    bool open;
    bool done; /* open, or timed out */
};

static void completion_signalled(struct message *message)
{
    struct bb_completion *completion = (struct bb_completion *)(void *)message;

    if (!completion->rq) {
        free(completion);
        return;
    }
    completion->open = true;
    completion->done = true;
    request_wake(completion->rq);
}

static void completion_timer(struct timer *timer)
{
    struct bb_completion *completion = BB_CONTAINER_OF(timer, struct bb_completion, timer);

    completion->done = true;
    request_wake(completion->rq);
}

/* The request drops its reference; the signaling side frees the completion later. */
static void completion_leave(void *arg)
{
    struct bb_completion *completion = arg;

    timer_clear(&completion->loop->timers, &completion->timer);
    completion->rq = NULL;
    if (completion->open)
        free(completion);
}

struct bb_completion *api_completion(struct bb_request *pub)
{
    struct core_request *rq = request_of(pub);
    struct bb_completion *completion = calloc(1, sizeof *completion);

    if (!completion)
        return NULL;
    completion->message.run = completion_signalled;
    completion->timer.fire = completion_timer;
    completion->rq = rq;
    completion->loop = rq->loop;
    if (!arena_defer(rq->arena, completion_leave, completion))
        return completion;
    free(completion);
    return NULL;
}

int api_completion_wait(struct bb_request *pub, struct bb_completion *completion,
                        int64_t timeout_ms)
{
    struct core_request *rq = request_of(pub);

    if (module_error_waits(rq, "bb_completion_wait()"))
        return -1;
    if (!completion || completion->waited || completion->rq != rq) {
        module_error(
            rq, "a module waits for a completion twice, or for a completion of another request",
            NULL);
        return -1;
    }
    completion->waited = true;
    int64_t longest = INT64_MAX - completion->loop->now_ms;

    if (timer_try(&completion->loop->timers, &completion->timer,
                  completion->loop->now_ms + (timeout_ms < longest ? timeout_ms : longest)))
        return request_fail(rq, FAILED_MEMORY);
    if (request_wait(rq, &completion->done))
        return -1;
    return completion->open ? 0 : request_fail(rq, FAILED_DEADLINE);
}

void api_completion_signal(struct bb_completion *completion)
{
    loop_post(completion->loop, &completion->message);
}
