/*
 * HTTP in a loop: the host accepts connections itself, libmicrohttpd implements the protocol
 * (external epoll mode, no threads), and a periodic sweep cuts connections that send or read too
 * slowly.
 *
 * http_txn.c processes a request: head, route, token, role, body, handler, answer.
 */
#ifndef CORE_HTTP_H
#define CORE_HTTP_H

#include <microhttpd.h>
#include <netinet/in.h>

#include "core/lib/linger.h"
#include "core/lib/listener.h"
#include "core/lib/loop.h"
#include "core/lib/query.h"
#include "core/module/request.h"
#include "core/server/reader.h"

struct http_settings {
    const struct listeners *listeners; /* owned by the engine, shared by the loops */
    unsigned max_connections;          /* this and the next: limits over all loops */
    unsigned per_address;
    int64_t header_ms, body_ms, idle_ms, write_ms;
};

/* Reads the settings of a generation. */
struct http_settings http_settings_of(const struct generation *generation,
                                      const struct listeners *listeners);

enum connection_stage { STAGE_IDLE, STAGE_HEADER, STAGE_BODY, STAGE_HANDLER, STAGE_WRITE };

/* State of a connection in libmicrohttpd's epoll set, see http_epoll.c. */
enum connection_set {
    SET_OUT,
    SET_IN,
    SET_KEPT,    /* libmicrohttpd removed it, but the kernel still has it */
    SET_MISSED,  /* like SET_KEPT, and the kernel has reported an event: set_missed */
    SET_REPORTED /* libmicrohttpd added it again, and will get the missed event */
};

/* A connection, from accept to close. */
struct connection {
    struct connection *next, *before;
    struct http *http;
    int fd;
    enum connection_stage stage;
    int64_t limit_ms; /* monotonic time at which the sweep cuts it; 0: never */
    int64_t stop_ms;  /* a second limit, independent of the stage; 0: none */
    bool cut;
    bool lingers; /* the host closes it, and the client may already have sent more data */
    struct quota_owner owner;    /* its address */
    struct quota_charge counted; /* 1 while it counts against the connection limits */
    bool looked; /* the sweep has checked in this stage whether the client closed it */
    bool ended;  /* the sweep found that the rest of the body will not come */
    struct MHD_Connection *drops; /* see connection_drops_body(); otherwise NULL */
    int drops_status;
    int64_t drops_ms; /* monotonic time at which the sweep closes it */
    struct reader reader;
    enum connection_set in_set;
    uint32_t set_missed; /* the last event that the kernel reported */
    struct connection *reported_next;
    void *set_data;                  /* the pointer that libmicrohttpd expects with an event */
    struct MHD_Connection *waits;    /* see connection_answered(); otherwise NULL */
    struct connection *next_waiting; /* in the list of such connections */
    struct sockaddr_storage peer;
    char address[INET6_ADDRSTRLEN]; /* the peer's, as address_client() writes it */
};

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
    struct connection *connections;
    int64_t looked_ms; /* time of the last search for connections to close */
    size_t most;       /* result of that search: the maximum number of connections of one address */
    size_t connection_count;
    size_t rejected;    /* total number of connections closed at once: over a limit, or out of
                         * memory */
    bool refusing;      /* out of descriptors: the listener is not watched for a while */
    bool again;         /* in this run, a piece of an upload was read or a connection resumed */
    bool draining;      /* shutdown: every answer closes its connection */
    bool progressed;    /* a connection made progress in this run */
    unsigned idle_runs; /* runs since the last progress */
    size_t writing;     /* connections in STAGE_WRITE */
    struct connection *waiting;  /* connections with input after the request that was answered */
    struct connection *reported; /* see SET_REPORTED */
    struct reader_pool buffers;
    struct lingers lingers;
    struct connection **by_fd; /* array with `room` elements */
    size_t room;
    struct connection nobody; /* placeholder if there is no memory for a connection: nothing is
                               * read from it */
};

struct http *http_new(struct loop *loop, const struct http_settings *settings);
void http_free(struct http *http);

/* Applies the settings that a reload may change: the timeouts of headers, bodies and answers. */
void http_apply(struct http *http, const struct http_settings *settings);

/* Runs libmicrohttpd. Called once per loop iteration. */
void http_run(struct http *http);

/* Milliseconds until libmicrohttpd must run again; -1: no timeout. */
int64_t http_timeout_ms(struct http *http);

/* Stops accepting and closes idle connections; returns true when no connection is left. */
bool http_drain(struct http *http);

/* connection_timeout.c: cuts the connections that exceed the timeout of their stage. */
void connections_sweep(struct http *http);
/*
 * Moves a connection to a stage and sets its timeout. `bytes`: size of the answer to write, or of
 * an upload to read.
 */
void connection_stage(struct connection *connection, enum connection_stage stage, size_t bytes);

/*
 * connection_limit.c: counts the connection against the limits for all loops and for its address.
 * An idle connection may be closed to make room. Returns false if there is no room.
 */
enum { CONNECTIONS_RESERVED = 16 }; /* for connections from localhost */
bool connection_limit_take(struct connection *connection);
void connection_limit_release(struct connection *connection);

/* Called when a request was answered or ended otherwise, so that the next request may follow. */
void connection_answered(struct connection *connection, struct MHD_Connection *mhd);
/*
 * The request will be answered with this status, whatever else arrives of its chunked body. Data
 * that arrives soon is discarded, so that the connection can be reused; after that the sweep closes
 * it.
 */
void connection_drops_body(struct connection *connection, struct MHD_Connection *mhd, int status);
/*
 * Stops reading the body; the request is answered with this status, and the connection is closed.
 */
void connection_stop_body(struct connection *connection, struct MHD_Connection *mhd, int status);

/* Closes the connection, in any stage. */
void connection_cut(struct connection *connection);

/*
 * http_recv.c. Sets the loop whose sockets the calling thread reads from now on; NULL: none.
 * http_map_fd() sets the connection of a socket; NULL: none. It returns 0, or -1 if memory ran out.
 */
void http_running(struct http *http);
int http_map_fd(struct http *http, int fd, struct connection *connection);
/*
 * Returns the connection of a socket of the calling thread; NULL if the socket is not one, or if
 * there was no memory for its connection.
 */
struct connection *http_connection(int fd);

/* Returns the loop of the calling thread if this is its epoll set; otherwise NULL. */
struct http *http_of_set(int epoll);

/*
 * http_epoll.c: makes libmicrohttpd read from the connection again, after it has read or may read
 * on. libmicrohttpd reads once per edge, and a client that has shut down its side causes no further
 * edge.
 */
void http_epoll_again(struct connection *connection);
/* The connection ends; no more events are reported for it. */
void http_epoll_forget(struct connection *connection);

/* Callbacks of libmicrohttpd in http_txn.c; cls is the struct http. */
void *http_txn_uri(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_txn_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **context);
void http_txn_completed(void *cls, struct MHD_Connection *mhd, void **context,
                        enum MHD_RequestTerminationCode why);

#endif
