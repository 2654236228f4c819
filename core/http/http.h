/*
 * HTTP in a loop: our own accept, libmicrohttpd for the protocol (external epoll mode, no thread
 * of its own), and a sweep that cuts connections which take too long to send or to read.
 *
 * A request's way is in http_txn.c: guard, route, token, role, body, handler, answer.
 */
#ifndef CORE_HTTP_H
#define CORE_HTTP_H

#include <microhttpd.h>
#include <netinet/in.h>

#include "core/field/query.h"
#include "core/loop/loop.h"
#include "core/request/request.h"
#include "core/wire/linger.h"
#include "core/wire/listener.h"
#include "core/wire/reader.h"

struct http_settings {
    const struct listeners *listeners; /* the engine's, shared by the loops */
    unsigned max_connections;          /* of all loops, these two */
    unsigned per_address;
    int64_t header_ms, body_ms, idle_ms, write_ms;
};

/* Of a generation; the listeners are the engine's. */
struct http_settings http_settings_of(const struct generation *generation,
                                      const struct listeners *listeners);

enum connection_stage { STAGE_IDLE, STAGE_HEADER, STAGE_BODY, STAGE_HANDLER, STAGE_WRITE };

/* Whether it is in libmicrohttpd's epoll set, see http_epoll.c. */
enum connection_set {
    SET_OUT,
    SET_IN,
    SET_KEPT,    /* libmicrohttpd has taken it out, and we have not */
    SET_MISSED,  /* the same, and the kernel has reported something of it: set_missed */
    SET_REPORTED /* libmicrohttpd has put it back, and will hear of that */
};

/* A connection, from accept to close. */
struct connection {
    struct connection *next, *before;
    struct http *http;
    int fd;
    enum connection_stage stage;
    int64_t limit_ms; /* monotonic; when the sweep cuts it; 0: never */
    int64_t stop_ms;  /* a limit beside it, whatever the stage; 0: none */
    bool cut;
    bool lingers; /* the host ends it, and the client may have sent more before it hears of that */
    struct quota_owner owner;    /* its address */
    struct quota_charge counted; /* 1 while it counts among those that there may be */
    bool looked; /* the sweep has looked whether the client has left, in this stage */
    bool ended;  /* it has seen that no more of the body comes */
    struct MHD_Connection *drops; /* see connection_drops_body(); NULL: it does not */
    int drops_status;
    int64_t drops_ms; /* monotonic; when the sweep ends it */
    struct reader reader;
    enum connection_set in_set;
    uint32_t set_missed; /* what the kernel reported last */
    struct connection *reported_next;
    void *set_data;                  /* what libmicrohttpd wants back with an event */
    struct MHD_Connection *waits;    /* see connection_answered(); NULL: it does not */
    struct connection *next_waiting; /* of those that do */
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
    struct watch daemon_watch; /* libmicrohttpd's own epoll */
    struct timer sweep;
    struct connection *connections;
    int64_t looked_ms; /* for one that makes room */
    size_t most;       /* then: connections of one address */
    size_t connection_count;
    size_t rejected;    /* connections closed at once, ever: over a limit, or no memory */
    bool refusing;      /* out of descriptors: the listener is not watched for a while */
    bool again;         /* a piece of an upload was taken in this run, or a connection resumed */
    bool draining;      /* a stop: every answer closes its connection */
    bool progressed;    /* a connection came on in this run */
    unsigned idle_runs; /* runs since then */
    size_t writing;     /* connections in STAGE_WRITE */
    struct connection *waiting;  /* something waits behind the request that was answered */
    struct connection *reported; /* see SET_REPORTED */
    struct reader_pool buffers;
    struct lingers lingers;
    struct connection **by_fd; /* `room` of them */
    size_t room;
    struct connection nobody; /* in the place of one that there is no memory for: nothing is read */
};

struct http *http_new(struct loop *loop, const struct http_settings *settings);
void http_free(struct http *http);

/* Takes over what a reload may change: the times of headers, bodies and answers. */
void http_apply(struct http *http, const struct http_settings *settings);

/* Once a turn. */
void http_run(struct http *http);

/* Milliseconds until libmicrohttpd wants to run again, -1: not by time. */
int64_t http_timeout_ms(struct http *http);

/* Stops accepting and closes what is idle; true when nothing is left. */
bool http_drain(struct http *http);

/* connection_timeout.c: cuts the connections that exceed the time of their stage. */
void connections_sweep(struct http *http);
/* The connection goes on to a stage; sets its limit. `bytes`: size of the answer to write, or of
 * an upload to read. */
void connection_stage(struct connection *connection, enum connection_stage stage, size_t bytes);

/*
 * connection_limit.c: counts it among the connections of all loops, for there may be so many of all
 * and of its address. One that does nothing may have to end for it. false: there is no place.
 */
enum { CONNECTIONS_RESERVED = 16 }; /* for who asks from the machine itself */
bool connection_limit_take(struct connection *connection);
void connection_limit_release(struct connection *connection);

/* Its request has been answered, or has ended otherwise: the next one may follow. */
void connection_answered(struct connection *connection, struct MHD_Connection *mhd);
/*
 * The request is answered with this status whatever else comes of its body of chunks. What comes at
 * once is thrown away, so that the connection can go on; then the sweep ends it.
 */
void connection_drops_body(struct connection *connection, struct MHD_Connection *mhd, int status);
/* Nothing more of its body is read; it is answered with this status, and the connection ends. */
void connection_stop_body(struct connection *connection, struct MHD_Connection *mhd, int status);

/* Ends it from our side, whatever it is doing. */
void connection_cut(struct connection *connection);

/*
 * http_recv.c. Whose sockets the calling thread reads from now on; NULL: nobody's. And which
 * connection a socket is; NULL: none any more. 0, or -1 without memory.
 */
void http_running(struct http *http);
int http_know(struct http *http, int fd, struct connection *connection);
/* The connection of a socket of the calling thread; NULL: it is none, or one without memory. */
struct connection *http_connection(int fd);

/* Whose epoll set it is, of the calling thread; NULL: another one. */
struct http *http_of_set(int epoll);

/*
 * http_epoll.c: libmicrohttpd has read of the connection, or may read on. Of a client that has
 * ended its side no further edge comes, and libmicrohttpd reads once for each: it is made to read
 * again.
 */
void http_epoll_again(struct connection *connection);
/* The connection ends; nothing more is reported of it. */
void http_epoll_forget(struct connection *connection);

/* Callbacks of libmicrohttpd in http_txn.c; cls is the struct http. */
void *http_txn_uri(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_txn_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **context);
void http_txn_completed(void *cls, struct MHD_Connection *mhd, void **context,
                        enum MHD_RequestTerminationCode why);

#endif
