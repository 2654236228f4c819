/* Requests of modules to other servers: the request sent, the response received, and refusals. */
#include "exchange.h"
#include "relay.h"

static struct host *open_host;

static void set_up(void)
{
    struct host_spec open = relay_spec("upstream", RELAY_LOCAL);

    open_host = relay_start(&open);
}

/* ---- requests ---- */

TEST(a_request_is_sent_as_the_module_made_it)
{
    struct catcher *catcher = catcher_of(ANSWER_OK);
    struct answer *answer = relay(open_host, "{ss ss ss s{ss ss ss}}", "method", "POST", "url",
                                  catcher_url(catcher, "a/../b?c=d%20e\xC3\xBC"), "text",
                                  "{\"n\":1}", "headers", "Content-Type", "application/json",
                                  "X-Empty", "", "Authorization", "Bearer of-the-other-server");
    const struct caught *caught = catcher_wait(catcher, 1, 5000);

    ck_assert_int_eq(answer_int(ck_status(answer, 200), "status"), 200);
    ck_assert_ptr_nonnull(strstr(caught->head, "POST /a/../b?c=d%20e%C3%BC HTTP/1.1\r\n"));
    ck_assert_str_eq(caught_header(caught, "Host"), text("127.0.0.1:%d", catcher->port));
    ck_assert_str_eq(caught_header(caught, "Content-Type"), "application/json");
    ck_assert_str_eq(caught_header(caught, "Authorization"), "Bearer of-the-other-server");
    ck_assert_str_eq(caught_header(caught, "X-Empty"), "");
    ck_assert_str_eq(caught_header(caught, "Content-Length"), "7");
    ck_assert_str_eq(caught->body, "{\"n\":1}");
    ck_assert_int_eq((int)strlen(caught_header(caught, "traceparent")), 55);
    ck_assert_ptr_nonnull(strstr(caught_header(caught, "User-Agent"), "busbar/"));
    ck_assert_ptr_null(caught_header(caught, "Expect"));
}

/* Without a body, only methods that usually have one send a Content-Length. */
static const struct {
    const char *method, *length;
} bodiless[] = {{"GET", NULL}, {"HEAD", NULL}, {"OPTIONS", NULL}, {"DELETE", NULL},
                {"POST", "0"}, {"PUT", "0"},   {"PATCH", "0"},    {"PROPFIND", NULL}};

TEST_EACH(each_method_is_sent, sizeof(bodiless) / sizeof(bodiless[0]))
{
    struct catcher *catcher = catcher_of(ANSWER_OK);
    const char *length = bodiless[_i].length;

    ck_status(relay(open_host, "{ss ss ss*}", "method", bodiless[_i].method, "url",
                    catcher_url(catcher, ""), "text",
                    strcmp(bodiless[_i].method, "HEAD") != 0 ? NULL : ""),
              200);
    const struct caught *caught = catcher_wait(catcher, 1, 5000);
    const char *said = caught_header(caught, "Content-Length");

    ck_assert(!strncmp(caught->head, text("%s / HTTP/1.1", bodiless[_i].method),
                       strlen(bodiless[_i].method) + strlen(" / HTTP/1.1")));
    ck_assert_msg(length ? said && !strcmp(said, length) : !said, "%s", caught->head);
    ck_assert_ptr_null(caught_header(caught, "Content-Type"));
    ck_assert_ptr_null(caught_header(caught, "Transfer-Encoding"));
}

TEST(connections_are_reused)
{
    struct catcher *catcher = catcher_of(ANSWER_OK);

    ck_status(relay(open_host, "{ss si}", "url", catcher_url(catcher, ""), "times", 5), 200);
    ck_assert_int_eq((int)catcher_count(catcher), 5);
    ck_assert_int_eq((int)catcher_connections(catcher), 1);
}

/* ---- responses ---- */

