/*
 * HTTP in a loop: accepts connections, and runs libmicrohttpd in external epoll mode, without
 * threads. This file contains everything between a socket and libmicrohttpd; http_txn.h shows how a
 * request is processed.
 *
 * libmicrohttpd implements HTTP, but it accepts heads that a proxy in front could read differently
 * (request smuggling), and does not end connections whose clients send or read too slowly. So the
 * host accepts connections itself, checks each byte before libmicrohttpd gets it, and ends
 * connections that are too slow. This needs no changes to libmicrohttpd, because a program may
 * define functions of the C library itself. The host defines recv(), epoll_ctl() and epoll_wait().
 * For the sockets of the loop that runs libmicrohttpd on this thread (connections_run()) they do
 * the work that is shown below; for all other sockets they only call the kernel. If a version of
 * libmicrohttpd used another function to read, it would serve nothing, because http_txn_access()
 * closes a connection whose head did not pass through the reader.
 */
/* clang-format off */
/*
 *  the client         the host                                         libmicrohttpd
 *  ----------         --------                                         -------------
 *  connects       ->  connection_accept(): accept4(), limits       ->  MHD_add_connection()
 *  sends          ->  connection_epoll_wait(): withholds events    ->  reads from the socket
 *                     while a request is being handled
 *  sends a head   ->  connection_recv(), reader.h: checks it       ->  gets a small head that the
 *                                                                      host wrote
 *  sends a body   ->  connection_recv(), reader.h: checks the      ->  calls http_txn_access(),
 *                     framing                                          see http_txn.h
 *  sends slowly   ->  connections_sweep(): shutdown(SHUT_RD)       ->  reads the end that the
 *                                                                      reader writes: 408
 *  reads slowly,  ->  connections_sweep(): shutdown(SHUT_RDWR)     ->  finds the connection closed
 *  or is idle
 *  gets a         <-                                               <-  send()
 *  response           connection_answered(): the next may follow   <-  calls http_txn_completed()
 *  is closed      <-  connection_notify(): lingers if it still     <-  reports the end, close()
 *                     sends
 */
/* clang-format on */
#ifndef CORE_CONNECTION_H
#define CORE_CONNECTION_H

#include <microhttpd.h>
#include <netinet/in.h>

#include "core/lib/listener.h"
#include "core/lib/loop.h"
#include "core/module/generation.h"
#include "core/module/quota.h"
#include "core/server/reader.h"

enum { CONNECTIONS_RESERVED = 16 }; /* for connections from localhost */

enum connection_stage { STAGE_IDLE, STAGE_HEADER, STAGE_BODY, STAGE_HANDLER, STAGE_WRITE };

/*
 * State of a connection in libmicrohttpd's epoll set. libmicrohttpd removes a connection from the
 * set while a request waits for its response, and adds it again for the next request. These two
 * system calls per request are rarely useful, because clients seldom send anything before they have
 * the response. So a connection that libmicrohttpd removes stays in the kernel's set. If it has an
 * event, the host withholds the event and really removes the connection; the kernel reports the
 * event again when libmicrohttpd adds the connection.
 */
enum connection_set {
    SET_OUT,
    SET_IN,
    SET_KEPT /* libmicrohttpd removed it, but the kernel still has it */
};

struct connection {
    LIST_ENTRY(connection) link;
    struct http *http;
    int fd;
    enum connection_stage stage;
    int64_t limit_ms; /* monotonic time at which the sweep ends the connection; 0: never */
    int64_t stop_ms;  /* like limit_ms, for streams while the host stops; 0: never */
    bool cut;
    bool lingers; /* closed with connection_linger(), because the client may have sent more data */
    struct quota_charge counted; /* 1 while the connection counts against the limits */
    int drops_status;            /* set by connection_drops_body(): the response's status; else 0 */
    int64_t drops_ms;            /* monotonic time for the sweep to call connection_stop_body() */
    struct reader reader;
    enum connection_set in_set;
    uint32_t set_events;            /* `events` of libmicrohttpd's last EPOLL_CTL_ADD */
    void *set_data;                 /* `data.ptr` of the same call */
    bool has_ended;                 /* the last event reported that the client has shut down */
    char address[INET6_ADDRSTRLEN]; /* the peer's address, from address_text() */
};

