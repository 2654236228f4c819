/* The target guard: which targets may be registered, and which may be connected to. */
#include <arpa/inet.h>

#include "modules/common/target.h"
#include "suite.h"

static struct target_rules strict; /* allows only the public Internet */
static struct target_rules loopback;
static json_t *ports;

static void setup(void)
{
    json_t *networks = json_pack("[s, s]", "127.0.0.0/8", "::1");
    char why[128];

    ports = json_pack("[i]", 6379);
    ck_assert_int_eq(target_rules_read(&strict, NULL, NULL, NULL, why, sizeof(why)), 0);
    ck_assert_int_eq(target_rules_read(&loopback, networks, ports, NULL, why, sizeof(why)), 0);
    json_decref(networks);
}

static void teardown(void)
{
    json_decref(ports);
    target_rules_free(&strict);
    target_rules_free(&loopback);
}

#define TAKES(rules, url)                                                                          \
    ck_assert_msg(!target_problem((rules), (url)), "%s: %s", (url), target_problem((rules), (url)))
#define REFUSES(rules, url) ck_assert_msg(target_problem((rules), (url)) != NULL, "%s", (url))

TEST(public_names_and_addresses_are_accepted)
{
    EACH_TEXT (url, "http://example.com", "https://example.com/hook?x=1&y=%20",
               "HTTPS://Example.COM:8443/a/b", "http://1.1.1.1/",
               "http://[2001:4860:4860::8888]:8080/", "http://xn--mnchen-3ya.de/",
               "http://example.com./", "http://localhost.example.com/", "http://example.com/@user",
               "http://3com.example.com/")
        TAKES(&strict, url);
}

TEST(local_addresses_are_refused_in_every_spelling)
{
    EACH_TEXT (url, "http://127.0.0.1/", "http://localhost", "http://LOCALHOST:80/",
               "http://a.localhost/", "http://localhost./", "http://[::1]/", "http://0.0.0.0/",
               "http://0/", "http://127.1/", "http://2130706433/", "http://0x7f.1/",
               "http://0x7f000001/", "http://0177.0.0.1/", "http://127.0.0.1./", "http://127.1../",
               "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::127.0.0.1]/",
               "http://①②⑦.0.0.1/", "http://１２７.0.0.1/", "http://127。0。0。1/",
               "http://%31%32%37.0.0.1/", "http://127.0.0.1%2e/", "http://[fe80::1%25eth0]/",
               "http://[::]/", "http://10.1.2.3/", "http://169.254.169.254/latest/meta-data/",
               "http://[fc00::1]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/",
               "http://1.2.3.4.5/", "http://127.0.0.1.1/", "http://0x7f.0x0.0x0.0x1/",
               "http://017700000001/", "http://4294967296/", "http://[::ffff:0:127.0.0.1]/")
        REFUSES(&strict, url);
}

TEST(other_schemes_and_forms_are_refused)
{
    EACH_TEXT (url, "", "http:", "http://", "https:///x", "http://:80/", "example.com/hook",
               "//example.com/hook", "file:///etc/passwd", "gopher://example.com/",
               "ftp://example.com/", "dict://example.com:11211/", "javascript:alert(1)",
               "http:/example.com", "http:///example.com", "http://user:pw@example.com/",
               "http://user@example.com/", "http://:@example.com/", "http://@example.com/",
               "http://a@127.0.0.1#@b", "http://example.com\\@127.0.0.1/", "http://exa\\mple.com/",
               "http://example.com/\r\nX: y", "http://example.com/\t", " http://example.com/",
               "http://example.com/a b", "http://example.com/\x7f", "http://example.com/\xc2\x85",
               "http://exa mple.com/", "http://example.com:0/", "http://example.com:65536/",
               "http://example.com:80x/", "http://example.com:-1/", "http://.../")
        REFUSES(&strict, url);
}

TEST(a_url_has_at_most_2048_characters)
{
    char url[2 * TARGET_URL_MAX + 64] = "http://example.com/";
    size_t length = strlen(url);

    memset(url + length, 'a', TARGET_URL_MAX - length);
    TAKES(&strict, url);
    url[TARGET_URL_MAX] = 'a';
    REFUSES(&strict, url);
    for (size_t i = length; i < 2 * TARGET_URL_MAX - length; i += 2)
        memcpy(url + i, "\xc3\xa4", 2); /* characters, not bytes */
    url[2 * TARGET_URL_MAX - length] = '\0';
    TAKES(&strict, url);
}

