/*
 * Interactive transactions on a connection that belongs to one request: what ends them, which
 * commits are reported, and that the requests waiting for the connection then continue.
 */
#include "core/module/reply.h"
#include "pg_stage.h"
#include "suite.h"

enum { COMMIT_BYTES = 12 /* bytes of the response: a message with "COMMIT" */ };

static struct stage_call anna, bert;
static bool heedless; /* the requests respond with success although a statement failed */
static bool slow;     /* the requests wait before they respond */

static int ask_within(struct bb_request *pub, struct bb_tx *tx, void *arg)
{
    struct stage_call *call = arg;
    const struct bb_rows *rows;

    api_after(tx, stage_committed, call);
    rows = api_tx_query(tx, &call->sql, NULL, 0);
    if (slow)
        request_wait_for(request_of(pub), &(bool){false}, 1);
    if (!rows && !heedless)
        return -1;
    if (rows)
        snprintf(call->text, sizeof call->text, "%s", api_rows_text(rows, 0, 0));
    return reply_json(request_of(pub), 200, json_object(), false);
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
    ck_assert_uint_eq(stage_loop.pg->pools[PG_TX].queued, 2);
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

TEST(a_waiting_request_gets_the_connection_after_the_commit)
{
    run_both();
    has_committed(&anna, 1);
    has_committed(&bert, 1);
    ck_assert_uint_eq(times("COMMIT"), 2);
    ck_assert_uint_eq(times("ROLLBACK"), 0);
}

/* Failures of Anna's transaction, the failure of her request, and the connection on which Bert's
 * request commits afterwards. */
static const struct {
    enum script_when when;
    const char *text;
    enum script_act act;
    const char *say;
    enum failure_kind kind;
    int status;
    unsigned next, rollbacks;
    bool slow, heedless;
} failing[] = {
    {SCRIPT_EXECUTE, "anna", SCRIPT_ERROR, "23505", FAILED_SQL, 409, .next = 1, .rollbacks = 1},
    {SCRIPT_PARSE, "anna", SCRIPT_ERROR, "42P01", FAILED_SQL, 503, .next = 1, .rollbacks = 1},
    {SCRIPT_EXECUTE, "COMMIT", SCRIPT_ERROR, "23505", FAILED_SQL, 409, .next = 1, .rollbacks = 1},
    /* PostgreSQL responds to the COMMIT of a failed transaction without an error */
    {SCRIPT_EXECUTE, "anna", SCRIPT_ERROR, "23505", FAILED_SQL, 409, .next = 1, .rollbacks = 1,
     .heedless = true},
    /* the connection is dropped after the transaction, because its statements are stale, but not
     * before */
    {SCRIPT_EXECUTE, "anna", SCRIPT_ERROR, "0A000 RevalidateCachedQuery", FAILED_SQL, 503,
     .next = 2, .rollbacks = 1},
    {SCRIPT_BIND, "anna", SCRIPT_ERROR, "26000", FAILED_SQL, 503, .next = 2, .rollbacks = 1},
    {SCRIPT_EXECUTE, "anna", SCRIPT_ERROR, "0A000 RevalidateCachedQuery", FAILED_SQL, 503,
     .next = 2, .rollbacks = 1, .slow = true},
    {SCRIPT_BIND, "anna", SCRIPT_ERROR, "26000", FAILED_SQL, 503, .next = 2, .rollbacks = 1,
     .slow = true},
    /* the server is shut down */
    {SCRIPT_EXECUTE, "BEGIN", SCRIPT_FATAL, "57P01", FAILED_UNAVAILABLE, 503, .next = 2},
    {SCRIPT_EXECUTE, "anna", SCRIPT_FATAL, "57P01", FAILED_UNAVAILABLE, 503, .next = 2},
    {SCRIPT_EXECUTE, "COMMIT", SCRIPT_FATAL, "57P01", FAILED_UNAVAILABLE, 503, .next = 2},
    /* a statement in progress at the deadline ends with the connection */
    {SCRIPT_EXECUTE, "BEGIN", SCRIPT_STALL, NULL, FAILED_DEADLINE, 503, .next = 2},
    {SCRIPT_EXECUTE, "anna", SCRIPT_STALL, NULL, FAILED_DEADLINE, 503, .next = 2},
    {SCRIPT_EXECUTE, "COMMIT", SCRIPT_STALL, NULL, FAILED_DEADLINE, 503, .next = 2},
    /* no standby confirms the commit, so its outcome is unknown */
    {SCRIPT_EXECUTE, "COMMIT", SCRIPT_ALONE, NULL, FAILED_UNAVAILABLE, 503, .next = 2},
};

TEST_EACH(a_failed_transaction_is_rolled_back_and_the_next_one_commits, COUNT(failing))
{
    bool commits = failing[_i].heedless || !strcmp(failing[_i].text, "COMMIT");

    slow = failing[_i].slow;
    heedless = failing[_i].heedless;
    if (failing[_i].act == SCRIPT_STALL)
        anna.deadline_ms = STAGE_SHORT_MS;
    stage_play(failing[_i].when, failing[_i].text, failing[_i].act, failing[_i].say);
    run_both();
    has_failed(&anna, failing[_i].kind, failing[_i].status);
    has_committed(&bert, failing[_i].next);
    ck_assert_uint_le(times("anna"), 1);
    ck_assert_uint_eq(times("COMMIT"), 1U + commits);
    ck_assert_uint_eq(times("ROLLBACK"), failing[_i].rollbacks);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "ROLLBACK"), failing[_i].rollbacks);
}

