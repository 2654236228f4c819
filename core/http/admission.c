/*
 * The first half of a request's way: what the reader refused, CORS, route, token, role, and then
 * what is wrong with the method or the body, which is told only to who may use the path.
 */
#include <string.h>
#include <strings.h>

#include "core/base/text.h"
#include "core/http/exchange.h"
#include "core/request/quota.h"
#include "core/request/reply.h"

enum { ASKED_FOR_US = 500 * 1000 }; /* for so long what the authenticator said holds */

/* What the reader refused on the bytes that came. */
static int framing(struct exchange *exchange)
{
    const struct head *head = &exchange->head;

    if (!head->status)
        return 0;
    exchange->close = true;
    return reply_error(&exchange->rq, head->status, "%s", head->reason);
}

/* A sane X-Request-Id of the client's, or one of our own. */
static void take_id(struct exchange *exchange)
{
    const char *given = exchange_header(exchange, "X-Request-Id");
    size_t length = given ? strlen(given) : 0;

    for (size_t i = 0; i < length; i++) {
        if (!strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-", given[i]))
            length = 0;
    }
    if (length && length <= REQUEST_ID_MAX)
        memcpy(exchange->id, given, length + 1);
    else
        text_uuid7(exchange->id);
}

/* CORS: other origins are answered only if http.cors_origins names them. */
static void allow_origin(struct exchange *exchange)
{
    struct core_request *rq = &exchange->rq;
    const char *origin = exchange_header(exchange, "Origin");

    if (!origin || !origin_allowed(rq->generation->cors_origins, origin))
        return;
    reply_header(rq, "Access-Control-Allow-Origin", origin);
    reply_header(rq, "Access-Control-Expose-Headers",
                 "X-Request-Id, Link, Retry-After, X-Ignored-Parameters");
    reply_header(rq, "Vary", "Origin");
}

static int answer_options(struct exchange *exchange)
{
    struct core_request *rq = &exchange->rq;

    reply_header(rq, "Allow", exchange->match.allow);
    if (reply_header_get(rq, "Access-Control-Allow-Origin") &&
        exchange_header(exchange, "Access-Control-Request-Method")) {
        reply_header(rq, "Access-Control-Allow-Methods", exchange->match.allow);
        reply_header(rq, "Access-Control-Allow-Headers",
                     "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Request-Id");
        reply_header(rq, "Access-Control-Max-Age", "600");
    }
    return reply_bytes(rq, 204, NULL, 0);
}

static int no_method(struct exchange *exchange)
{
    reply_header(&exchange->rq, "Allow", exchange->match.allow);
    return reply_error(&exchange->rq, 405, "The path has no method %s", exchange->method);
}

/* OPTIONS *: what the server can do, whatever the path. */
static int answer_whole(struct exchange *exchange)
{
    reply_header(&exchange->rq, "Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    return reply_bytes(&exchange->rq, 204, NULL, 0);
}

static int find_route(struct exchange *exchange)
{
    struct core_request *rq = &exchange->rq;

    if (!strcmp(exchange->path, "*"))
        return answer_whole(exchange);
    switch (
        router_match(rq->generation->router, exchange->method, exchange->path, &exchange->match)) {
    case ROUTE_OK:
        break;
    case ROUTE_NO_METHOD:
        return strcmp(exchange->method, "OPTIONS") ? 0 : answer_options(exchange);
    case ROUTE_BAD_PATH:
        exchange->match.route = NULL;
        return reply_error(rq, 400, "The path is malformed");
    default:
        exchange->match.route = NULL;
        return reply_error(rq, 404, "There is no such path");
    }
    struct host_handle *owner = exchange->match.owner;

    rq->route = exchange->match.route;
    request_enter(rq, &owner->host);
    return 0;
}

/* All lines of X-Forwarded-For as one: a proxy may have added its own behind the client's. */
static const char *forwarded_for(const struct exchange *exchange)
{
    const struct head *head = &exchange->head;
    const char *hops = NULL;

    for (size_t i = 0; i < head->count; i++) {
        const char *value = head->text + head->fields[i].value;

        if (strcasecmp(head->text + head->fields[i].name, "X-Forwarded-For") != 0)
            continue;
        hops = hops ? arena_format(exchange->rq.arena, "%s, %s", hops, value) : value;
        if (!hops)
            return "-"; /* no memory: no hop, so the peer itself */
    }
    return hops;
}

/*
 * Who is inside is told by the address. Where a proxy came for somebody, it must be that one's: it
 * is the proxy's own where that is not trusted, or what it says cannot be read.
 */
static bool is_inside(const struct exchange *exchange)
{
    const struct sockaddr *peer = (const struct sockaddr *)&exchange->connection->peer;
    char own[INET6_ADDRSTRLEN];

    if (exchange_header(exchange, "X-Forwarded-For") &&
        !strcmp(exchange->address, address_client(NULL, peer, NULL, own)))
        return false;
    return address_in(exchange->rq.generation->inside, exchange->address);
}

bool admission_free(const struct exchange *exchange)
{
    const struct route_match *match = &exchange->match;

    return match->roles & BB_ANYONE || (match->flags & BB_INSIDE && is_inside(exchange));
}

/* What a stranger need not learn of a path. */
static int check_use(struct exchange *exchange)
{
    return exchange->match.route ? body_expect(exchange) : no_method(exchange);
}

int admission_check(struct exchange *exchange)
{
    struct core_request *rq = &exchange->rq;

    take_id(exchange);
    address_client(rq->generation->trusted_proxies, (struct sockaddr *)&exchange->connection->peer,
                   forwarded_for(exchange), exchange->address);
    quota_own_address(rq, exchange->address);
    int refused = framing(exchange);
    if (refused)
        return refused;
    allow_origin(exchange);
    refused = find_route(exchange);
    if (refused || !admission_free(exchange))
        return refused;
    return check_use(exchange);
}

const char *admission_token(const struct exchange *exchange)
{
    const char *value = exchange_header(exchange, "Authorization");

    if (!value || strncasecmp(value, "Bearer ", 7) != 0)
        return NULL;
    value += 7 + strspn(value + 7, " ");
    return *value && !strchr(value, ' ') ? value : NULL;
}

static int authenticate(struct exchange *exchange, struct bb_principal *principal)
{
    struct core_request *rq = &exchange->rq;
    const struct generation *generation = rq->generation;
    const char *token = admission_token(exchange);
    struct bb_host *host = rq->pub.host;

    if (!token)
        return reply_error(rq, 401, "Unauthorized");
    if (!generation->authenticator)
        return reply_error(rq, 503, "No module that knows accounts is loaded");
    struct bb_host *provider = &generation->authenticator_host->host;

    exchange->asked_us = clock_mono_us();
    request_enter(rq, provider);
    int refused =
        generation->authenticator->authenticate(provider->state, &rq->pub, token, principal);
    request_enter(rq, host);
    return refused;
}

/* Whom shares were counted for stays, where somebody is refused later on. */
static int admit(struct exchange *exchange)
{
    struct bb_principal principal = {.size = sizeof principal};
    int refused = authenticate(exchange, &principal);

    if (refused)
        return refused;
    exchange->principal = principal;
    exchange->rq.pub.principal = &exchange->principal;
    quota_own_account(&exchange->rq, principal.account);
    if (exchange->match.roles & principal.role)
        return 0;
    return reply_error(&exchange->rq, 403, "Forbidden");
}

void admission_entry(struct core_request *rq)
{
    struct exchange *exchange = (struct exchange *)(void *)rq;

    if (!admit(exchange))
        check_use(exchange);
}

int admission_again(struct core_request *rq)
{
    struct exchange *exchange = (struct exchange *)(void *)rq;

    if (!rq->pub.principal || clock_mono_us() - exchange->asked_us < ASKED_FOR_US)
        return 0;
    return admit(exchange);
}
