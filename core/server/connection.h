/*
 * A connection, from accept to close, and everything between libmicrohttpd and its socket.
 *
 * libmicrohttpd implements HTTP, but it accepts heads that a proxy in front could read differently
 * (request smuggling), and does not end connections whose clients send or read too slowly. So the
 * host accepts connections itself, checks each byte before libmicrohttpd gets it, and ends
 * connections that are too slow. This needs no changes to libmicrohttpd, because a program may
 * define functions of the C library itself. The host defines recv(), epoll_ctl() and epoll_wait().
 * For the sockets of the loop that runs libmicrohttpd on this thread (connections_run()) they do
 * more; for all other sockets they only call the kernel. If a version of libmicrohttpd used another
 * function to read, it would serve nothing, because http_txn_access() closes a connection whose
 * head did not pass through the reader.
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

#include "core/lib/loop.h"
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
    int64_t limit_ms; /* monotonic time at which the sweep cuts it; 0: never */
    int64_t stop_ms;  /* a second limit, independent of the stage; 0: none */
    bool cut;
    bool lingers; /* the host closes it, and the client may already have sent more data */
    struct quota_charge counted; /* 1 while it counts against the limits of its address */
    int drops_status;            /* see connection_drops_body(); otherwise 0 */
    int64_t drops_ms;            /* monotonic time at which the sweep closes it */
    struct reader reader;
    enum connection_set in_set;
    uint32_t set_events;            /* the events that libmicrohttpd expects, */
    void *set_data;                 /* and its pointer with an event */
    bool has_ended;                 /* the last event reported that the client has shut down */
    char address[INET6_ADDRSTRLEN]; /* the peer's, see address_text() */
};

/* Accepts a connection, and closes it if a limit is reached. Returns false if none waits. */
bool connection_accept(struct http *http, int listener);

void connection_free(struct connection *connection);

/* Called by libmicrohttpd when a connection has started or ended; cls is the struct http. */
void connection_notify(void *cls, struct MHD_Connection *mhd, void **context,
                       enum MHD_ConnectionNotificationCode code);

/* Sets the stage and its timeout. `bytes` is the size of the response or of the upload. */
void connection_stage(struct connection *connection, enum connection_stage stage, size_t bytes);

/* Closes the sockets that linger (see connection.c). */
void connections_stop_lingering(struct http *http);

/* Cuts the connections that exceed the timeout of their stage. */
void connections_sweep(struct http *http);

/* Shuts the connection down in any stage; libmicrohttpd notices this and cleans up. */
void connection_cut(struct connection *connection);

/* Prepares for the next request. Call when a request was answered or has ended otherwise. */
void connection_answered(struct connection *connection);
/*
 * Discards the rest of a chunked body, because the request will be answered with this status in any
 * case. If the body ends soon, the connection can be reused; otherwise the sweep closes it.
 */
void connection_drops_body(struct connection *connection, int status);
/*
 * Stops reading the body, because the request will be answered with this status and the connection
 * closed.
 */
void connection_stop_body(struct connection *connection, int status);

/* Sets the loop whose sockets the calling thread handles from now on; NULL: none. */
void connections_run(struct http *http);
/* Sets the connection of a socket; NULL: none. Returns 0, or -1 if memory ran out. */
int connection_map(struct http *http, int fd, struct connection *connection);
/* Stops reporting events of a connection that ends. */
void connection_forget(struct connection *connection);

#endif
