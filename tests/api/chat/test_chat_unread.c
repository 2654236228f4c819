/* Totals of unread messages: exact under concurrency, and cheap for any number of messages. */
#include "exposition.h"
#include "stage.h"
#include "talk.h"

enum { WRITERS = 8, ASKED = 20 };

static struct person *platform;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "chat_unread"});
    platform = person_make(host, admin, "unread.platform", NULL);
}

/* Waits until all changes of the e-mail's totals are added up. */
static void expect_added_up(const char *email)
{
    sql_soon(db,
             text("SELECT (count(*) = 0)::int FROM chat_unread_change WHERE email = '%s'", email));
}

/* Counts the differences between the conversations and the totals; there must be none. */
static const char *const differences =
    "SELECT count(*) FROM (SELECT email, organisation, withheld, sum(messages) AS n FROM ("
    "SELECT email, organisation, withheld, messages FROM chat_unread"
    " UNION ALL SELECT email, organisation, withheld, messages FROM chat_unread_change"
    " UNION ALL SELECT participant1, coalesce(organisation, 0), withheld1, -unread1"
    " FROM chat_conversation"
    " UNION ALL SELECT participant2, coalesce(organisation, 0), withheld2, -unread2"
    " FROM chat_conversation) u GROUP BY 1, 2, 3) d WHERE n <> 0";

static const char *const name_differences =
    "SELECT count(*) FROM (SELECT email, organisation, withheld, name, sum(messages) AS n FROM ("
    "SELECT email, organisation, withheld, name, messages FROM chat_unread_name"
    " UNION ALL SELECT email, organisation, withheld, name, messages FROM chat_unread_change"
    " UNION ALL SELECT participant1, coalesce(organisation, 0), withheld1, device_project_name,"
    " -unread1 FROM chat_conversation"
    " UNION ALL SELECT participant2, coalesce(organisation, 0), withheld2, device_project_name,"
    " -unread2 FROM chat_conversation) u WHERE name IS NOT NULL GROUP BY 1, 2, 3, 4) d"
    " WHERE n <> 0";

/* Adds conversations as if posted: unread for `email`, which is participant1 of all. */
static void fill(const char *email, int64_t organization, int many)
{
    sql_run(db, text("INSERT INTO chat_conversation (id, organisation, entries, last_at, unread1,"
                     " unread2, head_uuid, last_entry_uuid, participant1, participant2,"
                     " device_project_name, withheld1) SELECT 1000000 + g, %jd, 1,"
                     " now() - (%d - g) * interval '1 ms', 1, 0, gen_random_uuid(),"
                     " gen_random_uuid(), '%s', 'x' || g || '@shop.example', 'site ' || g, true"
                     " FROM generate_series(1, %d) g",
                     organization, many, email, many));
}

/* Returns how many rows of a table have been read, according to the statistics. */
static int64_t rows_read(const char *table)
{
    return sql_number(db, text("SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)"
                               " FROM pg_stat_user_tables WHERE relname = '%s'",
                               table));
}

static int64_t totals_read_before;

/* Connections that are in use write their statistics about once a second. */
static bool asked_for(const char *email)
{
    talk_unread(host, platform, email);
    return rows_read("chat_unread") >= totals_read_before + ASKED;
}

TEST(unread_count_reads_no_conversations)
{
    char *email = text("many@shop.example");
    int many = 2000; /* more than are listed */

    fill(email, platform->organization, many);
    ck_assert_int_eq(talk_unread(host, platform, email), many);
    expect_added_up(email);
    totals_read_before = rows_read("chat_unread");
    int64_t read = rows_read("chat_conversation");

    ck_assert_int_eq(talk_unread(host, platform, email), many);
    ck_assert_int_eq(talk_unread(host, admin, email), many);
    const json_t *names =
        ck_status(talk_of(host, platform, "unread-devices", email, ""), 200)->json;

    ck_assert_uint_eq(json_array_size(names), 1000);
    ck_assert_str_eq(json_string_value(json_array_get(names, 0)), text("site %d", many));
    ck_assert_str_eq(json_string_value(json_array_get(names, 999)), text("site %d", many - 999));
    ck_assert(
        json_equal(names, ck_status(talk_of(host, admin, "unread-devices", email, ""), 200)->json));
    WAIT_UNTIL(asked_for(email), 20000);
    ck_assert_int_lt(rows_read("chat_conversation") - read, 100);

    struct talk talk = {1000001, NULL};

    ck_status(talk_read(host, platform, &talk, email), 200);
    ck_assert_int_eq(talk_unread(host, platform, email), many - 1);
    ck_status(talk_post(host, platform, &talk, "x1@shop.example", "again"), 201);
    ck_assert_int_eq(talk_unread(host, platform, email), many);
    names = ck_status(talk_of(host, platform, "unread-devices", email, ""), 200)->json;
    ck_assert_str_eq(json_string_value(json_array_get(names, 0)), "site 1");
    ck_assert_int_eq(sql_number(db, differences), 0);
    sql_run(db, "DELETE FROM chat_conversation WHERE id > 1000000");
    ck_assert_int_eq(talk_unread(host, platform, email), 0);
    expect_added_up(email);
    ck_assert_str_eq(talk_of(host, platform, "unread-devices", email, "")->body, "[]");
    ck_assert_int_eq(sql_number(db, differences), 0);
    ck_assert_int_eq(sql_number(db, name_differences), 0);
}

