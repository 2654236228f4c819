/* The live stream across the promotion of a standby that had not received the last messages. */
#include <signal.h>
#include <string.h>

#include "live.h"
#include "suite.h"
#include "suites.h"

enum { LOST = 60, KEPT = 5, SERVING_MS = 60000 };

static void run(const char *const *argv)
{
    const char *log = harness_path("promotion.log");
    struct process_spec spec = {.argv = argv, .log = log, .as_service = true};

    ck_assert_msg(process_run(&spec) == 0, "%s: %s", argv[0], file_text(log));
}

/* Makes and starts a standby of this server, using pg_basebackup. */
static struct postgres *standby_make(const struct postgres *primary, const char *name)
{
    struct postgres *standby = kept(calloc(1, sizeof *standby));

    standby->data = harness_path(text("%s.data", name));
    standby->sockets = harness_path(text("%s.run", name));
    standby->log = harness_path(text("%s.log", name));
    process_service_directory(standby->sockets);
    process_service_directory(standby->data);
    run((const char *const[]){postgres_program("pg_basebackup"), "-D", standby->data, "-h",
                              primary->sockets, "-U", "busbar", "-R", "-c", "fast", "--no-sync",
                              NULL});
    postgres_start(standby);
    return standby;
}

struct catching_up {
    PGconn *standby;
    const char *lsn;
};

static bool has_replayed(void *arg)
{
    const struct catching_up *up = arg;

    return *sql_text(up->standby, "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn", 1, &up->lsn) ==
           't';
}

static bool receives_nothing(void *standby)
{
    return sql_number(standby, "SELECT count(*) FROM pg_stat_wal_receiver") == 0;
}

/*
 * Waits until the standby has replayed everything, then cuts it off. Many pages stay dirty, so that
 * the checkpoint after a promotion takes minutes.
 */
static void cut_off(const struct postgres *primary, PGconn *before, PGconn *standby)
{
    sql_run(before,
            "CREATE TABLE filler AS SELECT repeat('x', 5000) FROM generate_series(1, 50000)");
    struct catching_up up = {standby, sql_text(before, "SELECT pg_current_wal_lsn()", 0, NULL)};

    ck_assert_msg(wait_until(has_replayed, &up, SERVING_MS), "%s", file_text(primary->log));
    sql_run(standby, "ALTER SYSTEM SET primary_conninfo = ''");
    sql_run(standby, "SELECT pg_reload_conf()");
    ck_assert(wait_until(receives_nothing, standby, SERVING_MS));
}

static bool is_well(void *arg)
{
    return http(arg, "GET", "/api/health/status", NULL, NULL)->status == 200;
}

/* The next event is a reset, after which a client reads the chains again. */
static void expect_reset(struct sse *sse)
{
    struct sse_event *event = sse_next(sse, SOON_MS);

    ck_assert_msg(event != NULL, "no event");
    ck_assert_msg(event->name && !strcmp(event->name, "reset"), "%s", event->data);
}

TEST(a_client_that_resumes_after_a_promotion_begins_anew_once)
{
    struct postgres *primary = postgres_make("promotion", false), at = *primary;
    const char *database = database_make(primary, "promotion");
    PGconn *before = database_connect(primary, "promotion");
    struct postgres *standby = standby_make(primary, "promotion-standby");
    PGconn *after = database_connect(standby, "promotion");
    struct host_spec spec = live_spec;

    at.sockets = text("%s,%s target_session_attrs=read-write", primary->sockets, standby->sockets);
    spec.name = "promotion";
    spec.pg = &at;
    spec.database = database;
    struct host *host = host_start(&spec);
    struct person *admin = admin_of(host);
    struct person *platform = person_make(host, admin, "promotion", NULL);
    struct talk talk = talk_start(host, platform, "before@shop.example", ADMIN_EMAIL, NULL);
    struct sse *open = live_listen(host, platform, NULL), *sse = live_listen(host, platform, NULL);

    cut_off(primary, before, after);
    for (int i = 0; i < LOST; i++) {
        ck_status(talk_post(host, platform, &talk, "before@shop.example", text("lost %d", i)), 201);
        live_expect(sse, text("lost %d", i));
    }
    sse_close(sse);
    const char *lost = sql_text(before, "SELECT max(xid) FROM chat_entry", 0, NULL);

    PQfinish(before);
    postgres_stop(primary, SIGKILL);
    ck_assert_str_eq(sql_text(after, "SELECT pg_promote()", 0, NULL), "t");
    ck_assert(wait_until(is_well, host, SERVING_MS));

    /* new transactions reuse the numbers of the lost ones, and go beyond them */
    for (int i = 0; i < KEPT; i++)
        ck_status(talk_post(host, platform, &talk, "before@shop.example", text("kept %d", i)), 201);
    ck_assert_str_eq(sql_text(after, "SELECT max(xid) < $1::xid8 FROM chat_entry", 1, &lost), "t");
    while (*sql_text(after, "SELECT pg_current_xact_id() <= $1::xid8", 1, &lost) == 't')
        ;
    sse = live_listen(host, platform, sse->last_id);
    expect_reset(sse);
    ck_assert_msg(sse_ends(open, SOON_MS), "a stream goes on that counts lost transactions");

    /* the end of the checkpoint does not reset the stream again */
    sql_run(after, "CHECKPOINT");
    live_silence(sse);
    ck_status(talk_post(host, platform, &talk, "before@shop.example", "new"), 201);
    live_expect(sse, "new");
    live_silence(sse);
    PQfinish(after);
    host_stop(host);
    postgres_stop(standby, SIGINT);
}

SUITE(stream_promotion, .timeout_s = 180)
