/*
 * Reloads: a generation takes over while requests run, or is refused and nothing changes. Faults
 * F30, F31 and F38.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <busbar/module.h>

#include "suites.h"
#include "wave.h"

static struct wave *wave;

static void start_wave(const char *name, const char *more)
{
    wave = wave_start(name, more);
    wave_expect(wave, 1, "hello");
}

/* ---- what a reload changes ---- */

START_TEST(a_setting_changes_and_the_old_generation_closes)
{
    start_wave("reload-set", NULL);
    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    wave_expect(wave, 1, "hello");
    wave_reload(wave);
    wave_expect(wave, 1, "moin");
    wave_log_soon(wave, "wave 1 closes (hello)");
    wave_drained(wave);
    ck_assert_ptr_nonnull(strstr(wave_status(wave), "generation 2: live"));
    ck_assert_int_eq(wave_logged(wave, "wave 1 is superseded (hello)"), 1);
    ck_assert_int_eq(wave_logged(wave, "wave 1 starts (moin)"), 1);
    ck_assert_int_eq(wave_logged(wave, "wave 1 leaves the water (hello)"), 1);
    ck_assert_int_eq(wave_logged(wave, "wave 1 closes (moin)"), 0);
    host_stop(wave->host);
    ck_assert_int_eq(wave_logged(wave, "wave 1 stops (moin)"), 1);
    ck_assert_int_eq(wave_logged(wave, "wave 1 closes (moin)"), 1);
}

START_TEST(sighup_reloads)
{
    start_wave("reload-hup", NULL);
    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    ck_assert_int_eq(kill(wave->host->pid, SIGHUP), 0);
    wave_status_soon(wave, "generation 2: live");
    wave_expect(wave, 1, "moin");
    host_stop(wave->host);
}

START_TEST(a_module_is_upgraded_removed_and_added_again)
{
    start_wave("reload-mod", NULL);
    PGconn *db = database_connect(the_postgres, wave->spec.database);

    wave_upgrade(wave, 2);
    wave_reload(wave);
    wave_expect(wave, 2, "hello");
    ck_assert_int_eq(sql_number(db, "SELECT count(m) FROM wave"), 0);
    ck_assert_ptr_nonnull(strstr(wave_status(wave), "module wave 2.0.0, build "));
    wave_write(wave, "chat", NULL);
    wave_reload(wave);
    ck_status(http(wave->host, "GET", "/api/wave", NULL, NULL), 404);
    ck_assert_ptr_null(strstr(wave_status(wave), "3: live\n  module wave"));
    wave_write(wave, NULL, "wave:\n  greeting: again\n");
    wave_reload(wave);
    wave_expect(wave, 2, "again");
    wave_log_soon(wave, "wave 2 surfs (again)");
    PQfinish(db);
    host_stop(wave->host);
}

START_TEST(jobs_and_channels_follow)
{
    start_wave("reload-jobs", NULL);
    PGconn *db = database_connect(the_postgres, wave->spec.database);

    wave_log_soon(wave, "wave 1 ticks (hello)");
    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    wave_reload(wave);
    wave_log_soon(wave, "wave 1 closes (hello)");
    int before = wave_logged(wave, "wave 1 ticks (hello)");

    wave_log_soon(wave, "wave 1 ticks (moin)");
    sql_text(db, "NOTIFY wave, 'rises'", 0, NULL);
    wave_log_soon(wave, "wave 1 rises (moin)");
    ck_assert_int_eq(wave_logged(wave, "wave 1 ticks (hello)"), before);
    ck_assert_int_eq(wave_logged(wave, "wave 1 rises (hello)"), 0);
    PQfinish(db);
    host_stop(wave->host);
}

/* Nothing may be missed between the reload's answer and the first notification. */
START_TEST(a_module_that_comes_hears_at_once)
{
    wave = wave_prepare("reload-hear", NULL);
    wave_write(wave, "chat", NULL);
    ck_assert(host_run(wave->host));
    wave_status_soon(wave, "PostgreSQL answers");
    PGconn *db = database_connect(the_postgres, wave->spec.database);

    wave_write(wave, NULL, NULL);
    wave_reload(wave);
    sql_text(db, "NOTIFY wave, 'rises'", 0, NULL);
    wave_log_soon(wave, "wave 1 rises (hello)");
    PQfinish(db);
    host_stop(wave->host);
}

