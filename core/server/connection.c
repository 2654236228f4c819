#include "core/server/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/module/engine.h"
#include "core/server/http_txn.h"
#include "core/server/stream.h"
#include "core/store/pg.h"

enum {
    ACCEPT_MAX = 64, /* connections accepted per iteration */
    SWEEP_MS = 500,
    POOL_BYTES = 8 * 1024, /* libmicrohttpd's memory per connection, for heads and body pieces */
    REFUSE_MS = 200,
    RUNS_MAX = 32,
    BYTES_PER_MS = 16, /* each 16 bytes of a response or upload extend its timeout by 1 ms */
    STOP_MS = 1000,    /* at a shutdown, time for a request to arrive on an open connection */
    DROPS_MS = 500,
    LOOK_AGAIN_MS = 5, /* minimum time between two searches of connection_make_room() */
    KNOWN_MS = 100,    /* time for which connection_make_room() uses the result of a search */
    FEW = 16,          /* an address with up to this many connections has few */
    KEPT_PART = 64,    /* 1/64 of all places is reserved for addresses with few */
    LINGER_MOST = 64,  /* maximum of lingering sockets per loop; others are closed immediately */
    LINGER_MS = 2000,
    LINGER_PIECE = 16 * 1024,
    LINGER_PIECES = 8 /* pieces read per iteration */
};

/* ---- recv() of libmicrohttpd ---- */

/* In C these functions have other names, because the system's headers declare the real ones. */
ssize_t connection_recv(int fd, void *into, size_t size, int flags) __asm__("recv");
int connection_epoll_ctl(int epoll, int how, int fd,
                         struct epoll_event *event) __asm__("epoll_ctl");
int connection_epoll_wait(int epoll, struct epoll_event *events, int most,
                          int timeout) __asm__("epoll_wait");

static _Thread_local struct http *running;

void connections_run(struct http *http)
{
    running = http;
}

int connection_map(struct http *http, int fd, struct connection *connection)
{
    size_t at = (size_t)fd, room = http->room ? http->room : 256;

    if (fd < 0)
        return -1;
    while (room <= at)
        room *= 2;
    if (room > http->room) {
        struct connection **by_fd = realloc(http->by_fd, room * sizeof(struct connection *));

        if (!by_fd)
            return -1;
        for (size_t i = http->room; i < room; i++)
            by_fd[i] = NULL;
        http->by_fd = by_fd;
        http->room = room;
    }
    http->by_fd[at] = connection;
    return 0;
}

/* Returns the connection of a socket of the loop that this thread runs; NULL if there is none. */
static struct connection *connection_known(int fd)
{
    return running && fd >= 0 && (size_t)fd < running->room ? running->by_fd[fd] : NULL;
}

static int connection_ask_kernel(int epoll, int how, int fd, struct epoll_event *event)
{
    return (int)syscall(SYS_epoll_ctl, epoll, how, fd, event);
}

/* Marks a descriptor in epoll's data: pointers, which libmicrohttpd stores there, lack this bit. */
#define OURS (UINT64_C(1) << 63)

/* Adds a connection to the kernel's set, or makes the kernel report its current events again. */
static int connection_ask_events(struct connection *connection, int how)
{
    /* EPOLLRDHUP is for connection->has_ended */
    struct epoll_event ours = {.events = connection->set_events | EPOLLRDHUP,
                               .data.u64 = OURS | (unsigned)connection->fd};

    return connection_ask_kernel(connection->http->daemon_watch.fd, how, connection->fd, &ours);
}

/*
 * Makes libmicrohttpd read once more. libmicrohttpd reads only after an event, but the kernel
 * reports no event for data that is already in the reader, and no second event for the end of the
 * client's data. If the connection is not in the set, adding it causes the event.
 */
static void connection_read_again(struct connection *connection)
{
    if (connection->in_set == SET_IN)
        connection_ask_events(connection, EPOLL_CTL_MOD);
    connection->http->again = true;
}

ssize_t connection_recv(int fd, void *into, size_t size, int flags)
{
    struct connection *connection = flags ? NULL : connection_known(fd);

    if (!connection)
        return recvfrom(fd, into, size, flags, NULL, NULL);
    ssize_t got = reader_recv(&connection->reader, fd, into, size);

    if (got > 0 && connection->has_ended)
        connection_read_again(connection);
    if (connection->stage == STAGE_IDLE && connection->reader.began)
        connection_stage(connection, STAGE_HEADER, 0);
    return got;
}

