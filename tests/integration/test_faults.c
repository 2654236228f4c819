/*
 * Faults of PostgreSQL, Redis and the host itself under load (faults.md). Each test has a
 * PostgreSQL of its own, with fsync, because it stops it. The health endpoint is asked all the time
 * meanwhile.
 */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "health_watch.h"
#include "scene.h"
#include "suites.h"

enum { ENOUGH = 1000000, DEADLINE_MS = 5000, BACK_MS = 5000 };

/* ---- conditions ---- */

struct wanted {
    const struct host *host;
    const char *path, *token;
    long status;
};

static bool has_status(void *arg)
{
    const struct wanted *wanted = arg;

    return http(wanted->host, "GET", wanted->path, wanted->token, NULL)->status == wanted->status;
}

static void expect_soon(const struct host *host, const char *path, const char *token, long status)
{
    ck_assert_msg(wait_until(has_status, &(struct wanted){host, path, token, status}, BACK_MS),
                  "%s does not answer %ld", path, status);
}

/* Ends the load where it stands. */
static void load_stop(struct scene *scene)
{
    atomic_store(&scene->load.acknowledged, ENOUGH);
    pthread_join(scene->thread, NULL);
    ck_assert_int_eq(scene->outcome, 0);
}

static void expect_only_503(const struct scene *scene)
{
    ck_assert_int_eq(atomic_load(&scene->load.wrong), 0);
    ck_assert_int_eq(atomic_load(&scene->load.cut), 0);
    ck_assert_int_lt(atomic_load(&scene->load.slowest_ms), DEADLINE_MS + 1000);
}

static struct scene *scene_on(struct postgres *pg, const char *name)
{
    return scene_make(name, &(struct host_spec){.pg = pg}, 1, ENOUGH);
}

/* ---- PostgreSQL ---- */

/* Acceptance 4 */
START_TEST(a_host_outlives_a_stop_of_postgresql)
{
    struct postgres *pg = postgres_make("pg-stop", true);
    struct scene *scene = scene_on(pg, "fault_stop");
    const struct host *host = scene->hosts[0];
    struct watch *watch = watch_begin(host);

    postgres_stop(pg, SIGINT);
    struct answer *status = ck_status(http(host, "GET", "/api/health/status", NULL, NULL), 503);

    ck_assert_str_eq(answer_text(status, "status"), "error");
    for (int i = 0; i < 20; i++) {
        struct answer *refused =
            ck_error(http(host, "GET", "/api/chat/unread-count/somebody%40shop.example",
                          scene->admin->token, NULL),
                     503, "");

        ck_assert_ptr_nonnull(answer_header(refused, "Retry-After"));
        ck_assert(refused->seconds * 1000 <= DEADLINE_MS + 500);
    }
    postgres_start(pg);
    expect_soon(host, "/api/health/status", NULL, 200);
    expect_soon(host, "/api/chat/unread-count/somebody%40shop.example", scene->admin->token, 200);
    watch_end(watch, "fault_stop");
    scene_begin(scene);
    scene_wait(scene, 100);
    load_stop(scene);
    scene_expect_ledger(scene);
    scene_end(scene);
}

static pid_t parent_of(pid_t pid)
{
    const char *stat = file_text(text("/proc/%d/stat", (int)pid));
    const char *after = strrchr(stat, ')');

    return after && strlen(after) > 4 ? (pid_t)strtol(after + 4, NULL, 10) : 0;
}

enum { CHILDREN_MAX = 256 };

struct children {
    pid_t pids[CHILDREN_MAX];
    int count;
};

static struct children children_of(const struct postgres *pg)
{
    struct children children = {.count = 0};
    DIR *processes = opendir("/proc");
    const struct dirent *entry;

    ck_assert_ptr_nonnull(processes);
    while ((entry = readdir(processes)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid > 0 && parent_of(pid) == pg->pid && children.count < CHILDREN_MAX)
            children.pids[children.count++] = pid;
    }
    closedir(processes);
    return children;
}

/* A zombie holds nothing any more. */
static bool are_gone(void *arg)
{
    const struct children *children = arg;

    for (int i = 0; i < children->count; i++) {
        const char *stat = file_text(text("/proc/%d/stat", (int)children->pids[i]));
        const char *after = strrchr(stat, ')');

        if (after && strlen(after) > 2 && after[2] != 'Z')
            return false;
    }
    return true;
}