START_TEST(a_setting_changes_while_the_database_is_away)
{
    struct postgres *pg = postgres_make("reload-pg", false);

    wave = wave_prepare("reload-away", NULL);
    wave->spec.pg = pg;
    wave->spec.database = database_make(pg, "away");
    wave_write(wave, NULL, NULL);
    ck_assert(host_run(wave->host));
    wave_status_soon(wave, "PostgreSQL answers");
    postgres_stop(pg, SIGINT);
    wave_status_soon(wave, "PostgreSQL does not answer");
    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    wave_reload(wave);
    wave_expect(wave, 1, "moin");
    wave_upgrade(wave, 2);
    wave_refused(wave, "the database cannot be migrated: ");
    wave_expect(wave, 1, "moin");
    postgres_start(pg);
    wave_status_soon(wave, "PostgreSQL answers");
    wave_reload(wave);
    wave_expect(wave, 2, "moin");
    host_stop(wave->host);
    postgres_stop(pg, SIGINT);
}

/* ---- draining ---- */

struct errand {
    const char *path;
    pthread_t thread;
    struct answer *answer;
};

static void *run_errand(void *arg)
{
    struct errand *errand = arg;

    errand->answer = http(wave->host, "GET", errand->path, NULL, NULL);
    return NULL;
}

/* Begins a request and returns once it is being served. */
static void begin(struct errand *errand)
{
    ck_assert_int_eq(pthread_create(&errand->thread, NULL, run_errand, errand), 0);
    wave_status_soon(wave, ", 1 requests");
}

START_TEST(a_request_ends_in_the_generation_that_it_began_in)
{
    struct errand errand = {.path = "/api/wave/nap?ms=1500"};

    start_wave("reload-hold", NULL);
    begin(&errand);
    wave_write(wave, NULL, "wave:\n  greeting: moin\n");
    wave_upgrade(wave, 2);
    wave_reload(wave);
    wave_expect(wave, 2, "moin");
    ck_assert_ptr_nonnull(strstr(wave_status(wave), "generation 1: drains for"));
    ck_assert_int_eq(wave_logged(wave, "wave 1 closes"), 0);
    pthread_join(errand.thread, NULL);
    ck_status(errand.answer, 200);
    ck_assert_int_eq(answer_int(errand.answer, "version"), 1);
    ck_assert_str_eq(answer_text(errand.answer, "greeting"), "hello");
    wave_drained(wave);
    host_stop(wave->host);
}

START_TEST(what_outlives_the_drain_is_cut)
{
    struct errand errand = {.path = "/api/wave/doze?ms=4500"};
    static const char half[] = "GET /api/wave HTTP/1.1\r\nHost: x\r\n";

    start_wave("reload-cut", "reload:\n  drain: 1\n");
    begin(&errand);
    int fd = raw_open(wave->host);

    ck_assert_int_eq(send(fd, half, sizeof half - 1, 0), sizeof half - 1);
    wave_status_soon(wave, ", 2 requests");
    wave_reload(wave);
    wave_log_soon(wave, "did not drain in time");
    pthread_join(errand.thread, NULL);
    ck_status(errand.answer, 503);
    ck_assert(errand.answer->seconds < 4);
    char rest[256];

    ck_assert_int_le(recv(fd, rest, sizeof rest, 0), 0);
    close(fd);
    wave_drained(wave);
    wave_expect(wave, 1, "hello");
    host_stop(wave->host);
}

START_TEST(a_host_stops_while_an_old_generation_drains)
{
    struct errand errand = {.path = "/api/wave/nap?ms=1500"};

    start_wave("reload-stop", NULL);
    begin(&errand);
    wave_reload(wave);
    host_stop(wave->host);
    pthread_join(errand.thread, NULL);
    ck_status(errand.answer, 200);
    ck_assert_int_eq(wave_logged(wave, "wave 1 closes"), 2);
}

/* ---- what is refused (F30, F31) ---- */

static void patched(const void *from, const void *to, size_t size)
{
    size_t length;
    char *bytes = wave_bytes(1, &length);
    char *at = memmem(bytes, length, from, size);

    ck_assert_ptr_nonnull(at);
    memcpy(at, to, size);
    wave_replace(wave, bytes, length);
}

static void break_yaml(void)
{
    file_write(wave->host->conf, "http: [\n");
}

static void break_value(void)
{
    wave_write(wave, NULL, "wave:\n  greting: moin\n");
}

