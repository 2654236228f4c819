#include "fault/proxy.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "harness.h"

enum { LINKS = 128, BUFFER = 16384, TICK_MS = 2 };

/* One direction: bytes[start..end) are waiting to be sent. */
struct way {
    char bytes[BUFFER];
    size_t start, end;
    int64_t due_ms; /* nothing is sent before this time */
    long passed;    /* bytes since the mode was set */
    bool ended;     /* the sender has closed */
    bool shut;      /* the receiver's side has been shut down */
};

struct link {
    int client, server;  /* -1: none */
    struct way up, down; /* bytes to the server, bytes to the client */
    unsigned change;     /* the last change of the mode that this link has noticed */
    bool swallow;
};

struct proxy {
    const char *target;
    int listener, port;
    pthread_mutex_t lock; /* guards mode, amount and change */
    enum proxy_mode mode;
    long amount;
    unsigned change;
    atomic_int hits;
    atomic_llong passed; /* number of the server's bytes */
    pthread_t thread;
    struct link links[LINKS];
};

/* ---- sockets ---- */

static void listen_unix(struct proxy *proxy, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    proxy->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(proxy->listener, (struct sockaddr *)&address, sizeof address), 0);
}

/* Closes with a reset if the socket supports one. */
static void close_hard(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

static void link_end(struct link *link)
{
    close_hard(link->client);
    close_hard(link->server);
    link->client = link->server = -1;
}

static void accept_link(struct proxy *proxy)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    struct link *link = proxy->links;

    while (link < proxy->links + LINKS && link->client >= 0)
        link++;
    if (client < 0 || link == proxy->links + LINKS) {
        close_hard(client);
        return;
    }
    memset(link, 0, sizeof *link);
    link->client = client;
    link->server = socket_connect(proxy->target);
    if (link->server < 0)
        link_end(link);
}

/* ---- bytes ---- */

/* Reads available bytes into an empty buffer; returns false if the connection broke. */
static bool take(struct way *way, int from, int64_t due_ms)
{
    if (way->start < way->end || way->ended)
        return true;
    ssize_t got = recv(from, way->bytes, BUFFER, MSG_DONTWAIT);

    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    way->ended = got == 0;
    way->start = 0;
    way->end = (size_t)got;
    way->due_ms = due_ms;
    return true;
}

/* Writes at most `most` bytes; returns false if the connection broke. */
static bool give(struct way *way, int to, size_t most)
{
    size_t length = way->end - way->start;

    if (length > most)
        length = most;
    if (length) {
        ssize_t sent = send(to, way->bytes + way->start, length, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        way->start += (size_t)sent;
        way->passed += sent;
    }
    if (way->ended && way->start == way->end && !way->shut) {
        shutdown(to, SHUT_WR);
        way->shut = true;
    }
    return true;
}

/* Passes on the server's bytes as the mode requires; returns false if the link must end. */
static bool pass_down(struct proxy *proxy, struct link *link, enum proxy_mode mode, long amount)
{
    struct way *down = &link->down;
    bool waits = down->start < down->end;
    int64_t late_ms = now_ms() - down->due_ms;

    if (link->swallow) {
        down->start = down->end;
        down->shut = down->ended;
        return true;
    }
    switch (mode) {
    case PROXY_CUT:
        if (waits && (long)(down->end - down->start) + down->passed > amount) {
            give(down, link->client, (size_t)(amount - down->passed));
            atomic_fetch_add(&proxy->hits, 1);
            return false;
        }
        return give(down, link->client, BUFFER);
    case PROXY_HALF_CLOSE:
        if (waits) {
            shutdown(link->client, SHUT_WR);
            link->swallow = true;
            atomic_fetch_add(&proxy->hits, 1);
        }
        return true;
    case PROXY_TRICKLE:
        if (late_ms < amount)
            return true;
        down->due_ms += late_ms - late_ms % amount;
        return give(down, link->client, (size_t)(late_ms / amount));
    default:
        return late_ms < 0 || give(down, link->client, BUFFER);
    }
}

static bool give_down(struct proxy *proxy, struct link *link, enum proxy_mode mode, long amount)
{
    long before = link->down.passed;
    bool goes_on = pass_down(proxy, link, mode, amount);

    atomic_fetch_add(&proxy->passed, link->down.passed - before);
    return goes_on;
}

static bool move(struct proxy *proxy, struct link *link, enum proxy_mode mode, long amount)
{
    int64_t due = now_ms() + (mode == PROXY_DELAY ? amount : 0);

    return take(&link->up, link->client, 0) && give(&link->up, link->server, BUFFER) &&
           take(&link->down, link->server, due) && give_down(proxy, link, mode, amount) &&
           !(link->up.shut && link->down.shut);
}

static void turn(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    enum proxy_mode mode = proxy->mode;
    long amount = proxy->amount;
    unsigned change = proxy->change;

    pthread_mutex_unlock(&proxy->lock);
    for (struct link *link = proxy->links; link < proxy->links + LINKS; link++) {
        if (link->client < 0)
            continue;
        if (link->change != change) {
            link->change = change;
            link->down.passed = 0;
        }
        if (mode != PROXY_FREEZE && !move(proxy, link, mode, amount))
            link_end(link);
    }
}

static void *run(void *arg)
{
    struct proxy *proxy = arg;
    struct pollfd polled = {.fd = proxy->listener, .events = POLLIN};

    for (;;) {
        if (poll(&polled, 1, TICK_MS) > 0)
            accept_link(proxy);
        turn(proxy);
    }
    return NULL;
}

/* ---- for the tests ---- */

struct proxy *proxy_start(const char *path, const char *target)
{
    struct proxy *proxy = kept(calloc(1, sizeof *proxy));

    proxy->target = target;
    pthread_mutex_init(&proxy->lock, NULL);
    for (int i = 0; i < LINKS; i++)
        proxy->links[i].client = -1;
    if (path)
        listen_unix(proxy, path);
    else
        proxy->listener = port_bind(&proxy->port);
    ck_assert_int_eq(listen(proxy->listener, LINKS), 0);
    ck_assert_int_eq(pthread_create(&proxy->thread, NULL, run, proxy), 0);
    return proxy;
}

int proxy_port(const struct proxy *proxy)
{
    return proxy->port;
}

void proxy_set(struct proxy *proxy, enum proxy_mode mode, long amount)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->mode = mode;
    proxy->amount = amount;
    proxy->change++;
    atomic_store(&proxy->hits, 0);
    pthread_mutex_unlock(&proxy->lock);
}

int proxy_hits(const struct proxy *proxy)
{
    return atomic_load(&proxy->hits);
}

long long proxy_passed(const struct proxy *proxy)
{
    return atomic_load(&proxy->passed);
}
