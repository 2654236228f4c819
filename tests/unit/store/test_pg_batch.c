/* Batches: the requests that one connection sends together, their order, which requests fail if one
 * of them does, and which are sent again. */
#include "pg_stage.h"
#include "suite.h"

enum { CALLS = 5, FAILING = 2, TRIES = 4 };

static struct stage_call calls[CALLS];

static void set_up(void)
{
    static const char *const texts[CALLS] = {"SELECT 'one'", "SELECT 'two'", "SELECT 'three'",
                                             "SELECT 'four'", "SELECT 'five'"};

    stage_set_up();
    for (int i = 0; i < CALLS; i++)
        calls[i] = (struct stage_call){.sql.text = texts[i], .key = (uint64_t)i};
}

/* The requests wait for the connection, which is not made yet, so they go out in one batch. */
static void ask_together(int count)
{
    for (int i = 0; i < count; i++)
        stage_ask(&calls[i]);
    stage_finish();
}

static void make_units(void)
{
    for (int i = 0; i < CALLS; i++)
        calls[i].work = stage_unit;
}

static void expect_all_but(int failing, const char *sqlstate)
{
    for (int i = 0; i < CALLS; i++) {
        if (i != failing) {
            stage_expect_row(&calls[i]);
            continue;
        }
        stage_expect_failure(&calls[i], FAILED_SQL);
        ck_assert_str_eq(calls[i].failure.sqlstate, sqlstate);
    }
}

TEST(five_waiting_requests_share_one_batch)
{
    stage_open(PG_READ, 1);
    ask_together(CALLS);
    expect_all_but(-1, "");
    ck_assert_uint_eq(stage_server.syncs, 1);
}

/* All hosts take locks in the same order. */
TEST(units_of_a_batch_are_sorted_by_key)
{
    make_units();
    for (int i = 0; i < CALLS; i++)
        calls[i].key = (uint64_t)(CALLS - i);
    stage_open(PG_UNIT, 1);
    ask_together(CALLS);
    expect_all_but(-1, "");
    ck_assert_uint_eq(stage_server.syncs, 1);
    ck_assert_uint_eq(stage_server.heard_count, CALLS);
    for (int i = 0; i < CALLS; i++)
        ck_assert_str_eq(stage_server.heard[i].text, calls[CALLS - 1 - i].sql.text);
}

/* A statement or a commit that fails once or twice, and the request that fails because of it. */
static const struct {
    bool units;
    enum script_when when;
    const char *text, *sqlstate;
    int times, failing;
} failures[] = {
    {false, SCRIPT_EXECUTE, "three", "22012", 1, FAILING},
    {false, SCRIPT_PARSE, "three", "42601", 1, FAILING},
    /* the whole batch is rolled back, so each unit is sent once more in its own transaction; the
     * failing one fails again */
    {true, SCRIPT_EXECUTE, "three", "23505", 2, FAILING},
    /* which unit violates the constraint shows only when each commits separately */
    {true, SCRIPT_SYNC, NULL, "23505", 2, 0},
};

TEST_EACH(one_failing_request_of_a_batch_fails_alone, sizeof failures / sizeof *failures)
{
    bool units = failures[_i].units;
    int failing = failures[_i].failing;

    for (int i = 0; i < failures[_i].times; i++)
        stage_play(failures[_i].when, failures[_i].text, SCRIPT_ERROR, failures[_i].sqlstate);
    if (units)
        make_units();
    stage_open(units ? PG_UNIT : PG_READ, 1);
    ask_together(CALLS);
    expect_all_but(failing, failures[_i].sqlstate);
    ck_assert_uint_eq(stage_server.accepted, 1);
    for (int i = 0; i < CALLS; i++) {
        ck_assert_uint_eq(calls[i].told, units && i != failing);
        ck_assert_uint_le(pg_script_times(&stage_server, calls[i].sql.text), 1U + units);
    }
    if (units) {
        ck_assert_uint_eq(stage_server.syncs, 1 + CALLS);
        return;
    }
    stage_do(&calls[failing]); /* the server refuses to parse a statement twice */
    expect_all_but(-1, "");
    ck_assert_uint_eq(stage_server.accepted, 1);
}

TEST_EACH(a_serialization_failure_is_retried_but_not_forever, 2)
{
    for (int i = 0; i < (_i ? TRIES : 1); i++)
        stage_play(SCRIPT_EXECUTE, "one", SCRIPT_ERROR, "40001");
    make_units();
    stage_open(PG_UNIT, 1);
    ask_together(1);
    if (_i)
        stage_expect_failure(&calls[0], FAILED_SQL);
    else
        stage_expect_row(&calls[0]);
    ck_assert_str_eq(calls[0].failure.sqlstate, _i ? "40001" : "");
    ck_assert_uint_eq(calls[0].told, !_i);
    ck_assert_uint_eq(pg_script_times(&stage_server, "one"), _i ? TRIES : 2);
}

/* This happens after another host has changed a table, or with a connection pooler. */
TEST_EACH(a_stale_prepared_statement_is_retried_on_a_new_connection, 2)
{
    stage_open(PG_READ, 1);
    ask_together(2);
    stage_play(SCRIPT_BIND, "one", SCRIPT_ERROR, _i ? "0A000 RevalidateCachedQuery" : "26000");
    stage_do(&calls[0]);
    stage_expect_row(&calls[0]);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "one"), 2);
}

/* A feature that PostgreSQL does not have will be missing the next time, too. */
TEST(an_unsupported_statement_fails_without_a_retry)
{
    stage_open(PG_READ, 1);
    ask_together(2);
    stage_play(SCRIPT_EXECUTE, "one", SCRIPT_ERROR, "0A000 transformStmt");
    stage_do(&calls[0]);
    stage_expect_failure(&calls[0], FAILED_SQL);
    ck_assert_uint_eq(pg_script_times(&stage_server, "one"), 2);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "one"), 1);
}

/* The statement has values of many requests. Which request made it fail shows only when each is
 * sent separately. */
static const struct bb_keyed keyed = {{"SELECT one", BB_SQL_KEYED}, {"SELECT many", 0}};

static void ask_by_key(struct core_request *rq, struct stage_call *call)
{
    const struct bb_rows *rows = sql_query(rq, &keyed.one, BB_ARGS(bb_i((int64_t)call->key)));

    snprintf(call->text, sizeof call->text, "%s", rows ? api_rows_text(rows, 0, 0) : "");
}

TEST(a_failed_entry_of_a_merged_execution_fails_alone)
{
    stage_play(SCRIPT_EXECUTE, keyed.many.text, SCRIPT_ERROR, "22P02");
    stage_play(SCRIPT_EXECUTE, keyed.one.text, SCRIPT_ERROR, "22P02");
    for (int i = 0; i < CALLS; i++)
        calls[i].work = ask_by_key, calls[i].sql.text = keyed.one.text;
    stage_open_at(PG_READ, 1, &(struct stage_place){.merge_max = CALLS});
    ask_together(CALLS);
    expect_all_but(0, "22P02");
    ck_assert_uint_eq(pg_script_times(&stage_server, keyed.many.text), 1);
    ck_assert_uint_eq(pg_script_times(&stage_server, keyed.one.text), CALLS);
}

SUITE(pg_batch, .before_each = set_up, .after_each = stage_tear_down, .timeout_s = STAGE_SECONDS)