/* The outcome is unknown: the request fails, and nothing is retried. */
TEST_EACH(a_commit_whose_response_is_cut_is_not_sent_again, COMMIT_BYTES)
{
    stage_play_cut(SCRIPT_EXECUTE, "COMMIT", (size_t)_i);
    run_both();
    has_failed(&anna, FAILED_UNAVAILABLE, 503);
    has_committed(&bert, 2);
    ck_assert_uint_eq(times("COMMIT"), 2); /* one for each request */
    ck_assert_uint_eq(times("anna"), 1);
}

/* The response, the calls registered with bb_after() and the statement's rows are all complete. */
TEST(a_commit_is_reported_if_its_response_runs_out_of_memory)
{
    stage_play(SCRIPT_EXECUTE, "COMMIT", SCRIPT_STARVE, NULL);
    stage_open(PG_TX, 1);
    stage_do(&anna);
    has_committed(&anna, 1);
}

TEST(waiting_transactions_fail_at_once_when_the_server_goes_away)
{
    stage_play(SCRIPT_EXECUTE, "anna", SCRIPT_STALL, NULL);
    stage_open(PG_TX, 1);
    stage_ask(&anna);
    stage_ask(&bert);
    stage_until(stage_is_played);
    ck_assert_uint_eq(stage_loop.pg->pools[PG_TX].queued, 1);
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

TEST(a_dropped_transaction_connection_is_closed_and_replaced)
{
    anna.work = hold;
    run_both();
    ck_assert_uint_eq(times("anna"), 1);
    has_committed(&bert, 2);
}

TEST(a_transaction_connection_with_changed_settings_is_not_used_again)
{
    stage_play(SCRIPT_EXECUTE, "anna", SCRIPT_SETTING, "Asia/Tokyo");
    run_both();
    has_committed(&anna, 1);
    has_committed(&bert, 2);
}

/* ---- several connections, of which an owner gets one ---- */

static bool both_are_ready(void)
{
    return stage_conn(PG_TX, 0)->state == PG_READY && stage_conn(PG_TX, 1)->state == PG_READY;
}

static void transact_for_account(struct core_request *rq, struct stage_call *call)
{
    rq->owner.account = 1;
    transact(rq, call);
}

static void hold_for_account(struct core_request *rq, struct stage_call *call)
{
    rq->owner.account = 1;
    hold(rq, call);
}

/* Ends of Anna's transaction after which its connection is closed. */
static const struct {
    void (*work)(struct core_request *rq, struct stage_call *call);
    enum script_act act;
    const char *say;
} unclean[] = {
    {transact_for_account, SCRIPT_STALL, NULL},
    {transact_for_account, SCRIPT_ERROR, "0A000 RevalidateCachedQuery"},
    {transact_for_account, SCRIPT_SETTING, "Asia/Tokyo"},
    {transact_for_account, SCRIPT_FATAL, "57P01"},
    {hold_for_account, SCRIPT_USUAL, NULL},
};

TEST_EACH(a_waiting_transaction_gets_a_free_connection_when_another_one_is_closed, COUNT(unclean))
{
    static struct host_settings half;

    anna.work = unclean[_i].work;
    bert.work = transact_for_account;
    anna.deadline_ms = STAGE_SHORT_MS;
    stage_play(SCRIPT_EXECUTE, "anna", unclean[_i].act, unclean[_i].say);
    stage_open(PG_TX, 2);
    half = *stage_loop.host;
    half.http.client_percent = 50;
    stage_loop.host = &half;
    stage_until(both_are_ready);
    stage_ask(&anna);
    stage_ask(&bert);
    ck_assert(!TAILQ_EMPTY(&stage_loop.pg->pools[PG_TX].waiters));
    stage_finish();
    stage_expect_row(&bert);
    ck_assert_uint_le(pg_script_conn_of(&stage_server, "bert"), 2); /* not on a third connection */
}

SUITE(transaction, .before_each = set_up, .after_each = stage_tear_down, .timeout_s = STAGE_SECONDS)
