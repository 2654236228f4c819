/*
 * Text that would be code if it were pasted into a log line or an SQL statement,
 * in each field, path segment and query of the routes of auth and chat. See cases for texts that
 * are stored.
 */
#include "stage.h"
#include "wire.h"

static struct person *user;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "injection"});
    user = person_make(host, admin, "injection", NULL);
}

// clang-format off
static const char *const statements[] = {
    "'", "''", "\"", "\\", "\\'", "';", "--", "/*", "' OR '1'='1", "' OR 1=1--", "1 OR 1=1",
    "1; DROP TABLE chat_entry;--", "'; DROP TABLE auth_account CASCADE; --",
    "' UNION SELECT null,null,null--", "1 UNION SELECT sealed FROM auth_key",
    "'||(SELECT pg_sleep(5))||'", "1;SELECT pg_sleep(5)",
    "' AND 5=CAST((SELECT version()) AS int)--", "$1", "$$", "$$;SELECT pg_sleep(5)$$", "\\x27",
    "%27%20OR%201=1", "E'\\\\'", "U&'\\0027'", "{1,2}", "(1,2)", "::int", "0x27", "CHR(39)",
    "\xef\xbc\x87 OR 1=1", "\xca\xbc OR 1=1", "a@b.example' OR 'x'='x",
    "'; COPY auth_account TO '/tmp/x'; --", "1' AND (SELECT 1 FROM pg_sleep(5))::text='1", "null",
    "DEFAULT", "NaN", "-1", "1e1", "1--"};
// clang-format on

static const struct {
    const char *method, *path;
    const char *fields[7];
} routes[] = {
    {"POST", "/api/auth/login", {"username", "password"}},
    {"POST",
     "/api/auth/getAccess",
     {"username", "password", "grant_type", "client_id", "client_secret"}},
    {"POST",
     "/api/user/register",
     {"firstName", "lastName", "email", "orgName", "organizationType"}},
    {"PUT", "/api/user/password", {"current", "new"}},
    {"POST", "/api/chat/conversations/find", {"participant1", "participant2", "deviceProjectName"}},
    {"POST",
     "/api/chat/conversations/start",
     {"participant1", "participant2", "username", "deviceProjectName", "organizationId"}},
    {"POST", "/api/chat/conversations/1/messages", {"username"}},
    {"PATCH", "/api/chat/conversations/1/read", {"email"}},
};

static const char *const paths[] = {
    "/api/chat/conversations/user/%s",
    "/api/chat/chain/%s",
    "/api/chat/unread-count/%s",
    "/api/chat/unread-devices/%s",
    "/api/chat/conversations/user/a@b.example?after=%s",
    "/api/chat/conversations/user/a@b.example?limit=%s",
    "/api/chat/chain/00000000-0000-4000-8000-000000000000?after=%s",
    "/api/auth/clients/%s",
    "/api/admin/users/%s",
};

static int64_t everything(void)
{
    return sql_number(db, "SELECT (SELECT count(*) FROM chat_conversation) * 1000000 + "
                          "(SELECT count(*) FROM auth_account) * 1000 + "
                          "(SELECT count(*) FROM auth_key)");
}

/* Sends the request; the service does not fail, and the response contains nothing of SQL. Returns
 * the response. */
static const struct answer *expect_harmless(struct call call, const char *where,
                                            const char *statement)
{
    static const char *const told[] = {"syntax", "SQL", "relation", "PostgreSQL", "pg_"};

    call.token = user->token;
    const struct answer *answer = http_send(host, &call);

    ck_assert_msg(answer->status >= 200 && answer->status < 500, "%s %s: status %ld %s %s", where,
                  statement, answer->status, answer->problem, answer->body);
    for (size_t i = 0; answer->status >= 400 && i < COUNT(told); i++)
        ck_assert_msg(!strstr(answer->body, told[i]), "%s %s: %s", where, statement, answer->body);
    return answer;
}

