/* The answer: sending it, and its line in the log. */
#include <stdio.h>
#include <string.h>

#include "core/exchange.h"
#include "core/log.h"
#include "core/meter.h"
#include "core/stream.h"
#include "core/text.h"

static struct MHD_Response *response_of(struct exchange *exchange)
{
    struct answer *answer = &exchange->rq.answer;

    if (exchange->stream && answer->status == 200)
        return stream_response(exchange->stream);
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

static void add_headers(struct exchange *exchange, struct MHD_Response *response)
{
    const struct answer *answer = &exchange->rq.answer;
    bool own_type = false;

    for (const struct answer_header *h = answer->headers; h; h = h->next) {
        MHD_add_response_header(response, h->name, h->value);
        own_type = own_type || !strcmp(h->name, "Content-Type");
    }
    if (answer->length && !own_type)
        MHD_add_response_header(response, "Content-Type", "application/json; charset=utf-8");
    MHD_add_response_header(response, "X-Request-Id", exchange->id);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    if (exchange->close || exchange->connection->http->draining)
        MHD_add_response_header(response, "Connection", "close");
}

enum MHD_Result answer_send(struct exchange *exchange)
{
    struct MHD_Response *response = response_of(exchange);
    struct answer *answer = &exchange->rq.answer;

    exchange->phase = PHASE_ANSWER;
    exchange->answered_us = clock_mono_us();
    if (!response)
        return MHD_NO;
    add_headers(exchange, response);
    connection_stage(exchange->connection, STAGE_WRITE, answer->length);
    enum MHD_Result queued = MHD_queue_response(exchange->mhd, (unsigned)answer->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* A stream's time says how long somebody listened. */
static void count(const struct exchange *exchange)
{
    struct route_meter *meter = exchange->match.route ? exchange->match.meter : meter_no_route();
    bool timed = exchange->answered_us && !exchange->stream;

    if (exchange->rq.answer.status)
        meter_request(meter, exchange->rq.answer.status,
                      timed ? exchange->answered_us - exchange->started_us : -1);
}

/* One line a request. The query is left out: it may hold what should not be there. */
void answer_log(const struct exchange *exchange, enum MHD_RequestTerminationCode why)
{
    const struct core_request *rq = &exchange->rq;
    const struct bb_principal *principal = rq->pub.principal;
    char status[8], ms[24], account[24];
    int64_t us = clock_mono_us() - exchange->started_us;

    count(exchange);
    if (!exchange->stream)
        slow_log(exchange, us);
    if (!log_wants(BB_INFO) || !settings_int(rq->generation->settings, "log", "access"))
        return;
    snprintf(status, sizeof status, "%d", rq->answer.status);
    snprintf(ms, sizeof ms, "%lld.%03lld", (long long)(us / 1000), (long long)(us % 1000));
    snprintf(account, sizeof account, "%lld", (long long)(principal ? principal->account : 0));
    const struct log_pair pairs[] = {
        {"request", exchange->id},
        {"method", exchange->method},
        {"route", exchange->match.route ? exchange->match.route->path : NULL},
        {"path", exchange->path},
        {"status", rq->answer.status ? status : NULL},
        {"ms", ms},
        {"account", principal ? account : NULL},
        {"client", exchange->address[0] ? exchange->address : NULL},
        {"cut", why == MHD_REQUEST_TERMINATED_COMPLETED_OK ? NULL : "true"},
    };
    log_pairs(BB_INFO, "request", pairs, sizeof pairs / sizeof *pairs);
}
