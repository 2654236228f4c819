/* Names of servers: which addresses have names to resolve, and the lists that libpq is given. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lib/text.h"
#include "core/store/redis.h"
#include "core/store/resolver.h"
#include "unit_suites.h"

static struct resolver_found found;

static enum resolver_state look_until_known(struct resolver *resolver)
{
    enum resolver_state state = resolver_look_up(resolver, &found);

    for (int64_t until = clock_mono_ms() + 5000;
         state == RESOLVER_LATER && clock_mono_ms() < until;) {
        usleep(NAMES_AGAIN_MS * 1000);
        state = resolver_look_up(resolver, &found);
    }
    return state;
}

static size_t entries(const char *list)
{
    size_t count = 1;

    for (; (list = strchr(list, ',')); list++)
        count++;
    return count;
}

START_TEST(sockets_and_addresses_are_no_names)
{
    static const char *const places[] = {
        "",
        "dbname=busbar",
        "host=/run/postgresql dbname=busbar",
        "host=@abstract",
        "host=127.0.0.1",
        "host=::1 port=5432",
        "postgresql://u@[::1]:5432/busbar",
        "host=db.example.org hostaddr=10.0.0.1",
        "service=busbar host=db.example.org",
        "host=a.example.org,b.example.org,c.example.org port=1,2",
    };

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct resolver *resolver = resolver_of_database(places[i]);

        ck_assert_ptr_nonnull(resolver);
        ck_assert_msg(resolver_look_up(resolver, &found) == RESOLVER_PLAIN, "%s", places[i]);
        resolver_free(resolver);
    }
}
END_TEST

/* libpq takes the address, the port and more from these variables. */
START_TEST(the_environment_may_know_better)
{
    static const char *const variables[][2] = {
        {"PGHOSTADDR", "10.0.0.1"}, {"PGSERVICE", "busbar"}, {"PGPORT", "1,2"}};
    struct resolver *resolver;

    setenv(variables[_i][0], variables[_i][1], 1);
    resolver = resolver_of_database("host=localhost");
    ck_assert_int_eq(resolver_look_up(resolver, &found), RESOLVER_PLAIN);
    resolver_free(resolver);
}
END_TEST

START_TEST(the_environment_may_name_the_server)
{
    setenv("PGHOST", "localhost", 1);
    struct resolver *resolver = resolver_of_database("dbname=busbar port=7");

    ck_assert_int_eq(look_until_known(resolver), RESOLVER_FOUND);
    ck_assert_msg(!strncmp(found.host, "localhost", 9), "%s", found.host);
    ck_assert_msg(*found.port == '7', "%s", found.port);
    resolver_free(resolver);
}
END_TEST

START_TEST(places_of_redis_without_names)
{
    static const char *const places[] = {"", "unix:/run/redis.sock", "127.0.0.1:6379", "::1:6379"};
    struct resolver *resolver = resolver_of_redis(places[_i]);

    ck_assert_int_eq(resolver_look_up(resolver, &found), RESOLVER_PLAIN);
    resolver_free(resolver);
}
END_TEST

START_TEST(each_address_has_its_name_and_port)
{
    struct resolver *resolver = resolver_of_database("host=/tmp,localhost,10.0.0.1 port=1,2,3");

    ck_assert_int_eq(look_until_known(resolver), RESOLVER_FOUND);
    ck_assert_uint_ge(entries(found.host), 3);
    ck_assert_uint_eq(entries(found.host), entries(found.hostaddr));
    ck_assert_uint_eq(entries(found.host), entries(found.port));
    ck_assert_msg(!strncmp(found.host, "/tmp,localhost,", 15), "%s", found.host);
    ck_assert_msg(!strncmp(found.hostaddr, ",127.0.0.1,", 11) ||
                      !strncmp(found.hostaddr, ",::1,", 5),
                  "%s", found.hostaddr);
    ck_assert_msg(!strncmp(found.port, "1,2,", 4), "%s", found.port);
    ck_assert_str_eq(strrchr(found.host, ','), ",10.0.0.1");
    ck_assert_str_eq(strrchr(found.hostaddr, ','), ",");
    ck_assert_str_eq(strrchr(found.port, ','), ",3");
    resolver_free(resolver);
}
END_TEST

