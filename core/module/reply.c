#include "core/module/reply.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/lib/field.h"
#include "core/lib/json.h"
#include "core/lib/sqlstate.h"
#include "core/lib/text.h"
#include "core/module/pool.h"

enum {
    EACH = 8,         /* approximate bytes of text per value, without strings */
    NODE = 240,       /* approximate bytes of memory per value, measured with arrays of objects */
    LARGE = 64 * 1024 /* a pool thread writes larger responses */
};

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Payload Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {422, "Unprocessable Entity"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

const char *reply_reason(int status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i].status == status)
            return reasons[i].reason;
    }
    return "Error";
}

void reply_drop(struct core_request *rq)
{
    free(rq->response.body);
    rq->response.body = NULL;
    rq->response.fixed = NULL;
    if (rq->response.file > 0)
        close(rq->response.file);
    rq->response.file = 0;
}

/* response.file can use 0 for "none", because descriptor 0 is always standard input. */
int api_reply_file(struct bb_request *pub, int fd, int64_t length)
{
    struct core_request *rq = request_of(pub);

    module_error_log_response(rq, 200);
    reply_bytes(rq, 200, NULL, (size_t)length);
    rq->response.file = fd;
    return 200;
}

int reply_bytes(struct core_request *rq, int status, char *bytes, size_t length)
{
    reply_drop(rq);
    rq->response.status = status;
    rq->response.body = bytes;
    rq->response.length = length;
    return status;
}

struct written {
    json_t *json; /* owned */
    char *bytes;
    size_t length;
};

static void reply_write_json(void *arg)
{
    struct written *written = arg;

    written->bytes = json_write(written->json, &written->length);
    json_decref(written->json);
    written->json = NULL;
}

int reply_json(struct core_request *rq, int status, json_t *json, bool aside)
{
    struct written written = {.json = json};

    if (!json)
        return reply_bytes(rq, status, NULL, 0);
    /* If pool_run() cannot start the call, the loop writes the JSON. */
    if (aside)
        pool_run(rq, reply_write_json, &written);
    if (written.json)
        reply_write_json(&written);
    return written.bytes ? reply_bytes(rq, status, written.bytes, written.length)
                         : reply_failure(rq, FAILED_MEMORY);
}

/* The number of values in the JSON and the bytes of their strings. */
struct json_size {
    size_t values, strings;
};

static void reply_measure(json_t *json, struct json_size *size)
{
    size_t index;
    const char *key;
    json_t *value;

    size->values++;
    size->strings += json_is_string(json) ? json_string_length(json) : 0;
    json_array_foreach (json, index, value)
        reply_measure(value, size);
    json_object_foreach (json, key, value)
        reply_measure(value, size);
}

size_t reply_large_memory(json_t *json)
{
    struct json_size size = {0};

    reply_measure(json, &size);
    return EACH * size.values + size.strings > LARGE ? NODE * size.values + size.strings : 0;
}

void api_vwarn(struct bb_request *pub, const char *format, va_list args)
{
    struct core_request *rq = request_of(pub);

    if (warnings_vadd(&rq->warnings, format, args))
        request_out_of_memory(rq);
}

/*
 * Appends the request's warnings, such as "capacity: is in kW", to `warnings` of the object, and
 * adds `warningDetails` with {"field","problem","code"} for each. Consumes the object and returns
 * a copy, because the module may have kept a reference to the object.
 */
json_t *reply_with_warnings(struct core_request *rq, int status, json_t *json)
{
    if (!rq->warnings || status >= 300 || !json_is_object(json))
        return json;
    json_t *copy = json_copy(json), *own = json_object_get(json, "warnings"), *text;
    json_t *all = json_is_array(own) ? json_copy(own) : json_array(), *details = json_array();
    bool failed = json_array_extend(all, rq->warnings) != 0;
    size_t i;

    failed |= json_object_set_new(copy, "warnings", all) != 0;
    json_decref(json);
    json_array_foreach (rq->warnings, i, text) {
        const char *whole = json_string_value(text), *colon = strstr(whole, ": ");
        json_t *detail = json_pack("{s:s, s:s}", "field", "", "problem", whole);

        /* A field name sent by a client may contain ": ", so the last ": " is tried first. */
        for (const char *at = colon ? strchr(whole, 0) : NULL;
             at && at-- > colon && !json_object_get(detail, "code");)
            if (!strncmp(at, ": ", 2)) {
                json_object_set_new(detail, "field", json_stringn(whole, (size_t)(at - whole)));
                json_object_set_new(detail, "problem", json_string(at + 2));
                problem_set_code(detail, "problem");
            }
        problem_set_code(detail, "problem");
        failed |= json_array_append_new(details, detail) != 0;
    }
    failed |= json_object_set_new(copy, "warningDetails", details) != 0;
    if (!failed)
        return copy;
    json_decref(copy);
    request_out_of_memory(rq);
}

