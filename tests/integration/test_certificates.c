/*
 * The certificate log: History and cycles, thresholds and what is carried, late readings, who sees
 * what, pages, CSV, external issuers; and that neither running the jobs again nor killing them
 * changes what comes out.
 *
 * A month of hourly readings is posted for BUSBAR_TEST_DEVICES devices (default 9; the aim is
 * 1,000).
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "meter.h"
#include "suites.h"
#include "talk.h"

#define LOG "/api/certificate-log"
#define PAGES LOG "/issuer/certifiedlogOfdevices"
#define GROUPS "/api/device-group"
#define ENTRY_KEYS                                                                                 \
    "id certificate_issuance_start certificate_issuance_end readvalue_watthour status externalId " \
    "developerId serialNumber deviceId groupId certificateTransactionUID timezone "                \
    "ongoing_start_date ongoing_end_date"

static struct host *host;
static struct person *admin;
static PGconn *db;

static void set_up(void)
{
    host = meter_host("certificates", NULL);
    admin = admin_of(host);
}

static void tear_down(void)
{
    host_stop(host);
}

static void connect_db(void)
{
    db = database_connect(the_postgres, "certificates");
}

static void disconnect_db(void)
{
    PQfinish(db);
}

/* An organisation for each test, so that they do not meet. */
static struct person *person(const char *name)
{
    return person_make(host, admin, name, NULL);
}

static bool all_issued(void *arg)
{
    return sql_number(arg, "SELECT (SELECT count(*) FROM reading_device"
                           " WHERE fresh_from IS NOT NULL)"
                           " + (SELECT count(*) FROM certificate_look)"
                           " + (SELECT count(*) FROM certificate_due WHERE cycle_end <= now())"
                           " + (SELECT count(*) FROM certificate WHERE NOT settled)") == 0;
}

/* The host's own job may be at work too; who does it is all the same. */
static void issue(PGconn *database, struct host *by)
{
    const char *words[] = {"certificate", "issue", NULL};

    host_command(by, NULL, words);
    ck_assert_msg(wait_until(all_issued, database, 30000), "not all was issued in 30 s");
}

static struct answer *group_try(const struct person *by, const char *frequency, int64_t start,
                                const int64_t *devices, int count)
{
    json_t *ids = json_array();

    for (int i = 0; i < count; i++)
        json_array_append_new(ids, json_integer(devices[i]));
    return http(host, "POST", GROUPS, by->token,
                json_pack("{ss ss ss so}", "name", "Group", "frequency", frequency, "start",
                          time_text(start), "deviceIds", ids));
}

static int64_t group_make(const struct person *by, const char *frequency, int64_t start,
                          const int64_t *devices, int count)
{
    return answer_int(ck_status(group_try(by, frequency, start, devices, count), 201), "id");
}

static int64_t carried(const struct person *by, int64_t group)
{
    struct answer *groups = ck_status(http(host, "GET", GROUPS, by->token, NULL), 200);
    size_t i;
    const json_t *found;

    json_array_foreach(groups->json, i, found)
    {
        if (int_in(found, "id") == group)
            return int_in(found, "carriedWatthour");
    }
    ck_abort_msg("group not listed");
    return 0;
}

static struct answer *log_of(const struct person *by, const char *query)
{
    return ck_status(http(host, "GET", text(LOG "%s", query), by->token, NULL), 200);
}

static size_t entries_of(const struct person *by)
{
    return json_array_size(log_of(by, "?limit=1000")->json);
}

/* What the numbered pages add up to. */
struct sums {
    int64_t entries, pages, wh, issued, total_count, total_pages;
};

static void add_page(const struct answer *page, struct sums *sums, char *last)
{
    const json_t *list = json_object_get(page->json, "certificatelog"), *head, *entry;
    size_t i, j;

    json_array_foreach(list, i, head)
    {
        const json_t *entries = json_object_get(head, "perDeviceCertificateLog");

        if (strcmp(last, text_in(head, "certificateTransactionUID")) != 0)
            sums->issued += int_in(head, "issued_watthour");
        snprintf(last, 64, "%s", text_in(head, "certificateTransactionUID"));
        json_array_foreach(entries, j, entry)
        {
            ck_assert_str_eq(keys_of(entry), ENTRY_KEYS);
            ck_assert_str_eq(text_in(entry, "certificateTransactionUID"), last);
            sums->wh += int_in(entry, "readvalue_watthour");
            sums->entries++;
        }
    }
    sums->total_count = answer_int(page, "totalCount");
    sums->total_pages = answer_int(page, "totalPages");
}

