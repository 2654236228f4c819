/*
 * A receiver of webhooks for tests and benchmarks: HTTP/1.1 with keep-alive, one thread, one epoll.
 *
 *     receiver PORT [MODE [TLS_PORT AUTHORITY]]
 *
 * The first segment of a POST's path selects one of these modes; otherwise MODE (fast) applies:
 *
 *     fast     200 at once            hang     no answer          trickle  a byte a second
 *     slow     200 after 50 ms        500      500 at once        reset    RST after the request
 *     410      410 at once            429      429, Retry-After: 2
 *     late     200 after 4 s
 *
 * It counts requests and distinct webhook-ids for each path, and computes latencies from "sentAt"
 * (milliseconds since 1970, with or without decimals) anywhere in the body. GET /stats returns all
 * of it as JSON, GET /ids?path the ids and times (milliseconds) of a path's requests, GET
 * /count?prefix the number of requests to paths with that prefix; DELETE /stats deletes everything.
 *
 * It listens on all addresses. On TLS_PORT it uses TLS, with certificates signed by the authority
 * whose key and certificate are in the file AUTHORITY. /stats counts the connections that sent a
 * POST ("open": connections that still exist), handshakes, and resumed sessions.
 *
 * stats.c has the statistics, wire.c reads requests, tls.c has TLS, this file handles connections.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "receiver.h"

#define EVENTS 256
#define SLOW_MS 50
#define LATE_MS 4000
#define TRICKLE_MS 1000

struct later;

struct connection {
    int fd;
    struct connection *later_next; /* next in the queue `later` */
    int64_t later_at;
    struct wire wire;
    char *out;
    size_t out_length, out_sent;
    struct later *later; /* the queue that holds it, by delay */
    bool waiting;        /* it is in the queue `later` */
    bool trickling;
    bool closing;
    bool counted; /* it sent a POST, and is in the statistics */
};

struct later {
    struct connection *first, **end;
    int64_t delay_ms;
};

struct listener {
    int fd;
    bool tls;
};

static int epoll;
static struct listener listeners[2]; /* plain, TLS */
static const char *default_mode = "fast";
static struct later slow = {NULL, &slow.first, SLOW_MS};
static struct later late = {NULL, &late.first, LATE_MS};
static struct later trickle = {NULL, &trickle.first, TRICKLE_MS};

static void later_add(struct later *later, struct connection *connection)
{
    connection->later_at = receiver_now_ms() + later->delay_ms;
    connection->later_next = NULL;
    connection->later = later;
    connection->waiting = true;
    *later->end = connection;
    later->end = &connection->later_next;
}

static void later_remove(struct later *later, struct connection *connection)
{
    for (struct connection **at = &later->first; *at; at = &(*at)->later_next) {
        if (*at != connection)
            continue;
        *at = connection->later_next;
        if (!*at)
            later->end = at;
        return;
    }
}

static void end(struct connection *connection)
{
    if (connection->waiting)
        later_remove(connection->later, connection);
    if (connection->counted)
        stats_closed();
    if (connection->wire.tls)
        tls_free(connection->wire.tls);
    close(connection->fd);
    wire_free(&connection->wire);
    free(connection->out);
    free(connection);
}

static void put(struct connection *connection, const char *bytes, size_t length)
{
    char *out = realloc(connection->out, connection->out_length + length);

    if (!out)
        abort();
    memcpy(out + connection->out_length, bytes, length);
    connection->out = out;
    connection->out_length += length;
}

static void answer(struct connection *connection, const char *status, const char *headers,
                   const char *body)
{
    char head[256];
    int length = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n",
                          status, headers, strlen(body));

    put(connection, head, (size_t)length);
    put(connection, body, strlen(body));
}

/* Returns the mode that the first segment of a path names, or the default mode. */
static const char *mode_of(const char *path)
{
    static const char *const modes[] = {"fast", "slow",    "hang",  "500", "410",
                                        "429",  "trickle", "reset", "late"};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        size_t length = strlen(modes[i]);

        if (!strncmp(path + 1, modes[i], length) && strchr("/?", path[1 + length]))
            return modes[i];
    }
    return default_mode;
}

static void reset(struct connection *connection)
{
    struct linger linger = {1, 0};

    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    connection->closing = true;
}

