/*
 * The tables and the state of the upstream module. Rows are hand-formatted, because clang-format
 * would spread them over six lines.
 */
#include "modules/upstream/upstream.h"

#include <unistd.h>

// clang-format off

static const struct bb_field settings[] = {
    {.name = "timeout", .type = BB_INT, .flags = BB_MILLISECONDS, .min = 1, .max = 300000,
     .bind = BB_BIND(struct upstream_settings, timeout),
     .fallback = "10000",
     .help = "Timeout in milliseconds until the response is complete, unless the module sets "
             "another time. It is never longer than the deadline of the request for which the "
             "module calls the server."},
    {.name = "response_max", .type = BB_INT, .min = 1, .max = 65536, .fallback = "1024",
     .bind = BB_BIND(struct upstream_settings, response_max),
     .help = "Maximum size of a response body in KiB, unless the module sets another size."},
    {.name = "calls", .type = BB_INT, .min = 1, .max = 4096, .fallback = "256",
     .bind = BB_BIND(struct upstream_settings, calls),
     .help = "Maximum number of requests to other servers in progress on each host. Requests of a "
             "previous configuration do not count after a reload."},
    {.name = "calls_per_account", .type = BB_INT, .min = 1, .max = 4096, .fallback = "64",
     .bind = BB_BIND(struct upstream_settings, calls_per_account),
     .help = "Maximum number of requests to other servers in progress for an account. All public "
             "routes, jobs and hooks together count as one account."},
    {.name = "memory", .type = BB_INT, .min = 1, .max = 65536, .fallback = "256",
     .bind = BB_BIND(struct upstream_settings, memory),
     .help = "Maximum number of MiB for the bodies of requests in progress, their responses of "
             "maximum size, and the responses that modules still use. Further requests are "
             "refused."},
    {.name = "connections", .type = BB_INT, .min = 1, .max = 4096, .fallback = "64",
     .bind = BB_BIND(struct upstream_settings, connections),
     .help = "Maximum number of idle connections on each host."},
    {.name = "connection_idle", .type = BB_INT, .flags = BB_SECONDS, .min = 1, .max = 3600,
     .bind = BB_BIND(struct upstream_settings, connection_idle),
     .fallback = "60", .help = "Seconds after which an idle connection is no longer used. It is "
                               "closed when the next request looks for a connection, or when no "
                               "request has been in progress for this time."},
    {.name = "http2", .type = BB_BOOL, .fallback = "false",
     .bind = BB_BIND(struct upstream_settings, http2),
     .help = "Whether to use HTTP/2 if a server offers it over TLS. libcurl 7.88 (in Debian 12) "
             "resets a stream after each response without Content-Length, and servers that limit "
             "resets then close the connection with all its requests in progress."},
    {.name = "authorities", .type = BB_TEXT, .max = 1024, .fallback = "",
     .bind = BB_BIND(struct upstream_settings, authorities),
     .help = "File with the certificates (PEM) of the authorities that the host trusts. Empty: the "
             "authorities that the system trusts."},
    TARGET_SETTINGS(struct upstream_settings, "requests"),
};

static const struct bb_upstream interface = {.size = sizeof(interface), .send = upstream_send};

static const struct bb_service_descriptor services[] = {{BB_UPSTREAM, 1, &interface}};

static const struct bb_worker workers[] = {{.name = UPSTREAM_WORKER, .run = upstream_work}};

static const char *const outcomes[UPSTREAM_OUTCOMES + 1] = {
    "answered", "refused", "unreachable", "broken", "late", "busy", "paused", NULL};

static double upstream_under_way(void *state, size_t value)
{
    (void)value;
    return (double)atomic_load(&((struct upstream *)state)->under_way);
}

static const struct bb_metric metrics[] = {
    {.name = "calls_total", .kind = BB_COUNTER, .label = "outcome", .values = outcomes,
     .help = "Requests of modules to other servers. The outcome is `answered` after a complete "
             "response with any status; `refused`, `busy`, `paused` or `unreachable` if the "
             "request was not sent; `broken` or `late` without a complete response."},
    {.name = "calls", .kind = BB_GAUGE, .read = upstream_under_way,
     .help = "Requests of modules to other servers in progress."},
};

// clang-format on

static void upstream_close(struct bb_host *host, void *state)
{
    struct upstream *upstream = state;

    (void)host;
    http_client_free(upstream->client);
    target_rules_free(&upstream->targets);
    slots_free(upstream->slots);
    pthread_mutex_destroy(&upstream->lock);
}

static int upstream_open(struct bb_host *host, void **state)
{
    const struct upstream_settings *own = bb_settings(host);
    struct upstream *upstream = bb_host_alloc(host, sizeof(*upstream));
    char why[256];

    if (!upstream)
        return bb_open_fail(host, "out of memory");
    upstream->host = host;
    upstream->settings = own;
    upstream->last = &upstream->incoming;
    if (*own->authorities && access(own->authorities, R_OK))
        return bb_open_fail(host, "authorities: %s cannot be read", own->authorities);
    if (target_rules_read(&upstream->targets, own->allow_networks, own->allow_ports,
                          own->open_networks, why, sizeof(why)))
        return bb_open_fail(host, "%s", why);
    upstream->client =
        http_client_new(&(struct http_client_options){.rules = &upstream->targets,
                                                      .authorities = own->authorities,
                                                      .idle_s = own->connection_idle,
                                                      .connections = (size_t)own->connections,
                                                      .http2 = own->http2});
    upstream->slots = slots_new(host, own->calls, own->calls_per_account, "calls");
    if (!upstream->client || !upstream->slots || pthread_mutex_init(&upstream->lock, NULL)) {
        http_client_free(upstream->client);
        target_rules_free(&upstream->targets);
        slots_free(upstream->slots);
        return bb_open_fail(host, "out of memory");
    }
    *state = upstream;
    return 0;
}

/* Runs before the first request. A command has no worker, so this does not run there. */
static void upstream_start(struct bb_host *host, void *state)
{
    struct upstream *upstream = state;

    (void)host;
    pthread_mutex_lock(&upstream->lock);
    upstream->open = true;
    pthread_mutex_unlock(&upstream->lock);
}

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("upstream", "1.0.0"),
    .help = "HTTP requests of other modules to other servers.",
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct upstream_settings),
    .services = BB_TABLE(services),
    .workers = BB_TABLE(workers),
    .metrics = BB_TABLE(metrics),
    .open = upstream_open,
    .start = upstream_start,
    .close = upstream_close,
};
