#include "core/server/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "core/lib/log.h"
#include "core/server/http_txn.h"
#include "core/store/pg.h"

enum {
    ACCEPT_MAX = 64, /* connections accepted per iteration */
    SWEEP_MS = 500,
    POOL_BYTES = 8 * 1024, /* memory per connection: request line, headers, small responses */
    REFUSE_MS = 200,
    RUNS_MAX = 32
};

struct http_settings http_settings_of(const struct generation *g, const struct listeners *listeners)
{
    const struct host_settings *host = host_settings(g->settings);
    int64_t own = host->http.connections_per_address;
    size_t all = (size_t)host->http.max_connections;

    return (struct http_settings){
        .listeners = listeners,
        .max_connections = (unsigned)all,
        .per_address =
            own ? (unsigned)own : (unsigned)quota_part((size_t)host->http.client_percent, all),
        .header_ms = host->http.header_timeout * 1000,
        .body_ms = host->http.body_timeout * 1000,
        .idle_ms = host->http.idle_timeout * 1000,
        .write_ms = host->http.write_timeout * 1000,
    };
}

static void http_watch_listeners(struct http *http, bool on)
{
    on = on && !http->draining;
    for (size_t i = 0; i < http->settings.listeners->count; i++) {
        struct accept *accept = &http->accepts[i];

        loop_watch(http->loop, &accept->watch, on ? accept->fd : -1,
                   on ? EPOLLIN | EPOLLEXCLUSIVE : 0);
    }
}

static void http_accept_ready(struct watch *watch, uint32_t events)
{
    const struct accept *accept = (struct accept *)(void *)watch;

    (void)events;
    for (int i = 0; i < ACCEPT_MAX && connection_accept(accept->http, accept->fd); i++)
        ;
}

/* Stops watching the listeners for a while, which would report events all the time. */
void http_refuse_for_a_while(struct http *http)
{
    log_line(BB_WARN, "connections cannot be accepted", "reason", strerror(errno), NULL);
    http->refusing = true;
    http_watch_listeners(http, false);
    timer_set(&http->loop->timers, &http->sweep, http->loop->now_ms + REFUSE_MS);
}

static void http_sweep(struct timer *timer)
{
    struct http *http = BB_CONTAINER_OF(timer, struct http, sweep);
    struct loop *loop = http->loop;
    struct loop_stats *stats = &loop->stats; /* for metrics and status */

    connections_sweep(http);
    if (http->refusing) {
        http->refusing = false;
        http_watch_listeners(http, true);
    }
    atomic_store_explicit(&stats->requests, loop->requests, memory_order_relaxed);
    atomic_store_explicit(&stats->connections, http->connection_count, memory_order_relaxed);
    atomic_store_explicit(&stats->rejected, http->rejected, memory_order_relaxed);
    if (loop->pg)
        pg_publish(loop->pg);
    timer_set(&loop->timers, timer,
              timer_beat(loop->now_ms, http->connection_count ? SWEEP_MS : TIMER_IDLE_MS));
}

static void http_daemon_ready(struct watch *watch, uint32_t events)
{
    (void)watch; /* http_run() follows in this iteration */
    (void)events;
}

static void http_drop_log(void *cls, const char *format, va_list args)
{
    (void)cls;
    (void)format;
    (void)args;
}

struct http *http_new(struct loop *loop, const struct http_settings *settings)
{
    struct http *http = calloc(1, sizeof *http);

    if (!http)
        return NULL;
    http->loop = loop;
    http->settings = *settings;
    for (size_t i = 0; i < settings->listeners->count; i++)
        http->accepts[i] = (struct accept){.watch = {.fd = -1, .ready = http_accept_ready},
                                           .http = http,
                                           .fd = settings->listeners->fds[i]};
    http->daemon_watch = (struct watch){.fd = -1, .ready = http_daemon_ready};
    http->sweep.fire = http_sweep;
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, http_txn_access, http, MHD_OPTION_EXTERNAL_LOGGER, http_drop_log, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, http_txn_completed, http, MHD_OPTION_NOTIFY_CONNECTION,
        connection_notify, http, MHD_OPTION_CONNECTION_LIMIT,
        settings->max_connections + ACCEPT_MAX + CONNECTIONS_RESERVED,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(settings->idle_ms / 1000), MHD_OPTION_END);
    if (!http->daemon) {
        log_line(BB_ERROR, "libmicrohttpd cannot start", NULL);
        free(http);
        return NULL;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || loop_watch(loop, &http->daemon_watch, info->epoll_fd, EPOLLIN)) {
        http_free(http);
        return NULL;
    }
    http_watch_listeners(http, true);
    http_sweep(&http->sweep);
    return http;
}

void http_free(struct http *http)
{
    timer_clear(&http->loop->timers, &http->sweep);
    http_watch_listeners(http, false);
    loop_watch(http->loop, &http->daemon_watch, -1, 0);
    MHD_stop_daemon(http->daemon);
    while (!LIST_EMPTY(&http->connections)) /* libmicrohttpd 1.0 has not started these yet */
        connection_free(LIST_FIRST(&http->connections));
    connections_stop_lingering(http);
    free(http->by_fd);
    free(http);
}

/* Runs libmicrohttpd several times per iteration, because each run reads only 4 KiB of a body. */
void http_run(void *of)
{
    struct http *http = of;
    unsigned runs = 0;

    connections_run(http);
    do {
        http->again = false;
        MHD_run(http->daemon);
    } while (http->again && ++runs < RUNS_MAX);
    connections_run(NULL);
}

int64_t http_timeout_ms(void *of)
{
    const struct http *http = of;
    MHD_UNSIGNED_LONG_LONG ms;

    if (http->again)
        return 0;
    if (MHD_get_timeout(http->daemon, &ms) != MHD_YES)
        return -1;
    return ms > INT32_MAX ? INT32_MAX : (int64_t)ms;
}

bool http_drain(struct http *http)
{
    if (!http->draining) {
        const struct listeners *all = http->settings.listeners;

        for (size_t k = 0; k < all->count; k++) {
            for (int i = 0; i < LISTENER_BACKLOG && connection_accept(http, all->fds[k]); i++)
                ; /* accepts the connections in the backlog */
        }
        http->draining = true;
        http_watch_listeners(http, false);
        /* refuses new clients now, because the kernel would queue them and reset them at the end */
        for (size_t k = 0; k < all->count; k++)
            shutdown(all->fds[k], SHUT_RD);
        timer_set(&http->loop->timers, &http->sweep, http->loop->now_ms);
    }
    return !http->connection_count;
}
