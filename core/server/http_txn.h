/*
 * An HTTP transaction: one HTTP request and its answer. libmicrohttpd calls:
 * - http_txn_uri() after the request line: creates the HTTP transaction, which keeps its generation
 *   loaded.
 * - http_txn_access() with all headers: checks the head, route, token and role (access_check.c).
 * - http_txn_access() with each piece of the body (body.c).
 * - http_txn_access() at the end of the body: parses and checks the body, checks the token again if
 *   that took long, runs the handler on its fiber, and answers (response.c).
 * - http_txn_completed() when the answer was sent or the client has closed the connection.
 *
 * A fiber that parks suspends its connection. When the fiber has ended the connection is resumed,
 * and libmicrohttpd calls http_txn_access() again, which gives the answer.
 */
#ifndef CORE_HTTP_TXN_H
#define CORE_HTTP_TXN_H

#include "core/module/route.h"
#include "core/server/head.h"
#include "core/server/http.h"

enum http_txn_phase {
    PHASE_HEADERS,   /* before the first call of http_txn_access() */
    PHASE_ADMISSION, /* the token is being checked */
    PHASE_BODY,
    PHASE_HANDLER, /* the handler is running */
    PHASE_ANSWER   /* the answer is ready to be sent */
};

enum {
    REQUEST_ID_MAX = 64,
    BODY_LARGE = 64 * 1024 /* larger bodies are parsed by a pool thread, and counted */
};

struct upload;

struct http_txn {
    struct core_request rq; /* first */
    struct MHD_Connection *mhd;
    struct connection *connection;
    enum http_txn_phase phase;
    bool suspended;
    bool first_again; /* libmicrohttpd repeats a first call that suspended the connection */
    bool close;       /* the connection is closed after the answer */
    bool drop_body;   /* the answer is decided; the rest of the body is discarded */
    bool slowed;      /* its 429 was delayed */
    struct head head;
    const char *target;       /* raw: path, and query after '?'; "" if the head was refused */
    const char *path;         /* raw; part of the target */
    const char *query;        /* raw; NULL if absent */
    const char *method;       /* raw */
    struct route_match match; /* match.route NULL: no route */
    const char *segments[ROUTE_PARAMETERS_MAX];
    struct query_values args;
    struct bb_principal principal;
    char id[REQUEST_ID_MAX + 1];
    char address[INET6_ADDRSTRLEN];
    char *bytes; /* the body */
    size_t length, room, limit;
    struct quota_charge under_way;        /* 1 while it counts among its owner's requests in
                                           * progress */
    struct quota_charge anonymous;        /* 1 while it counts among requests without a token */
    struct quota_charge counted;          /* bytes in memory, including the buffers of an upload */
    struct quota_charge response_counted; /* bytes of the answer in memory */
    size_t taken, dropped;                /* bytes of a multipart or unread body; bytes discarded */
    bool form;                            /* the body is a form instead of JSON */
    bool multipart;                       /* the body is multipart; `bytes` contains its fields */
    bool other;                           /* the body has a type that is not read */
    bool chunked;          /* the body may turn out to be empty, so its type is checked later */
    struct upload *upload; /* the multipart body, after its first bytes */
    int64_t started_us, phase_us, answered_us; /* monotonic; phase_us is the start of the current
                                                * phase */
    int64_t asked_us;                          /* when the token was last checked */
    struct bb_stream *stream;                  /* the answer if it is a stream, otherwise NULL */
    struct http_txn *successor; /* see http_txn_late.c; NULL: none, or it has taken over */
    bool late;                  /* has or had a successor, which owns the connection */
    bool over;                  /* the fiber of a late transaction has ended */
};

static inline struct http_txn *http_txn_of(struct bb_request *rq)
{
    return (struct http_txn *)(void *)rq;
}

/* http_txn.c */
/* Delays a 429 a little, once. On the fiber. */
void http_txn_slow_down(struct core_request *rq);
void http_txn_free(struct http_txn *txn);

/* Returns the first header with this name; NULL if absent. */
const char *http_txn_header(const struct http_txn *txn, const char *name);

/*
 * Returns the values of all headers with this name, joined by commas, because a list may be sent in
 * several lines (RFC 9110, 5.3). NULL if absent; "-" if memory ran out.
 */
