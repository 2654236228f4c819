/* SIGTERM at bad moments: earlier clients are served, and nothing that hangs delays the stop. */
#include <sys/wait.h>

#include "fault/gaps.h"
#include "wave.h"
#include "wire.h"

enum {
    COMERS = 150,   /* more than a loop accepts in one iteration */
    RUNS = 8,       /* as in module_wave.c */
    GONE_MS = 50000 /* less than the 60 s that a migration waits for its lock */
};

static const char *const get_health = "GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n";

/* The host is paused, so the kernel has accepted the connections and the host has not. */
TEST(clients_that_connected_before_a_stop_are_answered)
{
    struct host *host = host_start(&(struct host_spec){.name = "stop-queue"});
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

/* The host ends with waiting threads and logs that; reports of thread leaks are expected. */
static const char *const unfinished[] = {"TSAN_OPTIONS=report_thread_leaks=0", NULL};

/* Another host runs a long migration, and a reload waits for it. */
TEST(a_reload_that_waits_for_a_migration_does_not_delay_a_stop)
{
    const char *database = database_make(the_postgres, "stop_migrate");
    PGconn *db = database_connect(the_postgres, database);

    sql_text(db, "SELECT pg_advisory_lock(7094709482943872001)::text", 0, NULL);
    struct host *host = host_start(&(struct host_spec){
        .name = "stop-migrate", .database = database, .environment = unfinished});

    sql_soon(db, "SELECT count(*) FROM pg_locks WHERE NOT granted");
    ck_assert_int_eq(kill(host->pid, SIGHUP), 0);
    host_logs(host, 0, "generation 2 is live");
    int status = 0;

    ck_assert_int_eq(kill(host->pid, SIGTERM), 0);
    ck_assert(process_wait(host->pid, GONE_MS, &status));
    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "wait status %d", status);
}

/* The first loop ends last, so functions that a request schedules run, on whichever loop. */
TEST(functions_scheduled_by_a_request_run_during_a_stop)
{
    struct wave *wave = wave_prepare("stop-run", NULL);

    wave->spec.http = "  loops: 4\n";
    wave_write(wave, NULL, NULL);
    ck_assert(host_run(wave->host));
    struct wire *wire = wire_open(wave->host);

    wire_say(wire, "GET /api/wave/late?ms=1000 HTTP/1.1\r\nHost: x\r\n\r\n");
    host_logs(wave->host, 0, "naps");
    ck_assert_int_eq(kill(wave->host->pid, SIGTERM), 0);
    ck_assert_int_eq(wire_read(wire, STOP_MS)->status, 200);
    host_stop(wave->host);
    ck_assert_uint_eq(host_logged(wave->host, "wave 1 ran late"), RUNS);
}

TEST(a_stop_aborts_a_job_that_runs_for_long)
{
    struct wave *wave = wave_prepare("stop-job", "wave:\n  tick: 60000\n");

    ck_assert(host_run(wave->host));
    host_logs(wave->host, 0, "wave 1 ticks");
    host_stop(wave->host);
}

/* The worker cannot handle the signal yet, because it is opening its modules. */
TEST(a_signal_to_a_worker_that_is_starting_stops_the_service)
{
    struct wave *wave = wave_prepare("stop-early", "wave:\n  slowly: 5000\n");
    struct host *host = wave->host;
    const char *const argv[] = {harness_program(false), "-c", host->conf, "serve", NULL};
    int status = 0;

    host->pid = process_start(&(struct process_spec){.argv = argv, .log = host->log});
    host_logs(host, 0, "wave 1 opens");
    ck_assert_int_eq(kill(worker_of(host, 0), SIGTERM), 0);
    ck_assert(process_wait(host->pid, STOP_MS, &status));
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "wait status %d", status);
    ck_assert_uint_eq(host_logged(host, "is restarted"), 0);
}

/* Returns the worker of a host with a supervisor, otherwise the host itself. */
static pid_t server_of(const struct host *host)
{
    return host->supervised ? worker_of(host, 0) : host->pid;
}

/* Tests a host with a supervisor and one without. */
TEST_EACH(unused_signals_do_not_end_the_host_and_secrets_are_hidden, 2)
{
    static const int unused[] = {SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR};
    static const char *const environment[] = {"BUSBAR_TEST_SECRET=swordfish",
                                              "BUSBAR_TEST_LEVEL=info", NULL};
    const char *name = text("stop_signals_%d", _i);
    struct host *host = host_start(&(struct host_spec){.name = name,
                                                       .log = "  level: ${BUSBAR_TEST_LEVEL}\n",
                                                       .environment = environment,
                                                       .supervised = _i == 1});
    pid_t processes[] = {host->pid, server_of(host)};

    for (size_t i = 0; i < sizeof processes / sizeof *processes; i++) {
        char shown[65536] = "";
        FILE *file = fopen(text("/proc/%d/environ", (int)processes[i]), "re");
        size_t length = file ? fread(shown, 1, sizeof shown, file) : 0;

        ck_assert_uint_gt(length, 0);
        fclose(file);
        ck_assert_ptr_null(memmem(shown, length, "swordfish", 9));
        ck_assert_int_eq(process_status(processes[i], "NoNewPrivs:"), 1);
        for (size_t k = 0; k < sizeof unused / sizeof *unused; k++)
            ck_assert_int_eq(kill(processes[i], unused[k]), 0);
    }
    ck_status(http(host, "GET", "/api/health", NULL, NULL), 200);
    ck_assert_int_eq(server_of(host), processes[1]);

    /* a reload still finds the files that the configuration names */
    host_says(host, 0, "reload");
    ck_assert_int_eq(server_of(host), processes[1]);
    host_stop(host);
}

SUITE(stop, .timeout_s = 60)
