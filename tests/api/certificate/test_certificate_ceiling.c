/* No certificate exceeds the energy that its devices can have generated in its cycle. */
#include "certificates.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

#define CEILING_OF_AN_HOUR 273972 /* Wh of 1,000 kW in the first year */

static void set_up(void)
{
    certificates_open("certificate_ceiling");
}

static int64_t issued_of(int64_t group)
{
    return sql_number(db, text("SELECT coalesce(sum(issued_wh), 0) FROM certificate"
                               " WHERE group_id = %jd",
                               (intmax_t)group));
}

static void rate(const struct person *by, const char *key, double kw)
{
    ask(by, 200, NULL, "PATCH /api/device/%s {'capacity':%.17g}", key, kw);
}

static struct answer *void_last(const struct person *by, const char *key, struct answer *stored)
{
    return http(host, "DELETE",
                text("/api/meter-reads/new/%s/%jd", key,
                     (intmax_t)int_in(item_of(stored, "reads", 0), "id")),
                by->token, json_pack("{ss}", "reason", "not certified by the group"));
}

TEST(a_reading_that_begins_before_its_group_is_not_certified_and_may_be_sent_as_history)
{
    struct person *m = certificate_person("ceiling.before");
    int64_t start = days_ago(10), device = meter_make(host, m, "cb", 100, days_ago(500));
    int64_t group = certificate_group_make(m, "hourly", start, &device, 1);
    struct answer *year = ck_status(
        meter_read(host, m, "cb", "Delta", start - 364 * DAY_MS, start + HOUR_MS, 180000000), 201);

    ck_status(meter_read(host, m, "cb", "Delta", start + HOUR_MS, start + 2 * HOUR_MS, 5000), 201);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 5000);
    /* voiding energy that no certificate has used needs no Admin */
    ck_status(void_last(m, "cb", year), 200);
    ck_status(
        meter_read(host, m, "cb", "History", start - 364 * DAY_MS, start + HOUR_MS, 180000000),
        201);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 5000);
    ck_assert_uint_eq(json_array_size(log_of(m, "?minWatthour=180000000")->json), 1);
    certificates_expect_sums(db);
}

TEST(a_reading_that_begins_before_its_device_joined_is_not_certified)
{
    struct person *m = certificate_person("ceiling.joined");
    int64_t start = days_ago(20);
    int64_t devices[] = {meter_make(host, m, "cj", 1000, days_ago(100)),
                         meter_make(host, m, "ck", 1000, days_ago(100))};
    int64_t group = certificate_group_make(m, "weekly", start, devices, 1);

    ask(m, 200, NULL, "POST " GROUPS "/%jd/devices {'deviceIds':[%jd]}", group, devices[1]);
    sql_run(db,
            text("UPDATE certificate_member SET since_at = reading_time(%jd) WHERE device = %jd",
                 (intmax_t)(start + 7 * DAY_MS), (intmax_t)devices[1]));
    ck_status(meter_read(host, m, "ck", "Delta", start + 6 * DAY_MS, start + 8 * DAY_MS, 1000000),
              201);
    ck_status(meter_read(host, m, "ck", "Delta", start + 8 * DAY_MS, start + 9 * DAY_MS, 7000),
              201);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 7000);
}

TEST(a_reading_may_be_as_long_as_the_longest_cycle_and_an_hour)
{
    static const struct {
        const char *frequency;
        int hours;
    } cases[] = {{"hourly", 1},        {"daily", 24},          {"weekly", 168},
                 {"monthly", 31 * 24}, {"quarterly", 92 * 24}, {"yearly", 366 * 24}};
    struct person *m = certificate_person("ceiling.long");
    int64_t groups[6];

    for (int i = 0; i < 6; i++) {
        const char *key = text("cl%d", i);
        int64_t start = days_ago(1200), length = (cases[i].hours + 1) * HOUR_MS;
        int64_t device = meter_make(host, m, key, 1000, days_ago(1300));

        groups[i] = certificate_group_make(m, cases[i].frequency, start, &device, 1);
        if (i < 5)
            ck_status(meter_read(host, m, key, "Delta", start, start + length, 3000), 201);
        start += length;
        if (i < 5)
            ck_status(meter_read(host, m, key, "Delta", start, start + length + 1, (double)50000),
                      201);
        else
            ck_status(meter_read(host, m, key, "Delta", start, start + 366 * DAY_MS, 3000), 201);
    }
    certificates_issue(db, host);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(issued_of(groups[i]), 3000);
    certificates_expect_sums(db);
}