static struct sums pages_of(const struct person *by, const char *query)
{
    struct sums sums = {.total_pages = 1};
    char last[64] = "";

    while (sums.pages < sums.total_pages) {
        const char *path = text(PAGES "?pageNumber=%jd%s", (intmax_t)++sums.pages, query);

        add_page(ck_status(http(host, "GET", path, by->token, NULL), 200), &sums, last);
    }
    ck_assert_int_eq(sums.entries, sums.total_count);
    return sums;
}

START_TEST(a_history_reading_of_a_kilowatt_hour_makes_one_entry_and_a_smaller_one_none)
{
    struct person *m = person("cert.history");
    int64_t device = meter_make(host, m, "h1", 10, days_ago(100));
    struct answer *known = http(host, "GET", "/api/device/h1", m->token, NULL);

    ck_status(meter_read(host, m, "h1", "History", days_ago(50), days_ago(48), 1000), 201);
    ck_status(meter_read(host, m, "h1", "History", days_ago(48), days_ago(46), 999), 201);
    issue(db, host);
    issue(db, host);
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
    issue(db, host);
    ck_assert_uint_eq(entries_of(m), 2);
}

START_TEST(whole_kilowatt_hours_are_issued_and_the_rest_is_carried_over_cycles_below_the_threshold)
{
    struct person *m = person("cert.carry");
    int64_t start = days_ago(10), device = meter_make(host, m, "c1", 10, days_ago(100));
    int64_t group = group_make(m, "daily", start, &device, 1);

    /* 600 (none), 1,200 (issues 1,000, carries 200), 800 (issues 1,000), 999 (none) */
    static const int wh[] = {600, 600, 800, 999};

    for (int i = 0; i < 4; i++)
        ck_status(
            meter_read(host, m, "c1", "Delta", start + i * DAY_MS, start + (i + 1) * DAY_MS, wh[i]),
            201);
    issue(db, host);
    struct sums sums = pages_of(m, "");

    ck_assert_int_eq(sums.issued, 2000);
    ck_assert_int_eq(sums.entries, 2);
    ck_assert_int_eq(sums.wh, 600 + 800);
    ck_assert_int_eq(carried(m, group), 999);
    const json_t *entry = item_of(log_of(m, ""), NULL, 0);

    ck_assert_int_eq(int_in(entry, "groupId"), group);
    ck_assert_str_eq(text_in(entry, "ongoing_start_date"), time_text(start + 2 * DAY_MS));
    ck_assert_str_eq(text_in(entry, "ongoing_end_date"), time_text(start + 3 * DAY_MS));
}

START_TEST(a_reading_that_comes_late_makes_a_further_entry_of_its_own_energy)
{
    struct person *m = person("cert.late");
    int64_t start = days_ago(10);
    int64_t devices[] = {meter_make(host, m, "l1", 10, days_ago(100)),
                         meter_make(host, m, "l2", 10, days_ago(100))};

    group_make(m, "daily", start, devices, 2);
    ck_status(meter_read(host, m, "l1", "Delta", start, start + DAY_MS, 3000), 201);
    issue(db, host);
    ck_assert_uint_eq(entries_of(m), 1);
    ck_status(meter_read(host, m, "l2", "Delta", start, start + HOUR_MS, 1100), 201);
    issue(db, host);
    ck_status(meter_read(host, m, "l2", "Delta", start + HOUR_MS, start + 2 * HOUR_MS, 2100), 201);
    issue(db, host);
    struct answer *log = log_of(m, text("?deviceId=%jd", (intmax_t)devices[1]));

    ck_assert_uint_eq(json_array_size(log->json), 2);
    ck_assert_int_eq(int_in(item_of(log, NULL, 0), "readvalue_watthour"), 2100);
    ck_assert_int_eq(int_in(item_of(log, NULL, 1), "readvalue_watthour"), 1100);
    ck_assert_str_eq(text_in(item_of(log, NULL, 0), "ongoing_end_date"), time_text(start + DAY_MS));
    ck_assert_int_eq(pages_of(m, "").issued, 6000);
}

