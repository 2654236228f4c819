/* The sending thread: runs libcurl's multi interface until the last request has ended. */
#include <errno.h>
#include <unistd.h>

#include "modules/upstream/upstream.h"

enum {
    WAIT_MS = 60000, /* if there is nothing to do */
    CHECK_MS = 250,  /* between two checks for calls that are late or abandoned */
    LEAVING_MS = 50, /* between two checks whether the last request has ended */
    WITHOUT_MEMORY_MS = 100
};

struct work {
    struct bb_worker_context *context;
    struct upstream *upstream;
    CURLM *multi; /* NULL: out of memory */
    struct target_guard guard;
    struct call *flying;
    int64_t check_at_ms;
    int64_t unused_at_ms; /* when connections will have been idle too long; 0: there are none */
};

/* Once the completion is signaled, the call's result belongs to the caller. */
static void finish(struct work *work, struct call *call, enum upstream_outcome outcome)
{
    struct upstream *upstream = work->upstream;
    struct bb_completion *completion = call->completion;

    upstream_count(upstream, outcome);
    atomic_fetch_sub(&upstream->under_way, 1);
    upstream_leave_place(upstream, call);
    call_release(call);
    bb_completion_signal(upstream->host, completion);
}

static void end(struct work *work, struct call *call, CURLcode code)
{
    struct call **at = &work->flying;

    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
    finish(work, call, transfer_end(call, work->multi, code));
}

static void begin(struct work *work, struct call *call)
{
    if (atomic_load(&call->left)) {
        finish(work, call, transfer_end(call, work->multi, CURLE_OPERATION_TIMEDOUT));
        return;
    }
    if (work->multi && transfer_begin(call, work->multi, &work->guard)) {
        call->next = work->flying;
        work->flying = call;
        return;
    }
    finish(work, call, transfer_end(call, work->multi, CURLE_OUT_OF_MEMORY));
}

/* Starts the calls in the order of arrival. */
static void begin_incoming(struct work *work)
{
    struct call *list = NULL;

    pthread_mutex_lock(&work->upstream->lock);
    struct call *newest = work->upstream->incoming;

    work->upstream->incoming = NULL;
    pthread_mutex_unlock(&work->upstream->lock);
    while (newest) {
        struct call *next = newest->next;

        newest->next = list;
        list = newest;
        newest = next;
    }
    while (list) {
        struct call *call = list;

        list = call->next;
        begin(work, call);
    }
}

static void collect(struct work *work)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(work->multi, &left))) {
        CURLcode code = message->data.result;
        struct call *call = NULL;

        if (message->msg == CURLMSG_DONE)
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
        if (call)
            end(work, call, code);
    }
}

/* Ends abandoned calls, and calls that libcurl should have ended. */
static void check(struct work *work)
{
    int64_t now = bb_now_ms(work->upstream->host);

    if (now < work->check_at_ms)
        return;
    work->check_at_ms = now + CHECK_MS;
    for (struct call *call = work->flying, *next; call; call = next) {
        next = call->next;
        if (atomic_load(&call->left) || now >= call->late_at_ms)
            end(work, call, CURLE_OPERATION_TIMEDOUT);
    }
}

static int wait_ms(const struct work *work)
{
    if (!work->multi)
        return WITHOUT_MEMORY_MS;
    if (bb_stopping(work->context))
        return LEAVING_MS;
    if (work->flying)
        return CHECK_MS;
    int64_t left = work->unused_at_ms - bb_now_ms(work->upstream->host);

    if (!work->unused_at_ms || left > WAIT_MS)
        return WAIT_MS;
    return left < 0 ? 0 : (int)left + 1;
}

/* Waits until a socket is ready, or a call is handed over. */
static void wait_for_news(struct work *work)
{
    struct curl_waitfd wake = {.fd = work->context->wake_fd, .events = CURL_WAIT_POLLIN};
    uint64_t count;

    if (!work->multi || curl_multi_poll(work->multi, &wake, 1, wait_ms(work), NULL))
        usleep(WITHOUT_MEMORY_MS * 1000);
    while (read(work->context->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

static void open_multi(struct work *work)
{
    const struct upstream_settings *settings = work->upstream->settings;
    long together = settings->http2 ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING;

    work->multi = curl_multi_init();
    if (!work->multi)
        return;
    if (!curl_multi_setopt(work->multi, CURLMOPT_PIPELINING, together) &&
        !curl_multi_setopt(work->multi, CURLMOPT_MAXCONNECTS, (long)settings->connections))
        return;
    curl_multi_cleanup(work->multi);
    work->multi = NULL;
}

static void close_multi(struct work *work, CURLcode code)
{
    while (work->flying)
        end(work, work->flying, code);
    if (work->multi)
        curl_multi_cleanup(work->multi);
    work->multi = NULL;
    work->unused_at_ms = 0;
}

/* libcurl checks idle connections only when another request needs one. */
static void close_unused(struct work *work)
{
    int64_t now = bb_now_ms(work->upstream->host);

    if (work->flying)
        work->unused_at_ms = now + work->upstream->settings->connection_idle * 1000;
    else if (work->unused_at_ms && now >= work->unused_at_ms)
        close_multi(work, CURLE_OK);
}

static void turn(struct work *work)
{
    int running;

    close_unused(work);
    if (!work->multi)
        open_multi(work);
    begin_incoming(work);
    if (work->multi && curl_multi_perform(work->multi, &running))
        close_multi(work, CURLE_ABORTED_BY_CALLBACK);
    if (work->multi) {
        collect(work);
        check(work);
    }
    wait_for_news(work);
}

void upstream_work(struct bb_worker_context *context)
{
    struct upstream *upstream = context->host->state;
    struct work work = {
        .context = context, .upstream = upstream, .guard.rules = &upstream->targets};

    /* A call keeps its generation alive, as its request does. */
    while (!bb_stopping(context) || (bb_leave_ms(context) > 0 && !bb_drained(context)))
        turn(&work);
    pthread_mutex_lock(&upstream->lock);
    upstream->open = false;
    pthread_mutex_unlock(&upstream->lock);
    begin_incoming(&work);
    close_multi(&work, CURLE_OPERATION_TIMEDOUT);
}