TEST(a_response_is_returned_completely)
{
    static const char continued[] =
        "HTTP/1.1 103 Early Hints\r\nLink: </early>\r\nX-Early: 1\r\n\r\n"
        "HTTP/1.1 418 Tea\r\nContent-Type: text/tea\r\nX-Twice: a\r\nX-TWICE: b\r\n"
        "Transfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n"
        "4\r\nstro\r\n2\r\nng\r\n0\r\nX-Late: 1\r\n\r\n";
    struct catcher *catcher = catcher_of(continued);
    struct answer *answer =
        ck_status(relay(open_host, "{ss}", "url", catcher_url(catcher, "")), 200);

    expect_json(answer->json, "{'status':418,'body':'strong','length':6,'type':'text/tea'}");
    ck_assert_str_eq(relay_header(answer, "x-twice"), "a");
    ck_assert_ptr_null(relay_header(answer, "x-early"));
    ck_assert_ptr_null(relay_header(answer, "x-late"));
}

TEST(a_redirect_is_returned_and_not_followed)
{
    struct catcher *other = catcher_of(ANSWER_OK);
    struct catcher *catcher = catcher_of(text(
        "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", catcher_url(other, "")));
    struct answer *answer =
        ck_status(relay(open_host, "{ss}", "url", catcher_url(catcher, "")), 200);

    ck_assert_int_eq(answer_int(answer, "status"), 302);
    ck_assert_str_eq(relay_header(answer, "location"), catcher_url(other, ""));
    ck_assert_int_eq((int)catcher_count(other), 0);
}

static const char *sized(int length)
{
    return text("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length,
                text_repeated("x", (size_t)length));
}

static const char whole[] = "HTTP/1.1 200 OK\r\nX-Name: value\r\nConnection: close\r\n\r\nbody";
enum { HEAD_LENGTH = sizeof(whole) - sizeof("body") };

/* The limit is set by the request or by the settings, 1 MiB. */
static const struct {
    int most, length;
    bool fits;
} sizes[] = {{10, 0, true},      {10, 1, true},           {10, 10, true},     {10, 11, false},
             {0, 65536, true},   {0, 1048575, true},      {0, 1048576, true}, {0, 1048577, false},
             {1, 100000, false}, {2097152, 1048577, true}};

TEST_EACH(a_response_body_has_a_size_limit, sizeof(sizes) / sizeof(sizes[0]))
{
    struct catcher *catcher = catcher_of(sized(sizes[_i].length));
    struct answer *answer =
        relay_tells(open_host, "{ss si}", "url", catcher_url(catcher, ""), "most", sizes[_i].most);

    ck_assert_int_eq(answer_int(answer, "status"), sizes[_i].fits ? 200 : 0);
    ck_assert_int_eq(answer_int(answer, "length"), sizes[_i].fits ? sizes[_i].length : 0);
    if (!sizes[_i].fits)
        ck_assert_str_eq(answer_text(answer, "error"), "The response is too large");
}

TEST(a_response_head_has_a_size_limit)
{
    static const int lengths[] = {1000, 32720, 32721}; /* the other bytes are 48 */

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct catcher *catcher = catcher_start(
            (const char *const[]){text("HTTP/1.1 200 OK\r\nX-Long: %s\r\nContent-Length: 0\r\n\r\n",
                                       text_repeated("h", (size_t)lengths[i])),
                                  NULL});
        struct answer *answer = relay_tells(open_host, "{ss}", "url", catcher_url(catcher, ""));

        ck_assert_int_eq(answer_int(answer, "status"), lengths[i] <= 32720 ? 200 : 0);
    }
}

static const char *const garbage[] = {
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw",
    "HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n0123456789",
    "no HTTP at all\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Length: 20\r\n\r\n0123456789",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
};

TEST_EACH(a_malformed_response_is_reported, sizeof(garbage) / sizeof(garbage[0]))
{
    struct catcher *catcher = catcher_of(garbage[_i]);
    struct answer *answer =
        relay(open_host, "{ss si}", "url", catcher_url(catcher, ""), "timeout", 8000);

    ck_assert_int_ge(answer->status, 502);
    catcher_wait(catcher, 1, 5000);
    ck_assert_int_eq((int)catcher_count(catcher), 1);
}

/* The body ends with the connection, so a response is complete once its head is. */
TEST(a_truncated_response_head_is_a_failure)
{
    for (size_t length = 0; length < sizeof(whole); length++) {
        struct catcher *catcher = catcher_of(text(ANSWER_CUT "%.*s", (int)length, whole));
        struct answer *answer =
            relay_tells(open_host, "{ss ss}", "method", "POST", "url", catcher_url(catcher, ""));

        ck_assert_msg(answer_int(answer, "status") == (length < HEAD_LENGTH ? 0 : 200),
                      "%zu bytes: %s", length, answer->body);
    }
}

