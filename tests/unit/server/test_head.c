/* Heads of requests: how they are parsed, and which ones are refused. */
#include "core/server/head.h"

#include "suite.h"

#define LINE "POST /a?b=c HTTP/1.1\r\n"
#define START LINE "Host: h\r\n"

static struct head_reading reading;
static char bytes[HEAD_BYTES_MAX * 2];

static enum head_state read_bytes(const char *text, size_t length)
{
    memcpy(bytes, text, length);
    head_begin(&reading);
    return head_read(&reading, bytes, length);
}

static enum head_state read_text(const char *text)
{
    return read_bytes(text, strlen(text));
}

static void passes(const char *text)
{
    ck_assert_msg(read_text(text) == HEAD_WHOLE, "%s: %s", text, reading.head.reason);
    ck_assert_int_eq(reading.head.status, 0);
    ck_assert_uint_eq(reading.at, strlen(text));
}

static void refused(const char *text, int status)
{
    ck_assert_msg(read_text(text) == HEAD_REFUSED, "taken: %s", text);
    ck_assert_msg(reading.head.status == status, "%d, %s: %s", reading.head.status,
                  reading.head.reason, text);
    ck_assert_ptr_nonnull(reading.head.reason);
}

static char *format(const char *form, const char *part)
{
    static char text[1024];

    snprintf(text, sizeof text, form, part);
    return text;
}

static const char *value(const char *name)
{
    struct head head = reading.head;

    head.text = bytes;
    head.fields = reading.fields;
    return head_value(&head, name);
}

TEST(a_usual_head_is_parsed)
{
    passes(START "Content-Length: 17\r\nX-Empty:\r\nUser-Agent: \t M\xC3\xBC\tx \t \r\n\r\n");
    ck_assert_str_eq(bytes + reading.head.method, "POST");
    ck_assert_str_eq(bytes + reading.head.target, "/a?b=c");
    ck_assert_int_eq(reading.head.minor, 1);
    ck_assert_int_eq(reading.head.length, 17);
    ck_assert_str_eq(value("user-agent"), "M\xC3\xBC\tx");
    ck_assert_str_eq(value("X-Empty"), "");
    ck_assert_str_eq(value("HOST"), "h");
    ck_assert_ptr_null(value("X-Emp"));
    passes("\r\n\r\nGET / HTTP/1.0\r\n\r\n");
    ck_assert_int_eq(reading.head.minor, 0);
    ck_assert_int_eq(reading.head.length, -1);
}

TEST(known_methods_are_accepted_and_others_refused)
{
    EACH_TEXT (method, "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE",
               "CONNECT")
        passes(format("%s /api/x?y=%%2f;z HTTP/1.1\r\nHost: h\r\n\r\n", method));
    refused("BREW / HTTP/1.1\r\n", 501);
    refused("get / HTTP/1.1\r\n", 501);
    refused("CONNECT evil:443 HTTP/1.1\r\n", 501);
}

TEST(request_lines_have_three_parts_and_a_known_version)
{
    EACH_TEXT (bad, "GET /\r\n", "GET  / HTTP/1.1\r\n", "GET / HTTP/1.1 \r\n",
               " GET / HTTP/1.1\r\n", "GET /  HTTP/1.1\r\n", "GET\t/ HTTP/1.1\r\n",
               "GET / http/1.1\r\n", "GET / HTTP/1.1x\r\n", "GET / HTTP/11\r\n", "GET / \r\n",
               ": / HTTP/1.1\r\n", "GET\r\n", "G(T / HTTP/1.1\r\n", "GET / a HTTP/1.1\r\n",
               "GET / HTTP/x.1\r\n", "GET / HTTP/1.\r\n", "\x80GET / HTTP/1.1\r\n", ":\r\n")
        refused(bad, 400);
    refused("GET / HTTP/2.0\r\n", 505);
    refused("PRI * HTTP/2.0\r\n", 505);
    refused("GET / HTTP/1.2\r\n", 505);
    refused("GET / HTTP/0.9\r\n", 505);
}

