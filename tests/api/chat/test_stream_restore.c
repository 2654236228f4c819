/* The live stream on a database that was dumped and restored into another cluster, and across the
 * promotion of a standby. */
#include "live.h"

enum { BURNT = 2000, OLD = 40, LOST = 60, KEPT = 5, STARTED = 40 /* more than a block of ids */ };

static struct postgres *before, *after;
static struct talk talk;
static char *last_id; /* the last event that a client received before the restore */

/* Uses up this many transaction numbers. */
static void burn(PGconn *by, int count)
{
    sql_run(by, text("DO $$ BEGIN FOR i IN 1..%d LOOP PERFORM pg_current_xact_id(); COMMIT;"
                     " END LOOP; END $$",
                     count));
}

/* Restores a dump of this database into the other cluster, as a database of that name. */
static void restore(const char *name)
{
    postgres_run(after, text("CREATE DATABASE %s", name));
    postgres_restore(after, name, postgres_dump(before, name));
}

static void host_on(struct postgres *pg, const char *name, const char *database)
{
    struct host_spec spec = live_spec;

    spec.name = name;
    spec.pg = pg;
    spec.database = database;
    host = host_start(&spec);
}

static void post(const char *entry)
{
    live_post(host, &talk, "before@shop.example", entry);
}

/* Makes a platform with a conversation on the host. */
static void converse(const char *name)
{
    admin = admin_of(host);
    platform = person_make(host, admin, name, NULL);
    talk = talk_start(host, platform, "before@shop.example", ADMIN_EMAIL, NULL);
}

/* Makes two clusters, and messages in the first, whose transaction numbers the second has not
 * reached. */
static void make(const char *name)
{
    before = postgres_make(text("%s_before", name), false);
    after = postgres_make_apart(text("%s_after", name));
    const char *database = database_make(before, name);

    db = database_connect(before, name);
    burn(db, BURNT);
    PQfinish(db);
    host_on(before, text("%s-before", name), database);
    converse(name);
    struct sse *sse = live_listen(host, platform, NULL);

    for (int i = 0; i < OLD; i++) {
        post(text("old %d", i));
        live_expect(sse, text("old %d", i));
    }
    last_id = sse->last_id;
    sse_close(sse);
}

TEST(a_stream_resumed_after_a_restore_gets_only_new_messages)
{
    make("restored");
    host_stop(host);
    restore("restored");
    postgres_stop(before, SIGINT);
    host_on(after, "restored-after", "restored");
    struct sse *fresh = live_listen(host, platform, NULL);
    struct sse *again = live_listen(host, platform, last_id);

    live_reset(again);
    live_silence(fresh);
    post("new 1");
    live_expect(fresh, "new 1");
    live_expect(again, "new 1");
    char *seen = fresh->last_id;

    live_silence(fresh);
    live_silence(again);
    sse_close(again);
    post("new 2");
    again = live_listen(host, platform, seen);
    live_expect(again, "new 2");
    live_expect(fresh, "new 2");

    /* Continues beyond the transaction numbers of the old messages. */
    db = database_connect(after, "restored");
    const char *passed = "SELECT (pg_current_xact_id() > max(xid))::int FROM chat_entry"
                         " WHERE chat_entry LIKE 'old %'";

    ck_assert_msg(!sql_number(db, passed), "BURNT is too small");
    while (!sql_number(db, passed))
        burn(db, BURNT / 10);
    PQfinish(db);
    post("new 3");
    live_expect(fresh, "new 3");
    live_expect(again, "new 3");
    live_silence(fresh);
    live_silence(again);
    struct sse *late = live_listen(host, platform, last_id);

    live_reset(late);
    live_silence(late);
    host_stop(host);
    postgres_stop(after, SIGINT);
}

