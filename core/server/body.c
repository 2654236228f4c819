/*
 * The body: checks its type, reads, parses and validates it; also validates segments and the query.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/json_in.h"
#include "core/lib/text.h"
#include "core/module/reply.h"
#include "core/server/http_txn.h"
#include "core/server/upload.h"

#define JSON_TYPE "application/json"
#define FORM_TYPE "application/x-www-form-urlencoded"

enum { VALUES_MAX = 12000 }; /* for a JSON body if the route sets no limit */

enum body_kind { BODY_OTHER, BODY_JSON, BODY_FORM, BODY_PARTS };

bool body_follows(const struct http_txn *txn)
{
    return txn->head.length > 0 || txn->head.chunked;
}

/* Returns the text after this media type, without blanks; NULL if the type differs. */
static const char *behind_type(const char *value, const char *type)
{
    size_t length = strlen(type);

    if (strncasecmp(value, type, length) != 0)
        return NULL;
    value += length;
    value += strspn(value, " \t");
    return !*value || *value == ';' ? value : NULL;
}

/* Whether the media type is `type`, with no parameter other than charset=utf-8. */
static bool media_type_is(const char *value, const char *type)
{
    static const char *const utf8[] = {"utf-8", "utf8", "\"utf-8\"", "\"utf8\""};
    const char *rest = behind_type(value, type);

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

/* "application/…+json" */
static bool is_json_suffixed(const char *value)
{
    static const char suffix[] = "+json";
    size_t top = strlen("application/"), length = strcspn(value, "; \t"), own = strlen(suffix);

    return length > top + own && !strncasecmp(value, "application/", top) &&
           !strncasecmp(value + length - own, suffix, own);
}

/*
 * Whether a body that is not declared as JSON is read as JSON: only with a token in the header,
 * because a browser does not send a token for a page of another site, although it would send plain
 * text.
 */
static bool is_vouched(const struct http_txn *txn, const char *type)
{
    if (!txn->rq.pub.principal || !txn->match.route->body.count)
        return false;
    return !*type || behind_type(type, JSON_TYPE) || behind_type(type, "text/plain") ||
           is_json_suffixed(type);
}

static enum body_kind kind_of(const struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    const char *type = http_txn_header(txn, "Content-Type");
    char boundary[MULTIPART_BOUNDARY_MAX + 1];

    if (!type)
        type = "";
    if (media_type_is(type, JSON_TYPE))
        return BODY_JSON;
    if (route->flags & BB_FORM_TOO && behind_type(type, FORM_TYPE)) /* UTF-8, whatever the charset
                                                                     * says */
        return BODY_FORM;
    if (route->parts.count && multipart_boundary(type, boundary))
        return BODY_PARTS;
    return is_vouched(txn, type) ? BODY_JSON : BODY_OTHER;
}

static size_t limit_of(const struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    size_t limit = route->body_max;

    if (!limit)
        limit = txn->rq.generation->request.max_body;
    return txn->multipart ? limit + route->files_max + UPLOAD_HEADS : limit;
}

static int unsupported(struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    const char *types = route->flags & BB_FORM_TOO ? JSON_TYPE " in UTF-8, or " FORM_TYPE
                        : !route->parts.count      ? JSON_TYPE " in UTF-8"
                        : route->body.count        ? JSON_TYPE " in UTF-8, or multipart/form-data"
                                                   : "multipart/form-data";

    return reply_error(&txn->rq, 415, "The body must be %s", types);
}

static int check_type(struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    const char *encoding = http_txn_header(txn, "Content-Encoding");

    if (encoding && *encoding && strcasecmp(encoding, "identity") != 0)
        return reply_error(&txn->rq, 415, "Content-Encoding is not supported");
    if ((route->body.count || route->parts.count) && txn->other)
        return unsupported(txn);
    return 0;
}

int body_expect(struct http_txn *txn)
{
    int64_t declared = txn->head.length;
    bool follows = body_follows(txn);
    enum body_kind kind = follows ? kind_of(txn) : BODY_OTHER;

    txn->form = kind == BODY_FORM;
    txn->multipart = kind == BODY_PARTS;
    txn->other = kind == BODY_OTHER;
    txn->chunked = follows && declared < 0;
    txn->limit = limit_of(txn);
    if (declared > (int64_t)txn->limit)
        return reply_error(&txn->rq, 413, "The body is larger than %zu bytes", txn->limit);
    return declared > 0 ? check_type(txn) : 0;
}

/* Returns the number of bytes to count: small bodies are limited by the number of connections. */
static size_t counted_of(size_t length)
{
    return length < BODY_LARGE ? 0 : length;
}

void body_drop(struct http_txn *txn)
{
    body_give_room(txn, counted_of(txn->length));
    free(txn->bytes);
    txn->bytes = NULL;
    txn->length = txn->room = 0;
}

void body_free(struct http_txn *txn)
{
    body_drop(txn);
    body_give_room(txn, txn->counted.bytes);
}

int body_keep(struct http_txn *txn, const char *data, size_t size, size_t limit)
{
    struct core_request *rq = &txn->rq;
    size_t needed = txn->length + size;

    if (needed > limit)
        return reply_error(rq, 413, "The body is larger than %zu bytes", limit);
    int refused = body_take_room(txn, counted_of(needed) - counted_of(txn->length));

    if (refused)
        return refused;
    if (needed > txn->room) {
        int64_t declared = txn->multipart ? 0 : txn->head.length;
        size_t room = declared > 0 ? (size_t)declared : needed * 2;
        char *bytes = realloc(txn->bytes, room < needed ? needed : room);

        if (!bytes) {
            request_fail(rq, FAILED_MEMORY);
            return reply_failed(rq);
        }
        txn->bytes = bytes;
        txn->room = room < needed ? needed : room;
    }
    memcpy(txn->bytes + txn->length, data, size);
    txn->length = needed;
    return 0;
}

/* Starts a multipart body. Its time limit depends on its size. */
static int begin_upload(struct http_txn *txn)
{
    char boundary[MULTIPART_BOUNDARY_MAX + 1];
    int64_t declared = txn->head.length;
    int found = multipart_boundary(http_txn_header(txn, "Content-Type"), boundary);

    if (found == -2) {
        request_fail(&txn->rq, FAILED_MEMORY);
        return reply_failed(&txn->rq);
    }
    if (found < 0)
        return reply_error(&txn->rq, 400, "The boundary of the multipart body is not valid");
    connection_stage(txn->connection, STAGE_BODY, declared > 0 ? (size_t)declared : 0);
    return upload_begin(txn, boundary);
}

static int take_part(struct http_txn *txn, const char *data, size_t size)
{
    int refused = txn->upload ? 0 : begin_upload(txn);

    txn->taken += size;
    txn->connection->http->again = true;
    if (!refused && txn->taken > txn->limit)
        refused = reply_error(&txn->rq, 413, "The body is larger than %zu bytes", txn->limit);
    return refused ? refused : upload_take(txn->upload, data, size);
}

/*
 * With an Idempotency-Key the body is read even if the route ignores it, because a different body
 * makes a different request.
 */
static bool is_read(const struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;

    return route->body.count || route->flags & BB_CREATES;
}

/*
 * Bodies that are not read are not stored: otherwise anyone could fill the memory through a public
 * route.
 */
static int pass_over(struct http_txn *txn, size_t size)
{
    txn->taken += size;
    if (txn->taken <= txn->limit)
        return 0;
    return reply_error(&txn->rq, 413, "The body is larger than %zu bytes", txn->limit);
}

int body_take(struct http_txn *txn, const char *data, size_t size)
{
    if (txn->chunked && check_type(txn))
        return txn->rq.response.status;
    txn->chunked = false;
    if (txn->multipart)
        return take_part(txn, data, size);
    if (!is_read(txn))
        return pass_over(txn, size);
    return body_keep(txn, data, size, txn->limit);
}

static json_t *error_list(const struct problems *problems)
{
    json_t *list = json_array();

    problems_list(problems, list);
    return list;
}

/*
 * Reports lack of memory, because a check that fails for that reason does not prove a client error.
 */
static int no_memory(struct http_txn *txn)
{
    request_fail(&txn->rq, FAILED_MEMORY);
    return reply_failed(&txn->rq);
}

static int refuse(struct http_txn *txn, const struct problems *problems)
{
    if (!problems->count || arena_starved(problems->arena))
        return no_memory(txn);
    return reply_problems(&txn->rq, 400, "The request is not valid", error_list(problems));
}

static void check_segments(struct http_txn *txn, struct problems *problems)
{
    const struct route_match *match = &txn->match;
    struct arena *arena = txn->rq.arena;

    for (size_t i = 0; i < match->count; i++) {
        struct bb_field field = *match->segment[i].field;
        char *text;
        size_t length;

        field.flags |= BB_REQUIRED; /* blanks are refused, but a segment is never absent */
        if (text_percent(match->segment[i].start, match->segment[i].length, false, arena, &text,
                         &length))
            problems_add(problems, field.name, "must be text in UTF-8, percent-encoded");
        else
            txn->segments[i] = field_check_text(&field, text, arena, problems);
    }
}

static json_t *parse(struct http_txn *txn, struct json_problem *problem)
{
    if (!txn->length)
        return json_object();
    if (txn->form)
        return form_read(txn->bytes, txn->length, problem);
    size_t most = txn->match.route->values_max;

    return json_read_most(txn->bytes, txn->length, most ? most : VALUES_MAX, problem);
}

static int malformed(struct http_txn *txn, const struct json_problem *problem)
{
    struct core_request *rq = &txn->rq;

    if (problem->memory)
        return no_memory(txn);
    if (problem->line && !txn->form)
        return reply_error(rq, 400, "Malformed JSON in line %d, column %d: %s", problem->line,
                           problem->column, problem->text);
    return reply_error(rq, 400, "Malformed body: %s", problem->text);
}

static int check_fields(struct http_txn *txn, struct problems *problems)
{
    struct json_problem problem = {.text = ""};
    json_t *object = parse(txn, &problem);

    if (!object)
        return malformed(txn, &problem);
    if (!json_is_object(object)) {
        json_decref(object);
        problems_add(problems, "body", "must be an object");
        return refuse(txn, problems);
    }
    const struct bb_route *route = txn->match.route;
    json_t *checked = fields_check(&route->body, object, problems);
    bool lost = checked && route->flags & BB_KEEP_OTHERS &&
                fields_keep_others(&route->body, object, checked);

    txn->rq.body = checked;
    json_decref(object);
    if (lost) {
        request_fail(&txn->rq, FAILED_MEMORY);
        return reply_failed(&txn->rq);
    }
    return checked ? 0 : refuse(txn, problems);
}

static int complete_parts(struct http_txn *txn)
{
    if (txn->upload)
        return upload_complete(txn->upload);
    return reply_error(&txn->rq, 400, "The multipart body is empty");
}

static int check_query(struct http_txn *txn, struct problems *problems)
{
    struct core_request *rq = &txn->rq;
    struct query_values *args = &txn->args;
    int failed = query_check(&txn->match.route->query, txn->query, rq->arena, args, problems);

    if (args->ignored && reply_header(rq, "X-Ignored-Parameters", args->ignored))
        return -1;
    return failed;
}

/* Whether the handler may find further errors, in addition to those found here. */
static bool handler_checks(const struct bb_route *route)
{
    struct bb_field room;

    for (size_t i = 0; i < route->body.count; i++)
        if (field_at(&route->body, i, &room)->flags & BB_AS_SENT)
            return true;
    return false;
}

int body_check(struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    struct problems problems = {.arena = txn->rq.arena, .warnings = &txn->rq.warnings};

    check_segments(txn, &problems);
    if (check_query(txn, &problems) || problems.count)
        return refuse(txn, &problems);
    int refused = txn->multipart ? complete_parts(txn) : 0;

    if (refused)
        return refused;
    refused = route->body.count ? check_fields(txn, &problems) : 0;
    if (!refused && txn->rq.errors && !handler_checks(route))
        return reply_problems(&txn->rq, 400, "The request is not valid", NULL);
    return refused;
}