/* A silent server is skipped once, however many callers found it silent. */
START_TEST(servers_have_their_turns)
{
    struct resolver *resolver = resolver_of_database("host=@abstract,10.0.0.1,/tmp port=1,2,3");

    ck_assert_int_eq(resolver_look_up(resolver, &found), RESOLVER_FOUND);
    ck_assert_str_eq(found.host, "@abstract,10.0.0.1,/tmp");
    unsigned first = found.turn;

    resolver_rotate(resolver, first, "@abstract", "", "1");
    resolver_rotate(resolver, first, "@abstract", "", "1");
    ck_assert_int_eq(resolver_look_up(resolver, &found), RESOLVER_FOUND);
    ck_assert_str_eq(found.host, "10.0.0.1,/tmp,@abstract");
    ck_assert_str_eq(found.hostaddr, ",,");
    ck_assert_str_eq(found.port, "2,3,1");
    resolver_rotate(resolver, found.turn, "/tmp", "", "3");
    resolver_rotate(resolver, found.turn + 1, "x", "", "1");
    ck_assert_int_eq(resolver_look_up(resolver, &found), RESOLVER_FOUND);
    ck_assert_str_eq(found.host, "@abstract,10.0.0.1,/tmp");
    resolver_free(resolver);
}
END_TEST

/* Long names, as of cloud servers; written as 127.0.0.1 in octal, so no name server is needed. */
START_TEST(many_long_names_have_room)
{
    enum { NAMES = RESOLVER_HOSTS_MAX - 1, SIZE = 2048 };
    char place[SIZE] = "host=";

    for (size_t i = 0, used = strlen(place); i < NAMES; i++)
        used += (size_t)snprintf(place + used, SIZE - used, "%0100d.0.0.1,", 177);
    strncat(place, "/tmp", SIZE - strlen(place) - 1);
    struct resolver *resolver = resolver_of_database(place);

    ck_assert_int_eq(look_until_known(resolver), RESOLVER_FOUND);
    ck_assert_uint_eq(entries(found.host), RESOLVER_HOSTS_MAX);
    ck_assert_str_eq(strrchr(found.host, ','), ",/tmp");
    resolver_free(resolver);
}
END_TEST

START_TEST(one_that_is_not_found_leaves_the_others)
{
    struct resolver *resolver = resolver_of_database("host=nowhere.invalid,/tmp port=7"),
                    *none = resolver_of_redis("nowhere.invalid:6379");

    ck_assert_int_eq(look_until_known(resolver), RESOLVER_FOUND);
    ck_assert_str_eq(found.host, "/tmp");
    ck_assert_str_eq(found.hostaddr, "");
    ck_assert_str_eq(found.port, "7");
    ck_assert_int_eq(look_until_known(none), RESOLVER_NONE);
    resolver_free(resolver);
    resolver_free(none);
}
END_TEST

static uint32_t redis_peer(const struct redis_settings *settings, unsigned turn)
{
    struct sockaddr_in peer = {.sin_family = AF_INET};
    socklen_t size = sizeof peer;
    struct pollfd ready = {.fd = redis_socket(settings, turn), .events = POLLOUT};
    int fd = ready.fd;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(poll(&ready, 1, 5000), 1);
    ck_assert_msg(!getpeername(fd, (struct sockaddr *)&peer, &size), "%s", strerror(errno));
    close(fd);
    return ntohl(peer.sin_addr.s_addr);
}

/* The first address may be dead for a long time. */
START_TEST(addresses_of_redis_have_their_turns)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t size = sizeof any;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char port[8];

    ck_assert(!listen(listener, 8) && !getsockname(listener, (struct sockaddr *)&any, &size));
    snprintf(port, sizeof port, "%d", ntohs(any.sin_port));
    struct redis_settings settings = {.url = "", .resolver = resolver_new("127.1,127.2", port)};

    ck_assert_int_eq(look_until_known(settings.resolver), RESOLVER_FOUND);
    ck_assert_uint_eq(redis_peer(&settings, 0), 0x7F000001);
    ck_assert_uint_eq(redis_peer(&settings, 1), 0x7F000002);
    ck_assert_uint_eq(redis_peer(&settings, 2), 0x7F000001);
    resolver_free(settings.resolver);
    close(listener);
}
END_TEST

Suite *resolver_suite(void)
{
    Suite *suite = suite_create("resolver");
    TCase *tests = tcase_create("all");

    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, sockets_and_addresses_are_no_names);
    tcase_add_loop_test(tests, places_of_redis_without_names, 0, 4);
    tcase_add_loop_test(tests, the_environment_may_know_better, 0, 3);
    tcase_add_test(tests, many_long_names_have_room);
    tcase_add_test(tests, the_environment_may_name_the_server);
    tcase_add_test(tests, servers_have_their_turns);
    tcase_add_test(tests, each_address_has_its_name_and_port);
    tcase_add_test(tests, one_that_is_not_found_leaves_the_others);
    tcase_add_test(tests, addresses_of_redis_have_their_turns);
    suite_add_tcase(suite, tests);
    return suite;
}
