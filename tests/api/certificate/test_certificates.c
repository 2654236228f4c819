/*
 * Issuing: History and cycles, thresholds and carried energy, late readings, external issuers; and
 * no certificate exceeds the energy that its devices can have generated in its cycle.
 */
#include "certificates.h"
#include "talk.h"

#define CEILING_OF_AN_HOUR 273972 /* Wh of 1,000 kW in the first year */

TEST(a_history_reading_of_at_least_a_kilowatt_hour_makes_one_entry)
{
    struct person *m = certificate_person("cert.history");
    int64_t device = certificate_device(m, "h1");
    struct answer *known = ask(m, 200, NULL, "GET /api/device/h1");

    store(m, "h1", "History", days_ago(50), days_ago(48), 1000);
    store(m, "h1", "History", days_ago(48), days_ago(46), 999);
    certificates_issue(db, host);
    certificates_issue(db, host);
    const json_t *log = log_of(m, "")->json;

    expect_json(log, text("[{'certificate_issuance_start':'%s','certificate_issuance_end':'%s',"
                          "'readvalue_watthour':1000,'status':'Succeeded','externalId':'%s',"
                          "'developerId':'h1','deviceId':%jd,'groupId':null,'serialNumber':null,"
                          "'ongoing_start_date':null,'ongoing_end_date':null}]",
                          time_text(days_ago(50)), time_text(days_ago(48)),
                          answer_text(known, "uuid"), device));
    ck_assert_str_eq(keys_of(json_array_get(log, 0)), ENTRY_KEYS);
    store(m, "h1", "History", days_ago(60), days_ago(55), 5000);
    certificates_issue(db, host);
    ck_assert_uint_eq(log_count(m, ""), 2);
}

TEST(readings_of_zero_issue_no_certificate)
{
    struct person *m = certificate_person("cert.night");
    int64_t start = days_ago(10);
    int64_t devices[] = {certificate_device(m, "n1"), certificate_device(m, "n2")};

    certificate_group_make(m, "daily", start, devices, 2);
    store(m, "n1", "Delta", start, start + DAY_MS, 2000);
    store_series(m, "n2", "Delta", start, DAY_MS, 2, 0);
    store(m, "n2", "History", days_ago(50), days_ago(48), 0);
    certificates_issue(db, host);
    expect_json(log_of(m, "")->json, "[{'developerId':'n1'}]");
}

TEST(the_rest_below_a_kilowatt_hour_is_carried_to_the_next_cycle)
{
    struct person *m = certificate_person("cert.carry");
    int64_t start = days_ago(10), group = certificate_group_of(m, "c1", "daily", start, NULL);

    /* 600 (none), 1,200 (issues 1,000, carries 200), 800 (issues 1,000), 999 (none) */
    static const int wh[] = {600, 600, 800, 999};

    for (int i = 0; i < 4; i++)
        store(m, "c1", "Delta", start + i * DAY_MS, start + (i + 1) * DAY_MS, wh[i]);
    certificates_issue(db, host);
    /* simulates that all readings are new again */
    sql_run(db, "INSERT INTO certificate_look SELECT device, '-infinity', 'infinity'"
                " FROM certificate_member ON CONFLICT DO NOTHING");
    certificates_issue(db, host);
    struct sums sums = pages_of(m, "");

    ck_assert_int_eq(sums.issued, 2000);
    ck_assert_int_eq(sums.wh, 600 + 600 + 800 + 999);
    ck_assert_int_eq(certificate_group_carried(m, group), 999);
    certificates_expect_sums(db);

    /* newest first; energy that the second day carries is subtracted from its certificate and added
     * to the third's */
    static const struct {
        int day, wh, certificate;
        const char *status;
    } lines[] = {{3, 999, 0, "Carried"},   {2, 800, 2, "Succeeded"}, {1, -200, 1, "Succeeded"},
                 {1, 200, 2, "Succeeded"}, {1, 600, 1, "Succeeded"}, {0, 600, 1, "Succeeded"}};
    struct answer *log = log_of(m, "");
    const char *uids[3] = {NULL, NULL, NULL};

    ck_assert_uint_eq(json_array_size(log->json), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *entry = item_of(log, NULL, i);
        const char **uid = &uids[lines[i].certificate];

        *uid = *uid ? *uid : text_in(entry, "certificateTransactionUID");
        expect_json(entry, text("{'certificateTransactionUID':'%s','readvalue_watthour':%d,"
                                "'status':'%s','groupId':%jd,'ongoing_start_date':'%s',"
                                "'ongoing_end_date':'%s'}",
                                *uid, lines[i].wh, lines[i].status, group,
                                time_text(start + lines[i].day * DAY_MS),
                                time_text(start + (lines[i].day + 1) * DAY_MS)));
    }
    ck_assert_uint_eq(log_count(m, "?status=Carried"), 1);
    ck_assert_uint_eq(log_count(m, "?maxWatthour=-1"), 1);
    ck_assert_uint_eq(log_count(m, "?minWatthour=-200&maxWatthour=200"), 2);
}

