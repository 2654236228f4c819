/*
 * Interactive transactions on a connection that belongs to one request: what ends them, which
 * commits are reported, and that the requests waiting for the connection then continue.
 */
#include <check.h>

#include "core/module/reply.h"
#include "pg_stage.h"
#include "suite.h"

enum { COMMIT_BYTES = 12 /* of its response: a message with "COMMIT" */ };

static struct stage_call anna, bert;
static bool heedless; /* responds with success although its statement has failed */
static bool slow;     /* does something else before it responds */

static void hear_of_commit(struct bb_request *pub, struct bb_tx *tx, void *arg)
{
    struct stage_call *call = arg;

    (void)pub;
    (void)tx;
    call->told++;
}

static int ask_within(struct bb_request *pub, struct bb_tx *tx, void *arg)
{
    struct stage_call *call = arg;
    const struct bb_rows *rows;

    api_after(tx, hear_of_commit, call);
    rows = api_tx_query(tx, &call->sql, NULL, 0);
    if (slow)
        request_sleep(request_of(pub), 1);
    if (!rows && !heedless)
        return -1;
    if (rows)
        snprintf(call->text, sizeof call->text, "%s", api_rows_text(rows, 0, 0));
    return reply_json(request_of(pub), 200, json_object());
}

static void transact(struct core_request *rq, struct stage_call *call)
{
    api_transaction(&rq->pub, ask_within, call);
}

static void set_up(void)
{
    stage_set_up();
    heedless = slow = false;
    anna = (struct stage_call){.work = transact, .sql.text = "SELECT 'anna'"};
    bert = (struct stage_call){.work = transact, .sql.text = "SELECT 'bert'"};
}

/* Runs both on one connection. */
static void run_both(void)
{
    stage_open(PG_TX, 1);
    stage_ask(&anna);
    stage_ask(&bert);
    ck_assert_uint_eq(pg_tx_waiting(&stage_loop.pg->pools[PG_TX]), 2);
    stage_finish();
}

static void has_committed(const struct stage_call *call, unsigned conn)
{
    stage_expect_row(call);
    ck_assert_uint_eq(call->told, 1);
    ck_assert_int_eq(call->status, 200);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, call->sql.text), conn);
}

static void has_failed(const struct stage_call *call, enum failure_kind kind, int status)
{
    ck_assert(call->ended);
    ck_assert_int_eq(call->failure.kind, kind);
    ck_assert_int_eq(call->status, status);
    ck_assert_uint_eq(call->told, 0);
}

static unsigned times(const char *text)
{
    return pg_script_times(&stage_server, text);
}

TEST(who_waits_has_the_connection_behind_the_commit)
{
    run_both();
    has_committed(&anna, 1);
    has_committed(&bert, 1);
    ck_assert_uint_eq(times("COMMIT"), 2);
    ck_assert_uint_eq(times("ROLLBACK"), 0);
}

TEST(a_statement_that_fails_has_its_transaction_undone)
{
    stage_play(SCRIPT_EXECUTE, "anna", SCRIPT_ERROR, "23505");
    run_both();
    has_failed(&anna, FAILED_SQL, 409);
    has_committed(&bert, 1);
    ck_assert_uint_eq(times("ROLLBACK"), 1);
    ck_assert_uint_eq(times("COMMIT"), 1);
}

/* The connection is dropped after the transaction, because its statements are stale, but not
 * before. */
TEST_EACH(a_stale_statement_has_its_transaction_undone_at_once, 4)
{
    slow = _i > 1;
    stage_play(_i % 2 ? SCRIPT_BIND : SCRIPT_EXECUTE, "anna", SCRIPT_ERROR,
               _i % 2 ? "26000" : "0A000 RevalidateCachedQuery");
    run_both();
    has_failed(&anna, FAILED_SQL, 503);
    ck_assert_uint_eq(times("ROLLBACK"), 1);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "ROLLBACK"), 1);
    has_committed(&bert, 2);
}

TEST(a_statement_that_does_not_parse_has_its_transaction_undone)
{
    stage_play(SCRIPT_PARSE, "anna", SCRIPT_ERROR, "42P01");
    run_both();
    has_failed(&anna, FAILED_SQL, 503);
    ck_assert_uint_eq(times("ROLLBACK"), 1);
    has_committed(&bert, 1);
}

/* PostgreSQL responds to such a COMMIT without an error. */
TEST(a_commit_that_was_a_rollback_is_no_success)
{
    heedless = true;
    stage_play(SCRIPT_EXECUTE, "anna", SCRIPT_ERROR, "23505");
    run_both();
    has_failed(&anna, FAILED_SQL, 409);
    has_committed(&bert, 1);
}

