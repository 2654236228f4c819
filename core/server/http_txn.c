#include "core/server/http_txn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/json.h"
#include "core/lib/listener.h"
#include "core/lib/log.h"
#include "core/lib/meter.h"
#include "core/lib/text.h"
#include "core/module/engine.h"
#include "core/module/pool.h"
#include "core/module/reply.h"
#include "core/server/body.h"
#include "core/server/stream.h"
#include "core/store/pg.h"
#include "core/store/sql.h"

enum {
    TOKEN_VALID_US = 500 * 1000, /* validity of the authenticator's result */
    KEPT_PART = 4,               /* 1/4 of the limit is reserved for new addresses: txn_count() */
    DELAY_MS = 100,              /* delay of a refusal */
    HEADERS_MAX = 6 * 1024
};

/* ---- headers ---- */

const char *http_txn_list(const struct http_txn *txn, const char *name)
{
    const struct head *head = &txn->head;
    const char *first = NULL;
    char *list = NULL, *end = NULL;
    size_t length = strlen(name);

    for (size_t i = 0; i < head->count; i++) {
        const struct head_field *field = &head->fields[i];
        const char *value = head->text + field->value;

        if (field->name_length != length || strcasecmp(head->text + field->name, name) != 0)
            continue;
        if (!first) {
            first = value;
            continue;
        }
        if (!list) { /* the head holds all values, and before each of them a name */
            list = arena_alloc(txn->rq.arena, HEAD_BYTES_MAX);
            if (!list)
                return "-";
            end = stpcpy(list, first);
        }
        end = stpcpy(stpcpy(end, ", "), value);
    }
    return list ? list : first;
}

const char *http_txn_token(const struct http_txn *txn)
{
    const char *value = head_value(&txn->head, "Authorization");

    if (!value || strncasecmp(value, "Bearer ", 7) != 0)
        return NULL;
    value += 7 + strspn(value + 7, " ");
    return *value && !strchr(value, ' ') ? value : NULL;
}

static bool txn_reads_only(const struct http_txn *txn)
{
    return !strcmp(txn->method, "GET") || !strcmp(txn->method, "HEAD");
}

/* ---- limits of requests in progress, and of their bodies ---- */

void http_txn_uncount(struct http_txn *txn)
{
    quota_release_all(&quota_tables[QUOTA_REQUESTS], &txn->request_charge);
    quota_release_all(&quota_tables[QUOTA_ANONYMOUS], &txn->anonymous);
    account_add(txn->entered, ACCOUNT_REQUESTS, -1);
    txn->entered = NULL;
}

/*
 * Counts the request for its owner, unless it is a GET or HEAD without a token. Other requests
 * without a token may use only a part of the limit for requests, so that slow bodies of anonymous
 * clients leave room for accounts. The last quarter of this part is for addresses that have no such
 * request in progress, so that a few addresses cannot prevent others from logging in.
 */
static int txn_count(struct http_txn *txn)
{
    struct core_request *rq = &txn->rq;
    struct quota_limits requests = quota_bounds(rq->generation, QUOTA_REQUESTS),
                        anonymous = quota_bounds(rq->generation, QUOTA_ANONYMOUS);
    struct quota_table *table = &quota_tables[QUOTA_ANONYMOUS];

    if (!rq->owner.account && txn_reads_only(txn))
        return 0;
    if (!rq->owner.account) {
        bool others_first = quota_entry_of(table, &rq->owner) > 0;

        if (others_first)
            anonymous.all -= anonymous.all / KEPT_PART;
        enum quota_result answer = quota_take(table, &txn->anonymous, &rq->owner, 1, &anonymous);

        if (answer == QUOTA_ALL_FULL && others_first)
            answer = QUOTA_OWN_FULL;
        if (answer != QUOTA_TAKEN)
            return quota_fail(rq, QUOTA_ANONYMOUS, answer);
    }
    if (!quota_charge(rq, QUOTA_REQUESTS, &txn->request_charge, 1, &requests))
        return 0;
    quota_release_all(table, &txn->anonymous);
    return -1;
}

/*
 * Checks limits, method and body. Routes that are not public are checked after authentication, so
 * that anonymous clients cannot probe paths. Returns 0, or answers and returns the status.
 */