TEST_EACH(sql_in_a_field_is_not_executed, COUNT(routes))
{
    CURL *connection = client_open();
    int64_t before = everything();

    for (const char *const *field = routes[_i].fields; *field; field++) {
        for (size_t i = 0; i < COUNT(statements); i++) {
            json_t *json = json_pack("{ss}", *field, statements[i]);
            const char *body = kept(json_dumps(json, JSON_COMPACT));
            expect_harmless((struct call){.method = routes[_i].method,
                                          .path = routes[_i].path,
                                          .body = body,
                                          .connection = connection},
                            text("%s %s", routes[_i].path, *field), statements[i]);
            json_decref(json);
        }
    }
    ck_assert_int_eq(everything(), before);
}

TEST_EACH(sql_in_a_path_or_query_is_not_executed, COUNT(paths))
{
    CURL *connection = client_open();
    int64_t before = everything();

    for (size_t i = 0; i < COUNT(statements); i++) {
        const char *at = strstr(paths[_i], "%s");
        const char *path = text("%.*s%s", (int)(at - paths[_i]), paths[_i], encoded(statements[i]));
        const struct answer *answer =
            expect_harmless((struct call){.method = "GET", .path = path, .connection = connection},
                            path, statements[i]);

        ck_assert_msg(answer->status != 200 || strstr(path, "?"), "%s: %s", path, answer->body);
    }
    ck_assert_int_eq(everything(), before);
}

/* The control characters, including DEL and those above ASCII in UTF-8. */
static bool control(const char *at)
{
    unsigned char c = (unsigned char)at[0], next = c ? (unsigned char)at[1] : 0;

    return c < 0x20 || c == 0x7F || (c == 0xC2 && next >= 0x80 && next < 0xA0);
}

/* Each line has the usual beginning and no characters that control a terminal or a log reader. */
static void expect_plain_lines(void)
{
    char *log = file_text(host->log);

    for (const char *line = log; *line; line += strcspn(line, "\n") + 1) {
        ck_assert_msg(!strncmp(line, "ts=20", 5), "not the beginning of a log line: %.300s", line);
        for (const char *c = line; *c != '\n' && *c; c++)
            ck_assert_msg(!control(c), "control character: %.300s", line);
    }
}

TEST(requests_cannot_inject_log_lines_or_control_sequences)
{
    EACH_TEXT (name, "a\nts=2026-01-01T00:00:00.000Z level=error msg=forged", "a\r\nforged",
               "\x1b[2J\x1b]0;x\x07", "%n%n%s%x", "\" level=error forged=\"", "\342\200\250forged",
               "\302\23331m", "\x7f\x08") {
        const struct answer *answer =
            http(host, "POST", "/api/auth/login", NULL,
                 json_pack("{ss ss}", "username", name, "password", "no such password"));

        ck_assert_msg(answer->status == 400 || answer->status == 401, "%ld", answer->status);
    }

    EACH_TEXT (head, "GET /api/\x1b[31m HTTP/1.1\r\nHost: x\r\n",
               "GET /api/%0a%0dts=2026%20level=error HTTP/1.1\r\nHost: x\r\n",
               "GET /api/%25n%25s HTTP/1.1\r\nHost: x\r\n",
               "GET /api/\"level=error\" HTTP/1.1\r\nHost: x\r\n",
               "GET /api/x\ty HTTP/1.1\r\nHost: x\r\n",
               "GET /api/\302\23331m HTTP/1.1\r\nHost: x\r\n",
               "G\x1bT /api/health HTTP/1.1\r\nHost: x\r\n",
               "GET /api/health HTTP/1.1\r\nHost: x\r\nUser-Agent: \x1b[2J%n\r\n",
               "GET /api/health HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\x1b[2J\r\n",
               "GET /api/health HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: a\tlevel=error\r\n") {
        struct wire *wire = wire_open(host);

        wire_say(wire, "%s\r\n", head);
        wire_read(wire, 2000);
        wire_close(wire, false);
    }
    wire_ask(host, "GET /api/health HTTP/1.1\r\nHost: x\r\nX-Request-Id: last-of-the-log\r\n\r\n");
    host_logs(host, 0, "last-of-the-log");
    expect_plain_lines();
}

STAGE_SUITE(injection, set_up, 60)
