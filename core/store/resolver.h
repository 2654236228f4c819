/*
 * Resolves server names. If the name server does not respond, a lookup takes many seconds, and
 * libpq would do it on the loop for each connection; so a separate thread does it, and loops use
 * its latest result. Sockets and addresses need no such thread.
 *
 * libpq's blocking connect on a pool thread would not be sufficient: it looks up the name for each
 * connection, so while the name server is silent each connection would block a thread for that
 * time; and it does not remember earlier addresses, which this resolver uses for reconnecting.
 */
#ifndef CORE_RESOLVER_H
#define CORE_RESOLVER_H

#include <stddef.h>
#include <stdint.h>

struct resolver;

enum resolver_state {
    RESOLVER_PLAIN, /* one server that needs no lookup: use the place as written */
    RESOLVER_FOUND,
    RESOLVER_LATER, /* being looked up: try again in NAMES_AGAIN_MS */
    RESOLVER_NONE   /* not found, or no response */
};

enum {
    NAMES_AGAIN_MS = 20,
    RESOLVER_TEXT = 4096,
    RESOLVER_HOSTS_MAX = 16,
    RESOLVER_ADDRESSES_MAX = 8 /* per host */
};

/*
 * Comma-separated lists of equal length, as libpq expects them, beginning with the current server.
 */
struct resolver_found {
    char host[RESOLVER_TEXT], hostaddr[RESOLVER_TEXT], port[RESOLVER_TEXT];
    unsigned turn;
};

/*
 * Creates a resolver for a comma-separated list of at most RESOLVER_HOSTS_MAX hosts, and a list of
 * their ports (or one port for all). The lookup has started, or is not necessary, when this
 * returns. NULL: failed (logged).
 */
struct resolver *resolver_new(const char *hosts, const char *ports);

/* Number of items in a comma-separated list. */
size_t resolver_length(const char *list);

/* resolver_place.c: the hosts of a libpq connection string, or of "host:port". */
struct resolver *resolver_of_database(const char *conninfo);
struct resolver *resolver_of_redis(const char *url);

/*
 * Returns the addresses of the last lookup, or of an earlier one if the name server does not
 * respond. Never waits. Any thread.
 */
enum resolver_state resolver_look_up(struct resolver *resolver, struct resolver_found *found);

/*
 * Reports that a server does not respond: lists begin with the server after it from now on. `turn`
 * is from the list in which the server was found. libpq itself continues with the next server if
 * one refuses, but waits for one that does not respond. If the address is unknown, the first server
 * is skipped. Any thread.
 */
void resolver_rotate(struct resolver *resolver, unsigned turn, const char *host,
                     const char *address, const char *port);

/* Waits for the first lookup to complete, for at most `ms` milliseconds. */
void resolver_wait(struct resolver *resolver, int64_t ms);

/* Does not wait for the thread. NULL is allowed. */
void resolver_free(struct resolver *resolver);

#endif