/* ---- epoll_ctl() and epoll_wait() of libmicrohttpd: see enum connection_set ---- */

void connection_forget(struct connection *connection)
{
    if (connection->in_set == SET_KEPT)
        connection_ask_kernel(connection->http->daemon_watch.fd, EPOLL_CTL_DEL, connection->fd,
                              NULL);
    connection->in_set = SET_OUT;
}

int connection_epoll_ctl(int epoll, int how, int fd, struct epoll_event *event)
{
    struct connection *connection = connection_known(fd);

    if (!connection || epoll != running->daemon_watch.fd)
        return connection_ask_kernel(epoll, how, fd, event);
    if (how == EPOLL_CTL_ADD) {
        enum connection_set was = connection->in_set;

        connection->set_data = event->data.ptr;
        connection->set_events = event->events;
        if (was == SET_OUT && connection_ask_events(connection, EPOLL_CTL_ADD))
            return -1;
        connection->in_set = SET_IN;
        if (was == SET_KEPT && (connection->has_ended || reader_waits(&connection->reader)))
            connection_read_again(connection);
        return 0;
    }
    if (how != EPOLL_CTL_DEL || connection->in_set == SET_OUT)
        return connection_ask_kernel(epoll, how, fd, event);
    connection->in_set = SET_KEPT;
    return 0;
}

/* Converts an event for libmicrohttpd; returns false if the event must be withheld. */
static bool connection_translate(struct epoll_event *event)
{
    struct connection *connection = connection_known((int)(event->data.u64 & ~OURS));

    if (!connection || connection->in_set != SET_IN) {
        if (connection)
            connection_forget(connection);
        return false;
    }
    const struct reader *reader = &connection->reader;

    connection->has_ended = event->events & EPOLLRDHUP;
    event->events &= ~(uint32_t)EPOLLRDHUP; /* libmicrohttpd did not request it */
    if (reader_gives(reader) || reader->start < reader->end)
        event->events |= EPOLLIN; /* the reader has input that the kernel no longer has */
    event->data.ptr = connection->set_data;
    return true;
}

int connection_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    int count = epoll_pwait(epoll, events, most, timeout, NULL), left = 0;

    if (!running || running->daemon_watch.fd != epoll || count < 0)
        return count;
    for (int i = 0; i < count; i++) {
        if (!(events[i].data.u64 & OURS) || connection_translate(&events[i]))
            events[left++] = events[i];
    }
    return left;
}

/* ---- limits: in total, and for each address ---- */

/* Returns whether the connection waits for a complete head, so that closing it loses no work. */
static bool connection_is_idle(const struct connection *connection)
{
    return connection->counted.bytes && !connection->cut && connection->stage <= STAGE_HEADER;
}

static int64_t connection_idle_since(const struct connection *connection)
{
    const struct http_settings *settings = &connection->http->settings;

    return connection->limit_ms -
           (connection->stage == STAGE_IDLE ? settings->idle_ms : settings->header_ms);
}

/* Closes the oldest idle connection of this owner; false if there is none. */
static bool connection_end_oldest(struct http *http, const struct quota_owner *owner)
{
    struct connection *oldest = NULL;

    for (struct connection *at = LIST_FIRST(&http->connections); at; at = LIST_NEXT(at, link)) {
        if (connection_is_idle(at) && quota_owner_same(&at->counted.owner, owner) &&
            (!oldest || connection_idle_since(at) <= connection_idle_since(oldest)))
            oldest = at;
    }
    if (!oldest)
        return false;
    connection_cut(oldest);
    /* frees its place now; libmicrohttpd closes the socket in the next iteration */
    quota_release_all(&quota_tables[QUOTA_CONNECTIONS], &oldest->counted);
    return true;
}