START_TEST(a_cycle_has_what_ends_after_its_start_and_up_to_its_end_and_nothing_without_a_cycle)
{
    struct person *m = person("cert.window");
    int64_t start = days_ago(10), device = meter_make(host, m, "w1", 10, days_ago(100));

    ck_status(meter_series(host, m, "w1", "Delta", start - 2 * DAY_MS, DAY_MS, 6, 5000), 201);
    ck_status(http(host, "POST", GROUPS, m->token,
                   json_pack("{ss ss ss ss s[I]}", "name", "Window", "frequency", "daily", "start",
                             time_text(start), "end", time_text(start + 2 * DAY_MS), "deviceIds",
                             (json_int_t)device)),
              201);
    /* ends now: its cycle has not ended */
    issue(db, host);
    struct answer *log = log_of(m, "");

    ck_assert_uint_eq(json_array_size(log->json), 2);
    ck_assert_str_eq(text_in(item_of(log, NULL, 1), "ongoing_start_date"), time_text(start));
    ck_assert_str_eq(text_in(item_of(log, NULL, 1), "ongoing_end_date"), time_text(start + DAY_MS));
    ck_assert_str_eq(text_in(item_of(log, NULL, 0), "ongoing_end_date"),
                     time_text(start + 2 * DAY_MS));
}

START_TEST(a_device_is_in_one_group_of_its_own_organisation)
{
    struct person *m = person("cert.groups"), *b = person("cert.groups.b");
    int64_t devices[] = {meter_make(host, m, "g1", 10, days_ago(100)),
                         meter_make(host, m, "g2", 10, days_ago(100)),
                         meter_make(host, b, "g3", 10, days_ago(100))};

    group_make(m, "weekly", days_ago(20), devices, 1);
    struct answer *twice = ck_error(group_try(m, "daily", days_ago(20), devices, 2), 409, "");

    ck_assert_str_eq(text_in(item_of(twice, "errors", 0), "field"), "deviceIds[0]");
    struct answer *foreign = ck_error(group_try(m, "daily", days_ago(20), devices + 1, 2), 400, "");

    ck_assert_str_eq(text_in(item_of(foreign, "errors", 0), "field"), "deviceIds[1]");
    int64_t same[] = {devices[1], devices[1]};

    ck_error(group_try(m, "daily", days_ago(20), same, 2), 400, "");
    ck_error(group_try(m, "yearly", days_ago(20), devices + 1, 1), 400, "");
    ck_error(group_try(admin, "daily", days_ago(20), devices, 1), 400, "");
    ck_error(http(host, "POST", GROUPS, m->token,
                  json_pack("{ss ss ss ss s[I]}", "name", "Back", "frequency", "daily", "start",
                            time_text(days_ago(3)), "end", time_text(days_ago(3)), "deviceIds",
                            (json_int_t)devices[1])),
             400, "");
    ck_assert_uint_eq(json_array_size(http(host, "GET", GROUPS, m->token, NULL)->json), 1);
    ck_assert_uint_eq(json_array_size(http(host, "GET", GROUPS, b->token, NULL)->json), 0);
}

START_TEST(each_sees_the_log_of_its_organisations)
{
    struct person *m = person("cert.scope"), *b = person("cert.scope.b");

    meter_make(host, m, "s1", 10, days_ago(100));
    ck_status(meter_read(host, m, "s1", "History", days_ago(50), days_ago(48), 2000), 201);
    issue(db, host);
    ck_assert_uint_eq(entries_of(m), 1);
    ck_assert_uint_eq(entries_of(b), 0);
    ck_assert_int_eq(pages_of(b, "").total_count, 0);
    ck_assert_uint_ge(entries_of(admin), 1);
    const char *asked = text("?organizationId=%jd", (intmax_t)m->organisation);

    ck_assert_uint_eq(json_array_size(log_of(admin, asked)->json), 1);
    ck_error(http(host, "GET", text(LOG "%s", asked), b->token, NULL), 403, "");
    ck_error(http(host, "GET", text(PAGES "%s", asked), b->token, NULL), 403, "");
    ck_error(http(host, "GET", text(LOG "/export.csv%s", asked), b->token, NULL), 403, "");
}

