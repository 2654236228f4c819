/* Batches that fail in part: which requests fail, and which are sent again. */
#include <check.h>
#include <stdio.h>

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

TEST(five_that_wait_travel_under_one_sync)
{
    stage_open(PG_READ, 1);
    ask_together(CALLS);
    expect_all_but(-1, "");
    ck_assert_uint_eq(stage_server.syncs, 1);
}

TEST(a_read_that_fails_fails_alone)
{
    stage_play(SCRIPT_EXECUTE, "three", SCRIPT_ERROR, "22012");
    stage_open(PG_READ, 1);
    ask_together(CALLS);
    expect_all_but(FAILING, "22012");
    for (int i = 0; i < CALLS; i++)
        ck_assert_uint_eq(pg_script_times(&stage_server, calls[i].sql.text), 1);
    ck_assert_uint_eq(stage_server.accepted, 1);
}

/* A statement that was not parsed is parsed at its next use; the server complains if a statement is
 * parsed twice. */
TEST(a_read_that_does_not_parse_fails_alone)
{
    stage_play(SCRIPT_PARSE, "three", SCRIPT_ERROR, "42601");
    stage_open(PG_READ, 1);
    ask_together(CALLS);
    expect_all_but(FAILING, "42601");
    stage_do(&calls[FAILING]);
    expect_all_but(-1, "");
    ck_assert_uint_eq(stage_server.accepted, 1);
}

/* The whole batch is rolled back, so each unit is sent once more in its own transaction; the
 * failing one fails again. */
TEST(a_unit_that_fails_fails_alone)
{
    stage_play(SCRIPT_EXECUTE, "three", SCRIPT_ERROR, "23505");
    stage_play(SCRIPT_EXECUTE, "three", SCRIPT_ERROR, "23505");
    make_units();
    stage_open(PG_UNIT, 1);
    ask_together(CALLS);
    expect_all_but(FAILING, "23505");
    for (int i = 0; i < CALLS; i++)
        ck_assert_uint_eq(calls[i].told, i != FAILING);
    ck_assert_uint_eq(stage_server.syncs, 1 + CALLS);
}

/* Which unit violates the constraint shows only when each commits separately. */
TEST(a_commit_that_fails_is_that_of_one_unit_alone)
{
    stage_play(SCRIPT_SYNC, NULL, SCRIPT_ERROR, "23505");
    stage_play(SCRIPT_SYNC, NULL, SCRIPT_ERROR, "23505");
    make_units();
    stage_open(PG_UNIT, 1);
    ask_together(CALLS);
    expect_all_but(0, "23505");
    for (int i = 0; i < CALLS; i++)
        ck_assert_uint_eq(calls[i].told, i != 0);
}

TEST(a_conflict_is_tried_again)
{
    stage_play(SCRIPT_EXECUTE, "one", SCRIPT_ERROR, "40001");
    make_units();
    stage_open(PG_UNIT, 1);
    ask_together(1);
    stage_expect_row(&calls[0]);
    ck_assert_uint_eq(calls[0].told, 1);
    ck_assert_uint_eq(pg_script_times(&stage_server, "one"), 2);
}

TEST(a_conflict_that_does_not_end_is_told)
{
    for (int i = 0; i < TRIES; i++)
        stage_play(SCRIPT_EXECUTE, "one", SCRIPT_ERROR, "40001");
    make_units();
    stage_open(PG_UNIT, 1);
    ask_together(1);
    stage_expect_failure(&calls[0], FAILED_SQL);
    ck_assert_str_eq(calls[0].failure.sqlstate, "40001");
    ck_assert_uint_eq(pg_script_times(&stage_server, "one"), TRIES);
}

/* This happens after another host has changed a table, or with a connection pooler. */
TEST_EACH(a_stale_statement_is_asked_again_on_a_new_connection, 2)
{
    stage_open(PG_READ, 1);
    ask_together(2);
    stage_play(SCRIPT_BIND, "one", SCRIPT_ERROR, _i ? "0A000 RevalidateCachedQuery" : "26000");
    stage_do(&calls[0]);
    stage_expect_row(&calls[0]);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "one"), 2);
}

/* A feature that PostgreSQL does not have will be missing the next time, too. */
TEST(a_statement_that_is_not_supported_fails_at_once)
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

TEST(of_those_who_share_an_execution_one_fails_alone)
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
