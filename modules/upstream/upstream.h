/*
 * upstream: HTTP requests of other modules to other servers (<busbar/upstream.h>). A handler
 * creates a call, passes it to the worker and parks its fiber. The worker is a thread with an HTTP
 * client (http_client.h), which sends the calls and signals their completion. The worker of a
 * superseded generation runs until the last request of that generation has ended.
 */
#ifndef UPSTREAM_UPSTREAM_H
#define UPSTREAM_UPSTREAM_H

#include <pthread.h>
#include <stdatomic.h>

#include <busbar/busbar.h>

#include "modules/common/http_client.h"
#include "modules/common/slots.h"

#define UPSTREAM_WORKER "worker"

/* The outcomes of calls: they follow enum http_outcome, in the order of the metric's label. */
enum {
    UPSTREAM_BUSY = HTTP_OUTCOMES, /* not sent: too many calls in progress */
    UPSTREAM_PAUSED,               /* not sent: the host is paused */
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
    struct target_rules targets;
    struct http_client *client; /* used by the worker only */
    struct slots *slots;
    pthread_mutex_t lock;
    struct call *incoming, **last; /* guarded by the lock: calls handed over, in order */
    /* guarded by the lock: the worker accepts calls; false in a command */
    bool open;
    atomic_size_t under_way;
    atomic_size_t bytes; /* used or reserved by all calls in progress */
};

/* The function of the service. */
const struct bb_upstream_response *upstream_send(void *state, struct bb_request *rq,
                                                 const struct bb_upstream_request *request);

/* Runs on the worker's thread. */
void upstream_work(struct bb_worker_context *context);

#endif
