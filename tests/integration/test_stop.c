/* SIGTERM at bad moments: who was there before is served, and nothing that hangs holds it up. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "suites.h"
#include "wave.h"
#include "wire.h"

enum {
    COMERS = 300, /* more than a loop accepts in a turn */
    RUNS = 8,     /* of module_wave.c */
    LOCK_MS = 5000,
    GONE_MS = 9000 /* five seconds for threads; ten would be those of requests */
};

static const char *const get_health = "GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n";

/* The kernel has taken their connections, the host has not: it is paused. */
START_TEST(who_has_connected_before_a_stop_is_answered)
{
    struct host *host = host_start(&(struct host_spec){
        .name = "stop-queue", .database = database_make(the_postgres, "stop_queue")});
    struct wire *wires[COMERS];
    int answered = 0;

    ck_assert_int_eq(kill(host->pid, SIGSTOP), 0);
    for (int i = 0; i < COMERS; i++) {
        wires[i] = wire_open(host);
        wire_say(wires[i], "%s", get_health);
    }
    ck_assert_int_eq(kill(host->pid, SIGTERM), 0);
    ck_assert_int_eq(kill(host->pid, SIGCONT), 0);
    for (int i = 0; i < COMERS; i++) {
        const struct wire_answer *answer = wire_read(wires[i], STOP_MS);

        answered += answer && answer->status == 200;
    }
    ck_assert_int_eq(answered, COMERS);
    host_stop(host);
}

static bool one_waits(void *db)
{
    return sql_number(db, "SELECT count(*) FROM pg_locks WHERE NOT granted") > 0;
}

static bool is_live(void *host)
{
    int status;

    return strstr(host_ask(host, "status", &status), "generation 2: live") != NULL;
}

/* The host ends with threads that still wait, and says so; that they leak is no news. */
static const char *const unfinished[] = {"TSAN_OPTIONS=report_thread_leaks=0", NULL};

/* Another host migrates for long; a reload waits to hand the migration on. */
START_TEST(a_reload_that_waits_for_a_migration_holds_up_no_stop)
{
    const char *database = database_make(the_postgres, "stop_migrate");
    PGconn *db = database_connect(the_postgres, database);

    sql_text(db, "SELECT pg_advisory_lock(7094709482943872001)::text", 0, NULL);
    struct host *host = host_start(&(struct host_spec){
        .name = "stop-migrate", .database = database, .environment = unfinished});

    ck_assert(wait_until(one_waits, db, LOCK_MS));
    ck_assert_int_eq(kill(host->pid, SIGHUP), 0);
    ck_assert(wait_until(is_live, host, LOCK_MS));
    int status = process_stop(host->pid, SIGTERM, GONE_MS);

    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "wait status %d", status);
    PQfinish(db);
}

/* The first loop ends last, so what a request hands on is done, whichever loop's turn it is. */
START_TEST(what_a_request_hands_on_while_the_host_stops_is_done)
{
    struct wave *wave = wave_prepare("stop-run", NULL);

    wave->spec.http = "  loops: 4\n";
    wave_write(wave, NULL, NULL);
    ck_assert(host_run(wave->host));
    struct wire *wire = wire_open(wave->host);

    wire_say(wire, "GET /api/wave/late?ms=1000 HTTP/1.1\r\nHost: x\r\n\r\n");
    wave_log_soon(wave, "naps");
    ck_assert_int_eq(kill(wave->host->pid, SIGTERM), 0);
    ck_assert_int_eq(wire_read(wire, STOP_MS)->status, 200);
    host_stop(wave->host);
    ck_assert_int_eq(wave_logged(wave, "wave 1 ran late"), RUNS);
}

Suite *stop_suite(void)
{
    Suite *suite = suite_create("stop");
    TCase *tests = tcase_create("stop");

    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, who_has_connected_before_a_stop_is_answered);
    tcase_add_test(tests, a_reload_that_waits_for_a_migration_holds_up_no_stop);
    tcase_add_test(tests, what_a_request_hands_on_while_the_host_stops_is_done);
    suite_add_tcase(suite, tests);
    return suite;
}
