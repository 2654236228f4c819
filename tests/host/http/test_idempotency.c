/*
 * Idempotency-Key: however often a request is repeated, there is one response and one row. See
 * statuses for the key on every operation that creates something.
 */
#include "exposition.h"
#include "stage.h"
#include "talk.h"

enum { TOGETHER = 20 };

static struct person *platform, *other;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "idempotency",
                                   .modules = "[auth, chat, health, metrics]",
                                   .http = "  metrics_networks: [127.0.0.1]\n"
                                           "  client_percent: 100\n"});
    platform = person_make(host, admin, "idem.platform", NULL);
    other = person_make(host, admin, "idem.other", NULL);
}

/* Sends a request with this key; `replayed`: whether the response must be an earlier one. */
static struct answer *keyed(const char *key, const struct person *by, const char *request,
                            int status, bool replayed)
{
    const struct exchange row = {request, by, status, .header = text("Idempotency-Key: %s", key)};
    struct answer *answer = ask_with(&row);

    ck_assert_pstr_eq(answer_header(answer, "Idempotency-Replayed"), replayed ? "true" : NULL);
    return answer;
}

static const char *start_of(const char *user)
{
    return text(
        "POST /api/chat/conversations/start {'participant1':'%s','participant2':'" ADMIN_EMAIL
        "','username':'%s','chatEntry':'a text of idempotency'}",
        user, user);
}

static const char *post_of(const struct talk *talk, const char *query, const char *user,
                           const char *entry)
{
    return text("POST /api/chat/conversations/%jd/messages%s {'username':'%s','chatEntry':'%s'}",
                talk->id, query, user, entry);
}

static size_t conversations_of(const char *user)
{
    return json_array_size(
        ck_status(talk_of(host, admin, "conversations/user", user, ""), 200)->json);
}

TEST(a_repeated_idempotency_key_returns_the_first_response)
{
    const char *start = start_of("idem.start@shop.example");
    struct talk talk = talk_start(host, platform, "idem.post@shop.example", ADMIN_EMAIL, NULL);
    const char *post = post_of(&talk, "", "idem.post@shop.example", "idem message");
    struct answer *started = keyed("start-1", platform, start, 201, false);
    struct answer *posted = keyed("post-1", platform, post, 201, false);

    ck_assert_str_eq(keyed("start-1", platform, start, 201, true)->body, started->body);
    ck_assert_str_eq(keyed("post-1", platform, post, 201, true)->body, posted->body);
    ck_assert_uint_eq(conversations_of("idem.start@shop.example"), 1);
    ck_assert_uint_eq(talk_length(host, platform, &talk), 2);
    /* another account may use the same key */
    keyed("start-1", other, start_of("idem.theirs@shop.example"), 201, false);
    ck_assert_uint_eq(conversations_of("idem.theirs@shop.example"), 1);
}

TEST(an_idempotency_key_of_another_request_is_refused)
{
    const char *user = "idem.body@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    struct talk second = talk_start(host, platform, user, ADMIN_EMAIL, NULL);

    keyed("body-1", platform, post_of(&talk, "", user, "one"), 201, false);
    keyed("body-1", platform, post_of(&talk, "", user, "two"), 422, false);
    keyed("body-1", platform, post_of(&second, "", user, "one"), 422, false);
    keyed("body-1", platform, post_of(&talk, "?mode=other", user, "one"), 422, false);
    ck_assert_uint_eq(talk_length(host, platform, &talk), 2);
    ck_assert_uint_eq(talk_length(host, platform, &second), 1);
}

/* Two clients with the same address chose the same key, for example "1". */
TEST(anonymous_clients_of_one_address_do_not_share_idempotency_keys)
{
    static const char form[] = "POST /api/user/register {'firstName':'A','lastName':'B',"
                               "'password':'long enough','email':'%s@example.com','orgName':'%s'}";
    const char *one = text(form, "idem.one", "Of one"), *two = text(form, "idem.two", "Of two");
    struct answer *first = keyed("1", NULL, one, 201, false);

    keyed("1", NULL, two, 201, false);
    ck_assert_str_eq(keyed("1", NULL, one, 201, true)->body, first->body);
}

TEST(twenty_parallel_requests_with_one_idempotency_key_make_one_row)
{
    static const char *const headers[] = {"Idempotency-Key: parallel", NULL};
    struct talk talk = talk_start(host, platform, "idem.many@shop.example", ADMIN_EMAIL, NULL);
    const struct call post = {.method = "POST",
                              .path = text("/api/chat/conversations/%jd/messages", talk.id),
                              .token = platform->token,
                              .headers = headers,
                              .body = "{\"username\":\"idem.many@shop.example\","
                                      "\"chatEntry\":\"idem parallel\"}"};
    const struct call start = {.method = "POST",
                               .path = "/api/chat/conversations/start",
                               .token = other->token,
                               .headers = headers,
                               .body = "{\"participant1\":\"idem.starts@shop.example\","
                                       "\"participant2\":\"" ADMIN_EMAIL "\",\"username\":"
                                       "\"idem.starts@shop.example\",\"chatEntry\":\"hello\"}"};
    struct call calls[2 * TOGETHER];
    struct answer *answers[2 * TOGETHER];
    int first_ones = 0;

    for (int i = 0; i < 2 * TOGETHER; i++)
        calls[i] = i % 2 ? post : start;
    parallel(host, calls, answers, 2 * TOGETHER);
    for (int i = 0; i < 2 * TOGETHER; i++) {
        ck_assert_str_eq(ck_status(answers[i], 201)->body, answers[i % 2]->body);
        first_ones += answer_header(answers[i], "Idempotency-Replayed") == NULL;
    }
    ck_assert_int_eq(first_ones, 2);
    ck_assert_uint_eq(talk_length(host, platform, &talk), 2);
    ck_assert_uint_eq(conversations_of("idem.starts@shop.example"), 1);
}

