/* The first half of a request's way: framing guard, route, CORS, token, role. */
#include <string.h>
#include <strings.h>

#include "core/exchange.h"
#include "core/guard.h"
#include "core/reply.h"
#include "core/text.h"

struct header_list {
    struct guard_header headers[GUARD_HEADERS_MAX + 1];
    size_t count;
};

static enum MHD_Result collect(void *cls, enum MHD_ValueKind kind, const char *key,
                               const char *value)
{
    struct header_list *list = cls;

    (void)kind;
    if (list->count > GUARD_HEADERS_MAX)
        return MHD_NO;
    list->headers[list->count++] = (struct guard_header){key, value};
    return MHD_YES;
}

static int framing(struct exchange *exchange, const char *method, const char *version)
{
    struct header_list list = {.count = 0};

    MHD_get_connection_values(exchange->mhd, MHD_HEADER_KIND, collect, &list);
    struct guard_verdict verdict =
        guard_check(method, version, exchange->target, list.headers, list.count);
    if (!verdict.status)
        return 0;
    exchange->close = exchange->close || verdict.close;
    return reply_error(&exchange->rq, verdict.status, "%s", verdict.reason);
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
    reply_header(rq, "Access-Control-Expose-Headers", "X-Request-Id, Link, Retry-After");
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
    if (!strcmp(exchange->method, "OPTIONS"))
        return answer_options(exchange);
    reply_header(&exchange->rq, "Allow", exchange->match.allow);
    return reply_error(&exchange->rq, 405, "The path has no method %s", exchange->method);
}

static int find_route(struct exchange *exchange)
{
    struct core_request *rq = &exchange->rq;

    switch (
        router_match(rq->generation->router, exchange->method, exchange->path, &exchange->match)) {
    case ROUTE_OK:
        break;
    case ROUTE_NO_METHOD:
        exchange->match.route = NULL;
        return no_method(exchange);
    case ROUTE_BAD_PATH:
        exchange->match.route = NULL;
        return reply_error(rq, 400, "The path is malformed");
    default:
        exchange->match.route = NULL;
        return reply_error(rq, 404, "There is no such path");
    }
    struct host_handle *owner = exchange->match.owner;
    request_enter(rq, &owner->host);
    return 0;
}

struct forwarded {
    struct arena *arena;
    const char *hops; /* NULL: no such header */
};

static enum MHD_Result add_hops(void *arg, enum MHD_ValueKind kind, const char *key,
                                const char *value)
{
    struct forwarded *forwarded = arg;

    (void)kind;
    if (strcasecmp(key, "X-Forwarded-For"))
        return MHD_YES;
    if (!value)
        value = "";
    forwarded->hops =
        forwarded->hops ? arena_format(forwarded->arena, "%s, %s", forwarded->hops, value) : value;
    if (!forwarded->hops)
        forwarded->hops = "-"; /* no memory: no hop, so the peer itself */
    return MHD_YES;
}

/* All lines of X-Forwarded-For as one: a proxy may have added its own behind the client's. */
static const char *forwarded_for(const struct exchange *exchange)
{
    struct forwarded forwarded = {.arena = exchange->rq.arena};

    MHD_get_connection_values(exchange->mhd, MHD_HEADER_KIND, add_hops, &forwarded);
    return forwarded.hops;
}

int admission_check(struct exchange *exchange, const char *method, const char *version)
{
    struct core_request *rq = &exchange->rq;

    take_id(exchange);
    address_client(rq->generation->trusted_proxies, (struct sockaddr *)&exchange->connection->peer,
                   forwarded_for(exchange), exchange->address);
    int refused = framing(exchange, method, version);
    if (refused)
        return refused;
    allow_origin(exchange);
    refused = find_route(exchange);
    return refused ? refused : body_expect(exchange);
}

const char *admission_token(const struct exchange *exchange)
{
    const char *value = exchange_header(exchange, "Authorization");

    if (!value || strncasecmp(value, "Bearer ", 7) != 0)
        return NULL;
    value += 7 + strspn(value + 7, " ");
    return *value && !strchr(value, ' ') ? value : NULL;
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
    const struct bb_route *route = exchange->match.route;

    return route->roles & BB_ANYONE || (route->flags & BB_INSIDE && is_inside(exchange));
}

void admission_entry(struct core_request *rq)
{
    struct exchange *exchange = (struct exchange *)(void *)rq;
    const struct generation *generation = rq->generation;
    const char *token = admission_token(exchange);
    struct bb_host *host = rq->pub.host;

    if (!token) {
        reply_error(rq, 401, "Unauthorized");
        return;
    }
    if (!generation->authenticator) {
        reply_error(rq, 503, "No module that knows accounts is loaded");
        return;
    }
    struct bb_host *provider = &generation->authenticator_host->host;
    exchange->principal.size = sizeof exchange->principal;
    request_enter(rq, provider);
    int refused = generation->authenticator->authenticate(provider->state, &rq->pub, token,
                                                          &exchange->principal);
    request_enter(rq, host);
    if (refused)
        return;
    rq->pub.principal = &exchange->principal;
    if (!(exchange->match.route->roles & exchange->principal.role))
        reply_error(rq, 403, "Forbidden");
}
