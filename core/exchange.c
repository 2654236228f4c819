#include "core/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "core/engine.h"
#include "core/fiber.h"
#include "core/idempotency.h"
#include "core/json_in.h"
#include "core/log.h"
#include "core/pool.h"
#include "core/reply.h"
#include "core/stream.h"
#include "core/text.h"
#include "core/upload.h"

/* A body that will not be read is still taken up to here, so that the client sees the answer. */
enum { DRAIN_MAX = 32 * 1024 * 1024 };

void exchange_free(struct exchange *exchange)
{
    body_free(exchange);
    answer_give_room(exchange);
    request_free(&exchange->rq);
}

const char *exchange_header(const struct exchange *exchange, const char *name)
{
    const char *value = MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, name);
    size_t length = value ? strlen(value) : 0, all = length;

    /* libmicrohttpd leaves the blanks behind a value, which are none of it (RFC 9110, 5.5) */
    while (length && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        length--;
    const char *trimmed = length < all ? arena_text(exchange->rq.arena, value, length) : NULL;

    return trimmed ? trimmed : value;
}

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void split_target(struct exchange *exchange, const char *uri)
{
    char *target = arena_text(exchange->rq.arena, uri, strlen(uri));
    char *path = arena_text(exchange->rq.arena, uri, strcspn(uri, "?"));

    if (!target || !path)
        return;
    const char *mark = strchr(target, '?');
    exchange->target = target;
    exchange->path = path;
    exchange->query = mark ? mark + 1 : NULL;
}

static void fiber_ended(struct core_request *rq);

/* libmicrohttpd sees the end of the socket, and then ends the exchange. */
static void exchange_cut(struct core_request *rq)
{
    connection_cut(((struct exchange *)(void *)rq)->connection);
}

void *exchange_uri(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct http *http = cls;
    struct exchange *exchange = NULL;
    struct connection *connection = connection_of(mhd);
    struct generation *generation = engine_generation(http->loop->engine);

    if (connection && !connection->cut) /* else what had come before is not served any more */
        exchange = request_make(sizeof *exchange, REQUEST_HTTP, http->loop, generation);
    generation_release(generation); /* the request holds its own */
    if (!exchange)
        return NULL;
    exchange->mhd = mhd;
    exchange->connection = connection;
    exchange->rq.ended = fiber_ended;
    exchange->rq.cut = exchange_cut;
    exchange->started_us = clock_mono_us();
    exchange->rq.id = exchange->id;
    exchange->connection->request_id = exchange->id;
    split_target(exchange, uri);
    connection_stage(exchange->connection, STAGE_HEADER, 0);
    return exchange;
}

/* The fiber has ended: the phase it served is over. On the loop's stack. */
static void fiber_ended(struct core_request *rq)
{
    struct exchange *exchange = (struct exchange *)(void *)rq;

    timer_clear(&rq->loop->timers, &rq->deadline);
    rq->spent.work_us += clock_mono_us() - exchange->phase_us;
    if (rq->answer.status)
        exchange->phase = PHASE_ANSWER;
    else
        exchange->phase = PHASE_BODY;
    if (!exchange->suspended)
        return;
    exchange->suspended = false;
    MHD_resume_connection(exchange->mhd);
}

/* Runs a phase on a fiber; suspends the connection if it parks. */
static void run_phase(struct exchange *exchange, enum exchange_phase phase,
                      void (*entry)(struct core_request *))
{
    exchange->phase = phase;
    exchange->rq.entry = entry;
    exchange->phase_us = clock_mono_us();
    if (request_start(&exchange->rq))
        return;
    exchange->suspended = true;
    MHD_suspend_connection(exchange->mhd);
}

static unsigned deadline_of(const struct exchange *exchange)
{
    unsigned own = exchange->match.route->deadline_ms;

    if (own)
        return own;
    return (unsigned)settings_int(exchange->rq.generation->settings, "http", "deadline");
}

static bool wants_idempotency(const struct exchange *exchange)
{
    return exchange->match.route->flags & BB_CREATES &&
           exchange_header(exchange, "Idempotency-Key") != NULL;
}

static bool ends_in_blank(const char *text)
{
    return *text && strchr(" \t", text[strlen(text) - 1]);
}

static int begin_idempotency(struct exchange *exchange)
{
    const char *identity = exchange->bytes, *key = exchange_header(exchange, "Idempotency-Key");
    size_t length = exchange->length;

    if (exchange->upload)
        identity = upload_identity(exchange->upload, &length);
    if ((exchange->upload && !identity) || ends_in_blank(key)) /* with blanks it is another one */
        request_out_of_memory(&exchange->rq);
    return idempotency_begin(&exchange->rq, exchange->match.route, exchange->target, key, identity,
                             length);
}

static void handler_entry(struct core_request *rq)
{
    struct exchange *exchange = (struct exchange *)(void *)rq;
    const struct bb_route *route = exchange->match.route;

    if (exchange->upload && upload_wait(exchange->upload))
        return;
    if (wants_idempotency(exchange) && begin_idempotency(exchange))
        return;
    route->handler(&rq->pub);
    if (rq->answer.status)
        return;
    log_line(BB_ERROR, "a handler gave no answer", "route", route->path, NULL);
    reply_error(rq, 500, "Internal server error");
}

static void check_aside(void *arg)
{
    body_check(arg);
}

