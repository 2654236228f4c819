/* Sends the answer, and writes its log line. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/lib/meter.h"
#include "core/lib/text.h"
#include "core/module/reply.h"
#include "core/server/http_txn.h"
#include "core/server/stream.h"

enum { HEADERS_MAX = 6 * 1024 };

static ssize_t no_body(void *cls, uint64_t position, char *into, size_t room)
{
    (void)cls;
    (void)position;
    (void)into;
    (void)room;
    return MHD_CONTENT_READER_END_OF_STREAM;
}

/*
 * The answer to HEAD. With an empty body, libmicrohttpd would send its length; with a chunked one,
 * the last chunk of a body that does not exist. So the body is declared to end with the connection.
 */
static struct MHD_Response *headers_only(void)
{
    struct MHD_Response *mhd =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1, no_body, NULL, NULL);

    if (mhd)
        MHD_set_response_options(mhd, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    return mhd;
}

/* Returns false if memory ran out. Headers that libmicrohttpd does not allow are omitted. */
static bool add_header(struct MHD_Response *mhd, const char *name, const char *value)
{
    errno = 0;
    return MHD_add_response_header(mhd, name, value) == MHD_YES || errno != ENOMEM;
}

static struct MHD_Response *response_of_stream(struct http_txn *txn)
{
    bool head = !strcmp(txn->method, "HEAD");

    txn->close = true;
    struct MHD_Response *mhd = head ? headers_only() : stream_response(txn->stream);

    if (!mhd || (add_header(mhd, "Content-Type", stream_type(txn->stream)) &&
                 add_header(mhd, "X-Accel-Buffering", "no")))
        return mhd;
    MHD_destroy_response(mhd);
    return NULL;
}

static struct MHD_Response *response_of(struct http_txn *txn)
{
    struct response *response = &txn->rq.response;

    if (txn->stream && response->status == 200)
        return response_of_stream(txn);
    if (response->file) {
        struct MHD_Response *file = MHD_create_response_from_fd64(response->length, response->file);

        if (file)
            response->file = 0; /* libmicrohttpd closes it */
        return file;
    }
    void *bytes = response->body ? response->body : (void *)(uintptr_t)response->fixed;
    struct MHD_Response *mhd = MHD_create_response_from_buffer(
        response->length, bytes, response->body ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);

    if (mhd)
        response->body = NULL; /* libmicrohttpd frees it */
    return mhd;
}

static bool stays_open(const struct http_txn *txn)
{
    const struct head *head = &txn->head;

    return !txn->close && !txn->connection->http->draining && !head->closes &&
           (head->minor || head->keeps);
}

/*
 * Informs the client of the idle timeout, so that it does not reuse the connection just when it is
 * closed.
 */
static bool tell_idle_time(const struct http_txn *txn, struct MHD_Response *mhd)
{
    static const char begin[] = "timeout=";
    char value[sizeof begin + TEXT_INTEGER_SIZE];

    memcpy(value, begin, sizeof begin);
    text_integer(txn->connection->http->settings.idle_ms / 1000, value + sizeof begin - 1);
    MHD_set_response_options(mhd, MHD_RF_SEND_KEEP_ALIVE_HEADER, MHD_RO_END);
    return add_header(mhd, "Keep-Alive", value);
}

/*
 * The headers of an answer must fit into the connection's memory. Only a target that the answer
 * repeats can make them so large.
 */
static void bound_headers(struct http_txn *txn)
{
    size_t bytes = 0;

    for (const struct response_header *h = txn->rq.response.headers; h; h = h->next)
        bytes += strlen(h->name) + strlen(h->value);
    if (bytes <= HEADERS_MAX)
        return;
    txn->rq.response.headers = NULL;
    reply_error(&txn->rq, 414, "The request target is too long to be repeated in the response");
}

