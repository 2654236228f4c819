#include "core/server/response.h"

#include <errno.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/lib/meter.h"
#include "core/lib/text.h"
#include "core/module/reply.h"
#include "core/server/body.h"
#include "core/server/stream.h"

enum { HEADERS_MAX = 6 * 1024 };

/* ---- memory ---- */

static bool response_reads_only(const struct http_txn *txn)
{
    return !strcmp(txn->method, "GET") || !strcmp(txn->method, "HEAD");
}

int response_check_budget(struct http_txn *txn)
{
    struct quota_table *table = &quota_tables[QUOTA_ANSWERS];

    if (response_reads_only(txn) || !quota_taken(table) ||
        quota_entry_of(table, &txn->rq.owner) <
            quota_bounds(txn->rq.generation, QUOTA_ANSWERS).each)
        return 0;
    return body_refuse_room(&txn->rq, QUOTA_ANSWERS, QUOTA_OWN_FULL);
}

/* Returns whether the request must be refused; GET /metrics, which reports the lack, never is. */
static bool response_count(struct http_txn *txn, enum quota quota, size_t bytes,
                           struct quota_charge *charge, enum quota_result *answer)
{
    const struct bb_route *route = txn->match.route;
    struct quota_limits bounds = {SIZE_MAX, SIZE_MAX};

    if (response_reads_only(txn) && !(route && route->flags & BB_INSIDE))
        bounds = quota_bounds(txn->rq.generation, QUOTA_ANSWERS);
    *answer = quota_take(&quota_tables[quota], charge, &txn->rq.owner, bytes, &bounds);
    return *answer == QUOTA_OWN_FULL || *answer == QUOTA_ALL_FULL;
}

int response_take_json(struct http_txn *txn, size_t bytes, struct quota_charge *charge)
{
    enum quota_result why;

    if (!response_count(txn, QUOTA_UNWRITTEN, bytes, charge, &why))
        return 0;
    return body_refuse_room(&txn->rq, QUOTA_ANSWERS, why);
}

void response_take_budget(struct http_txn *txn)
{
    struct response *response = txn->answer;
    enum quota_result why;

    if (!response->body || response->length < BODY_LARGE || txn->response_charge.bytes ||
        !response_count(txn, QUOTA_ANSWERS, response->length, &txn->response_charge, &why))
        return;
    body_refuse_room(&txn->rq, QUOTA_ANSWERS, why);
}

/* ---- sending ---- */

static ssize_t response_no_body(void *cls, uint64_t position, char *into, size_t room)
{
    (void)cls;
    (void)position;
    (void)into;
    (void)room;
    return MHD_CONTENT_READER_END_OF_STREAM;
}

/* Returns false if memory ran out. Headers that libmicrohttpd does not allow are omitted. */
static bool response_add_header(struct MHD_Response *mhd, const char *name, const char *value)
{
    errno = 0;
    return MHD_add_response_header(mhd, name, value) == MHD_YES || errno != ENOMEM;
}

static struct MHD_Response *response_of(struct http_txn *txn)
{
    struct response *response = txn->answer;

    if (txn->stream && response->status == 200) {
        txn->close = true;
        if (strcmp(txn->method, "HEAD") != 0)
            return stream_response(txn->stream);
        /* With an empty body, libmicrohttpd would send its length; with a chunked one, the last
         * chunk of a body that does not exist. So the body is declared to end with the connection.
         */
        struct MHD_Response *head =
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1, response_no_body, NULL, NULL);

        if (head)
            MHD_set_response_options(head, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
        return head;
    }
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

/* Returns false if memory ran out: an incomplete response must not be sent. */
static bool response_add_headers(struct http_txn *txn, struct MHD_Response *mhd)
{
    const struct response *response = txn->answer;
    const struct http *http = txn->connection->http;
    const struct head *head = &txn->head;
    bool stays = !txn->close && !http->draining && !head->closes && (head->minor || head->keeps);
    bool own_type = false, kept = false, added = true;
    char idle[TEXT_INTEGER_SIZE + sizeof "timeout="] = "timeout=";

    for (const struct response_header *h = response->headers; h; h = h->next) {
        added = added && response_add_header(mhd, h->name, h->value);
        own_type = own_type || !strcmp(h->name, "Content-Type");
        kept = kept || !strcmp(h->name, "Cache-Control");
    }
    if (txn->stream && response->status == 200)
        added = added && response_add_header(mhd, "Content-Type", stream_type(txn->stream)) &&
                response_add_header(mhd, "X-Accel-Buffering", "no");
    else if (response->length && !own_type)
        added =
            added && response_add_header(mhd, "Content-Type", "application/json; charset=utf-8");
    added = added && response_add_header(mhd, "X-Request-Id", txn->id) &&
            response_add_header(mhd, "X-Content-Type-Options", "nosniff") &&
            (kept || response_add_header(mhd, "Cache-Control", "no-store"));
    if (!stays)
        return added && response_add_header(mhd, "Connection", "close");
    /* announces the idle timeout, so that the client does not reuse a closed connection */
    text_integer(http->settings.idle_ms / 1000, idle + strlen(idle));
    MHD_set_response_options(mhd, MHD_RF_SEND_KEEP_ALIVE_HEADER, MHD_RO_END);
    return added && response_add_header(mhd, "Keep-Alive", idle);
}

enum MHD_Result response_send(struct http_txn *txn)
{
    struct response *response = txn->answer;
    size_t bytes = 0;

