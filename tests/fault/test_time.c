/* F33, F34: a host that was asleep beyond its lease, and a wall clock that jumps. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fault/common.h"
#include "fault/torture.h"
#include "receive.h"

enum {
    MESSAGES = 600,
    ASLEEP_MS = 15000, /* a lease is 10 s */
    SETTLED_MS = 20000,
    TWICE_MAX = 64 + 512, /* in flight, and not yet recorded */
    GAP_SLACK_MS = 400,
    HOUR = 3600, /* seconds */
    DAY = 24 * HOUR
};

static bool settled(void *db)
{
    return sql_number(db, "SELECT count(*) FROM webhook_delivery WHERE state = 'queued'") == 0;
}

static bool taken_over(void *db)
{
    return sql_number(db, "SELECT count(*) FROM webhook_host") == 1;
}

/* Its rows are the other's when it wakes, and what it still says of them is not heeded. */
START_TEST(a_host_asleep_beyond_its_lease_is_fenced)
{
    struct scene *scene = scene_make(
        "fault_asleep", &(struct host_spec){.modules = WEBHOOK_MODULES, .more = WEBHOOK_LOCAL}, 2,
        MESSAGES);
    struct receiver *receiver = receiver_start("asleep");
    PGconn *db = database_connect(the_postgres, "fault_asleep");
    struct host *sleeper = scene->hosts[1];
    struct watch *watch = watch_begin(scene->hosts[0]);

    webhook_ready("fault_asleep", 2);
    webhook_make(scene->hosts[0], scene->admin, receiver_url(receiver, "/slow/asleep"),
                 "message.new");
    scene_begin(scene);
    scene_wait(scene, MESSAGES / 2);
    kill(sleeper->pid, SIGSTOP);
    atomic_store(&scene->ports[1], scene->hosts[0]->port);
    ck_assert_msg(wait_until(taken_over, db, ASLEEP_MS), "nobody noticed that it sleeps");
    scene_finish(scene);
    ck_assert_msg(wait_until(settled, db, SETTLED_MS), "what it had is not delivered");
    size_t before = receiver_count(receiver, "/slow/asleep");

    ck_assert_uint_ge(before, (size_t)sql_number(db, "SELECT count(*) FROM webhook_delivery"));
    kill(sleeper->pid, SIGCONT);
    expect_soon(sleeper, "/api/health/status", NULL, 200);
    webhook_ready("fault_asleep", 2);
    /* a request that it was about to commit when it fell asleep has brought a delivery more */
    ck_assert_msg(wait_until(settled, db, SETTLED_MS), "what it woke with is not delivered");
    size_t after = receiver_count(receiver, "/slow/asleep");
    size_t rows = (size_t)sql_number(db, "SELECT count(*) FROM webhook_delivery");

    fprintf(stderr, "fault_asleep: %zu deliveries, %zu requests, %zu after it woke\n", rows, after,
            after - before);
    ck_assert_uint_le(after - rows, TWICE_MAX);
    ck_assert_int_eq(
        sql_number(db, "SELECT count(*) FROM webhook_delivery WHERE state <> 'delivered'"), 0);
    ck_assert_int_eq(sql_number(db, "SELECT (SELECT count(*) FROM chat_entry) - 1"
                                    " - (SELECT count(*) FROM webhook_delivery)"),
                     0);
    PQfinish(db);
    watch_end(watch, "fault_asleep");
    scene_expect_ledger(scene);
    scene_end(scene);
    process_stop(receiver->pid, SIGKILL, 1000);
}

/* ---- F34 ---- */

static void expect_gap(const struct catcher *catcher, size_t index, int64_t wanted_ms)
{
    int64_t gap = catcher->list[index].at_ms - catcher->list[index - 1].at_ms;

    ck_assert_msg(gap >= wanted_ms - GAP_SLACK_MS && gap < wanted_ms + 60000,
                  "attempt %zu came %jd ms after the one before", index + 1, (intmax_t)gap);
}

/* One delivery that fails three times; the clock jumps after the first and the second. */
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

START_TEST(a_clock_that_jumps_moves_no_timer_and_judges_tokens)
{
    static const char *const answers[] = {ANSWER_500, NULL};
    static const long hours[] = {HOUR, -HOUR}, years[] = {10 * 365 * DAY, 0};
    struct catcher *catcher = catcher_start(answers);
    struct rack rack = rack_make("fault_clock");
    atomic_long *clock_s = &rack.numbers->clock_s;

    struct scene *scene = scene_make("fault_clock",
                                     &(struct host_spec){.modules = WEBHOOK_MODULES,
                                                         .more = WEBHOOK_LOCAL,
                                                         .plain = true,
                                                         .environment = rack.environment},
                                     1, ENOUGH);
    struct host *host = scene->hosts[0];
    struct watch *watch = watch_begin(host);

    webhook_ready("fault_clock", 1);
    webhook_make(host, scene->admin, catcher_url(catcher, "x"), "conversation.created");
    scene_begin(scene);
    expect_spacing(host, scene->admin, catcher, clock_s, hours);
    atomic_store(clock_s, 0);
    expect_spacing(host, scene->admin, catcher, clock_s, years);
    ck_assert_uint_eq(catcher_count(catcher), 6);
    atomic_store(clock_s, 8 * DAY);
    expect_soon(host, "/api/auth/me", scene->admin->token, 401);
    atomic_store(clock_s, 0);
    expect_soon(host, "/api/auth/me", scene->admin->token, 200);
    load_more(scene, 100);
    fault_over(scene, watch, "fault_clock");
}

/* The monotonic clock of whom this test starts from now on, by so many seconds. */
static void move_monotonic(long seconds)
{
    FILE *file = NULL;

    if (unshare(CLONE_NEWTIME) == 0)
        file = fopen("/proc/self/timens_offsets", "we");
    ck_assert_msg(file != NULL, "F34 needs a time namespace, and root for it");
    fprintf(file, "monotonic %ld 0\nboottime %ld 0\n", seconds, seconds);
    ck_assert_msg(!fclose(file), "no offset of %ld s", seconds);
}

static void under_another_monotonic_clock(const char *name, long seconds)
{
    static const char *const answers[] = {ANSWER_500, NULL};
    struct catcher *catcher = catcher_start(answers);
    static const long none[] = {0, 0};
    atomic_long clock_s = 0;

    move_monotonic(seconds);
    struct scene *scene = scene_make(
        name, &(struct host_spec){.modules = WEBHOOK_MODULES, .more = WEBHOOK_LOCAL}, 1, ENOUGH);
    struct host *host = scene->hosts[0];
    struct watch *watch = watch_begin(host);

    webhook_ready(name, 1);
    webhook_make(host, scene->admin, catcher_url(catcher, "x"), "conversation.created");
    scene_begin(scene);
    expect_spacing(host, scene->admin, catcher, &clock_s, none);
    load_more(scene, 200);
    fault_over(scene, watch, name);
    expect_only_503(scene);
}

/* A machine that has run for ten years, and one that has just been switched on. */
START_TEST(a_monotonic_clock_far_ahead_changes_nothing)
{
    under_another_monotonic_clock("fault_ahead", 10 * 365 * DAY);
}

START_TEST(a_monotonic_clock_that_has_just_begun_changes_nothing)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    under_another_monotonic_clock("fault_begun", -(long)now.tv_sec);
}

FAULT(F33, a_host_asleep_beyond_its_lease_is_fenced)
FAULT(F34, a_clock_that_jumps_moves_no_timer_and_judges_tokens,
      a_monotonic_clock_far_ahead_changes_nothing,
      a_monotonic_clock_that_has_just_begun_changes_nothing)