/* ---- a month ---- */

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

/* Devices in turns in the three groups, with their readings; what each group measured. The first
 * group is made after the readings, the others before. */
static struct month month_make(const char *name, int devices)
{
    struct month month = {.by = person(name), .start = days_ago(70), .devices = devices};
    int64_t *ids[GROUP_COUNT];
    int counts[GROUP_COUNT] = {0};

    for (int g = 0; g < GROUP_COUNT; g++)
        ids[g] = kept(calloc((size_t)devices, sizeof(int64_t)));
    for (int i = 0; i < devices; i++)
        ids[i % 3][counts[i % 3]++] =
            meter_make(host, month.by, text("%s-%d", name, i), 10, days_ago(100));
    for (int g = 1; g < GROUP_COUNT; g++)
        month.group[g] = group_make(month.by, frequencies[g], month.start, ids[g], counts[g]);
    for (int i = 0; i < devices; i++) {
        post_month(month.by, text("%s-%d", name, i), i, month.start);
        for (int hour = 0; hour < HOURS; hour++)
            month.sum[i % 3] += hour_wh(i, hour);
    }
    month.group[0] = group_make(month.by, frequencies[0], month.start, ids[0], counts[0]);
    return month;
}

/* All cycles have ended long ago. The log adds up to the floor of the readings, and the groups
 * carry the rest. */
static void expect_month(PGconn *database, const struct month *month)
{
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

START_TEST(a_month_of_hourly_readings_adds_up_and_running_again_adds_nothing)
{
    struct month month = month_make("cert-month", device_count());

    issue(db, host);
    expect_month(db, &month);
    struct sums sums = pages_of(month.by, "");

    ck_assert_int_eq(sums.issued, month.sum[0] / 1000 * 1000 + month.sum[1] / 1000 * 1000 +
                                      month.sum[2] / 1000 * 1000);
    ck_assert_int_eq(sums.wh, month.sum[0] + month.sum[1] + month.sum[2]);
    for (int g = 0; g < GROUP_COUNT; g++)
        ck_assert_int_eq(carried(month.by, month.group[g]), month.sum[g] % 1000);
    issue(db, host);
    /* as if all were fresh again */
    PQclear(PQexec(db, "INSERT INTO certificate_look SELECT device, '-infinity', 'infinity'"
                       " FROM certificate_member ON CONFLICT DO NOTHING"));
    issue(db, host);
    struct sums again = pages_of(month.by, "");

    ck_assert_int_eq(again.entries, sums.entries);
    ck_assert_int_eq(again.issued, sums.issued);
    expect_month(db, &month);
}

/* A run of the job in a process of its own, killed after so many ms. */
static void run_killed(int ms)
{
    const char *argv[] = {harness_program(false), "-c", host->conf, "certificate", "issue", NULL};
    int status;
    pid_t pid = process_start(
        &(struct process_spec){.argv = argv, .environment = host->environment, .log = host->log});

    process_wait(pid, ms, &status);
    process_stop(pid, SIGKILL, 5000);
}

START_TEST(a_job_killed_at_any_moment_loses_nothing_and_issues_nothing_twice)
{
    host = meter_host("certificates_kill", NULL); /* of this test's process */
    admin = admin_of(host);
    PQfinish(db);
    db = database_connect(the_postgres, "certificates_kill");
    struct month month = month_make("cert-kill", 6);

    meter_make(host, month.by, "cert-kill-h", 10, days_ago(400));
    ck_status(
        meter_series(host, month.by, "cert-kill-h", "History", days_ago(390), DAY_MS, 300, 1500),
        201);
    host_kill(host);
    for (int i = 0; i < 12; i++)
        run_killed(150 + i * 37);
    ck_assert(host_run(host));
    issue(db, host);
    expect_month(db, &month);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM certificate_entry e"
                                    " JOIN device d ON d.id = e.device"
                                    " WHERE d.external_id = 'cert-kill-h'"),
                     300);
    struct sums sums = pages_of(month.by, "");

    ck_assert_int_eq(sums.wh, month.sum[0] + month.sum[1] + month.sum[2] + 300 * 1500);
    host_stop(host);
}

