/*
 * Names of servers. Looking one up takes many seconds where the name server does not answer, and
 * libpq would do it on the loop, for each connection anew; so a thread does it, and loops take what
 * it has found. Sockets and addresses have no such thread.
 *
 * Why not libpq's blocking connect on a thread of the host's pool: it looks the name up for each
 * connection, so while the name server is silent each of them holds a thread of its own for as long
 * as that takes, and it does not know the addresses of a minute ago, by which connections come back
 * here.
 */
#ifndef CORE_RESOLVER_H
#define CORE_RESOLVER_H

#include <stddef.h>
#include <stdint.h>

struct resolver;

enum resolver_state {
    RESOLVER_PLAIN, /* one server, and nothing to look up: take the place as it is written */
    RESOLVER_FOUND,
    RESOLVER_LATER, /* being looked up: come again in NAMES_AGAIN_MS */
    RESOLVER_NONE   /* not found, or there is no answer */
};

enum {
    NAMES_AGAIN_MS = 20,
    RESOLVER_TEXT = 4096,
    RESOLVER_HOSTS_MAX = 16,
    RESOLVER_ADDRESSES_MAX = 8 /* of a host */
};

/* Lists with commas, of one length, as libpq takes them; the server whose turn it is comes first.
 */
struct resolver_found {
    char host[RESOLVER_TEXT], hostaddr[RESOLVER_TEXT], port[RESOLVER_TEXT];
    unsigned turn;
};

/*
 * Those among hosts: a list with commas, of at most RESOLVER_HOSTS_MAX, and its ports, of which one
 * is that of all. They are being looked up already when this returns, or have been. NULL: failed
 * (logged).
 */
struct resolver *resolver_new(const char *hosts, const char *ports);

/* How many a list with commas has. */
size_t resolver_length(const char *list);

/* resolver_place.c: those in a connection string of libpq, and in "host:port". */
struct resolver *resolver_of_database(const char *conninfo);
struct resolver *resolver_of_redis(const char *url);

/*
 * What is known of them. Found are those that answer; where the name server is silent, what it said
 * before. Never waits. Any thread.
 */
enum resolver_state resolver_look_up(struct resolver *resolver, struct resolver_found *found);

/*
 * The server of this host, address and port says nothing: of the list that was found with this
 * turn, the next list begins behind it. libpq goes on by itself when a server refuses, but waits
 * for one that says nothing. An address that is not known passes the first one by. Any thread.
 */
void resolver_rotate(struct resolver *resolver, unsigned turn, const char *host,
                     const char *address, const char *port);

/* Waits until they have been looked up once, for at most so long. */
void resolver_wait(struct resolver *resolver, int64_t ms);

/* Does not wait for the thread. NULL is fine. */
void resolver_free(struct resolver *resolver);

#endif
