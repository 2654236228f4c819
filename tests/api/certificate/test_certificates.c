/*
 * Issuing: History and cycles, thresholds and carried energy, late readings, groups of devices,
 * external issuers.
 */
#include <stdlib.h>
#include <string.h>

#include "certificates.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    certificates_open("certificates");
}

TEST(a_history_reading_of_a_kilowatt_hour_makes_one_entry_and_a_smaller_one_none)
{
    struct person *m = certificate_person("cert.history");
    int64_t device = meter_make(host, m, "h1", 10, days_ago(100));
    struct answer *known = http(host, "GET", "/api/device/h1", m->token, NULL);

    ck_status(meter_read(host, m, "h1", "History", days_ago(50), days_ago(48), 1000), 201);
    ck_status(meter_read(host, m, "h1", "History", days_ago(48), days_ago(46), 999), 201);
    certificates_issue(db, host);
    certificates_issue(db, host);
    struct answer *log = log_of(m, "");
    const json_t *entry = item_of(log, NULL, 0);

    ck_assert_uint_eq(json_array_size(log->json), 1);
    ck_assert_str_eq(keys_of(entry), ENTRY_KEYS);
    ck_assert_str_eq(text_in(entry, "certificate_issuance_start"), time_text(days_ago(50)));
    ck_assert_str_eq(text_in(entry, "certificate_issuance_end"), time_text(days_ago(48)));
    ck_assert_int_eq(int_in(entry, "readvalue_watthour"), 1000);
    ck_assert_str_eq(text_in(entry, "status"), "Succeeded");
    ck_assert_str_eq(text_in(entry, "externalId"), answer_text(known, "uuid"));
    ck_assert_str_eq(text_in(entry, "developerId"), "h1");
    ck_assert_int_eq(int_in(entry, "deviceId"), device);
    ck_assert(json_is_null(json_object_get(entry, "groupId")));
    ck_assert(json_is_null(json_object_get(entry, "ongoing_start_date")));
    ck_assert(json_is_null(json_object_get(entry, "ongoing_end_date")));
    ck_assert(json_is_null(json_object_get(entry, "serialNumber")));
    ck_status(meter_read(host, m, "h1", "History", days_ago(60), days_ago(55), 5000), 201);
    certificates_issue(db, host);
    ck_assert_uint_eq(log_entries(m), 2);
}

TEST(readings_of_0_are_stored_and_issue_nothing)
{
    struct person *m = certificate_person("cert.night");
    int64_t start = days_ago(10), devices[] = {meter_make(host, m, "n1", 10, days_ago(100)),
                                               meter_make(host, m, "n2", 10, days_ago(100))};

    certificate_group_make(m, "daily", start, devices, 2);
    ck_status(meter_read(host, m, "n1", "Delta", start, start + DAY_MS, 2000), 201);
    ck_status(meter_read(host, m, "n2", "Delta", start, start + DAY_MS, 0), 201);
    ck_status(meter_read(host, m, "n2", "Delta", start + DAY_MS, start + 2 * DAY_MS, 0), 201);
    ck_status(meter_read(host, m, "n2", "History", days_ago(50), days_ago(48), 0), 201);
    certificates_issue(db, host);
    struct answer *log = log_of(m, "");

    ck_assert_uint_eq(json_array_size(log->json), 1);
    ck_assert_str_eq(text_in(item_of(log, NULL, 0), "developerId"), "n1");
}

