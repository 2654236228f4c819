/* A synchronous standby that never confirms: when PostgreSQL stops waiting for it, the commit does
 * not count as a success, because a failover would lose it. */
#include "poke.h"

enum { PATIENCE_MS = 20000 };

#define WAITING "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"

static struct postgres *primary;
static struct host *host;
static PGconn *db;

static bool is_waited(void)
{
    return sql_number(db, "SELECT count(*) " WAITING) > 0;
}

/* Returns whether a commit waits: PostgreSQL applies the setting a moment after the signal. */
static bool waits(PGconn *probe)
{
    if (PQtransactionStatus(probe) != PQTRANS_ACTIVE)
        ck_assert(PQsendQuery(probe, "INSERT INTO poke (what) VALUES ('probe')"));
    ck_assert(PQconsumeInput(probe));
    while (!PQisBusy(probe)) {
        PGresult *result = PQgetResult(probe);

        if (!result)
            break;
        PQclear(result);
    }
    return is_waited();
}

/* No standby has this name, so each commit waits forever. */
static void require_standby(void)
{
    PGconn *probe = database_connect(primary, "replication");

    sql_run(db, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    sql_run(db, "SELECT pg_reload_conf()");
    WAIT_UNTIL(waits(probe), PATIENCE_MS);
}

static void release_standby(void)
{
    sql_run(db, "ALTER SYSTEM RESET synchronous_standby_names");
    sql_run(db, "SELECT pg_reload_conf()");
}

static void set_up(void)
{
    primary = postgres_make("pg-primary", false);
    host = poke_start(&(struct host_spec){.name = "replication", .pg = primary});
    db = database_connect(primary, "replication");
    sql_run(db, "SET synchronous_commit = local");
}

static void tear_down(void)
{
    host_stop(host);
    postgres_stop(primary, SIGINT);
}

static const char *const ways[] = {"write/one", "unit/one", "transaction/one", "raise"};
static const char *const ends[] = {"pg_cancel_backend", "pg_terminate_backend"};
enum { WAYS = 4, ENDS = 2 };

/* Jobs commit at the same time, so all waiting sessions are ended until the response is here. */
static struct wire_answer *answer_to(struct wire *wire, const char *end)
{
    struct wire_answer *answer = NULL;

    for (int64_t until = now_ms() + PATIENCE_MS * PATIENCE; !answer && now_ms() < until;) {
        sql_run(db, text("SELECT %s(pid) " WAITING, end));
        answer = wire_read(wire, 50);
    }
    return answer;
}

static bool writes(void)
{
    return http(host, "POST", "/api/poke/write/after", NULL, NULL)->status == 201;
}

TEST_EACH(a_commit_not_confirmed_by_the_standby_is_no_success, WAYS *ENDS)
{
    const char *way = ways[_i % WAYS], *end = ends[_i / WAYS];

    size_t before = host_log_size(host), hooks = host_logged(host, "hook=poke.poked");

    require_standby();
    struct wire *wire = poke_begin(host, way);
    sql_soon(db, "SELECT count(*) " WAITING);
    struct wire_answer *answer = answer_to(wire, end);

    release_standby();
    ck_assert_ptr_nonnull(answer);
    ck_assert_msg(answer->status == 503, "%s: %d %s", way, answer->status, answer->body);
    wire_close(wire, false);
    WAIT_UNTIL(writes(), PATIENCE_MS);
    host_logs(host, before, "a commit was not confirmed by the synchronous standby");
    /* the hook would have run by now, because hooks start before the response is sent */
    ck_assert_uint_eq(host_logged(host, "hook=poke.poked"), hooks);
}

/* Returns whether the host is ready, or names this reason for not being ready. */
static bool is_ready(const char *reason)
{
    struct answer *answer = http(host, "GET", "/api/health/ready", NULL, NULL);

    return reason ? answer->status == 503 && strstr(answer->body, reason) : answer->status == 200;
}

static void expect_only_reads(const char *reason)
{
    WAIT_UNTIL(is_ready(reason), PATIENCE_MS);
    ck_assert(!writes());
    ck_status(http(host, "GET", "/api/poke/query/write-long", NULL, NULL), 503);
    ck_status(http(host, "GET", "/api/poke/notify", NULL, NULL), 503);
    sql_is(db, 0,
           "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%(''long'')%%'"
           " AND pid <> pg_backend_pid()");
    ck_status(http(host, "GET", "/api/poke/query/one", NULL, NULL), 200);
}

TEST(while_commits_wait_for_a_standby_writes_are_refused_and_reads_are_served)
{
    size_t before = host_log_size(host);

    require_standby();
    expect_only_reads("commits wait for a synchronous standby");
    host_logs(host, before, "PostgreSQL accepts no writes");
    release_standby();
    WAIT_UNTIL(is_ready(NULL), PATIENCE_MS);
    WAIT_UNTIL(writes(), PATIENCE_MS);
    ck_status(http(host, "GET", "/api/poke/notify", NULL, NULL), 204);
}

TEST(a_database_that_is_read_only_is_not_ready)
{
    sql_run(db, "ALTER SYSTEM SET default_transaction_read_only = on");
    sql_run(db, "SELECT pg_reload_conf()");
    expect_only_reads("transactions are read-only by default");
    sql_run(db, "SET transaction_read_only = off");
    sql_run(db, "ALTER SYSTEM RESET default_transaction_read_only");
    sql_run(db, "SELECT pg_reload_conf()");
    WAIT_UNTIL(is_ready(NULL), PATIENCE_MS);
    WAIT_UNTIL(writes(), PATIENCE_MS);
}

static struct wire *post_with_key(void)
{
    struct wire *wire = wire_open(host);

    ck_assert(wire_say(wire, "POST /api/poke/unit/keyed HTTP/1.1\r\nHost: x\r\n"
                             "Idempotency-Key: replicated\r\nContent-Length: 0\r\n\r\n"));
    return wire;
}

/* The first response is stored on the primary, but counts only when the standby has it, too. */
TEST(a_repeated_request_also_waits_for_the_standby)
{
    require_standby();
    for (int i = 0; i < 2; i++) {
        struct wire *wire = post_with_key();

        sql_soon(db, "SELECT count(*) " WAITING);
        struct wire_answer *answer = answer_to(wire, ends[0]);

        ck_assert_ptr_nonnull(answer);
        ck_assert_msg(answer->status == 503, "%d: %d %s", i, answer->status, answer->body);
        wire_close(wire, false);
    }
    release_standby();
    WAIT_UNTIL(writes(), PATIENCE_MS);
    struct wire_answer *answer = wire_read(post_with_key(), PATIENCE_MS);

    ck_assert_ptr_nonnull(answer);
    ck_assert_int_eq(answer->status, 201);
    ck_assert_str_eq(wire_header(answer, "Idempotency-Replayed"), "true");
    sql_is(db, 2, "SELECT count(*) FROM poke WHERE what = 'keyed'");
}

/* The step is applied and recorded, but the command fails and has to be repeated. */
TEST_EACH(a_migration_not_confirmed_by_the_standby_is_no_success, ENDS)
{
    const char *name = text("replication_%s", ends[_i]);
    struct host *fresh = host_prepare(&(struct host_spec){
        .name = name,
        .pg = primary,
        .modules = text("[auth, health, \"%s\"]", harness_test_module("module_poke"))});
    const char *argv[] = {harness_program(false), "-c", fresh->conf, "migrate", NULL};
    int status = 0;

    require_standby();
    pid_t pid = process_start(&(struct process_spec){.argv = argv, .log = fresh->log});
    bool over = false;

    for (int64_t until = now_ms() + PATIENCE_MS * PATIENCE; !over && now_ms() < until;) {
        sql_run(db, text("SELECT %s(pid) " WAITING, ends[_i]));
        over = process_wait(pid, 50, &status);
    }
    release_standby();
    ck_assert(over);
    ck_assert_int_ne(status, 0);
    host_logs(fresh, 0, "not confirmed by the synchronous standby");
    host_says(fresh, 0, "migrate");
}

SUITE(replication, .before_all = set_up, .after_all = tear_down, .timeout_s = 120)