TEST(energy_above_the_ceiling_of_a_device_waits_until_its_capacity_is_corrected)
{
    struct person *m = certificate_person("ceiling.rate");
    int64_t start = days_ago(10), device = meter_make(host, m, "cr", 1000, days_ago(100));
    int64_t group = certificate_group_make(m, "hourly", start, &device, 1);

    ck_status(meter_read(host, m, "cr", "Delta", start, start + HOUR_MS / 2, 130000), 201);
    struct answer *stored = ck_status(
        meter_read(host, m, "cr", "Delta", start + HOUR_MS / 2, start + HOUR_MS, 130000), 201);

    rate(m, "cr", 100);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), CEILING_OF_AN_HOUR / 10 / 1000 * 1000);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), CEILING_OF_AN_HOUR / 10 / 1000 * 1000);
    /* the certified part must not be certified again as History */
    ck_error(void_last(m, "cr", stored), 403, "Forbidden");
    rate(m, "cr", 1000);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 260000);
    /* certified energy stays certified */
    rate(m, "cr", 1);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 260000);
    certificates_expect_sums(db);
}

static bool waits_at_the_gate(void *arg)
{
    (void)arg;
    return sql_number(db, "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
                          " WHERE d.datname = current_database() AND l.locktype = 'advisory'"
                          " AND l.objid = 4711 AND NOT l.granted") > 0;
}

/* By then the job has read the device, and has not committed its account. */
TEST(a_capacity_that_is_corrected_while_its_cycle_is_issued_counts)
{
    struct person *m = certificate_person("ceiling.race");
    int64_t start = days_ago(10), device = meter_make(host, m, "cw", 1000, days_ago(100));
    int64_t group = certificate_group_make(m, "hourly", start, &device, 1);
    int status;

    ck_status(meter_read(host, m, "cw", "Delta", start, start + HOUR_MS, 260000), 201);
    rate(m, "cw", 100);
    sql_run(db, "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS"
                " 'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END'");
    sql_run(db, text("CREATE TRIGGER gate BEFORE INSERT ON certificate_account FOR EACH ROW"
                     " WHEN (NEW.device = %jd) EXECUTE FUNCTION gate()",
                     (intmax_t)device));
    sql_run(db, "SELECT pg_advisory_lock(4711)");
    pid_t run = meter_issue_start(host);

    ck_assert(wait_until(waits_at_the_gate, NULL, 20000));
    rate(m, "cw", 1000);
    sql_run(db, "SELECT pg_advisory_unlock(4711)");
    ck_assert(process_wait(run, 20000, &status));
    sql_run(db, "DROP FUNCTION gate CASCADE");
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 260000);
    certificates_expect_sums(db);
}

TEST(a_device_and_a_group_with_nothing_but_energy_above_the_ceiling_can_be_deleted)
{
    struct person *m = certificate_person("ceiling.gone");
    int64_t start = days_ago(10);
    int64_t devices[] = {meter_make(host, m, "cg", 1000, days_ago(100)),
                         meter_make(host, m, "ch", 1000, days_ago(100))};
    int64_t group = certificate_group_make(m, "hourly", start, devices, 2);

    for (int i = 0; i < 2; i++) {
        const char *key = i ? "ch" : "cg";

        ck_status(meter_read(host, m, key, "Delta", start, start + HOUR_MS, 130000), 201);
        ask(m, 200, NULL, "PATCH /api/device/%s {'capacity':0.001}", key);
    }
    sql_run(db, "UPDATE device SET capacity = NULL WHERE external_id IN ('cg', 'ch')");
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 0);
    ck_assert_int_eq(sql_number(db, text("SELECT count(*) FROM certificate_account"
                                         " WHERE group_id = %jd AND over_wh = 130000",
                                         (intmax_t)group)),
                     2);
    ask(m, 200, NULL, "DELETE /api/device/cg");
    ask(m, 200, NULL, "DELETE " GROUPS "/%jd", group);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM certificate_account"
                                    " WHERE over_wh = 130000"),
                     0);
}

STAGE_SUITE(certificate_ceiling, set_up, 120)
