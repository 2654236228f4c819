#include "core/server/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lib/address.h"
#include "core/lib/listener.h"
#include "core/lib/log.h"
#include "core/module/engine.h"
#include "core/server/loop_stats.h"

enum {
    ACCEPT_MAX = 64, /* connections accepted per iteration */
    SWEEP_MS = 500,
    POOL_BYTES = 8 * 1024, /* memory per connection: request line, headers, small answers */
    REFUSE_MS = 200,
    DROPS_MS = 500,
    RUNS_MAX = 32,
    IDLE_RUNS_MAX = 32, /* runs without progress that libmicrohttpd may request, */
    IDLE_RUNS_WRITING_MAX =
        1024, /* or while large answers are sent, whose progress the host does not see */
    REST_MS = 2
};

/* libmicrohttpd 1.0 stores the result in the connection; the next call overwrites it. */
static int descriptor_of(struct MHD_Connection *mhd)
{
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static void connection_started(struct http *http, struct MHD_Connection *mhd, void **context)
{
    int fd = descriptor_of(mhd);
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct connection *connection = calloc(1, sizeof *connection);

    *context = connection;
    if (!connection) {
        http->rejected++;
        http_map_fd(http, fd, &http->nobody);
        shutdown(fd, SHUT_RDWR); /* its timeout would not be enforced */
        return;
    }
    connection->http = http;
    connection->fd = fd;
    reader_init(&connection->reader, &http->buffers);
    http_map_fd(http, connection->fd, connection); /* cannot fail: accept_one() reserved the room */
    if (peer && peer->client_addr)
        memcpy(&connection->peer, peer->client_addr,
               peer->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                        : sizeof(struct sockaddr_in));
    address_client(NULL, (struct sockaddr *)&connection->peer, NULL, connection->address);
    connection->next = http->connections;
    if (connection->next)
        connection->next->before = connection;
    http->connections = connection;
    http->connection_count++;
    connection_stage(connection, STAGE_HEADER, 0);
    if (!connection_limit_take(connection)) {
        http->rejected++;
        connection_cut(connection);
    }
}

/*
 * Data that is already in the reader causes no edge in libmicrohttpd's epoll set, so libmicrohttpd
 * is made to read once more after its run.
 */
static void make_read(struct connection *connection, struct MHD_Connection *mhd)
{
    struct http *http = connection->http;

    if (connection->waits)
        return;
    connection->waits = mhd;
    connection->next_waiting = http->waiting;
    http->waiting = connection;
}

void connection_answered(struct connection *connection, struct MHD_Connection *mhd)
{
    bool waits = reader_waits(&connection->reader);

    reader_next(&connection->reader);
    http_epoll_again(connection);
    if (waits)
        make_read(connection, mhd);
}

void connection_drops_body(struct connection *connection, struct MHD_Connection *mhd, int status)
{
    if (connection->drops)
        return;
    connection->drops = mhd;
    connection->drops_status = status;
    connection->drops_ms = connection->http->loop->now_ms + DROPS_MS;
}

void connection_stop_body(struct connection *connection, struct MHD_Connection *mhd, int status)
{
    connection->drops = NULL;
    if (!reader_stop(&connection->reader, status, NULL))
        return;
    make_read(connection, mhd);
    connection->http->again = true;
}

/* Between requests, or in a body that the reader has ended. */
static bool may_read(const struct connection *connection)
{
    return connection->stage == STAGE_IDLE ||
           (connection->stage == STAGE_BODY && reader_gives(&connection->reader));
}

/* Resuming a connection makes libmicrohttpd read from it. */
static void read_again(struct http *http)
{
    while (http->waiting) {
        struct connection *connection = http->waiting;
        struct MHD_Connection *mhd = connection->waits;

        http->waiting = connection->next_waiting;
        connection->waits = NULL;
        if (!may_read(connection))
            continue;
        MHD_suspend_connection(mhd);
        MHD_resume_connection(mhd);
        http->again = true;
    }
}

static void wait_no_more(struct http *http, const struct connection *connection)
{
    struct connection **at = &http->waiting;

    if (!connection->waits)
        return;
    while (*at != connection)
        at = &(*at)->next_waiting;
    *at = connection->next_waiting;
}

/*
 * Closing a socket with unread data resets the connection, and the client may lose a part of the
 * answer.
 */
static bool has_unread(int fd)
{
    int bytes = 0;

    return !ioctl(fd, FIONREAD, &bytes) && bytes > 0;
}

static void connection_closed(struct http *http, struct MHD_Connection *mhd,
                              struct connection *connection)
{
    if (!connection) { /* out of memory in connection_started() */
        http_map_fd(http, descriptor_of(mhd), NULL);
        return;
    }
    if (connection->next)
        connection->next->before = connection->before;
    if (connection->before)
        connection->before->next = connection->next;
    else
        http->connections = connection->next;
    http->connection_count--;
    http->writing -= connection->stage == STAGE_WRITE;
    connection_limit_release(connection);
    http_epoll_forget(connection);
    if (!connection->cut &&
        (connection->lingers || reader_unread(&connection->reader) || has_unread(connection->fd)))
        linger(&http->lingers, http->loop, connection->fd);
    http_map_fd(http, connection->fd, NULL);
    wait_no_more(http, connection);
    reader_free(&connection->reader);
    free(connection);
}

static void mhd_notify_connection(void *cls, struct MHD_Connection *mhd, void **context,
                                  enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_started(cls, mhd, context);
    else
        connection_closed(cls, mhd, *context);
}

static void watch_listeners(struct http *http, bool on)
{
    on = on && !http->draining;
    for (size_t i = 0; i < http->settings.listeners->count; i++) {
        struct accept *accept = &http->accepts[i];

        loop_watch(http->loop, &accept->watch, on ? accept->fd : -1,
                   on ? EPOLLIN | EPOLLEXCLUSIVE : 0);
    }
}

static void sweep_timeouts(struct timer *timer)
{
    struct http *http = BB_CONTAINER_OF(timer, struct http, sweep);
    int64_t now = http->loop->now_ms;

    connections_sweep(http);
    if (http->refusing) {
        http->refusing = false;
        watch_listeners(http, true);
    }
    loop_stats_publish(http->loop, http->connection_count, http->rejected);
    timer_set(&http->loop->timers, timer,
              timer_beat(now, http->connection_count ? SWEEP_MS : TIMER_IDLE_MS));
}

/* Out of descriptors or memory: waits a little instead of running in a busy loop. */
static void refuse_for_a_while(struct http *http)
{
    log_line(BB_WARN, "connections cannot be accepted", "reason", strerror(errno), NULL);
    http->refusing = true;
    watch_listeners(http, false);
    timer_set(&http->loop->timers, &http->sweep, http->loop->now_ms + REFUSE_MS);
}

static bool accept_one(struct http *http, int listener)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    int fd = accept4(listener, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            refuse_for_a_while(http);
        return errno == EINTR || errno == ECONNABORTED;
    }
    if (http_map_fd(http, fd, NULL)) {
        close(fd);
        http->rejected++;
        return true;
    }
    /* on failure libmicrohttpd has closed the descriptor, also if its own limits were reached */
    http_running(http);
    enum MHD_Result added =
        MHD_add_connection(http->daemon, fd, (struct sockaddr *)&address, length);

    http_running(NULL);
    if (added != MHD_YES) {
        http->rejected++;
        log_line(BB_DEBUG, "a connection was refused", NULL);
    }
    return true;
}

