/* Networks, the client address behind proxies, origins. */
#include <arpa/inet.h>
#include <sys/un.h>

#include "core/lib/listener.h"
#include "fixture.h"
#include "suite.h"

static char why[160];

static struct cidr_list *list_of(const char *json)
{
    json_t *texts = json_loads(json, 0, NULL);
    struct cidr_list *list = cidr_list_new(arena, texts, why, sizeof(why));

    json_decref(texts);
    return list;
}

TEST(networks_contain_their_addresses)
{
    struct cidr_list *list =
        list_of("[\"10.0.0.0/8\",\"192.168.1.128/25\",\"::1\",\"2001:db8::/33\",\"1.2.3.4\"]");

    ck_assert_msg(list != NULL, "%s", why);
    EACH_TEXT (in, "10.0.0.0", "10.255.255.255", "192.168.1.128", "::1", "1.2.3.4",
               "::ffff:10.1.2.3", "2001:db8:7fff::1")
        ck_assert_msg(address_in(list, in), "%s", in);
    EACH_TEXT (out, "11.0.0.0", "9.255.255.255", "192.168.1.127", "::2", "1.2.3.5", "::10.1.2.3",
               "2001:db8:8000::1", "::")
        ck_assert_msg(!address_in(list, out), "%s", out);
    ck_assert(address_in(list_of("[\"0.0.0.0/0\"]"), "8.8.8.8"));
    ck_assert(!address_in(list_of("[\"0.0.0.0/0\"]"), "::1"));
    ck_assert(address_in(list_of("[\"::/0\"]"), "::1"));
    ck_assert(!address_in(list_of("[]"), "::1"));
}

TEST(bad_networks_are_refused)
{
    EACH_TEXT (bad, "[\"\"]", "[\"x\"]", "[\"10.0.0.0/33\"]", "[\"10.0.0.1/8\"]", "[\"10.0.0.0/\"]",
               "[\"10.0.0.0/-1\"]", "[\"10.0.0/8\"]", "[5]", "[\"::/129\"]", "[\"010.0.0.0/8\"]",
               "[\"10.0.0.0/8x\"]", "[\"10.0.0.0/0008\"]", "[\"/8\"]")
        ck_assert_msg(!list_of(bad), "%s", bad);
    ck_assert_ptr_null(list_of("[\"::1\",\"nonsense\"]"));
    ck_assert_str_eq(why, "entry 2 is not an IP network");
}

TEST(the_client_is_the_rightmost_untrusted_hop)
{
    static const struct {
        const char *peer, *forwarded, *client;
    } rows[] = {{"8.8.8.8", "1.1.1.1", "8.8.8.8"},
                {"10.0.0.1", NULL, "10.0.0.1"},
                {"10.0.0.1", "", "10.0.0.1"},
                {"10.0.0.1", "1.1.1.1", "1.1.1.1"},
                {"10.0.0.1", "6.6.6.6, 1.1.1.1", "1.1.1.1"},
                {"10.0.0.1", "6.6.6.6,\t1.1.1.1 , 10.0.0.2", "1.1.1.1"},
                {"10.0.0.1", "junk, 1.1.1.1, 10.0.0.2", "1.1.1.1"},
                {"10.0.0.1", "1.1.1.1, junk", "10.0.0.1"},
                {"10.0.0.1", "junk, 10.0.0.2", "10.0.0.1"},
                {"10.0.0.1", "1.1.1.1,", "10.0.0.1"},
                {"10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
                {"10.0.0.1", "1.1.1.1:4711", "1.1.1.1"},
                {"10.0.0.1", "[2001:DB8::1]:80", "2001:db8::1"},
                {"10.0.0.1", "[2001:db8::1]", "2001:db8::1"},
                {"10.0.0.1", "2001:db8::1", "2001:db8::1"},
                {"10.0.0.1", "::ffff:1.1.1.1", "1.1.1.1"},
                {"10.0.0.1", "[1.1.1.1]", "10.0.0.1"},
                {"10.0.0.1", "[::1", "10.0.0.1"},
                {"10.0.0.1", "[::1]x", "10.0.0.1"},
                {"10.0.0.1", "1.1.1.1:", "10.0.0.1"},
                {"10.0.0.1", "1.1.1.1:x", "10.0.0.1"},
                {"10.0.0.1", "1.1.1.1 2.2.2.2", "10.0.0.1"},
                {"::ffff:10.0.0.1", "1.1.1.1", "1.1.1.1"}};
    struct cidr_list *trusted = list_of("[\"10.0.0.0/8\"]");
    char out[INET6_ADDRSTRLEN];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_str_eq(address_client(trusted, rows[i].peer, rows[i].forwarded, out),
                         rows[i].client);
    ck_assert_str_eq(address_client(NULL, "::1", "1.1.1.1", out), "::1");
}

static bool one_network(const char *a, const char *b)
{
    struct in6_addr first = address_network(a), second = address_network(b);

    return !memcmp(&first, &second, sizeof(first));
}

TEST(ipv6_clients_are_grouped_by_their_first_64_bits)
{
    ck_assert(one_network("2001:db8:1:2::1", "2001:db8:1:2:ffff::7"));
    ck_assert(!one_network("2001:db8:1:2::1", "2001:db8:1:3::1"));
    ck_assert(one_network("10.0.0.1", "::ffff:10.0.0.1"));
    ck_assert(!one_network("10.0.0.1", "10.0.0.2"));
    ck_assert(!one_network("10.0.0.1", "unknown"));
    ck_assert(one_network("unknown", ""));
}

TEST(peers_are_written_as_text)
{
    const struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    char out[INET6_ADDRSTRLEN];

    EACH_TEXT (address, "::1", "2001:db8:1:2::1", "::ffff:10.0.0.1") {
        ck_assert_int_eq(inet_pton(AF_INET6, address, &six.sin6_addr), 1);
        address_text((const struct sockaddr *)&six, out);
        ck_assert_str_eq(out, strchr(address, '.') ? "10.0.0.1" : address);
    }
    ck_assert_int_eq(inet_pton(AF_INET, "10.0.0.2", &four.sin_addr), 1);
    address_text((const struct sockaddr *)&four, out);
    ck_assert_str_eq(out, "10.0.0.2");
    address_text((const struct sockaddr *)&local, out);
    ck_assert_str_eq(out, "unknown");
    ck_assert_str_eq(address_client(list_of("[\"10.0.0.0/8\"]"), out, "1.1.1.1", (char[64]){0}),
                     "unknown");
}

TEST(origins_are_compared_exactly)
{
    json_t *origins = json_pack("[s,s,s,i]", "https://app.example.org", "null", "*", 5);

    ck_assert(origin_allowed(origins, "https://app.example.org"));
    EACH_TEXT (other, "https://app.example.org.evil.com", "https://app.example.or",
               "http://app.example.org", "https://app.example.org:444", "https://APP.example.org",
               "null", "*", "")
        ck_assert_msg(!origin_allowed(origins, other), "%s", other);
    ck_assert(!origin_allowed(origins, NULL));
    ck_assert(!origin_allowed(NULL, "https://app.example.org"));
    json_decref(origins);
}

SUITE(address, .before_each = arena_setup, .after_each = arena_teardown)
