/* A host that was suspended for longer than its lease, and a wall clock that jumps. */
#include <math.h>
#include <sched.h>
#include <time.h>

#include "exposition.h"
#include "fault/common.h"
#include "fault/torture.h"
#include "receive.h"

enum {
    MESSAGES = 600,
    TWICE_MAX = 64 + 512, /* in flight or not yet recorded */
    HOUR = 3600,          /* seconds */
    DAY = 24 * HOUR
};

#define SETTLED "SELECT (count(*) = 0)::int FROM webhook_deliveries WHERE state = 'queued'"

/* When the suspended host continues, the other host owns its rows, and ignores its updates. */
TEST(a_host_suspended_beyond_its_lease_is_fenced)
{
    struct scene *scene = scene_make(
        "fault_asleep", &(struct host_spec){.modules = WEBHOOK_MODULES, .more = WEBHOOK_LOCAL}, 2,
        MESSAGES);
    struct receiver *receiver = receiver_start("asleep");
    PGconn *db = database_connect(the_postgres, "fault_asleep");
    struct host *sleeper = scene->hosts[1];

    scene->watch = watch_begin(scene->hosts[0]);
    webhook_ready("fault_asleep", 2);
    webhook_make(scene->hosts[0], scene->admin, receiver_url(receiver, "/slow/asleep"),
                 "message.new");
    scene_begin(scene);
    scene_wait(scene, MESSAGES / 2);
    kill(sleeper->pid, SIGSTOP);
    atomic_store(&scene->ports[1], scene->hosts[0]->port);
    sql_soon(db, "SELECT (count(*) = 1)::int FROM webhook_host"); /* a lease is 10 s */
    scene_finish(scene);
    sql_soon(db, SETTLED);
    size_t before = receiver_count(receiver, "/slow/asleep");

    size_t stored = (size_t)sql_number(db, "SELECT count(*) FROM webhook_delivery");

    ck_assert_uint_ge(before, stored);
    kill(sleeper->pid, SIGCONT);
    status_soon(sleeper, "/api/health/status", NULL, 200);
    webhook_ready("fault_asleep", 2);
    /* a request that was about to commit when the host was suspended has added a delivery */
    sql_soon(db, SETTLED);
    size_t after = receiver_count(receiver, "/slow/asleep");
    size_t rows = (size_t)sql_number(db, "SELECT count(*) FROM webhook_delivery");

    fprintf(stderr, "fault_asleep: %zu deliveries, %zu requests, %zu after it woke\n", rows, after,
            after - before);
    ck_assert_uint_le(after - rows, TWICE_MAX);
    ck_assert_uint_le(after - before, rows - stored); /* sends only what was added */
    sql_soon(db, "SELECT count(*) FROM webhook_host WHERE (counters ->> 'lostLeases')::int > 0");
    sql_is(db, 0, "SELECT count(*) FROM webhook_deliveries WHERE state <> 'delivered'");
    sql_is(db, 0,
           "SELECT (SELECT count(*) FROM chat_entry) - 1"
           " - (SELECT count(*) FROM webhook_delivery)");
    watch_end(scene->watch, "fault_asleep");
    scene_expect_ledger(scene);
    scene_end(scene);
}

/* ---- clocks that jump ---- */

/* A retry comes no earlier than it is due; a request may have been on its way for some time. */
static void expect_gap(const struct catcher *catcher, size_t index, int64_t wanted_ms)
{
    int64_t gap = catcher->list[index].at_ms - catcher->list[index - 1].at_ms;

    ck_assert_msg(gap >= wanted_ms / 2, "attempt %zu came %jd ms after the previous one", index + 1,
                  gap);
}