const char *http_txn_list(const struct http_txn *txn, const char *name);

/*
 * access_check.c: checks the headers. Returns 0 to continue (perhaps parked), or the status of the
 * answer.
 */
int access_check(struct http_txn *txn);
/* Whether neither a token nor a role is required. */
bool access_is_public(const struct http_txn *txn);
/*
 * Checks token and role, and then the things that anonymous clients must not learn. Runs on the
 * fiber.
 */
void access_entry(struct core_request *rq);
/*
 * Checks token and role again if the last check was a while ago, because a body can take an hour.
 * Returns 0, or the status of an answer. Runs on the fiber.
 */
int access_again(struct core_request *rq);
/* Stops counting the request among its owner's: it is over, or its answer is a stream. */
void access_leave(struct http_txn *txn);
/* Returns the text after "Bearer "; NULL if there is no such header or it is malformed. */
const char *access_token(const struct http_txn *txn);

/*
 * body.c: checks whether a body follows and whether its type and size are acceptable. Returns 0 or
 * the status of an answer.
 */
int body_expect(struct http_txn *txn);
bool body_follows(const struct http_txn *txn);
/* Processes a piece of the body. Returns 0 or the status of an answer (413). */
int body_take(struct http_txn *txn, const char *data, size_t size);
/*
 * Appends to the body in memory, up to `limit` bytes. Returns 0 or the status of an answer: 413, or
 * the status of body_take_room().
 */
int body_keep(struct http_txn *txn, const char *data, size_t size, size_t limit);
/* Frees the body, which is no longer needed. */
void body_drop(struct http_txn *txn);
/* Like body_drop(), and releases everything that was counted. */
void body_free(struct http_txn *txn);
/*
 * Parses the body and checks it against the route's fields. Returns 0 or the status of an answer.
 * Runs on any thread while the loop does not use the HTTP transaction.
 */
int body_check(struct http_txn *txn);

/*
 * body_budget.c. A client that may send one large body can send thousands, so all large bodies
 * share a limit (http.max_bodies), and each account, or address without an account, has a share of
 * it (http.bodies_per_account). Counts more bytes for this transaction. Returns 0; or 429 or 503 if
 * there is no room.
 */
int body_take_room(struct http_txn *txn, size_t bytes);
/*
 * Like body_take_room(), for callers that can wait: answers nothing. Returns false if there is no
 * room.
 */
bool body_try_room(struct http_txn *txn, size_t bytes);
void body_give_room(struct http_txn *txn, size_t bytes);
/*
 * The same for answers that wait for the client to read them (http.max_answers).
 * response_take_budget() counts an answer; if there is no room, a read-only request gets a 429 or
 * 503 instead. Other requests are refused by response_check_budget() before they have any effect,
 * if the unread answers of the account have used up its share: it returns 0 or 429.
 */
int response_check_budget(struct http_txn *txn);
void response_take_budget(struct http_txn *txn);
void response_release_budget(struct http_txn *txn);
/*
 * Counts the memory of JSON that waits for a pool thread that writes it, up to http.max_answers
 * and shares of it, apart from the answers. The caller releases the charge. Returns 0; or 429 or
 * 503 if a read-only request has no room.
 */
int response_take_json(struct http_txn *txn, size_t bytes, struct quota_charge *charge);

/*
 * http_txn_late.c. Called when the deadline of a request passes while a pool thread still works for
 * it: answers 503 and gives up the connection. Returns false if that is not possible, so that the
 * answer has to wait. Runs on the fiber.
 */
bool http_txn_leave(struct core_request *rq);
/*
 * Returns the transaction that owns the connection: the successor, or `txn` itself if it has not
 * given up the connection. NULL for NULL.
 */
struct http_txn *http_txn_owner(struct http_txn *txn);
/* The fiber of a late transaction has ended. */
void http_txn_over(struct http_txn *txn);

/* response.c */
enum MHD_Result response_send(struct http_txn *txn);
void response_log(const struct http_txn *txn, enum MHD_RequestTerminationCode why);

/* slow.c */
void slow_log(const struct http_txn *txn, int64_t whole_us);

#endif