/* Closes an idle connection of the address with the most connections; false if none is closed. */
static bool connection_make_room(const struct connection *connection)
{
    struct quota_table *table = &quota_tables[QUOTA_CONNECTIONS];
    const struct quota_owner *owner = NULL;
    struct http *http = connection->http;
    size_t own = quota_entry_of(table, &connection->counted.owner) + 1, most = own;
    int64_t ago_ms = http->loop->now_ms - http->looked_ms;

    if (ago_ms < LOOK_AGAIN_MS || (ago_ms < KNOWN_MS && own >= http->most))
        return false;
    for (const struct connection *at = LIST_FIRST(&http->connections); at;
         at = LIST_NEXT(at, link)) {
        if (!connection_is_idle(at) || (owner && quota_owner_same(owner, &at->counted.owner)))
            continue;
        size_t count = quota_entry_of(table, &at->counted.owner);

        if (count > most) {
            most = count;
            owner = &at->counted.owner;
        }
    }
    http->looked_ms = http->loop->now_ms;
    http->most = most;
    return owner && connection_end_oldest(http, owner);
}

/*
 * Counts the connection against http.max_connections and the limit of its address, over all loops.
 * If no place is free, closes an idle connection of the address that has the most connections.
 * Some places are reserved for addresses with few connections, further ones for localhost (health
 * checks). Trusted proxies have no limit per address. Returns false if there is no room.
 */
static bool connection_count(struct connection *connection)
{
    struct http *http = connection->http;
    struct quota_table *table = &quota_tables[QUOTA_CONNECTIONS];
    struct quota_owner owner = {.network = address_network(connection->address)};
    struct quota_limits bounds = {http->settings.max_connections, http->settings.per_address};
    struct generation *generation = engine_generation(http->loop->engine);
    bool localhost =
        !strcmp(connection->address, "127.0.0.1") || !strcmp(connection->address, "::1");

    if (address_in(generation->trusted_proxies, connection->address))
        bounds.each = SIZE_MAX;
    else if (!localhost && quota_entry_of(table, &owner) >= FEW)
        bounds.all -= bounds.all / KEPT_PART;
    generation_release(generation);
    if (localhost)
        bounds.all += CONNECTIONS_RESERVED;
    enum quota_result answer = quota_take(table, &connection->counted, &owner, 1, &bounds);

    if ((answer == QUOTA_OWN_FULL && localhost && connection_end_oldest(http, &owner)) ||
        (answer == QUOTA_ALL_FULL && connection_make_room(connection)))
        answer = quota_take(table, &connection->counted, &owner, 1, &bounds);
    if (answer == QUOTA_OWN_FULL || answer == QUOTA_ALL_FULL)
        quota_count(QUOTA_CONNECTIONS, answer == QUOTA_OWN_FULL);
    return answer == QUOTA_TAKEN;
}

/* ---- accept and close ---- */

static void http_watch_listeners(struct http *http, bool on)
{
    on = on && !http->draining;
    for (size_t i = 0; i < http->settings.listeners->count; i++) {
        struct accept *accept = &http->accepts[i];

        loop_watch(http->loop, &accept->watch, on ? accept->fd : -1,
                   on ? EPOLLIN | EPOLLEXCLUSIVE : 0);
    }
}

static void connection_free(struct connection *connection)
{
    struct http *http = connection->http;

    LIST_REMOVE(connection, link);
    http->connection_count--;
    quota_release_all(&quota_tables[QUOTA_CONNECTIONS], &connection->counted);
    connection_map(http, connection->fd, NULL);
    reader_free(&connection->reader);
    free(connection);
}

