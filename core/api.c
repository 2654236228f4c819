#include "core/api.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/chunk.h"
#include "core/ear.h"
#include "core/exchange.h"
#include "core/field.h"
#include "core/json_out.h"
#include "core/log.h"
#include "core/meter.h"
#include "core/metrics.h"
#include "core/pool.h"
#include "core/redis.h"
#include "core/reply.h"
#include "core/sql.h"
#include "core/stream.h"
#include "core/text.h"
#include "core/upload.h"
#include "core/worker.h"

enum { LOG_TEXT = 1024 };

static void log_module(enum bb_level level, const struct bb_host *host, const char *id,
                       const char *format, va_list args)
{
    char text[LOG_TEXT];

    if (!log_wants(level))
        return;
    vsnprintf(text, sizeof text, format, args);
    log_line(level, text, "module", host ? host->module->name : NULL, "request", id, NULL);
}

static void api_host_log(struct bb_host *host, enum bb_level level, const char *format,
                         va_list args)
{
    log_module(level, host, NULL, format, args);
}

static int64_t api_signals_fresh(struct bb_host *host)
{
    (void)host;
    return ear_fresh_ms();
}

static int api_random(void *bytes, size_t length)
{
    return RAND_bytes(bytes, (int)length) == 1 ? 0 : -1;
}

static void *api_alloc(struct bb_request *rq, size_t size)
{
    void *memory = arena_alloc(request_of(rq)->arena, size);

    if (!memory)
        request_out_of_memory(request_of(rq));
    return memory;
}

BB_PRINTF(2, 0)
static char *api_vformat(struct bb_request *rq, const char *format, va_list args)
{
    char *text = arena_vformat(request_of(rq)->arena, format, args);

    if (!text)
        request_out_of_memory(request_of(rq));
    return text;
}

static void api_defer(struct bb_request *rq, void (*undo)(void *), void *arg)
{
    if (!arena_defer(request_of(rq)->arena, undo, arg))
        return;
    undo(arg);
    request_out_of_memory(request_of(rq));
}

static const char *api_segment(struct bb_request *rq, const char *name)
{
    const struct exchange *exchange = exchange_of(rq);

    if (request_of(rq)->kind != REQUEST_HTTP)
        return "";
    for (size_t i = 0; i < exchange->match.count; i++) {
        if (!strcmp(exchange->match.segment[i].field->name, name))
            return exchange->segments[i];
    }
    return "";
}

static int64_t api_segment_int(struct bb_request *rq, const char *name)
{
    return strtoll(api_segment(rq, name), NULL, 10);
}

static const char *api_arg(struct bb_request *rq, const char *name)
{
    if (request_of(rq)->kind != REQUEST_HTTP)
        return NULL;
    return query_get(&exchange_of(rq)->args, name);
}

static int64_t api_arg_int(struct bb_request *rq, const char *name, int64_t absent)
{
    const char *text = api_arg(rq, name);

    return text ? strtoll(text, NULL, 10) : absent;
}

static json_t *api_body(struct bb_request *rq)
{
    return request_of(rq)->body;
}

/* The token stays with the host; routes of the OAuth kind need the Basic credentials. */
static const char *api_header(struct bb_request *rq, const char *name)
{
    const struct exchange *exchange = exchange_of(rq);

    if (request_of(rq)->kind != REQUEST_HTTP)
        return NULL;
    if (!strcasecmp(name, "Authorization") && !(exchange->match.route->flags & BB_OAUTH_ERRORS))
        return NULL;
    return exchange_header(exchange, name);
}

static const char *api_client_address(struct bb_request *rq)
{
    return request_of(rq)->kind == REQUEST_HTTP ? exchange_of(rq)->address : "";
}

static int api_reply(struct bb_request *rq, int status, json_t *json)
{
    return reply_json(request_of(rq), status, json);
}

static int api_reply_bytes(struct bb_request *rq, int status, const char *type, const void *bytes,
                           size_t length)
{
    char *copy = malloc(length + 1);

    if (!copy || reply_header(request_of(rq), "Content-Type", type)) {
        free(copy);
        request_fail(request_of(rq), FAILED_MEMORY);
        return reply_failed(request_of(rq));
    }
    memcpy(copy, bytes, length);
    return reply_bytes(request_of(rq), status, copy, length);
}

BB_PRINTF(3, 0)
static int api_vfail(struct bb_request *rq, int status, const char *format, va_list args)
{
    return reply_verror(request_of(rq), status, format ? format : reply_reason(status), args);
}

BB_PRINTF(3, 0)
static int api_vinvalid(struct bb_request *rq, const char *field, const char *problem, va_list args)
{
    char text[256];
    json_t *entry = json_object();
    json_t *list = json_array();

    vsnprintf(text, sizeof text, problem, args);
    json_object_set_new(entry, "field", json_string(field));
    json_object_set_new(entry, "problem", json_string(text));
    json_array_append_new(list, entry);
    return reply_problems(request_of(rq), 400, "The request is not valid", list);
}

static json_t *api_check(struct bb_request *rq, const struct bb_table *fields, json_t *object,
                         json_t *errors)
{
    struct problems problems = {.arena = request_of(rq)->arena};
    json_t *checked = fields_check(fields, object, &problems);

    problems_list(&problems, errors);
    return checked;
}

static int api_refuse(struct bb_request *rq, json_t *errors)
{
    return reply_problems(request_of(rq), 400, "The request is not valid", errors);
}

static int api_reply_file(struct bb_request *rq, int fd, int64_t length)
{
    return reply_file(request_of(rq), fd, length);
}

