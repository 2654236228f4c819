/* The live stream on a database that was dumped and restored into another cluster. */
#include <signal.h>
#include <string.h>

#include "live.h"
#include "suite.h"
#include "suites.h"

enum { BURNT = 5000, OLD = 40 };

struct scene_of_restore {
    struct postgres *before, *after;
    struct host *host;
    struct person *admin, *platform;
    struct talk talk;
    char *last_id; /* the last event that a client received before the restore */
};

/* Uses up this many transaction numbers. */
static void burn(PGconn *db, int count)
{
    sql_run(db, text("DO $$ BEGIN FOR i IN 1..%d LOOP PERFORM pg_current_xact_id(); COMMIT;"
                     " END LOOP; END $$",
                     count));
}

static void run(const char *const *argv)
{
    const char *log = harness_path("restore.log");
    struct process_spec spec = {.argv = argv, .log = log, .as_service = true};

    ck_assert_msg(process_run(&spec) == 0, "%s: %s", argv[0], file_text(log));
}

/* Restores a dump of this database into the other cluster, as a database of that name. */
static void restore(const struct scene_of_restore *s, const char *name)
{
    const char *file = text("%s/%s.dump", s->before->sockets, name);
    PGconn *db = database_connect(s->after, "postgres");

    sql_run(db, text("CREATE DATABASE %s", name));
    PQfinish(db);
    run((const char *const[]){postgres_program("pg_dump"), "-Fc", "-h", s->before->sockets, "-U",
                              "busbar", "-f", file, name, NULL});
    run((const char *const[]){postgres_program("pg_restore"), "-h", s->after->sockets, "-U",
                              "busbar", "-d", name, file, NULL});
}

static struct host *host_on(struct postgres *pg, const char *name, const char *database)
{
    struct host_spec spec = live_spec;

    spec.name = name;
    spec.pg = pg;
    spec.database = database;
    return host_start(&spec);
}

static void post(const struct scene_of_restore *s, const char *entry)
{
    ck_status(talk_post(s->host, s->platform, &s->talk, "before@shop.example", entry), 201);
}

/* Makes two clusters, and messages in the first, whose transaction numbers the second has not
 * reached. */
static struct scene_of_restore make(const char *name)
{
    struct scene_of_restore s = {.before = postgres_make(text("%s_before", name), false),
                                 .after = postgres_make_apart(text("%s_after", name))};
    const char *database = database_make(s.before, name);
    PGconn *db = database_connect(s.before, name);

    burn(db, BURNT);
    PQfinish(db);
    s.host = host_on(s.before, text("%s-before", name), database);
    s.admin = admin_of(s.host);
    s.platform = person_make(s.host, s.admin, name, NULL);
    s.talk = talk_start(s.host, s.platform, "before@shop.example", ADMIN_EMAIL, NULL);
    struct sse *sse = live_listen(s.host, s.platform, NULL);

    for (int i = 0; i < OLD; i++) {
        post(&s, text("old %d", i));
        live_expect(sse, text("old %d", i));
    }
    s.last_id = sse->last_id;
    sse_close(sse);
    return s;
}

static bool is_well(void *arg)
{
    return http(arg, "GET", "/api/health/status", NULL, NULL)->status == 200;
}

static void expect_reset(struct sse *sse)
{
    struct sse_event *event = sse_next(sse, SOON_MS);

    ck_assert(event && event->name && !strcmp(event->name, "reset"));
}

TEST(after_a_restore_new_messages_come_and_old_ones_do_not)
{
    struct scene_of_restore s = make("restored");

    host_stop(s.host);
    restore(&s, "restored");
    postgres_stop(s.before, SIGINT);
    s.host = host_on(s.after, "restored-after", "restored");
    struct sse *fresh = live_listen(s.host, s.platform, NULL);
    struct sse *again = live_listen(s.host, s.platform, s.last_id);

    expect_reset(again);
    live_silence(fresh);
    post(&s, "new 1");
    live_expect(fresh, "new 1");
    live_expect(again, "new 1");
    char *seen = fresh->last_id;

    live_silence(fresh);
    live_silence(again);
    sse_close(again);
    post(&s, "new 2");
    again = live_listen(s.host, s.platform, seen);
    live_expect(again, "new 2");
    live_expect(fresh, "new 2");

    /* Continues beyond the transaction numbers of the old messages. */
    PGconn *db = database_connect(s.after, "restored");
    const char *passed = "SELECT (pg_current_xact_id() > max(xid))::int FROM chat_entry"
                         " WHERE chat_entry LIKE 'old %'";

    while (!sql_number(db, passed))
        burn(db, BURNT / 10);
    PQfinish(db);
    post(&s, "new 3");
    live_expect(fresh, "new 3");
    live_expect(again, "new 3");
    live_silence(fresh);
    live_silence(again);
    struct sse *late = live_listen(s.host, s.platform, s.last_id);

    expect_reset(late);
    live_silence(late);
    host_stop(s.host);
    postgres_stop(s.after, SIGINT);
}

/* The host keeps running while another server takes over its socket. */
TEST(a_host_that_runs_across_a_restore_begins_its_streams_anew)
{
    struct scene_of_restore s = make("swapped");
    struct sse *sse = live_listen(s.host, s.platform, s.last_id);

    restore(&s, "swapped");
    postgres_stop(s.before, SIGINT);
    postgres_stop(s.after, SIGINT);
    s.after->sockets = s.before->sockets;
    postgres_start(s.after);
    ck_assert(wait_until(is_well, s.host, HEALTHY_MS));
    ck_assert(sse_ends(sse, 2 * SOON_MS));
    ck_assert(sse->complete);
    sse = live_listen(s.host, s.platform, s.last_id);
    expect_reset(sse);
    post(&s, "new 1");
    live_expect(sse, "new 1");
    live_silence(sse);
    host_stop(s.host);
    postgres_stop(s.after, SIGINT);
}

SUITE(stream_restore, .timeout_s = 180)
