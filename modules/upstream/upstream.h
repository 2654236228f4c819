/*
 * upstream: HTTP requests of other modules to other servers (<busbar/upstream.h>). A handler makes
 * a call, hands it to the worker and parks; the worker, a thread, sends what it was handed by
 * libcurl's multi interface and signals. The worker of a superseded generation serves that
 * generation's requests until the last of them has ended.
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

/* What becomes of calls, in the order of the metric's label. */
enum upstream_outcome {
    UPSTREAM_ANSWERED,
    UPSTREAM_REFUSED,     /* never sent: it is not allowed, or no request */
    UPSTREAM_BUSY,        /* never sent: too many are under way */
    UPSTREAM_PAUSED,      /* never sent: the host is paused */
    UPSTREAM_UNREACHABLE, /* never sent: no connection */
    UPSTREAM_BROKEN,      /* sent, and no whole response came */
    UPSTREAM_LATE,        /* not answered in time */
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
    bool authorities_in_a_file; /* its own, or the system's: no directory is read */
    struct target_rules targets;
    struct slots *slots;
    pthread_mutex_t lock;
    struct call *incoming; /* guarded by the lock, the newest first */
    bool open;             /* guarded by the lock: the worker takes calls; not in a command */
    atomic_size_t under_way;
    atomic_size_t bytes; /* that calls under way have, or may get, together */
};

/* The function of the service (service.c). */
const struct bb_upstream_response *upstream_send(void *state, struct bb_request *rq,
                                                 const struct bb_upstream_request *request);

/* The thread (worker.c). */
void upstream_work(struct bb_worker_context *context);

/* Counts what became of a call. Any thread. */
void upstream_count(const struct upstream *upstream, enum upstream_outcome outcome);

#endif
