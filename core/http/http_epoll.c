/*
 * libmicrohttpd takes a connection out of its epoll set while a request waits for its answer, and
 * puts it back for the next one: two system calls for each request, for nothing, as a client seldom
 * sends anything meanwhile. As recv() (http_recv.c), these functions are the program's: what is
 * taken out stays in the set, and what the kernel reports of it is kept from libmicrohttpd until
 * the connection is put back. Who sends more meanwhile is taken out in earnest.
 */
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/http/http.h"

#if UINTPTR_MAX == UINT64_MAX

/* Under their own names, as the names of functions of the system are taken. */
int http_epoll_ctl(int epoll, int how, int fd, struct epoll_event *event) __asm__("epoll_ctl");
int http_epoll_wait(int epoll, struct epoll_event *events, int most,
                    int timeout) __asm__("epoll_wait");

/* With the descriptor in the place of an address: no address of a program has this bit. */
#define OURS (UINT64_C(1) << 63)

static int ask_kernel(int epoll, int how, int fd, struct epoll_event *event)
{
    return (int)syscall(SYS_epoll_ctl, epoll, how, fd, event);
}

/* ---- events that were kept ---- */

static void report_later(struct connection *connection)
{
    struct http *http = connection->http;

    connection->reported_next = http->reported;
    http->reported = connection;
    connection->in_set = SET_REPORTED;
    http->again = true;
}

static void report_no_more(struct connection *connection)
{
    struct connection **at = &connection->http->reported;

    while (*at != connection)
        at = &(*at)->reported_next;
    *at = connection->reported_next;
}

static int report(struct http *http, struct epoll_event *events, int most)
{
    int count = 0;

    while (http->reported && count < most) {
        struct connection *connection = http->reported;

        http->reported = connection->reported_next;
        connection->in_set = SET_IN;
        events[count].events = connection->set_missed & ~(uint32_t)EPOLLRDHUP;
        events[count++].data.ptr = connection->set_data;
    }
    return count;
}

/* ---- the set ---- */

/* Who has ended its side makes no further edge, whether its end was read or not. */
static int put_in(struct connection *connection, int epoll, const struct epoll_event *event)
{
    struct epoll_event ours = {.events = event->events | EPOLLRDHUP,
                               .data.u64 = OURS | (unsigned)connection->fd};
    enum connection_set was = connection->in_set;

    if (was == SET_OUT && ask_kernel(epoll, EPOLL_CTL_ADD, connection->fd, &ours))
        return -1;
    connection->set_data = event->data.ptr;
    connection->in_set = SET_IN;
    if (was == SET_MISSED || (was == SET_KEPT && connection->set_missed & EPOLLRDHUP))
        report_later(connection);
    return 0;
}

void http_epoll_again(struct connection *connection)
{
    if (connection->in_set == SET_IN && connection->set_missed & EPOLLRDHUP)
        report_later(connection);
}

static void take_out(struct connection *connection)
{
    if (connection->in_set == SET_REPORTED)
        report_no_more(connection);
    connection->in_set = connection->in_set == SET_IN ? SET_KEPT : SET_MISSED;
}

int http_epoll_ctl(int epoll, int how, int fd, struct epoll_event *event)
{
    struct connection *connection = http_connection(fd);

    if (!connection || epoll != connection->http->daemon_watch.fd)
        return ask_kernel(epoll, how, fd, event);
    if (how == EPOLL_CTL_ADD)
        return put_in(connection, epoll, event);
    if (how != EPOLL_CTL_DEL || connection->in_set == SET_OUT)
        return ask_kernel(epoll, how, fd, event);
    take_out(connection);
    return 0;
}

void http_epoll_forget(struct connection *connection)
{
    if (connection->in_set == SET_REPORTED)
        report_no_more(connection);
    if (connection->in_set == SET_KEPT || connection->in_set == SET_MISSED)
        ask_kernel(connection->http->daemon_watch.fd, EPOLL_CTL_DEL, connection->fd, NULL);
    connection->in_set = SET_OUT;
}

/* An event of our own as libmicrohttpd wants it; false: it must not hear of it. */
static bool translate(struct epoll_event *event)
{
    struct connection *connection = http_connection((int)(event->data.u64 & ~OURS));

    if (!connection)
        return false;
    connection->set_missed = event->events;
    event->events &= ~(uint32_t)EPOLLRDHUP; /* libmicrohttpd did not ask for it */
    event->data.ptr = connection->set_data;
    if (connection->in_set == SET_MISSED)
        http_epoll_forget(connection);
    else if (connection->in_set == SET_KEPT)
        connection->in_set = SET_MISSED;
    return connection->in_set == SET_IN || connection->in_set == SET_REPORTED;
}

int http_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    struct http *http = http_of_set(epoll);
    int count = epoll_pwait(epoll, events, most, http && http->reported ? 0 : timeout, NULL);
    int left = 0;

    if (!http || count < 0)
        return count;
    for (int i = 0; i < count; i++) {
        if (!(events[i].data.u64 & OURS) || translate(&events[i]))
            events[left++] = events[i];
    }
    return left + report(http, events + left, most - left);
}

#else /* an address leaves no place for a mark: libmicrohttpd asks the kernel itself */

void http_epoll_again(struct connection *connection)
{
    (void)connection;
}

void http_epoll_forget(struct connection *connection)
{
    (void)connection;
}

#endif