static void lose_file(void)
{
    ck_assert_int_eq(unlink(wave->file), 0);
}

static void truncate_file(void)
{
    size_t length;
    const char *bytes = wave_bytes(1, &length);

    wave_replace(wave, bytes, length / 2);
}

static void name_foreign(void)
{
    wave_write(wave, "\"/lib/x86_64-linux-gnu/libm.so.6\"", NULL);
}

struct head {
    size_t size;
    unsigned abi_major, abi_minor;
};

static void age_abi(void)
{
    struct head from = {sizeof(struct bb_module), BB_ABI_MAJOR, BB_ABI_MINOR}, to = from;

    to.abi_major++;
    patched(&from, &to, sizeof from);
}

static void rename_symbol(void)
{
    patched("busbar_module", "busbar_mobile", 13);
}

static void fail_open(void)
{
    wave_write(wave, NULL, "wave:\n  fail: true\n");
}

static void fail_migration(void)
{
    wave_upgrade(wave, 3);
}

static void move_listener(void)
{
    const char *conf = host_configuration(&wave->spec), *at = strstr(conf, "127.0.0.1:0");

    file_write(wave->host->conf,
               text("%.*s127.0.0.1:1%s", (int)(at - conf), conf, at + strlen("127.0.0.1:0")));
}

static void add_loops(void)
{
    wave->spec.http = "  loops: 3\n";
    wave_write(wave, NULL, NULL);
    wave->spec.http = NULL;
}

static void change_depth(void)
{
    wave_write(wave, NULL, "wave:\n  depth: 2\n");
}

static const struct mistake {
    const char *name;
    void (*make)(void);
    const char *reason; /* in what `busbar reload` says */
    bool start_too;     /* a host does not start with it either */
} mistakes[] = {
    {"yaml", break_yaml, ".yaml:", true},
    {"value", break_value, "wave.greting: ", true},
    {"missing", lose_file, "-wave.so: cannot be read: No such file", true},
    {"truncated", truncate_file, "-wave.so: is truncated: ", true},
    {"foreign", name_foreign, "is no busbar module: it exports no busbar_module", true},
    {"abi", age_abi, "was built for ABI 2.", true},
    {"symbol", rename_symbol, "is no busbar module", true},
    {"open", fail_open, "module wave: the sea is too rough", true},
    {"migration", fail_migration, "wavelength", false},
    {"listener", move_listener, "http.listen: cannot be changed by a reload", false},
    {"threads", add_loops, "http.loops: cannot be changed by a reload", false},
    {"depth", change_depth, "wave.depth: cannot be changed by a reload", false},
};

START_TEST(a_mistake_is_named_and_changes_nothing)
{
    const struct mistake *mistake = &mistakes[_i];

    start_wave(text("reload_no_%s", mistake->name), NULL);
    mistake->make();
    wave_refused(wave, mistake->reason);
    wave_expect(wave, 1, "hello");
    ck_assert_int_eq(wave_logged(wave, "reload refused"), 1);
    ck_assert_int_eq(wave_logged(wave, "wave 1 closes (hello)"), 0);
    wave_drained(wave);
    wave_upgrade(wave, 1);
    wave_write(wave, NULL, "wave:\n  greeting: mended\n");
    wave_reload(wave);
    wave_expect(wave, 1, "mended");
    ck_assert_ptr_nonnull(strstr(wave_status(wave), "reloads: 1 done, 1 refused"));
    host_stop(wave->host);
}

START_TEST(a_host_does_not_start_with_a_mistake)
{
    const struct mistake *mistake = &mistakes[_i];

    if (!mistake->start_too)
        return;
    wave = wave_prepare(text("start_no_%s", mistake->name), NULL);
    mistake->make();
    ck_assert(!host_run(wave->host));
    ck_assert_msg(wave_logged(wave, mistake->reason) == 1, "no \"%s\" in %s", mistake->reason,
                  file_text(wave->host->log));
    ck_assert_int_eq(wave_logged(wave, "listening"), 0);
    host_log_clean(wave->host);
}

/* ---- the socket ---- */

