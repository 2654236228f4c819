/*
 * HTTP in a loop: our own accept, libmicrohttpd for the protocol (external epoll mode, no thread
 * of its own), and a patrol that cuts connections which take too long to send or to read.
 *
 * A request's way is in exchange.c: guard, route, token, role, body, handler, answer.
 */
#ifndef CORE_HTTP_H
#define CORE_HTTP_H

#include <microhttpd.h>
#include <netinet/in.h>

#include "core/loop.h"
#include "core/query.h"
#include "core/request.h"

struct http_settings {
    int listen_fd;            /* owned by the engine, shared by the loops */
    unsigned max_connections; /* of all loops, these two */
    unsigned per_address;     /* 0: no limit */
    int64_t header_ms, body_ms, idle_ms, write_ms;
};

enum connection_stage { STAGE_IDLE, STAGE_HEADER, STAGE_BODY, STAGE_HANDLER, STAGE_WRITE };

/* A connection, from accept to close. */
struct connection {
    struct connection *next, *before;
    struct http *http;
    int fd;
    enum connection_stage stage;
    int64_t limit_ms; /* monotonic; when the patrol cuts it; 0: never */
    int64_t stop_ms;  /* a limit beside it, whatever the stage; 0: none */
    bool cut;
    bool placed;      /* it counts among those that there may be */
    unsigned refused; /* libmicrohttpd's own answer, a status; 0: none */
    char *request_id; /* of the exchange under way, "": none yet; NULL: there is no exchange */
    struct sockaddr_storage peer;
};

struct http {
    struct loop *loop;
    struct http_settings settings;
    struct MHD_Daemon *daemon;
    struct watch accept_watch; /* first watch: the listener */
    struct watch daemon_watch; /* libmicrohttpd's own epoll */
    struct timer patrol;
    struct connection *connections;
    size_t connection_count;
    size_t turned_away; /* connections closed at once, ever: over a limit, or no memory */
    bool refusing;      /* out of descriptors: the listener is not watched for a while */
    bool uploads;       /* a piece of one was taken in this run */
    bool draining;      /* a stop: every answer closes its connection */
    bool stirred;       /* a connection came on in this run */
    unsigned vain;      /* runs since then */
    size_t writing;     /* connections in STAGE_WRITE */
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

/* The connection goes on to a stage; sets its limit. `bytes`: size of the answer to write, or of
 * an upload to read. */
void connection_stage(struct connection *connection, enum connection_stage stage, size_t bytes);

/* Ends it from our side, whatever it is doing. */
void connection_cut(struct connection *connection);

/*
 * MHD_queue_response(); the host calls this one, for libmicrohttpd's own is taken (refusal.c): it
 * is where the answers pass that libmicrohttpd gives by itself.
 */
enum MHD_Result http_queue(struct MHD_Connection *mhd, unsigned status,
                           struct MHD_Response *response);

/* Callbacks of libmicrohttpd in exchange.c; cls is the struct http. */
void *exchange_uri(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result exchange_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **context);
void exchange_completed(void *cls, struct MHD_Connection *mhd, void **context,
                        enum MHD_RequestTerminationCode why);

#endif