/* Accepts a connection; closes it if a limit is reached. Returns false if none can be accepted. */
static bool connection_accept(struct http *http, int listener)
{
    struct sockaddr_storage peer = {0};
    socklen_t length = sizeof peer;
    int fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        bool more = errno == EINTR || errno == ECONNABORTED;

        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            log_line(BB_WARN, "connections cannot be accepted", "reason", strerror(errno), NULL);
            http->refusing = true; /* otherwise the listeners would report events all the time */
            http_watch_listeners(http, false);
            timer_set(&http->loop->timers, &http->sweep, http->loop->now_ms + REFUSE_MS);
        }
        return more;
    }
    struct connection *connection = calloc(1, sizeof *connection);

    if (connection) {
        *connection = (struct connection){.http = http, .fd = fd};
        address_text((const struct sockaddr *)&peer, connection->address);
    }
    if (!connection || connection_map(http, fd, connection) || !connection_count(connection)) {
        connection_map(http, fd, NULL);
        free(connection);
        close(fd);
        http->rejected++;
        return true;
    }
    LIST_INSERT_HEAD(&http->connections, connection, link);
    http->connection_count++;
    connection_stage(connection, STAGE_HEADER, 0);
    connections_run(http);
    enum MHD_Result added = MHD_add_connection(http->daemon, fd, (struct sockaddr *)&peer, length);

    connections_run(NULL);
    if (added != MHD_YES) { /* libmicrohttpd has closed the descriptor */
        http->rejected++;
        log_line(BB_DEBUG, "a connection was refused", NULL);
        if (http->by_fd[fd] == connection) /* libmicrohttpd has not reported its end */
            connection_free(connection);
    }
    return true;
}

/*
 * ---- closing a connection without losing the response ----
 *
 * If a connection is closed while the client still sends, the kernel resets it, and the client may
 * lose the response. So a duplicate descriptor of the socket stays open, and incoming data is
 * discarded, until the client has closed the connection, or for LINGER_MS.
 */

struct lingering {
    struct watch watch; /* first member */
    struct timer timer;
    struct http *http;
    LIST_ENTRY(lingering) link;
    int fd;
};

static void connection_linger_end(struct lingering *one)
{
    struct loop *loop = one->http->loop;

    timer_clear(&loop->timers, &one->timer);
    loop_watch(loop, &one->watch, -1, 0);
    LIST_REMOVE(one, link);
    one->http->lingering_count--;
    close(one->fd);
    free(one);
}

static void connection_linger_over(struct timer *timer)
{
    connection_linger_end(BB_CONTAINER_OF(timer, struct lingering, timer));
}

static void connection_linger_more(struct watch *watch, uint32_t events)
{
    struct lingering *one = (struct lingering *)(void *)watch;
    char bytes[LINGER_PIECE];
    ssize_t got = 1;

    for (int i = 0; i < LINGER_PIECES && got > 0; i++)
        got = recv(one->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (!got || events & (EPOLLERR | EPOLLHUP))
        connection_linger_end(one);
}

static void connection_linger(struct http *http, int fd)
{
    struct lingering *one = http->lingering_count < LINGER_MOST ? calloc(1, sizeof *one) : NULL;
    struct loop *loop = http->loop;

    if (!one)
        return;
    one->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (one->fd < 0) {
        free(one);
        return;
    }
    one->watch = (struct watch){.fd = -1, .ready = connection_linger_more};
    one->timer.fire = connection_linger_over;
    one->http = http;
    LIST_INSERT_HEAD(&http->lingering, one, link);
    http->lingering_count++;
    timer_set(&loop->timers, &one->timer, loop->now_ms + LINGER_MS);
    if (loop_watch(loop, &one->watch, one->fd, EPOLLIN))
        connection_linger_end(one);
}

/* Called by libmicrohttpd when a connection has started or ended; cls is the struct http. */
static void connection_notify(void *cls, struct MHD_Connection *mhd, void **context,
                              enum MHD_ConnectionNotificationCode code)
{
    struct http *http = cls;
    int unread = 0;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = http->by_fd[MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)
                                   ->connect_fd];
        return;
    }
    struct connection *connection = *context;

    connection_forget(connection);
    /* closing a socket with unread data would lose a part of the response */
    if (!connection->cut && (connection->lingers || reader_unread(&connection->reader) ||
                             (!ioctl(connection->fd, FIONREAD, &unread) && unread > 0)))
        connection_linger(http, connection->fd);
    connection_free(connection);
}

/* ---- after a request; discarding bodies ---- */

void connection_answered(struct connection *connection)
{
    bool waits = reader_waits(&connection->reader) || connection->has_ended;

    reader_next(&connection->reader);
    if (waits)
        connection_read_again(connection);
}

void connection_drops_body(struct connection *connection, int status)
{
    if (connection->drops_status)
        return;
    connection->drops_status = status;
    connection->drops_ms = connection->http->loop->now_ms + DROPS_MS;
}

void connection_stop_body(struct connection *connection, int status)
{
    connection->drops_status = 0;
    if (reader_stop(&connection->reader, status, NULL))
        connection_read_again(connection);
}

