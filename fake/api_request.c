/* The host's functions of request.h, reply.h and wait.h, for the fake. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "core/base/json_in.h"
#include "fake/api.h"

void *fake_request_alloc(struct bb_request *rq, size_t size)
{
    return fake_pool_alloc(&run_of(rq)->pool, size);
}

char *fake_request_format(struct bb_request *rq, const char *format, va_list args)
{
    return fake_pool_format(&run_of(rq)->pool, format, args);
}

void fake_request_defer(struct bb_request *rq, void (*call)(void *), void *arg)
{
    struct undo *undo = fake_request_alloc(rq, sizeof *undo);

    *undo = (struct undo){run_of(rq)->undo, call, arg};
    run_of(rq)->undo = undo;
}

/* What was recorded stays, and so does the memory: a test may look at it. */
int fake_request_scratch(struct bb_request *rq, int (*work)(struct bb_request *, void *), void *arg)
{
    struct run *run = run_of(rq);
    struct undo *outer = run->undo;

    run->undo = NULL;
    int status = work(rq, arg);

    fake_run_undo(run);
    run->undo = outer;
    return status;
}

const char *fake_request_segment(struct bb_request *rq, const char *name)
{
    const struct pair *pair = fake_pair_find(run_of(rq)->segments, name, false);

    if (!pair)
        fake_die("the path has no segment %s", name);
    return pair->text;
}

int64_t fake_request_segment_int(struct bb_request *rq, const char *name)
{
    return strtoll(fake_request_segment(rq, name), NULL, 10);
}

const char *fake_request_arg(struct bb_request *rq, const char *name)
{
    const struct pair *pair = fake_pair_find(run_of(rq)->query, name, false);

    return pair ? pair->text : NULL;
}

int64_t fake_request_arg_int(struct bb_request *rq, const char *name, int64_t absent)
{
    const char *text = fake_request_arg(rq, name);

    if (!text)
        return absent;
    return !strcmp(text, "true") ? 1 : strtoll(text, NULL, 10);
}

json_t *fake_request_body(struct bb_request *rq)
{
    return run_of(rq)->body;
}

const char *fake_request_header(struct bb_request *rq, const char *name)
{
    const struct pair *pair = fake_pair_find(run_of(rq)->fake->headers, name, true);

    if (!pair && !strcasecmp(name, "traceparent"))
        return "00-00000000000000000000000000000001-0000000000000001-00";
    return pair ? pair->text : NULL;
}

const char *fake_request_address(struct bb_request *rq)
{
    (void)rq;
    return "192.0.2.1";
}

int fake_request_reply(struct bb_request *rq, int status, json_t *json)
{
    struct run *run = run_of(rq);

    json_decref(run->reply);
    run->reply = json;
    run->status = status;
    if (run->warnings && status < 300 && json_is_object(json))
        json_object_set(json, "warnings", run->warnings);
    return status;
}

/* As the host does: 500 where JSON is missing that only 204 and 304 do without. */
int fake_request_reply_json(struct bb_request *rq, int status, json_t *json)
{
    if (json || status == 204 || status == 304)
        return fake_request_reply(rq, status, json);
    bb_log(rq, BB_ERROR, "the module answers %d without JSON (did json_pack() fail?)", status);
    return fake_request_reply(rq, 500, NULL);
}

void fake_request_again(struct bb_request *rq)
{
    run_of(rq)->again = true;
}

void fake_request_vwarn(struct bb_request *rq, const char *format, va_list args)
{
    struct run *run = run_of(rq);

    if (!run->warnings)
        run->warnings = json_array();
    json_array_append_new(run->warnings, json_string(fake_request_format(rq, format, args)));
}

int fake_request_fail(struct bb_request *rq, int status, const char *format, va_list args)
{
    run_of(rq)->message = format ? fake_request_format(rq, format, args) : "";
    return fake_request_reply(rq, status, NULL);
}

int fake_request_invalid(struct bb_request *rq, const char *field, const char *format, va_list args)
{
    run_of(rq)->field = fake_pool_text(&run_of(rq)->pool, field);
    return fake_request_fail(rq, 400, format, args);
}

int fake_request_refuse(struct bb_request *rq, json_t *errors)
{
    struct run *run = run_of(rq);
    const json_t *first = json_array_get(errors, 0);
    const char *field = json_string_value(json_object_get(first, "field"));

    run->field = field ? fake_pool_text(&run->pool, field) : NULL;
    run->message = "The request is not valid";
    json_decref(errors);
    return fake_request_reply(rq, 400, NULL);
}

int fake_request_vfail_listed(struct bb_request *rq, int status, json_t *errors, const char *format,
                              va_list args)
{
    struct run *run = run_of(rq);
    const json_t *first = json_array_get(errors, 0);
    const char *field = json_string_value(json_object_get(first, "field"));

    run->field = field ? fake_pool_text(&run->pool, field) : NULL;
    json_decref(errors);
    return fake_request_fail(rq, status, format, args);
}

/* No files come with a request of the fake. */
const struct bb_file *fake_request_file(struct bb_request *rq, size_t index)
{
    (void)rq;
    (void)index;
    return NULL;
}

int fake_request_reply_file(struct bb_request *rq, int fd, int64_t length)
{
    (void)length;
    close(fd);
    return fake_request_reply(rq, 200, NULL);
}

/* As the host does: a condition raised in SQL has its status, a clash is 409, the rest 503 or 500.
 */
