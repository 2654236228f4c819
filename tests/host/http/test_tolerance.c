/*
 * Tolerance: requests that are unusual but safe are accepted, and ignored parts are listed in the
 * response's `warnings`, or in X-Ignored-Parameters.
 */
#include <string.h>

#include "people.h"
#include "suite.h"
#include "suites.h"

#define START "/api/chat/conversations/start"
#define FIND "/api/chat/conversations/find"
#define IGNORED "X-Ignored-Parameters"
#define ORIGIN "https://app.example"

static struct host *host;
static struct person *admin, *user;

static void set_up(void)
{
    host = host_start(&(struct host_spec){.name = "tolerance",
                                          .database = database_make(the_postgres, "tolerance"),
                                          .modules = "[auth, chat, device, health, webhook]",
                                          .http = "  cors_origins: [\"" ORIGIN "\"]\n",
                                          .more = "webhook:\n  allow_networks: "
                                                  "[\"127.0.0.0/8\"]\n"});
    admin = admin_of(host);
    user = person_make(host, admin, "tolerance", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

static struct answer *post(const char *path, const char *body)
{
    return http_send(
        host, &(struct call){.method = "POST", .path = path, .token = user->token, .body = body});
}

static struct answer *get(const char *path)
{
    return ck_status(http(host, "GET", path, user->token, NULL), 200);
}

/* Checks a member of the response, or of its message or conversation, as JSON text. */
static void ck_member(const struct answer *answer, const char *name, const char *json)
{
    static const char *const inner[] = {"message", "conversation"};
    const json_t *object = answer->json;

    for (size_t i = 0; i < 2; i++) {
        const json_t *in = json_object_get(answer->json, inner[i]);

        object = json_object_get(in, name) ? in : object;
    }
    char *made = json_dumps(json_object_get(object, name), JSON_ENCODE_ANY | JSON_COMPACT);

    ck_assert_msg(made && !strcmp(kept(made), json), "%s: %s", name, answer->body);
}

static const char *start_of(const char *entry, const char *more)
{
    return text("{\"participant1\":\" %s \",\"participant2\":\"o@shop.example\","
                "\"username\":\"%s\\n\",\"chatEntry\":%s%s}",
                user->email, user->email, entry, more);
}

TEST(numbers_and_digits_are_taken_for_each_other)
{
    struct answer *made =
        ck_status(post("/api/device", "{\"externalId\":\" 4711 \",\"capacity\":\"10.5\","
                                      "\"serialNumber\":123456789012345678,\"yieldValue\":\" 900\","
                                      "\"latitude\":\" 52.5200 \",\"siteName\":\" Roof 7 \"}"),
                  201);

    ck_member(made, "externalId", "\"4711\"");
    ck_member(made, "capacity", "10.5");
    ck_member(made, "yieldValue", "900");
    ck_member(made, "serialNumber", "\"123456789012345678\"");
    ck_member(made, "latitude", "\"52.5200\"");
    ck_member(made, "siteName", "\"Roof 7\"");
    answer_warns(made, NULL);
    made = ck_status(post(START, start_of("42", ",\"organizationId\":\"1\"")), 201);
    ck_member(made, "chatEntry", "\"42\"");
}

TEST(a_fraction_is_no_text_and_a_word_no_number)
{
    ck_error(post(START, start_of("1.5", "")), 400, "");
    ck_error(post("/api/device", "{\"externalId\":\"Word\",\"capacity\":\"ten\"}"), 400, "");
    ck_error(post("/api/device", "{\"externalId\":\"Word\",\"capacity\":\"1e3\"}"), 400, "");
    ck_error(post("/api/device", "{\"externalId\":\"Word\",\"capacity\":\"-1\"}"), 400, "");
}

TEST(an_empty_optional_field_is_absent_and_told)
{
    struct answer *made =
        ck_status(post("/api/device", "{\"externalId\":\"Empty\",\"capacity\":\"\","
                                      "\"timezone\":\"  \",\"latitude\":\"\",\"note\":\"\"}"),
                  201);

    ck_member(made, "capacity", "null");
    ck_member(made, "timezone", "null");
    ck_member(made, "attributes", "{\"note\":\"\"}");
    ck_member(made, "warnings",
              "[\"capacity: is empty, and was taken as absent\","
              "\"latitude: is empty, and was taken as absent\","
              "\"timezone: is empty, and was taken as absent\"]");
    made = ck_status(post(START, start_of("\"x\"", ",\"deviceProjectName\":\"\"")), 201);
    ck_member(made, "deviceProjectName", "null");
    answer_warns(made, "deviceProjectName: is empty");
    ck_error(post(START, start_of("\"\"", "")), 400, "");
}

TEST(an_exact_answer_has_no_key_more_unless_there_is_something_to_tell)
{
    answer_warns(ck_status(post(START, start_of("\"x\"", ",\"unknown\":1")), 201), NULL);
    answer_warns(ck_status(post(FIND, "{}"), 200), NULL);
}

TEST(a_message_keeps_its_blanks)
{
    struct answer *made = ck_status(
        post(START, start_of("\" \\n hi \\t\"", ",\"deviceProjectName\":\" Roof \"")), 201);

    ck_member(made, "chatEntry", "\" \\n hi \\t\"");
    ck_member(made, "deviceProjectName", "\" Roof \"");
}

TEST(a_password_keeps_its_blanks_and_is_no_number)
{
    const char *email = "blank-password@example.com";
    const char *body = text("{\"firstName\":\" A \",\"lastName\":\"B\",\"email\":\"%s\","
                            "\"password\":\" long password \",\"orgName\":\"Blank password\"}",
                            email);

    ck_status(
        http_send(host,
                  &(struct call){.method = "POST", .path = "/api/user/register", .body = body}),
        201);
    body = text("{\"username\":\"%s\",\"password\":\"long password\"}", email);
    ck_status(
        http_send(host, &(struct call){.method = "POST", .path = "/api/auth/login", .body = body}),
        401);
    body = text("{\"username\":\"%s\",\"password\":\" long password \"}", email);
    ck_status(
        http_send(host, &(struct call){.method = "POST", .path = "/api/auth/login", .body = body}),
        403); /* a known account, still pending */
}

TEST(of_a_parameter_the_last_counts_and_a_limit_is_clamped)
{
    ck_status(post("/api/device", "{\"externalId\":\"First\"}"), 201);
    ck_status(post("/api/device", "{\"externalId\":\"Second\"}"), 201);
    ck_assert_uint_eq(json_array_size(get("/api/device?limit=2&limit=1")->json), 1);
    ck_assert_uint_ge(json_array_size(get("/api/device?limit=100000")->json), 2);
    ck_assert_uint_ge(json_array_size(get("/api/device?limit=&limit=")->json), 2);
    ck_error(http(host, "GET", "/api/device?limit=0", user->token, NULL), 400, "");
    ck_error(http(host, "GET", "/api/device?limit=-1", user->token, NULL), 400, "");
    struct answer *found =
        ck_status(post(START "?organizationId=5&organizationId=6", start_of("\"x\"", "")), 201);
    answer_warns(found, "organizationId: is given twice");
}

TEST(unknown_parameters_are_named)
{
    struct answer *answer = get("/api/device?colour=blue&limit=1&na%2Cme=%01&colour=x");

    ck_assert_str_eq(answer_header(answer, IGNORED), "colour, na%2Cme");
    ck_assert_ptr_null(answer_header(get("/api/device?limit=1"), IGNORED));
    answer = post(FIND "?verbose", "{}");
    ck_assert_str_eq(answer_header(ck_status(answer, 200), IGNORED), "verbose");
    answer = http(host, "GET", "/api/device?limit=0&x=1", user->token, NULL);
    ck_assert_str_eq(answer_header(ck_status(answer, 400), IGNORED), "x");
}

TEST(a_page_of_another_origin_may_read_the_names)
{
    const char *const headers[] = {"Origin: " ORIGIN, NULL};
    struct answer *answer = http_send(host, &(struct call){.method = "GET",
                                                           .path = "/api/device?x=1",
                                                           .token = user->token,
                                                           .headers = headers});

    ck_assert_ptr_nonnull(
        strstr(answer_header(ck_status(answer, 200), "Access-Control-Expose-Headers"), IGNORED));
}

TEST(warnings_are_stored_with_an_answer)
{
    const char *const headers[] = {"Idempotency-Key: tolerance-1", NULL};
    const struct call call = {.method = "POST",
                              .path = "/api/device",
                              .token = user->token,
                              .body = "{\"externalId\":\"Stored\",\"capacity\":\"6000\"}",
                              .headers = headers};
    struct answer *first = ck_status(http_send(host, &call), 201);
    struct answer *second = ck_status(http_send(host, &call), 201);

    answer_warns(first, "capacity: is in kW");
    ck_assert_str_eq(first->body, second->body);
}

/* A time without an offset is in UTC; an unencoded + arrives as a space. */
TEST(a_time_without_an_offset_is_in_utc)
{
    static const char *const times[] = {"2026-05-01T00:00:00", "2026-05-01 00:00",
                                        "2026-05-01T00:00:00 02:00", "2026-05-01"};
    const struct answer *made = ck_status(
        post("/api/chat/webhooks", "{\"url\":\"http://127.0.0.1:8099/\",\"events\":[]}"), 201);
    json_int_t id = json_integer_value(json_object_get(made->json, "id"));

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        ck_status(post(text("/api/chat/webhooks/%jd/recover", (intmax_t)id),
                       text("{\"since\":\"%s\"}", times[i])),
                  200);
    ck_status(post(text("/api/chat/webhooks/%jd/recover", (intmax_t)id),
                   "{\"since\":\"2026-05-01T00:00:00 UTC\"}"),
              400);
}

SUITE(tolerance, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
