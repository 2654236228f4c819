/* Datagrams to a service manager, whose part the test plays. */
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "core/lib/supervised.h"
#include "suite.h"

static struct sockaddr_un address;
static int manager;

/* Listens at the name and publishes it in the environment as a manager does. */
static void listen_at(const char *name)
{
    size_t length = strlen(name);

    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address.sun_path, name, length);
    if (*name == '@')
        address.sun_path[0] = '\0';
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(manager, 0);
    ck_assert_int_eq(bind(manager, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                     0);
    ck_assert_int_eq(setenv("NOTIFY_SOCKET", name, 1), 0);
}

/* Returns the next datagram; "" if there is none. */
static const char *heard(void)
{
    static char text[128];
    ssize_t length = recv(manager, text, sizeof text - 1, 0);

    text[length > 0 ? length : 0] = '\0';
    return text;
}

static void hears_all(void)
{
    struct timespec now;
    long long at = 0;
    int end = 0;

    sd_notify_ready();
    ck_assert_str_eq(heard(), "READY=1");
    sd_notify_reloading();
    ck_assert_int_eq(sscanf(heard(), "RELOADING=1\nMONOTONIC_USEC=%lld%n", &at, &end), 1);
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    ck_assert_int_le(at / 1000000, now.tv_sec);
    ck_assert_int_ge(at / 1000000, now.tv_sec - 60);
    sd_notify("WATCHDOG=1");
    ck_assert_str_eq(heard(), "WATCHDOG=1");
    sd_notify_stopping();
    ck_assert_str_eq(heard(), "STOPPING=1");
    ck_assert_str_eq(heard(), "");
    close(manager);
}

TEST(a_service_manager_at_a_path_is_notified)
{
    char directory[] = "/tmp/busbar-notify-XXXXXX", path[64];

    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    listen_at(path);
    hears_all();
    sd_notify_ready(); /* nobody listens any more */
    unlink(path);
    sd_notify_ready(); /* the socket does not exist any more */
    rmdir(directory);
}

TEST(a_service_manager_at_an_abstract_address_is_notified)
{
    char name[64];

    snprintf(name, sizeof name, "@busbar-notify-%d", (int)getpid());
    listen_at(name);
    hears_all();
}

TEST(the_service_manager_is_notified_without_free_descriptors)
{
    struct rlimit before, none;
    char name[64];

    snprintf(name, sizeof name, "@busbar-notify-%d", (int)getpid());
    listen_at(name);
    sd_notify_ready();
    ck_assert_str_eq(heard(), "READY=1");
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_lt(dup(manager), 0);
    sd_notify("WATCHDOG=1");
    ck_assert_str_eq(heard(), "WATCHDOG=1");
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    close(manager);
}

TEST(nothing_is_sent_without_a_service_manager)
{
    char name[64];

    snprintf(name, sizeof name, "@busbar-notify-%d", (int)getpid());
    listen_at(name);
    EACH_TEXT (other, "", "@", "relative/socket", "vsock:2:1") {
        setenv("NOTIFY_SOCKET", other, 1);
        sd_notify_ready();
    }
    unsetenv("NOTIFY_SOCKET");
    sd_notify_ready();
    ck_assert_str_eq(heard(), "");
    close(manager);
}

SUITE(sd_notify)
