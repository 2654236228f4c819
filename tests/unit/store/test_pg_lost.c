/*
 * Connections that are lost while statements are in progress, or whose responses are invalid: which
 * statements are sent again, and which are never sent twice.
 */
#include "pg_stage.h"
#include "suite.h"

enum { TRIES = 4, SYNCED = 6 /* bytes of the response to a Sync */ };

static struct stage_call first, second;

static void set_up(void)
{
    stage_set_up();
    first = (struct stage_call){.sql.text = "SELECT 'first'"};
    second = (struct stage_call){.sql.text = "SELECT 'second'"};
}

/* Sends both in one batch, because the connection is not made yet. */
static void ask_both(void)
{
    stage_ask(&first);
    stage_ask(&second);
    stage_finish();
}

/* Responses to a read that are lost. Other responses may be missing on the connection, too, so both
 * reads are sent again on the next one. */
static const struct script_line lost_reads[] = {
    /* cut in the message before the row, in its head, its columns and its value, and after it */
    {SCRIPT_EXECUTE, "first", SCRIPT_CLOSE, NULL, 0},
    {SCRIPT_EXECUTE, "first", SCRIPT_CLOSE, NULL, 1},
    {SCRIPT_EXECUTE, "first", SCRIPT_CLOSE, NULL, 4},
    {SCRIPT_EXECUTE, "first", SCRIPT_CLOSE, NULL, 6},
    {SCRIPT_EXECUTE, "first", SCRIPT_CLOSE, NULL, 12},
    {SCRIPT_EXECUTE, "first", SCRIPT_CLOSE, NULL, 20},
    {SCRIPT_EXECUTE, "first", SCRIPT_FATAL, "57P01", 0}, /* the server is shut down */
    {SCRIPT_EXECUTE, "second", SCRIPT_JUNK, NULL, 0},
    {SCRIPT_SYNC, NULL, SCRIPT_STATUS, "T", 0}, /* a transaction was left open */
};

TEST_EACH(a_read_on_a_lost_connection_is_sent_again, sizeof lost_reads / sizeof *lost_reads)
{
    pg_script_add(&stage_server, lost_reads[_i]);
    stage_open(PG_READ, 1);
    ask_both();
    stage_expect_row(&first);
    stage_expect_row(&second);
    const char *lost = lost_reads[_i].text ? lost_reads[_i].text : "first";

    ck_assert_uint_eq(pg_script_times(&stage_server, lost), 2);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, lost), 2);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "second"), 2);
}

TEST(a_read_on_lost_connections_has_a_limit_of_retries)
{
    for (int i = 0; i < TRIES; i++)
        stage_play_cut(SCRIPT_EXECUTE, "first", 0);
    stage_open(PG_READ, 1);
    stage_do(&first);
    stage_expect_failure(&first, FAILED_UNAVAILABLE);
    ck_assert_uint_eq(pg_script_times(&stage_server, "first"), TRIES);
    stage_do(&second);
    stage_expect_row(&second);
}

static void make_writes(void)
{
    first.sql = (struct bb_sql){"INSERT first", BB_SQL_WRITE};
    second.sql = (struct bb_sql){"INSERT second", BB_SQL_WRITE};
}

/* Responses to a write that are lost; the write may have been executed. */
static const struct {
    struct script_line line;
    bool unit;
} lost_writes[] = {
    {{SCRIPT_EXECUTE, "first", SCRIPT_CLOSE, NULL, 0}, false},
    {{SCRIPT_EXECUTE, "first", SCRIPT_FATAL, "57P01", 0}, false}, /* the server is shut down */
    {{SCRIPT_EXECUTE, "first", SCRIPT_JUNK, NULL, 0}, false},
    {{SCRIPT_EXECUTE, "first", SCRIPT_NOTHING, NULL, 0}, false},
    /* a transaction was left open */
    {{SCRIPT_SYNC, NULL, SCRIPT_STATUS, "T", 0}, false},
    {{SCRIPT_SYNC, NULL, SCRIPT_STATUS, "E", 0}, false},
    {{SCRIPT_SYNC, NULL, SCRIPT_STATUS, "T", 0}, true},
    /* no standby confirms it: only one server has the commit, and a failover may lose it */
    {{SCRIPT_SYNC, NULL, SCRIPT_ALONE, NULL, 0}, false},
    {{SCRIPT_SYNC, NULL, SCRIPT_ALONE, NULL, 0}, true},
    /* the response to the Sync is cut at each byte except after its end */
    {{SCRIPT_SYNC, NULL, SCRIPT_CLOSE, NULL, 0}, true},
    {{SCRIPT_SYNC, NULL, SCRIPT_CLOSE, NULL, 1}, true},
    {{SCRIPT_SYNC, NULL, SCRIPT_CLOSE, NULL, 2}, true},
    {{SCRIPT_SYNC, NULL, SCRIPT_CLOSE, NULL, 3}, true},
    {{SCRIPT_SYNC, NULL, SCRIPT_CLOSE, NULL, 4}, true},
    {{SCRIPT_SYNC, NULL, SCRIPT_CLOSE, NULL, SYNCED - 1}, true},
};