/* The host keeps running while another server takes over its socket. */
TEST(a_host_that_runs_during_a_restore_restarts_its_streams)
{
    make("swapped");
    struct sse *sse = live_listen(host, platform, last_id);

    restore("swapped");
    postgres_stop(before, SIGINT);
    postgres_stop(after, SIGINT);
    after->sockets = before->sockets;
    postgres_start(after);
    status_soon(host, "/api/health/status", NULL, 200);
    ck_assert(sse_ends(sse, 2 * SOON_MS));
    ck_assert(sse->complete);
    sse = live_listen(host, platform, last_id);
    live_reset(sse);
    post("new 1");
    live_expect(sse, "new 1");
    live_silence(sse);
    host_stop(host);
    postgres_stop(after, SIGINT);
}

/* ---- the promotion of a standby that had not received the last messages ---- */

/*
 * Waits until the standby has replayed everything, then cuts it off. Many pages stay dirty, so that
 * the checkpoint after a promotion takes minutes.
 */
static void cut_off(PGconn *primary, PGconn *standby)
{
    sql_run(primary,
            "CREATE TABLE filler AS SELECT repeat('x', 1900) FROM generate_series(1, 4000)");
    sql_soon(standby, text("SELECT (pg_last_wal_replay_lsn() >= '%s')::int",
                           sql_text(primary, "SELECT pg_current_wal_lsn()", 0, NULL)));
    sql_run(standby, "ALTER SYSTEM SET primary_conninfo = ''");
    sql_run(standby, "SELECT pg_reload_conf()");
    sql_soon(standby, "SELECT (count(*) = 0)::int FROM pg_stat_wal_receiver");
}

static void start_many(void)
{
    for (int i = 0; i < STARTED; i++)
        talk_start(host, platform, "before@shop.example", ADMIN_EMAIL, NULL);
}

TEST(a_client_that_resumes_after_a_promotion_restarts_once)
{
    struct postgres *primary = postgres_make("promotion", false), at = *primary;
    const char *database = database_make(primary, "promotion");
    struct postgres *standby = postgres_make_standby(primary, "promotion-standby");
    PGconn *first = database_connect(primary, "promotion");
    PGconn *second = database_connect(standby, "promotion");

    at.sockets = text("%s,%s target_session_attrs=read-write", primary->sockets, standby->sockets);
    host_on(&at, "promotion", database);
    converse("promotion");
    struct sse *open = live_listen(host, platform, NULL), *sse = live_listen(host, platform, NULL);

    cut_off(first, second);
    for (int i = 0; i < LOST; i++) {
        post(text("lost %d", i));
        live_expect(sse, text("lost %d", i));
    }
    sse_close(sse);
    start_many(); /* takes a block of ids that the standby does not know */
    const char *lost = sql_text(first, "SELECT max(xid) FROM chat_entry", 0, NULL);

    PQfinish(first);
    postgres_stop(primary, SIGKILL);
    ck_assert_str_eq(sql_text(second, "SELECT pg_promote()", 0, NULL), "t");
    status_soon(host, "/api/health/status", NULL, 200);

    /* new transactions reuse the numbers of the lost ones, and go beyond them */
    for (int i = 0; i < KEPT; i++)
        post(text("kept %d", i));
    ck_assert_str_eq(sql_text(second, "SELECT max(xid) < $1::xid8 FROM chat_entry", 1, &lost), "t");
    while (*sql_text(second, "SELECT pg_current_xact_id() <= $1::xid8", 1, &lost) == 't')
        ;
    sse = live_listen(host, platform, sse->last_id);
    live_reset(sse);
    ck_assert_msg(sse_ends(open, SOON_MS), "a stream that counts lost transactions continues");

    /* the end of the checkpoint does not reset the stream again */
    sql_run(second, "CHECKPOINT");
    live_silence(sse);
    post("new");
    live_expect(sse, "new");
    live_silence(sse);
    start_many(); /* with ids that were not given again */
    PQfinish(second);
    host_stop(host);
    postgres_stop(standby, SIGINT);
}

SUITE(stream_restore, .timeout_s = 180)
