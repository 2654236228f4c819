/*
 * Names of servers. Looking one up takes many seconds where the name server does not answer, and
 * libpq would do it on the loop, for each connection anew; so a thread does it, and loops take what
 * it has found. Sockets and addresses have no such thread.
 */
#ifndef CORE_NAMES_H
#define CORE_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct names;

enum names_state {
    NAMES_PLAIN, /* one server, and nothing to look up: take the place as it is written */
    NAMES_FOUND,
    NAMES_LATER, /* being looked up: come again in NAMES_AGAIN_MS */
    NAMES_NONE   /* not found, or there is no answer */
};

enum {
    NAMES_AGAIN_MS = 20,
    NAMES_TEXT = 4096,
    NAMES_HOSTS_MAX = 16,
    NAMES_ADDRESSES_MAX = 8 /* of a host */
};

/* Lists with commas, of one length, as libpq takes them; the server whose turn it is comes first.
 */
struct names_found {
    char host[NAMES_TEXT], hostaddr[NAMES_TEXT], port[NAMES_TEXT];
    unsigned turn;
};

/*
 * Those among hosts: a list with commas, of at most NAMES_HOSTS_MAX, and its ports, of which one is
 * that of all. They are being looked up already when this returns, or have been. NULL: failed
 * (logged).
 */
struct names *names_new(const char *hosts, const char *ports);

/* How many a list with commas has. */
size_t names_length(const char *list);

/* names_place.c: those in a connection string of libpq, and in "host:port". */
struct names *names_of_database(const char *conninfo);
struct names *names_of_redis(const char *url);

/*
 * What is known of them. Found are those that answer; where the name server is silent, what it said
 * before. Never waits. Any thread.
 */
enum names_state names_look(struct names *names, struct names_found *found);

/*
 * The server of this host, address and port says nothing: of the list that was found with this
 * turn, the next list begins behind it. libpq goes on by itself when a server refuses, but waits
 * for one that says nothing. An address that is not known passes the first one by. Any thread.
 */
void names_pass_by(struct names *names, unsigned turn, const char *host, const char *address,
                   const char *port);

/* Waits until they have been looked up once, for at most so long. */
void names_wait(struct names *names, int64_t ms);

/* Does not wait for the thread. NULL is fine. */
void names_free(struct names *names);

#endif
