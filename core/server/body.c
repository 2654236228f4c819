#include "core/server/body.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/json.h"
#include "core/lib/text.h"
#include "core/module/reply.h"
#include "core/server/upload.h"

#define JSON_TYPE "application/json"
#define FORM_TYPE "application/x-www-form-urlencoded"
#define RETRY_SECONDS "5"

enum { VALUES_MAX = 12000 }; /* for a JSON body if the route sets no limit */

enum body_kind { BODY_OTHER, BODY_JSON, BODY_FORM, BODY_PARTS };

bool body_follows(const struct http_txn *txn)
{
    return txn->head.length > 0 || txn->head.chunked;
}

/* Returns the text after this media type and blanks; NULL if the type differs. */
static const char *body_after_type(const char *value, const char *type)
{
    size_t length = strlen(type);

    if (strncasecmp(value, type, length) != 0)
        return NULL;
    value += length;
    value += strspn(value, " \t");
    return !*value || *value == ';' ? value : NULL;
}

/* Returns whether the media type is `type`, with no parameter other than charset=utf-8. */
static bool body_type_is(const char *value, const char *type)
{
    static const char *const utf8[] = {"utf-8", "utf8", "\"utf-8\"", "\"utf8\""};
    const char *rest = body_after_type(value, type);

    if (!rest)
        return false;
    rest += *rest == ';';
    rest += strspn(rest, " \t");
    if (!*rest)
        return true;
    if (strncasecmp(rest, "charset=", 8) != 0)
        return false;
    for (size_t i = 0; i < sizeof utf8 / sizeof *utf8; i++) {
        if (!strcasecmp(rest + 8, utf8[i]))
            return true;
    }
    return false;
}

/*
 * Returns whether a body that is not declared as JSON is read as JSON. This requires a token: a
 * browser would send plain text on behalf of a page of another site, but not a token.
 */
static bool body_is_vouched(const struct http_txn *txn, const char *type)
{
    static const char top[] = "application/", suffix[] = "+json"; /* application/…+json */
    size_t length = strcspn(type, "; \t"), own = strlen(suffix);

    if (!txn->rq.pub.principal || !txn->match.route->body.count)
        return false;
    return !*type || body_after_type(type, JSON_TYPE) || body_after_type(type, "text/plain") ||
           (length > strlen(top) + own && !strncasecmp(type, top, strlen(top)) &&
            !strncasecmp(type + length - own, suffix, own));
}

static enum body_kind body_kind_of(const struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    const char *type = head_value(&txn->head, "Content-Type");
    char boundary[MULTIPART_BOUNDARY_MAX + 1];

    if (!type)
        type = "";
    if (body_type_is(type, JSON_TYPE))
        return BODY_JSON;
    if (route->flags & BB_FORM_TOO &&
        body_after_type(type, FORM_TYPE)) /* ignores the charset; the body must be UTF-8 */
        return BODY_FORM;
    if (route->parts.count && multipart_boundary(type, boundary))
        return BODY_PARTS;
    return body_is_vouched(txn, type) ? BODY_JSON : BODY_OTHER;
}

static int body_check_type(struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    const char *encoding = head_value(&txn->head, "Content-Encoding");
    const char *types = route->flags & BB_FORM_TOO ? JSON_TYPE " in UTF-8, or " FORM_TYPE
                        : !route->parts.count      ? JSON_TYPE " in UTF-8"
                        : route->body.count        ? JSON_TYPE " in UTF-8, or multipart/form-data"
                                                   : "multipart/form-data";

    if (encoding && *encoding && strcasecmp(encoding, "identity") != 0)
        return reply_error(&txn->rq, 415, "Content-Encoding is not supported");
    if ((route->body.count || route->parts.count) && txn->unsupported_type)
        return reply_error(&txn->rq, 415, "The body must be %s", types);
    return 0;
}

static int body_too_large(struct http_txn *txn, size_t limit)
{
    return reply_error(&txn->rq, 413, "The body is larger than %zu bytes", limit);
}

int body_expect(struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    int64_t declared = txn->head.length;
    bool follows = body_follows(txn);
    enum body_kind kind = follows ? body_kind_of(txn) : BODY_OTHER;

    txn->form = kind == BODY_FORM;
    txn->multipart = kind == BODY_PARTS;
    txn->unsupported_type = kind == BODY_OTHER;
    txn->chunked = follows && declared < 0;
    txn->limit =
        route->body_max ? route->body_max : (size_t)txn->rq.generation->host->http.max_body;
    if (txn->multipart)
        txn->limit += route->files_max + UPLOAD_HEADS;
    if (declared > (int64_t)txn->limit)
        return body_too_large(txn, txn->limit);
    return declared > 0 ? body_check_type(txn) : 0;
}

