/*
 * Events as received by a test module (module_spy.c): an event's row and the message are in one
 * transaction; a hook can refuse; a failure in a hook undoes only its own message, however many
 * messages shared the commit.
 */
#include "stage.h"
#include "talk.h"

enum { TOGETHER = 50 };

static struct person *platform;

static void set_up(void)
{
    stage_open(&(struct host_spec){
        .name = "events",
        .modules = text("[auth, chat, health, \"%s\"]", harness_test_module("module_spy")),
        .more = "spy:\n  veto: \"veto-me\"\n  raise: \"raise-me\"\n  break: \"break-me\"\n"
                "  late: \"late-me\"\n  sour: \"sour-me\"\n"});
    spy_await("events");
    platform = person_make(host, admin, "events.platform", NULL);
}

static int64_t events_with(const char *part)
{
    const char *values[] = {part};

    return strtoll(
        sql_text(db, "SELECT count(*) FROM spy_event WHERE position($1 in payload) > 0", 1, values),
        NULL, 10);
}

static int64_t messages_with(const char *part)
{
    const char *values[] = {part};

    return strtoll(sql_text(db,
                            "SELECT count(*) FROM chat_entry WHERE position($1 in chat_entry) > 0",
                            1, values),
                   NULL, 10);
}

/* An e-mail without an approved account gives nobody access. */
TEST(the_audience_is_the_organization_and_participants_with_an_account)
{
    struct answer *answer = ck_status(
        talk_try(host, platform, "audience@shop.example", ADMIN_EMAIL, NULL, "audience entry"),
        201);
    const char *values[] = {
        json_string_value(json_object_get(json_object_get(answer->json, "message"), "uuid"))};
    const char *who = sql_text(db,
                               "SELECT organisation || ' ' || emails FROM spy_event"
                               " WHERE payload::jsonb #>> '{message,uuid}' = $1",
                               1, values);

    ck_assert_str_eq(who, text("%jd " ADMIN_EMAIL, platform->organization));
}

/* Waits until each event has its copy. */
static void copies_soon(void)
{
    sql_soon(db, "SELECT (count(*) = 0)::int FROM spy_event e FULL JOIN spy_committed c USING (id)"
                 " WHERE e.id IS NULL OR c.id IS NULL");
}

TEST(committed_hooks_get_an_equal_copy_after_the_commit)
{
    struct talk talk = talk_start(host, platform, "copy@shop.example", ADMIN_EMAIL, "Roof 2");

    for (int i = 0; i < 5; i++)
        ck_status(talk_post(host, platform, &talk, "copy@shop.example", text("copy %d", i)), 201);
    copies_soon();
    sql_is(db, 0,
           "SELECT count(*) FROM spy_event e JOIN spy_committed c USING (id)"
           " WHERE e.payload <> c.payload OR e.name <> c.name"
           " OR NOT c.stored OR e.trace <> c.trace");
}

/* Posts all entries to the conversation at once. */
static void post_together(const struct talk *talk, const char *user, const char *const *entries,
                          struct answer **answers)
{
    struct call calls[TOGETHER];

    for (int i = 0; i < TOGETHER; i++)
        calls[i] = (struct call){
            .method = "POST",
            .path = text("/api/chat/conversations/%jd/messages", talk->id),
            .token = platform->token,
            .body = text("{\"username\":\"%s\",\"chatEntry\":\"%s\"}", user, entries[i])};
    parallel(host, calls, answers, TOGETHER);
}

/* Reads and writes of bb_query() share round trips; a failing read does not undo a write. */
TEST(a_failing_read_does_not_roll_back_writes_of_the_same_batch)
{
    struct talk talk = talk_start(host, platform, "sour@shop.example", ADMIN_EMAIL, NULL);
    const char *entries[TOGETHER];
    struct answer *answers[TOGETHER];

    for (int i = 0; i < TOGETHER; i++)
        entries[i] = text("%s %d", i % 2 ? "sour-me" : "sweet message", i);
    post_together(&talk, "sour@shop.example", entries, answers);
    for (int i = 0; i < TOGETHER; i++)
        ck_status(answers[i], 201);
    copies_soon();
}

