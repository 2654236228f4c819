/*
 * libmicrohttpd removes a connection from its epoll set while a request waits for its answer, and
 * adds it again for the next request: two system calls per request that are rarely useful, because
 * clients seldom send anything meanwhile. Like recv() in http_recv.c, the functions here replace
 * the C library's: a removed connection stays in the kernel's set, and its events are withheld from
 * libmicrohttpd until the connection is added again. If the client sends more data meanwhile, the
 * connection is really removed.
 */
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/server/http.h"

#if UINTPTR_MAX == UINT64_MAX

/* Separate names in C, because the system's headers declare the functions. */
int http_epoll_ctl(int epoll, int how, int fd, struct epoll_event *event) __asm__("epoll_ctl");
int http_epoll_wait(int epoll, struct epoll_event *events, int most,
                    int timeout) __asm__("epoll_wait");

/* Marks a descriptor in place of an address: no user-space address has this bit. */
#define OURS (UINT64_C(1) << 63)

static int ask_kernel(int epoll, int how, int fd, struct epoll_event *event)
{
    return (int)syscall(SYS_epoll_ctl, epoll, how, fd, event);
}

/* ---- withheld events ---- */

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

/*
 * EPOLLRDHUP: a client that has shut down its side causes no further edge, whether its end was read
 * or not.
 */
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

/*
 * Converts one of our events to the form that libmicrohttpd expects; false: it must not get the
 * event.
 */
static bool translate(struct epoll_event *event)
{
    struct connection *connection = http_connection((int)(event->data.u64 & ~OURS));

    if (!connection)
        return false;
    connection->set_missed = event->events;
    event->events &= ~(uint32_t)EPOLLRDHUP; /* libmicrohttpd did not request it */
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

#else /* addresses have no bit for a mark: libmicrohttpd calls the kernel directly */

void http_epoll_again(struct connection *connection)
{
    (void)connection;
}

void http_epoll_forget(struct connection *connection)
{
    (void)connection;
}

#endif
