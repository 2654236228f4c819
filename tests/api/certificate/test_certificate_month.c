/*
 * A month of hourly readings adds up in the log; running the jobs again or killing them does not
 * change the result.
 *
 * Readings are posted for BUSBAR_TEST_DEVICES devices (default 9; `./test month` has 1,000).
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "certificates.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    certificates_open("certificate_month");
}

enum { HOURS = 31 * 24, GROUP_COUNT = 3 };
static const char *const frequencies[GROUP_COUNT] = {"daily", "weekly", "monthly"};

static int device_count(void)
{
    const char *given = getenv("BUSBAR_TEST_DEVICES");

    return given ? atoi(given) : 9;
}

static int hour_wh(int device, int hour)
{
    return 37 + device % 50 * 13 + (hour * 7919 + device * 104729) % 191;
}

static void post_month(const struct person *by, const char *name, int device, int64_t start)
{
    json_t *reads = json_array();

    for (int hour = 0; hour < HOURS; hour++)
        json_array_append_new(reads, json_pack("{ss ss si}", "startDate",
                                               time_text(start + hour * HOUR_MS), "endDate",
                                               time_text(start + (hour + 1) * HOUR_MS), "value",
                                               hour_wh(device, hour)));
    ck_status(meter_post(host, by, name,
                         json_pack("{ss ss so}", "type", "Delta", "unit", "Wh", "reads", reads)),
              201);
}

struct month {
    struct person *by;
    int64_t start, group[GROUP_COUNT], sum[GROUP_COUNT];
    int devices;
};

/* Distributes devices with readings over the three groups; returns the energy of each group. The
 * first group is made after the readings, the others before. */
static struct month month_make(const char *name, int devices)
{
    struct month month = {
        .by = certificate_person(name), .start = days_ago(70), .devices = devices};
    int64_t *ids[GROUP_COUNT];
    int counts[GROUP_COUNT] = {0};

    for (int g = 0; g < GROUP_COUNT; g++)
        ids[g] = kept(calloc((size_t)devices, sizeof(int64_t)));
    for (int i = 0; i < devices; i++)
        ids[i % 3][counts[i % 3]++] =
            meter_make(host, month.by, text("%s-%d", name, i), 10, days_ago(100));
    for (int g = 1; g < GROUP_COUNT; g++)
        month.group[g] =
            certificate_group_make(month.by, frequencies[g], month.start, ids[g], counts[g]);
    for (int i = 0; i < devices; i++) {
        post_month(month.by, text("%s-%d", name, i), i, month.start);
        for (int hour = 0; hour < HOURS; hour++)
            month.sum[i % 3] += hour_wh(i, hour);
    }
    month.group[0] =
        certificate_group_make(month.by, frequencies[0], month.start, ids[0], counts[0]);
    return month;
}

/* All cycles have ended long ago. The log adds up to the readings rounded down, and the groups
 * carry the rest. */
static void expect_month(PGconn *database, const struct month *month)
{
    certificates_expect_sums(database);
    for (int g = 0; g < GROUP_COUNT; g++) {
        const char *id = text("%jd", (intmax_t)month->group[g]);
        int64_t of_group = sql_number(
            database,
            text("SELECT coalesce(sum(issued_wh), 0) FROM certificate WHERE group_id = %s", id));

        ck_assert_int_eq(of_group, month->sum[g] / 1000 * 1000);
        ck_assert_int_eq(
            sql_number(database, text("SELECT carry_wh FROM certificate_group WHERE id = %s", id)),
            month->sum[g] % 1000);
        ck_assert_int_eq(
            sql_number(database, text("SELECT coalesce(sum(wh), 0) FROM certificate_entry"
                                      " WHERE group_id = %s",
                                      id)),
            month->sum[g]);
    }
}

TEST(a_month_of_hourly_readings_adds_up_and_running_again_adds_nothing)
{
    struct month month = month_make("cert-month", device_count());

    certificates_issue(db, host);
    expect_month(db, &month);
    struct sums sums = pages_of(month.by, "");

    ck_assert_int_eq(sums.issued, month.sum[0] / 1000 * 1000 + month.sum[1] / 1000 * 1000 +
                                      month.sum[2] / 1000 * 1000);
    ck_assert_int_eq(sums.wh, month.sum[0] + month.sum[1] + month.sum[2]);
    for (int g = 0; g < GROUP_COUNT; g++)
        ck_assert_int_eq(certificate_group_carried(month.by, month.group[g]), month.sum[g] % 1000);
    certificates_issue(db, host);
    /* as if all readings were new again */
    sql_run(db, "INSERT INTO certificate_look SELECT device, '-infinity', 'infinity'"
                " FROM certificate_member ON CONFLICT DO NOTHING");
    certificates_issue(db, host);
    struct sums again = pages_of(month.by, "");

    ck_assert_int_eq(again.entries, sums.entries);
    ck_assert_int_eq(again.issued, sums.issued);
    expect_month(db, &month);
}

/* Runs the job in a separate process and kills it after this many ms. */
static void run_killed(int ms)
{
    const char *argv[] = {harness_program(false), "-c", host->conf, "certificate", "issue", NULL};
    int status;
    pid_t pid = process_start(
        &(struct process_spec){.argv = argv, .environment = host->environment, .log = host->log});

    process_wait(pid, ms, &status);
    process_stop(pid, SIGKILL, 5000);
}

TEST(a_job_killed_at_any_moment_loses_nothing_and_issues_nothing_twice)
{
    host = meter_host("certificates_kill", NULL); /* in this test's process */
    admin = admin_of(host);
    PQfinish(db);
    db = database_connect(the_postgres, "certificates_kill");
    struct month month = month_make("cert-kill", device_count());

    meter_make(host, month.by, "cert-kill-h", 10, days_ago(400));
    ck_status(
        meter_series(host, month.by, "cert-kill-h", "History", days_ago(390), DAY_MS, 300, 1500),
        201);
    host_kill(host);
    for (int i = 0; i < 12; i++)
        run_killed(150 + i * 37);
    ck_assert(host_run(host));
    certificates_issue(db, host);
    expect_month(db, &month);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM certificate_entry e"
                                    " JOIN device d ON d.id = e.device"
                                    " WHERE d.external_id = 'cert-kill-h'"),
                     300);
    struct sums sums = pages_of(month.by, "");

    ck_assert_int_eq(sums.wh, month.sum[0] + month.sum[1] + month.sum[2] + 300 * 1500);
    host_stop(host);
}

STAGE_SUITE(certificate_month, set_up, 600)