TEST(ports_of_other_services_are_refused_unless_allowed)
{
    EACH_TEXT (url, "http://example.com:22/", "http://example.com:25/", "http://example.com:5432/",
               "http://example.com:6379/")
        REFUSES(&strict, url);
    TAKES(&strict, "http://example.com:8080/");
    TAKES(&loopback, "http://example.com:6379/");
    REFUSES(&loopback, "http://example.com:5432/");
}

TEST(allow_networks_permits_addresses)
{
    EACH_TEXT (url, "http://127.0.0.1:9000/", "http://127.1:9000/", "http://localhost:9000/",
               "http://[::1]:9000/", "http://[::ffff:127.0.0.1]:9000/")
        TAKES(&loopback, url);
    REFUSES(&loopback, "http://10.0.0.1/");
}

TEST(an_entry_may_have_several_networks_and_all_ports)
{
    json_t *networks = json_pack("[s]", "10.0.0.0/8, 192.168.0.0/16");
    json_t *open = json_pack("[s]", "127.0.0.0/8");
    struct target_rules rules;
    char why[128];

    ck_assert_int_eq(target_rules_read(&rules, networks, NULL, open, why, sizeof(why)), 0);
    EACH_TEXT (url, "http://10.1.2.3/", "http://192.168.1.2/", "http://127.0.0.1:6000/",
               "http://127.0.0.1:22/", "http://localhost:9200/")
        TAKES(&rules, url);
    EACH_TEXT (url, "http://127.0.0.1:0/", "https://[::ffff:127.0.0.1]:00/",
               "http://name.example:0/", "http://10.1.2.3:6000/", "http://1.1.1.1:9200/",
               "http://172.16.0.1/")
        REFUSES(&rules, url);
    target_rules_free(&rules);
    json_decref(networks);
    json_decref(open);
}

TEST(invalid_network_lists_are_refused)
{
    struct target_rules rules;
    char why[128];

    EACH_TEXT (networks, "10.0.0.1/8", "10.0.0.0/33", "x", "::1/129", "1.2.3", "10.0.0.0/",
               "10.0.0.0/-1", "127.1", "::/0x", "", "10.0.0.0/8,", "10.0.0.0/8,,::1") {
        json_t *list = json_pack("[s]", networks);

        ck_assert_msg(target_rules_read(&rules, list, NULL, NULL, why, sizeof(why)) == -1, "%s",
                      networks);
        json_decref(list);
    }
}

/* Returns whether the guard permits a socket to connect to the address. */
static bool connects(const struct target_rules *rules, const char *text, int port)
{
    struct target_guard guard = {.rules = rules};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return target_allowed(&guard, (const struct sockaddr *)(const void *)&four);
    ck_assert_msg(inet_pton(AF_INET6, text, &six.sin6_addr) == 1, "%s", text);
    return target_allowed(&guard, (const struct sockaddr *)(const void *)&six);
}

/* The addresses next to the special networks, and the first and last address of each of them. */
TEST(connections_to_special_networks_are_refused_from_the_first_to_the_last_address)
{
    EACH_TEXT (public, "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
               "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255",
               "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.1.255", "192.0.3.0",
               "192.31.195.255", "192.31.197.0", "192.52.192.255", "192.52.194.0", "192.88.98.255",
               "192.88.100.0", "192.167.255.255", "192.169.0.0", "192.175.47.255", "192.175.49.0",
               "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255",
               "203.0.114.0", "223.255.255.255", "2000::", "2000:ffff::", "2001:200::",
               "2001:db7:ffff::", "2001:db9::", "2001:ffff::", "2003::", "2620:4f:7fff::",
               "2620:4f:8001::", "3ffe:ffff::", "3fff:1000::", "3fff:ffff::")
        ck_assert_msg(connects(&strict, public, 443), "%s", public);
    EACH_TEXT (special, "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0",
               "100.127.255.255", "127.0.0.0", "127.255.255.255", "169.254.0.0", "169.254.255.255",
               "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.255", "192.0.2.0",
               "192.0.2.255", "192.31.196.0", "192.31.196.255", "192.52.193.0", "192.52.193.255",
               "192.88.99.0", "192.88.99.255", "192.168.0.0", "192.168.255.255", "192.175.48.0",
               "192.175.48.255", "198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255",
               "203.0.113.0", "203.0.113.255", "224.0.0.0", "239.255.255.255", "240.0.0.0",
               "255.255.255.255", "::", "1fff:ffff::", "2001::", "2001:1ff:ffff::", "2001:db8::",
               "2001:db8:ffff::", "2002::", "2002:ffff::", "2620:4f:8000::", "2620:4f:8000:ffff::",
               "3fff::", "3fff:fff::", "4000::", "ffff:ffff::")
        ck_assert_msg(!connects(&strict, special, 443), "%s", special);
}