/* Backends outlive a killed postmaster for a moment, and no new one starts beside them. */
static void postgres_end(struct postgres *pg, int signal)
{
    struct children children = children_of(pg);

    postgres_stop(pg, signal);
    ck_assert(wait_until(are_gone, &children, 10000));
}

static void restart_under_load(const char *name, int signal)
{
    struct postgres *pg = postgres_make(text("pg-%s", name), true);
    struct scene *scene = scene_on(pg, text("fault_%s", name));
    struct watch *watch = watch_begin(scene->hosts[0]);

    scene_begin(scene);
    scene_wait(scene, 200);
    postgres_end(pg, signal);
    postgres_start(pg);
    fprintf(stderr, "fault_%s: recovery %jd ms\n", name, (intmax_t)scene_recovery(scene, BACK_MS));
    scene_wait(scene, atomic_load(&scene->load.acknowledged) + 200);
    load_stop(scene);
    /* long reads have a connection of their own, which comes back in its own time */
    expect_soon(scene->hosts[0], text("/api/chat/chain/%s", scene->head), scene->admin->token, 200);
    watch_end(watch, name);
    scene_expect_ledger(scene);
    expect_only_503(scene);
    scene_end(scene);
}

/* F01 */
START_TEST(a_fast_restart_of_postgresql_loses_nothing)
{
    restart_under_load("fast", SIGINT);
}

/* F02 */
START_TEST(an_immediate_stop_of_postgresql_loses_nothing)
{
    restart_under_load("immediate", SIGQUIT);
}

/* F02 */
START_TEST(a_crash_of_postgresql_loses_nothing)
{
    restart_under_load("crash", SIGKILL);
}

/* F03 */
START_TEST(terminated_backends_lose_nothing)
{
    struct postgres *pg = postgres_make("pg-terminate", true);
    struct scene *scene = scene_on(pg, "fault_terminate");
    PGconn *db = database_connect(pg, "postgres");
    int64_t longest = 0;

    scene_begin(scene);
    for (int i = 0; i < 5; i++) {
        scene_wait(scene, atomic_load(&scene->load.acknowledged) + 100);
        ck_assert_int_gt(sql_number(db, "SELECT count(pg_terminate_backend(pid))"
                                        " FROM pg_stat_activity WHERE datname = 'fault_terminate'"),
                         0);
        int64_t took = scene_recovery(scene, BACK_MS);

        longest = took > longest ? took : longest;
    }
    load_stop(scene);
    PQfinish(db);
    fprintf(stderr, "fault_terminate: longest recovery %jd ms\n", (intmax_t)longest);
    scene_expect_ledger(scene);
    expect_only_503(scene);
    scene_end(scene);
}

/* The postmaster first when it stops and last when it goes on, so that it starts no child between.
 */
static void signal_all(const struct postgres *pg, int signal)
{
    if (signal == SIGSTOP)
        kill(pg->pid, signal);
    struct children children = children_of(pg);

    for (int i = 0; i < children.count; i++)
        kill(children.pids[i], signal);
    if (signal != SIGSTOP)
        kill(pg->pid, signal);
}

/* F05: the database accepts and never answers. */
START_TEST(a_frozen_postgresql_holds_nobody_beyond_the_deadline)
{
    struct postgres *pg = postgres_make("pg-frozen", true);
    struct scene *scene = scene_on(pg, "fault_frozen");
    const struct host *host = scene->hosts[0];

    scene_begin(scene);
    scene_wait(scene, 100);
    struct watch *watch = watch_begin(host);
    long refused = atomic_load(&scene->load.refused);

    signal_all(pg, SIGSTOP);
    expect_soon(host, "/api/health/status", NULL, 503);
    struct answer *answer =
        ck_error(http(host, "GET", "/api/chat/unread-count/frozen%40shop.example",
                      scene->admin->token, NULL),
                 503, "");

    ck_assert_ptr_nonnull(answer_header(answer, "Retry-After"));
    ck_assert(answer->seconds * 1000 <= DEADLINE_MS + 500);
    signal_all(pg, SIGCONT);
    fprintf(stderr, "fault_frozen: recovery %jd ms\n", (intmax_t)scene_recovery(scene, BACK_MS));
    ck_assert_int_gt(atomic_load(&scene->load.refused), refused);
    expect_soon(host, "/api/health/status", NULL, 200);
    load_stop(scene);
    watch_end(watch, "fault_frozen");
    scene_expect_ledger(scene);
    expect_only_503(scene);
    scene_end(scene);
}

/* ---- Redis ---- */

