#include "core/server/http_txn.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/fiber.h"
#include "core/lib/json_in.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/module/engine.h"
#include "core/module/module_error.h"
#include "core/module/pool.h"
#include "core/module/reply.h"
#include "core/server/stream.h"
#include "core/server/upload.h"
#include "core/store/idempotency.h"
#include "core/store/pg.h"

/* An unwanted body is read up to this size, so that the client gets the answer. */
enum { DRAIN_MAX = 32 * 1024 * 1024 };

enum { REFUSED_MS = 100 };

void http_txn_free(struct http_txn *txn)
{
    body_free(txn);
    response_release_budget(txn);
    access_leave(txn);
    request_free(&txn->rq);
}

const char *http_txn_header(const struct http_txn *txn, const char *name)
{
    return head_value(&txn->head, name);
}

const char *http_txn_list(const struct http_txn *txn, const char *name)
{
    const struct head *head = &txn->head;
    const char *list = NULL;

    for (size_t i = 0; i < head->count; i++) {
        const char *value = head->text + head->fields[i].value;

        if (strcasecmp(head->text + head->fields[i].name, name) != 0)
            continue;
        list = list ? arena_format(txn->rq.arena, "%s, %s", list, value) : value;
        if (!list)
            return "-";
    }
    return list;
}

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* Takes the head from the reader. If memory runs out, there is no target. */
static int take_head(struct http_txn *txn)
{
    struct head *head = &txn->head;
    struct arena *arena = txn->rq.arena;

    if (reader_take(&txn->connection->reader, arena, head))
        return -1;
    const char *target = head->split ? head->text + head->target : "";
    size_t length = strcspn(target, "?");

    txn->method = head->split ? head->text + head->method : "";
    txn->query = target[length] ? target + length + 1 : NULL;
    txn->path = target[length] ? arena_text(arena, target, length) : target;
    txn->target = txn->path ? target : NULL;
    return 0;
}

static void fiber_ended(struct core_request *rq);

/* libmicrohttpd notices the end of the socket and ends the HTTP transaction. */
static void http_txn_cut(struct core_request *rq)
{
    connection_cut(((struct http_txn *)(void *)rq)->connection);
}

void *http_txn_uri(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct http *http = cls;
    struct http_txn *txn = NULL;

    (void)uri; /* the reader's is used */
    struct connection *connection = connection_of(mhd);
    struct generation *generation = engine_generation(http->loop->engine);

    if (connection && !connection->cut) /* data that arrived before the cut is not served */
        txn = request_make(sizeof *txn, REQUEST_HTTP, http->loop, generation);
    generation_release(generation); /* the request has its own reference */
    if (!txn)
        return NULL;
    txn->mhd = mhd;
    txn->connection = connection;
    txn->rq.ended = fiber_ended;
    txn->rq.cut = http_txn_cut;
    txn->rq.leave = http_txn_leave;
    txn->started_us = clock_mono_us();
    txn->rq.id = txn->id;
    if (take_head(txn))
        txn->close = true;
    connection_stage(txn->connection, STAGE_HEADER, 0);
    return txn;
}

/* The fiber has ended, and with it its phase. Runs on the loop's stack. */
static void fiber_ended(struct core_request *rq)
{
    struct http_txn *txn = (struct http_txn *)(void *)rq;

    timer_clear(&rq->loop->timers, &rq->deadline);
    if (txn->late) {
        http_txn_over(txn);
        return;
    }
    rq->spent.work_us += clock_mono_us() - txn->phase_us;
    if (rq->response.status)
        txn->phase = PHASE_ANSWER;
    else
        txn->phase = PHASE_BODY;
    if (!txn->suspended)
        return;
    txn->suspended = false;
    MHD_resume_connection(txn->mhd);
}

/* Runs a phase on a fiber; suspends the connection if the fiber parks. */
static void run_phase(struct http_txn *txn, enum http_txn_phase phase,
                      void (*entry)(struct core_request *))
{
    txn->phase = phase;
    txn->rq.entry = entry;
    txn->phase_us = clock_mono_us();
    if (request_start(&txn->rq))
        return;
    txn->suspended = true;
    MHD_suspend_connection(txn->mhd);
}

static unsigned deadline_of(const struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route; /* NULL: the path exists with other methods */
    unsigned own = route ? route->deadline_ms : 0;

    if (own)
        return own;
    return (unsigned)txn->rq.generation->request.deadline_ms;
}

static bool wants_idempotency(const struct http_txn *txn)
{
    return txn->match.route->flags & BB_CREATES && http_txn_header(txn, "Idempotency-Key") != NULL;
}

