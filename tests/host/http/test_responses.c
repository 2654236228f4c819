/*
 * The form of responses: error bodies, request ids, CORS, queries, the addresses of a
 * proxy's clients. Every error in the tests has the service's body and
 * safe headers, see ck_wire_error(); the unit test http_requests has HEAD.
 */
#include "stage.h"
#include "wire.h"

#define OURS "https://app.example"

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "responses",
                                   .http = "  cors_origins: [\"" OURS "\"]\n"
                                           "  trusted_proxies: [\"127.0.0.2/32\"]\n"});
}

/* Sends a GET with further headers. */
static struct wire_answer *get(const char *path, const char *headers, int status)
{
    return wire_exchange(host, text("GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", path, headers),
                         text("%d", status));
}

TEST(a_valid_request_id_is_returned_and_another_replaced)
{
    EACH_TEXT (sane, "a", "550e8400-e29b-41d4-a716-446655440000", "A.b_c-9", text_repeated("7", 64))
        ck_assert_str_eq(
            wire_header(get("/api/nope", text("X-Request-Id: %s", sane), 404), "X-Request-Id"),
            sane);
    EACH_TEXT (strange, "", "a b", "<script>", "a\"b", "a;b", "a=b", text_repeated("7", 65),
               "\xc3\xa9", "${jndi:ldap://x}") {
        const char *id =
            wire_header(get("/api/nope", text("X-Request-Id: %s", strange), 404), "X-Request-Id");

        ck_assert_str_ne(id, strange);
        ck_assert_uint_eq(strlen(id), 36);
    }
}

TEST(cors_headers_are_sent_only_to_the_configured_origin)
{
    struct wire_answer *ours = get("/api/health", "Origin: " OURS, 200);

    ck_assert_str_eq(wire_header(ours, "Access-Control-Allow-Origin"), OURS);
    ck_assert_str_eq(wire_header(ours, "Vary"), "Origin");
    ck_assert_ptr_null(wire_header(ours, "Access-Control-Allow-Credentials"));
    ck_assert_str_eq(
        wire_header(get("/api/auth/me", "Origin: " OURS, 401), "Access-Control-Allow-Origin"),
        OURS);
    EACH_TEXT (other, "https://evil.example", "null", "https://app.example:444") {
        struct wire_answer *answer = get("/api/health", text("Origin: %s", other), 200);

        ck_assert_str_eq(wire_header(answer, "Vary"), "Origin");
        ck_assert_msg(!strstr(answer->headers, "Access-Control"), "%s", answer->headers);
    }
    ours = get("/api/health", "X-No: origin", 200); /* a cache may return it to an origin */
    ck_assert_str_eq(wire_header(ours, "Vary"), "Origin");
}

static struct wire_answer *preflight(const char *origin)
{
    return wire_exchange(host,
                         text("OPTIONS /api/chat/conversations/5/read HTTP/1.1\r\nHost: x\r\n"
                              "Origin: %s\r\nAccess-Control-Request-Method: PATCH\r\n"
                              "Access-Control-Request-Headers: authorization\r\n\r\n",
                              origin),
                         "204");
}

TEST(cors_preflights_are_answered_only_for_the_configured_origin)
{
    struct wire_answer *ours = preflight(OURS), *evil = preflight("https://evil.example");

    ck_assert_str_eq(wire_header(ours, "Access-Control-Allow-Methods"), "PATCH");
    ck_assert_ptr_nonnull(
        strstr(wire_header(ours, "Access-Control-Allow-Headers"), "Authorization"));
    ck_assert_ptr_null(strstr(evil->headers, "Access-Control"));
}

/* X-Forwarded-For counts only if it comes from a trusted proxy. */
static const struct {
    const char *from, *forwarded, *client;
} forwards[] = {
    {"127.0.0.1", "198.51.100.7", "127.0.0.1"},
    {"127.0.0.2", "203.0.113.9, 198.51.100.8, 127.0.0.2", "198.51.100.8"},
    {"127.0.0.2", "1.2.3.4 level=error", "127.0.0.2"},
    {"127.0.0.3", "198.51.100.9", "127.0.0.3"},
};

TEST_EACH(x_forwarded_for_counts_only_from_trusted_proxies, COUNT(forwards))
{
    struct wire *wire = wire_open_from(host, forwards[_i].from, 0);

    wire_say(wire,
             "GET /api/health HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\n"
             "X-Request-Id: forward-%d\r\n\r\n",
             forwards[_i].forwarded, _i);
    ck_assert_ptr_nonnull(wire_read(wire, 5000));
    wire_close(wire, false);
    const char *line = host_logs(host, 0, text("request=forward-%d ", _i));
    char address[46];
    int used = 0;

    (void)sscanf(line, // NOLINT
                 "request=forward-%*d trace=%*[0-9a-f] method=GET route=/api/health"
                 " path=/api/health status=200 ms=%*[0-9.] client=%45s%n",
                 address, &used);
    ck_assert_msg(used && !line[used] && !strcmp(address, forwards[_i].client), "%s", line);
}

STAGE_SUITE(responses, set_up, 30)