struct http_settings {
    const struct listeners *listeners; /* owned by the engine, shared by the loops */
    unsigned max_connections;          /* this and per_address: limits over all loops */
    unsigned per_address;
    int64_t header_ms, body_ms, idle_ms, write_ms;
};

/* Reads the settings of a generation. */
struct http_settings http_settings_of(const struct generation *generation,
                                      const struct listeners *listeners);

/* The streams of a loop, private to stream.c. */
struct streams {
    LIST_HEAD(, bb_stream) open;
    bool refusing;      /* the host is stopping */
    struct timer timer; /* starts the next part of a round of checks */
    bool in_round;
    struct bb_stream *next;    /* the stream to be checked next in this round */
    struct bb_stream *checked; /* the stream whose token is being checked; NULL: none, or closed */
};

struct http {
    struct loop *loop;
    struct streams streams;
    struct http_settings settings;
    struct MHD_Daemon *daemon;
    struct accept {
        struct watch watch; /* first member */
        struct http *http;
        int fd;
    } accepts[LISTENERS_MAX];
    struct watch daemon_watch; /* libmicrohttpd's epoll descriptor */
    struct timer sweep;
    LIST_HEAD(, connection) connections;
    int64_t looked_ms; /* time of the last search for connections to close */
    size_t most;       /* result of that search: largest number of connections of an address */
    size_t connection_count;
    size_t rejected; /* connections closed right after accept4(): over a limit, or out of memory */
    bool refusing;   /* out of descriptors: listeners are not watched until the next sweep */
    bool again;      /* http_run() calls MHD_run() again, because there may be more to read */
    bool draining;   /* shutdown: every response closes its connection */
    LIST_HEAD(, lingering) lingering; /* private to connection.c */
    unsigned lingering_count;
    struct connection **by_fd; /* connections by descriptor; array with `room` elements */
    size_t room;
};

struct http *http_new(struct loop *loop, const struct http_settings *settings);
void http_free(struct http *http);

/*
 * Members of a struct loop_part; `of` is the struct http. Once per iteration, http_run() runs
 * libmicrohttpd. http_timeout_ms() returns the time in ms until the next run; -1: no timeout.
 */
void http_run(void *of);
int64_t http_timeout_ms(void *of);

/* Stops accepting, closes idle connections. Call it again until it returns true: none is left. */
bool http_drain(struct http *http);

/* Sets the stage and its timeout, which grows with the `bytes` of a response or upload. */
void connection_stage(struct connection *connection, enum connection_stage stage, size_t bytes);

/* Ends connections that exceed the timeout of their stage; an incomplete request gets a 408. */
void connections_sweep(struct http *http);

/* Shuts the connection down in any stage; libmicrohttpd notices this and cleans up. */
void connection_cut(struct connection *connection);

/* Prepares for the next request. Call when a request was answered or has ended otherwise. */
void connection_answered(struct connection *connection);
/*
 * Call when the rest of a chunked body is discarded, because the response is decided. If the body
 * ends soon, the connection stays open; otherwise the sweep calls connection_stop_body().
 */
void connection_drops_body(struct connection *connection, int status);
/* Stops reading the body: the request gets this status, and the connection will be closed. */
void connection_stop_body(struct connection *connection, int status);

/* Sets the loop whose sockets the calling thread handles from now on; NULL: none. */
void connections_run(struct http *http);
/* Sets the connection of a socket; NULL: none. Returns 0, or -1 if memory ran out. */
int connection_map(struct http *http, int fd, struct connection *connection);
/* Removes a connection in the state SET_KEPT from the kernel's set. Ignores other connections. */
void connection_forget(struct connection *connection);

#endif