/* Sends one misbehaving message among TOGETHER at once; all others must succeed. */
static void expect_only_it_undone(const char *user, const char *word, long status)
{
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    const char *entries[TOGETHER];
    struct answer *answers[TOGETHER];

    for (int i = 0; i < TOGETHER; i++)
        entries[i] = text("%s %d together", i == TOGETHER / 2 ? word : "well-behaved", i);
    post_together(&talk, user, entries, answers);
    for (int i = 0; i < TOGETHER; i++)
        ck_status(answers[i], i == TOGETHER / 2 ? status : 201);
    ck_assert_int_eq(messages_with(text("%s ", word)), 0);
    ck_assert_int_eq(events_with(text("%s ", word)), 0);
    ck_assert_uint_eq(talk_length(host, platform, &talk), TOGETHER);
    ck_assert_int_eq(answer_int(talk_of(host, admin, "unread-count", user, ""), "count"), 0);
    sql_is(db, TOGETHER, "SELECT unread2 FROM chat_conversation WHERE id = %jd", talk.id);
}

TEST(a_failing_hook_rolls_back_only_its_own_message)
{
    expect_only_it_undone("vetoer@shop.example", "veto-me", 409);
    expect_only_it_undone("raiser@shop.example", "raise-me", 422);
    expect_only_it_undone("breaker@shop.example", "break-me", 500);
}

/* The commit fails after every statement has succeeded; a request that waited for its deadline
 * would get a 503. */
TEST(a_failing_commit_rolls_back_only_its_own_message)
{
    struct talk talk = talk_start(host, platform, "late@shop.example", ADMIN_EMAIL, NULL);
    struct answer *answer = talk_post(host, platform, &talk, "late@shop.example", "late-me alone");

    ck_error(answer, 500, "");
    expect_only_it_undone("latecomer@shop.example", "late-me", 500);
}

TEST(a_vetoed_start_leaves_no_conversation)
{
    ck_error(talk_try(host, platform, "vetoed@shop.example", ADMIN_EMAIL, NULL, "veto-me at once"),
             409, "The spy does not like this message");
    ck_assert_str_eq(
        ck_status(talk_of(host, platform, "conversations/user", "vetoed@shop.example", ""), 200)
            ->body,
        "[]");
}

/* Runs last, over the messages of all other tests. */
TEST(every_message_has_one_event_and_every_event_a_message)
{
    sql_is(db, 0,
           "SELECT count(*) FROM chat_entry m FULL JOIN (SELECT"
           " payload::jsonb #>> '{message,uuid}' AS uuid, name FROM spy_event) e"
           " ON m.uuid::text = e.uuid WHERE m.uuid IS NULL OR e.uuid IS NULL"
           " OR (m.seq = 1) <> (e.name = 'conversation.created')");
    sql_is(db, 0,
           "SELECT count(*) - (SELECT count(*) FROM chat_entry)"
           " FROM spy_event");
    ck_assert_int_gt(sql_number(db, "SELECT count(*) FROM spy_event"), 3 * TOGETHER);
}

/* A lock left on the connection would prevent every other host from running the job. */
TEST(a_job_that_runs_out_of_memory_releases_its_lock)
{
    host_start(
        &(struct host_spec){.name = "events-greedy",
                            .modules = text("[auth, \"%s\"]", harness_test_module("module_spy")),
                            .more = "spy:\n  greedy: true\n"});
    PGconn *other = database_connect(the_postgres, "events_greedy");

    spy_await("events_greedy");
    sql_soon(other, "SELECT count(*) FROM spy_run");
    sql_is(other, 0,
           "SELECT count(*) FROM spy_run WHERE trace !~"
           " '^00-[0-9a-f]{32}-[0-9a-f]{16}-02$'");
    sql_soon(other, "SELECT (count(*) = 0)::int FROM pg_locks WHERE locktype = 'advisory'"
                    " AND (classid::bigint << 32 | objid::bigint)"
                    " = hashtextextended('spy.once', 0)");
}

STAGE_SUITE(events, set_up, 60)