static void accept_ready(struct watch *watch, uint32_t events)
{
    const struct accept *accept = (struct accept *)(void *)watch;

    (void)events;
    for (int i = 0; i < ACCEPT_MAX && accept_one(accept->http, accept->fd); i++)
        ;
}

static void daemon_ready(struct watch *watch, uint32_t events)
{
    (void)watch; /* http_run() follows in this iteration */
    (void)events;
}

static void drop_log(void *cls, const char *format, va_list args)
{
    (void)cls;
    (void)format;
    (void)args;
}

static struct MHD_Daemon *daemon_start(struct http *http)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, http_txn_access, http, MHD_OPTION_EXTERNAL_LOGGER, drop_log, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, http_txn_uri, http, MHD_OPTION_NOTIFY_COMPLETED,
        http_txn_completed, http, MHD_OPTION_NOTIFY_CONNECTION, mhd_notify_connection, http,
        MHD_OPTION_CONNECTION_LIMIT,
        http->settings.max_connections + ACCEPT_MAX + CONNECTIONS_RESERVED,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(http->settings.idle_ms / 1000), MHD_OPTION_END);
}

struct http *http_new(struct loop *loop, const struct http_settings *settings)
{
    struct http *http = calloc(1, sizeof *http);

    if (!http)
        return NULL;
    http->loop = loop;
    http->settings = *settings;
    for (size_t i = 0; i < settings->listeners->count; i++)
        http->accepts[i] = (struct accept){.watch = {.fd = -1, .ready = accept_ready},
                                           .http = http,
                                           .fd = settings->listeners->fds[i]};
    http->daemon_watch = (struct watch){.fd = -1, .ready = daemon_ready};
    http->sweep.fire = sweep_timeouts;
    reader_init(&http->nobody.reader, &http->buffers);
    http->nobody.reader.state = READER_DONE;
    http->daemon = daemon_start(http);
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
    watch_listeners(http, true);
    sweep_timeouts(&http->sweep);
    return http;
}