/* F11, J23: a dead Redis, and one that comes back empty, are felt by the status alone. */
START_TEST(a_death_of_redis_refuses_nothing)
{
    pid_t redis;
    const char *socket = redis_make("redis-dead", &redis);
    struct scene *scene =
        scene_make("fault_redis", &(struct host_spec){.redis = socket}, 1, ENOUGH);
    const struct host *host = scene->hosts[0];
    struct watch *watch = watch_begin(host);

    const char *out = admin_of(host)->token;

    ck_status(http(host, "POST", "/api/auth/logout", out, NULL), 200);
    scene_begin(scene);
    scene_wait(scene, 100);
    process_stop(redis, SIGKILL, 1000);
    expect_soon(host, "/api/health/status", NULL, 503);
    scene_wait(scene, atomic_load(&scene->load.acknowledged) + 100);
    unlink(socket);
    ck_error(http(host, "GET", "/api/auth/me", out, NULL), 401, "Token revoked");
    redis_make("redis-dead", &redis);
    expect_soon(host, "/api/health/status", NULL, 200);
    ck_error(http(host, "GET", "/api/auth/me", out, NULL), 401, "Token revoked");
    load_stop(scene);
    watch_end(watch, "fault_redis");
    scene_expect_ledger(scene);
    ck_assert_int_eq(atomic_load(&scene->load.refused), 0);
    scene_end(scene);
}

/* F12: answers that come late belong to nobody. J16: a logged out token stays refused. */
START_TEST(a_frozen_redis_refuses_nothing)
{
    pid_t redis;
    const char *socket = redis_make("redis-frozen", &redis);
    struct scene *scene =
        scene_make("fault_redis_frozen", &(struct host_spec){.redis = socket}, 1, ENOUGH);
    const struct host *host = scene->hosts[0];
    struct watch *watch = watch_begin(host);
    const char *out = admin_of(host)->token;

    scene_begin(scene);
    scene_wait(scene, 100);
    ck_status(http(host, "POST", "/api/auth/logout", out, NULL), 200);
    kill(redis, SIGSTOP);
    expect_soon(host, "/api/health/status", NULL, 503);
    for (int i = 0; i < 20; i++) {
        ck_error(http(host, "GET", "/api/auth/me", out, NULL), 401, "Token revoked");
        ck_status(http(host, "GET", "/api/auth/me", scene->admin->token, NULL), 200);
    }
    kill(redis, SIGCONT);
    for (int i = 0; i < 20; i++) {
        ck_error(http(host, "GET", "/api/auth/me", out, NULL), 401, "Token revoked");
        ck_status(http(host, "GET", "/api/auth/me", scene->admin->token, NULL), 200);
    }
    expect_soon(host, "/api/health/status", NULL, 200);
    load_stop(scene);
    watch_end(watch, "fault_redis_frozen");
    scene_expect_ledger(scene);
    ck_assert_int_eq(atomic_load(&scene->load.refused), 0);
    scene_end(scene);
}

/* ---- the host ---- */

/* F15 */
START_TEST(a_stop_of_the_host_cuts_no_request)
{
    struct scene *scene = scene_make("fault_term", NULL, 1, ENOUGH);

    scene_begin(scene);
    scene_wait(scene, 200);
    host_stop(scene->hosts[0]);
    ck_assert_int_eq(atomic_load(&scene->load.cut), 0);
    scene_restart(scene, 0);
    scene_recovery(scene, BACK_MS);
    load_stop(scene);
    struct ledger_report report = scene_expect_ledger(scene);

    ck_assert_uint_eq(report.unsure, 0);
    ck_assert_int_eq(atomic_load(&scene->load.wrong), 0);
    scene_end(scene);
}

Suite *faults_suite(void)
{
    Suite *suite = suite_create("faults");
    TCase *tests = tcase_create("faults");

    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_host_outlives_a_stop_of_postgresql);
    tcase_add_test(tests, a_fast_restart_of_postgresql_loses_nothing);
    tcase_add_test(tests, an_immediate_stop_of_postgresql_loses_nothing);
    tcase_add_test(tests, a_crash_of_postgresql_loses_nothing);
    tcase_add_test(tests, terminated_backends_lose_nothing);
    tcase_add_test(tests, a_frozen_postgresql_holds_nobody_beyond_the_deadline);
    tcase_add_test(tests, a_death_of_redis_refuses_nothing);
    tcase_add_test(tests, a_frozen_redis_refuses_nothing);
    tcase_add_test(tests, a_stop_of_the_host_cuts_no_request);
    suite_add_tcase(suite, tests);
    return suite;
}
