/*
 * A month of hourly readings adds up in the log; running the jobs again or killing them does not
 * change the result.
 *
 * Readings are posted for BUSBAR_TEST_DEVICES devices (default 9; `./test month` has 1,000).
 */
#include "certificates.h"
#include "suite.h"

enum { HOURS = 31 * 24, GROUP_COUNT = 3 };
static const char *const frequencies[GROUP_COUNT] = {"daily", "weekly", "monthly"};

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
};

/* Starts a host and distributes devices with readings over the three groups. The first group is
 * made after the readings, the others before. */
static struct month month_make(const char *name)
{
    const char *given = getenv("BUSBAR_TEST_DEVICES");
    int devices = given ? atoi(given) : 9, counts[GROUP_COUNT] = {0};
    int64_t *ids[GROUP_COUNT];

    certificates_begin(name, NULL);
    admin = admin_of(host);
    struct month month = {.by = certificate_person(name), .start = days_ago(70)};

    for (int g = 0; g < GROUP_COUNT; g++)
        ids[g] = kept(calloc((size_t)devices, sizeof(int64_t)));
    for (int i = 0; i < devices; i++)
        ids[i % 3][counts[i % 3]++] = certificate_device(month.by, text("%s-%d", name, i));
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
 * carry the rest; `more` Wh are History. */
static struct sums expect_month(const struct month *month, int64_t more)
{
    struct sums sums = pages_of(month->by, "");
    int64_t issued = more, measured = more;

    certificates_expect_sums(db);
    for (int g = 0; g < GROUP_COUNT; g++) {
        int64_t sum = month->sum[g], group = month->group[g];

        ck_assert_int_eq(certificates_issued(group), sum / 1000 * 1000);
        ck_assert_int_eq(certificate_group_carried(month->by, group), sum % 1000);
        sql_is(db, sum,
               "SELECT coalesce(sum(wh), 0) FROM certificate_entry"
               " WHERE group_id = %jd",
               group);
        issued += sum / 1000 * 1000;
        measured += sum;
    }
    ck_assert_int_eq(sums.issued, issued);
    ck_assert_int_eq(sums.wh, measured);
    return sums;
}

TEST(certificates_of_a_month_add_up_and_another_run_adds_nothing)
{
    struct month month = month_make("certificate_month");

    certificates_issue(db, host);
    int64_t entries = expect_month(&month, 0).entries;

    certificates_issue(db, host);
    /* as if all readings were new again */
    sql_run(db, "INSERT INTO certificate_look SELECT device, '-infinity', 'infinity'"
                " FROM certificate_member ON CONFLICT DO NOTHING");
    certificates_issue(db, host);
    ck_assert_int_eq(expect_month(&month, 0).entries, entries);
    host_stop(host);
}

TEST(a_killed_job_certifies_every_wh_of_a_month_once)
{
    struct month month = month_make("certificate_month_kill");
    int status;

    meter_make(host, month.by, "history", 10, days_ago(400));
    store_series(month.by, "history", "History", days_ago(390), DAY_MS, 300, 1500);
    host_kill(host);
    for (int i = 0; i < 12; i++) {
        pid_t pid = meter_issue_start(host);

        process_wait(pid, 150 + i * 37, &status);
        process_stop(pid, SIGKILL, 5000);
    }
    ck_assert(host_run(host));
    certificates_issue(db, host);
    expect_month(&month, 300 * 1500);
    sql_is(db, 300,
           "SELECT count(*) FROM certificate_entry e"
           " JOIN device d ON d.id = e.device"
           " WHERE d.external_id = 'history'");
    host_stop(host);
}

SUITE(certificate_month, .timeout_s = 600, .after_each = stage_disconnect)