void http_free(struct http *http)
{
    timer_clear(&http->loop->timers, &http->sweep);
    watch_listeners(http, false);
    loop_watch(http->loop, &http->daemon_watch, -1, 0);
    MHD_stop_daemon(http->daemon);
    lingers_free(&http->lingers);
    reader_pool_free(&http->buffers);
    free(http->by_fd);
    free(http);
}

void http_apply(struct http *http, const struct http_settings *settings)
{
    http->settings.header_ms = settings->header_ms;
    http->settings.body_ms = settings->body_ms;
    http->settings.write_ms = settings->write_ms;
}

/* Runs libmicrohttpd several times per iteration, because each run reads only 4 KiB of a body. */
void http_run(struct http *http)
{
    unsigned runs = 0;

    http_running(http);
    do {
        http->again = false;
        MHD_run(http->daemon);
        read_again(http);
    } while (http->again && ++runs < RUNS_MAX);
    http_running(NULL);
    http->idle_runs = http->progressed ? 0 : http->idle_runs + 1;
    http->progressed = false;
}

/*
 * If the memory of a connection is full of an endless line before a chunk, libmicrohttpd is run
 * again and again without effect until the body times out. Then the loop pauses; any event of
 * another connection ends the pause.
 */
static bool runs_idly(const struct http *http)
{
    return http->idle_runs > (http->writing ? IDLE_RUNS_WRITING_MAX : IDLE_RUNS_MAX);
}

int64_t http_timeout_ms(struct http *http)
{
    MHD_UNSIGNED_LONG_LONG ms;

    if (http->again)
        return 0;
    if (MHD_get_timeout(http->daemon, &ms) != MHD_YES)
        return -1;
    if (!ms && runs_idly(http))
        return REST_MS;
    return ms > INT32_MAX ? INT32_MAX : (int64_t)ms;
}

bool http_drain(struct http *http)
{
    if (!http->draining) {
        const struct listeners *all = http->settings.listeners;

        for (size_t k = 0; k < all->count; k++) {
            for (int i = 0; i < LISTENER_BACKLOG && accept_one(http, all->fds[k]); i++)
                ; /* connections in the backlog are served */
        }
        http->draining = true;
        watch_listeners(http, false);
        /* refuse new clients now, because the kernel would queue them and reset them at the end */
        for (size_t k = 0; k < all->count; k++)
            shutdown(all->fds[k], SHUT_RD);
        timer_set(&http->loop->timers, &http->sweep, http->loop->now_ms);
        http_run(http); /* libmicrohttpd 1.0 starts accepted connections in a run, and counts
                         * them only then */
    }
    return !http->connection_count;
}
