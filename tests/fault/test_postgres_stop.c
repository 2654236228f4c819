/* PostgreSQL is stopped, restarted, killed, and its backends are terminated. Each test
 * has a separate server with fsync. The health endpoint is requested continuously. */
#include "fault/common.h"

enum { TERMINATIONS = 30 };

TEST(a_host_survives_a_stop_of_postgresql)
{
    struct postgres *pg = postgres_make("pg-stop", true);
    struct scene *scene = scene_on(pg, "fault_stop");
    const struct host *host = scene->hosts[0];

    postgres_stop(pg, SIGINT);
    struct answer *status = ck_status(http(host, "GET", "/api/health/status", NULL, NULL), 503);

    ck_assert_str_eq(answer_text(status, "status"), "error");
    for (int i = 0; i < 20; i++)
        expect_refused(host, A_READ, scene->admin->token);
    postgres_start(pg);
    status_soon(host, "/api/health/status", NULL, 200);
    status_soon(host, A_READ, scene->admin->token, 200);
    load_begin(scene);
    fault_over(scene);
}

static void restart_under_load(const char *name, int signal)
{
    struct postgres *pg = postgres_make(text("pg-%s", name), true);
    struct scene *scene = scene_on(pg, text("fault_%s", name));

    load_begin(scene);
    scene_rush(scene);
    postgres_end(pg, signal);
    postgres_start(pg);
    scene_recovery(scene);
    scene_more(scene, 200);
    fault_over(scene);
    expect_only_503(scene);
}

TEST(a_fast_restart_of_postgresql_loses_no_message)
{
    restart_under_load("fast", SIGINT);
}

TEST(an_immediate_stop_of_postgresql_loses_no_message)
{
    restart_under_load("immediate", SIGQUIT);
}

TEST(a_crash_of_postgresql_loses_no_message)
{
    restart_under_load("crash", SIGKILL);
}

/* All backends are terminated several times, each time while messages are written. */
TEST(terminated_backends_lose_no_message)
{
    struct postgres *pg = postgres_make("pg-terminate", true);
    struct scene *scene = scene_on(pg, "fault_terminate");
    PGconn *db = database_connect(pg, "postgres");
    int64_t longest = 0;

    scene_begin(scene);
    scene_rush(scene);
    for (int i = 0; i < TERMINATIONS; i++) {
        scene_more(scene, 20);
        ck_assert_int_gt(sql_number(db, "SELECT count(pg_terminate_backend(pid))"
                                        " FROM pg_stat_activity WHERE datname = 'fault_terminate'"),
                         0);
        int64_t took = scene_recovery(scene);

        longest = took > longest ? took : longest;
    }
    PQfinish(db);
    fprintf(stderr, "fault_terminate: longest recovery %jd ms\n", longest);
    fault_over(scene);
    expect_only_503(scene);
    ck_assert_int_ge(atomic_load(&scene->load.refused), TERMINATIONS);
}

FAULT_SUITE(postgres_stop)