TEST(a_commit_that_fails_is_told)
{
    stage_play(SCRIPT_EXECUTE, "COMMIT", SCRIPT_ERROR, "23505");
    run_both();
    has_failed(&anna, FAILED_SQL, 409);
    ck_assert_uint_eq(times("ROLLBACK"), 1);
    has_committed(&bert, 1);
}

/* The outcome is unknown: the request fails, and nothing is retried. */
TEST_EACH(a_commit_that_is_cut_is_not_sent_again, COMMIT_BYTES)
{
    pg_script_add(&stage_server,
                  (struct script_line){SCRIPT_EXECUTE, "COMMIT", SCRIPT_CLOSE, NULL, (size_t)_i});
    run_both();
    has_failed(&anna, FAILED_UNAVAILABLE, 503);
    has_committed(&bert, 2);
    ck_assert_uint_eq(times("COMMIT"), 2); /* one by each request */
    ck_assert_uint_eq(times("anna"), 1);
}

TEST_EACH(a_server_that_is_shut_down_ends_the_transaction_and_no_other, 3)
{
    static const char *const texts[] = {"BEGIN", "anna", "COMMIT"};

    stage_play(SCRIPT_EXECUTE, texts[_i], SCRIPT_FATAL, "57P01");
    run_both();
    has_failed(&anna, FAILED_UNAVAILABLE, 503);
    has_committed(&bert, 2);
    ck_assert_uint_eq(times("ROLLBACK"), 0);
}

/* A statement in progress at the deadline ends with the connection. */
TEST_EACH(who_waits_goes_on_when_a_deadline_ends_a_transaction, 3)
{
    static const char *const texts[] = {"BEGIN", "anna", "COMMIT"};

    anna.deadline_ms = STAGE_SHORT_MS;
    stage_play(SCRIPT_EXECUTE, texts[_i], SCRIPT_STALL, NULL);
    run_both();
    has_failed(&anna, FAILED_DEADLINE, 503);
    has_committed(&bert, 2);
}

TEST(a_commit_that_no_standby_confirms_is_unknown)
{
    stage_play(SCRIPT_EXECUTE, "COMMIT", SCRIPT_ALONE, NULL);
    run_both();
    has_failed(&anna, FAILED_UNAVAILABLE, 503);
    has_committed(&bert, 2);
    ck_assert_uint_eq(times("anna"), 1);
}

/* The response, the calls registered with bb_after() and the statement's rows are all complete. */
TEST(a_commit_is_told_when_memory_runs_out_with_it)
{
    stage_play(SCRIPT_EXECUTE, "COMMIT", SCRIPT_STARVE, NULL);
    stage_open(PG_TX, 1);
    stage_do(&anna);
    has_committed(&anna, 1);
}

TEST(who_waits_is_told_at_once_when_the_server_goes)
{
    stage_play(SCRIPT_EXECUTE, "anna", SCRIPT_STALL, NULL);
    stage_open(PG_TX, 1);
    stage_ask(&anna);
    stage_ask(&bert);
    stage_until(stage_is_played);
    ck_assert_uint_eq(pg_tx_waiting(&stage_loop.pg->pools[PG_TX]), 1);
    pg_script_go_away(&stage_server);
    stage_finish();
    has_failed(&anna, FAILED_UNAVAILABLE, 503);
    has_failed(&bert, FAILED_UNAVAILABLE, 503);
    ck_assert_uint_eq(times("bert"), 0);
}

/* Takes a job's lock and drops the connection, which alone can release it. */
static void hold(struct core_request *rq, struct stage_call *call)
{
    struct pg_tx *tx = pg_tx_begin(rq);

    ck_assert_ptr_nonnull(tx);
    ck_assert_ptr_nonnull(pg_tx_run(tx, &call->sql, NULL, 0));
    pg_tx_drop(tx);
}

TEST(what_a_connection_holds_goes_with_it)
{
    anna.work = hold;
    run_both();
    ck_assert_uint_eq(times("anna"), 1);
    has_committed(&bert, 2);
}

TEST(a_connection_whose_settings_were_changed_is_nobody_elses)
{
    stage_play(SCRIPT_EXECUTE, "anna", SCRIPT_SETTING, "Asia/Tokyo");
    run_both();
    has_committed(&anna, 1);
    has_committed(&bert, 2);
}

SUITE(transaction, .before_each = set_up, .after_each = stage_tear_down, .timeout_s = STAGE_SECONDS)
