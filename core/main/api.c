/* The functions of struct bb_api that are in no other file, and the table of all functions. */
#include "core/module/engine.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/field.h"
#include "core/lib/json.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/main/job.h"
#include "core/main/metrics.h"
#include "core/main/serve.h"
#include "core/module/pool.h"
#include "core/module/reply.h"
#include "core/server/http_txn.h"
#include "core/store/pg_listener.h"
#include "core/store/sql.h"

enum { LOG_TEXT = 1024 };

static void api_log_module(enum bb_level level, const struct bb_host *host, const char *id,
                           const char *format, va_list args)
{
    char text[LOG_TEXT];

    if (!log_wants(level))
        return;
    vsnprintf(text, sizeof text, format, args);
    log_line(level, text, "module", host ? host->module->name : NULL, "request", id, NULL);
}

void api_host_log(struct bb_host *host, enum bb_level level, const char *format, va_list args)
{
    api_log_module(level, host, NULL, format, args);
}

int64_t api_signals_fresh_ms(struct bb_host *host)
{
    (void)host;
    return pg_listener_fresh_ms();
}

int api_random_bytes(void *bytes, size_t length)
{
    return RAND_bytes(bytes, (int)length) == 1 ? 0 : -1;
}

void *api_alloc(struct bb_request *rq, size_t size)
{
    return request_alloc(request_of(rq), size);
}

BB_PRINTF(2, 0)
char *api_vformat(struct bb_request *rq, const char *format, va_list args)
{
    char *text = arena_vformat(request_of(rq)->arena, format, args);

    if (!text)
        request_out_of_memory(request_of(rq));
    return text;
}

static char *api_text(struct bb_request *rq, const char *text)
{
    return strcpy(api_alloc(rq, strlen(text) + 1), text); // NOLINT
}

void api_defer(struct bb_request *rq, void (*undo)(void *), void *arg)
{
    request_defer(request_of(rq), undo, arg);
}

BB_PRINTF(3, 0)
void api_log(struct bb_request *rq, enum bb_level level, const char *format, va_list args)
{
    api_log_module(level, rq->host, request_of(rq)->id, format, args);
}

BB_PRINTF(2, 0)
void api_vprint(struct bb_request *rq, const char *format, va_list args)
{
    (void)rq;
    vprintf(format, args);
}

int api_probe(struct bb_request *rq, enum bb_dependency dependency, int64_t *latency_ms)
{
    return readiness_of(request_of(rq)->loop, dependency, latency_ms);
}

const char *api_standstill(struct bb_request *rq)
{
    struct engine *engine = request_of(rq)->loop->engine;
    char reason[sizeof engine->standstill];

    if (!engine_stands(engine))
        return NULL;
    pthread_mutex_lock(&engine->lock);
    memcpy(reason, engine->standstill, sizeof reason);
    pthread_mutex_unlock(&engine->lock);
    return api_text(rq, reason);
}

const char *api_probe_problem(struct bb_request *rq, enum bb_dependency which)
{
    return which == BB_DATABASE ? pg_listener_no_writes() : api_standstill(rq);
}

const char *api_pause_reason(struct bb_request *rq)
{
    char reason[PAUSE_REASON];

    if (!pause_why(request_of(rq)->loop->engine, reason, sizeof reason))
        return NULL;
    return api_text(rq, reason);
}

uint64_t api_answered(struct bb_request *rq)
{
    const struct engine *engine = request_of(rq)->loop->engine;
    uint64_t count = 0;

    for (unsigned i = 0; i < engine->loop_count; i++)
        count += atomic_load_explicit(&engine->loops[i].answered, memory_order_relaxed);
    return count;
}

char *api_new_uuid(struct bb_request *rq)
{
    char *uuid = api_alloc(rq, TEXT_UUID_SIZE);

    text_uuid7(uuid);
    return uuid;
}

char *api_time_text(struct bb_request *rq, int64_t wall_ms)
{
    char *text = api_alloc(rq, TEXT_TIME_SIZE);

    text_time(wall_ms, text);
    return text;
}

char *api_json(struct bb_request *rq, const json_t *json, size_t *length)
{
    size_t written;
    char *bytes = json_write(json, &written);

    if (!bytes)
        request_out_of_memory(request_of(rq));
    api_defer(rq, free, bytes);
    if (length)
        *length = written;
    return bytes;
}

