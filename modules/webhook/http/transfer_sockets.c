/* The sockets of the sender's transfers: see transfer_sockets.h. */
#include "modules/webhook/http/transfer_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS = 128,
    LEAST_MS = 1100, /* libcurl checks idle connections once a second */
    PARTS = 8        /* checks per maximum idle time */
};

/* Bits of a mask in addition to EPOLLIN and EPOLLOUT. */
#define OWN 0x40  /* opened and closed through our callbacks */
#define IDLE 0x80 /* still registered, but libcurl does not need it now */

int64_t sockets_clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int socket_reserve(struct transfers *all, int fd)
{
    size_t room = all->socket_room ? all->socket_room : 256;

    if ((size_t)fd < all->socket_room)
        return 0;
    while (room <= (size_t)fd)
        room *= 2;
    struct socket_state *sockets = realloc(all->sockets, room * sizeof(*sockets));

    if (!sockets)
        return -1;
    memset(sockets + all->socket_room, 0, (room - all->socket_room) * sizeof(*sockets));
    all->sockets = sockets;
    all->socket_room = room;
    return 0;
}

static int watch(struct transfers *all, int fd, unsigned char mask)
{
    struct epoll_event event = {.events = mask, .data.fd = fd};
    unsigned char now = all->sockets[fd].mask;
    unsigned char flags = now & OWN, before = now & (EPOLLIN | EPOLLOUT);
    int how = !mask ? EPOLL_CTL_DEL : before ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    all->sockets[fd].mask = flags | mask;
    return mask == before ? 0 : epoll_ctl(all->epoll, how, fd, &event);
}

/*
 * When libcurl stops watching a socket, it stays registered if it is a connection, because it is
 * usually needed again at once. If it is closed, sockets_close() forgets it; if the server closes
 * it, on_event() removes it. libcurl's other sockets (its resolver's) are closed without a
 * callback.
 */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct transfers *all = arg;
    unsigned char mask = 0;

    (void)easy;
    (void)socket_arg;
    if (socket_reserve(all, fd))
        return -1;
    if (what == CURL_POLL_REMOVE && (all->sockets[fd].mask & OWN)) {
        all->sockets[fd].mask |= IDLE;
        return 0;
    }
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        mask |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        mask |= EPOLLOUT;
    return watch(all, fd, mask);
}

void sockets_give_up(struct transfer *transfer)
{
    const struct transfers *all = transfer->all;
    curl_socket_t fd = CURL_SOCKET_BAD;

    if (curl_easy_getinfo(transfer->easy, CURLINFO_ACTIVESOCKET, &fd) || fd == CURL_SOCKET_BAD ||
        (size_t)fd >= all->socket_room || !(all->sockets[fd].mask & OWN))
        return;
    if (all->sockets[fd].heard_at < transfer->started_at)
        shutdown(fd, SHUT_RDWR);
}

static bool is_idle(const struct socket_state *state)
{
    return (state->mask & OWN) && (state->mask & IDLE);
}

/* Shuts down idle connections above the limit of their receivers. */
static void shut_surplus(struct transfers *all)
{
    for (size_t fd = 0; fd < all->socket_room; fd++)
        if (is_idle(&all->sockets[fd]))
            all->sockets[fd].receiver->idle = 0;
    for (size_t fd = 0; fd < all->socket_room; fd++)
        if (is_idle(&all->sockets[fd]) &&
            ++all->sockets[fd].receiver->idle > all->settings.connections_per_receiver)
            shutdown((int)fd, SHUT_RDWR);
}

curl_socket_t sockets_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = arg;
    struct transfers *all = transfer->all;
    curl_socket_t fd = target_open_socket(&transfer->socket, purpose, address);

    if (fd == CURL_SOCKET_BAD)
        return fd;
    if (socket_reserve(all, fd)) {
        close(fd);
        return CURL_SOCKET_BAD;
    }
    all->sockets[fd] = (struct socket_state){.mask = OWN, .receiver = transfer->receiver};
    /*
     * A connection on which nothing is acknowledged any more ends with the first request that times
     * out. Many requests may share it (HTTP/2), and TCP alone would retry for a quarter of an hour.
     */
    unsigned ms = (unsigned)all->settings.timeout_ms;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms)); /* best effort */
    all->open_count++;
    transfer->receiver->open++;
    return fd;
}

int sockets_close(void *arg, curl_socket_t fd)
{
    struct transfers *all = arg;

    all->open_count--;
    all->sockets[fd].receiver->open--;
    all->sockets[fd].mask = 0; /* closing removes it from the epoll */
    return close(fd);
}

static int on_timer(CURLM *multi, long wait_ms, void *arg)
{
    struct transfers *all = arg;

    (void)multi;
    all->timer_at = wait_ms < 0 ? -1 : sockets_clock_ms() + wait_ms;
    return 0;
}

void sockets_watch_wake(struct transfers *all, int wake_fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = wake_fd};

    if (wake_fd == all->wake_fd)
        return;
    if (epoll_ctl(all->epoll, EPOLL_CTL_ADD, wake_fd, &event) == 0)
        all->wake_fd = wake_fd;
}