/* One delivery fails three times; the clock jumps after the first and the second failure. */
static void expect_spacing(struct host *host, const struct person *admin, struct catcher *catcher,
                           atomic_long *clock_s, const long jumps[2])
{
    size_t before = catcher_count(catcher);

    talk_start(host, admin, ADMIN_EMAIL, text("clock%zu@shop.example", before), NULL);
    catcher_wait(catcher, before + 1, 5000);
    atomic_store(clock_s, jumps[0]);
    catcher_wait(catcher, before + 2, 5000);
    atomic_store(clock_s, jumps[1]);
    catcher_wait(catcher, before + 3, 8000);
    expect_gap(catcher, before + 1, 1000);
    expect_gap(catcher, before + 2, 4000);
}

TEST(a_wall_clock_jump_affects_no_timer_and_no_token)
{
    static const char *const answers[] = {ANSWER_500, NULL};
    static const long hours[] = {HOUR, -HOUR}, years[] = {10 * 365 * DAY, 0};
    struct catcher *catcher = catcher_start(answers);
    struct rack rack = rack_make("fault_clock");
    atomic_long *clock_s = &rack.numbers->clock_s;

    struct scene *scene =
        fault_scene("fault_clock", &(struct host_spec){.modules = WEBHOOK_MODULES,
                                                       .more = WEBHOOK_LOCAL,
                                                       .plain = true,
                                                       .environment = rack.environment});
    struct host *host = scene->hosts[0];

    webhook_ready("fault_clock", 1);
    webhook_make(host, scene->admin, catcher_url(catcher, "x"), "conversation.created");
    scene_begin(scene);
    expect_spacing(host, scene->admin, catcher, clock_s, hours);
    atomic_store(clock_s, 0);
    expect_spacing(host, scene->admin, catcher, clock_s, years);
    ck_assert_uint_eq(catcher_count(catcher), 6);
    atomic_store(clock_s, 8 * DAY);
    status_soon(host, "/api/health/ready", NULL, 503);
    ck_status(http(host, "GET", "/api/auth/me", scene->admin->token, NULL), 200);
    atomic_store(clock_s, 0);
    status_soon(host, "/api/health/ready", NULL, 200);
    ck_status(http(host, "GET", "/api/auth/me", scene->admin->token, NULL), 200);
    scene_more(scene, 100);
    fault_over(scene);
}

/* ---- a clock that differs from the database's ---- */

enum { SKEW = 600, SLIGHT = 5, TRUE_WITHIN = 60 };

static double offset_of(const struct host *host, const char *token)
{
    return exposition_value(exposition_get(host, token), "busbar_clock_offset_seconds", "");
}

/* Fails the test unless this time agrees with the database's clock. */
static void expect_true_time(PGconn *db, const char *when)
{
    const char *off =
        sql_text(db, "SELECT abs(extract(epoch FROM now() - $1::timestamptz))", 1, &when);

    ck_assert_msg(strtod(off, NULL) < TRUE_WITHIN, "%s is %s seconds off", when, off);
}

