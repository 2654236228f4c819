/*
 * upstream: HTTP requests of other modules to other servers (<busbar/upstream.h>). A handler
 * creates a call, hands it to the worker and parks its fiber. The worker is a thread that sends the
 * calls with libcurl's multi interface and signals their completion. The worker of a superseded
 * generation runs until the last request of that generation has ended.
 */
#ifndef UPSTREAM_UPSTREAM_H
#define UPSTREAM_UPSTREAM_H

#include <pthread.h>
#include <stdatomic.h>

#include <busbar/busbar.h>

#include "modules/common/slots.h"
#include "modules/common/target.h"

#define UPSTREAM_WORKER "worker"

/* The outcomes of calls, in the order of the metric's label. */
enum upstream_outcome {
    UPSTREAM_ANSWERED,
    UPSTREAM_REFUSED,     /* not sent: not allowed, or invalid */
    UPSTREAM_BUSY,        /* not sent: too many calls in progress */
    UPSTREAM_PAUSED,      /* not sent: the host is paused */
    UPSTREAM_UNREACHABLE, /* not sent: no connection */
    UPSTREAM_BROKEN,      /* sent, but no complete response received */
    UPSTREAM_LATE,        /* no response in time */
    UPSTREAM_OUTCOMES
};

/* The settings, in the units of the table in module.c. */
struct upstream_settings {
    int64_t timeout, response_max, calls, calls_per_account, memory, connections, connection_idle;
    bool http2;
    const char *authorities; /* a file of certificates; "": the system's */
    json_t *allow_networks, *allow_ports, *open_networks;
};

/* The state of one generation. */
struct upstream {
    struct bb_host *host;
    const struct upstream_settings *settings;
    bool authorities_in_a_file; /* authorities come from a file; no directory is read */
    struct target_rules targets;
    struct slots *slots;
    pthread_mutex_t lock;
    struct call *incoming; /* guarded by the lock; the newest first */
    bool open;             /* guarded by the lock: the worker accepts calls; false in a command */
    atomic_size_t under_way;
    atomic_size_t bytes; /* used or reserved by all calls in progress */
};

/* call.c: the function of the service. */
const struct bb_upstream_response *upstream_send(void *state, struct bb_request *rq,
                                                 const struct bb_upstream_request *request);

/* worker.c: the thread. */
void upstream_work(struct bb_worker_context *context);

/* Counts the outcome of a call. Any thread. */
void upstream_count(const struct upstream *upstream, enum upstream_outcome outcome);

enum {
    CALL_TIMEOUT_MAX_MS = 24 * 3600 * 1000, /* longer than any deadline */
    CALL_HEADERS_MAX = 64,                  /* of a request */
    CALL_HEADER_BYTES_MAX = 32768,   /* all headers of a request, or of a response, together */
    CALL_BODY_MAX = 16 * 1024 * 1024 /* bytes of a request's body */
};

/*
 * One request in progress. The caller and the worker each hold a reference; the last one frees it.
 * The caller writes it before handing it over and reads it after the completion was signaled; in
 * between it belongs to the worker.
 */
struct call {
    struct call *next; /* in the list of calls handed over, later of calls in flight */
    struct upstream *upstream;
    struct bb_completion *completion;
    atomic_uint holders;
    atomic_bool left;      /* the caller does not wait any more */
    bool handed, answered; /* to the worker; by the worker, as seen by the caller */
    int64_t account;       /* account that holds the slot */
    size_t bytes_held; /* counted against upstream.memory: body and maximum response; at last only
                          the response */

    /* The request, copied. */
    char *method, *url;
    struct curl_slist *headers;
    char *body; /* NULL: none */
    size_t length;
    int64_t timeout_ms;
    size_t response_max;

    /* Used by the worker only. */
    CURL *easy;
    struct target_socket socket;
    int64_t late_at_ms; /* when libcurl should have ended it long before */
    int sendings;       /* times that libcurl began to send the request */
    bool too_large;     /* the response is too large */
    bool head_ended;    /* the empty line after the last header was received */

    /* The response. */
    struct bb_upstream_response response;
    struct bb_upstream_header *lines; /* its headers, followed by their texts */
    char *bytes;                      /* its body */
    size_t room, header_bytes;
};

/* Drops a reference; the last one frees the call. Any thread. */
void call_release(struct call *call);

/*
 * Gives back the call's slot. The response's bytes stay counted until the call is freed. Any
 * thread.
 */
void upstream_leave_place(struct upstream *upstream, struct call *call);

/* Sets an error instead of a response; `error` is a constant, or lives as long as the call. */
void call_fail(struct call *call, int failed, const char *error);

/* transfer.c, on the worker's thread: starts a call in libcurl. Returns false if out of memory. */
bool transfer_begin(struct call *call, CURLM *multi, struct target_guard *guard);

/* Ends a call with libcurl's result, and frees its handle. */
enum upstream_outcome transfer_end(struct call *call, CURLM *multi, CURLcode code);

/* Check the name and the value of a header by RFC 9110. A name is a token. */
bool header_is_name(const char *text);
/* A value has no line ends and no control characters except tabs. */
bool header_is_value(const char *text);

#endif