static bool ends_in_blank(const char *text)
{
    return *text && strchr(" \t", text[strlen(text) - 1]);
}

static int begin_idempotency(struct http_txn *txn)
{
    const char *identity = txn->bytes, *key = http_txn_header(txn, "Idempotency-Key");
    size_t length = txn->length;

    if (txn->upload)
        identity = upload_identity(txn->upload, &length);
    if ((txn->upload && !identity) || ends_in_blank(key)) /* a key with trailing blanks would be
                                                           * a different one */
        request_out_of_memory(&txn->rq);
    return idempotency_begin(&txn->rq, txn->match.route, txn->target, key, identity, length);
}

/*
 * Delays a 429 a little, so that a client that repeats refused requests immediately takes no more
 * of the loop's time than others. On the fiber.
 */
void http_txn_slow_down(struct core_request *rq)
{
    struct http_txn *txn = (struct http_txn *)(void *)rq;

    if (rq->response.status != 429 || txn->slowed)
        return;
    txn->slowed = true;
    request_sleep(rq, REFUSED_MS);
}

/* Whether the answer is a 429 that was not delayed yet. */
static bool is_hasty(const struct http_txn *txn)
{
    return txn->rq.response.status == 429 && !txn->slowed;
}

/* Sends the answer, a 429 after its delay. */
static enum MHD_Result answer(struct http_txn *txn)
{
    if (!txn->stream) /* a client may take long to read the answer, and its handler has ended */
        pg_kept_release(txn->rq.arena);
    response_take_budget(txn);
    if (is_hasty(txn)) {
        connection_stage(txn->connection, STAGE_HANDLER, 0);
        run_phase(txn, PHASE_HANDLER, http_txn_slow_down);
        if (txn->phase != PHASE_ANSWER)
            return MHD_YES;
    }
    return response_send(txn);
}

static void handler_entry(struct core_request *rq)
{
    struct http_txn *txn = (struct http_txn *)(void *)rq;
    const struct bb_route *route = txn->match.route;

    if (txn->upload && upload_wait(txn->upload))
        return;
    if (access_again(rq))
        return;
    rq->only_names_problems = rq->errors != NULL;
    if (!rq->errors && wants_idempotency(txn) && begin_idempotency(txn))
        return;
    module_error_look_back(rq, route->handler(&rq->pub));
    http_txn_slow_down(rq);
}

static void check_aside(void *arg)
{
    body_check(arg);
}

/*
 * A pool thread of the host parses large bodies, because a megabyte of JSON takes ten milliseconds
 * or more, during which a loop could not serve others.
 */
static void large_entry(struct core_request *rq)
{
    if (pool_run(rq, check_aside, rq)) {
        reply_failed(rq);
        http_txn_slow_down(rq);
    }
    if (!rq->response.status)
        handler_entry(rq);
}

static bool is_large(const struct http_txn *txn)
{
    return !txn->multipart && txn->length >= BODY_LARGE;
}

/* The whole request has arrived. */
static enum MHD_Result request_complete(struct http_txn *txn)
{
    bool large = is_large(txn);
    const char *reason;
    int problem = reader_problem(&txn->connection->reader, &reason);

    if (problem)
        reply_error(&txn->rq, problem, "%s", reason);
    if (problem || txn->drop_body || response_check_budget(txn) || (!large && body_check(txn)))
        return answer(txn);
    connection_stage(txn->connection, STAGE_HANDLER, 0);
    txn->rq.deadline_ms = txn->rq.loop->now_ms + deadline_of(txn);
    run_phase(txn, PHASE_HANDLER, large ? large_entry : handler_entry);
    if (txn->phase == PHASE_BODY) { /* cannot happen: handler_entry() always answers */
        reply_error(&txn->rq, 500, "Internal server error");
        txn->phase = PHASE_ANSWER;
    }
    return txn->phase == PHASE_ANSWER ? answer(txn) : MHD_YES;
}

/* A chunked body has no known length, so it cannot be drained. */
static void drop_chunks(struct http_txn *txn)
{
    if (txn->head.chunked)
        connection_drops_body(txn->connection, txn->mhd, txn->rq.response.status);
}

/*
 * Answers before the body was read. An answer in this call closes the connection, because
 * libmicrohttpd reads no further request then; that is used if nothing more should be read.
 * Otherwise the answer is given in the last call, after the body, if any, was read and discarded.
 */
static enum MHD_Result response_early(struct http_txn *txn)
{
    bool follows = body_follows(txn);
    bool asks = follows && txn->head.expects;