TEST(malformed_response_headers_are_omitted)
{
    struct catcher *catcher =
        catcher_of("HTTP/1.1 200 OK\r\nX-Good: 1\r\n: none\r\nX Bad: 2\r\nX-Worse: \x01\r\n"
                   "Content-Length: 0\r\n\r\n");
    struct answer *answer =
        ck_status(relay(open_host, "{ss}", "url", catcher_url(catcher, "")), 200);

    ck_assert_str_eq(relay_header(answer, "x-good"), "1");
    ck_assert_int_eq((int)json_array_size(json_object_get(answer->json, "headers")), 2);
}

/* ---- refusals ---- */

/* The unit test webhook_target has all forms of such URLs. */
TEST(forbidden_addresses_and_ports_are_refused)
{
    struct catcher *catcher = catcher_of(ANSWER_OK);
    struct host_spec spec =
        relay_spec("upstream_ports", "upstream:\n  allow_networks: [\"127.0.0.0/8\"]\n"
                                     "  allow_ports: [6379]\n");
    struct host *host = relay_start(&spec);

    ck_status(relay(host, "{ss}", "url", catcher_url(catcher, "")), 200);
    EACH_TEXT (url, "http://127.0.0.1:22/", "http://[::1]/")
        ck_error(relay(host, "{ss}", "url", url), 502, "The URL of the request must");
    ck_error(relay(host, "{ss}", "url", "http://127.0.0.1:6379/"), 502, "Could");
}

TEST(the_default_rules_refuse_the_machine_itself)
{
    struct host_spec spec = relay_spec("upstream_closed", NULL);

    ck_error(relay(relay_start(&spec), "{ss}", "url", "http://127.0.0.1/"), 502,
             "The URL of the request must");
}

#define URL "url", "http://127.0.0.1:9/"

TEST(invalid_methods_and_headers_are_refused)
{
    static const char *const names[] = {
        "",     "a b",    "a:",         "a\r\nb",         "h\xC3\xA4",
        "Host", "EXPECT", "Connection", "content-length", "Transfer-Encoding"};

    EACH_TEXT (method, "get", "", "GE T", "GET\r\nX: y", "CONNECT", "TRACE",
               "MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM")
        ck_error(relay(open_host, "{ss ss}", URL, "method", method), 502, "The method of the");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ck_error(relay(open_host, "{ss s{ss}}", URL, "headers", names[i], "x"), 502,
                 i < 5 ? "A header of the request" : "The request must not contain");
    ck_error(relay(open_host, "{ss ss ss}", URL, "method", "HEAD", "text", "x"), 502,
             "A HEAD request must not have a body");
    ck_error(relay(open_host, "{ss s{ss}}", URL, "headers", "X-A", "b\r\nX-C: d"), 502,
             "A header of the request");
    ck_error(relay(open_host, "{ss s{ss}}", URL, "headers", "X-A", "\x7F"), 502,
             "A header of the request");
}

TEST(a_request_has_limited_headers_and_body)
{
    struct catcher *catcher = catcher_of(ANSWER_OK);
    const char *url = catcher_url(catcher, "");
    const char *long_text = text_repeated("b", (16 << 20) + 1);

    for (int count = 63; count <= 65; count++) {
        json_t *headers = json_object();

        for (int i = 0; i < count; i++)
            json_object_set_new(headers, text("X-%d", i), json_string("1"));
        ck_status(relay(open_host, "{ss so}", "url", url, "headers", headers),
                  count <= 64 ? 200 : 502);
    }
    ck_status(relay(open_host, "{ss s{ss%}}", "url", url, "headers", "X", long_text, 32768 - 5),
              200);
    ck_status(relay(open_host, "{ss s{ss%}}", "url", url, "headers", "X", long_text, 32768 - 4),
              502);
    ck_status(
        relay(open_host, "{ss ss ss%}", "url", url, "method", "PUT", "text", long_text, 16 << 20),
        200);
    ck_error(relay(open_host, "{ss ss ss%}", "url", url, "method", "PUT", "text", long_text,
                   (16 << 20) + 1),
             502, "The body of the request");
}

SUITE(upstream, .timeout_s = 60, .before_all = set_up)