int fake_request_failed(struct bb_request *rq)
{
    struct run *run = run_of(rq);
    const char *state = run->sqlstate ? run->sqlstate : "";
    int status = 500;

    if (run->status >= 400)
        return run->status;
    if (!*state)
        status = 503;
    else if (!strncmp(state, "BB", 2))
        status = (int)strtol(state + 2, NULL, 10);
    else if (!strcmp(state, "23505"))
        status = 409;
    return fake_request_reply(rq, status, NULL);
}

int fake_request_reply_header(struct bb_request *rq, const char *name, const char *value)
{
    fake_pair_set(&run_of(rq)->pool, &run_of(rq)->replied, name, value);
    return 0;
}

int fake_request_reply_next(struct bb_request *rq, const char *cursor)
{
    const char *path = run_of(rq)->path, *query = path ? strchr(path, '?') : NULL;
    char *link = bb_format(rq, "<%.*s?", path ? (int)strcspn(path, "?") : 0, path ? path : "");

    for (query = query ? query + 1 : ""; *query;) { /* as the host does, without the old cursor */
        size_t length = strcspn(query, "&");

        if (length && strncmp(query, "after=", 6) != 0)
            link = bb_format(rq, "%s%.*s&", link, (int)length, query);
        query += length + (query[length] == '&');
    }
    return fake_request_reply_header(rq, "Link",
                                     bb_format(rq, "%safter=%s>; rel=\"next\"", link, cursor));
}

void fake_request_log(struct bb_request *rq, enum bb_level level, const char *format, va_list args)
{
    fake_host_log(rq->host, level, format, args);
}

void fake_request_print(struct bb_request *rq, const char *format, va_list args)
{
    fake_text_append(&run_of(rq)->printed, fake_request_format(rq, format, args));
}

int fake_request_offload(struct bb_request *rq, const char *pool, void (*work)(void *), void *arg)
{
    if (!fake_table_find(&rq->host->module->pools, pool))
        fake_die("the module declares no pool %s", pool);
    work(arg);
    return 0;
}

int fake_request_offload_for(struct bb_request *rq, const char *pool, uint64_t subject,
                             void (*work)(void *), void *arg)
{
    if (!subject)
        fake_die("a call for the pool %s has no subject", pool);
    return fake_request_offload(rq, pool, work, arg);
}

/* The handle stays the tested module's, for only that has settings and pools here. */
int fake_request_call_as(struct bb_request *rq, struct bb_host *giver,
                         int (*work)(struct bb_request *, void *), void *arg)
{
    void *caller = rq->state;

    rq->state = giver->state;
    int status = work(rq, arg);

    rq->state = caller;
    return status;
}

int fake_request_probe(struct bb_request *rq, enum bb_dependency dependency, int64_t *latency_ms)
{
    (void)rq;
    (void)dependency;
    *latency_ms = 1;
    return 0;
}

const char *fake_request_standstill(struct bb_request *rq)
{
    (void)rq;
    return NULL;
}

const char *fake_request_pause_reason(struct bb_request *rq)
{
    (void)rq;
    return NULL;
}

/* Nobody else asks here. */
uint64_t fake_request_answered(struct bb_request *rq)
{
    (void)rq;
    return 0;
}

/* There is none: modules do without it. */
const struct bb_redis_reply *fake_request_redis(struct bb_request *rq, int argc,
                                                const char *const *argv, const size_t *lengths)
{
    (void)rq;
    (void)argc;
    (void)argv;
    (void)lengths;
    return NULL;
}

/* Counted, so that tests can name them. */
char *fake_request_uuid(struct bb_request *rq)
{
    return bb_format(rq, "00000000-0000-7000-8000-%012u", ++run_of(rq)->fake->uuids);
}

char *fake_request_time(struct bb_request *rq, int64_t ms)
{
    time_t seconds = ms / 1000;
    struct tm parts;
    char text[40];

    gmtime_r(&seconds, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    return bb_format(rq, "%s.%03" PRId64 "Z", text, ms % 1000);
}

struct bb_completion *fake_request_completion(struct bb_request *rq)
{
    return fake_request_alloc(rq, sizeof(struct bb_completion));
}

int fake_request_completion_wait(struct bb_request *rq, struct bb_completion *completion,
                                 int64_t timeout_ms)
{
    (void)rq;
    (void)timeout_ms;
    if (!completion || completion->waited)
        fake_die("a completion is waited for once");
    completion->waited = true;
    return completion->open ? 0 : -1;
}

char *fake_request_json(struct bb_request *rq, const json_t *json, size_t *length)
{
    char *made = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
    char *text = fake_pool_text(&run_of(rq)->pool, made ? made : "");

    free(made);
    *length = strlen(text);
    return text;
}

/* The failure is one that bb_failed() answers with 500. */
json_t *fake_request_json_read(struct bb_request *rq, const char *text)
{
    bool memory = false;
    json_t *json = text ? json_read_stored(text, &memory) : NULL;

    if (memory)
        fake_die("out of memory");
    if (!json)
        run_of(rq)->sqlstate = "XX000";
    return json;
}

/* The fake counts for the module's test only; see bb_fake_metric(). */
char *fake_request_metrics(struct bb_request *rq, size_t *length)
{
    *length = 0;
    return fake_pool_text(&run_of(rq)->pool, "");
}

/* The reply is a JSON text of the bytes, which must be UTF-8. */
int fake_request_reply_bytes(struct bb_request *rq, int status, const char *type, const void *bytes,
                             size_t length)
{
    json_t *json = json_stringn(bytes, length);

    if (!json)
        fake_die("the reply of the type %s is not UTF-8", type);
    fake_request_reply_header(rq, "Content-Type", type);
    return fake_request_reply(rq, status, json);
}