int reply_header(struct core_request *rq, const char *name, const char *value)
{
    struct response_header *header = arena_alloc(rq->arena, sizeof *header);
    bool fits = *name && !name[strcspn(name, " \t\r\n:\"")];

    for (const char *at = value; *at; at++)
        fits = fits && (unsigned char)*at >= 0x20 && *at != 0x7f;
    if (!header || !fits)
        return -1;
    header->name = arena_text(rq->arena, name, strlen(name));
    header->value = arena_text(rq->arena, value, strlen(value));
    if (!header->name || !header->value)
        return -1;
    header->next = rq->response.headers;
    rq->response.headers = header;
    return 0;
}

const char *reply_header_get(const struct core_request *rq, const char *name)
{
    for (const struct response_header *h = rq->response.headers; h; h = h->next) {
        if (!strcasecmp(h->name, name))
            return h->value;
    }
    return NULL;
}

/* ---- entity tags (RFC 9110, sections 8.8.3 and 13.1.1) ---- */

enum { TAG_BYTES = 12 };

/* Returns an entity tag: a hash of the object without its BB_VOLATILE fields. NULL: no memory. */
static const char *reply_tag(struct core_request *rq, json_t *object)
{
    const struct bb_field *fields = rq->route->reply.rows;
    json_t *copy = json_copy(object);
    unsigned char digest[EVP_MAX_MD_SIZE];
    char hex[2 * TAG_BYTES + 1];
    size_t length = 0;

    for (size_t i = 0; i < rq->route->reply.count; i++)
        if (fields[i].flags & BB_VOLATILE)
            json_object_del(copy, fields[i].name);
    char *text = copy ? json_write(copy, &length) : NULL;
    bool hashed = text && EVP_Digest(text, length, digest, NULL, EVP_sha256(), NULL);

    json_decref(copy);
    free(text);
    text_hex(digest, hashed ? TAG_BYTES : 0, hex);
    return hashed ? arena_format(rq->arena, "\"%s\"", hex) : NULL;
}

int reply_set_tag(struct core_request *rq, int status, json_t *object)
{
    if (status != 200 || !rq->route || !(rq->route->flags & BB_VERSIONED))
        return 0;
    const char *tag = reply_tag(rq, object);

    return tag ? reply_header(rq, "ETag", tag) : -1;
}

/* Returns 1 if the list is "*" or has this tag, 0 if not, -1 if malformed. Ignores weak tags. */
static int reply_list_has(const char *list, const char *tag)
{
    int found = -1;

    if (!strcmp(list, "*"))
        return 1;
    for (list += strspn(list, ", \t"); *list; list += strspn(list, ", \t")) {
        bool weak = !strncmp(list, "W/", 2);
        const char *begin = list + (weak ? 2 : 0), *end = strchr(begin + (*begin == '"'), '"');

        if (*begin != '"' || !end || (end[1] && !strchr(", \t", end[1])))
            return -1;
        list = end + 1;
        found = found > 0 || (!weak && !strncmp(begin, tag, strlen(tag)));
    }
    return found;
}

int api_if_match(struct bb_request *pub, json_t *object)
{
    struct core_request *rq = request_of(pub);
    const char *list = bb_header(pub, "If-Match");
    bool checked = list && rq->route && rq->route->flags & BB_VERSIONED;
    const char *tag = checked && object ? reply_tag(rq, object) : NULL;

    json_decref(object);
    if (!checked)
        return 0;
    int found = tag ? reply_list_has(list, tag) : 0;

    return !tag        ? reply_failure(rq, FAILED_MEMORY)
           : found < 0 ? reply_error(rq, 400, "If-Match must be * or a list of entity tags")
           : found     ? 0
                       : reply_error(rq, 412, REPLY_CHANGED);
}