TEST(lines_must_end_with_crlf_and_have_no_other_control_characters)
{
    static const char nul_target[] = "GET /a\0b HTTP/1.1\r\n";
    static const char nul_value[] = START "Content-Length: 5\0 6\r\n\r\n";
    static const char nul_name[] = START "X\0: 5\r\n\r\n";

    EACH_TEXT (bad, "GET / HTTP/1.1\n", LINE "Host: h\n", START "\n", LINE "Ho\rst: h\r\n",
               LINE "Host: h\r\r\n", "GET / HTTP/1.1\rHost", LINE "Host: \x01h\r\n",
               START "X: a\x1B[0m\r\n", START "X: a\x7F\r\n", "\n" START, START "X: a\vb\r\n",
               "\r\r\n")
        refused(bad, 400);
    ck_assert_int_eq(read_bytes(nul_target, sizeof nul_target - 1), HEAD_REFUSED);
    ck_assert_int_eq(read_bytes(nul_value, sizeof nul_value - 1), HEAD_REFUSED);
    ck_assert_int_eq(read_bytes(nul_name, sizeof nul_name - 1), HEAD_REFUSED);
}

TEST(header_names_must_be_tokens_and_lines_not_folded)
{
    EACH_TEXT (bad, ":", ": x", "Content-Length : 5", "Transfer-Encoding\t: chunked", "X", "a b: 1",
               "(x): 1", "x\"y: 1", "n\xC3\xA4: 1", " folded: 1", "\tfolded", " ", "X-A\\: 1",
               "x@y: 1", "[x]: 1")
        refused(format(START "%s\r\n\r\n", bad), 400);
    refused(START "X-A: 1\r\n Authorization: z\r\n\r\n", 400);
    passes(START "X-A: 1:2\r\n!#$%&'*+-.^_`|~9: 1\r\n\r\n");
}

TEST(ambiguous_framing_is_refused)
{
    EACH_TEXT (bad, "Content-Length: 5\r\nTransfer-Encoding: chunked",
               "Content-Length: 5\r\ncontent-length: 5",
               "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "HOST: h",
               "Authorization: Bearer a\r\nauthorization: Bearer b",
               "Idempotency-Key: a\r\nidempotency-key: a", "Content-Type: a/b\r\nContent-Type: a/b",
               "Content-Length:", "Content-Length: -1", "Content-Length: +1", "Content-Length: 1 1",
               "Content-Length: 1,1", "Content-Length: 0x1", "Content-Length: 1.0",
               "Content-Length: abc")
        refused(format(START "%s\r\n\r\n", bad), 400);
    refused(START "Content-Length: 9223372036854775808\r\n", 413);
    refused(START "Content-Length: 99999999999999999999\r\n", 413);
    refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
    passes(START "Content-Length: 9223372036854775807\r\n\r\n");
    ck_assert_int_eq(reading.head.length, INT64_MAX);
    passes(START "Content-Length: 0005\r\n\r\n");
    ck_assert_int_eq(reading.head.length, 5);
    passes(START "Transfer-Encoding: Chunked\r\n\r\n");
    ck_assert(reading.head.chunked);
}

TEST(transfer_encodings_other_than_chunked_are_refused)
{
    EACH_TEXT (bad, "identity", "x", "", "gzip, chunked", "chunked, chunked", "chunked;q=1",
               "\"chunked\"")
        refused(format(START "Transfer-Encoding: %s\r\n", bad), 501);
}

TEST(a_valid_host_header_is_required)
{
    EACH_TEXT (good, "h", "a.b-c_d:80", "[::1]:8080", "[2001:db8::7]", "1.2.3.4", "x:", "%41b")
        passes(format("GET / HTTP/1.1\r\nHost: %s\r\n\r\n", good));
    EACH_TEXT (bad, "a b", "a/b", "a:b", "a:99999", "a:1:2", "user@h", "a,b", "[::1", "[zz]",
               "a\"b", "%4", "a%4g", "a%g4", "::1", "[]", ":80", "a:080808", "a?", "a#", "\xC3\xA4")
        refused(format("GET / HTTP/1.1\r\nHost: %s\r\n\r\n", bad), 400);
    refused("GET / HTTP/1.1\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\nHostb: a\r\n\r\n", 400);
}

/* RFC 9112, 3.2 and 3.3: a client that has no host name sends an empty Host. */
TEST(an_empty_host_is_accepted_if_the_target_has_none)
{
    passes("GET / HTTP/1.1\r\nHost:\r\n\r\n");
    passes("GET / HTTP/1.0\r\nHost: \t \r\n\r\n");
    passes("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n");
    refused("GET http://h/ HTTP/1.1\r\nHost:\r\n\r\n", 400);
    passes("GET / HTTP/1.1\r\nHost:\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost:\r\nHost: h\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\nHost: h\r\nHost:\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\nHost:\r\n h\r\n\r\n", 400);
}