START_TEST(the_socket_is_its_owners_and_survives_a_crash)
{
    const char *path = harness_path("reload-sock.control");
    struct stat about;
    int status;

    start_wave("reload-sock", NULL);
    ck_assert_int_eq(stat(path, &about), 0);
    ck_assert_uint_eq(about.st_mode & 0777, 0600);
    host_kill(wave->host);
    ck_assert_ptr_nonnull(strstr(host_ask(wave->host, "status", &status), "no host answers at"));
    ck_assert_int_eq(status, 1);
    ck_assert(host_run(wave->host));
    wave_status_soon(wave, "generation 1: live");
    ck_assert_int_eq(host_command(wave->host, NULL, (const char *const[]){"status", NULL}), 0);
    host_stop(wave->host);
    ck_assert_int_ne(stat(path, &about), 0);
}

START_TEST(two_hosts_do_not_take_each_others_socket)
{
    start_wave("reload-two", NULL);
    struct host second = *wave->host;

    second.log = harness_path("host-reload-two-b.log");
    ck_assert(host_run(&second));
    host_stop(&second);
    ck_assert_ptr_nonnull(strstr(file_text(second.log), "another host answers there"));
    ck_assert_ptr_nonnull(strstr(wave_status(wave), text("process %d", wave->host->pid)));
    host_stop(wave->host);
}

START_TEST(status_shows_modules_pools_and_queues)
{
    start_wave("reload-show", NULL);
    const char *said = wave_status(wave);
    const char *const parts[] = {
        "generation 1: live for ",     "module auth 1.",     "module wave 1.0.0, build ",
        "pool wave.nap: 4 threads",    "1 workers run",      "loop 0: ",
        "database read: 2 of 2 conne", "reloads: 0 done, 0", "Redis answers in "};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(said, parts[i]) != NULL, "no \"%s\" in:\n%s", parts[i], said);
    host_stop(wave->host);
}

/* ---- F38 ---- */

START_TEST(a_rotation_holds_on_both_hosts_across_reloads)
{
    const char *name = "reload-rotate";

    wave = wave_prepare(name, NULL);
    ck_assert(host_run(wave->host));
    struct host_spec spec = wave->spec;

    spec.name = "reload-rotate-b";
    spec.modules = "[auth, health]";
    struct host *other = host_start(&spec);
    struct person *admin = admin_of(wave->host);
    const char *old = admin->token;

    answers_soon(other, "/api/auth/me", old, 200, "");
    wave_reload(wave);
    ck_status(http(wave->host, "GET", "/api/auth/me", old, NULL), 200);
    ck_status(http(other, "POST", "/api/admin/rotate-secret", old, NULL), 200);
    wave_reload(wave);
    answers_soon(wave->host, "/api/auth/me", old, 401, "Token revoked. Please log in again.");
    answers_soon(other, "/api/auth/me", old, 401, "Token revoked. Please log in again.");
    person_login(wave->host, admin);
    wave_reload(wave);
    ck_status(http(wave->host, "GET", "/api/auth/me", admin->token, NULL), 200);
    answers_soon(other, "/api/auth/me", admin->token, 200, "");
    host_stop(other);
    host_stop(wave->host);
}

Suite *reload_suite(void)
{
    Suite *suite = suite_create("reload");
    TCase *tests = tcase_create("reload");
    int count = (int)(sizeof mistakes / sizeof *mistakes);

    tcase_set_timeout(tests, 90);
    tcase_add_test(tests, a_setting_changes_and_the_old_generation_closes);
    tcase_add_test(tests, sighup_reloads);
    tcase_add_test(tests, a_module_is_upgraded_removed_and_added_again);
    tcase_add_test(tests, jobs_and_channels_follow);
    tcase_add_test(tests, a_module_that_comes_hears_at_once);
    tcase_add_test(tests, a_setting_changes_while_the_database_is_away);
    tcase_add_test(tests, a_request_ends_in_the_generation_that_it_began_in);
    tcase_add_test(tests, what_outlives_the_drain_is_cut);
    tcase_add_test(tests, a_host_stops_while_an_old_generation_drains);
    tcase_add_loop_test(tests, a_mistake_is_named_and_changes_nothing, 0, count);
    tcase_add_loop_test(tests, a_host_does_not_start_with_a_mistake, 0, count);
    tcase_add_test(tests, the_socket_is_its_owners_and_survives_a_crash);
    tcase_add_test(tests, two_hosts_do_not_take_each_others_socket);
    tcase_add_test(tests, status_shows_modules_pools_and_queues);
    tcase_add_test(tests, a_rotation_holds_on_both_hosts_across_reloads);
    suite_add_tcase(suite, tests);
    return suite;
}