TEST_EACH(a_write_on_a_lost_connection_is_never_sent_twice, COUNT(lost_writes))
{
    bool unit = lost_writes[_i].unit;

    make_writes();
    first.work = second.work = unit ? stage_unit : NULL;
    pg_script_add(&stage_server, lost_writes[_i].line);
    stage_open(unit ? PG_UNIT : PG_WRITE, 1);
    stage_do(&first);
    stage_expect_failure(&first, FAILED_UNAVAILABLE);
    ck_assert_uint_eq(first.told, 0);
    ck_assert_int_eq(first.status, unit ? 503 : 0);
    stage_do(&second); /* the host would have sent the first again before this one */
    ck_assert_int_eq(second.failure.kind, FAILED_NOT);
    ck_assert_uint_eq(pg_script_times(&stage_server, "first"), 1);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "second"), 2);
}

/* A unit of the batch has failed, so each was sent again separately. */
TEST(a_retry_not_confirmed_by_the_standby_is_unknown)
{
    make_writes();
    first.work = second.work = stage_unit;
    stage_play(SCRIPT_EXECUTE, "second", SCRIPT_ERROR, "23505");
    stage_play(SCRIPT_SYNC, NULL, SCRIPT_USUAL, NULL);
    stage_play(SCRIPT_SYNC, NULL, SCRIPT_ALONE, NULL);
    stage_open(PG_UNIT, 1);
    ask_both();
    ck_assert_uint_eq(first.told + second.told, 0); /* the second was sent after it */
    ck_assert_int_eq(first.status, 503);
    ck_assert_int_eq(second.status, 503);
}

/* Memory for the rows and the response was allocated before the commit. */
TEST_EACH(a_commit_is_reported_if_its_response_runs_out_of_memory, 2)
{
    first.sql = (struct bb_sql){"SELECT first", BB_SQL_WRITE};
    first.work = _i ? stage_unit : NULL;
    stage_play(SCRIPT_SYNC, NULL, SCRIPT_STARVE, NULL);
    stage_open(_i ? PG_UNIT : PG_WRITE, 1);
    stage_do(&first);
    stage_expect_row(&first);
    ck_assert_uint_eq(first.told, (unsigned)_i);
    ck_assert_int_eq(first.status, _i ? 200 : 0);
}

static void run_out(struct bb_request *pub, struct bb_tx *tx, void *arg)
{
    (void)tx;
    (void)arg;
    request_out_of_memory(request_of(pub));
}

static void unit_that_runs_out(struct core_request *rq, struct stage_call *call)
{
    struct bb_tx *unit = api_unit(&rq->pub, call->key);

    api_after(unit, run_out, call);
    api_add(unit, &call->sql, NULL, 0);
    api_commit(&rq->pub, unit, 201, json_object());
}

TEST(running_out_of_memory_after_a_commit_does_not_change_the_response)
{
    make_writes();
    first.work = unit_that_runs_out;
    stage_open(PG_UNIT, 1);
    stage_do(&first);
    ck_assert_int_eq(first.status, 201);
}

TEST(a_commit_with_a_response_counts_although_the_connection_is_lost)
{
    stage_play_cut(SCRIPT_SYNC, NULL, SYNCED);
    first.work = stage_unit;
    stage_open(PG_UNIT, 1);
    stage_do(&first);
    stage_expect_row(&first);
    ck_assert_uint_eq(first.told, 1);
    ck_assert_int_eq(first.status, 200);
}

/* The other connection continues to serve; the abandoned statement may or may not get a
 * response. */
TEST(a_stalled_response_does_not_delay_other_connections)
{
    pg_script_add(&stage_server,
                  (struct script_line){SCRIPT_EXECUTE, "first", SCRIPT_STALL, NULL, 12});
    first.deadline_ms = STAGE_SHORT_MS;
    stage_open(PG_READ, 2);
    stage_ask(&first);
    pg_flush(stage_loop.pg);
    stage_finish();
    stage_expect_failure(&first, FAILED_DEADLINE);
    stage_do(&second);
    stage_expect_row(&second);
    ck_assert_uint_ne(pg_script_conn_of(&stage_server, "second"),
                      pg_script_conn_of(&stage_server, "first"));
}

SUITE(pg_lost, .before_each = set_up, .after_each = stage_tear_down, .timeout_s = STAGE_SECONDS)