/* The sum changes with each entry of the list of refused ports. */
TEST(connections_to_ports_of_known_services_are_refused)
{
    struct target_guard guard = {.rules = &strict};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x01010101)};
    int refused = 0, sum = 0;

    for (int port = 0; port < 65536; port++) {
        at.sin_port = htons((uint16_t)port);
        bool open = target_allowed(&guard, (const struct sockaddr *)(const void *)&at);

        ck_assert_msg(port > 1023 || open == (port == 80 || port == 443), "%d", port);
        refused += port > 1023 && !open;
        sum += port > 1023 && !open ? port : 0;
    }
    ck_assert(refused == 46 && sum == 310032);
}

/* The list of the machine's addresses is replaced by one with a public address. */
TEST(connections_to_the_machine_itself_are_refused)
{
    struct target_guard guard = {.rules = &strict};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(80)};
    const struct sockaddr *address = (const struct sockaddr *)(const void *)&at;
    bool found = false;

    at.sin_addr.s_addr = htonl(0x01010101);
    ck_assert(target_allowed(&guard, address) && guard.own_known);
    for (size_t i = 0; i < guard.own_count; i++)
        found |= IN6_IS_ADDR_V4MAPPED(&guard.own[i]) && guard.own[i].s6_addr[12] == 127;
    ck_assert(found && guard.own_until_s > 0);
    guard.own_until_s = INT64_MAX;
    guard.own_count = 2;
    ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:1.1.1.1", &guard.own[1]), 1);
    ck_assert(!target_allowed(&guard, address));
    guard.own_count = 1;
    ck_assert(target_allowed(&guard, address));
    guard.own_known = false;
    ck_assert(!target_allowed(&guard, address));
}

TEST(connections_obey_the_settings)
{
    struct target_guard guard = {.rules = &loopback};
    struct sockaddr local = {.sa_family = AF_UNIX};

    ck_assert(connects(&loopback, "127.0.0.1", 9000));
    ck_assert(connects(&loopback, "::1", 6379));
    ck_assert(connects(&loopback, "::ffff:127.0.0.1", 9000));
    ck_assert(!connects(&loopback, "127.0.0.1", 5432));
    ck_assert(!connects(&loopback, "10.0.0.1", 80));
    ck_assert(!connects(&strict, "1.1.1.1", 22));
    ck_assert(!target_allowed(&guard, &local));
}

TEST(a_refused_address_gets_no_socket)
{
    struct target_guard guard = {.rules = &strict};
    struct target_socket state = {.guard = &guard};
    struct curl_sockaddr address = {.family = AF_INET, .socktype = SOCK_STREAM};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(80)};

    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.addrlen = sizeof(four);
    memcpy(&address.addr, &four, sizeof(four));
    ck_assert_int_eq(target_open_socket(&state, CURLSOCKTYPE_IPCXN, &address), CURL_SOCKET_BAD);
    ck_assert(state.refused);
}

TEST(urls_are_percent_encoded_like_in_browsers)
{
    static const char *const pairs[][2] = {
        {"http://a.example", "http://a.example"},
        {"http://A.example:80/%c3%BC/../b?", "http://A.example:80/%c3%BC/../b?"},
        {"https://a.example/%zz?%", "https://a.example/%zz?%"},
        {"http://a.example/\xC3\xBC", "http://a.example/%C3%BC"},
        {"  http://a.example/x  ", "http://a.example/x"},
        {"http://a.example?q=\xE2\x82\xAC", "http://a.example/?q=%E2%82%AC"},
        {"http://a.example:8080/a b\"<>^`{}'|?c d\"<>'^`{}|?#e f\"<>`'{}",
         "http://a.example:8080/a%20b%22%3C%3E%5E%60%7B%7D'|"
         "?c%20d%22%3C%3E%27^`{}|?#e%20f%22%3C%3E%60'{}"},
        {"http://[2001:db8::1]/\xC3\xBC", "http://[2001:db8::1]/%C3%BC"},
        /* target_problem() refuses these */
        {"http://user@a.example/\xC3\xBC", "http://user@a.example/%C3%BC"},
        {"http://[fe80::1%25eth0]/\xC3\xBC", "http://[fe80::1%25eth0]/%C3%BC"},
        {"http://a b.example/", "http://a b.example/"},
        {"", ""},
    };

    for (size_t i = 0; i < COUNT(pairs); i++) {
        char *encoded = target_encode(pairs[i][0]);

        ck_assert_str_eq(encoded, pairs[i][1]);
        free(encoded);
    }
}

SUITE(webhook_target, .before_each = setup, .after_each = teardown)