/* Returns a call that marks a conversation as read by the reader; NULL: a call that posts to it. */
static struct call unread_call(const struct talk *talk, const char *reader)
{
    if (reader)
        return call_by(platform, "PATCH /api/chat/conversations/%jd/read {'email':'%s'}", talk->id,
                       reader);
    return call_by(admin,
                   "POST /api/chat/conversations/%jd/messages"
                   " {'username':'" ADMIN_EMAIL "','chatEntry':'hot'}",
                   talk->id);
}

TEST(unread_totals_are_exact_under_concurrency)
{
    const char *hot = "hot@shop.example";
    struct talk talks[WRITERS];
    struct call calls[WRITERS];
    struct answer *answers[WRITERS];

    for (int i = 0; i < WRITERS; i++)
        talks[i] = talk_start(host, platform, hot, text("other%d@shop.example", i),
                              i % 2 ? text("Hot %d", i / 2) : NULL);
    for (int round = 0; round < repetitions(10, 40); round++) {
        for (int i = 0; i < WRITERS; i++)
            calls[i] =
                unread_call(&talks[(i + round) % WRITERS], (i + round) % 5 == 4 ? hot : NULL);
        parallel(host, calls, answers, WRITERS);
        for (int i = 0; i < WRITERS; i++)
            ck_assert_msg(answers[i]->status < 300, "%s", answers[i]->body);
    }
    ck_assert_int_eq(sql_number(db, differences), 0);
    ck_assert_int_eq(sql_number(db, name_differences), 0);
    ck_assert_int_eq(talk_unread(host, platform, hot),
                     sql_number(db, "SELECT sum(unread1) FROM chat_conversation"
                                    " WHERE participant1 = 'hot@shop.example'"));
    for (int i = 0; i < WRITERS; i++)
        ck_status(talk_read(host, platform, &talks[i], hot), 200);
    ck_assert_int_eq(talk_unread(host, platform, hot), 0);
    ck_assert_str_eq(talk_of(host, platform, "unread-devices", hot, "")->body, "[]");
}

static const char *listed(const char *query)
{
    return talk_of(host, platform, "conversations/user", "reader@shop.example", query)->body;
}

TEST(conversation_lists_have_unread_counts_of_both_participants_on_request)
{
    const char *reader = "reader@shop.example", *other = "writer@shop.example";
    struct talk talk = talk_start(host, platform, reader, other, "Listed");

    ck_status(talk_post(host, platform, &talk, other, "one"), 201);
    ck_status(talk_post(host, platform, &talk, other, "two"), 201);
    ck_assert_ptr_nonnull(strstr(listed("?unread=true&limit=5"), "\"unread1\":2,\"unread2\":1"));
    ck_status(talk_read(host, platform, &talk, other), 200);
    ck_assert_ptr_nonnull(strstr(listed("?unread=true"), "\"unread1\":2,\"unread2\":0"));
    ck_assert_ptr_null(strstr(listed("?unread=false"), "unread"));
    ck_assert_ptr_null(strstr(listed(""), "unread"));
}

/* Counts the additions to totals that wait for the lock that a test holds. */
static const char waiting[] = SQL_LOCK_WAITS " AND query LIKE 'WITH due AS%'";

struct two_hosts {
    struct host *host[2];
    const char *token;
    double skipped; /* runs of the job on both hosts, when the first addition waited */
};

static double skipped_of(const struct two_hosts *two)
{
    double sum = 0;

    for (int i = 0; i < 2; i++)
        sum += exposition_value(exposition_get(two->host[i], two->token), "busbar_job_runs_total",
                                "job=\"unread\",outcome=\"skipped\"");
    return sum;
}

TEST(only_one_of_two_hosts_adds_up_unread_totals_at_a_time)
{
    static const char modules[] = "[auth, chat, health, metrics]";
    const char *name = database_make(the_postgres, "chat_unread_two");
    struct two_hosts two;

    PQfinish(db);
    db = database_connect(the_postgres, name);
    PGconn *holder = database_connect(the_postgres, name);

    sql_run(holder, "BEGIN");
    sql_run(holder, "LOCK TABLE chat_unread IN SHARE MODE");
    sql_run(db, "INSERT INTO chat_unread_change (email, organisation, withheld, messages, at)"
                " SELECT 'two@shop.example', 1, false, 1, now() FROM generate_series(1, 100)");
    for (int i = 0; i < 2; i++)
        two.host[i] = host_start(&(struct host_spec){
            .name = text("chat-unread-%d", i), .database = name, .modules = modules});
    two.token = admin_of(two.host[0])->token;
    sql_soon(db, waiting);
    two.skipped = skipped_of(&two);
    WAIT_UNTIL(sql_number(db, waiting) > 1 || skipped_of(&two) > two.skipped + 2, HEALTHY_MS);
    ck_assert_int_le(sql_number(db, waiting), 1);
    sql_run(holder, "COMMIT");
    expect_added_up("two@shop.example");
    sql_is(db, 100, "SELECT messages FROM chat_unread WHERE email = 'two@shop.example'");
}

STAGE_SUITE(chat_unread, set_up, 300)