    txn->phase = PHASE_ANSWER;
    txn->close = txn->close || txn->connection->reader.status;
    /* They must fit into the connection's memory. Only a response that repeats the target of the
     * request can have more. */
    for (const struct response_header *h = response->headers; h; h = h->next)
        bytes += strlen(h->name) + strlen(h->value);
    if (bytes > HEADERS_MAX) {
        response->headers = NULL;
        reply_error(&txn->rq, 414, "The request target is too long to be repeated in the response");
    }
    struct MHD_Response *mhd = response_of(txn);

    txn->answered_us = clock_mono_us();
    body_drop(txn);
    if (!mhd)
        return MHD_NO;
    if (!response_add_headers(txn, mhd)) {
        MHD_destroy_response(mhd);
        return MHD_NO;
    }
    connection_stage(txn->connection, STAGE_WRITE, response->length);
    enum MHD_Result queued = MHD_queue_response(txn->mhd, (unsigned)response->status, mhd);
    MHD_destroy_response(mhd);
    return queued;
}

/* ---- the log ---- */

/*
 * Logs one line per request, according to log.access, log.requests and log.sample, without the
 * query, which may contain secrets. The duration of a stream depends on the client, so a stream is
 * neither measured nor slow.
 */
void response_log(const struct http_txn *txn, enum MHD_RequestTerminationCode why)
{
    static _Thread_local uint64_t count; /* of requests without a problem */
    const struct core_request *rq = &txn->rq;
    const struct host_settings *host = rq->generation->host;
    const struct bb_principal *principal = rq->pub.principal;
    const struct bb_route *route = txn->match.route;
    char status[TEXT_INTEGER_SIZE], ms[TEXT_MS_SIZE], account[TEXT_INTEGER_SIZE];
    char trace[TRACE_ID_SIZE];
    int64_t us = clock_mono_us() - txn->started_us;
    int answered = txn->answer->status;
    int64_t slow_us = host->http.slow_request * 1000; /* 0: none */
    bool slow = !txn->stream && slow_us && rq->time_spent.work_us >= slow_us;
    bool cut = why != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    bool problem = answered >= 400 || slow || (cut && !txn->stream);
    bool logged =
        log_wants(BB_INFO) && host->log.access && *host->log.requests != 'n' &&
        (problem || (*host->log.requests == 'a' && count++ % (uint64_t)host->log.sample == 0));

    if (answered) {
        atomic_fetch_add_explicit(&rq->loop->answered, 1, memory_order_relaxed);
        meter_request(route ? txn->match.meter : meter_no_route(), answered,
                      txn->answered_us && !txn->stream ? txn->answered_us - txn->started_us : -1);
        if (txn->entered)
            meter_add_time(txn->entered->meter, ACCOUNT_TIMES, rq->time_spent.work_us);
    }
    if (!slow && !logged)
        return;
    text_integer(answered, status);
    text_ms(us, ms);
    text_integer(principal ? principal->account : 0, account);
    trace_id(rq->trace, trace);
    if (slow) {
        /* `handler` is the rest: the module's code, its pool calls, and Redis. Time in which the
         * client sends or reads does not count. */
        const struct request_spent *spent = &rq->time_spent;
        const int64_t spent_us[] = {spent->work_us, spent->queue_us, spent->database_us,
                                    spent->work_us - spent->queue_us - spent->database_us};
        char parts[4][TEXT_MS_SIZE];

        for (int i = 0; i < 4; i++)
            text_ms(spent_us[i] > 0 ? spent_us[i] : 0, parts[i]);
        log_line(BB_WARN, "slow request", "request", txn->id, "trace", trace, "method", txn->method,
                 "route", route ? route->path : "none", "status", status, "ms", ms, "work_ms",
                 parts[0], "queue_ms", parts[1], "database_ms", parts[2], "handler_ms", parts[3],
                 NULL);
    }
    if (!logged)
        return;
    const struct log_pair pairs[] = {
        {"request", txn->id},
        {"trace", *trace ? trace : NULL},
        {"method", txn->method},
        {"route", route ? route->path : NULL},
        {"path", txn->path},
        {"status", answered ? status : NULL},
        {"ms", ms},
        {"account", principal ? account : NULL},
        {"client", txn->address[0] ? txn->address : NULL},
        {"cut", cut ? "true" : NULL},
    };
    log_pairs(BB_INFO, "request", pairs, sizeof pairs / sizeof *pairs);
}
