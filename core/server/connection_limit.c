/*
 * Connection limits, in total and for each address. If all connections are in use, idle ones are
 * closed to make room: the oldest connection of the address with the most, if the new client's
 * address has fewer. The last free connections are reserved for addresses with few connections, so
 * that addresses that hold all others, and reconnect as soon as they are closed, cannot take these,
 * too. Connections from localhost (health checks) are never refused.
 */
#include <arpa/inet.h>
#include <string.h>

#include "core/lib/address.h"
#include "core/module/engine.h"
#include "core/module/quota.h"
#include "core/server/http.h"

enum {
    LOOK_AGAIN_MS = 5, /* pause between two searches for idle connections, which each visit all
                        * connections */
    KNOWN_MS = 100,    /* how long the result of a search is used */
    FEW = 16,          /* up to this many connections of an address are few */
    KEPT_PART = 64     /* 1/64 of all connections is reserved for addresses with few */
};

static bool is_own(const struct sockaddr *peer)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
    static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};

    if (peer->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)peer)->sin_addr.s_addr ==
               htonl(INADDR_LOOPBACK);
    return peer->sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(six) || !memcmp(six, mapped, sizeof mapped));
}

/* A proxy serves many clients. */
static bool is_proxy(struct engine *engine, const struct sockaddr *peer)
{
    struct generation *generation = engine_generation(engine);
    bool trusted = cidr_list_has(generation->trusted_proxies, peer);

    generation_release(generation);
    return trusted;
}

static struct quota_limits bounds_of(const struct connection *connection)
{
    const struct http_settings *settings = &connection->http->settings;
    const struct sockaddr *peer = (const struct sockaddr *)&connection->peer;
    struct quota_limits bounds = {.all = settings->max_connections, .each = settings->per_address};

    if (is_proxy(connection->http->loop->engine, peer))
        bounds.each = SIZE_MAX;
    else if (!is_own(peer) &&
             quota_entry_of(&quota_tables[QUOTA_CONNECTIONS], &connection->owner) >= FEW)
        bounds.all -= bounds.all / KEPT_PART;
    if (is_own(peer))
        bounds.all += CONNECTIONS_RESERVED;
    return bounds;
}

/* Whether the connection waits for a request or for the rest of a head, so that no work is lost. */
static bool is_idle(const struct connection *connection)
{
    return connection->counted.bytes && !connection->cut && connection->stage <= STAGE_HEADER;
}

static int64_t idle_since(const struct connection *connection)
{
    int64_t times = connection->http->settings.header_ms;

    if (connection->stage == STAGE_IDLE)
        times += connection->http->settings.idle_ms;
    return connection->limit_ms - times;
}

/* Finds the owner with the most connections, more than *most, among the idle ones of this loop. */
static const struct quota_owner *greediest(const struct http *http, size_t *most)
{
    const struct quota_owner *owner = NULL;

    for (const struct connection *at = http->connections; at; at = at->next) {
        if (!is_idle(at) || (owner && quota_owner_same(owner, &at->owner)))
            continue;
        size_t count = quota_entry_of(&quota_tables[QUOTA_CONNECTIONS], &at->owner);

        if (count > *most) {
            *most = count;
            owner = &at->owner;
        }
    }
    return owner;
}

void connection_limit_release(struct connection *connection)
{
    quota_release_all(&quota_tables[QUOTA_CONNECTIONS], &connection->counted);
}

/* Closes the oldest idle connection of this owner; false if there is none. */
static bool end_oldest(struct http *http, const struct quota_owner *owner)
{
    struct connection *oldest = NULL;

    for (struct connection *at = http->connections; at; at = at->next) {
        if (is_idle(at) && quota_owner_same(&at->owner, owner) &&
            (!oldest || idle_since(at) <= idle_since(oldest)))
            oldest = at;
    }
    if (!oldest)
        return false;
    connection_cut(oldest);
    connection_limit_release(oldest); /* its socket is closed in the next iteration */
    return true;
}

/*
 * Closes an idle connection of the address with the most connections, if that leaves it at least as
 * many as this address will have.
 */
static bool make_room(const struct connection *connection)
{
    struct http *http = connection->http;
    size_t own = quota_entry_of(&quota_tables[QUOTA_CONNECTIONS], &connection->owner) + 1,
           most = own;
    int64_t ago_ms = http->loop->now_ms - http->looked_ms;

    if (ago_ms < LOOK_AGAIN_MS || (ago_ms < KNOWN_MS && own >= http->most))
        return false;
    const struct quota_owner *owner = greediest(http, &most);

    http->looked_ms = http->loop->now_ms;
    http->most = most;
    return owner && end_oldest(http, &(struct quota_owner){.network = owner->network});
}

static enum quota_result take(struct connection *connection, const struct quota_limits *bounds)
{
    return quota_take(&quota_tables[QUOTA_CONNECTIONS], &connection->counted, &connection->owner, 1,
                      bounds);
}

bool connection_limit_take(struct connection *connection)
{
    const struct sockaddr *peer = (const struct sockaddr *)&connection->peer;

    connection->owner = (struct quota_owner){.network = address_peer_network(peer)};
    struct quota_limits bounds = bounds_of(connection);
    enum quota_result answer = take(connection, &bounds);
    bool room = false;

    if (answer == QUOTA_OWN_FULL && is_own(peer))
        room = end_oldest(connection->http, &connection->owner);
    else if (answer == QUOTA_ALL_FULL)
        room = make_room(connection);
    if (room)
        answer = take(connection, &bounds);
    if (!connection->counted.bytes && answer != QUOTA_NO_MEMORY)
        quota_count(QUOTA_CONNECTIONS, answer == QUOTA_OWN_FULL);
    return connection->counted.bytes;
}
