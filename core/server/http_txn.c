#include "core/server/http_txn.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/json.h"
#include "core/lib/listener.h"
#include "core/lib/text.h"
#include "core/module/engine.h"
#include "core/module/pool.h"
#include "core/module/reply.h"
#include "core/server/body.h"
#include "core/server/response.h"
#include "core/server/stream.h"
#include "core/server/upload.h"
#include "core/store/pg.h"
#include "core/store/sql.h"

enum {
    TOKEN_VALID_US = 500 * 1000, /* validity of the authenticator's result */
    KEPT_PART = 4,               /* of the requests without a token: see txn_count() */
    DELAY_MS = 100               /* delay of a refusal */
};

/* ---- headers ---- */

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

const char *http_txn_token(const struct http_txn *txn)
{
    const char *value = head_value(&txn->head, "Authorization");

    if (!value || strncasecmp(value, "Bearer ", 7) != 0)
        return NULL;
    value += 7 + strspn(value + 7, " ");
    return *value && !strchr(value, ' ') ? value : NULL;
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
 * Counts the request for its owner, except public reads (health, the reference). Requests without a
 * token may use only a part of the limit for requests, so that slow bodies of anonymous clients
 * leave room for accounts. The last quarter of this part is reserved for addresses without another
 * such request, so that a few addresses cannot prevent others from logging in.
 */
static int txn_count(struct http_txn *txn)
{
    struct core_request *rq = &txn->rq;
    struct quota_limits requests = quota_bounds(rq->generation, QUOTA_REQUESTS),
                        anonymous = quota_bounds(rq->generation, QUOTA_ANONYMOUS);
    struct quota_table *table = &quota_tables[QUOTA_ANONYMOUS];

    if (!rq->owner.account && (!strcmp(txn->method, "GET") || !strcmp(txn->method, "HEAD")))
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
 * Makes the checks that follow authentication, so that anonymous clients cannot probe paths. A
 * public route requires no authentication: its requests are checked at once.
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
                         "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, "
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
 * addresses in http.metrics_networks. A request with X-Forwarded-For is not public if its address
 * is still the proxy's, because the proxy is not trusted or the header is invalid.
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

/* Returns 0 to continue, or the status of the response. */
static int txn_check_access(struct http_txn *txn)
{
    struct core_request *rq = &txn->rq;
    const struct connection *connection = txn->connection;

    if (!txn->target) { /* memory ran out, so there are no headers with an id */
        text_uuid7(txn->id);
        trace_parent(NULL, rq->trace);
        txn->close = true;
        return reply_failure(rq, FAILED_MEMORY);
    }
    /* a sane X-Request-Id of the client's, or one of our own */
    const char *given = head_value(&txn->head, "X-Request-Id");
    size_t length = given ? strlen(given) : 0;

    if (length && length <= REQUEST_ID_MAX &&
        strspn(given, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") ==
            length)
        memcpy(txn->id, given, length + 1);
    else
        text_uuid7(txn->id);
    trace_parent(head_sole_value(&txn->head, "traceparent"), rq->trace);
    const char *hops = http_txn_list(txn, "X-Forwarded-For");

    if (hops) /* the peer's address, or the one reported by a trusted proxy */
        address_client(rq->generation->trusted_proxies, (const struct sockaddr *)&connection->peer,
                       hops, txn->address);
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
                     "X-Request-Id, Link, Retry-After, X-Ignored-Parameters, X-Total-Count");
    }
    int refused = txn_find_route(txn);

    return refused || !txn_is_public(txn) ? refused : txn_enter(txn);
}

static bool txn_must_delay(const struct http_txn *txn)
{
    return (txn->answer->status == 429 || txn->limited) && !txn->delayed;
}

/*
 * Delays a 429, or a 503 because of module_limits, by DELAY_MS, once, so that a client that
 * immediately repeats refused requests does not use more of the loop's time than other clients. On
 * the fiber.
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
 * Checks token and role, and then, before the body is read, makes the checks of txn_enter(). Keeps
 * the owner that was charged, even if the request is refused later. On the fiber.
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
        if (!(txn->match.roles & principal.role))
            reply_error(rq, 403, "Forbidden");
        else if (txn->phase == PHASE_ADMISSION)
            txn_enter(txn);
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
    if (txn->upload)
        identity = upload_identity(txn->upload, &length);
    /* out of memory; blanks that could not be removed at the end would make another key */
    if ((txn->upload && !identity) || (*key && strchr(" \t", key[strlen(key) - 1])))
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
    bool large = !txn->multipart && txn->length >= BODY_LARGE;

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
    module_error_check_answer(rq, txn->match.route->handler(&rq->pub));
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

    /* a response that has begun and a committed transaction cannot be taken back */
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

/* ---- fibers ---- */

/* Ends the phase, because its fiber has ended. Runs on the loop's stack. */
static void txn_fiber_ended(struct core_request *rq)
{
    struct http_txn *txn = http_txn_of(&rq->pub);

    timer_clear(&rq->loop->timers, &rq->deadline);
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

/* Runs a phase on a fiber, with the route's deadline; suspends the connection if it parks. */
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
    if (!txn->stream && !txn->rq.fiber) /* free them now, because the client may read slowly */
        pg_rows_release(txn->rq.arena);
    response_take_budget(txn);
    if (txn_must_delay(txn)) {
        connection_stage(txn->connection, STAGE_HANDLER, 0);
        txn_run(txn, PHASE_HANDLER, txn_delay_refusal);
        if (txn->phase != PHASE_ANSWER)
            return MHD_YES;
    }
    return response_send(txn);
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
        return response_send(txn);
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
 * Creates a transaction with the head from the reader; if memory runs out for the head, there is no
 * target. Returns NULL if memory ran out, or if the connection was cut, because requests that
 * arrived before the cut must not be processed.
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

/* The map in http_txn.h shows when this is called. */
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
        if (reader->status || response_check_budget(txn)) {
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
    response_log(txn, why);
    connection_stage(txn->connection, STAGE_IDLE, 0);
    connection_answered(txn->connection);
    txn->connection = NULL;
    if (!txn->rq.fiber)
        txn_end(txn);
}
