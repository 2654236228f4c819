/*
 * The host's handling of libmicrohttpd's epoll set: a socket that libmicrohttpd removes stays in
 * the set until an event comes. These tests use their own set and sockets.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "core/server/connection.h"
#include "suite.h"

static struct http http;
static struct connection connection;
static int set, ours, theirs;
static char owner; /* in place of libmicrohttpd's connection */

static void set_up(void)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    ours = pair[0];
    theirs = pair[1];
    set = epoll_create1(EPOLL_CLOEXEC);
    ck_assert_int_ge(set, 0);
    http = (struct http){.daemon_watch.fd = set};
    connection = (struct connection){.http = &http, .fd = ours};
    ck_assert_int_eq(connection_map(&http, ours, &connection), 0);
    connections_run(&http);
}

static void tear_down(void)
{
    connections_run(NULL);
    close(ours);
    close(theirs);
    close(set);
    free(http.by_fd);
}

static int change(int how)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &owner};

    return epoll_ctl(set, how, ours, how == EPOLL_CTL_DEL ? NULL : &event);
}

/* Returns the events of the socket now; 0: none are reported. */
static uint32_t reported(void)
{
    struct epoll_event events[4];
    int count = epoll_wait(set, events, 4, 0);

    ck_assert_int_le(count, 1);
    ck_assert_int_ge(count, 0);
    if (count)
        ck_assert_ptr_eq(events[0].data.ptr, &owner);
    return count ? events[0].events : 0;
}

/* Adds the socket, waits until it is ready, and removes it as libmicrohttpd does. */
static void begin_taken_out(void)
{
    ck_assert_int_eq(change(EPOLL_CTL_ADD), 0);
    ck_assert_uint_eq(reported(), EPOLLOUT);
    ck_assert_int_eq(change(EPOLL_CTL_DEL), 0);
}

static bool kernel_has(void)
{
    struct epoll_event event = {.events = 0};

    if (!syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, ours, &event)) {
        ck_assert_int_eq(syscall(SYS_epoll_ctl, set, EPOLL_CTL_DEL, ours, NULL), 0);
        return false;
    }
    ck_assert_int_eq(errno, EEXIST);
    return true;
}

TEST(a_removed_socket_stays_in_the_kernel_set_until_an_event)
{
    begin_taken_out();
    ck_assert(kernel_has());
    ck_assert_uint_eq(reported(), 0);
    ck_assert_int_eq(change(EPOLL_CTL_ADD), 0);
    ck_assert_int_eq(write(theirs, "x", 1), 1);
    ck_assert_uint_eq(reported(), EPOLLIN | EPOLLOUT);
}

/* Bytes come once or several times; epoll_wait() is called meanwhile, or not. Only the first bytes
 * cause an event, after which the kernel's set does not have the socket any more. */
TEST_EACH(bytes_received_while_removed_are_reported_when_added_again, 3)
{
    static const int writes[] = {1, 3, 1};
    static const bool looks[] = {true, true, false};

    begin_taken_out();
    for (int i = 0; i < writes[_i]; i++) {
        ck_assert_int_eq(write(theirs, "x", 1), 1);
        if (looks[_i])
            ck_assert_uint_eq(reported(), 0);
    }
    ck_assert_int_eq(kernel_has(), !looks[_i]);
    ck_assert_int_eq(change(EPOLL_CTL_ADD), 0);
    ck_assert_uint_eq(reported(), EPOLLIN | EPOLLOUT);
    ck_assert_uint_eq(reported(), 0);
}

TEST(a_disconnect_while_removed_is_reported_when_added_again)
{
    begin_taken_out();
    ck_assert_int_eq(shutdown(theirs, SHUT_RDWR), 0);
    ck_assert_uint_eq(reported(), 0);
    ck_assert_uint_eq(reported(), 0);
    ck_assert_int_eq(change(EPOLL_CTL_ADD), 0);
    ck_assert(reported() & EPOLLHUP);
}