/*
 * A megabyte of JSON takes ten milliseconds and more, in which a loop would serve nobody else: it
 * is read by a thread of the host's pool.
 */
static void large_entry(struct core_request *rq)
{
    if (pool_run(rq, check_aside, rq))
        reply_failed(rq);
    if (!rq->answer.status)
        handler_entry(rq);
}

static bool is_large(const struct exchange *exchange)
{
    return !exchange->multipart && exchange->length >= BODY_LARGE;
}

/* The whole request is there. */
static enum MHD_Result request_complete(struct exchange *exchange)
{
    bool large = is_large(exchange);

    if (exchange->drop_body || answer_check_room(exchange) || (!large && body_check(exchange)))
        return answer_send(exchange);
    connection_stage(exchange->connection, STAGE_HANDLER, 0);
    exchange->rq.deadline_ms = exchange->rq.loop->now_ms + deadline_of(exchange);
    run_phase(exchange, PHASE_HANDLER, large ? large_entry : handler_entry);
    if (exchange->phase == PHASE_BODY) { /* cannot be: handler_entry() always answers */
        reply_error(&exchange->rq, 500, "Internal server error");
        exchange->phase = PHASE_ANSWER;
    }
    return exchange->phase == PHASE_ANSWER ? answer_send(exchange) : MHD_YES;
}

/*
 * An answer before the body. Given in this call it ends the connection (libmicrohttpd reads no
 * further request then), so it is where nothing more shall be read; else it is given in the last
 * call, when the body, if one follows, has been taken and thrown away.
 */
static enum MHD_Result answer_early(struct exchange *exchange)
{
    bool follows = body_follows(exchange);
    bool asks = follows && exchange_header(exchange, "Expect");

    exchange->phase = PHASE_ANSWER;
    if (exchange->close || asks || body_declared(exchange) > DRAIN_MAX) {
        exchange->close = true;
        return answer_send(exchange);
    }
    exchange->drop_body = true;
    if (follows)
        connection_stage(exchange->connection, STAGE_BODY, 0);
    return MHD_YES;
}

static enum MHD_Result begin(struct exchange *exchange, const char *method, const char *version)
{
    exchange->phase = PHASE_BODY;
    exchange->method = arena_text(exchange->rq.arena, method, strlen(method));
    if (!exchange->target || !exchange->method) {
        request_fail(&exchange->rq, FAILED_MEMORY);
        reply_failed(&exchange->rq);
        exchange->close = true;
        return answer_early(exchange);
    }
    if (admission_check(exchange, method, version))
        return answer_early(exchange);
    connection_stage(exchange->connection, STAGE_BODY, 0);
    if (admission_free(exchange))
        return MHD_YES;
    exchange->rq.deadline_ms = exchange->rq.loop->now_ms + deadline_of(exchange);
    run_phase(exchange, PHASE_ADMISSION, admission_entry);
    exchange->first_again = exchange->suspended;
    return exchange->phase == PHASE_ANSWER ? answer_early(exchange) : MHD_YES;
}

/* Refused on a suspended way: the body may still come, and is thrown away up to a bound. */
static enum MHD_Result take_piece(struct exchange *exchange, const char *data, size_t *size)
{
    size_t piece = *size;

    exchange->connection->http->stirred = true;
    *size = 0;
    if (exchange->phase == PHASE_ANSWER)
        exchange->drop_body = true;
    if (!exchange->drop_body && body_take(exchange, data, piece)) {
        exchange->phase = PHASE_ANSWER;
        exchange->drop_body = true;
        body_drop(exchange);
    }
    if (exchange->drop_body) {
        size_t most = exchange->upload && exchange->limit > DRAIN_MAX ? exchange->limit : DRAIN_MAX;

        exchange->dropped += piece;
        return exchange->dropped > most ? MHD_NO : MHD_YES;
    }
    if (exchange->upload && upload_stalls(exchange->upload))
        MHD_suspend_connection(exchange->mhd);
    return MHD_YES;
}

static enum MHD_Result go_on(struct exchange *exchange, const char *data, size_t *size)
{
    if (exchange->first_again) {
        exchange->first_again = false;
        return exchange->phase == PHASE_ANSWER ? answer_early(exchange) : MHD_YES;
    }
    if (*size)
        return take_piece(exchange, data, size);
    if (exchange->phase == PHASE_ANSWER)
        return answer_send(exchange);
    return request_complete(exchange);
}

enum MHD_Result exchange_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **context)
{
    struct exchange *exchange = *context;

    (void)cls;
    (void)mhd;
    (void)url;
    if (!exchange)
        return MHD_NO; /* out of memory when the request line came */
    bool *before = json_starves(&exchange->rq.starved);
    enum MHD_Result result = exchange->phase == PHASE_HEADERS ? begin(exchange, method, version)
                                                              : go_on(exchange, data, size);

    json_starves(before);
    return result;
}

void exchange_completed(void *cls, struct MHD_Connection *mhd, void **context,
                        enum MHD_RequestTerminationCode why)
{
    struct exchange *exchange = *context;

    (void)cls;
    (void)mhd;
    *context = NULL;
    if (!exchange)
        return;
    if (exchange->stream)
        stream_closed(exchange->stream);
    answer_log(exchange, why);
    exchange->connection->request_id = NULL;
    connection_stage(exchange->connection, STAGE_IDLE, 0);
    if (exchange->upload)
        upload_end(exchange->upload);
    else
        exchange_free(exchange);
}