static int txn_enter(struct http_txn *txn)
{
    if (txn_count(txn))
        return reply_failed(&txn->rq);
    if (txn->match.route) {
        struct account *account = ((const struct host_handle *)txn->match.owner)->account;
        int64_t wait_s = account_enter(account);
        char seconds[TEXT_INTEGER_SIZE];

        if (!wait_s) {
            txn->entered = account;
            return body_expect(txn);
        }
        txn->limited = true;
        text_integer(wait_s, seconds);
        reply_header(&txn->rq, "Retry-After", seconds);
        return reply_error(&txn->rq, 503, "Too many requests for this part of the service");
    }
    reply_header(&txn->rq, "Allow", txn->match.allow);
    return reply_error(&txn->rq, 405, "Method %s is not allowed for this path", txn->method);
}

/* ---- access: checks before the body ---- */

static int txn_find_route(struct http_txn *txn)
{
    struct core_request *rq = &txn->rq;

    if (!strcmp(txn->path, "*")) { /* OPTIONS *: asks for the methods of the whole server */
        reply_header(rq, "Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        return reply_bytes(rq, 204, NULL, 0);
    }
    switch (router_match(rq->generation->router, txn->method, txn->path, &txn->match)) {
    case ROUTE_OK:
        break;
    case ROUTE_NO_METHOD:
        if (strcmp(txn->method, "OPTIONS") != 0)
            return 0;
        reply_header(rq, "Allow", txn->match.allow);
        if (reply_header_get(rq, "Access-Control-Allow-Origin") &&
            head_value(&txn->head, "Access-Control-Request-Method")) {
            reply_header(rq, "Access-Control-Allow-Methods", txn->match.allow);
            reply_header(rq, "Access-Control-Allow-Headers",
                         "Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, "
                         "X-Request-Id, traceparent");
            reply_header(rq, "Access-Control-Max-Age", "600");
        }
        return reply_bytes(rq, 204, NULL, 0);
    case ROUTE_BAD_PATH:
        txn->match.route = NULL;
        return reply_error(rq, 400, "The path is malformed");
    default:
        txn->match.route = NULL;
        return reply_error(rq, 404, "Path not found");
    }
    struct host_handle *owner = txn->match.owner;

    rq->route = txn->match.route;
    request_enter(rq, &owner->host);
    return 0;
}

/*
 * Returns whether neither a token nor a role is required. A route with BB_INSIDE is public for
 * addresses in http.metrics_networks. A request with X-Forwarded-For is not public if the header
 * did not change its address: the proxy is not trusted, or the header is invalid.
 */
static bool txn_is_public(const struct http_txn *txn)
{
    if (txn->match.roles & BB_ANYONE || !(txn->match.flags & BB_INSIDE))
        return txn->match.roles & BB_ANYONE;
    if (head_value(&txn->head, "X-Forwarded-For") &&
        !strcmp(txn->address, txn->connection->address))
        return false;
    return address_in(txn->rq.generation->inside, txn->address);
}

/* Makes the checks that need no token. Returns 0, or answers and returns the status. */
static int txn_check_access(struct http_txn *txn)
{
    struct core_request *rq = &txn->rq;
    const struct connection *connection = txn->connection;

    if (!txn->target) { /* memory ran out, so the client's headers are not available */
        text_uuid7(txn->id);
        trace_parent(NULL, rq->trace);
        txn->close = true;
        return reply_failure(rq, FAILED_MEMORY);
    }
    /* uses the client's X-Request-Id if it is valid, otherwise creates an id */
    const char *given = head_value(&txn->head, "X-Request-Id");
    size_t length = given ? strlen(given) : 0;

    if (length && length <= REQUEST_ID_MAX &&
        strspn(given, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") ==
            length)
        memcpy(txn->id, given, length + 1);
    else
        text_uuid7(txn->id);
    const char *parent = http_txn_list(txn, "traceparent"); /* a list of values is ignored */

    trace_parent(parent && strchr(parent, ',') ? NULL : parent, rq->trace);
    const char *hops = http_txn_list(txn, "X-Forwarded-For");

    if (hops) /* the peer's address, or the one reported by a trusted proxy */
        address_client(rq->generation->trusted_proxies, connection->address, hops, txn->address);
    else
        memcpy(txn->address, connection->address, sizeof txn->address);
    rq->owner = (struct quota_owner){.network = address_network(txn->address)};
    if (txn->head.status) { /* the reader found the head invalid */
        txn->close = true;
        return reply_error(rq, txn->head.status, "%s", txn->head.reason);
    }
    /* CORS: lets other origins read the response only if http.cors_origins names them. Caches must
     * not use a response to one origin, even a refusal, for another origin. */
    const char *origin = head_value(&txn->head, "Origin");

    if (json_array_size(rq->generation->host->http.cors_origins))
        reply_header(rq, "Vary", "Origin");
    if (origin && origin_allowed(rq->generation->host->http.cors_origins, origin)) {
        reply_header(rq, "Access-Control-Allow-Origin", origin);
        reply_header(rq, "Access-Control-Expose-Headers",
                     "X-Request-Id, ETag, Link, Retry-After, X-Ignored-Parameters, X-Total-Count");
    }
    int refused = txn_find_route(txn);

    return refused || !txn_is_public(txn) ? refused : txn_enter(txn);
}

/* ---- the audit log ---- */

/*
 * Returns the route's path with the decoded segments instead of the :names, so that a search in the
 * audit log finds a segment however the client encoded it. Fiber only.
 */
static const char *txn_plain_path(struct http_txn *txn)
{
    const struct route_match *match = &txn->match;
    struct arena *arena = txn->rq.arena;
    const char *rest = match->route->path, *path = "";

    for (size_t i = 0; path && i < match->count; i++) {
        size_t length = match->segment[i].length, before = strcspn(rest, ":");
        const char *sent = match->segment[i].start;
        const char *text = text_percent(sent, length, false, arena);

        text = text ? text : arena_text(arena, sent, length); /* not UTF-8: raw segment */
        path = arena_format(arena, "%s%.*s%s", path, (int)before, rest, text ? text : "");
        rest += before + strcspn(rest + before, "/");
    }
    path = path ? arena_format(arena, "%s%s", path, rest) : NULL;
    if (!path)
        request_out_of_memory(&txn->rq);
    return path;
}

void api_audit(struct bb_request *pub, const char *email)
{
    struct core_request *rq = request_of(pub);
    struct http_txn *txn = http_txn_of(pub);
    const struct bb_auditor *auditor = rq->generation->auditor;
    struct bb_host *host = pub->host;

    if (!auditor || rq->kind != REQUEST_HTTP || txn->audit_record)
        return;
    const struct bb_audited audited = {.size = sizeof audited,
                                       .route = rq->route,
                                       .path = txn_plain_path(txn),
                                       .request_id = txn->id,
                                       .email = pub->principal ? pub->principal->email : email};

    request_enter(rq, &rq->generation->auditor_host->host);
    int refused = auditor->before(pub->state, pub, &audited, &txn->audit_record);

    request_enter(rq, host);
    if (refused)
        api_end(pub, refused);
}

static bool txn_must_delay(const struct http_txn *txn)
{
    return (txn->answer->status == 429 || txn->limited) && !txn->delayed;
}

/*
 * Delays a 429, or a 503 caused by module_limits, by DELAY_MS. Without the delay, a client that
 * retries immediately would use more of the loop's time than others. On the fiber.
 */
static void txn_delay_refusal(struct core_request *rq)
{
    struct http_txn *txn = http_txn_of(&rq->pub);
    bool never = false;

    if (!txn_must_delay(txn))
        return;
    txn->delayed = true;
    request_wait_for(rq, &never, DELAY_MS);
}

/*
 * Checks token and role. If the body is not read yet (PHASE_ADMISSION), then calls txn_enter().
 * Answers if the request is refused. Fiber only.
 */
static void txn_check_role(struct core_request *rq)
{
    struct http_txn *txn = http_txn_of(&rq->pub);
    struct bb_principal principal = {.size = sizeof principal};
    const struct generation *generation = rq->generation;
    const char *token = http_txn_token(txn);
    struct bb_host *host = rq->pub.host;
    int refused = -1;

    if (!token) {
        reply_error(rq, 401, "Unauthorized");
    } else if (!generation->authenticator) {
        reply_error(rq, 503, "No module that authenticates accounts is loaded");
    } else {
        struct bb_host *provider = &generation->authenticator_host->host;

        txn->token_checked_us = clock_mono_us();
        request_enter(rq, provider);
        refused =
            generation->authenticator->authenticate(provider->state, &rq->pub, token, &principal);
        request_enter(rq, host);
    }
    if (!refused) {
        txn->principal = principal;
        rq->pub.principal = &txn->principal;
        rq->owner = (struct quota_owner){.account = principal.account};
        bool fits = txn->match.roles & principal.role, admission = txn->phase == PHASE_ADMISSION;
        bool audited = !fits && rq->route && rq->route->flags & BB_AUDITED;

        if (fits && admission)
            txn_enter(txn);
        else if (audited && admission && txn_count(txn)) /* limits audit records, too */
            reply_failed(rq);
        else if (audited)
            api_audit(&rq->pub, NULL);
        if (!fits && !rq->response.status)
            reply_error(rq, 403, "Forbidden");
    }
    txn_delay_refusal(rq);
}

/* ---- the handler ---- */

static void txn_check_body(void *txn)
{
    body_check(txn);
}

static int txn_begin_idempotency(struct http_txn *txn)
{
    const char *identity = txn->bytes, *key = head_value(&txn->head, "Idempotency-Key");
    size_t length = txn->length;

    if (!key || !(txn->match.route->flags & BB_CREATES))
        return 0;
    if (txn->upload && !(identity = upload_identity(txn->upload, &length)))
        request_out_of_memory(&txn->rq);
    return idempotency_begin(&txn->rq, txn->match.route, txn->target, key, identity, length);
}

/*
 * Parses the body and runs the handler, on the fiber. A pool thread of the host parses large
 * bodies, because the loop cannot serve others during the ten or more milliseconds that a megabyte
 * of JSON takes. Sending a body can take an hour, so the token is checked again unless the last
 * check was recent.
 */
static void txn_handle(struct core_request *rq)
{
    struct http_txn *txn = http_txn_of(&rq->pub);
    bool large = txn->kind != BODY_PARTS && txn->length >= BODY_LARGE;

    if (!large)
        body_check(txn);
    else if (pool_run(rq, txn_check_body, txn))
        reply_failed(rq);
    if (rq->response.status || (txn->upload && upload_wait(txn->upload)))
        return;
    if (rq->pub.principal && clock_mono_us() - txn->token_checked_us >= TOKEN_VALID_US)
        txn_check_role(rq);
    if (rq->response.status)
        return;
    rq->only_names_problems = rq->errors != NULL;
    if (!rq->errors && txn_begin_idempotency(txn))
        return;
    if (!rq->errors && rq->route->flags & BB_AUDITED)
        api_audit(&rq->pub, NULL);
    module_error_check_answer(rq, txn->match.route->handler(&rq->pub));
    /* the handler may have found the object that an earlier attempt was still creating */
    if (rq->idempotency && !rq->committed && rq->response.status == 409)
        idempotency_look(rq);
    if (rq->response.status == 404 && rq->route->flags & BB_VERSIONED && !txn_reads_only(txn) &&
        head_value(&txn->head, "If-Match"))
        reply_error(rq, 412, REPLY_CHANGED);
    txn_delay_refusal(rq);
}

/* ---- the end ---- */

void http_txn_free(struct http_txn *txn)
{
    body_drop(txn);
    quota_release_all(&quota_tables[QUOTA_BODIES], &txn->body_charge);
    free(txn->late.body);
    quota_release_all(&quota_tables[QUOTA_ANSWERS], &txn->response_charge);
    http_txn_uncount(txn);
    request_free(&txn->rq);
}

static void txn_end(struct http_txn *txn)
{
    if (txn->upload)
        upload_end(txn->upload);
    else
        http_txn_free(txn);
}

/*
 * Answers at the deadline while a pool call is in progress. The call may use memory of the request,
 * so the HTTP transaction stays until the call has returned; a later response of the handler is
 * discarded. Returns false if the client must wait. On the fiber.
 */
static bool txn_answer_timeout(struct core_request *rq)
{
    struct http_txn *txn = http_txn_of(&rq->pub);

    /* neither a response that has begun nor a committed transaction can be taken back */
    if (txn->phase != PHASE_HANDLER || !txn->suspended || txn->stream || rq->committed)
        return false;
    rq->time_spent.work_us += clock_mono_us() - txn->phase_us;
    reply_failure(rq, FAILED_DEADLINE);
    txn->late = rq->response;
    txn->answer = &txn->late;
    rq->response = (struct response){0};
    txn->phase = PHASE_ANSWER;
    txn->suspended = false;
    MHD_resume_connection(txn->mhd);
    return true;
}

/*
 * ---- the memory of responses ----
 *
 * Responses that clients have not read yet share a limit (http.max_answers), of which each owner
 * has a share. A request that had effects must not be refused afterwards. So only read-only
 * requests get a 429 or 503 instead of their response; other requests are refused before the
 * handler runs, if the unread responses of the owner have used up its share.
 */

/* Before the handler: returns 0, or answers 429 if unread responses use up the owner's share. */
static int txn_check_budget(struct http_txn *txn)
{
    struct quota_table *table = &quota_tables[QUOTA_ANSWERS];

    if (txn_reads_only(txn) || !quota_taken(table) ||
        quota_entry_of(table, &txn->rq.owner) <
            quota_bounds(txn->rq.generation, QUOTA_ANSWERS).each)
        return 0;
    return body_refuse_room(&txn->rq, QUOTA_ANSWERS, QUOTA_OWN_FULL);
}

/* Charges the bytes of a response. Returns true if a GET or HEAD exceeds a limit. */
static bool txn_count_response(struct http_txn *txn, enum quota quota, size_t bytes,
                               struct quota_charge *charge, enum quota_result *answer)
{
    const struct bb_route *route = txn->match.route;
    struct quota_limits bounds = {SIZE_MAX, SIZE_MAX};

    if (txn_reads_only(txn) && !(route && route->flags & BB_INSIDE))
        bounds = quota_bounds(txn->rq.generation, QUOTA_ANSWERS);
    *answer = quota_take(&quota_tables[quota], charge, &txn->rq.owner, bytes, &bounds);
    return *answer == QUOTA_OWN_FULL || *answer == QUOTA_ALL_FULL;
}

int http_txn_take_json(struct http_txn *txn, size_t bytes, struct quota_charge *charge)
{
    enum quota_result why;

    if (!txn_count_response(txn, QUOTA_UNWRITTEN, bytes, charge, &why))
        return 0;
    return body_refuse_room(&txn->rq, QUOTA_ANSWERS, why);
}

/* ---- sending the response ---- */

static ssize_t txn_no_body(void *cls, uint64_t position, char *into, size_t room)
{
    (void)cls;
    (void)position;
    (void)into;
    (void)room;
    return MHD_CONTENT_READER_END_OF_STREAM;
}

/* Returns false if memory ran out. Headers that libmicrohttpd does not allow are omitted. */
static bool txn_add_header(struct MHD_Response *mhd, const char *name, const char *value)
{
    errno = 0;
    return MHD_add_response_header(mhd, name, value) == MHD_YES || errno != ENOMEM;
}

static struct MHD_Response *txn_response(struct http_txn *txn)
{
    struct response *response = txn->answer;

    if (txn->stream && response->status == 200) {
        txn->close = true;
        if (strcmp(txn->method, "HEAD") != 0)
            return stream_response(txn->stream);
        /* After a HEAD request, libmicrohttpd would send Content-Length: 0 for an empty body, and a
         * last chunk for a chunked body. So this body is declared to end with the connection. */
        struct MHD_Response *head =
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1, txn_no_body, NULL, NULL);

        if (head)
            MHD_set_response_options(head, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
        return head;
    }
    if (response->file) {
        struct MHD_Response *file = MHD_create_response_from_fd64(response->length, response->file);

        if (file)
            response->file = 0; /* libmicrohttpd closes it */
        return file;
    }
    void *bytes = response->body ? response->body : (void *)(uintptr_t)response->fixed;
    struct MHD_Response *mhd = MHD_create_response_from_buffer(
        response->length, bytes, response->body ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);

    if (mhd)
        response->body = NULL; /* libmicrohttpd frees it */
    return mhd;
}

/* Returns false if memory ran out; the incomplete response must not be sent then. */
static bool txn_add_headers(struct http_txn *txn, struct MHD_Response *mhd)
{
    const struct response *response = txn->answer;
    const struct http *http = txn->connection->http;
    const struct head *head = &txn->head;
    bool stays = !txn->close && !http->draining && !head->closes && (head->minor || head->keeps);
    bool own_type = false, kept = false, added = true;
    char idle[TEXT_INTEGER_SIZE + sizeof "timeout="] = "timeout=";

    for (const struct response_header *h = response->headers; h; h = h->next) {
        added = added && txn_add_header(mhd, h->name, h->value);
        own_type = own_type || !strcmp(h->name, "Content-Type");
        kept = kept || !strcmp(h->name, "Cache-Control");
    }
    if (txn->stream && response->status == 200)
        added = added && txn_add_header(mhd, "Content-Type", stream_type(txn->stream)) &&
                txn_add_header(mhd, "X-Accel-Buffering", "no");
    else if (response->length && !own_type)
        added = added && txn_add_header(mhd, "Content-Type", "application/json; charset=utf-8");
    added = added && txn_add_header(mhd, "X-Request-Id", txn->id) &&
            txn_add_header(mhd, "X-Content-Type-Options", "nosniff") &&
            (kept || txn_add_header(mhd, "Cache-Control", "no-store"));
    if (!stays)
        return added && txn_add_header(mhd, "Connection", "close");
    /* announces the idle timeout, so that the client does not reuse a closed connection */
    text_integer(http->settings.idle_ms / 1000, idle + strlen(idle));
    MHD_set_response_options(mhd, MHD_RF_SEND_KEEP_ALIVE_HEADER, MHD_RO_END);
    return added && txn_add_header(mhd, "Keep-Alive", idle);
}

static enum MHD_Result txn_send(struct http_txn *txn)
{
    struct response *response = txn->answer;
    size_t bytes = 0;

    txn->phase = PHASE_ANSWER;
    txn->close = txn->close || txn->connection->reader.status;
    /* Headers must fit into libmicrohttpd's memory for a connection (POOL_BYTES). Only headers that
     * repeat the request's target can be too long. */
    for (const struct response_header *h = response->headers; h; h = h->next)
        bytes += strlen(h->name) + strlen(h->value);
    if (bytes > HEADERS_MAX) {
        response->headers = NULL;
        reply_error(&txn->rq, 414, "The request target is too long to be repeated in the response");
    }
    struct MHD_Response *mhd = txn_response(txn);

    txn->answered_us = clock_mono_us();
    body_drop(txn);
    if (!mhd)
        return MHD_NO;
    if (!txn_add_headers(txn, mhd)) {
        MHD_destroy_response(mhd);
        return MHD_NO;
    }
    connection_stage(txn->connection, STAGE_WRITE, response->length);
    enum MHD_Result queued = MHD_queue_response(txn->mhd, (unsigned)response->status, mhd);
    MHD_destroy_response(mhd);
    return queued;
}

/*
 * Counts the request, and logs a line if log.access, log.requests and log.sample demand it. The
 * line lacks the query, which may contain secrets. Streams are not measured and never count as
 * slow, because their duration depends on the client.
 */
static void txn_log(const struct http_txn *txn, enum MHD_RequestTerminationCode why)
{
    static _Thread_local uint64_t count; /* number of requests without a problem */
    const struct core_request *rq = &txn->rq;
    const struct host_settings *host = rq->generation->host;
    const struct bb_principal *principal = rq->pub.principal;
    const struct bb_route *route = txn->match.route;
    char status[TEXT_INTEGER_SIZE], ms[TEXT_MS_SIZE], account[TEXT_INTEGER_SIZE];
    char trace[TRACE_ID_SIZE];
    int64_t us = clock_mono_us() - txn->started_us;
    int answered = txn->answer->status;
    int64_t slow_us = host->http.slow_request * 1000; /* 0: no request is slow */
    bool slow = !txn->stream && slow_us && rq->time_spent.work_us >= slow_us;
    bool cut = why != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    bool problem = answered >= 400 || slow || (cut && !txn->stream);
    bool logged =
        log_wants(BB_INFO) && host->log.access && *host->log.requests != 'n' &&
        (problem || (*host->log.requests == 'a' && count++ % (uint64_t)host->log.sample == 0));

    if (answered) {
        atomic_fetch_add_explicit(&rq->loop->answered, 1, memory_order_relaxed);
        meter_request(route ? txn->match.meter : &meter_no_route, answered,
                      txn->answered_us && !txn->stream ? txn->answered_us - txn->started_us : -1);
        if (txn->entered)
            meter_add_time(txn->entered->meter, ACCOUNT_TIMES, rq->time_spent.work_us);
    }
    if (!slow && !logged)
        return;
    text_integer(answered, status);
    text_ms(us, ms);
    text_integer(principal ? principal->account : 0, account);
    trace_id(rq->trace, trace);
    if (slow) {
        /* `handler_ms` is the rest: the module's code, its pool calls, and Redis. Time in which the
         * client sends or reads does not count. */
        const struct request_spent *spent = &rq->time_spent;
        const int64_t spent_us[] = {spent->work_us, spent->queue_us, spent->database_us,
                                    spent->work_us - spent->queue_us - spent->database_us};
        char parts[4][TEXT_MS_SIZE];

        for (int i = 0; i < 4; i++)
            text_ms(spent_us[i] > 0 ? spent_us[i] : 0, parts[i]);
        log_line(BB_WARN, "slow request", "request", txn->id, "trace", trace, "method", txn->method,
                 "route", route ? route->path : "none", "#status", status, "#ms", ms, "#work_ms",
                 parts[0], "#queue_ms", parts[1], "#database_ms", parts[2], "#handler_ms", parts[3],
                 NULL);
    }
    if (!logged)
        return;
    const struct log_pair pairs[] = {
        {"request", txn->id},
        {"trace", *trace ? trace : NULL},
        {"method", txn->method},
        {"route", route ? route->path : NULL},
        {"path", txn->path},
        {"#status", answered ? status : NULL},
        {"#ms", ms},
        {"#account", principal ? account : NULL},
        {"client", txn->address[0] ? txn->address : NULL},
        {"cut", cut ? "true" : NULL},
    };
    log_pairs(BB_INFO, "request", pairs, sizeof pairs / sizeof *pairs);
}

/* ---- fibers ---- */

/* Ends the phase, because its fiber has ended. Runs on the loop's stack. */
static void txn_fiber_ended(struct core_request *rq)
{
    struct http_txn *txn = http_txn_of(&rq->pub);

    timer_clear(&rq->loop->timers, &rq->deadline);
    if (txn->audit_record)
        rq->generation->auditor->after(rq->generation->auditor_host->host.state, txn->audit_record,
                                       txn->answer->status);
    txn->audit_record = NULL;
    if (http_txn_is_late(txn)) {
        if (!txn->connection)
            txn_end(txn);
        return;
    }
    rq->time_spent.work_us += clock_mono_us() - txn->phase_us;
    txn->phase = rq->response.status ? PHASE_ANSWER : PHASE_BODY;
    if (!txn->suspended)
        return;
    txn->suspended = false;
    MHD_resume_connection(txn->mhd);
}

/* Runs a phase on a fiber with the route's deadline; a parked fiber suspends the connection. */
static void txn_run(struct http_txn *txn, enum http_txn_phase phase,
                    void (*entry)(struct core_request *))
{
    const struct bb_route *route =
        txn->match.route; /* NULL: the path has no route with this method */
    struct core_request *rq = &txn->rq;

    rq->deadline_ms =
        rq->loop->now_ms +
        (route && route->deadline_ms ? route->deadline_ms : rq->generation->host->http.deadline);
    txn->phase = phase;
    rq->entry = entry;
    txn->phase_us = clock_mono_us();
    if (request_start(rq))
        return;
    txn->suspended = true;
    MHD_suspend_connection(txn->mhd);
}

/* ---- the response ---- */

static enum MHD_Result txn_answer(struct http_txn *txn)
{
    const struct response *response = txn->answer;
    enum quota_result why;

    if (!txn->stream && !txn->rq.fiber) /* frees the rows now: the client may read slowly */
        pg_rows_release(txn->rq.arena);
    /* charges the response to its owner, or replaces it by a 429 or 503 */
    if (response->body && response->length >= BODY_LARGE && !txn->response_charge.bytes &&
        txn_count_response(txn, QUOTA_ANSWERS, response->length, &txn->response_charge, &why))
        body_refuse_room(&txn->rq, QUOTA_ANSWERS, why);
    if (txn_must_delay(txn)) {
        connection_stage(txn->connection, STAGE_HANDLER, 0);
        txn_run(txn, PHASE_HANDLER, txn_delay_refusal);
        if (txn->phase != PHASE_ANSWER)
            return MHD_YES;
    }
    return txn_send(txn);
}

/*
 * Answers before the body was read. If nothing more should be read, sends the response in this call
 * of http_txn_access(), after which libmicrohttpd closes the connection. Otherwise sends the
 * response in the last call, after the body, if any, was read and discarded.
 */
static enum MHD_Result txn_answer_early(struct http_txn *txn)
{
    bool follows = body_follows(txn);

    txn->phase = PHASE_ANSWER;
    if (txn->close || (follows && txn->head.expects) || txn->head.length > DRAIN_MAX) {
        txn->close = true;
        return txn_send(txn);
    }
    txn->drop_body = true;
    if (follows)
        connection_stage(txn->connection, STAGE_BODY, 0);
    if (txn->head.chunked) /* its length is unknown, so it may be too long to discard */
        connection_drops_body(txn->connection, txn->rq.response.status);
    return MHD_YES;
}

/* ---- the callbacks ---- */

/* Shuts down the socket; libmicrohttpd notices this and ends the HTTP transaction. */
static void txn_cut(struct core_request *rq)
{
    connection_cut(http_txn_of(&rq->pub)->connection);
}

/*
 * Creates a transaction with the head from the reader. If memory runs out for the head, `target`
 * stays NULL, and the response will be 503. Returns NULL if memory runs out for the transaction, or
 * if the connection was cut: requests that arrived before the cut must not be processed.
 */
static struct http_txn *txn_new(struct http *http, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info ? info->socket_context : NULL;
    struct http_txn *txn = NULL;

    if (!connection || connection->cut)
        return NULL;
    struct generation *generation = engine_generation(http->loop->engine);

    txn = request_make(sizeof *txn, REQUEST_HTTP, http->loop, generation);
    generation_release(generation); /* the request has its own reference */
    if (!txn)
        return NULL;
    txn->mhd = mhd;
    txn->connection = connection;
    txn->answer = &txn->rq.response;
    txn->rq.ended = txn_fiber_ended;
    txn->rq.cut = txn_cut;
    txn->rq.answer_timeout = txn_answer_timeout;
    txn->started_us = clock_mono_us();
    txn->rq.id = txn->id;
    if (reader_take(&connection->reader, txn->rq.arena, &txn->head)) {
        txn->close = true;
        return txn;
    }
    const struct head *head = &txn->head;
    const char *target = head->split ? head->text + head->target : "";
    size_t length = strcspn(target, "?");

    txn->method = head->split ? head->text + head->method : "";
    txn->query = target[length] ? target + length + 1 : NULL;
    txn->path = target[length] ? arena_text(txn->rq.arena, target, length) : target;
    txn->target = txn->path ? target : NULL;
    txn->close = !txn->target;
    return txn;
}

/* The table in http_txn.h shows when libmicrohttpd calls this function. */
enum MHD_Result http_txn_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **context)
{
    struct http_txn *txn = *context ? *context : txn_new(cls, mhd);
    enum MHD_Result result = MHD_YES;

    *context = txn;
    (void)url; /* the head from the reader is used instead */
    (void)method;
    (void)version;
    if (!txn)
        return MHD_NO;
    bool *before = json_set_oom_flag(&txn->rq.json_oom);

    if (txn->phase == PHASE_HEADERS) {
        bool refused = txn_check_access(txn) != 0;

        txn->phase = PHASE_BODY;
        if (refused && !txn_must_delay(txn)) {
            result = txn_answer_early(txn);
        } else {
            connection_stage(txn->connection, STAGE_BODY, 0);
            if (refused || !txn_is_public(txn))
                txn_run(txn, PHASE_ADMISSION, refused ? txn_delay_refusal : txn_check_role);
            txn->first_again = txn->suspended;
            if (txn->phase == PHASE_ANSWER)
                result = txn_answer_early(txn);
        }
    } else if (txn->first_again) {
        txn->first_again = false;
        if (txn->phase == PHASE_ANSWER)
            result = txn_answer_early(txn);
    } else if (*size) {
        *size = body_take(txn, data, *size);
    } else if (txn->phase == PHASE_ANSWER) {
        result = txn_answer(txn);
    } else {
        const struct reader *reader = &txn->connection->reader;

        if (reader->status)
            reply_error(&txn->rq, reader->status, "%s", reader->reason);
        if (reader->status || txn_check_budget(txn)) {
            txn->phase = PHASE_ANSWER;
        } else {
            connection_stage(txn->connection, STAGE_HANDLER, 0);
            txn_run(txn, PHASE_HANDLER, txn_handle);
        }
        if (txn->phase == PHASE_ANSWER)
            result = txn_answer(txn);
    }
    json_set_oom_flag(before);
    return result;
}

void http_txn_completed(void *cls, struct MHD_Connection *mhd, void **context,
                        enum MHD_RequestTerminationCode why)
{
    struct http_txn *txn = *context;

    (void)cls;
    (void)mhd;
    *context = NULL;
    if (!txn)
        return;
    if (txn->stream)
        stream_closed(txn->stream);
    txn_log(txn, why);
    connection_stage(txn->connection, STAGE_IDLE, 0);
    connection_answered(txn->connection);
    txn->connection = NULL;
    if (!txn->rq.fiber)
        txn_end(txn);
}