/* Returns false if memory ran out: an incomplete answer might be misleading, so it is not sent. */
static bool add_headers(struct http_txn *txn, struct MHD_Response *mhd)
{
    const struct response *response = &txn->rq.response;
    bool own_type = false, kept = false, added = true;

    for (const struct response_header *h = response->headers; h; h = h->next) {
        added = added && add_header(mhd, h->name, h->value);
        own_type = own_type || !strcmp(h->name, "Content-Type");
        kept = kept || !strcmp(h->name, "Cache-Control");
    }
    if (response->length && !own_type)
        added = added && add_header(mhd, "Content-Type", "application/json; charset=utf-8");
    added = added && add_header(mhd, "X-Request-Id", txn->id) &&
            add_header(mhd, "X-Content-Type-Options", "nosniff") &&
            (kept || add_header(mhd, "Cache-Control", "no-store"));
    if (stays_open(txn))
        return added && tell_idle_time(txn, mhd);
    return added && add_header(mhd, "Connection", "close");
}

enum MHD_Result response_send(struct http_txn *txn)
{
    struct response *response = &txn->rq.response;
    const char *reason;

    txn->phase = PHASE_ANSWER;
    if (reader_problem(&txn->connection->reader, &reason))
        txn->close = true;
    bound_headers(txn);
    struct MHD_Response *mhd = response_of(txn);

    txn->answered_us = clock_mono_us();
    body_drop(txn);
    if (!mhd)
        return MHD_NO;
    if (!add_headers(txn, mhd)) {
        MHD_destroy_response(mhd);
        return MHD_NO;
    }
    connection_stage(txn->connection, STAGE_WRITE, response->length);
    enum MHD_Result queued = MHD_queue_response(txn->mhd, (unsigned)response->status, mhd);
    MHD_destroy_response(mhd);
    return queued;
}

/* The duration of a stream depends on the client, so it is not counted. */
static void count(const struct http_txn *txn, int status)
{
    struct route_meter *meter = txn->match.route ? txn->match.meter : meter_no_route();
    bool timed = txn->answered_us && !txn->stream;

    if (!status)
        return;
    atomic_fetch_add_explicit(&txn->rq.loop->answered, 1, memory_order_relaxed);
    meter_request(meter, status, timed ? txn->answered_us - txn->started_us : -1);
}

static bool had_problem(const struct http_txn *txn, enum MHD_RequestTerminationCode why)
{
    int64_t slow_us = txn->rq.generation->request.slow_us;

    if (txn->rq.response.status >= 400)
        return true;
    if (txn->stream) /* a stream lasts, and ends when its client closes it */
        return false;
    return why != MHD_REQUEST_TERMINATED_COMPLETED_OK ||
           (slow_us && txn->rq.spent.work_us >= slow_us);
}

/* Whether the request is logged: log.access, log.requests, log.sample. */
static bool is_logged(const struct http_txn *txn, enum MHD_RequestTerminationCode why)
{
    static _Thread_local uint64_t count; /* of requests without a problem */
    const struct request_settings *settings = &txn->rq.generation->request;

    if (!log_wants(BB_INFO) || settings->logged == LOGGED_NONE)
        return false;
    if (had_problem(txn, why))
        return true;
    return settings->logged == LOGGED_ALL && count++ % settings->sample == 0;
}

/* Writes one log line per request. The query is omitted because it may contain secrets. */
void response_log(const struct http_txn *txn, enum MHD_RequestTerminationCode why)
{
    const struct core_request *rq = &txn->rq;
    const struct bb_principal *principal = rq->pub.principal;
    char status[TEXT_INTEGER_SIZE], ms[TEXT_MS_SIZE], account[TEXT_INTEGER_SIZE];
    char trace[TRACE_ID_SIZE];
    int64_t us = clock_mono_us() - txn->started_us;
    int answered = txn->rq.response.status;

    count(txn, answered);
    if (!txn->stream)
        slow_log(txn, us);
    if (!is_logged(txn, why))
        return;
    text_integer(answered, status);
    text_ms(us, ms);
    text_integer(principal ? principal->account : 0, account);
    trace_id(rq->trace, trace);
    const struct log_pair pairs[] = {
        {"request", txn->id},
        {"trace", *trace ? trace : NULL},
        {"method", txn->method},
        {"route", txn->match.route ? txn->match.route->path : NULL},
        {"path", txn->path},
        {"status", answered ? status : NULL},
        {"ms", ms},
        {"account", principal ? account : NULL},
        {"client", txn->address[0] ? txn->address : NULL},
        {"cut", why == MHD_REQUEST_TERMINATED_COMPLETED_OK ? NULL : "true"},
    };
    log_pairs(BB_INFO, "request", pairs, sizeof pairs / sizeof *pairs);
}
