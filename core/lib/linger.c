#include "core/lib/linger.h"

#include <busbar/abi.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LINGER_MS = 2000,
    PIECE = 16 * 1024,
    PIECES_MAX = 8 /* per iteration */
};

struct lingering {
    struct watch watch; /* first member */
    struct timer timer;
    struct lingers *lingers;
    struct loop *loop;
    int fd;
    struct lingering *next, *before;
};

static void linger_end(struct lingering *one)
{
    struct lingers *lingers = one->lingers;

    timer_clear(&one->loop->timers, &one->timer);
    loop_watch(one->loop, &one->watch, -1, 0);
    if (one->next)
        one->next->before = one->before;
    if (one->before)
        one->before->next = one->next;
    else
        lingers->first = one->next;
    lingers->count--;
    close(one->fd);
    free(one);
}

static void linger_over(struct timer *timer)
{
    linger_end(BB_CONTAINER_OF(timer, struct lingering, timer));
}

static void linger_more(struct watch *watch, uint32_t events)
{
    struct lingering *one = (struct lingering *)(void *)watch;
    char bytes[PIECE];
    ssize_t got = 1;

    (void)events;
    for (int i = 0; i < PIECES_MAX && got > 0; i++)
        got = recv(one->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (!got || events & (EPOLLERR | EPOLLHUP))
        linger_end(one);
}

void linger(struct lingers *lingers, struct loop *loop, int fd)
{
    struct lingering *one = lingers->count < LINGER_MOST ? calloc(1, sizeof *one) : NULL;

    if (!one)
        return;
    one->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (one->fd < 0) {
        free(one);
        return;
    }
    one->watch = (struct watch){.fd = -1, .ready = linger_more};
    one->timer.fire = linger_over;
    one->lingers = lingers;
    one->loop = loop;
    one->next = lingers->first;
    if (one->next)
        one->next->before = one;
    lingers->first = one;
    lingers->count++;
    if (timer_try(&loop->timers, &one->timer, loop->now_ms + LINGER_MS) ||
        loop_watch(loop, &one->watch, one->fd, EPOLLIN))
        linger_end(one);
}

void lingers_free(struct lingers *lingers)
{
    struct lingering *next;

    for (struct lingering *at = lingers->first; at; at = next) {
        next = at->next;
        linger_end(at);
    }
}
