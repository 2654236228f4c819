#include "core/http/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/json_in.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/engine/engine.h"
#include "core/http/stream.h"
#include "core/http/upload.h"
#include "core/loop/fiber.h"
#include "core/request/mistake.h"
#include "core/request/pool.h"
#include "core/request/reply.h"
#include "core/transaction/idempotency.h"

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
    return head_value(&exchange->head, name);
}

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* Takes the head from the reader. Without memory there is no target. */
static int take_head(struct exchange *exchange)
{
    struct head *head = &exchange->head;
    struct arena *arena = exchange->rq.arena;

    if (reader_take(&exchange->connection->reader, arena, head))
        return -1;
    const char *target = head->split ? head->text + head->target : "";
    size_t length = strcspn(target, "?");

    exchange->method = head->split ? head->text + head->method : "";
    exchange->query = target[length] ? target + length + 1 : NULL;
    exchange->path = target[length] ? arena_text(arena, target, length) : target;
    exchange->target = exchange->path ? target : NULL;
    return 0;
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

    (void)uri; /* the reader's */
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
    exchange->rq.leave = exchange_leave;
    exchange->started_us = clock_mono_us();
    exchange->rq.id = exchange->id;
    if (take_head(exchange))
        exchange->close = true;
    connection_stage(exchange->connection, STAGE_HEADER, 0);
    return exchange;
}

/* The fiber has ended: the phase it served is over. On the loop's stack. */
static void fiber_ended(struct core_request *rq)
{
    struct exchange *exchange = (struct exchange *)(void *)rq;

    timer_clear(&rq->loop->timers, &rq->deadline);
    if (exchange->late) {
        exchange_over(exchange);
        return;
    }
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
    const struct bb_route *route = exchange->match.route; /* NULL: the path has other methods */
    unsigned own = route ? route->deadline_ms : 0;

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
    if (admission_again(rq))
        return;
    rq->judged = rq->errors != NULL;
    if (!rq->errors && wants_idempotency(exchange) && begin_idempotency(exchange))
        return;
    mistake_look_back(rq, route->handler(&rq->pub));
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
    const char *reason;
    int problem = reader_problem(&exchange->connection->reader, &reason);

    if (problem)
        reply_error(&exchange->rq, problem, "%s", reason);
    if (problem || exchange->drop_body || answer_check_room(exchange) ||
        (!large && body_check(exchange)))
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

/* A body of chunks has no end that one could wait for. */
static void drop_chunks(struct exchange *exchange)
{
    if (exchange->head.chunked)
        connection_drops_body(exchange->connection, exchange->mhd, exchange->rq.answer.status);
}

/*
 * An answer before the body. Given in this call it ends the connection (libmicrohttpd reads no
 * further request then), so it is where nothing more shall be read; else it is given in the last
 * call, when the body, if one follows, has been taken and thrown away.
 */
static enum MHD_Result answer_early(struct exchange *exchange)
{
    bool follows = body_follows(exchange);
    bool asks = follows && exchange->head.expects;

    exchange->phase = PHASE_ANSWER;
    if (exchange->close || asks || exchange->head.length > DRAIN_MAX) {
        exchange->close = true;
        return answer_send(exchange);
    }
    exchange->drop_body = true;
    if (follows)
        connection_stage(exchange->connection, STAGE_BODY, 0);
    drop_chunks(exchange);
    return MHD_YES;
}

static enum MHD_Result begin(struct exchange *exchange)
{
    exchange->phase = PHASE_BODY;
    if (!exchange->target) {
        request_fail(&exchange->rq, FAILED_MEMORY);
        reply_failed(&exchange->rq);
        exchange->close = true;
        return answer_early(exchange);
    }
    if (admission_check(exchange))
        return answer_early(exchange);
    connection_stage(exchange->connection, STAGE_BODY, 0);
    if (admission_free(exchange))
        return MHD_YES;
    exchange->rq.deadline_ms = exchange->rq.loop->now_ms + deadline_of(exchange);
    run_phase(exchange, PHASE_ADMISSION, admission_entry);
    exchange->first_again = exchange->suspended;
    return exchange->phase == PHASE_ANSWER ? answer_early(exchange) : MHD_YES;
}

/* Whether the answer is known, or is now; data[0..size) is a piece more of the body. */
static bool is_refused(struct exchange *exchange, const char *data, size_t size)
{
    const char *reason;
    int problem = reader_problem(&exchange->connection->reader, &reason);

    if (exchange->drop_body)
        return true;
    if (exchange->phase != PHASE_ANSWER) {
        if (problem)
            reply_error(&exchange->rq, problem, "%s", reason);
        else if (!body_take(exchange, data, size))
            return false;
        exchange->phase = PHASE_ANSWER;
        body_drop(exchange);
    }
    exchange->drop_body = true;
    drop_chunks(exchange);
    return true;
}

/* What comes is thrown away, up to a bound. */
static enum MHD_Result drop_piece(struct exchange *exchange, size_t size)
{
    size_t most = exchange->upload && exchange->limit > DRAIN_MAX ? exchange->limit : DRAIN_MAX;

    exchange->dropped += size;
    if (exchange->dropped > most)
        connection_stop_body(exchange->connection, exchange->mhd, exchange->rq.answer.status);
    return MHD_YES;
}

/*
 * libmicrohttpd goes on with the chunks that it has read even where the connection is suspended:
 * they are left to it.
 */
static enum MHD_Result take_piece(struct exchange *exchange, const char *data, size_t *size)
{
    size_t piece = *size;

    if (exchange->upload && exchange->upload->stalled)
        return MHD_YES;
    exchange->connection->http->progressed = true;
    *size = 0;
    if (is_refused(exchange, data, piece))
        return drop_piece(exchange, piece);
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
    struct exchange *exchange = exchange_owner(*context);

    *context = exchange;
    (void)cls;
    (void)mhd;
    (void)url; /* these three are the reader's */
    (void)method;
    (void)version;
    if (!exchange)
        return MHD_NO; /* out of memory when the request line came */
    bool *before = json_starves(&exchange->rq.starved);
    enum MHD_Result result =
        exchange->phase == PHASE_HEADERS ? begin(exchange) : go_on(exchange, data, size);

    json_starves(before);
    return result;
}

void exchange_completed(void *cls, struct MHD_Connection *mhd, void **context,
                        enum MHD_RequestTerminationCode why)
{
    struct exchange *exchange = exchange_owner(*context);

    (void)cls;
    *context = NULL;
    if (!exchange)
        return;
    if (exchange->stream)
        stream_closed(exchange->stream);
    answer_log(exchange, why);
    connection_stage(exchange->connection, STAGE_IDLE, 0);
    connection_answered(exchange->connection, mhd);
    if (exchange->upload)
        upload_end(exchange->upload);
    else
        exchange_free(exchange);
}
