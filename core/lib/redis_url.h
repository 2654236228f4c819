/*
 * The setting redis.url:
 *     unix:/path
 *     host:port
 *     redis[s]://[[user]:password@]host[:port][/database]
 *     redis[s]+sentinel://[[user]:password@]host[:port][,host[:port]]…/name[/database]
 * rediss means TLS. With +sentinel, the hosts are Sentinels, and `name` is the master's.
 * User, password and name may contain %XX. An IPv6 address is in brackets.
 */
#ifndef CORE_REDIS_URL_H
#define CORE_REDIS_URL_H

#include "core/lib/arena.h"

enum { REDIS_SERVERS_MAX = 8 };

struct redis_server {
    const char *host, *port;
};

struct redis_url {
    const char *path; /* path of a socket; NULL: connect to `servers` */
    struct redis_server servers[REDIS_SERVERS_MAX];
    size_t count;
    const char *user, *password; /* NULL: none */
    const char *master;          /* name of the master, if `servers` are Sentinels; or NULL */
    unsigned database;
    bool tls;
};

/* Parses a URL to texts in the arena. Returns 0, or -1 if the URL is invalid or memory ran out. */
int redis_url_parse(const char *text, struct arena *arena, struct redis_url *url);

#endif
