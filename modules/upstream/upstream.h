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

struct call;

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

/* service.c: the function of the service. */
const struct bb_upstream_response *upstream_send(void *state, struct bb_request *rq,
                                                 const struct bb_upstream_request *request);

/* worker.c: the thread. */
void upstream_work(struct bb_worker_context *context);

/* Counts the outcome of a call. Any thread. */
void upstream_count(const struct upstream *upstream, enum upstream_outcome outcome);

#endif
