/*
 * Checks a request before it is handled: the head, CORS, route, token and role, and then method
 * and body. Errors of method and body are reported only to clients that may use the path.
 */
#include <string.h>
#include <strings.h>

#include "core/lib/text.h"
#include "core/module/engine.h"
#include "core/module/quota.h"
#include "core/module/reply.h"
#include "core/server/http_txn.h"

enum {
    ASKED_FOR_US = 500 * 1000, /* lifetime of the authenticator's result */
    KEPT_PART = 4              /* of the places without a token: see take_anonymous() */
};

/* Refuses a request whose head the reader found invalid. */
static int framing(struct http_txn *txn)
{
    const struct head *head = &txn->head;

    if (!head->status)
        return 0;
    txn->close = true;
    return reply_error(&txn->rq, head->status, "%s", head->reason);
}

/* A sane X-Request-Id of the client's, or one of our own; and the trace. */
static void take_id(struct http_txn *txn)
{
    const char *given = http_txn_header(txn, "X-Request-Id");
    size_t length = given ? strlen(given) : 0;

    for (size_t i = 0; i < length; i++) {
        if (!strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-", given[i]))
            length = 0;
    }
    if (length && length <= REQUEST_ID_MAX)
        memcpy(txn->id, given, length + 1);
    else
        text_uuid7(txn->id);
    trace_parent(head_sole_value(&txn->head, "traceparent"), txn->rq.trace);
}

/* CORS: other origins are answered only if http.cors_origins names them. */
static void allow_origin(struct http_txn *txn)
{
    struct core_request *rq = &txn->rq;
    const char *origin = http_txn_header(txn, "Origin");

    /* caches must not give one origin what another was answered, not even that it is refused */
    if (json_array_size(rq->generation->cors_origins))
        reply_header(rq, "Vary", "Origin");
    if (!origin || !origin_allowed(rq->generation->cors_origins, origin))
        return;
    reply_header(rq, "Access-Control-Allow-Origin", origin);
    reply_header(rq, "Access-Control-Expose-Headers",
                 "X-Request-Id, Link, Retry-After, X-Ignored-Parameters, X-Total-Count");
}

static int response_options(struct http_txn *txn)
{
    struct core_request *rq = &txn->rq;

    reply_header(rq, "Allow", txn->match.allow);
    if (reply_header_get(rq, "Access-Control-Allow-Origin") &&
        http_txn_header(txn, "Access-Control-Request-Method")) {
        reply_header(rq, "Access-Control-Allow-Methods", txn->match.allow);
        reply_header(rq, "Access-Control-Allow-Headers",
                     "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Request-Id, "
                     "traceparent");
        reply_header(rq, "Access-Control-Max-Age", "600");
    }
    return reply_bytes(rq, 204, NULL, 0);
}

static int no_method(struct http_txn *txn)
{
    reply_header(&txn->rq, "Allow", txn->match.allow);
    return reply_error(&txn->rq, 405, "Method %s is not allowed for this path", txn->method);
}

/* OPTIONS *: what the server can do, whatever the path. */
static int response_whole(struct http_txn *txn)
{
    reply_header(&txn->rq, "Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    return reply_bytes(&txn->rq, 204, NULL, 0);
}

static int find_route(struct http_txn *txn)
{
    struct core_request *rq = &txn->rq;

    if (!strcmp(txn->path, "*"))
        return response_whole(txn);
    switch (router_match(rq->generation->router, txn->method, txn->path, &txn->match)) {
    case ROUTE_OK:
        break;
    case ROUTE_NO_METHOD:
        return strcmp(txn->method, "OPTIONS") ? 0 : response_options(txn);
    case ROUTE_BAD_PATH:
        txn->match.route = NULL;
        return reply_error(rq, 400, "The path is malformed");
    default:
        txn->match.route = NULL;
        return reply_error(rq, 404, "There is no such path");
    }
    struct host_handle *owner = txn->match.owner;

    rq->route = txn->match.route;
    request_enter(rq, &owner->host);
    return 0;
}

/*
 * Whether the client's address is in http.metrics_networks. A request with X-Forwarded-For counts
 * only if the header gave another address than the proxy's own: the proxy's address remains if the
 * proxy is not trusted or the header cannot be read.
 */
static bool is_inside(const struct http_txn *txn)
{
    if (http_txn_header(txn, "X-Forwarded-For") && !strcmp(txn->address, txn->connection->address))
        return false;
    return address_in(txn->rq.generation->inside, txn->address);
}

bool access_is_public(const struct http_txn *txn)
{
    const struct route_match *match = &txn->match;

    return match->roles & BB_ANYONE || (match->flags & BB_INSIDE && is_inside(txn));
}

void access_leave(struct http_txn *txn)
{
    quota_release_all(&quota_tables[QUOTA_REQUESTS], &txn->under_way);
    quota_release_all(&quota_tables[QUOTA_ANONYMOUS], &txn->anonymous);
}

/*
 * Counts the request for its owner. Public reads (health, the reference) are not counted, so that
 * they are answered however many requests there are.
 *
 * Requests without a token have a part of all places together, so that they leave room for accounts
 * however slowly their bodies come. The last of these places are for addresses that have none, so
 * that a few addresses with slow bodies leave room for others, which may want to log in.
 */
static int access_enter(struct http_txn *txn)
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
        if (answer != QUOTA_TAKEN) {
            quota_fail(rq, QUOTA_ANONYMOUS, answer);
            return reply_failed(rq);
        }
    }
    if (!quota_charge(rq, QUOTA_REQUESTS, &txn->under_way, 1, &requests))
        return 0;
    quota_release_all(table, &txn->anonymous);
    return reply_failed(rq);
}

