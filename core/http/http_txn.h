/*
 * An HTTP transaction: one HTTP request and its answer.
 *
 *   http_txn_uri()     the request line is there: the HTTP transaction is made, it holds the
 * generation http_txn_access()  first call, all headers: guard, route, token and role
 * (access_check.c) then the body, piece by piece (body.c) last call: body parsed and checked, the
 * token again if that took long, handler on its fiber, answer (response.c) http_txn_completed() the
 * answer has been sent or the client has gone
 *
 * A fiber that parks suspends its connection; when it has ended the connection is resumed and
 * libmicrohttpd calls http_txn_access() again, which gives the answer.
 */
#ifndef CORE_HTTP_TXN_H
#define CORE_HTTP_TXN_H

#include "core/generation/route.h"
#include "core/http/http.h"
#include "core/wire/head.h"

enum http_txn_phase {
    PHASE_HEADERS,   /* first call to come */
    PHASE_ADMISSION, /* the token is being looked at */
    PHASE_BODY,
    PHASE_HANDLER, /* the handler is at work */
    PHASE_ANSWER   /* there is an answer to give */
};

enum {
    REQUEST_ID_MAX = 64,
    BODY_LARGE = 64 * 1024 /* a body from here on is read by a thread of the pool, and counted */
};

struct upload;

struct http_txn {
    struct core_request rq; /* first */
    struct MHD_Connection *mhd;
    struct connection *connection;
    enum http_txn_phase phase;
    bool suspended;
    bool first_again; /* libmicrohttpd repeats a first call that suspended the connection */
    bool close;       /* the connection ends with the answer */
    bool drop_body;   /* the answer is decided; what comes of the body is thrown away */
    struct head head;
    const char *target;       /* raw: path, and query behind '?'; "" of a head that is refused */
    const char *path;         /* raw, of the target */
    const char *query;        /* raw, or NULL */
    const char *method;       /* the same */
    struct route_match match; /* match.route NULL: none */
    const char *segments[ROUTE_PARAMETERS_MAX];
    struct query_values args;
    struct bb_principal principal;
    char id[REQUEST_ID_MAX + 1];
    char address[INET6_ADDRSTRLEN];
    char *bytes; /* of the body */
    size_t length, room, limit;
    struct quota_charge under_way;        /* 1 while it counts among its owner's requests */
    struct quota_charge counted;          /* bytes, and buffers of its upload, in memory */
    struct quota_charge response_counted; /* the answer's bytes in memory */
    size_t taken, dropped; /* bytes of a multipart body or one that nobody reads; bytes refused */
    bool form;             /* the body is one, and not JSON */
    bool multipart;        /* the body is; then `bytes` are its fields */
    bool other;            /* the body is of a type that is not read */
    bool chunked;          /* the body may turn out to be empty: its type is looked at later */
    struct upload *upload; /* of a multipart body, once it has begun to come */
    int64_t started_us, phase_us, answered_us; /* monotonic; of the phase that runs */
    int64_t asked_us;                          /* who is behind the token */
    struct bb_stream *stream;                  /* the answer is one; NULL: it is not */
    struct http_txn *successor; /* see http_txn_late.c; NULL: there is none, or it has taken over */
    bool late;                  /* there is or was one: the connection is not this one's any more */
    bool over;                  /* of a late one: the fiber has ended */
};

static inline struct http_txn *http_txn_of(struct bb_request *rq)
{
    return (struct http_txn *)(void *)rq;
}

/* http_txn.c */
void http_txn_slow_down(struct core_request *rq);
void http_txn_free(struct http_txn *txn);

/* A header of the request, the first of this name; NULL: absent. */
const char *http_txn_header(const struct http_txn *txn, const char *name);

/*
 * The values of all headers of this name, joined by commas, as a list that was sent in several
 * lines (RFC 9110, 5.3). NULL: absent; "-" without memory.
 */
const char *http_txn_list(const struct http_txn *txn, const char *name);

/* access_check.c: decides on the headers. 0: go on (perhaps parked); else the status of the answer.
 */
int access_check(struct http_txn *txn);
/* Whether neither token nor role is asked for. */
bool access_is_public(const struct http_txn *txn);
/* Looks at token and role, and then at what a stranger need not learn; on the fiber. */
void access_entry(struct core_request *rq);
/*
 * Looks at token and role again if that was a while ago, for a body may take an hour to come: 0, or
 * the status of an answer; on the fiber.
 */
int access_again(struct core_request *rq);
/* It does not count among its owner's requests any more: it is over, or its answer is a stream. */
void access_leave(struct http_txn *txn);
/* The text behind "Bearer "; NULL: there is no such header, or it is malformed. */
const char *access_token(const struct http_txn *txn);

/* body.c: whether a body follows, and how it may look. 0 or the status of an answer. */
int body_expect(struct http_txn *txn);
bool body_follows(const struct http_txn *txn);
/* Takes a piece. 0, or the status of an answer (413). */
int body_take(struct http_txn *txn, const char *data, size_t size);
/*
 * Keeps it in memory, as far as there are no more than `limit` bytes and there is room for it. 0,
 * or the same, or that of body_take_room().
 */
int body_keep(struct http_txn *txn, const char *data, size_t size, size_t limit);
/* Lets go of what was kept: it is of no use any more. */
void body_drop(struct http_txn *txn);
/* The same, and of all that was counted. */
void body_free(struct http_txn *txn);
/*
 * Parses and checks the body against the route's fields. 0 or the status of an answer. Any thread,
 * while the loop's leaves the HTTP transaction alone.
 */
int body_check(struct http_txn *txn);

/*
 * body_budget.c. Who may send one large body may send thousands, so they share a bound
 * (http.max_bodies), of which each account, or without one each address, has a part
 * (http.bodies_per_account). Counts so many bytes more of this one: 0; or 429, 503, where there is
 * no room for them.
 */
int body_take_room(struct http_txn *txn, size_t bytes);
/* The same, of who can wait where there is none: nothing is answered. */
bool body_try_room(struct http_txn *txn, size_t bytes);
void body_give_room(struct http_txn *txn, size_t bytes);
/*
 * The same for an answer that waits for its client to read it (http.max_answers): it is counted, or
 * 429, 503 takes its place, if the request was to read only. Any other is refused by the first
 * function, before it does anything, where its account has its part unread: 0, or 429.
 */
int response_check_budget(struct http_txn *txn);
void response_take_budget(struct http_txn *txn);
void response_release_budget(struct http_txn *txn);

/*
 * http_txn_late.c. The time of a request is over, while a thread still works for it: answers 503,
 * and lets go of the connection; false: it cannot, the answer has to wait. On the fiber.
 */
bool http_txn_leave(struct core_request *rq);
/* What libmicrohttpd is to know in its place; itself, if it has not let go. NULL for NULL. */
struct http_txn *http_txn_owner(struct http_txn *txn);
/* The fiber of a late one has ended. */
void http_txn_over(struct http_txn *txn);

/* response.c */
enum MHD_Result response_send(struct http_txn *txn);
void response_log(const struct http_txn *txn, enum MHD_RequestTerminationCode why);

/* slow.c */
void slow_log(const struct http_txn *txn, int64_t whole_us);

#endif