TEST(whole_kilowatt_hours_are_issued_and_the_rest_is_carried_over_cycles_below_the_threshold)
{
    struct person *m = certificate_person("cert.carry");
    int64_t start = days_ago(10), device = meter_make(host, m, "c1", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", start, &device, 1);

    /* 600 (none), 1,200 (issues 1,000, carries 200), 800 (issues 1,000), 999 (none) */
    static const int wh[] = {600, 600, 800, 999};

    for (int i = 0; i < 4; i++)
        ck_status(
            meter_read(host, m, "c1", "Delta", start + i * DAY_MS, start + (i + 1) * DAY_MS, wh[i]),
            201);
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
    char uids[3][40] = {"", "", ""};

    ck_assert_uint_eq(json_array_size(log->json), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *entry = item_of(log, NULL, i);
        char *uid = uids[lines[i].certificate];

        if (!*uid)
            snprintf(uid, sizeof(*uids), "%s", text_in(entry, "certificateTransactionUID"));
        ck_assert_str_eq(text_in(entry, "certificateTransactionUID"), uid);
        ck_assert_int_eq(int_in(entry, "readvalue_watthour"), lines[i].wh);
        ck_assert_str_eq(text_in(entry, "status"), lines[i].status);
        ck_assert_int_eq(int_in(entry, "groupId"), group);
        ck_assert_str_eq(text_in(entry, "ongoing_start_date"),
                         time_text(start + lines[i].day * DAY_MS));
        ck_assert_str_eq(text_in(entry, "ongoing_end_date"),
                         time_text(start + (lines[i].day + 1) * DAY_MS));
    }
    ck_assert_uint_eq(json_array_size(log_of(m, "?status=Carried")->json), 1);
    ck_assert_uint_eq(json_array_size(log_of(m, "?maxWatthour=-1")->json), 1);
    ck_assert_uint_eq(json_array_size(log_of(m, "?minWatthour=-200&maxWatthour=200")->json), 2);
}

TEST(a_reading_that_comes_late_makes_a_further_entry_of_its_own_energy)
{
    struct person *m = certificate_person("cert.late");
    int64_t start = days_ago(10);
    int64_t devices[] = {meter_make(host, m, "l1", 10, days_ago(100)),
                         meter_make(host, m, "l2", 10, days_ago(100))};

    certificate_group_make(m, "daily", start, devices, 2);
    ck_status(meter_read(host, m, "l1", "Delta", start, start + DAY_MS, 3000), 201);
    certificates_issue(db, host);
    ck_assert_uint_eq(log_entries(m), 1);
    ck_status(meter_read(host, m, "l2", "Delta", start, start + HOUR_MS, 1100), 201);
    certificates_issue(db, host);
    ck_status(meter_read(host, m, "l2", "Delta", start + HOUR_MS, start + 2 * HOUR_MS, 2100), 201);
    certificates_issue(db, host);
    struct answer *log = log_of(m, text("?deviceId=%jd", (intmax_t)devices[1]));

    static const int wh[] = {-200, 200, 2100, -100, 100, 1100}; /* newest first */

    ck_assert_uint_eq(json_array_size(log->json), 6);
    for (size_t i = 0; i < 6; i++)
        ck_assert_int_eq(int_in(item_of(log, NULL, i), "readvalue_watthour"), wh[i]);
    certificates_expect_sums(db);
    ck_assert_str_eq(text_in(item_of(log, NULL, 0), "ongoing_end_date"), time_text(start + DAY_MS));
    ck_assert_int_eq(pages_of(m, "").issued, 6000);
}

TEST(a_cycle_has_what_ends_after_its_start_and_up_to_its_end_and_nothing_without_a_cycle)
{
    struct person *m = certificate_person("cert.window");
    int64_t start = days_ago(10), device = meter_make(host, m, "w1", 10, days_ago(100));

    ck_status(meter_series(host, m, "w1", "Delta", start - 2 * DAY_MS, DAY_MS, 6, 5000), 201);
    ask(m, 201, NULL,
        "POST " GROUPS
        " {'name':'Window','frequency':'daily','start':'%s','end':'%s','deviceIds':[%jd]}",
        time_text(start), time_text(start + 2 * DAY_MS), device);
    /* the group's end is now, so its cycle has not ended */
    certificates_issue(db, host);
    struct answer *log = log_of(m, "");

    ck_assert_uint_eq(json_array_size(log->json), 2);
    ck_assert_str_eq(text_in(item_of(log, NULL, 1), "ongoing_start_date"), time_text(start));
    ck_assert_str_eq(text_in(item_of(log, NULL, 1), "ongoing_end_date"), time_text(start + DAY_MS));
    ck_assert_str_eq(text_in(item_of(log, NULL, 0), "ongoing_end_date"),
                     time_text(start + 2 * DAY_MS));
}

TEST(a_device_is_in_one_group_of_its_own_organization)
{
    struct person *m = certificate_person("cert.groups"), *b = certificate_person("cert.groups.b");
    int64_t devices[] = {meter_make(host, m, "g1", 10, days_ago(100)),
                         meter_make(host, m, "g2", 10, days_ago(100)),
                         meter_make(host, b, "g3", 10, days_ago(100))};

    certificate_group_make(m, "weekly", days_ago(20), devices, 1);
    struct answer *twice =
        ck_error(certificate_group_try(m, "daily", days_ago(20), devices, 2), 409, "");

    ck_assert_str_eq(text_in(item_of(twice, "errors", 0), "field"), "deviceIds[0]");
    struct answer *foreign =
        ck_error(certificate_group_try(m, "daily", days_ago(20), devices + 1, 2), 400, "");

    ck_assert_str_eq(text_in(item_of(foreign, "errors", 0), "field"), "deviceIds[1]");
    int64_t same[] = {devices[1], devices[1]};

    ck_error(certificate_group_try(m, "daily", days_ago(20), same, 2), 400, "");
    ck_error(certificate_group_try(m, "biennial", days_ago(20), devices + 1, 1), 400, "");
    ck_error(certificate_group_try(admin, "daily", days_ago(20), devices, 1), 400, "");
    struct answer *elsewhere =
        http(host, "POST", text(GROUPS "?organizationId=%jd", (intmax_t)b->organization), m->token,
             json_pack("{ss ss ss s[I]}", "name", "Elsewhere", "frequency", "daily", "start",
                       time_text(days_ago(3)), "deviceIds", (json_int_t)devices[1]));

    ck_assert_int_eq(answer_int(ck_status(elsewhere, 201), "organizationId"), m->organization);
    answer_warns(elsewhere, "organizationId: ");
    ask(m, 400, NULL,
        "POST " GROUPS
        " {'name':'Back','frequency':'daily','start':'%s','end':'%s','deviceIds':[%jd]}",
        time_text(days_ago(3)), time_text(days_ago(3)), devices[1]);
    ck_assert_uint_eq(json_array_size(http(host, "GET", GROUPS, m->token, NULL)->json), 2);
    ck_assert_uint_eq(json_array_size(http(host, "GET", GROUPS, b->token, NULL)->json), 0);
}

static struct answer *group_of(const struct person *by, json_t *keys)
{
    return http(host, "POST", GROUPS, by->token,
                json_pack("{ss ss ss so}", "name", "Keys", "frequency", "daily", "start",
                          time_text(days_ago(3)), "deviceIds", keys));
}

TEST(devices_of_a_group_are_named_by_any_of_their_keys)
{
    struct person *m = certificate_person("cert.keys"), *b = certificate_person("cert.keys.b");
    int64_t devices[] = {
        meter_make(host, m, "K1", 10, days_ago(100)), meter_make(host, m, "k2", 10, days_ago(100)),
        meter_make(host, m, "k3", 10, days_ago(100)), meter_make(host, m, "k4", 10, days_ago(100))};
    /* an externalId that equals another device's id */
    int64_t named = meter_make(host, m, text("%jd", (intmax_t)devices[3]), 10, days_ago(100));
    const char *uuid = answer_text(http(host, "GET", "/api/device/k2", m->token, NULL), "uuid");
    char digits[24];

    meter_make(host, b, "k5", 10, days_ago(100));
    snprintf(digits, sizeof digits, "%jd", (intmax_t)devices[3]);
    struct answer *wrong =
        ck_error(group_of(m, json_pack("[s s b {} f]", "k1", "k5", 1, 1.5)), 400, "");

    ck_assert_uint_eq(json_array_size(json_object_get(wrong->json, "errors")), 3);
    ck_assert_str_eq(text_in(item_of(wrong, "errors", 0), "field"), "deviceIds[2]");
    wrong = ck_error(group_of(m, json_pack("[s s]", "k1", "k5")), 400, "");
    ck_assert_str_eq(text_in(item_of(wrong, "errors", 0), "field"), "deviceIds[1]");
    ck_error(group_of(m, json_pack("[s I]", "k1", (json_int_t)devices[0])), 400, "");
    struct answer *made =
        ck_status(group_of(m, json_pack("[s s I s I]", "k1", uuid, (json_int_t)devices[2], digits,
                                        (json_int_t)devices[3])),
                  201);
    json_t *wanted = json_pack("[I I I I I]", (json_int_t)devices[0], (json_int_t)devices[1],
                               (json_int_t)devices[2], (json_int_t)devices[3], (json_int_t)named);

    /* in the order of the ids, as GET has them */
    ck_assert(json_equal(json_object_get(made->json, "deviceIds"), wanted));
    json_decref(wanted);
}

TEST(a_group_is_read_and_renamed_by_its_organization)
{
    struct person *m = certificate_person("cert.rename"), *b = certificate_person("cert.rename.b");
    int64_t device = meter_make(host, m, "rn1", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(5), &device, 1);
    const char *path = text(GROUPS "/%jd", (intmax_t)group);
    struct answer *all = ask(m, 200, NULL, "GET " GROUPS);
    struct answer *one = ask(m, 200, NULL, "GET %s", path);

    ck_assert(json_equal(one->json, item_of(all, NULL, 0)));
    ask(b, 404, "Device group not found", "GET %s", path);
    ask(b, 404, NULL, "PATCH %s {'name':'Taken'}", path);
    struct answer *renamed =
        ask(m, 200, NULL, "PATCH %s {'name':'South \u2600','id':1,'frequency':'hourly'}", path);

    ck_assert_str_eq(answer_text(renamed, "name"), "South \u2600");
    json_object_set_new(one->json, "name", json_string("South \u2600"));
    ck_assert(json_equal(renamed->json, one->json)); /* nothing else has changed */
    one = ask(admin, 200, NULL, "GET %s", path);
    ck_assert(json_equal(one->json, renamed->json));
    ask(m, 400, NULL, "PATCH %s {'name':'  '}", path);
    ask(m, 400, NULL, "PATCH %s {}", path);
    ask(m, 400, NULL, "GET " GROUPS "/x");
    ask(m, 404, NULL, "PATCH " GROUPS "/9223372036854775807 {'name':'Nowhere'}");
}

/* Groups start at ends of months and on a leap day; tests every half day of six years. */
TEST(every_time_lies_in_exactly_one_cycle_whatever_its_frequency)
{
    static const char *const frequencies[] = {"hourly",  "daily",     "weekly",
                                              "monthly", "quarterly", "yearly"};
    static const char *const starts[] = {"2020-02-29", "2021-01-31", "2021-11-30", "2022-01-01"};

    for (int f = 0; f < 6; f++)
        for (int s = 0; s < 4; s++) {
            const char *at = text("FROM (VALUES ('%s', '%sT00:00:00Z'::timestamptz)) v (f, s),"
                                  " generate_series(s + interval '1 hour', s + interval '6 years',"
                                  " '%d hours') t, certificate_cycle(f, s, t) n",
                                  frequencies[f], starts[s], repetitions(53, 11));

            ck_assert_int_ge(sql_number(db, text("SELECT count(*) %s", at)),
                             repetitions(900, 4000));
            ck_assert_int_eq(
                sql_number(db,
                           text("SELECT count(*) %s WHERE n < 0 OR certificate_cycle_at(f, s, n)"
                                " >= t OR certificate_cycle_at(f, s, n + 1) < t"
                                " OR certificate_cycle(f, s, certificate_cycle_at(f, s, n + 1))"
                                " <> n",
                                at)),
                0);
        }
}

static int64_t utc_ms(const char *date)
{
    return sql_number(
        db, text("SELECT extract(epoch FROM '%sT00:00:00Z'::timestamptz)::bigint * 1000", date));
}

TEST(quarters_and_years_are_cycles_that_keep_the_end_of_the_month)
{
    static const struct {
        const char *frequency, *start, *end;
    } cycles[] = {
        {"quarterly", "2025-01-31", "2025-04-30"},
        {"yearly", "2024-02-29", "2025-02-28"},
    };
    struct person *m = certificate_person("cert.quarters");

    for (int i = 0; i < 2; i++) {
        const char *name = text("quarter%d", i);
        int64_t start = utc_ms(cycles[i].start), end = utc_ms(cycles[i].end);
        int64_t device = meter_make(host, m, name, 10, start - 100 * DAY_MS);
        int64_t group = certificate_group_make(m, cycles[i].frequency, start, &device, 1);

        ck_status(meter_read(host, m, name, "Delta", start - DAY_MS, start, 5000), 201);
        ck_status(meter_read(host, m, name, "Delta", start, start + DAY_MS, 1600), 201);
        ck_status(meter_read(host, m, name, "Delta", end - DAY_MS, end, 1700), 201);
        ck_status(meter_read(host, m, name, "Delta", end, end + DAY_MS, 2000), 201);
        certificates_issue(db, host);
        struct answer *log = log_of(m, text("?groupId=%jd", (intmax_t)group));
        const json_t *first = item_of(log, NULL, json_array_size(log->json) - 1);

        ck_assert_uint_eq(json_array_size(log->json), 6); /* each carries 300 forward */
        ck_assert_int_eq(int_in(first, "readvalue_watthour"), 3300);
        ck_assert_str_eq(text_in(first, "ongoing_start_date"), time_text(start));
        ck_assert_str_eq(text_in(first, "ongoing_end_date"), time_text(end));
        ck_assert_int_eq(certificate_group_carried(m, group), 300);
    }
}

TEST(an_external_issuer_moves_entries_and_final_states_stay)
{
    struct host *external =
        meter_host("certificates_ext",
                   "certificate:\n  issuer: external\n  issuers: [cert.registry@example.com]\n");
    PGconn *database = database_connect(the_postgres, "certificates_ext");
    struct person *boss = admin_of(external), *m = person_make(external, boss, "cert.ext", NULL);
    struct person *registry = person_with_role(external, boss, "cert.registry", "User");
    const char *words[] = {"certificate", "issue", NULL};

    meter_make(external, m, "e1", 10, days_ago(100));
    ck_status(meter_series(external, m, "e1", "History", days_ago(90), DAY_MS, 2, 2000), 201);
    ck_assert_int_eq(host_command(external, NULL, words), 0);
    struct answer *log = ask_on(external, m, 200, NULL, "GET " LOG);
    const json_t *entry = item_of(log, NULL, 0);
    const char *path = text(LOG "/%jd", (intmax_t)int_in(entry, "id"));

    ck_assert_str_eq(text_in(entry, "status"), "Requested");
    ask_on(external, m, 403, "Forbidden", "PATCH %s {'status':'Succeeded'}", path);
    ask_on(external, boss, 400, NULL, "PATCH %s {'status':'Requested'}", path);
    static const char *const moves[] = {"Failed", "Retry", "Retry", "Succeeded", "Succeeded"};

    for (int i = 0; i < 5; i++) {
        struct answer *moved = ask_on(external, i % 2 ? boss : registry, 200, NULL,
                                      "PATCH %s {'status':'%s'}", path, moves[i]);

        ck_assert_str_eq(answer_text(moved, "status"), moves[i]);
        ck_assert_str_eq(keys_of(moved->json), ENTRY_KEYS);
    }
    ask_on(external, boss, 409, "The entry is Succeeded", "PATCH %s {'status':'Failed'}", path);
    ask_on(external, boss, 404, NULL, "PATCH " LOG "/999999999 {'status':'Failed'}");
    ask(admin, 409, NULL, "PATCH " LOG "/1 {'status':'Failed'}");
    ask(admin, 404, NULL, "PATCH " LOG "/999999999 {'status':'Failed'}");
    PQfinish(database);
    host_stop(external);
}

static bool is_issued(void *group)
{
    return sql_number(db, text("SELECT count(*) FROM certificate WHERE group_id = %jd",
                               (intmax_t) * (const int64_t *)group)) == 1;
}

TEST(a_cycle_that_cannot_be_issued_holds_up_no_others)
{
    struct person *m = certificate_person("cert.stuck");
    int64_t start = days_ago(3), groups[2];
    const char *const issue[] = {"certificate", "issue", NULL};

    for (int i = 0; i < 2; i++) {
        const char *name = text("stuck%d", i);
        int64_t device = meter_make(host, m, name, 10, days_ago(100));

        groups[i] = certificate_group_make(m, "daily", start, &device, 1);
        if (!i)
            sql_run(db, text("ALTER TABLE certificate_account ADD CONSTRAINT stuck"
                             " CHECK (group_id <> %jd)",
                             (intmax_t)groups[i]));
        ck_status(meter_read(host, m, name, "Delta", start, start + DAY_MS, 2000), 201);
    }
    host_command(host, NULL, issue); /* or the host's job does it */
    ck_assert(wait_until(is_issued, &groups[1], 5000));
    ck_assert(!is_issued(&groups[0]));
    sql_run(db, "ALTER TABLE certificate_account DROP CONSTRAINT stuck");
    certificates_issue(db, host);
    ck_assert(is_issued(&groups[0]));
}

/* More failing cycles than a run tolerates, all before the cycle of another group. */
TEST(many_cycles_that_cannot_be_issued_hold_up_no_others)
{
    enum { STUCK = 25 };
    struct person *m = certificate_person("cert.many.stuck");
    const int64_t hour = DAY_MS / 24, start = days_ago(3);
    int64_t device = meter_make(host, m, "manystuck", 10, days_ago(100));
    int64_t other = meter_make(host, m, "notstuck", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "hourly", start, &device, 1);
    int64_t well = certificate_group_make(m, "daily", start, &other, 1);
    const char *const issue[] = {"certificate", "issue", NULL};

    sql_run(db, text("ALTER TABLE certificate_account ADD CONSTRAINT stuck"
                     " CHECK (group_id <> %jd)",
                     (intmax_t)group));
    for (int i = 0; i < STUCK; i++)
        ck_status(meter_read(host, m, "manystuck", "Delta", start + i * hour,
                             start + (i + 1) * hour, 2000),
                  201);
    ck_status(meter_read(host, m, "notstuck", "Delta", start, start + DAY_MS + hour, 2000), 201);
    host_command(host, NULL, issue);
    ck_assert(is_issued(&well));
    ck_assert_int_eq(sql_number(db, text("SELECT count(*) FROM certificate WHERE group_id = %jd",
                                         (intmax_t)group)),
                     0);
    sql_run(db, "ALTER TABLE certificate_account DROP CONSTRAINT stuck");
    certificates_issue(db, host);
    ck_assert_int_eq(sql_number(db, text("SELECT count(*) FROM certificate WHERE group_id = %jd",
                                         (intmax_t)group)),
                     STUCK);
}

static bool has_entry(void *device)
{
    return sql_number(db, text("SELECT count(*) FROM certificate_entry WHERE device = %jd",
                               (intmax_t) * (const int64_t *)device)) == 1;
}

/* More failing devices than a run tolerates, all before another device. */
TEST(devices_whose_history_cannot_be_issued_hold_up_no_others)
{
    enum { STUCK = 25 };
    struct person *m = certificate_person("cert.stuck.history");
    const char *const issue[] = {"certificate", "issue", NULL};
    int64_t devices[STUCK + 1];

    for (int i = 0; i <= STUCK; i++)
        devices[i] = meter_make(host, m, text("block%d", i), 10, days_ago(100));
    sql_run(db, text("ALTER TABLE certificate_entry ADD CONSTRAINT stuck"
                     " CHECK (device NOT BETWEEN %jd AND %jd)",
                     (intmax_t)devices[0], (intmax_t)devices[STUCK - 1]));
    for (int i = 0; i <= STUCK; i++)
        ck_status(
            meter_read(host, m, text("block%d", i), "History", days_ago(5), days_ago(4), 2000),
            201);
    host_command(host, NULL, issue); /* or the host's job does it */
    ck_assert(wait_until(has_entry, &devices[STUCK], 5000));
    for (int i = 0; i < STUCK; i++)
        ck_assert(!has_entry(&devices[i]));
    sql_run(db, "ALTER TABLE certificate_entry DROP CONSTRAINT stuck");
    certificates_issue(db, host);
    for (int i = 0; i < STUCK; i++)
        ck_assert(has_entry(&devices[i]));
}

STAGE_SUITE(certificates, set_up, 600)