/* Two hosts of a cluster; the clock of the first is wrong. */
static void with_skew(const char *name, long seconds)
{
    static const char *const answers[] = {ANSWER_OK, NULL};
    struct catcher *catcher = catcher_start(answers);
    struct rack rack = rack_make(name);
    const char *database = database_make(the_postgres, name);
    PGconn *db = database_connect(the_postgres, name);
    struct host_spec spec = {.name = text("%s_wrong", name),
                             .database = database,
                             .modules = "[auth, chat, health, webhook, metrics]",
                             .more = WEBHOOK_LOCAL,
                             .plain = true,
                             .environment = rack.environment};

    atomic_store(&rack.numbers->clock_s, seconds);
    struct host *wrong = host_start(&spec);

    spec.name = text("%s_right", name);
    spec.environment = NULL;
    struct host *right = host_start(&spec);

    status_soon(right, "/api/health/ready", NULL, 200);
    status_soon(wrong, "/api/health/ready", NULL, 503);
    struct answer *ready = ck_status(http(wrong, "GET", "/api/health/ready", NULL, NULL), 503);

    ck_assert_str_eq(
        json_string_value(json_object_get(
            json_object_get(json_object_get(ready->json, "error"), "clock"), "status")),
        "down");

    /* tokens, times and signatures for others use the database's clock */
    struct person *there = admin_of(wrong), *here = admin_of(right);

    ck_status(http(right, "GET", "/api/auth/me", there->token, NULL), 200);
    ck_status(http(wrong, "GET", "/api/auth/me", here->token, NULL), 200);
    webhook_ready(name, 2);
    webhook_make(wrong, there, catcher_url(catcher, "x"), "conversation.created");
    struct answer *started =
        ck_status(talk_try(wrong, there, ADMIN_EMAIL, "skew@shop.example", NULL, "hello"), 201);

    expect_true_time(db, json_string_value(json_object_get(
                             json_object_get(started->json, "message"), "createdAt")));
    const struct caught *caught = catcher_wait(catcher, 1, BACK_MS);

    expect_true_time(db, sql_text(db, "SELECT to_timestamp($1::bigint)", 1,
                                  &(const char *){caught_header(caught, "webhook-timestamp")}));

    /* the difference is measured and logged; a few seconds are tolerated */
    WAIT_UNTIL(fabs(offset_of(wrong, there->token) + (double)seconds) < 1, BACK_MS);
    ck_assert(fabs(offset_of(right, here->token)) < 1);
    ck_assert_ptr_nonnull(strstr(file_text(wrong->log), "clock differs from PostgreSQL's"));
    ck_assert_ptr_null(strstr(file_text(right->log), "clock differs from PostgreSQL's"));
    atomic_store(&rack.numbers->clock_s, SLIGHT);
    status_soon(wrong, "/api/health/ready", NULL, 200);
    WAIT_UNTIL(fabs(offset_of(wrong, there->token) + SLIGHT) < 1, BACK_MS);
    host_stop(wrong);
    host_stop(right);
}

TEST(a_host_ten_minutes_ahead_uses_the_clock_of_the_database)
{
    with_skew("fault_ahead_of", SKEW);
}

TEST(a_host_ten_minutes_behind_uses_the_clock_of_the_database)
{
    with_skew("fault_behind", -SKEW);
}

/* Moves the monotonic clock of processes started from now on by this many seconds. */
static void move_monotonic(long seconds)
{
    FILE *file = NULL;

    if (unshare(CLONE_NEWTIME) == 0)
        file = fopen("/proc/self/timens_offsets", "we");
    ck_assert_msg(file != NULL, "this fault needs a time namespace, and root for it");
    fprintf(file, "monotonic %ld 0\nboottime %ld 0\n", seconds, seconds);
    ck_assert_msg(!fclose(file), "the clock cannot be moved by %ld s", seconds);
}

static void under_another_monotonic_clock(const char *name, long seconds)
{
    static const char *const answers[] = {ANSWER_500, NULL};
    struct catcher *catcher = catcher_start(answers);
    static const long none[] = {0, 0};
    atomic_long clock_s = 0;

    if (!fault_may("another monotonic clock", CLONE_NEWTIME))
        return;
    move_monotonic(seconds);
    struct scene *scene =
        fault_scene(name, &(struct host_spec){.modules = WEBHOOK_MODULES, .more = WEBHOOK_LOCAL});
    struct host *host = scene->hosts[0];

    webhook_ready(name, 1);
    webhook_make(host, scene->admin, catcher_url(catcher, "x"), "conversation.created");
    scene_begin(scene);
    expect_spacing(host, scene->admin, catcher, &clock_s, none);
    scene_more(scene, 200);
    fault_over(scene);
    expect_only_503(scene);
}

/* A machine that has been up for ten years, and one that has just booted. */
TEST(a_monotonic_clock_far_ahead_changes_nothing)
{
    under_another_monotonic_clock("fault_ahead", 10 * 365 * DAY);
}

TEST(a_monotonic_clock_near_zero_changes_nothing)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    under_another_monotonic_clock("fault_begun", -(long)now.tv_sec);
}

FAULT_SUITE(clocks)