json_t *api_json_read(struct bb_request *rq, const char *text)
{
    bool memory = false;
    json_t *json = text ? json_read_stored(text, &memory) : NULL;

    if (json)
        return json;
    request_fail(request_of(rq), memory ? FAILED_MEMORY : FAILED_REFUSED);
    if (!memory)
        module_error_log(request_of(rq), BB_ERROR, "module passed invalid JSON", NULL);
    return NULL;
}

/* ---- reading a request ---- */

const char *api_segment(struct bb_request *rq, const char *name)
{
    const struct http_txn *txn = http_txn_of(rq);

    if (request_of(rq)->kind != REQUEST_HTTP)
        return "";
    for (size_t i = 0; i < txn->match.count; i++) {
        if (!strcmp(txn->match.segment[i].field->name, name))
            return txn->segments[i];
    }
    return "";
}

int64_t api_segment_int(struct bb_request *rq, const char *name)
{
    return strtoll(api_segment(rq, name), NULL, 10);
}

const char *api_arg(struct bb_request *rq, const char *name)
{
    if (request_of(rq)->kind != REQUEST_HTTP)
        return NULL;
    return query_get(&http_txn_of(rq)->args, name);
}

int64_t api_arg_int(struct bb_request *rq, const char *name, int64_t absent)
{
    const char *text = api_arg(rq, name);

    return text ? strtoll(text, NULL, 10) : absent;
}

json_t *api_body(struct bb_request *rq)
{
    return request_of(rq)->body;
}

json_t *api_check(struct bb_request *rq, const struct bb_table *fields, json_t *object,
                  json_t *errors)
{
    struct problems problems = {.arena = request_of(rq)->arena,
                                .warnings = &request_of(rq)->warnings};
    json_t *checked = fields_check(fields, object, &problems);

    problems_list(&problems, errors);
    return checked;
}

/* Authorization is hidden from modules, except on routes with BB_OAUTH_ERRORS. */
const char *api_header(struct bb_request *rq, const char *name)
{
    const struct http_txn *txn = http_txn_of(rq);

    if (!strcasecmp(name, "traceparent"))
        return request_trace(request_of(rq));
    if (request_of(rq)->kind != REQUEST_HTTP)
        return NULL;
    if (!strcasecmp(name, "Authorization") && !(txn->match.flags & BB_OAUTH_ERRORS))
        return NULL;
    return http_txn_list(txn, name);
}

const char *api_client_address(struct bb_request *rq)
{
    return request_of(rq)->kind == REQUEST_HTTP ? http_txn_of(rq)->address : "";
}

/* ---- answering a request ---- */

enum { STATUS_LEAST = 200, ERROR_LEAST = 400 };

int api_reply(struct bb_request *rq, int status, json_t *json)
{
    struct core_request *core = request_of(rq);
    struct quota_charge charge = {0};
    int instead;

    if (!module_error_free_response(core, status, STATUS_LEAST, &instead)) {
        json_decref(json);
        return instead;
    }
    if (!module_error_wants_body(status)) {
        json_decref(json);
        return reply_bytes(core, status, NULL, 0);
    }
    if (!json)
        return module_error_no_json(core, status);
    /* if memory ran out while JSON was read, a string may lack a byte */
    if ((status < ERROR_LEAST && core->json_oom) || reply_set_tag(core, status, json)) {
        json_decref(json);
        return reply_failure(core, FAILED_MEMORY);
    }
    json = reply_with_warnings(core, status, json);
    size_t bytes = json && core->kind == REQUEST_HTTP ? reply_large_memory(json) : 0;

    if (!bytes) /* a pool thread writes large JSON */
        return reply_json(core, status, json, false);
    int answer = http_txn_take_json(http_txn_of(rq), bytes, &charge);

    if (answer)
        json_decref(json);
    else
        answer = reply_json(core, status, json, true);
    quota_release_all(&quota_tables[QUOTA_UNWRITTEN], &charge);
    return answer;
}

int api_reply_bytes(struct bb_request *rq, int status, const char *type, const void *bytes,
                    size_t length)
{
    int instead;

    if (!module_error_free_response(request_of(rq), status, STATUS_LEAST, &instead))
        return instead;
    char *copy = malloc(length + 1);

    if (!copy || reply_header(request_of(rq), "Content-Type", type)) {
        free(copy);
        return reply_failure(request_of(rq), FAILED_MEMORY);
    }
    memcpy(copy, bytes, length);
    return reply_bytes(request_of(rq), status, copy, length);
}