static int api_vfail_listed(struct bb_request *rq, int status, json_t *errors, const char *format,
                            va_list args)
{
    char message[512];

    vsnprintf(message, sizeof message, format, args);
    return reply_problems(request_of(rq), status, message, errors);
}

static int api_failed(struct bb_request *rq)
{
    return reply_failed(request_of(rq));
}

static int api_reply_header(struct bb_request *rq, const char *name, const char *value)
{
    return reply_header(request_of(rq), name, value);
}

/* The request's own query without `after`, then the cursor. */
static int api_reply_next(struct bb_request *rq, const char *cursor)
{
    const struct exchange *exchange = exchange_of(rq);
    struct arena *arena = exchange->rq.arena;
    const char *query = exchange->query ? exchange->query : "";
    char *link = arena_format(arena, "<%s?", exchange->path);

    while (link && *query) {
        size_t length = strcspn(query, "&");

        if (length && strncmp(query, "after=", 6) != 0)
            link = arena_format(arena, "%s%.*s&", link, (int)length, query);
        query += length + (query[length] == '&');
    }
    link = link ? arena_format(arena, "%safter=%s>; rel=\"next\"", link, cursor) : NULL;
    return link ? reply_header(&exchange_of(rq)->rq, "Link", link) : -1;
}

BB_PRINTF(3, 0)
static void api_log(struct bb_request *rq, enum bb_level level, const char *format, va_list args)
{
    log_module(level, rq->host, request_of(rq)->id, format, args);
}

BB_PRINTF(2, 0)
static void api_vprint(struct bb_request *rq, const char *format, va_list args)
{
    (void)rq;
    vprintf(format, args);
}

/* What the ear and Redis's PINGs saw within the last second: nobody waits, nothing is flooded. */
static int api_probe(struct bb_request *rq, enum bb_dependency dependency, int64_t *latency_ms)
{
    const struct loop *loop = request_of(rq)->loop;

    if (dependency == BB_DATABASE ? !loop->pg : !loop->redis)
        return 1;
    if (dependency == BB_DATABASE)
        *latency_ms = ear_fresh_ms() > 0 ? ear_latency_ms() : -1;
    else
        *latency_ms = redis_latency_ms(loop->redis);
    return *latency_ms < 0 ? -1 : 0;
}

static char *api_new_uuid(struct bb_request *rq)
{
    char *uuid = api_alloc(rq, TEXT_UUID_SIZE);

    text_uuid7(uuid);
    return uuid;
}

static char *api_time_text(struct bb_request *rq, int64_t wall_ms)
{
    char *text = api_alloc(rq, TEXT_TIME_SIZE);

    text_time(wall_ms, text);
    return text;
}

static char *api_json(struct bb_request *rq, const json_t *json, size_t *length)
{
    char *bytes = json_write(json, length);

    if (!bytes)
        request_out_of_memory(request_of(rq));
    api_defer(rq, free, bytes);
    return bytes;
}

const struct bb_api core_api = {
    .size = sizeof core_api,
    .minor = BB_ABI_MINOR,
    .host_alloc = api_host_alloc,
    .setting_text = api_setting_text,
    .setting_int = api_setting_int,
    .setting_number = api_setting_number,
    .setting_json = api_setting_json,
    .open_fail = api_open_fail,
    .service = api_service,
    .host_log = api_host_log,
    .signals_fresh_ms = api_signals_fresh,
    .now_ms = clock_mono_ms,
    .wall_ms = clock_wall_ms,
    .random_bytes = api_random,
    .seal = api_seal,
    .unseal = api_unseal,
    .alloc = api_alloc,
    .vformat = api_vformat,
    .defer = api_defer,
    .segment = api_segment,
    .segment_int = api_segment_int,
    .arg = api_arg,
    .arg_int = api_arg_int,
    .body = api_body,
    .header = api_header,
    .client_address = api_client_address,
    .reply = api_reply,
    .vfail = api_vfail,
    .vinvalid = api_vinvalid,
    .failed = api_failed,
    .reply_header = api_reply_header,
    .reply_next = api_reply_next,
    .log = api_log,
    .vprint = api_vprint,
    .offload = api_offload,
    .probe = api_probe,
    .redis = api_redis,
    .new_uuid = api_new_uuid,
    .time_text = api_time_text,
    .query = api_query,
    .rows_count = api_rows_count,
    .rows_affected = api_rows_affected,
    .rows_text = api_rows_text,
    .rows_length = api_rows_length,
    .sqlstate = api_sqlstate,
    .constraint = api_constraint,
    .unit = api_unit,
    .add = api_add,
    .commit = api_commit,
    .unit_rows = api_unit_rows,
    .transaction = api_transaction,
    .tx_query = api_tx_query,
    .next_id = api_next_id,
    .after = api_after,
    .stopping = api_stopping,
    .wake = api_wake,
    .run = api_run,
    .gate = api_gate,
    .gate_wait = api_gate_wait,
    .gate_open = api_gate_open,
    .json = api_json,
    .event_names = api_event_names,
    .emit = api_emit,
    .leave_ms = api_leave_ms,
    .superseded = api_superseded,
    .stream_open = api_stream_open,
    .stream_send = api_stream_send,
    .stream_waiting = api_stream_waiting,
    .stream_end = api_stream_end,
    .chunk_new = api_chunk_new,
    .chunk_release = api_chunk_release,
    .metric_add = api_metric_add,
    .metrics = api_metrics,
    .reply_bytes = api_reply_bytes,
    .check = api_check,
    .refuse = api_refuse,
    .file = api_file,
    .reply_file = api_reply_file,
    .stream_cut = api_stream_cut,
    .vfail_listed = api_vfail_listed,
};