/*
 * If libcurl has no memory to record the owners of a socket, it keeps a table of size zero and
 * divides by that size when the socket is used again; and it forgets timeouts. So the multi handle
 * must not be used any more.
 */
static void act(struct transfers *all, curl_socket_t fd, int flags)
{
    int running;

    if (all->multi && !all->broken &&
        curl_multi_socket_action(all->multi, fd, flags, &running) != CURLM_OK)
        all->broken = true;
}

static void on_event(struct transfers *all, const struct epoll_event *event, int64_t now)
{
    int fd = event->data.fd, flags = 0;
    uint64_t count;

    if (fd == all->wake_fd) {
        (void)!read(fd, &count, sizeof(count));
        return;
    }
    if (all->sockets[fd].mask & IDLE) {
        watch(all, fd, 0);
        if (all->look_at > now + LEAST_MS) /* a receiver closed a connection */
            all->look_at = now + LEAST_MS;
        return;
    }
    if (event->events & (EPOLLIN | EPOLLRDHUP))
        flags |= CURL_CSELECT_IN;
    if (flags)
        all->sockets[fd].heard_at = now;
    if (event->events & EPOLLOUT)
        flags |= CURL_CSELECT_OUT;
    if (event->events & (EPOLLERR | EPOLLHUP))
        flags |= CURL_CSELECT_ERR;
    act(all, fd, flags);
}

void sockets_run_timer(struct transfers *all)
{
    for (int i = 0; i < 8 && all->timer_at >= 0 && all->timer_at <= sockets_clock_ms(); i++) {
        all->timer_at = -1;
        act(all, CURL_SOCKET_TIMEOUT, 0);
    }
}

/* Returns the shorter of two times to wait; wait_ms -1: no limit. */
static int64_t until(int64_t at, int64_t now, int64_t wait_ms)
{
    int64_t left = at > now ? at - now : 0;

    return wait_ms < 0 || left < wait_ms ? left : wait_ms;
}

void sockets_wait(struct transfers *all, int64_t wait_ms)
{
    struct epoll_event events[EVENTS];
    int64_t now = sockets_clock_ms();

    if (all->open_count && !all->looking)
        wait_ms = until(all->look_at, now, wait_ms);
    if (all->timer_at >= 0)
        wait_ms = until(all->timer_at, now, wait_ms);
    int count = epoll_wait(all->epoll, events, EVENTS, wait_ms > 60000 ? 60000 : (int)wait_ms);

    now = sockets_clock_ms();
    for (int i = 0; i < count; i++)
        on_event(all, &events[i], now);
}

int sockets_set_up(struct transfers *all)
{
    return curl_multi_setopt(all->multi, CURLMOPT_SOCKETFUNCTION, on_socket) ||
                   curl_multi_setopt(all->multi, CURLMOPT_SOCKETDATA, all) ||
                   curl_multi_setopt(all->multi, CURLMOPT_TIMERFUNCTION, on_timer) ||
                   curl_multi_setopt(all->multi, CURLMOPT_TIMERDATA, all)
               ? -1
               : 0;
}

void sockets_forget(struct transfers *all)
{
    all->timer_at = -1;
    all->open_count = 0;
    if (all->sockets)
        memset(all->sockets, 0, all->socket_room * sizeof(*all->sockets));
}

/*
 * ---- idle connections ----
 *
 * libcurl closes old and dead connections only when a request looks for a connection, at most once
 * a second. So while there are idle ones, a dummy request is made now and then: its socket is
 * refused, but before that libcurl has cleaned up its connections.
 */

static curl_socket_t refuse(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)arg;
    (void)purpose;
    (void)address;
    return CURL_SOCKET_BAD;
}

static CURL *make_look(const struct transfers *all)
{
    CURL *look = curl_easy_init();

    if (look && !curl_easy_setopt(look, CURLOPT_NOSIGNAL, 1L) &&
        !curl_easy_setopt(look, CURLOPT_PROXY, "") &&
        !curl_easy_setopt(look, CURLOPT_URL, "http://127.0.0.1:9/") &&
        !curl_easy_setopt(look, CURLOPT_OPENSOCKETFUNCTION, refuse) &&
        !curl_easy_setopt(look, CURLOPT_MAXAGE_CONN, (long)(all->settings.idle_ms / 1000)))
        return look;
    curl_easy_cleanup(look);
    return NULL;
}

void idle_look(struct transfers *all)
{
    int64_t now = sockets_clock_ms(), between = all->settings.idle_ms / PARTS;

    if (!all->open_count || now < all->look_at || all->looking || !all->multi || all->broken)
        return;
    shut_surplus(all);
    all->look_at = now + (between < LEAST_MS ? LEAST_MS : between);
    if (!all->look)
        all->look = make_look(all);
    all->looking = all->look && curl_multi_add_handle(all->multi, all->look) == CURLM_OK;
}

bool idle_looked(struct transfers *all, CURL *easy)
{
    if (easy != all->look)
        return false;
    idle_stop(all);
    return true;
}

void idle_stop(struct transfers *all)
{
    if (all->looking)
        curl_multi_remove_handle(all->multi, all->look);
    all->looking = false;
}