/* ---- reading the log ---- */

START_TEST(numbered_pages_count_all_entries_and_days_narrow_them)
{
    struct person *m = person("cert.pages");

    meter_make(host, m, "p1", 10, days_ago(100));
    ck_status(meter_series(host, m, "p1", "History", days_ago(90), DAY_MS / 2, 90, 2000), 201);
    issue(db, host);
    struct sums all = pages_of(m, "");

    ck_assert_int_eq(all.total_count, 90);
    ck_assert_int_eq(all.total_pages, 5);
    struct sums some = pages_of(
        m, text("&start_date=%s&end_date=%s", date_text(days_ago(80)), date_text(days_ago(78))));

    ck_assert_int_eq(some.total_count, 6);
    ck_assert_int_eq(pages_of(m, text("&start_date=%s", date_text(days_ago(10)))).total_count, 0);
    struct answer *third = ck_status(http(host, "GET", PAGES "?pageNumber=3", m->token, NULL), 200);
    const json_t *head = item_of(third, "certificatelog", 0);

    ck_assert_str_eq(keys_of(third->json), "certificatelog currentPage totalPages totalCount");
    ck_assert_int_eq(answer_int(third, "currentPage"), 3);
    ck_assert_str_eq(text_in(head, "certificate_issuance_start"),
                     time_text(days_ago(90) + 49 * DAY_MS / 2));
    struct answer *beyond = http(host, "GET", PAGES "?pageNumber=6", m->token, NULL);

    ck_assert_uint_eq(
        json_array_size(json_object_get(ck_status(beyond, 200)->json, "certificatelog")), 0);
    ck_assert_int_eq(answer_int(beyond, "totalCount"), 90);
    ck_error(http(host, "GET", PAGES "?pageNumber=0", m->token, NULL), 400, "");
}

START_TEST(the_log_is_filtered_and_paged_by_cursor)
{
    struct person *m = person("cert.log");
    int64_t device = meter_make(host, m, "f1", 10, days_ago(100));
    size_t seen = 0;

    ck_status(meter_series(host, m, "f1", "History", days_ago(90), DAY_MS, 25, 2000), 201);
    issue(db, host);
    struct answer *page = log_of(m, "?limit=10");

    for (;;) {
        seen += json_array_size(page->json);
        const char *next = next_page(page);

        if (!next)
            break;
        page = ck_status(http(host, "GET", next, m->token, NULL), 200);
    }
    ck_assert_uint_eq(seen, 25);
    ck_assert_uint_eq(json_array_size(log_of(m, text("?start=%s&end=%s", time_text(days_ago(90)),
                                                     time_text(days_ago(88))))
                                          ->json),
                      2);
    ck_assert_uint_eq(json_array_size(log_of(m, "?status=Failed")->json), 0);
    ck_assert_uint_eq(json_array_size(log_of(m, "?status=Succeeded&limit=5")->json), 5);
    ck_assert_uint_eq(json_array_size(log_of(m, text("?deviceId=%jd", (intmax_t)device))->json),
                      25);
    ck_assert_uint_eq(json_array_size(log_of(m, "?groupId=999999999")->json), 0);
    ck_error(http(host, "GET", LOG "?after=1", m->token, NULL), 400, "");
    ck_error(http(host, "GET", LOG "?status=Done", m->token, NULL), 400, "");
}