TEST(targets_must_be_valid_paths)
{
    EACH_TEXT (bad, "*", "evil:443", "?x", "/a\\b", "/a%00b", "/a?b=%00", "/a?b=\xFF", "/\xC3\xA4",
               "/a#b", "http:/x", "ftp://h/", "http://", "http:///x", "http://a b/")
        refused(format("GET %s HTTP/1.1\r\nHost: h\r\n\r\n", bad), 400);
    passes("GET /%0 HTTP/1.1\r\nHost: h\r\n\r\n");
    passes("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
}

static const struct {
    const char *target, *path;
} absolute[] = {{"http://h/a?b", "/a?b"}, {"HTTP://h:80/", "/"},       {"https://[::1]:1/x", "/x"},
                {"http://h", "/"},        {"http://h?x=/y", "/?x=/y"}, {"http://h//e", "//e"}};

TEST_EACH(the_path_of_an_absolute_target_is_used, COUNT(absolute))
{
    passes(format("GET %s HTTP/1.1\r\nHost: h\r\n\r\n", absolute[_i].target));
    ck_assert_str_eq(bytes + reading.head.target, absolute[_i].path);
}

TEST(connection_and_expect_headers_are_parsed)
{
    passes(START "Connection: Upgrade , CLOSE\r\nExpect: 100-Continue\r\n\r\n");
    ck_assert(reading.head.closes && !reading.head.keeps && !reading.head.expects);
    passes(START "Content-Length: 1\r\nConnection: keep-alive\r\nExpect: 100-Continue\r\n\r\n");
    ck_assert(!reading.head.closes && reading.head.keeps && reading.head.expects);
    passes(START "Content-Length: 1\r\nExpect: what\r\nConnection: closed\r\n\r\n");
    ck_assert(!reading.head.closes && !reading.head.expects);
}

/* Makes a head of this many bytes, most of them in one field. */
static size_t make(char *text, size_t length)
{
    size_t fixed = strlen(START "X: \r\n\r\n");

    strcpy(text, START "X: ");
    memset(text + strlen(text), 'a', length - fixed);
    strcpy(text + length - 4, "\r\n\r\n");
    return length;
}

TEST(a_head_has_limited_bytes_and_fields)
{
    static char text[HEAD_BYTES_MAX * 2], *at = text;

    passes((make(text, HEAD_BYTES_MAX), text));
    make(text, HEAD_BYTES_MAX + 1);
    refused(text, 431);
    memset(text, 'a', HEAD_BYTES_MAX);
    memcpy(text, "GET /", 5);
    text[HEAD_BYTES_MAX] = '\0';
    refused(text, 414);
    text[HEAD_BYTES_MAX - 1] = '\0';
    ck_assert_int_eq(read_text(text), HEAD_PARTIAL);
    at += sprintf(at, START);
    for (int i = 1; i < HEAD_FIELDS_MAX; i++)
        at += sprintf(at, "a: b\r\n");
    strcpy(at, "\r\n");
    passes(text);
    strcpy(at, "c: d\r\n\r\n");
    refused(text, 431);
}

static const char *const split[] = {
    START "Content-Length: 17\r\nX-Empty:\r\nUser-Agent: \t x\r\n\r\n",
    "\r\nGET http://h?x HTTP/1.0\r\nConnection: close\r\n\r\n",
    START "X: 1\r\n folded\r\n\r\n",
    START "\r\n",
};

/* Each byte is added to a copy of exactly the bytes so far, so that a sanitizer detects reads
 * beyond them. */
TEST_EACH(a_head_in_pieces_is_parsed_the_same, COUNT(split))
{
    const char *text = split[_i];
    enum head_state whole = read_text(text), state = HEAD_PARTIAL;
    struct head_reading all = reading;
    size_t length = strlen(text), there = 0;
    char *copy = NULL;

    head_begin(&reading);
    while (state == HEAD_PARTIAL && there < length) {
        copy = realloc(copy, ++there);
        ck_assert_ptr_nonnull(copy);
        copy[there - 1] = text[there - 1];
        state = head_read(&reading, copy, there);
    }
    ck_assert_int_eq(state, whole);
    ck_assert_uint_eq(reading.at, all.at);
    ck_assert_mem_eq(&reading.head, &all.head, sizeof all.head);
    ck_assert_mem_eq(reading.fields, all.fields, all.head.count * sizeof *all.fields);
    free(copy);
}

SUITE(head)