/* ---- memory ---- */

int body_refuse_room(struct core_request *rq, enum quota quota, enum quota_result why)
{
    quota_fail(rq, quota, why);
    if (why != QUOTA_OWN_FULL)
        return reply_failed(rq);
    reply_header(rq, "Retry-After", RETRY_SECONDS);
    return reply_error(rq, 429, "Too many large %s in progress for this %s", quota_names[quota],
                       rq->owner.account ? "account" : "address");
}

static enum quota_result body_count(struct http_txn *txn, size_t bytes)
{
    struct quota_limits bounds = quota_bounds(txn->rq.generation, QUOTA_BODIES);

    return quota_take(&quota_tables[QUOTA_BODIES], &txn->body_charge, &txn->rq.owner, bytes,
                      &bounds);
}

bool body_try_room(struct http_txn *txn, size_t bytes)
{
    return body_count(txn, bytes) == QUOTA_TAKEN;
}

/* Small bodies count as 0 bytes, so that they need no data shared by the loops. */
int body_take_room(struct http_txn *txn, size_t bytes)
{
    enum quota_result answer = bytes ? body_count(txn, bytes) : QUOTA_TAKEN;

    return answer == QUOTA_TAKEN ? 0 : body_refuse_room(&txn->rq, QUOTA_BODIES, answer);
}

/* Returns the number of bytes to count, 0 for small bodies: connections limit their number. */
static size_t body_counted(size_t length)
{
    return length < BODY_LARGE ? 0 : length;
}

void body_drop(struct http_txn *txn)
{
    if (body_counted(txn->length))
        quota_release(&quota_tables[QUOTA_BODIES], &txn->body_charge, body_counted(txn->length));
    free(txn->bytes);
    txn->bytes = NULL;
    txn->length = txn->room = 0;
}

int body_keep(struct http_txn *txn, const char *data, size_t size, size_t limit)
{
    size_t needed = txn->length + size;

    if (needed > limit)
        return body_too_large(txn, limit);
    int refused = body_take_room(txn, body_counted(needed) - body_counted(txn->length));

    if (refused)
        return refused;
    if (needed > txn->room) {
        int64_t declared = txn->multipart ? 0 : txn->head.length;
        size_t room = declared > 0 ? (size_t)declared : needed * 2;
        char *bytes = realloc(txn->bytes, room < needed ? needed : room);

        if (!bytes)
            return reply_failure(&txn->rq, FAILED_MEMORY);
        txn->bytes = bytes;
        txn->room = room < needed ? needed : room;
    }
    memcpy(txn->bytes + txn->length, data, size);
    txn->length = needed;
    return 0;
}

/* ---- pieces ---- */

/*
 * Does not store a body that the route ignores, because anyone could fill the memory through a
 * public route. With an Idempotency-Key it must store it, because another body makes another
 * request.
 */
static int body_take_piece(struct http_txn *txn, const char *data, size_t size)
{
    const struct bb_route *route = txn->match.route;

    if (txn->chunked && body_check_type(txn))
        return txn->rq.response.status;
    txn->chunked = false;
    if (!txn->multipart && (route->body.count || route->flags & BB_CREATES))
        return body_keep(txn, data, size, txn->limit);
    if (txn->multipart)
        txn->connection->http->again = true;
    if (txn->multipart && !txn->upload) {
        int64_t declared = txn->head.length; /* the time limit depends on it */
        char boundary[MULTIPART_BOUNDARY_MAX + 1];
        int found = multipart_boundary(head_value(&txn->head, "Content-Type"), boundary);

        if (found == -2)
            return reply_failure(&txn->rq, FAILED_MEMORY);
        if (found < 0)
            return reply_error(&txn->rq, 400, "The boundary of the multipart body is not valid");
        connection_stage(txn->connection, STAGE_BODY, declared > 0 ? (size_t)declared : 0);
        if (upload_begin(txn, boundary))
            return txn->rq.response.status;
    }
    txn->taken += size;
    if (txn->taken > txn->limit)
        return body_too_large(txn, txn->limit);
    return txn->upload ? upload_take(txn->upload, data, size) : 0;
}