TEST(a_late_reading_makes_a_further_entry_with_its_energy)
{
    struct person *m = certificate_person("cert.late");
    int64_t start = days_ago(10);
    int64_t devices[] = {certificate_device(m, "l1"), certificate_device(m, "l2")};

    certificate_group_make(m, "daily", start, devices, 2);
    store(m, "l1", "Delta", start, start + DAY_MS, 3000);
    certificates_issue(db, host);
    ck_assert_uint_eq(log_count(m, ""), 1);
    store(m, "l2", "Delta", start, start + HOUR_MS, 1100);
    certificates_issue(db, host);
    store(m, "l2", "Delta", start + HOUR_MS, start + 2 * HOUR_MS, 2100);
    certificates_issue(db, host);
    expect_json(log_of(m, text("?deviceId=%jd", devices[1]))->json, /* newest first */
                text("[{'readvalue_watthour':-200,'ongoing_end_date':'%s'},"
                     "{'readvalue_watthour':200},{'readvalue_watthour':2100},"
                     "{'readvalue_watthour':-100},{'readvalue_watthour':100},"
                     "{'readvalue_watthour':1100}]",
                     time_text(start + DAY_MS)));
    certificates_expect_sums(db);
    ck_assert_int_eq(pages_of(m, "").issued, 6000);
}

/* The group's end is the end of a cycle; energy after it belongs to no cycle. */
TEST(a_cycle_has_the_readings_that_end_within_it)
{
    struct person *m = certificate_person("cert.window");
    int64_t start = days_ago(10), device = certificate_device(m, "w1");

    store_series(m, "w1", "Delta", start - 2 * DAY_MS, DAY_MS, 6, 5000);
    ask(m, 201, NULL,
        "POST " GROUPS " {'name':'Window','frequency':'daily','start':'%s','end':'%s',"
        "'deviceIds':[%jd]}",
        time_text(start), time_text(start + 2 * DAY_MS), device);
    certificates_issue(db, host);
    expect_json(log_of(m, "")->json,
                text("[{'ongoing_end_date':'%s'},{'ongoing_start_date':'%s',"
                     "'ongoing_end_date':'%s'}]",
                     time_text(start + 2 * DAY_MS), time_text(start), time_text(start + DAY_MS)));
}

TEST(an_external_issuer_changes_entries_until_their_final_status)
{
    struct host *external =
        meter_host("certificates_ext",
                   "certificate:\n  issuer: external\n  issuers: [cert.registry@example.com]\n");
    struct person *boss = admin_of(external), *m = person_make(external, boss, "cert.ext", NULL);
    struct person *registry = person_with_role(external, boss, "cert.registry", "User");

    meter_make(external, m, "e1", 10, days_ago(100));
    ck_status(meter_series(external, m, "e1", "History", days_ago(90), DAY_MS, 2, 2000), 201);
    host_says(external, 0, "certificate", "issue");
    struct answer *log =
        ask_on(external, m, 200, "[{'status':'Requested'},{'status':'Requested'}]", "GET " LOG);
    const char *path = text("PATCH " LOG "/%jd", int_in(item_of(log, NULL, 0), "id"));
    const char *failed = "PATCH " LOG "/999999999 {'status':'Failed'}";

    exchanges(external, {text("%s {'status':'Succeeded'}", path), m, 403, "Forbidden"},
              {text("%s {'status':'Requested'}", path), boss, 400},
              {text("%s {'status':'Failed'}", path), registry, 200, "{'status':'Failed'}"},
              {text("%s {'status':'Retry'}", path), boss, 200, "{'status':'Retry'}"},
              {text("%s {'status':'Retry'}", path), registry, 200, "{'status':'Retry'}"},
              {text("%s {'status':'Succeeded'}", path), boss, 200, "{'status':'Succeeded'}"},
              {text("%s {'status':'Failed'}", path), boss, 409, "The entry is Succeeded"},
              {failed, boss, 404});
    struct answer *moved = ask_on(external, registry, 200, "{'status':'Succeeded'}",
                                  "%s {'status':'Succeeded'}", path);

    ck_assert_str_eq(keys_of(moved->json), ENTRY_KEYS);
    ask(admin, 409, NULL, "PATCH " LOG "/1 {'status':'Failed'}");
    ask(admin, 404, NULL, "%s", failed);
}