json_t *reply_text(const char *text)
{
    return json_stringn(text, text_valid(text, strlen(text)));
}

/* Adds the members of RFC 6749 to an error of the token endpoint, also to errors of the host. */
static void reply_set_oauth_error(struct core_request *rq, int status, json_t *body,
                                  const char *message)
{
    struct response_header **at = &rq->response.headers;

    while (*at && strcasecmp((*at)->name, OAUTH_ERROR_HEADER))
        at = &(*at)->next;
    if (!*at && !(rq->route && rq->route->flags & BB_OAUTH_ERRORS))
        return;
    const char *usual = status == 401                    ? "invalid_client"
                        : status == 429 || status == 503 ? "temporarily_unavailable"
                        : status >= 500                  ? "server_error"
                                                         : "invalid_request";

    json_object_set_new(body, "error", json_string(*at ? (*at)->value : usual));
    json_object_set_new(body, "error_description", reply_text(message));
    if (*at)
        *at = (*at)->next;
}

/* Returns whether memory ran out. If so, problems found in the request may be false. */
static bool reply_is_starved(const struct core_request *rq)
{
    return rq->json_oom || arena_starved(rq->arena);
}

int reply_problems(struct core_request *rq, int status, const char *message, json_t *errors)
{
    /*
     * Removes headers of the response that this error replaces: those that describe its content
     * (RFC 9110, section 8), and WWW-Authenticate, unless the error is a 401.
     */
    static const char *const names[] = {"Cache-Control", "Content-Disposition", "Content-Type",
                                        "ETag",          "Last-Modified",       "Link",
                                        "Location",      "X-Total-Count",       "WWW-Authenticate"};
    size_t count = sizeof names / sizeof *names - (status == 401);

    for (struct response_header **at = &rq->response.headers; *at;) {
        size_t i = 0;

        while (i < count && strcasecmp(names[i], (*at)->name) != 0)
            i++;
        if (i < count)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    if (status == 400 && rq->errors) { /* errors found in parts of the body come first */
        json_t *all = json_copy(rq->errors);

        rq->json_oom = rq->json_oom || !all || (errors && json_array_extend(all, errors));
        json_decref(errors);
        errors = all;
    }
    if (status != 503 && reply_is_starved(rq)) {
        json_decref(errors);
        return reply_error(rq, 503, "The service is out of memory");
    }
    json_t *body = json_object(), *problem;
    size_t index;

    json_array_foreach (errors, index, problem)
        problem_set_code(problem, "problem");
    json_object_set_new(body, "statusCode", json_integer(status));
    json_object_set_new(body, "message", reply_text(message));
    json_object_set_new(body, "error", json_string(reply_reason(status)));
    if (errors)
        json_object_set_new(body, "errors", errors);
    if (status == 409)
        json_object_set_new(body, "success", json_false());
    reply_set_oauth_error(rq, status, body, message);
    problem_set_code(body, "message");
    if (rq->id)
        json_object_set_new(body, "requestId", json_string(rq->id));
    if (status != 503 && reply_is_starved(rq)) { /* memory ran out, so the body may be incomplete */
        json_decref(body);
        return reply_problems(rq, 503, "The service is out of memory", NULL);
    }
    if (status == 401 && !reply_header_get(rq, "WWW-Authenticate"))
        reply_header(rq, "WWW-Authenticate", "Bearer");
    if (status == 503 && !reply_header_get(rq, "Retry-After"))
        reply_header(rq, "Retry-After", "1");
    size_t length = 0;
    char *bytes = json_write(body, &length);
    json_decref(body);
    if (bytes)
        return reply_bytes(rq, status, bytes, length);
    if (status == 503) {
        static const char fixed[] = "{\"statusCode\":503,\"message\":\"The service is out of "
                                    "memory\",\"error\":\"Service Unavailable\"}";

        reply_bytes(rq, 503, NULL, sizeof fixed - 1);
        rq->response.fixed = fixed;
        return 503;
    }
    rq->json_oom = true; /* memory ran out; the short body below may fit in memory */
    return reply_problems(rq, 503, "The service is out of memory", NULL);
}

int reply_verror(struct core_request *rq, int status, const char *format, va_list args)
{
    char message[512];

    vsnprintf(message, sizeof message, format, args);
    return reply_problems(rq, status, message, NULL);
}

int reply_error(struct core_request *rq, int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int answered = reply_verror(rq, status, format, args);
    va_end(args);
    return answered;
}

bool failure_is_passing(const struct failure *failure)
{
    return failure->stale || failure->migration_running ||
           sqlstate_has(failure->sqlstate, SQLSTATE_PASSING);
}

int reply_failed(struct core_request *rq)
{
    static const struct {
        int status;
        const char *message;
    } answers[] = {
        [FAILED_UNAVAILABLE] = {503, "A dependency of the service is not available"},
        [FAILED_BUSY] = {503, "The service is busy"},
        [FAILED_DEADLINE] = {503, "The request took too long"},
        [FAILED_MEMORY] = {503, "The service is out of memory"},
        [FAILED_REFUSED] = {500, "Internal server error"},
    };
    const struct failure *failure = &rq->failure;
    enum failure_kind kind = failure->kind;

    if (kind == FAILED_ANSWERED)
        return rq->response.status;
    if (kind == FAILED_SQL) {
        const struct sqlstate *means = sqlstate_of(failure->sqlstate);
        bool passing = failure_is_passing(failure);

        if (means->flags & SQLSTATE_RAISED)
            return reply_error(rq, atoi(failure->sqlstate + 2), "%s", failure->text);
        if (means->status)
            return reply_error(rq, means->status, "%s", means->text);
        module_error_statement(rq, passing ? BB_WARN : BB_ERROR);
        return passing ? reply_error(rq, 503, "The database is temporarily unavailable")
                       : reply_error(rq, 500, "Internal server error");
    }
    if (kind == FAILED_SHARE) {
        if (!reply_header_get(rq, "Retry-After"))
            reply_header(rq, "Retry-After", "1");
        return reply_error(rq, 429, "Too many requests in progress for this %s",
                           rq->owner.account ? "account" : "address");
    }
    if (kind != FAILED_NOT)
        return reply_error(rq, answers[kind].status, "%s", answers[kind].message);
    if (reply_error(rq, 500, "Internal server error") == 500)
        module_error_log(rq, BB_ERROR, "module returned a failure without a cause", NULL);
    return rq->response.status;
}

int reply_failure(struct core_request *rq, enum failure_kind kind)
{
    request_fail(rq, kind);
    return reply_failed(rq);
}

enum { WORDS = 80 /* maximum characters of a statement in the log */ };
enum { STATUS_MIN = 200, STATUS_ERROR = 400, STATUS_MAX = 599 };

/* Returns the module's name for a log line. */
static const char *module_error_module(const struct bb_host *host)
{
    return host && host->module ? host->module->name : "busbar";
}

struct log_pair module_error_place(const struct core_request *rq, char route[MODULE_ERROR_PLACE])
{
    static const char *const kinds[] = {
        [REQUEST_JOB] = "job", [REQUEST_HOOK] = "hook", [REQUEST_COMMAND] = "command"};

    if (kinds[rq->kind])
        return (struct log_pair){kinds[rq->kind], rq->name};
    if (rq->route)
        snprintf(route, MODULE_ERROR_PLACE, "%s %s", rq->route->method, rq->route->path);
    return (struct log_pair){"route", rq->route ? route : NULL};
}

void module_error_log(const struct core_request *rq, enum bb_level level, const char *what,
                      const char *detail)
{
    char route[MODULE_ERROR_PLACE];
    const struct log_pair pairs[] = {
        {"module", module_error_module(rq->pub.host)},
        module_error_place(rq, route),
        {"detail", detail},
        {"request", rq->id},
    };

    log_pairs(level, what, pairs, sizeof pairs / sizeof *pairs);
}

int module_error(struct core_request *rq, const char *what, const char *detail)
{
    module_error_log(rq, BB_ERROR, what, detail);
    reply_error(rq, 500, "Internal server error");
    request_fail(rq, FAILED_ANSWERED);
    return 500;
}

/* If only_names_problems is set, answers 400 with the problems found before, and returns true. */
static bool module_error_is_refused(struct core_request *rq)
{
    if (!rq->only_names_problems)
        return false;
    reply_problems(rq, 400, "The request is not valid", NULL);
    request_fail(rq, FAILED_ANSWERED);
    return true;
}

bool module_error_waits(struct core_request *rq, const char *what)
{
    if (module_error_is_refused(rq))
        return true;
    if (!rq->hook_depth)
        return false;
    rq->within_failed = true;
    module_error(rq, "hook within a transaction called a function that waits", what);
    return true;
}

bool module_error_wants_body(int status)
{
    return status != 204 && status != 304;
}

int module_error_no_json(struct core_request *rq, int status)
{
    char text[16];

    if (rq->json_oom || arena_starved(rq->arena))
        return reply_failure(rq, FAILED_MEMORY);
    snprintf(text, sizeof text, "%d", status);
    return module_error(rq, "module sent a response without JSON (did json_pack() fail?)", text);
}

void module_error_log_response(const struct core_request *rq, int status)
{
    int first = rq->response.status;
    bool late = rq->unanswered && !first && status >= STATUS_ERROR;
    char text[32];

    if (rq->kind != REQUEST_HTTP || (!late && (!first || first >= STATUS_ERROR)))
        return;
    snprintf(text, sizeof text, "%d, %d", first, status);
    if (late)
        module_error_log(rq, BB_ERROR,
                         "module sent an error response after its transaction was committed", text);
    else
        module_error_log(rq, BB_WARN, "module sent two responses", text);
}

bool module_error_free_response(struct core_request *rq, int status, int least, int *instead)
{
    char text[16];

    if (status < STATUS_ERROR && module_error_is_refused(rq)) {
        *instead = rq->response.status;
        return false;
    }
    bool late = rq->kind == REQUEST_HTTP && rq->committed && status >= STATUS_ERROR;

    if (!late && status >= least && status <= STATUS_MAX) {
        module_error_log_response(rq, status);
        return true;
    }
    snprintf(text, sizeof text, "%d", status);
    if (late)
        module_error_log(rq, BB_ERROR,
                         "module sent an error response after its transaction was committed", text);
    *instead = late ? rq->response.status
                    : module_error(rq, "module sent a response with an invalid status", text);
    return false;
}

void module_error_check_answer(struct core_request *rq, int returned)
{
    int status = rq->response.status;
    char text[32];

    if (!status) {
        module_error(rq, "handler sent no response", NULL);
    } else if (rq->open_units && status < STATUS_ERROR && !rq->committed) {
        module_error(rq, "unit with statements was never committed", NULL);
    } else if (returned != status) {
        snprintf(text, sizeof text, "%d, %d", status, returned);
        module_error_log(rq, BB_ERROR, "handler returned a status that differs from its response",
                         text);
    }
}

/* Returns the beginning of a statement on one line, to be logged. */
static const char *module_error_first_words(const char *text, char out[WORDS])
{
    static const char blanks[] = " \t\r\n\f\v";
    size_t used = 0;

    for (text += strspn(text, blanks); *text && used + 1 < WORDS; text++) {
        bool blank = strchr(blanks, *text) != NULL;

        if (!blank || (used && out[used - 1] != ' '))
            out[used++] = blank ? ' ' : *text;
    }
    out[used] = '\0';
    return out;
}

void module_error_statement(struct core_request *rq, enum bb_level level)
{
    struct failure *failure = &rq->failure;
    char words[WORDS], route[MODULE_ERROR_PLACE];
    const struct log_pair pairs[] = {
        {"module", module_error_module(failure->host)},
        module_error_place(rq, route),
        {"statement",
         failure->sql ? module_error_first_words(failure->sql->text, words) : "COMMIT"},
        {"sqlstate", failure->sqlstate},
        {"reason", failure->text},
        {"request", rq->id},
    };

    if (failure->logged)
        return;
    failure->logged = true;
    log_pairs(level, "a statement failed", pairs, sizeof pairs / sizeof *pairs);
}
