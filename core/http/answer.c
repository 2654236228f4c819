/* The answer: sending it, and its line in the log. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/meter.h"
#include "core/base/text.h"
#include "core/http/http_txn.h"
#include "core/http/stream.h"
#include "core/request/reply.h"

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
 * To a HEAD: libmicrohttpd would send the last chunk of a body that is not there, unless the end of
 * the connection is that of the body; and of an empty body it would tell the length.
 */
static struct MHD_Response *headers_only(void)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1, no_body, NULL, NULL);

    if (response)
        MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    return response;
}

static struct MHD_Response *response_of_stream(struct http_txn *txn)
{
    bool head = !strcmp(txn->method, "HEAD");

    txn->close = true;
    struct MHD_Response *response = head ? headers_only() : stream_response(txn->stream);

    if (response)
        stream_headers(txn->stream, response);
    return response;
}

static struct MHD_Response *response_of(struct http_txn *txn)
{
    struct answer *answer = &txn->rq.answer;

    if (txn->stream && answer->status == 200)
        return response_of_stream(txn);
    if (answer->file) {
        struct MHD_Response *file = MHD_create_response_from_fd64(answer->length, answer->file);

        if (file)
            answer->file = 0; /* libmicrohttpd closes it */
        return file;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        answer->length, answer->body,
        answer->body ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);

    if (response)
        answer->body = NULL; /* libmicrohttpd frees it */
    return response;
}

static bool stays_open(const struct http_txn *txn)
{
    const struct head *head = &txn->head;

    return !txn->close && !txn->connection->http->draining && !head->closes &&
           (head->minor || head->keeps);
}

/* False without memory. What libmicrohttpd does not let an answer have is left out. */
static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    errno = 0;
    return MHD_add_response_header(response, name, value) == MHD_YES || errno != ENOMEM;
}

/* A client that keeps the connection must not use it just when it is closed. */
static bool tell_idle_time(const struct http_txn *txn, struct MHD_Response *response)
{
    char value[32];

    snprintf(value, sizeof value, "timeout=%lld",
             (long long)(txn->connection->http->settings.idle_ms / 1000));
    MHD_set_response_options(response, MHD_RF_SEND_KEEP_ALIVE_HEADER, MHD_RO_END);
    return add_header(response, "Keep-Alive", value);
}

/*
 * The headers of an answer have to fit in the connection's memory. Only a target that the answer
 * repeats can make them so large.
 */
static void bound_headers(struct http_txn *txn)
{
    size_t bytes = 0;

    for (const struct answer_header *h = txn->rq.answer.headers; h; h = h->next)
        bytes += strlen(h->name) + strlen(h->value);
    if (bytes <= HEADERS_MAX)
        return;
    txn->rq.answer.headers = NULL;
    reply_error(&txn->rq, 414, "The target is too long for the answer to refer to it");
}

/* False without memory: an answer that lacks one might say something else, so it is not given. */
static bool add_headers(struct http_txn *txn, struct MHD_Response *response)
{
    const struct answer *answer = &txn->rq.answer;
    bool own_type = false, added = true;

    for (const struct answer_header *h = answer->headers; h; h = h->next) {
        added = added && add_header(response, h->name, h->value);
        own_type = own_type || !strcmp(h->name, "Content-Type");
    }
    if (answer->length && !own_type)
        added = added && add_header(response, "Content-Type", "application/json; charset=utf-8");
    added = added && add_header(response, "X-Request-Id", txn->id) &&
            add_header(response, "X-Content-Type-Options", "nosniff") &&
            add_header(response, "Cache-Control", "no-store");
    if (stays_open(txn))
        return added && tell_idle_time(txn, response);
    return added && add_header(response, "Connection", "close");
}

enum MHD_Result answer_send(struct http_txn *txn)
{
    struct answer *answer = &txn->rq.answer;
    const char *reason;

    txn->phase = PHASE_ANSWER;
    if (reader_problem(&txn->connection->reader, &reason))
        txn->close = true;
    bound_headers(txn);
    answer_take_room(txn);
    struct MHD_Response *response = response_of(txn);

    txn->answered_us = clock_mono_us();
    body_drop(txn);
    if (!response)
        return MHD_NO;
    if (!add_headers(txn, response)) {
        MHD_destroy_response(response);
        return MHD_NO;
    }
    connection_stage(txn->connection, STAGE_WRITE, answer->length);
    enum MHD_Result queued = MHD_queue_response(txn->mhd, (unsigned)answer->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* A stream's time says how long somebody listened. */
static void count(const struct http_txn *txn, int status)
{
    struct route_meter *meter = txn->match.route ? txn->match.meter : meter_no_route();
    bool timed = txn->answered_us && !txn->stream;

    if (status)
        meter_request(meter, status, timed ? txn->answered_us - txn->started_us : -1);
}

/* One line a request. The query is left out: it may hold what should not be there. */
void answer_log(const struct http_txn *txn, enum MHD_RequestTerminationCode why)
{
    const struct core_request *rq = &txn->rq;
    const struct bb_principal *principal = rq->pub.principal;
    char status[8], ms[24], account[24];
    int64_t us = clock_mono_us() - txn->started_us;
    int answered = txn->rq.answer.status;

    count(txn, answered);
    if (!txn->stream)
        slow_log(txn, us);
    if (!log_wants(BB_INFO) || !settings_int(rq->generation->settings, "log", "access"))
        return;
    snprintf(status, sizeof status, "%d", answered);
    snprintf(ms, sizeof ms, "%lld.%03lld", (long long)(us / 1000), (long long)(us % 1000));
    snprintf(account, sizeof account, "%lld", (long long)(principal ? principal->account : 0));
    const struct log_pair pairs[] = {
        {"request", txn->id},
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
