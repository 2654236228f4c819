/* The sockets of the sender's transfers: see transfer_sockets.h. */
#include "modules/webhook/http/transfer_sockets.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 128

/* Beside EPOLLIN and EPOLLOUT in a mask. */
#define OWN 0x40  /* opened and closed through our callbacks */
#define IDLE 0x80 /* still registered, but libcurl does not want it now */

int64_t sockets_clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int mask_reserve(struct transfers *all, int fd)
{
    size_t room = all->mask_room ? all->mask_room : 256;

    if ((size_t)fd < all->mask_room)
        return 0;
    while (room <= (size_t)fd)
        room *= 2;
    unsigned char *masks = realloc(all->masks, room);

    if (!masks)
        return -1;
    memset(masks + all->mask_room, 0, room - all->mask_room);
    all->masks = masks;
    all->mask_room = room;
    return 0;
}

static int watch(struct transfers *all, int fd, unsigned char mask)
{
    struct epoll_event event = {.events = mask, .data.fd = fd};
    unsigned char flags = all->masks[fd] & OWN, before = all->masks[fd] & (EPOLLIN | EPOLLOUT);
    int how = !mask ? EPOLL_CTL_DEL : before ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    all->masks[fd] = flags | mask;
    return mask == before ? 0 : epoll_ctl(all->epoll, how, fd, &event);
}

/*
 * A socket that libcurl lets go of stays registered if it is a connection: mostly it is wanted
 * again at once. Should it be closed, sockets_close() forgets it; should the server close it,
 * on_event() takes it out. libcurl's other sockets (its resolver's) are closed behind our back.
 */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct transfers *all = arg;
    unsigned char mask = 0;

    (void)easy;
    (void)socket_arg;
    if (mask_reserve(all, fd))
        return -1;
    if (what == CURL_POLL_REMOVE && (all->masks[fd] & OWN)) {
        all->masks[fd] |= IDLE;
        return 0;
    }
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        mask |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        mask |= EPOLLOUT;
    return watch(all, fd, mask);
}

curl_socket_t sockets_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = arg;
    curl_socket_t fd = target_open_socket(&transfer->socket, purpose, address);

    if (fd != CURL_SOCKET_BAD && !mask_reserve(transfer->all, fd))
        transfer->all->masks[fd] = OWN;
    return fd;
}

int sockets_close(void *arg, curl_socket_t fd)
{
    struct transfers *all = arg;

    if ((size_t)fd < all->mask_room)
        all->masks[fd] = 0; /* closing takes it out of the epoll */
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
 * Where libcurl has no memory for whom a socket belongs to, it keeps a table of them without room,
 * and divides by that room when the socket is used again; and it forgets time limits.
 */
static void act(struct transfers *all, curl_socket_t fd, int flags)
{
    int running;

    if (all->multi && !all->broken &&
        curl_multi_socket_action(all->multi, fd, flags, &running) != CURLM_OK)
        all->broken = true;
}

static void on_event(struct transfers *all, const struct epoll_event *event)
{
    int fd = event->data.fd, flags = 0;
    uint64_t count;

    if (fd == all->wake_fd) {
        (void)!read(fd, &count, sizeof(count));
        return;
    }
    if (all->masks[fd] & IDLE) {
        watch(all, fd, 0);
        return;
    }
    if (event->events & (EPOLLIN | EPOLLRDHUP))
        flags |= CURL_CSELECT_IN;
    if (event->events & EPOLLOUT)
        flags |= CURL_CSELECT_OUT;
    if (event->events & (EPOLLERR | EPOLLHUP))
        flags |= CURL_CSELECT_ERR;
    act(all, fd, flags);
}

static bool timer_due(const struct transfers *all)
{
    return all->timer_at >= 0 && all->timer_at <= sockets_clock_ms();
}

void sockets_run_timer(struct transfers *all)
{
    for (int i = 0; i < 8 && timer_due(all); i++) {
        all->timer_at = -1;
        act(all, CURL_SOCKET_TIMEOUT, 0);
    }
}

static int wait_for(const struct transfers *all, int64_t wait_ms)
{
    if (all->timer_at >= 0) {
        int64_t timer = all->timer_at - sockets_clock_ms();

        if (timer < 0)
            timer = 0;
        if (wait_ms < 0 || timer < wait_ms)
            wait_ms = timer;
    }
    return wait_ms > 60000 ? 60000 : (int)wait_ms;
}

void sockets_wait(struct transfers *all, int64_t wait_ms)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(all->epoll, events, EVENTS, wait_for(all, wait_ms));

    for (int i = 0; i < count; i++)
        on_event(all, &events[i]);
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
    if (all->masks)
        memset(all->masks, 0, all->mask_room);
}