size_t body_take(struct http_txn *txn, const char *data, size_t size)
{
    size_t most = txn->upload && txn->limit > DRAIN_MAX ? txn->limit : DRAIN_MAX;
    const struct reader *reader = &txn->connection->reader;

    /* libmicrohttpd passes chunks that it has already read even if the connection is suspended:
     * leave them in its buffer */
    if (txn->upload && upload_is_stalled(txn->upload))
        return size;
    if (txn->phase != PHASE_ANSWER) {
        if (reader->status) {
            reply_error(&txn->rq, reader->status, "%s", reader->reason);
        } else if (!body_take_piece(txn, data, size)) {
            if (txn->upload && upload_stalls(txn->upload))
                MHD_suspend_connection(txn->mhd);
            return 0;
        }
        txn->phase = PHASE_ANSWER;
        body_drop(txn);
    }
    /* the response is decided: discards the rest, up to a limit */
    if (!txn->drop_body && txn->head.chunked)
        connection_drops_body(txn->connection, txn->rq.response.status);
    txn->drop_body = true;
    txn->dropped += size;
    if (txn->dropped > most)
        connection_stop_body(txn->connection, txn->rq.response.status);
    return 0;
}

/* ---- the whole body ---- */

/* Answers with 503 if memory ran out, because the check may have failed for this reason. */
static int body_refuse(struct http_txn *txn, const struct problems *problems)
{
    if (!problems->count || arena_starved(problems->arena))
        return reply_failure(&txn->rq, FAILED_MEMORY);
    json_t *errors = json_array();

    problems_list(problems, errors);
    return reply_problems(&txn->rq, 400, "The request is not valid", errors);
}

static int body_check_fields(struct http_txn *txn, struct problems *problems)
{
    const struct bb_route *route = txn->match.route;
    struct json_problem problem = {.text = ""};
    size_t most = route->values_max ? route->values_max : VALUES_MAX;
    json_t *object = !txn->length ? json_object()
                     : txn->form  ? form_read(txn->bytes, txn->length, &problem)
                                  : json_read(txn->bytes, txn->length, most, &problem);

    if (!object && problem.memory)
        return reply_failure(&txn->rq, FAILED_MEMORY);
    if (!object && problem.line && !txn->form)
        return reply_error(&txn->rq, 400, "Malformed JSON in line %d, column %d: %s", problem.line,
                           problem.column, problem.text);
    if (!object)
        return reply_error(&txn->rq, 400, "Malformed body: %s", problem.text);
    if (!json_is_object(object)) {
        json_decref(object);
        problems_add(problems, "body", (enum problem_kind)BB_OBJECT);
        return body_refuse(txn, problems);
    }
    json_t *checked = fields_check(&route->body, object, problems);
    json_t *others = checked && route->flags & BB_KEEP_OTHERS ? object : NULL, *value;
    const char *name;
    bool lost = false;

    json_object_foreach(others, name, value)
    {
        if (!field_find(&route->body, name))
            lost |= json_object_set_nocheck(checked, name, value) != 0;
    }
    txn->rq.body = checked;
    json_decref(object);
    if (lost)
        return reply_failure(&txn->rq, FAILED_MEMORY);
    return checked ? 0 : body_refuse(txn, problems);
}

int body_check(struct http_txn *txn)
{
    const struct route_match *match = &txn->match;
    const struct bb_route *route = match->route;
    struct core_request *rq = &txn->rq;
    struct problems problems = {.arena = rq->arena, .warnings = &rq->warnings};
    int refused = 0;
    bool handler_checks = false; /* the handler may find further errors */

    for (size_t i = 0; i < match->count; i++) {
        struct bb_field field = *match->segment[i].field;
        const char *text =
            text_percent(match->segment[i].start, match->segment[i].length, false, rq->arena);

        field.flags |= BB_REQUIRED; /* blanks are refused; a segment is never absent */
        if (!text)
            problems_add(&problems, field.name, PROBLEM_ENCODING);
        else
            txn->segments[i] = field_check_text(&field, text, rq->arena, &problems);
    }
    refused = query_check(&route->query, txn->query, rq->arena, &txn->args, &problems);
    if (txn->args.ignored && reply_header(rq, "X-Ignored-Parameters", txn->args.ignored))
        refused = -1;
    if (refused || problems.count)
        return body_refuse(txn, &problems);
    if (txn->multipart && !txn->upload)
        return reply_error(rq, 400, "The multipart body is empty");
    if (txn->multipart)
        refused = upload_complete(txn->upload);
    if (!refused && route->body.count)
        refused = body_check_fields(txn, &problems);
    for (size_t i = 0; i < route->body.count; i++)
        handler_checks = handler_checks || field_at(&route->body, i)->flags & BB_AS_SENT;
    if (!refused && rq->errors && !handler_checks)
        return reply_problems(rq, 400, "The request is not valid", NULL);
    return refused;
}