/* ---- timeouts ---- */

void connection_stage(struct connection *connection, enum connection_stage stage, size_t bytes)
{
    struct http *http = connection->http;
    const struct http_settings *settings = &http->settings;
    const int64_t times[] = {[STAGE_IDLE] = settings->idle_ms,
                             [STAGE_HEADER] = settings->header_ms,
                             [STAGE_BODY] = settings->body_ms,
                             [STAGE_WRITE] = settings->write_ms};

    connection->stage = stage;
    connection->drops_status = 0;
    connection->limit_ms = 0;
    if (stage != STAGE_HANDLER) /* otherwise the request's deadline applies */
        connection->limit_ms = http->loop->now_ms + times[stage] + (int64_t)bytes / BYTES_PER_MS;
}

void connection_cut(struct connection *connection)
{
    if (connection->cut)
        return;
    connection->cut = true;
    shutdown(connection->fd, SHUT_RDWR);
}

void connections_sweep(struct http *http)
{
    int64_t now = http->loop->now_ms;

    for (struct connection *at = LIST_FIRST(&http->connections); at; at = LIST_NEXT(at, link)) {
        bool over = (at->limit_ms && at->limit_ms <= now) || (at->stop_ms && at->stop_ms <= now);
        bool arriving = at->stage == STAGE_HEADER
                            ? at->reader.began
                            : at->stage == STAGE_BODY && reader_in_body(&at->reader);

        if (http->draining && at->stage <= STAGE_HEADER && at->limit_ms > now + STOP_MS)
            at->limit_ms = now + STOP_MS;
        if (over && !at->cut && arriving) {
            /* after shutdown(), libmicrohttpd reads once more; the reader then refuses the request
             * with 408, which can still be sent */
            at->reader.late = true;
            connection_stage(at, STAGE_WRITE, 0);
            shutdown(at->fd, SHUT_RD);
        } else if (over) {
            connection_cut(at);
        } else if (at->drops_status && at->drops_ms <= now) {
            connection_stop_body(at, at->drops_status);
        }
    }
}

/* ---- libmicrohttpd in the loop ---- */

struct http_settings http_settings_of(const struct generation *g, const struct listeners *listeners)
{
    const struct host_settings *host = g->settings->host;
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

static void http_accept_ready(struct watch *watch, uint32_t events)
{
    const struct accept *accept = (struct accept *)(void *)watch;

    (void)events;
    for (int i = 0; i < ACCEPT_MAX && connection_accept(accept->http, accept->fd); i++)
        ;
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
    http->daemon_watch.fd = -1; /* needs no `ready`: after each wait, the loop calls http_run() */
    http->sweep.fire = http_sweep;
    http->streams.timer.fire = streams_round;
    /* without MHD_USE_ERROR_LOG libmicrohttpd logs nothing */
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL,
        http_txn_access, http, MHD_OPTION_NOTIFY_COMPLETED, http_txn_completed, http,
        MHD_OPTION_NOTIFY_CONNECTION, connection_notify, http, MHD_OPTION_CONNECTION_LIMIT,
        settings->max_connections + ACCEPT_MAX + CONNECTIONS_RESERVED,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_END);
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
    timer_clear(&http->loop->timers, &http->streams.timer);
    http_watch_listeners(http, false);
    loop_watch(http->loop, &http->daemon_watch, -1, 0);
    MHD_stop_daemon(http->daemon);
    /* frees connections for which libmicrohttpd 1.0 has not called connection_notify() yet */
    for (struct connection *at = LIST_FIRST(&http->connections), *next; at; at = next) {
        next = LIST_NEXT(at, link);
        connection_free(at);
    }
    for (struct lingering *at = LIST_FIRST(&http->lingering), *next; at; at = next) {
        next = LIST_NEXT(at, link);
        connection_linger_end(at);
    }
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
        /* makes the kernel refuse new clients, instead of queuing them and resetting them later */
        for (size_t k = 0; k < all->count; k++)
            shutdown(all->fds[k], SHUT_RD);
        timer_set(&http->loop->timers, &http->sweep, http->loop->now_ms);
    }
    return !http->connection_count;
}