/* ---- failures ---- */

static void block(const char *table, const char *check)
{
    sql_run(db, text("ALTER TABLE %s ADD CONSTRAINT stuck CHECK (%s)", table, check));
}

static void unblock(const char *table)
{
    sql_run(db, text("ALTER TABLE %s DROP CONSTRAINT stuck", table));
    certificates_issue(db, host);
}

static int64_t certificates_of(int64_t group)
{
    return sql_number(db, text("SELECT count(*) FROM certificate WHERE group_id = %jd", group));
}

/* More failing cycles than a run tolerates, all before the cycle of another group. */
TEST(cycles_that_cannot_be_issued_delay_no_other_cycle)
{
    enum { STUCK = 25 };
    struct person *m = certificate_person("cert.many.stuck");
    const int64_t start = days_ago(3);
    int64_t group = certificate_group_of(m, "manystuck", "hourly", start, NULL);
    int64_t well = certificate_group_of(m, "notstuck", "daily", start, NULL);

    block("certificate_account", text("group_id <> %jd", group));
    for (int i = 0; i < STUCK; i++)
        store(m, "manystuck", "Delta", start + i * HOUR_MS, start + (i + 1) * HOUR_MS, 2000);
    store(m, "notstuck", "Delta", start, start + DAY_MS + HOUR_MS, 2000);
    certificates_try();
    WAIT_UNTIL(certificates_of(well) == 1, 5000); /* the host's own job may have begun the same */
    ck_assert_int_eq(certificates_of(group), 0);
    unblock("certificate_account");
    ck_assert_int_eq(certificates_of(group), STUCK);
}

static bool has_entry(int64_t device)
{
    return sql_number(
               db, text("SELECT count(*) FROM certificate_entry WHERE device = %jd", device)) == 1;
}

/* More failing devices than a run tolerates, all before another device. */
TEST(devices_whose_history_cannot_be_issued_delay_no_other_device)
{
    enum { STUCK = 25 };
    struct person *m = certificate_person("cert.stuck.history");
    int64_t devices[STUCK + 1];

    for (int i = 0; i <= STUCK; i++)
        devices[i] = certificate_device(m, text("block%d", i));
    block("certificate_entry",
          text("device NOT BETWEEN %jd AND %jd", devices[0], devices[STUCK - 1]));
    for (int i = 0; i <= STUCK; i++)
        store(m, text("block%d", i), "History", days_ago(5), days_ago(4), 2000);
    certificates_try();
    WAIT_UNTIL(has_entry(devices[STUCK]), 5000);
    for (int i = 0; i < STUCK; i++)
        ck_assert(!has_entry(devices[i]));
    unblock("certificate_entry");
    for (int i = 0; i < STUCK; i++)
        ck_assert(has_entry(devices[i]));
}

/* ---- ceilings ---- */

static void rate(const struct person *by, const char *key, double kw)
{
    ask(by, 200, NULL, "PATCH /api/device/%s {'capacity':%g}", key, kw);
}

TEST(a_reading_that_begins_before_its_group_is_not_certified)
{
    struct person *m = certificate_person("ceiling.before");
    int64_t start = days_ago(10), device = meter_make(host, m, "cb", 100, days_ago(500));
    int64_t group = certificate_group_make(m, "hourly", start, &device, 1);
    int64_t year = store(m, "cb", "Delta", start - 364 * DAY_MS, start + HOUR_MS, 180000000);

    store(m, "cb", "Delta", start + HOUR_MS, start + 2 * HOUR_MS, 5000);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 5000);
    /* voiding energy that no certificate has used needs no Admin */
    ask(m, 200, NULL, "DELETE /api/meter-reads/new/cb/%jd {'reason':'not certified'}", year);
    store(m, "cb", "History", start - 364 * DAY_MS, start + HOUR_MS, 180000000);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 5000);
    ck_assert_uint_eq(log_count(m, "?minWatthour=180000000"), 1);
    certificates_expect_sums(db);
}

