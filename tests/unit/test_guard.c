/* The framing guard against the requests that libmicrohttpd should have refused. */
#include "core/guard.h"
#include "suites.h"

static struct guard_verdict with(const char *name, const char *value, const char *name2,
                                 const char *value2)
{
    const struct guard_header headers[] = {{"Host", "h"}, {name, value}, {name2, value2}};

    return guard_check("POST", "HTTP/1.1", "/a?b=c", headers,
                       1u + (name != NULL) + (name2 != NULL));
}

static struct guard_verdict line(const char *method, const char *version, const char *target)
{
    const struct guard_header host = {"host", "h"};

    return guard_check(method, version, target, &host, 1);
}

static void refused(struct guard_verdict verdict, int status)
{
    ck_assert_int_eq(verdict.status, status);
    ck_assert_ptr_nonnull(verdict.reason);
    ck_assert(verdict.close);
}

START_TEST(common_requests_pass)
{
    static const char *const methods[] = {"GET",    "HEAD",    "POST",  "PUT",    "PATCH",
                                          "DELETE", "OPTIONS", "TRACE", "CONNECT"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        ck_assert_int_eq(line(methods[i], "HTTP/1.1", "/api/x?y=%2f;z").status, 0);
    ck_assert_int_eq(with("Content-Length", "17", "X-Empty", "").status, 0);
    ck_assert_int_eq(with("Transfer-Encoding", "chunked", "X-None", NULL).status, 0);
    ck_assert_int_eq(with("Transfer-Encoding", "Chunked", NULL, NULL).status, 0);
    ck_assert_int_eq(with("TE", "trailers", "Hostname", "x").status, 0);
    ck_assert_int_eq(with("Content-Language", "de", "Content-Encoding", "gzip").status, 0);
    ck_assert_int_eq(with("Accept", "a", "Accept", "b").status, 0);
    ck_assert_int_eq(with("User-Agent", "M\xC3\xBC\tx", NULL, NULL).status, 0);
    ck_assert_int_eq(guard_check("GET", "HTTP/1.0", "/", NULL, 0).status, 0);
}
END_TEST

START_TEST(framing_that_can_be_read_two_ways_is_refused)
{
    refused(with("Content-Length", "5", "Transfer-Encoding", "chunked"), 400);
    refused(with("Content-Length", "5", "content-length", "5"), 400);
    refused(with("Transfer-Encoding", "chunked", "Transfer-Encoding", "chunked"), 400);
    refused(with("HOST", "h", NULL, NULL), 400);
    refused(with("Authorization", "Bearer a", "authorization", "Bearer b"), 400);
    refused(with("Content-Type", "a/b", "Content-Type", "a/b"), 400);
    refused(with("Content-Length", "", "Content-Length", NULL), 400);
}
END_TEST

START_TEST(transfer_encodings_are_chunked_or_unknown)
{
    static const char *const bad[] = {
        "identity",      "chunked ",         " chunked",    "x",          "",
        "gzip, chunked", "chunked, chunked", "chunked;q=1", "\"chunked\""};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(with("Transfer-Encoding", bad[i], NULL, NULL), 501);
    const struct guard_header old[] = {{"Transfer-Encoding", "chunked"}};

    refused(guard_check("POST", "HTTP/1.0", "/", old, 1), 400);
}
END_TEST

START_TEST(lengths_are_digits_within_int64)
{
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      "1 ",
                                      " 1",
                                      "1,1",
                                      "0x1",
                                      "1.0",
                                      "abc",
                                      "9223372036854775808",
                                      "99999999999999999999"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(with("Content-Length", bad[i], NULL, NULL), 400);
    ck_assert_int_eq(with("Content-Length", "9223372036854775807", NULL, NULL).status, 0);
    ck_assert_int_eq(with("Content-Length", "0005", NULL, NULL).status, 0);
}
END_TEST

START_TEST(odd_and_folded_names_are_refused)
{
    static const char *const bad[] = {"Content-Length ",
                                      "Transfer-Encoding\t",
                                      "",
                                      "a b",
                                      "a:b",
                                      "X-AAuthorization: z",
                                      "Content-Length0",
                                      "Transfer-Encodingchunked",
                                      "authorizationabc",
                                      "Content-Type-X",
                                      "Idempotency-Keyx",
                                      "n\xC3\xA4",
                                      "(x)",
                                      "x\"y"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(with(bad[i], "1", NULL, NULL), 400);
    refused(with("X-A", "a\rb", NULL, NULL), 400);
    refused(with("X-A", "a\x1B[0m", NULL, NULL), 400);
    refused(with("X-A", "a\x7F", NULL, NULL), 400);
}
END_TEST

START_TEST(a_host_is_needed)
{
    const struct guard_header empty = {"Host", ""}, grown = {"Hostb", "a"};

    refused(guard_check("GET", "HTTP/1.1", "/", NULL, 0), 400);
    refused(guard_check("GET", "HTTP/1.1", "/", &empty, 1), 400);
    refused(guard_check("GET", "HTTP/1.1", "/", &grown, 1), 400);
}
END_TEST

START_TEST(a_hundred_headers_are_enough)
{
    struct guard_header headers[101] = {{"Host", "h"}};

    for (size_t i = 1; i < 101; i++)
        headers[i] = (struct guard_header){"X-Many", "1"};
    ck_assert_int_eq(guard_check("GET", "HTTP/1.1", "/", headers, 100).status, 0);
    refused(guard_check("GET", "HTTP/1.1", "/", headers, 101), 400);
}
END_TEST

START_TEST(targets_are_clean_paths)
{
    static const char *const bad[] = {"",      "*",         "http://evil/", "evil:443", "?x",
                                      "/a\\b", "/a b",      "/a\tb",        "/a%00b",   "/a?b=%00",
                                      "/\x7F", "/\xC3\xA4", "/a\x01"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(line("GET", "HTTP/1.1", bad[i]), 400);
    ck_assert_int_eq(line("GET", "HTTP/1.1", "/%0").status, 0);
}
END_TEST

START_TEST(unknown_verbs_and_versions_are_refused)
{
    refused(line("BREW", "HTTP/1.1", "/"), 501);
    refused(line("get", "HTTP/1.1", "/"), 501);
    refused(line("", "HTTP/1.1", "/"), 501);
    refused(line("CONNECT", "HTTP/1.1", "evil:443"), 501);
    refused(line("GET", "HTTP/2.0", "/"), 505);
    refused(line("GET", "", "/"), 505);
}
END_TEST

Suite *guard_suite(void)
{
    Suite *suite = suite_create("guard");
    TCase *all = tcase_create("all");

    tcase_add_test(all, common_requests_pass);
    tcase_add_test(all, framing_that_can_be_read_two_ways_is_refused);
    tcase_add_test(all, transfer_encodings_are_chunked_or_unknown);
    tcase_add_test(all, lengths_are_digits_within_int64);
    tcase_add_test(all, odd_and_folded_names_are_refused);
    tcase_add_test(all, a_host_is_needed);
    tcase_add_test(all, a_hundred_headers_are_enough);
    tcase_add_test(all, targets_are_clean_paths);
    tcase_add_test(all, unknown_verbs_and_versions_are_refused);
    suite_add_tcase(suite, all);
    return suite;
}
