#include <netinet/in.h>
#include <sys/socket.h>

#include "core/lib/listener.h"
#include "suite.h"

static struct listeners listeners;

static in_port_t port_of(int fd)
{
    struct sockaddr_in6 address = {.sin6_family = AF_UNSPEC};
    socklen_t length = sizeof address;

    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    return address.sin6_port; /* at the same offset in both address families */
}

static bool connects(const struct sockaddr *address, socklen_t length)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    bool connected = !connect(fd, address, length);

    close(fd);
    return connected;
}

/* localhost, for example, is ::1 for one client and 127.0.0.1 for the next. */
TEST(the_listener_opens_every_address_of_a_host_name)
{
    ck_assert_int_eq(listeners_open(&listeners, ":0", 1), 0);
    in_port_t port = port_of(listeners.fds[0]);
    struct sockaddr_in four = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

    ck_assert(connects((struct sockaddr *)&four, sizeof four));
    ck_assert(connects((struct sockaddr *)&six, sizeof six));
    listeners_close(&listeners);
    ck_assert(!connects((struct sockaddr *)&four, sizeof four));
    ck_assert(!connects((struct sockaddr *)&six, sizeof six));
}

TEST(a_port_in_use_is_refused)
{
    struct listeners other;
    char address[32];

    ck_assert_int_eq(listeners_open(&listeners, "127.0.0.1:0", 1), 0);
    ck_assert_uint_eq(listeners.count, 1);
    snprintf(address, sizeof address, ":%d", ntohs(port_of(listeners.fds[0])));
    ck_assert_int_eq(listeners_open(&other, address, 1), -1);
    ck_assert_uint_eq(other.count, 0);
    listeners_close(&listeners);
}

SUITE(listener)