static void answer_post(struct connection *connection)
{
    const char *mode = mode_of(connection->wire.path);

    if (!connection->counted)
        stats_opened();
    connection->counted = true;
    stats_note(&connection->wire);
    if (!strcmp(mode, "hang"))
        return;
    if (!strcmp(mode, "reset"))
        reset(connection);
    else if (!strcmp(mode, "500"))
        answer(connection, "500 Internal Server Error", "", "failing as configured");
    else if (!strcmp(mode, "410"))
        answer(connection, "410 Gone", "", "");
    else if (!strcmp(mode, "429"))
        answer(connection, "429 Too Many Requests", "Retry-After: 2\r\n", "");
    else if (!strcmp(mode, "slow"))
        later_add(&slow, connection);
    else if (!strcmp(mode, "late"))
        later_add(&late, connection);
    else if (!strcmp(mode, "trickle")) {
        connection->trickling = true;
        put(connection, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", 41);
        later_add(&trickle, connection);
    } else
        answer(connection, "200 OK", "", "");
}

static void answer_request(struct connection *connection)
{
    struct wire *wire = &connection->wire;
    char *text = NULL;

    if (!strcmp(wire->method, "POST")) {
        answer_post(connection);
        return;
    }
    if (!strcmp(wire->method, "DELETE")) {
        stats_forget();
        text = strdup("{}");
    } else if (!strncmp(wire->path, "/ids?", 5)) {
        text = stats_ids(wire->path + 5);
    } else if (!strncmp(wire->path, "/count?", 7)) {
        text = stats_count(wire->path + 7);
    } else {
        text = stats_text();
    }
    answer(connection, "200 OK", "Content-Type: application/json\r\n", text ? text : "");
    free(text);
}

static ssize_t transmit(const struct connection *connection, const char *bytes, size_t length)
{
    if (connection->wire.tls)
        return tls_send(connection->wire.tls, bytes, length);
    return send(connection->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Returns false if the connection has ended. */
static bool flush(struct connection *connection)
{
    while (connection->out_sent < connection->out_length) {
        ssize_t sent = transmit(connection, connection->out + connection->out_sent,
                                connection->out_length - connection->out_sent);

        if (sent <= 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return errno == EAGAIN;
        connection->out_sent += (size_t)sent;
    }
    connection->out_length = connection->out_sent = 0;
    return !connection->closing;
}

static bool readable(struct connection *connection)
{
    for (;;) {
        enum wire_state state = wire_read(&connection->wire, connection->fd);

        if (state == WIRE_ENDED)
            return false;
        if (state == WIRE_MORE)
            return flush(connection);
        answer_request(connection);
        wire_next(&connection->wire);
        if (connection->closing)
            return false;
    }
}

static void on_event(struct connection *connection, uint32_t events)
{
    if ((events & (EPOLLERR | EPOLLHUP)) || !readable(connection))
        end(connection);
}

static void on_accept(const struct listener *listener)
{
    int fd, one = 1;

    while ((fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct connection *connection = calloc(1, sizeof(*connection));
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};

        if (!connection)
            abort();
        connection->fd = fd;
        connection->wire.tls = listener->tls ? tls_accept(fd) : NULL;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

static int later_run(struct later *later)
{
    int64_t now = receiver_now_ms();
    struct connection *connection;

    while ((connection = later->first) && connection->later_at <= now) {
        later_remove(later, connection);
        connection->waiting = false;
        if (connection->trickling) {
            put(connection, ".", 1);
            later_add(later, connection);
        } else {
            answer(connection, "200 OK", "", "");
        }
        if (!flush(connection))
            end(connection);
    }
    return connection ? (int)(connection->later_at - now) : 1000;
}

static void listen_on(struct listener *listener, const char *port_text, bool tls)
{
    int port = atoi(port_text);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, zero = 0;
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    if (bind(fd, (const struct sockaddr *)(const void *)&address, sizeof(address)) ||
        listen(fd, 4096)) {
        perror("receiver");
        exit(1);
    }
    listener->fd = fd;
    listener->tls = tls;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static bool is_listener(const void *of)
{
    return of == &listeners[0] || of == &listeners[1];
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    struct rlimit files = {65536, 65536};

    if (argc < 2) {
        fprintf(stderr, "usage: receiver PORT [MODE [TLS_PORT AUTHORITY]]\n");
        return 2;
    }
    if (argc > 2)
        default_mode = argv[2];
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_NOFILE, &files);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    listen_on(&listeners[0], argv[1], false);
    if (argc > 4) {
        tls_set_up(argv[4]);
        listen_on(&listeners[1], argv[3], true);
    }
    for (;;) {
        int soon = later_run(&slow), other = later_run(&trickle), last = later_run(&late);

        soon = other < soon ? other : soon;
        int count = epoll_wait(epoll, events, EVENTS, last < soon ? last : soon);

        for (int i = 0; i < count; i++) {
            if (is_listener(events[i].data.ptr))
                on_accept(events[i].data.ptr);
            else
                on_event(events[i].data.ptr, events[i].events);
        }
    }
}
