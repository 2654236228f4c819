/* The function of the service; runs on the caller's fiber. */
#include "modules/upstream/call.h"

enum { GRACE_MS = 500 }; /* time for the worker to report a late call itself */

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

/* The response to a request that did not become a call. */
static const struct bb_upstream_response *not_sent(struct bb_request *rq, struct upstream *upstream,
                                                   enum upstream_outcome outcome, int failed,
                                                   const char *error)
{
    upstream_count(upstream, outcome);
    return without_response(rq, failed, error, false);
}

/* A single call may exceed the limit; otherwise large calls would never be possible. */
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

/*
 * Takes a slot, and memory for the request and the response. Returns false if too much is in use
 * already.
 */
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

/* Returns NULL, or why the call cannot be handed over. */
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

/* If the worker did not answer in time, it may still be using the call. */
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
                        "Too many requests to other servers in progress");
    problem = hand_over(rq, upstream, call);
    if (!problem)
        return await(rq, call);
    upstream_leave_place(upstream, call);
    return not_sent(rq, upstream, UPSTREAM_BUSY, 503, problem);
}
