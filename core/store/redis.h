/*
 * Redis in a loop: one connection that never blocks. hiredis formats commands and parses replies;
 * busbar connects, reads and writes, because hiredis 0.14 has no TLS, and ends the process if
 * memory runs out. Redis contains shared, small data that may be lost; callers must work without a
 * response. Any error or timeout closes the connection, so that a late response is never taken for
 * the response to another command.
 */
#ifndef CORE_REDIS_H
#define CORE_REDIS_H

#include <hiredis/hiredis.h>
#include <sys/types.h>

#include "core/lib/loop.h"
#include "core/module/request.h"
#include "core/store/dial.h"

struct redis_settings {
    const char *url;         /* core/lib/redis_url.h, or "": no Redis */
    const char *authorities; /* PEM file; "": the system's */
    int64_t timeout_ms;      /* for connecting to an address, and for a response */
};

struct redis *redis_new(struct loop *loop, const struct redis_settings *settings);
void redis_free(struct redis *redis);

API_FUNCTION(redis);

/* Returns the latency of the last probe, a write; -1 while it fails. Any thread. */
int64_t redis_latency_ms(const struct redis *redis);

/*
 * A connection to Redis: a socket, with TLS if the URL asks for it. Opening blocks, on a helper
 * thread (dial.h): it finds the master by Sentinels, authenticates, and chooses the database. After
 * that, reading and writing do not block.
 */

struct redis_link {
    int fd;
    struct ssl_st *tls; /* NULL: none */
    redisReader *reader;
    char *out; /* bytes to send */
    size_t out_length, out_room;
    int64_t timeout_ms; /* for each reply while opening */
};

struct redis_link_options {
    const char *url;
    const char *authorities; /* PEM file; "": the system's */
    int64_t timeout_ms;      /* for connecting, and for each reply while opening */
};

/* Returns a link to a server that accepts commands, or NULL with the reason in `problem`. */
struct redis_link *redis_link_open(const struct redis_link_options *options,
                                   char problem[DIAL_PROBLEM]);
void redis_link_close(struct redis_link *link);

/* Appends a command to the bytes to send. Returns 0, or -1 if memory ran out. */
int redis_link_append(struct redis_link *link, int argc, const char *const *argv,
                      const size_t *lengths);

/* Sends what it can. Returns 1 if bytes are left, 0 if none are, or -1 if the link is unusable. */
int redis_link_send(struct redis_link *link);

/*
 * Reads up to 16 KiB of arrived bytes into the reader. epoll reports further bytes again, so a
 * server that never stops sending does not hold the loop. Returns 0, or -1 if the link is unusable.
 */
int redis_link_receive(struct redis_link *link);

#endif