TEST(a_reading_that_begins_before_its_device_joined_is_not_certified)
{
    struct person *m = certificate_person("ceiling.joined");
    int64_t start = days_ago(20), device = meter_make(host, m, "ck", 1000, days_ago(100));
    int64_t group = certificate_group_of(m, "cj", "weekly", start, NULL);

    ask(m, 200, NULL, "POST " GROUPS "/%jd/devices {'deviceIds':[%jd]}", group, device);
    sql_run(db,
            text("UPDATE certificate_member SET since_at = reading_time(%jd) WHERE device = %jd",
                 start + 7 * DAY_MS, device));
    store(m, "ck", "Delta", start + 6 * DAY_MS, start + 8 * DAY_MS, 1000000);
    store(m, "ck", "Delta", start + 8 * DAY_MS, start + 9 * DAY_MS, 7000);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 7000);
}

TEST(a_certified_reading_may_last_a_cycle_and_an_hour)
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
        if (i < 5) {
            store(m, key, "Delta", start, start + length, 3000);
            store(m, key, "Delta", start + length, start + 2 * length + 1, 50000);
        } else {
            store(m, key, "Delta", start + length, start + length + 366 * DAY_MS, 3000);
        }
    }
    certificates_issue(db, host);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(certificates_issued(groups[i]), 3000);
    certificates_expect_sums(db);
}

TEST(energy_above_the_ceiling_is_issued_after_the_capacity_is_corrected)
{
    struct person *m = certificate_person("ceiling.rate");
    int64_t start = days_ago(10), device = meter_make(host, m, "cr", 1000, days_ago(100));
    int64_t group = certificate_group_make(m, "hourly", start, &device, 1);

    store(m, "cr", "Delta", start, start + HOUR_MS / 2, 130000);
    int64_t id = store(m, "cr", "Delta", start + HOUR_MS / 2, start + HOUR_MS, 130000);

    rate(m, "cr", 100);
    for (int i = 0; i < 2; i++) {
        certificates_issue(db, host);
        ck_assert_int_eq(certificates_issued(group), CEILING_OF_AN_HOUR / 10 / 1000 * 1000);
    }
    /* the certified part must not be certified again as History */
    ask(m, 403, "Forbidden", "DELETE /api/meter-reads/new/cr/%jd {'reason':'certified'}", id);
    rate(m, "cr", 1000);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 260000);
    /* certified energy stays certified */
    rate(m, "cr", 1);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 260000);
    certificates_expect_sums(db);
}

/* By then the job has read the device, and has not committed its account. */
TEST(a_capacity_corrected_while_its_cycle_is_issued_counts)
{
    struct person *m = certificate_person("ceiling.race");
    int64_t start = days_ago(10), device = meter_make(host, m, "cw", 1000, days_ago(100));
    int64_t group = certificate_group_make(m, "hourly", start, &device, 1);
    int status;

    store(m, "cw", "Delta", start, start + HOUR_MS, 260000);
    rate(m, "cw", 100);
    sql_trigger(
        db,
        text("BEFORE INSERT ON certificate_account FOR EACH ROW WHEN (NEW.device = %jd)", device),
        SQL_GATE);
    sql_run(db, SQL_GATE_SHUT);
    pid_t run = meter_issue_start(host);

    sql_soon(db, SQL_GATE_WAITS);
    rate(m, "cw", 1000);
    sql_run(db, SQL_GATE_OPEN);
    ck_assert(process_wait(run, 200000, &status));
    sql_run(db, SQL_TRIGGER_DROP);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 260000);
    certificates_expect_sums(db);
}

TEST(a_device_and_group_with_only_energy_above_the_ceiling_can_be_deleted)
{
    struct person *m = certificate_person("ceiling.gone");
    static const char *const keys[] = {"cg", "ch"};
    int64_t start = days_ago(10), devices[2];

    for (int i = 0; i < 2; i++)
        devices[i] = meter_make(host, m, keys[i], 1000, days_ago(100));
    int64_t group = certificate_group_make(m, "hourly", start, devices, 2);
    const char *over = text("SELECT count(*) FROM certificate_account WHERE group_id = %jd"
                            " AND over_wh = 130000",
                            group);

    for (int i = 0; i < 2; i++) {
        store(m, keys[i], "Delta", start, start + HOUR_MS, 130000);
        rate(m, keys[i], 0.001);
    }
    sql_run(db, "UPDATE device SET capacity = NULL WHERE external_id IN ('cg', 'ch')");
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 0);
    ck_assert_int_eq(sql_number(db, over), 2);
    ask(m, 200, NULL, "DELETE /api/device/cg");
    ask(m, 200, NULL, "DELETE " GROUPS "/%jd", group);
    ck_assert_int_eq(sql_number(db, over), 0);
}

OPENED_SUITE(certificates, certificates_open, 600)