    txn->phase = PHASE_ANSWER;
    if (txn->close || asks || txn->head.length > DRAIN_MAX) {
        txn->close = true;
        return response_send(txn);
    }
    txn->drop_body = true;
    if (follows)
        connection_stage(txn->connection, STAGE_BODY, 0);
    drop_chunks(txn);
    return MHD_YES;
}

static enum MHD_Result begin(struct http_txn *txn)
{
    txn->phase = PHASE_BODY;
    if (!txn->target) { /* there are no headers either, which may contain an id */
        text_uuid7(txn->id);
        trace_parent(NULL, txn->rq.trace);
        request_fail(&txn->rq, FAILED_MEMORY);
        reply_failed(&txn->rq);
        txn->close = true;
        return response_early(txn);
    }
    bool refused = access_check(txn) != 0;

    if (refused && !is_hasty(txn))
        return response_early(txn);
    connection_stage(txn->connection, STAGE_BODY, 0);
    if (!refused && access_is_public(txn))
        return MHD_YES;
    txn->rq.deadline_ms = txn->rq.loop->now_ms + deadline_of(txn);
    run_phase(txn, PHASE_ADMISSION, refused ? http_txn_slow_down : access_entry);
    txn->first_again = txn->suspended;
    return txn->phase == PHASE_ANSWER ? response_early(txn) : MHD_YES;
}

/*
 * Whether the answer is already decided, or is decided now; data[0..size) is the next piece of the
 * body.
 */
static bool is_refused(struct http_txn *txn, const char *data, size_t size)
{
    const char *reason;
    int problem = reader_problem(&txn->connection->reader, &reason);

    if (txn->drop_body)
        return true;
    if (txn->phase != PHASE_ANSWER) {
        if (problem)
            reply_error(&txn->rq, problem, "%s", reason);
        else if (!body_take(txn, data, size))
            return false;
        txn->phase = PHASE_ANSWER;
        body_drop(txn);
    }
    txn->drop_body = true;
    drop_chunks(txn);
    return true;
}

/* Discards a piece of the body, up to a limit. */
static enum MHD_Result drop_piece(struct http_txn *txn, size_t size)
{
    size_t most = txn->upload && txn->limit > DRAIN_MAX ? txn->limit : DRAIN_MAX;

    txn->dropped += size;
    if (txn->dropped > most)
        connection_stop_body(txn->connection, txn->mhd, txn->rq.response.status);
    return MHD_YES;
}

/*
 * libmicrohttpd continues with chunks that it has already read even if the connection is suspended,
 * so they are left in its buffer.
 */
static enum MHD_Result take_piece(struct http_txn *txn, const char *data, size_t *size)
{
    size_t piece = *size;

    if (txn->upload && txn->upload->stalled)
        return MHD_YES;
    txn->connection->http->progressed = true;
    *size = 0;
    if (is_refused(txn, data, piece))
        return drop_piece(txn, piece);
    if (txn->upload && upload_stalls(txn->upload))
        MHD_suspend_connection(txn->mhd);
    return MHD_YES;
}

static enum MHD_Result go_on(struct http_txn *txn, const char *data, size_t *size)
{
    if (txn->first_again) {
        txn->first_again = false;
        return txn->phase == PHASE_ANSWER ? response_early(txn) : MHD_YES;
    }
    if (*size)
        return take_piece(txn, data, size);
    if (txn->phase == PHASE_ANSWER)
        return answer(txn);
    return request_complete(txn);
}

enum MHD_Result http_txn_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **context)
{
    struct http_txn *txn = http_txn_owner(*context);

    *context = txn;
    (void)cls;
    (void)mhd;
    (void)url; /* the reader's are used */
    (void)method;
    (void)version;
    if (!txn)
        return MHD_NO; /* out of memory when the request line arrived */
    bool *before = json_starves(&txn->rq.starved);
    enum MHD_Result result = txn->phase == PHASE_HEADERS ? begin(txn) : go_on(txn, data, size);

    json_starves(before);
    return result;
}

void http_txn_completed(void *cls, struct MHD_Connection *mhd, void **context,
                        enum MHD_RequestTerminationCode why)
{
    struct http_txn *txn = http_txn_owner(*context);

    (void)cls;
    *context = NULL;
    if (!txn)
        return;
    if (txn->stream)
        stream_closed(txn->stream);
    response_log(txn, why);
    connection_stage(txn->connection, STAGE_IDLE, 0);
    connection_answered(txn->connection, mhd);
    if (txn->upload)
        upload_end(txn->upload);
    else
        http_txn_free(txn);
}
