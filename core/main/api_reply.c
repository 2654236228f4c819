/* Functions with which modules answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/main/api.h"
#include "core/module/engine.h"
#include "core/module/module_error.h"
#include "core/module/reply.h"
#include "core/server/response.h"

enum { STATUS_LEAST = 200, ERROR_LEAST = 400 };

/* Written in place if it is small, else by a pool thread. Takes the JSON. */
static int write_json(struct core_request *rq, int status, json_t *json)
{
    size_t bytes = json && rq->kind == REQUEST_HTTP ? reply_large_memory(json) : 0;
    struct quota_charge charge = {0};

    if (!bytes)
        return reply_json(rq, status, json);
    int answer = response_take_json(http_txn_of(&rq->pub), bytes, &charge);

    if (answer)
        json_decref(json);
    else
        answer = reply_json_aside(rq, status, json);
    quota_release_all(&quota_tables[QUOTA_UNWRITTEN], &charge);
    return answer;
}

int api_reply(struct bb_request *rq, int status, json_t *json)
{
    struct core_request *core = request_of(rq);
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
    if (status < ERROR_LEAST && core->starved) { /* a string that was read may lack a byte */
        json_decref(json);
        return reply_failure(core, FAILED_MEMORY);
    }
    return write_json(core, status, reply_with_warnings(core, status, json));
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

int api_reply_file(struct bb_request *rq, int fd, int64_t length)
{
    module_error_log_response(request_of(rq), 200);
    return reply_file(request_of(rq), fd, length);
}

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

int api_vinvalid(struct bb_request *rq, const char *field, const char *problem, va_list args)
{
    char text[256];
    json_t *entry = json_object();
    json_t *list = json_array();

    vsnprintf(text, sizeof text, problem, args);
    json_object_set_new(entry, "field", json_string(field));
    json_object_set_new(entry, "problem", reply_text(text));
    json_array_append_new(list, entry);
    module_error_log_response(request_of(rq), 400);
    return reply_problems(request_of(rq), 400, "The request is not valid", list);
}

int api_refuse(struct bb_request *rq, json_t *errors)
{
    module_error_log_response(request_of(rq), 400);
    return reply_problems(request_of(rq), 400, "The request is not valid", errors);
}

int api_failed(struct bb_request *rq)
{
    struct core_request *core = request_of(rq);

    if (core->kind != REQUEST_HTTP || !core->committed || core->failure.kind == FAILED_ANSWERED)
        return reply_failed(core);
    module_error_log(core, BB_ERROR,
                     "a module answers an error after its transaction was committed", NULL);
    return core->response.status;
}

int api_reply_header(struct bb_request *rq, const char *name, const char *value)
{
    return reply_header(request_of(rq), name, value);
}

/* Adds a Link: the request's query with this cursor as `after`. Only HTTP requests have a query. */
int api_reply_next(struct bb_request *rq, const char *cursor)
{
    const struct http_txn *txn = http_txn_of(rq);

    if (request_of(rq)->kind != REQUEST_HTTP)
        return -1;
    struct arena *arena = txn->rq.arena;
    const char *query = txn->query ? txn->query : "";
    char *link = arena_format(arena, "<%s?", txn->path);

    while (link && *query) {
        size_t length = strcspn(query, "&");

        if (length && strncmp(query, "after=", 6) != 0)
            link = arena_format(arena, "%s%.*s&", link, (int)length, query);
        query += length + (query[length] == '&');
    }
    link = link ? arena_format(arena, "%safter=%s>; rel=\"next\"", link, cursor) : NULL;
    return link ? reply_header(&http_txn_of(rq)->rq, "Link", link) : -1;
}