/* Checks made only after authentication, so that anonymous clients cannot probe paths. */
static int check_use(struct http_txn *txn)
{
    int refused = access_enter(txn);

    if (refused)
        return refused;
    return txn->match.route ? body_expect(txn) : no_method(txn);
}

/* Finds the client's address: the peer, or the address that a trusted proxy forwards for. */
static void take_address(struct http_txn *txn)
{
    const struct connection *connection = txn->connection;
    const char *hops = http_txn_list(txn, "X-Forwarded-For");

    if (hops)
        address_client(txn->rq.generation->trusted_proxies,
                       (const struct sockaddr *)&connection->peer, hops, txn->address);
    else
        memcpy(txn->address, connection->address, sizeof txn->address);
    quota_own_address(&txn->rq, txn->address);
}

int access_check(struct http_txn *txn)
{
    take_id(txn);
    take_address(txn);
    int refused = framing(txn);
    if (refused)
        return refused;
    allow_origin(txn);
    refused = find_route(txn);
    if (refused || !access_is_public(txn))
        return refused;
    return check_use(txn);
}

const char *access_token(const struct http_txn *txn)
{
    const char *value = http_txn_header(txn, "Authorization");

    if (!value || strncasecmp(value, "Bearer ", 7) != 0)
        return NULL;
    value += 7 + strspn(value + 7, " ");
    return *value && !strchr(value, ' ') ? value : NULL;
}

static int authenticate(struct http_txn *txn, struct bb_principal *principal)
{
    struct core_request *rq = &txn->rq;
    const struct generation *generation = rq->generation;
    const char *token = access_token(txn);
    struct bb_host *host = rq->pub.host;

    if (!token)
        return reply_error(rq, 401, "Unauthorized");
    if (!generation->authenticator)
        return reply_error(rq, 503, "No module that authenticates accounts is loaded");
    struct bb_host *provider = &generation->authenticator_host->host;

    txn->asked_us = clock_mono_us();
    request_enter(rq, provider);
    int refused =
        generation->authenticator->authenticate(provider->state, &rq->pub, token, principal);
    request_enter(rq, host);
    return refused;
}

/* Keeps the owner that was charged, even if the request is refused later. */
static int admit(struct http_txn *txn)
{
    struct bb_principal principal = {.size = sizeof principal};
    int refused = authenticate(txn, &principal);

    if (refused)
        return refused;
    txn->principal = principal;
    txn->rq.pub.principal = &txn->principal;
    quota_own_account(&txn->rq, principal.account);
    if (txn->match.roles & principal.role)
        return 0;
    return reply_error(&txn->rq, 403, "Forbidden");
}

void access_entry(struct core_request *rq)
{
    struct http_txn *txn = (struct http_txn *)(void *)rq;
    if (!admit(txn) && check_use(txn)) /* its body, if one follows, has not been read yet */
        http_txn_slow_down(rq);
}

int access_again(struct core_request *rq)
{
    struct http_txn *txn = (struct http_txn *)(void *)rq;

    if (!rq->pub.principal || clock_mono_us() - txn->asked_us < ASKED_FOR_US)
        return 0;
    return admit(txn);
}
