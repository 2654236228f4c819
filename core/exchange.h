/*
 * An exchange: one HTTP request and its answer.
 *
 *   exchange_uri()     the request line is there: the exchange is made, it holds the generation
 *   exchange_access()  first call, all headers: guard, route, token and role (admission.c)
 *                      then the body, piece by piece (body.c)
 *                      last call: body parsed and checked, handler on its fiber, answer (answer.c)
 *   exchange_completed() the answer has been sent or the client has gone
 *
 * A fiber that parks suspends its connection; when it has ended the connection is resumed and
 * libmicrohttpd calls exchange_access() again, which gives the answer.
 */
#ifndef CORE_EXCHANGE_H
#define CORE_EXCHANGE_H

#include "core/http.h"
#include "core/route.h"

enum exchange_phase {
    PHASE_HEADERS,   /* first call to come */
    PHASE_ADMISSION, /* the token is being looked at */
    PHASE_BODY,
    PHASE_HANDLER, /* the handler is at work */
    PHASE_ANSWER   /* there is an answer to give */
};

enum { REQUEST_ID_MAX = 64 };

struct upload;

struct exchange {
    struct core_request rq; /* first */
    struct MHD_Connection *mhd;
    struct connection *connection;
    enum exchange_phase phase;
    bool suspended;
    bool first_again;   /* libmicrohttpd repeats a first call that suspended the connection */
    bool close;         /* the connection ends with the answer */
    bool drop_body;     /* the answer is decided; what comes of the body is thrown away */
    const char *target; /* raw: path, and query behind '?' */
    const char *path;   /* raw, of the target */
    const char *query;  /* raw, or NULL */
    const char *method;
    struct route_match match; /* match.route NULL: none */
    const char *segments[ROUTE_PARAMETERS_MAX];
    struct query_values args;
    struct bb_principal principal;
    char id[REQUEST_ID_MAX + 1];
    char address[INET6_ADDRSTRLEN];
    char *bytes; /* of the body */
    size_t length, room, limit;
    size_t taken, dropped;                     /* of a multipart body; of what is thrown away */
    bool multipart;                            /* the body is; then `bytes` are its fields */
    struct upload *upload;                     /* of a multipart body, once it has begun to come */
    int64_t started_us, phase_us, answered_us; /* monotonic; of the phase that runs */
    struct bb_stream *stream;                  /* the answer is one; NULL: it is not */
};

static inline struct exchange *exchange_of(struct bb_request *rq)
{
    return (struct exchange *)(void *)rq;
}

/* exchange.c */
void exchange_free(struct exchange *exchange);

/* A header as libmicrohttpd has it; NULL if absent. */
const char *exchange_header(const struct exchange *exchange, const char *name);

/* admission.c: decides on the headers. 0: go on (perhaps parked); else the status of the answer. */
int admission_check(struct exchange *exchange, const char *method, const char *version);
/* Whether neither token nor role is asked for. */
bool admission_free(const struct exchange *exchange);
/* Looks at token and role; on the fiber. */
void admission_entry(struct core_request *rq);
/* The text behind "Bearer "; NULL: there is no such header, or it is malformed. */
const char *admission_token(const struct exchange *exchange);

/* body.c: whether a body follows, and how it may look. 0 or the status of an answer. */
int body_expect(struct exchange *exchange);
/* Length by Content-Length; -1: chunked or none. */
int64_t body_declared(const struct exchange *exchange);
bool body_follows(const struct exchange *exchange);
/* Takes a piece. 0, or the status of an answer (413). */
int body_take(struct exchange *exchange, const char *data, size_t size);
/* Keeps it in memory, as far as there are no more than `limit` bytes. 0, or the same. */
int body_keep(struct exchange *exchange, const char *data, size_t size, size_t limit);
/* Parses and checks the body against the route's fields. 0 or the status of an answer. */
int body_check(struct exchange *exchange);

/* answer.c */
enum MHD_Result answer_send(struct exchange *exchange);
void answer_log(const struct exchange *exchange, enum MHD_RequestTerminationCode why);

/* slow.c */
void slow_log(const struct exchange *exchange, int64_t whole_us);

#endif
