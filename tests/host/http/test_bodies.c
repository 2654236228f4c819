/*
 * Invalid bodies on the routes of auth and chat: threats D12, D13, N01 to N03 and N06 to N08. (N04
 * and N05 concern devices.)
 */
#include <stdlib.h>
#include <string.h>

#include "people.h"
#include "suite.h"
#include "suites.h"
#include "wire.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define FIND "/api/chat/conversations/find"

enum { MIB = 1024 * 1024 };

static struct host *host;
static struct person *user;

static void set_up(void)
{
    host = host_start(
        &(struct host_spec){.name = "bodies", .database = database_make(the_postgres, "bodies")});
    user = person_make(host, admin_of(host), "bodies", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

static struct wire_answer *post(const char *path, const char *headers, const char *body,
                                size_t length)
{
    struct wire *wire = wire_open(host);

    wire_say(wire,
             "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%sContent-Length: %zu\r\n"
             "\r\n",
             path, user->token, headers, length);
    wire_send(wire, body, length);
    struct wire_answer *answer = wire_read(wire, 10000);

    wire_close(wire, false);
    return answer;
}

static struct wire_answer *find(const char *body, size_t length)
{
    return post(FIND, "Content-Type: application/json\r\n", body, length);
}

/* D12, D13 */
static const struct {
    const char *headers;
    int status; /* for {} */
} types[] = {
    {"", 200},
    {"Content-Type:\r\n", 200},
    {"Content-Type: text/json\r\n", 415},
    {"Content-Type: text/plain\r\n", 200},
    {"Content-Type: application/jsonp\r\n", 415},
    {"Content-Type: application/json; charset=utf-16\r\n", 200},
    {"Content-Type: application/json; charset=iso-8859-1\r\n", 200},
    {"Content-Type: multipart/form-data; boundary=x\r\n", 415},
    {"Content-Type: application/x-www-form-urlencoded\r\n", 415},
    {"Content-Type: application/json\r\nContent-Type: application/json\r\n", 400},
    {"Content-Type: application/json\r\nContent-Encoding: gzip\r\n", 415},
    {"Content-Type: application/json\r\nContent-Encoding: br\r\n", 415},
    {"Content-Type: application/json\r\n", 200},
    {"Content-Type: APPLICATION/JSON\r\n", 200},
    {"Content-Type: application/json; charset=utf-8\r\n", 200},
    {"Content-Type: application/json;charset=\"UTF-8\"\r\n", 200},
};

TEST_EACH(what_is_json_or_may_be_is_a_body, COUNT(types))
{
    struct wire_answer *answer = post(FIND, types[_i].headers, "{}", 2);

    ck_assert_ptr_nonnull(answer);
    ck_assert_msg(answer->status == types[_i].status, "%s: status %d", types[_i].headers,
                  answer->status);
    if (answer->status >= 400)
        ck_wire_error(answer, types[_i].status);
}

TEST(no_body_needs_no_type_where_no_field_is_required)
{
    struct wire_answer *answer = post(FIND, "Content-Type: text/plain\r\n", "", 0);

    ck_assert_int_eq(answer->status, 200);
    ck_wire_error(post("/api/chat/conversations/start", "", "", 0), 400);
}

static char *repeated(const char *piece, int times)
{
    size_t length = strlen(piece);
    char *all = kept(calloc((size_t)times, length + 1));

    for (int i = 0; i < times; i++)
        memcpy(all + (size_t)i * length, piece, length);
    return all;
}

static void expect_refusal(const char *body)
{
    struct wire_answer *answer = find(body, strlen(body));

    ck_assert_msg(answer != NULL, "no answer to %.40s…", body);
    ck_assert_msg(answer->status == 400 || answer->status == 413, "status %d to %.40s…",
                  answer->status, body);
    ck_wire_error(answer, answer->status);
}

/* N01 */
TEST(nesting_without_end_is_refused)
{
    expect_refusal(repeated("[", 1000));
    expect_refusal(repeated("[", 100000));
    expect_refusal(repeated("{\"a\":", 100000));
    expect_refusal(text("{\"x\":%s1%s}", repeated("[", 100), repeated("]", 100)));
}

TEST(too_many_or_too_large_values_are_refused)
{
    expect_refusal(text("[%s1]", repeated("1,", MIB / 2)));
    expect_refusal(text("{%s\"z\":1}", repeated("\"a\":1,", 300000)));
    expect_refusal(text("{\"deviceProjectName\":\"%s\"}", repeated("x", 16 * MIB)));
    struct wire_answer *answer = find(text("{\"%s\":1}", repeated("k", MIB)), (size_t)MIB + 6);

    ck_assert(answer && answer->status == 200); /* an unknown key is ignored */
}

TEST(thousands_of_keys_are_read)
{
    char *keys = kept(calloc(10000, 24));
    char *at = keys;

    for (int i = 0; i < 9000; i++)
        at += sprintf(at, "\"k%08x\":%d,", (unsigned)i * 65536U, i);
    char *body = text("{%s\"z\":1}", keys);
    struct wire_answer *answer = find(body, strlen(body));

    ck_assert(answer && answer->status < 500);
}

/* N02, N03 */
static const struct {
    const char *body;
    size_t length; /* 0: up to the NUL */
} malformed[] = {
    {"{\"a\":1,\"a\":2}", 0},
    {"{\"deviceProjectName\":\"x\",\"deviceProjectName\":\"y\"}", 0},
    {"{\"x\":{\"a\":1,\"a\":1}}", 0},
    {"{\"deviceProjectName\":\"a\\u0000b\"}", 0},
    {"{\"x\":1\0}", 8},
    {"{}\0", 3},
    {"\xEF\xBB\xBF{}", 0},
    {"{\"x\":\"\xff\"}", 0},
    {"{\"x\":\"\xc0\xaf\"}", 0},
    {"{\"x\":\"\xed\xa0\x80\"}", 0},
    {"{\"x\":\"\\ud800\"}", 0},
    {"{\"x\":\"\\udc00\\ud800\"}", 0},
    {"{} {}", 0},
    {"{}x", 0},
    {"{\"x\":1e400}", 0},
    {"{\"x\":9223372036854775808}", 0},
    {"{\"x\":NaN}", 0},
    {"{'x':1}", 0},
    {"{\"x\":1,}", 0},
    {"{\"x\":01}", 0},
    {"{\"x\":\"\n\"}", 0},
    {" ", 0},
    {"{", 0},
};

TEST_EACH(malformed_json_is_refused_with_its_place, COUNT(malformed))
{
    size_t length = malformed[_i].length ? malformed[_i].length : strlen(malformed[_i].body);
    struct wire_answer *answer = ck_wire_error(find(malformed[_i].body, length), 400);

    ck_assert_msg(strstr(answer->body, "Malformed JSON in line ") != NULL, "%s: %s",
                  malformed[_i].body, answer->body);
}

TEST(a_malformed_form_is_not_called_json)
{
    static const int counts[] = {1, 10000};

    for (size_t i = 0; i < COUNT(counts); i++) {
        const char *body = text("%sa=%%zz", repeated("&&&", counts[i]));
        const struct wire_answer *answer = ck_wire_error(
            post("/api/auth/getAccess", "Content-Type: application/x-www-form-urlencoded\r\n", body,
                 strlen(body)),
            400);

        ck_assert_msg(strstr(answer->body, "Malformed body: not properly encoded") != NULL, "%s",
                      answer->body);
    }
}

/* Large bodies are accepted only from clients that have authenticated. */
TEST(who_needs_no_token_may_send_little)
{
    static const char *const paths[] = {"/api/auth/login", "/api/auth/getAccess",
                                        "/api/user/register"};

    for (size_t i = 0; i < COUNT(paths); i++) {
        const char *little = text("{%s}", repeated(" ", 30000));
        const char *much = text("{%s}", repeated(" ", 40000));

        ck_wire_error(post(paths[i], "Content-Type: application/json\r\n", little, strlen(little)),
                      400);
        ck_wire_error(post(paths[i], "Content-Type: application/json\r\n", much, strlen(much)),
                      413);
    }
}

/* N06 */
static const char *const no_objects[] = {"1",    "\"x\"", "true", "null", "[]",
                                         "[{}]", "-0",    "1.5",  "\"\"", "[[]]"};

TEST_EACH(what_is_no_object_is_refused, COUNT(no_objects))
{
    ck_wire_error(find(no_objects[_i], strlen(no_objects[_i])), 400);
}

static const struct {
    const char *path;
    const char *fields[6];
} routes[] = {
    {"/api/auth/login", {"username", "password"}},
    {"/api/user/register", {"firstName", "lastName", "email", "password", "orgName"}},
    {"/api/chat/conversations/start", {"participant1", "participant2", "username", "chatEntry"}},
    {"/api/chat/conversations/1/messages", {"username", "chatEntry"}},
};

static const char *const wrong_values[] = {"true",           "[]",  "{}",  "[\"a@b.example\"]",
                                           "{\"$gt\":\"\"}", "1.5", "null"};

static bool names_field(const struct wire_answer *answer, const char *field)
{
    return strstr(answer->body, text("{\"field\":\"%s\",\"problem\":", field)) != NULL;
}

TEST_EACH(a_wrong_type_is_refused_and_the_field_is_named, COUNT(routes))
{
    for (const char *const *field = routes[_i].fields; *field; field++) {
        for (size_t i = 0; i < COUNT(wrong_values); i++) {
            const char *body = text("{\"%s\":%s}", *field, wrong_values[i]);
            struct wire_answer *answer = ck_wire_error(
                post(routes[_i].path, "Content-Type: application/json\r\n", body, strlen(body)),
                400);

            ck_assert_msg(names_field(answer, *field), "%s %s: %s", routes[_i].path, body,
                          answer->body);
        }
    }
}

static struct wire_answer *start_with(const char *entry, size_t length)
{
    char *body = kept(calloc(1, length + 512));
    int used = sprintf(body,
                       "{\"participant1\":\"%s\",\"participant2\":\"o@shop.example\","
                       "\"username\":\"%s\",\"chatEntry\":\"",
                       user->email, user->email);

    memcpy(body + used, entry, length);
    memcpy(body + (size_t)used + length, "\"}", 2);
    return post("/api/chat/conversations/start", "Content-Type: application/json\r\n", body,
                (size_t)used + length + 2);
}

/* N07 */
TEST(a_message_may_have_up_to_a_mebibyte_and_must_say_something)
{
    static const char *const blank[] = {"", " ", "\\t\\n", "\xc2\xa0", "\xe3\x80\x80"};
    char *large = repeated("x", MIB + 1);

    for (size_t i = 0; i < COUNT(blank); i++)
        ck_assert(
            names_field(ck_wire_error(start_with(blank[i], strlen(blank[i])), 400), "chatEntry"));
    ck_assert_int_eq(start_with("\xe2\x80\xae", 3)->status, 201); /* only U+202E */
    ck_assert_int_eq(start_with(large, MIB)->status, 201);
    ck_wire_error(start_with(large, MIB + 1), 400);
}

SUITE(bodies, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
