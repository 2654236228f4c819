/*
 * Runs HTTP in a loop: accepts connections, and runs libmicrohttpd in external epoll mode, without
 * threads.
 *
 * connection.h shows how bytes pass between a socket and libmicrohttpd, and http_txn.h how a
 * request is processed: head, route, token, role, body, handler, response.
 */
#ifndef CORE_HTTP_H
#define CORE_HTTP_H

#include "core/lib/listener.h"
#include "core/module/generation.h"
#include "core/server/connection.h"

struct http_settings {
    const struct listeners *listeners; /* owned by the engine, shared by the loops */
    unsigned max_connections;          /* this and the next: limits over all loops */
    unsigned per_address;
    int64_t header_ms, body_ms, idle_ms, write_ms;
};

/* Reads the settings of a generation. */
struct http_settings http_settings_of(const struct generation *generation,
                                      const struct listeners *listeners);

struct http {
    struct loop *loop;
    struct http_settings settings;
    struct MHD_Daemon *daemon;
    struct accept {
        struct watch watch; /* first */
        struct http *http;
        int fd;
    } accepts[LISTENERS_MAX];
    struct watch daemon_watch; /* libmicrohttpd's epoll descriptor */
    struct timer sweep;
    LIST_HEAD(, connection) connections;
    int64_t looked_ms; /* time of the last search for connections to close */
    size_t most;       /* its result: the maximum number of connections of one address */
    size_t connection_count;
    size_t rejected; /* connections closed at once: over a limit, or out of memory */
    bool refusing;   /* out of descriptors: the listener is not watched for a while */
    bool again;      /* this run has read a piece of an upload, or there is more to read */
    bool draining;   /* shutdown: every response closes its connection */
    LIST_HEAD(, lingering) lingering; /* private to connection.c */
    unsigned lingering_count;
    struct connection **by_fd; /* array with `room` elements */
    size_t room;
};

struct http *http_new(struct loop *loop, const struct http_settings *settings);
void http_free(struct http *http);

/*
 * Functions of a struct loop_part whose `of` is the struct http: run libmicrohttpd, once per loop
 * iteration; return the milliseconds until it must run again, -1: no timeout.
 */
void http_run(void *of);
int64_t http_timeout_ms(void *of);

/* Accepts nothing for a short time, because descriptors or memory ran out. */
void http_refuse_for_a_while(struct http *http);

/* Stops accepting and closes idle connections; returns true when no connection is left. */
bool http_drain(struct http *http);

#endif