BB_PRINTF(3, 0)
int api_vfail(struct bb_request *rq, int status, const char *format, va_list args)
{
    int instead;

    if (!module_error_free_response(request_of(rq), status, ERROR_LEAST, &instead))
        return instead;
    return reply_verror(request_of(rq), status, format ? format : reply_reason(status), args);
}

int api_vfail_listed(struct bb_request *rq, int status, json_t *errors, const char *format,
                     va_list args)
{
    char message[512];
    int instead;

    if (!module_error_free_response(request_of(rq), status, ERROR_LEAST, &instead)) {
        json_decref(errors);
        return instead;
    }
    vsnprintf(message, sizeof message, format, args);
    return reply_problems(request_of(rq), status, message, errors);
}

BB_PRINTF(3, 0)
int api_vinvalid(struct bb_request *rq, const char *field, const char *problem, va_list args)
{
    char text[256];

    vsnprintf(text, sizeof text, problem, args);
    json_t *list =
        json_pack("[{s:o, s:o}]", "field", reply_text(field), "problem", reply_text(text));

    module_error_log_response(request_of(rq), 400);
    return reply_problems(request_of(rq), 400, "The request is not valid", list);
}

int api_refuse(struct bb_request *rq, json_t *errors)
{
    module_error_log_response(request_of(rq), 400);
    return reply_problems(request_of(rq), 400, "The request is not valid", errors);
}

void api_set_code(struct bb_request *rq, json_t *problem)
{
    (void)rq;
    problem_set_code(problem, "problem");
}

int api_failed(struct bb_request *rq)
{
    struct core_request *core = request_of(rq);

    if (core->kind != REQUEST_HTTP || !core->committed || core->failure.kind == FAILED_ANSWERED)
        return reply_failed(core);
    module_error_log(core, BB_ERROR,
                     "module sent an error response after its transaction was committed", NULL);
    return core->response.status;
}

int api_reply_header(struct bb_request *rq, const char *name, const char *value)
{
    return reply_header(request_of(rq), name, value);
}

/* Adds the header Link with the URL of the request and `cursor` as its parameter `after`. */
int api_reply_next(struct bb_request *rq, const char *cursor)
{
    const struct http_txn *txn = http_txn_of(rq);

    if (request_of(rq)->kind != REQUEST_HTTP)
        return -1;
    struct arena *arena = txn->rq.arena;
    const char *query = txn->query ? txn->query : "";
    char *others = arena_alloc(arena, strlen(query) + 2), *end = others; /* with an & after each */

    while (others && *query) {
        size_t length = strcspn(query, "&");

        if (length && strncmp(query, "after=", 6) != 0) {
            end = mempcpy(end, query, length);
            *end++ = '&';
        }
        query += length + (query[length] == '&');
    }
    if (!others)
        return -1;
    *end = '\0';
    char *link = arena_format(arena, "<%s?%safter=%s>; rel=\"next\"", txn->path, others, cursor);

    return link ? reply_header(&http_txn_of(rq)->rq, "Link", link) : -1;
}

/* ---- functions with a plain text, for modules in languages without va_list ---- */

int api_open_fail_text(struct bb_host *host, const char *text)
{
    return bb_open_fail(host, "%s", text);
}

void api_host_log_text(struct bb_host *host, enum bb_level level, const char *text)
{
    bb_host_log(host, level, "%s", text);
}

int api_fail_text(struct bb_request *rq, int status, const char *text)
{
    return bb_fail(rq, status, text ? "%s" : NULL, text);
}

int api_invalid_text(struct bb_request *rq, const char *field, const char *problem)
{
    return bb_invalid(rq, field, "%s", problem);
}

int api_fail_listed_text(struct bb_request *rq, int status, json_t *errors, const char *text)
{
    return bb_fail_listed(rq, status, errors, "%s", text);
}

void api_warn_text(struct bb_request *rq, const char *text)
{
    bb_warn(rq, "%s", text);
}

void api_log_text(struct bb_request *rq, enum bb_level level, const char *text)
{
    bb_log(rq, level, "%s", text);
}

void api_print_text(struct bb_request *rq, const char *text)
{
    bb_print(rq, "%s", text);
}

#define API_MEMBER(name) .name = api_##name,

const struct bb_api core_api = {.size = sizeof core_api,
                                .minor = BB_ABI_MINOR,
                                .now_ms = clock_mono_ms,
                                .wall_ms = shared_clock_ms,
                                API_FUNCTIONS(API_MEMBER)};
