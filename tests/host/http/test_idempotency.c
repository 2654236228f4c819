/* Idempotency-Key on the two POSTs of chat that create something: however often they are repeated,
 * one response and one row. */
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "suites.h"
#include "talk.h"

enum { TOGETHER = 20 };

static struct host *host;
static struct person *admin, *platform, *other;
static const char *database;

static void set_up(void)
{
    database = database_make(the_postgres, "idempotency");
    host = host_start(&(struct host_spec){.name = "idempotency", .database = database});
    admin = admin_of(host);
    platform = person_make(host, admin, "idem.platform", NULL);
    other = person_make(host, admin, "idem.other", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

static const char *const *key_header(const char *key)
{
    const char **headers = kept(calloc(2, sizeof *headers));

    headers[0] = text("Idempotency-Key: %s", key);
    return headers;
}

static struct call start_call(const struct person *by, const char *key, const char *user,
                              const char *entry)
{
    return (struct call){.method = "POST",
                         .path = "/api/chat/conversations/start",
                         .token = by->token,
                         .headers = key_header(key),
                         .body = text("{\"participant1\":\"%s\",\"participant2\":\"" ADMIN_EMAIL
                                      "\",\"username\":\"%s\",\"chatEntry\":\"%s\"}",
                                      user, user, entry)};
}

static struct call post_call(const struct person *by, const char *key, const struct talk *talk,
                             const char *user, const char *entry)
{
    return (struct call){.method = "POST",
                         .path = text("/api/chat/conversations/%jd/messages", (intmax_t)talk->id),
                         .token = by->token,
                         .headers = key_header(key),
                         .body = text("{\"username\":\"%s\",\"chatEntry\":\"%s\"}", user, entry)};
}

static bool replayed(const struct answer *answer)
{
    const char *header = answer_header(answer, "Idempotency-Replayed");

    return header && !strcmp(header, "true");
}

static size_t conversations_of(const char *user)
{
    return json_array_size(
        ck_status(talk_of(host, admin, "conversations/user", user, ""), 200)->json);
}

TEST(a_repeated_start_answers_the_same_and_starts_nothing)
{
    struct call call = start_call(platform, "start-1", "idem.start@shop.example", "idem start");
    struct answer *first = ck_status(http_send(host, &call), 201);
    struct answer *again = ck_status(http_send(host, &call), 201);

    ck_assert_str_eq(first->body, again->body);
    ck_assert(!replayed(first));
    ck_assert(replayed(again));
    ck_assert_uint_eq(conversations_of("idem.start@shop.example"), 1);
}

TEST(a_repeated_message_answers_the_same_and_adds_nothing)
{
    const char *user = "idem.post@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    struct call call = post_call(platform, "post-1", &talk, user, "idem message");
    struct answer *first = ck_status(http_send(host, &call), 201);
    struct answer *again = ck_status(http_send(host, &call), 201);

    ck_assert_str_eq(first->body, again->body);
    ck_assert(!replayed(first));
    ck_assert(replayed(again));
    ck_assert_uint_eq(talk_length(host, platform, &talk), 2);
}

TEST(the_same_key_for_another_request_is_refused)
{
    const char *user = "idem.body@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    struct talk second = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    struct call call = post_call(platform, "body-1", &talk, user, "idem body one");
    struct call changed = post_call(platform, "body-1", &talk, user, "idem body two");
    struct call moved = post_call(platform, "body-1", &second, user, "idem body one");
    struct call asked = call;

    ck_status(http_send(host, &call), 201);
    ck_error(http_send(host, &changed), 422, "");
    ck_error(http_send(host, &moved), 422, "");
    asked.path = text("%s?mode=other", call.path);
    ck_error(http_send(host, &asked), 422, "");
    ck_assert_uint_eq(talk_length(host, platform, &talk), 2);
    ck_assert_uint_eq(talk_length(host, platform, &second), 1);
}

static struct call register_call(const char *key, const char *name)
{
    return (struct call){.method = "POST",
                         .path = "/api/user/register",
                         .headers = key_header(key),
                         .body = text("{\"firstName\":\"A\",\"lastName\":\"B\",\"email\":"
                                      "\"%s@example.com\",\"password\":\"long enough\","
                                      "\"orgName\":\"Of %s\"}",
                                      name, name)};
}

/* Two clients with the same address chose the same key, for example "1". */
TEST(strangers_of_one_address_do_not_share_their_keys)
{
    struct call one = register_call("1", "idem.one"), two = register_call("1", "idem.two");
    struct answer *first = ck_status(http_send(host, &one), 201);

    ck_assert(!replayed(ck_status(http_send(host, &two), 201)));
    struct answer *again = ck_status(http_send(host, &one), 201);

    ck_assert(replayed(again));
    ck_assert_str_eq(first->body, again->body);
}

TEST(twenty_at_once_with_one_key_make_one_message)
{
    const char *user = "idem.parallel@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    struct call calls[TOGETHER];
    struct answer *answers[TOGETHER];
    int first_ones = 0;

    for (int i = 0; i < TOGETHER; i++)
        calls[i] = post_call(platform, "parallel-1", &talk, user, "idem parallel");
    parallel(host, calls, answers, TOGETHER);
    for (int i = 0; i < TOGETHER; i++) {
        ck_status(answers[i], 201);
        ck_assert_str_eq(answers[i]->body, answers[0]->body);
        first_ones += !replayed(answers[i]);
    }
    ck_assert_int_eq(first_ones, 1);
    ck_assert_uint_eq(talk_length(host, platform, &talk), 2);
}

TEST(twenty_starts_at_once_with_one_key_make_one_conversation)
{
    struct call calls[TOGETHER];
    struct answer *answers[TOGETHER];

    for (int i = 0; i < TOGETHER; i++)
        calls[i] = start_call(platform, "parallel-2", "idem.starts@shop.example", "idem starts");
    parallel(host, calls, answers, TOGETHER);
    for (int i = 0; i < TOGETHER; i++)
        ck_assert_str_eq(ck_status(answers[i], 201)->body, answers[0]->body);
    ck_assert_uint_eq(conversations_of("idem.starts@shop.example"), 1);
}

TEST(another_account_may_use_the_same_key)
{
    struct call mine = start_call(platform, "shared-key", "idem.mine@shop.example", "idem mine");
    struct call theirs = start_call(other, "shared-key", "idem.theirs@shop.example", "idem theirs");

    ck_status(http_send(host, &mine), 201);
    struct answer *answer = ck_status(http_send(host, &theirs), 201);

    ck_assert(!replayed(answer));
    ck_assert_uint_eq(conversations_of("idem.theirs@shop.example"), 1);
}

TEST(a_refused_request_does_not_use_up_its_key)
{
    const char *user = "idem.refused@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    struct call blank = post_call(platform, "refused-1", &talk, user, " ");
    struct call good = post_call(platform, "refused-1", &talk, user, "idem good");

    ck_error(http_send(host, &blank), 400, "");
    ck_status(http_send(host, &good), 201);
}

TEST(stored_answers_are_sealed)
{
    const char *user = "idem.sealed@shop.example", *entry = "a text that must not lie open";
    struct call call = start_call(platform, "sealed-1", user, entry);
    PGconn *db = database_connect(the_postgres, database);
    const char *values[] = {entry, user};

    ck_status(http_send(host, &call), 201);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM busbar_idempotency WHERE key = 'sealed-1'"
                                    " AND length(reply) > 100"),
                     1);
    ck_assert_str_eq(sql_text(db,
                              "SELECT count(*) FROM busbar_idempotency WHERE"
                              " position(convert_to($1, 'UTF8') in reply) > 0"
                              " OR position(convert_to($2, 'UTF8') in reply) > 0"
                              " OR request_hash LIKE '%' || $1 || '%'",
                              2, values),
                     "0");
    PQfinish(db);
}

TEST(keys_that_do_not_fit_are_refused)
{
    char *longest = kept(calloc(1, 257));

    memset(longest, 'k', 256);
    struct call call = start_call(platform, longest, "idem.key@shop.example", "idem key");

    ck_error(http_send(host, &call), 400, "");
    call.headers = key_header(longest + 1);
    ck_status(http_send(host, &call), 201);
    ck_assert_uint_eq(conversations_of("idem.key@shop.example"), 1);
}

SUITE(idempotency, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
