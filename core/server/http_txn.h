/* An HTTP transaction: one HTTP request and its response. */
/* clang-format off */
/*
 *  libmicrohttpd calls             and the host, in this order               runs on   phase
 *  -------------------             ---------------------------               -------   -----
 *  http_txn_access()               txn_new(): takes the head, and the        loop      HEADERS
 *  when it has read the head       generation, which stays loaded
 *                                  txn_check_access(): id, address, CORS,    loop
 *                                  route; for a public route also txn_enter():
 *                                  limits, type and size of the body
 *                                  for others txn_check_role(): token,       fiber     ADMISSION
 *                                  role, then txn_enter()
 *  http_txn_access()               body_take(): keeps a piece of the body,   loop      BODY
 *  with each piece of the body     or gives it to an upload
 *  http_txn_access()               txn_handle(): body_check() parses the     fiber     HANDLER
 *  at the end of the body          body; token again; Idempotency-Key;
 *                                  then the handler of the module
 *                                  txn_send()                                loop      ANSWER
 *  http_txn_completed()            txn_log(), http_txn_free()                loop
 *  when the response was sent, or
 *  the client has left
 *
 *  A fiber that parks suspends the connection. When the fiber has ended, the connection is resumed,
 *  and libmicrohttpd calls http_txn_access() again, which continues with the next phase. Each step
 *  may refuse the request: then the phase is ANSWER, and the rest of the body is discarded.
 */
/* clang-format on */
#ifndef CORE_HTTP_TXN_H
#define CORE_HTTP_TXN_H

#include "core/lib/field.h"
#include "core/module/request.h"
#include "core/module/route.h"
#include "core/server/connection.h"
#include "core/server/head.h"

enum http_txn_phase {
    PHASE_HEADERS,   /* until the first call of http_txn_access() has checked the head */
    PHASE_ADMISSION, /* a fiber checks the token, or delays a refusal */
    PHASE_BODY,
    PHASE_HANDLER,
    PHASE_ANSWER /* the response is ready to be sent */
};

enum {
    REQUEST_ID_MAX = 64,
    BODY_LARGE = 64 * 1024, /* bodies this large count against limits; a pool thread parses them */
    DRAIN_MAX = 32 * 1024 * 1024 /* bytes of an unwanted body to discard */
};

struct upload;

struct http_txn {
    struct core_request rq; /* first member */
    struct MHD_Connection *mhd;
    struct connection *connection; /* NULL: it has ended, and only the handler still runs */
    enum http_txn_phase phase;
    bool suspended;
    bool first_again; /* the first http_txn_access() suspended; libmicrohttpd repeats it */
    bool close;       /* the connection is closed after the response */
    bool drop_body;   /* the response is decided; the rest of the body is discarded */
    bool limited;     /* refused because of module_limits */
    bool delayed;     /* its refusal was delayed */
    struct head head;
    const char *target;       /* raw, with the query; "": malformed; NULL: memory ran out */
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
    struct account *entered;             /* the module's account that counts the request, or NULL */
    struct quota_charge request_charge;  /* 1 while the request counts as in progress */
    struct quota_charge anonymous;       /* 1 while the request counts as one without a token */
    struct quota_charge body_charge;     /* bytes in memory, including the buffers of an upload */
    struct quota_charge response_charge; /* bytes of the response in memory */
    size_t taken, dropped;               /* bytes read (multipart or ignored body), and discarded */
    /* BODY_OTHER: no body, or one of a type that the host does not read. BODY_PARTS: a multipart
     * body; `bytes` contains only its part with the fields. */
    enum body_kind { BODY_OTHER, BODY_JSON, BODY_FORM, BODY_PARTS } kind;
    bool chunked;          /* the type of the chunked body is checked when its first bytes arrive */
    struct upload *upload; /* state of a multipart body; NULL until its first bytes arrive */
    int64_t started_us, phase_us, answered_us; /* monotonic; phase_us: start of the phase */
    int64_t token_checked_us;                  /* when the token was last checked */
    void *audit_record; /* see struct bb_auditor; NULL: none, or its outcome is recorded already */
    struct bb_stream *stream; /* the response if it is a stream, otherwise NULL */
    struct response *answer;  /* the response that the client gets: &rq.response or &late */
    struct response late;     /* response at the deadline, while the handler still runs */
};

static inline struct http_txn *http_txn_of(struct bb_request *rq)
{
    return (struct http_txn *)(void *)rq;
}

/* Callbacks of libmicrohttpd; cls is the struct http. */
enum MHD_Result http_txn_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **context);
void http_txn_completed(void *cls, struct MHD_Connection *mhd, void **context,
                        enum MHD_RequestTerminationCode why);

void http_txn_free(struct http_txn *txn);

/*
 * Returns the values of all headers with this name, joined by commas, because a list may be sent in
 * several lines (RFC 9110, 5.3). NULL if absent. If memory runs out, returns "-", so that the
 * header does not seem absent; "-" is not a valid address.
 */
const char *http_txn_list(const struct http_txn *txn, const char *name);

/* Returns the bearer token of the Authorization header; NULL if there is none. */
const char *http_txn_token(const struct http_txn *txn);

/*
 * Charges `bytes` for JSON that a pool thread will serialize. Such JSON counts separately from
 * responses, with the same limits. Returns 0; if a GET or HEAD request has no room, answers with
 * 429 or 503 and returns the status. The caller releases the charge.
 */
int http_txn_take_json(struct http_txn *txn, size_t bytes, struct quota_charge *charge);

/* Releases the request's charges, because it has ended, or its response is a stream. */
void http_txn_uncount(struct http_txn *txn);

/* Returns whether the client was answered at the deadline; the handler's response is discarded. */
static inline bool http_txn_is_late(const struct http_txn *txn)
{
    return txn->answer == &txn->late;
}

#endif