/* Requests sent while the creation of an organization with the key "taken" is not committed. Their
 * own transactions then find that an organization of this name exists. */
static const struct {
    const char *key, *address;
    long status;
    bool replayed;
} meanwhile[] = {
    {"taken", "First street", 201, true},
    {"taken", "Second street", 422, false},
    {"free", "First street", 409, false},
};

TEST_EACH(a_conflict_with_the_first_request_of_the_key_is_no_conflict, COUNT(meanwhile))
{
    static const char form[] = "POST /api/organization {'name':'Conflict %d','address':'%s'}";
    const char *const headers[][2] = {{"Idempotency-Key: taken"},
                                      {text("Idempotency-Key: %s", meanwhile[_i].key)}};
    const struct person *maker = person_make(host, admin, text("idem.maker.%d", _i), "ApiUser");
    struct call first = call_by(maker, form, _i, "First street");
    struct call second = call_by(maker, form, _i, meanwhile[_i].address);

    first.headers = headers[0];
    second.headers = headers[1];
    sql_trigger(db, "AFTER INSERT ON auth_organisation FOR EACH ROW", SQL_GATE);
    sql_run(db, SQL_GATE_SHUT);
    struct pending_call *made = call_begin(host, &first);

    sql_soon(db, SQL_GATE_WAITS);
    struct pending_call *again = call_begin(host, &second);

    sql_soon(db, SQL_LOCK_WAITS " AND wait_event = 'transactionid'");
    sql_run(db, SQL_GATE_OPEN);
    struct answer *answer = ck_status(call_end(made), 201), *later = call_end(again);

    sql_run(db, SQL_TRIGGER_DROP);
    ck_status(later, meanwhile[_i].status);
    ck_assert_pstr_eq(answer_header(later, "Idempotency-Replayed"),
                      meanwhile[_i].replayed ? "true" : NULL);
    if (meanwhile[_i].replayed)
        ck_assert_str_eq(later->body, answer->body);
}

TEST(a_refused_request_does_not_use_up_its_idempotency_key)
{
    const char *user = "idem.refused@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);

    keyed("refused-1", platform, post_of(&talk, "", user, " "), 400, false);
    keyed("refused-1", platform, post_of(&talk, "", user, "idem good"), 201, false);
}

TEST(stored_idempotent_responses_are_encrypted)
{
    const char *values[] = {"a text of idempotency", "idem.sealed@shop.example"};

    keyed("sealed-1", platform, start_of(values[1]), 201, false);
    sql_is(db, 1,
           "SELECT count(*) FROM busbar_idempotency WHERE key = 'sealed-1'"
           " AND length(reply) > 100");
    ck_assert_str_eq(sql_text(db,
                              "SELECT count(*) FROM busbar_idempotency WHERE"
                              " position(convert_to($1, 'UTF8') in reply) > 0"
                              " OR position(convert_to($2, 'UTF8') in reply) > 0"
                              " OR request_hash LIKE '%' || $1 || '%'",
                              2, values),
                     "0");
}

TEST(a_response_is_repeated_for_a_day_and_dropped_with_its_partition)
{
    static const char aged[] = "UPDATE busbar_idempotency SET created_at = now() - interval '%s'"
                               " WHERE key = 'days-1'";
    static const char kept[] = "SELECT count(*) FROM busbar_idempotency WHERE key = 'days-1'";
    static const char job[] = "SELECT busbar_idempotency_partitions(24)";
    static const char runs[] = "job=\"busbar.idempotency\",outcome=\"done\"";
    const char *start = start_of("idem.days@shop.example");

    /* the host's own job must not drop the partition; its next run is in an hour */
    WAIT_UNTIL(exposition_value(exposition_get(host, NULL), "busbar_job_runs_total", runs) > 0,
               60000);
    struct answer *first = keyed("days-1", platform, start, 201, false);

    sql_run(db, text(aged, "23 hours 59 minutes")); /* usually it moves to another partition */
    sql_run(db, job);
    ck_assert_str_eq(keyed("days-1", platform, start, 201, true)->body, first->body);
    sql_run(db, "DO $$ DECLARE day date := now() AT TIME ZONE 'UTC' - interval '3 days'; BEGIN"
                " EXECUTE format('CREATE TABLE %I PARTITION OF busbar_idempotency FOR VALUES"
                " FROM (%L) TO (%L)', busbar_idempotency_day(day), day, day + 1); END $$");
    sql_run(db, text(aged, "3 days"));
    keyed("days-1", platform, start, 201, false);
    ck_assert_uint_eq(conversations_of("idem.days@shop.example"), 2);
    sql_is(db, 2, kept);
    sql_run(db, job);
    sql_is(db, 1, kept);
    sql_run(db, text(aged, "25 hours")); /* in the default partition */
    sql_run(db, job);
    sql_is(db, 0, kept);
}

TEST(invalid_idempotency_keys_are_refused)
{
    const char *user = "idem.key@shop.example";

    keyed(text_repeated("k", 256), platform, start_of(user), 400, false);
    keyed(text_repeated("k", 255), platform, start_of(user), 201, false);
    ck_assert_uint_eq(conversations_of(user), 1);
}

STAGE_SUITE(idempotency, set_up, 60)