/* One edge reported both the data and the end, before the socket was removed. */
TEST(a_half_close_is_reported_each_time_the_socket_is_added_again)
{
    ck_assert_int_eq(change(EPOLL_CTL_ADD), 0);
    ck_assert_int_eq(write(theirs, "x", 1), 1);
    ck_assert_int_eq(shutdown(theirs, SHUT_WR), 0);
    ck_assert_uint_eq(reported(), EPOLLIN | EPOLLOUT);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(change(EPOLL_CTL_DEL), 0);
        ck_assert_uint_eq(reported(), 0);
        ck_assert_int_eq(change(EPOLL_CTL_ADD), 0);
        ck_assert_int_eq(http_timeout_ms(&http), 0);
        ck_assert(reported() & EPOLLIN);
    }
}

TEST(an_event_of_a_socket_removed_again_is_reported_later)
{
    begin_taken_out();
    ck_assert_int_eq(write(theirs, "x", 1), 1);
    ck_assert_uint_eq(reported(), 0);
    ck_assert_int_eq(change(EPOLL_CTL_ADD), 0);
    ck_assert_int_eq(change(EPOLL_CTL_DEL), 0);
    ck_assert_uint_eq(reported(), 0);
    ck_assert_int_eq(change(EPOLL_CTL_ADD), 0);
    ck_assert_uint_eq(reported(), EPOLLIN | EPOLLOUT);
}

/* Five sockets, of which two are reported at a time; the third is closed meanwhile. */
TEST(all_missed_events_are_reported_in_small_portions)
{
    enum { COUNT = 5, GONE = 2 };
    struct connection several[COUNT];
    struct epoll_event events[COUNT];
    int far[COUNT], told = 0, count;

    for (int i = 0; i < COUNT; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &several[i]};
        int pair[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        far[i] = pair[1];
        several[i] = (struct connection){.http = &http, .fd = pair[0]};
        ck_assert_int_eq(connection_map(&http, pair[0], &several[i]), 0);
        ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event), 0);
        ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_DEL, pair[0], NULL), 0);
        ck_assert_int_eq(write(far[i], "x", 1), 1);
    }
    ck_assert_int_eq(epoll_wait(set, events, COUNT, 0), 0);
    for (int i = 0; i < COUNT; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &several[i]};

        ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, several[i].fd, &event), 0);
    }
    connection_forget(&several[GONE]);
    while ((count = epoll_wait(set, events, 2, 0)) > 0) {
        for (int i = 0; i < count; i++)
            ck_assert_ptr_ne(events[i].data.ptr, &several[GONE]);
        told += count;
    }
    ck_assert_int_eq(told, COUNT - 1);
    for (int i = 0; i < COUNT; i++) {
        close(several[i].fd);
        close(far[i]);
    }
}

/* Its descriptor may live on: the host keeps a copy until the client has read everything. */
TEST(no_event_is_reported_for_a_closed_connection)
{
    ck_assert_int_eq(change(EPOLL_CTL_ADD), 0);
    ck_assert_int_eq(change(EPOLL_CTL_DEL), 0);
    connection_forget(&connection);
    ck_assert(!kernel_has());
    ck_assert_int_eq(change(EPOLL_CTL_ADD), 0);
    ck_assert_int_eq(connection_map(&http, ours, NULL), 0);
    ck_assert_uint_eq(reported(), 0);
    ck_assert_int_eq(change(EPOLL_CTL_DEL), 0);
    ck_assert(!kernel_has());
}

TEST(other_epoll_sets_and_sockets_are_not_intercepted)
{
    int other = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &owner};

    ck_assert_int_ge(other, 0);
    ck_assert_int_eq(epoll_ctl(other, EPOLL_CTL_ADD, ours, &event), 0);
    ck_assert_int_eq(epoll_ctl(other, EPOLL_CTL_DEL, ours, NULL), 0);
    ck_assert_int_eq(epoll_ctl(other, EPOLL_CTL_DEL, ours, NULL), -1);
    ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, theirs, &event), 0);
    ck_assert_int_eq(write(ours, "x", 1), 1);
    ck_assert_uint_eq(reported(), EPOLLIN);
    ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_DEL, theirs, NULL), 0);
    ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_DEL, theirs, NULL), -1);
    close(other);
}

SUITE(http_epoll, .before_each = set_up, .after_each = tear_down)
