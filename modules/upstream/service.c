/* The function of the service: on the fiber of who asks. */
#include "modules/upstream/call.h"

enum { GRACE_MS = 500 }; /* for the worker to say itself that a call is late */

void upstream_count(const struct upstream *upstream, enum upstream_outcome outcome)
{
    bb_metric_add(upstream->host, 0, outcome, 1);
}

static const struct bb_upstream_response *without_response(struct bb_request *rq, int failed,
                                                           const char *error, bool sent)
{
    struct bb_upstream_response *response = bb_alloc(rq, sizeof(*response));

    *response = (struct bb_upstream_response){
        .size = sizeof(*response), .failed = failed, .error = error, .sent = sent, .body = ""};
    return response;
}

/* Of a request that never became a call. */
static const struct bb_upstream_response *not_sent(struct bb_request *rq, struct upstream *upstream,
                                                   enum upstream_outcome outcome, int failed,
                                                   const char *error)
{
    upstream_count(upstream, outcome);
    return without_response(rq, failed, error, false);
}

/* A single call may have more than there is: else what is larger could never be done. */
static bool take_bytes(struct upstream *upstream, struct call *call)
{
    size_t most = (size_t)upstream->settings->memory * 1024 * 1024;
    size_t bytes = call->length + call->response_max, held = atomic_load(&upstream->bytes);

    do
        if (held && held + bytes > most)
            return false;
    while (!atomic_compare_exchange_weak(&upstream->bytes, &held, held + bytes));
    call->bytes_held = bytes;
    return true;
}

/* A slot, and memory for what is sent and for what may come. False: there is too much already. */
static bool take_place(struct upstream *upstream, struct call *call)
{
    if (slot_try(upstream->slots, call->account))
        return false;
    if (take_bytes(upstream, call))
        return true;
    slot_release(upstream->slots, call->account);
    return false;
}

void upstream_leave_place(struct upstream *upstream, struct call *call)
{
    size_t over = call->bytes_held - call->response.length;

    call->bytes_held = call->response.length;
    atomic_fetch_sub(&upstream->bytes, over);
    slot_release(upstream->slots, call->account);
}

/* NULL; or why there is nobody to hand it to. */
static const char *hand_over(struct bb_request *rq, struct upstream *upstream, struct call *call)
{
    call->completion = bb_completion(rq);
    if (!call->completion)
        return "Out of memory";
    pthread_mutex_lock(&upstream->lock);
    bool open = upstream->open;

    if (open) {
        call->handed = true;
        atomic_fetch_add(&call->holders, 1);
        atomic_fetch_add(&upstream->under_way, 1);
        call->next = upstream->incoming;
        upstream->incoming = call;
    }
    pthread_mutex_unlock(&upstream->lock);
    if (open) {
        bb_wake(upstream->host, UPSTREAM_WORKER);
        return NULL;
    }
    bb_completion_signal(rq->host, call->completion);
    return "Requests to other servers are not sent now";
}

/* The worker may still be at work on the call where it did not answer in time. */
static const struct bb_upstream_response *await(struct bb_request *rq, struct call *call)
{
    if (bb_completion_wait(rq, call->completion, call->timeout_ms + GRACE_MS))
        return without_response(rq, 504, "The request was not answered in time", true);
    call->answered = true;
    return &call->response;
}

const struct bb_upstream_response *upstream_send(void *state, struct bb_request *rq,
                                                 const struct bb_upstream_request *request)
{
    struct upstream *upstream = state;
    const char *url;
    const char *problem = call_problem(rq, upstream, request, &url);

    if (problem)
        return not_sent(rq, upstream, UPSTREAM_REFUSED, 502, problem);
    if (bb_pause_reason(rq))
        return not_sent(rq, upstream, UPSTREAM_PAUSED, 503, "Requests to other servers are paused");
    struct call *call = call_new(rq, upstream, request, url);

    if (!call)
        return not_sent(rq, upstream, UPSTREAM_BUSY, 503, "Out of memory");
    if (!take_place(upstream, call))
        return not_sent(rq, upstream, UPSTREAM_BUSY, 503,
                        "Too many requests to other servers are under way");
    problem = hand_over(rq, upstream, call);
    if (!problem)
        return await(rq, call);
    upstream_leave_place(upstream, call);
    return not_sent(rq, upstream, UPSTREAM_BUSY, 503, problem);
}