/* C02 */
START_TEST(the_export_has_every_entry_and_no_cell_that_a_spreadsheet_would_run)
{
    struct person *m = person("cert.csv");
    static const char *const names[] = {"=cmd|' /C calc'!A0", "+1,5", "-2", "@SUM(A1)",
                                        "say \"hi\", all"};
    int lines = 0;

    for (int i = 0; i < 5; i++) {
        meter_make(host, m, names[i], 10, days_ago(800));
        ck_status(meter_series(host, m, names[i], "History", days_ago(790), DAY_MS, 500, 2000),
                  201);
    }
    issue(db, host);
    struct answer *csv = ck_status(http(host, "GET", LOG "/export.csv", m->token, NULL), 200);

    ck_assert_str_eq(answer_header(csv, "Content-Type"), "text/csv; charset=utf-8");
    ck_assert_str_eq(answer_header(csv, "Content-Disposition"),
                     "attachment; filename=\"certificate-log.csv\"");
    for (const char *at = csv->body; (at = strstr(at, "\r\n")); at += 2)
        lines++;
    ck_assert_int_eq(lines, 1 + 5 * 500);
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"'=cmd|' /C calc'!A0\","));
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"'+1,5\","));
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"'-2\","));
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"'@SUM(A1)\","));
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"say \"\"hi\"\", all\","));
    for (const char *c = "=+-@"; *c; c++) {
        ck_assert_ptr_null(strstr(csv->body, text(",%c", *c)));
        ck_assert_ptr_null(strstr(csv->body, text("\"%c", *c)));
    }
    struct answer *one = ck_status(http(host, "GET",
                                        text(LOG "/export.csv?start=%s&end=%s",
                                             time_text(days_ago(790)), time_text(days_ago(789))),
                                        m->token, NULL),
                                   200);

    lines = 0;
    for (const char *at = one->body; (at = strstr(at, "\r\n")); at += 2)
        lines++;
    ck_assert_int_eq(lines, 1 + 5);
}

START_TEST(an_external_issuer_moves_entries_and_final_states_stay)
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
    struct answer *log = ck_status(http(external, "GET", LOG, m->token, NULL), 200);
    const json_t *entry = item_of(log, NULL, 0);
    const char *path = text(LOG "/%jd", (intmax_t)int_in(entry, "id"));

    ck_assert_str_eq(text_in(entry, "status"), "Requested");
    ck_error(http(external, "PATCH", path, m->token, json_pack("{ss}", "status", "Succeeded")), 403,
             "Forbidden");
    ck_error(http(external, "PATCH", path, boss->token, json_pack("{ss}", "status", "Requested")),
             400, "");
    static const char *const moves[] = {"Failed", "Retry", "Retry", "Succeeded", "Succeeded"};

    for (int i = 0; i < 5; i++) {
        struct answer *moved =
            ck_status(http(external, "PATCH", path, i % 2 ? boss->token : registry->token,
                           json_pack("{ss}", "status", moves[i])),
                      200);

        ck_assert_str_eq(answer_text(moved, "status"), moves[i]);
        ck_assert_str_eq(keys_of(moved->json), ENTRY_KEYS);
    }
    ck_error(http(external, "PATCH", path, boss->token, json_pack("{ss}", "status", "Failed")), 409,
             "The entry is Succeeded");
    ck_error(http(external, "PATCH", LOG "/999999999", boss->token,
                  json_pack("{ss}", "status", "Failed")),
             404, "");
    ck_error(http(host, "PATCH", LOG "/1", admin->token, json_pack("{ss}", "status", "Failed")),
             409, "");
    PQfinish(database);
    host_stop(external);
}

Suite *certificates_suite(void)
{
    const TTest *const tests[] = {
        a_history_reading_of_a_kilowatt_hour_makes_one_entry_and_a_smaller_one_none,
        whole_kilowatt_hours_are_issued_and_the_rest_is_carried_over_cycles_below_the_threshold,
        a_reading_that_comes_late_makes_a_further_entry_of_its_own_energy,
        a_cycle_has_what_ends_after_its_start_and_up_to_its_end_and_nothing_without_a_cycle,
        a_device_is_in_one_group_of_its_own_organisation,
        each_sees_the_log_of_its_organisations,
        a_month_of_hourly_readings_adds_up_and_running_again_adds_nothing,
        numbered_pages_count_all_entries_and_days_narrow_them,
        the_log_is_filtered_and_paged_by_cursor,
        the_export_has_every_entry_and_no_cell_that_a_spreadsheet_would_run,
        an_external_issuer_moves_entries_and_final_states_stay,
        a_job_killed_at_any_moment_loses_nothing_and_issues_nothing_twice,
    };
    Suite *suite = suite_create("certificates");
    TCase *cases = tcase_create("certificates");

    tcase_add_unchecked_fixture(cases, set_up, tear_down);
    tcase_add_checked_fixture(cases, connect_db, disconnect_db);
    tcase_set_timeout(cases, 600);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return suite;
}
