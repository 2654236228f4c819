/*
 * Reading the log: visibility, numbered pages, filters and cursors, sums, CSV; the explanation of a
 * device's reading at a moment, and the coverage of a period.
 */
#include "certificates.h"
#include "talk.h"

static const char *csv_of(const struct person *by, const char *query)
{
    return ask(by, 200, NULL, "GET " LOG "/export.csv%s", query)->body;
}

TEST(an_account_sees_only_the_log_of_its_organizations)
{
    struct person *m = certificate_person("cert.scope"), *b = certificate_person("cert.scope.b");
    const char *asked = text("?organizationId=%jd", m->organization);

    certificate_device(m, "s1");
    store(m, "s1", "History", days_ago(50), days_ago(48), 2000);
    certificates_issue(db, host);
    ck_assert_uint_eq(log_count(m, ""), 1);
    ck_assert_uint_eq(log_count(b, ""), 0);
    ck_assert_int_eq(pages_of(b, "").total_count, 0);
    ck_assert_uint_ge(log_count(admin, ""), 1);
    ck_assert_uint_eq(log_count(admin, asked), 1);
    ck_assert_uint_eq(log_count(b, asked), 0);
    ask(b, 200, "{'totalCount':0,'warnings':['organizationId: *']}", "GET " PAGES "%s", asked);
    ck_assert_ptr_null(strchr(strchr(csv_of(b, asked), '\n'), ','));
}

TEST(numbered_pages_count_all_entries_of_the_given_days)
{
    struct person *m = certificate_person("cert.pages");

    certificate_device(m, "p1");
    store_series(m, "p1", "History", days_ago(90), DAY_MS / 2, 90, 2000);
    certificates_issue(db, host);
    struct sums all = pages_of(m, "");

    ck_assert_int_eq(all.total_count, 90);
    ck_assert_int_eq(all.total_pages, 5);
    const char *days =
        text("&start_date=%s&end_date=%s", date_text(days_ago(80)), date_text(days_ago(78)));

    ck_assert_int_eq(pages_of(m, days).total_count, 6);
    ck_assert_int_eq(pages_of(m, text("&start_date=%s", date_text(days_ago(10)))).total_count, 0);
    struct answer *third = ask(m, 200, "{'currentPage':3}", "GET " PAGES "?pageNumber=3");

    ck_assert_str_eq(keys_of(third->json), "certificatelog currentPage totalPages totalCount");
    ck_assert_str_eq(text_in(item_of(third, "certificatelog", 0), "certificate_issuance_start"),
                     time_text(days_ago(90) + 49 * DAY_MS / 2));
    ask(m, 200, "{'certificatelog':[],'totalCount':90}", "GET " PAGES "?pageNumber=6");
    ask(m, 400, NULL, "GET " PAGES "?pageNumber=0");
}

TEST(the_log_is_filtered_and_paged_by_cursor)
{
    struct person *m = certificate_person("cert.log");
    int64_t device = certificate_device(m, "f1");
    size_t seen = 0;

    store_series(m, "f1", "History", days_ago(90), DAY_MS, 25, 2000);
    certificates_issue(db, host);
    EACH_PAGE (page, m, LOG "?limit=10")
        seen += json_array_size(page->json);
    ck_assert_uint_eq(seen, 25);
    const char *start = time_text(days_ago(90)), *end = time_text(days_ago(88));

    ck_assert_uint_eq(log_count(m, text("?start=%s&end=%s", start, end)), 2);
    ck_assert_uint_eq(log_count(m, "?status=Failed"), 0);
    ck_assert_uint_eq(log_count(m, "?status=Succeeded&limit=5"), 5);
    ck_assert_uint_eq(log_count(m, text("?deviceId=%jd", device)), 25);
    ck_assert_uint_eq(log_count(m, "?groupId=999999999"), 0);
    exchanges(
        host, {"GET " LOG "?after=1", m, 400}, {"GET " LOG "?after=-253402300799999-1", m, 400},
        {"GET " LOG "?after=1-1-1", m, 400}, {"GET " LOG "?after=253402300800000-1", m, 400},
        {"GET " LOG "?after=1-0", m, 400}, {"GET " LOG "?after=253402300799999-1", m, 200},
        {"GET " LOG "?start=2024-01-01T00:00:00%2B23:59", m, 400},
        {"GET " LOG "?end=0001-01-01T00:00:00-16:00", m, 400}, {"GET " LOG "?status=Done", m, 400},
        {"GET " LOG "?minWatthour=--1", m, 400}, {"GET " LOG "?maxWatthour=x", m, 400},
        {"GET " LOG "?minWatthour=1e99", m, 400}, {"GET " LOG "/totals?by=year", m, 400},
        {"GET " LOG "?after=-62135596800000-1", m, 200},
        {"GET " LOG "?start=2024-01-01T00:00:00%2B15:59", m, 200});
}

TEST(a_single_entry_is_visible_to_those_who_see_it_in_the_list)
{
    struct person *m = certificate_person("cert.one"), *b = certificate_person("cert.one.b");

    certificate_device(m, "one1");
    store(m, "one1", "History", days_ago(50), days_ago(48), 2000);
    certificates_issue(db, host);
    const json_t *listed = item_of(log_of(m, ""), NULL, 0);
    const char *path = text("GET " LOG "/%jd", int_in(listed, "id"));
    struct answer *one = ask(m, 200, NULL, "%s", path);

    ck_assert(json_equal(one->json, listed));
    ck_assert_str_eq(keys_of(one->json), ENTRY_KEYS);
    exchanges(host, {path, admin, 200}, {path, b, 404, "Certificate log entry not found"},
              {text("%s?organizationId=%jd", path, b->organization), admin, 404},
              {"GET " LOG "/9223372036854775807", m, 404}, {"GET " LOG "/0", m, 400},
              {"GET " LOG "/-1", m, 400}, {"GET " LOG "/x", m, 400}, {"GET " LOG "/1.5", m, 400},
              {"GET " LOG "/9223372036854775808", m, 400}, {"GET " LOG "/%00", m, 400});
}

TEST(list_and_export_are_filtered_by_amount)
{
    struct person *m = certificate_person("cert.amount");
    static const int wh[] = {1000, 1999, 2000, 2001, 3000};

    certificate_device(m, "am1");
    for (int i = 0; i < 5; i++)
        store(m, "am1", "History", days_ago(50 - i), days_ago(49 - i), wh[i]);
    certificates_issue(db, host);
    ck_assert_uint_eq(log_count(m, "?minWatthour=2000"), 3);
    ck_assert_uint_eq(log_count(m, "?maxWatthour=2000"), 3);
    ck_assert_uint_eq(log_count(m, "?minWatthour=1999&maxWatthour=2001"), 3);
    ck_assert_uint_eq(log_count(m, "?minWatthour=2001&maxWatthour=1999"), 0);
    struct answer *page = ask(m, 200, "[{},{},{}]", "GET " LOG "?minWatthour=1999&limit=3");

    ask(m, 200, "[{'readvalue_watthour':1999}]", "GET %s", next_page(page));
    const char *row = strchr(csv_of(m, "?maxWatthour=1000"), '\n') + 1;

    ck_assert_ptr_nonnull(strstr(row, ",1000,"));
    ck_assert_str_eq(strchr(row, '\n'), "\n");
}

/* ---- CSV ---- */

TEST(the_export_has_every_entry_and_escapes_formulas)
{
    enum { DAYS = 160 }; /* more entries than the export fetches at once */
    struct person *m = certificate_person("cert.csv");
    static const char *const names[][2] = {
        {"=cmd|' /C calc'!A0", ",\"'=cmd|' /C calc'!A0\","},
        {"+1,5", ",\"+1,5\","},
        {"-2", ",-2,"},
        {"@SUM(A1)", ",\"'@SUM(A1)\","},
        {"say \"hi\", all", ",\"say \"\"hi\"\", all\","},
        {"a;=1|+2", ",\"a;'=1|'+2\","},
        {"\uff1d1 =2", ",\"'\uff1d1 =2\","},
    };

    for (int i = 0; i < 7; i++) {
        meter_make(host, m, names[i][0], 10, days_ago(800));
        store_series(m, names[i][0], "History", days_ago(790), DAY_MS, DAYS, 2000);
    }
    certificates_issue(db, host);
    struct answer *csv = ask(m, 200, NULL, "GET " LOG "/export.csv");

    ck_assert_str_eq(answer_header(csv, "Content-Type"), "text/csv; charset=utf-8");
    ck_assert_str_eq(answer_header(csv, "Content-Disposition"),
                     "attachment; filename=\"certificate-log.csv\"");
    ck_assert_uint_eq(text_lines(csv->body), 1 + 7 * DAYS);
    for (int i = 0; i < 7; i++)
        ck_assert_msg(strstr(csv->body, names[i][1]) != NULL, "no %s", names[i][1]);
    for (const char *c = "=@"; *c; c++) {
        ck_assert_ptr_null(strstr(csv->body, text(",%c", *c)));
        ck_assert_ptr_null(strstr(csv->body, text("\"%c", *c)));
    }
    const char *first =
        text("?start=%s&end=%s", time_text(days_ago(790)), time_text(days_ago(789)));

    ck_assert_uint_eq(text_lines(csv_of(m, first)), 1 + 7);
}

static void device_of(const struct person *by, const char *key, const char *country,
                      const char *fuel, const char *type)
{
    certificate_device(by, key);
    ask(by, 200, NULL,
        "PATCH /api/device/%s {'countryCode':'%s','fuelCode':'%s','deviceTypeCode':'%s',"
        "'siteName':'%s'}",
        key, country, fuel, type, text("Site \\\"%s\\\"", key));
}

/* Makes three devices with two entries each. */
static struct person *three_devices(const char *name)
{
    struct person *m = certificate_person(name);
    char *keys[3] = {text("%s-One", name), text("%s-two", name), text("%s-three", name)};

    device_of(m, keys[0], "DE", "ES100", "TC110");
    device_of(m, keys[1], "DEU", "ES200", "TC110");
    device_of(m, keys[2], "FR", "ES100", "TC120");
    for (int i = 0; i < 3; i++)
        store_series(m, keys[i], "History", days_ago(70 - i), DAY_MS, 2, 2000);
    certificates_issue(db, host);
    return m;
}

TEST(the_export_has_the_certificate_and_the_site)
{
    struct person *m = three_devices("filters.csv");
    const char *csv = csv_of(m, "?externalId=filters.csv-two");

    ck_assert_ptr_nonnull(strstr(csv, ",ongoing_end_date,siteName,organizationId,"
                                      "certificate_start,certificate_end,issued_watthour\r\n"));
    ck_assert_ptr_nonnull(
        strstr(csv, text(",\"Site \"\"filters.csv-two\"\"\",%jd,%s,%s,2000\r\n", m->organization,
                         time_text(days_ago(68)), time_text(days_ago(67)))));
}

/* ---- properties of devices, and sums ---- */

TEST(the_log_is_filtered_by_properties_of_devices)
{
    struct person *m = three_devices("filters.what"), *b = certificate_person("filters.none");
    const char *uuid =
        text_in(item_of(log_of(m, "?externalId=filters.what-three"), NULL, 0), "externalId");
    const struct {
        const struct person *by;
        const char *query;
        size_t count;
    } rows[] = {
        {m, "", 6},
        {m, "?externalId=filters.what-one", 2},
        {m, text("?externalId=%s", uuid), 2},
        {m, "?externalId=filters.what", 0},
        {m, "?countryCode=de", 4},
        {m, "?countryCode=DEU", 4},
        {m, "?countryCode=XQ", 0},
        {m, "?fuelCode=ES100", 4},
        {m, "?deviceTypeCode=TC110&fuelCode=ES100", 2},
        {m, "?deviceTypeCode=TC120&countryCode=DE", 0},
        {m, "?countryCode=DE&status=Failed", 0},
        {m, text("?countryCode=DE&start=%s", time_text(days_ago(69))), 3},
        {b, "?externalId=filters.what-one", 0},
        {admin, "?externalId=filters.what-one", 2},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(log_count(rows[i].by, rows[i].query) == rows[i].count, "%s", rows[i].query);
    struct answer *page = ask(m, 200, "[{},{},{}]", "GET " LOG "?countryCode=DE&limit=3");

    ask(m, 200, "[{}]", "GET %s", next_page(page));
}

/*
 * Like the test above, with more devices than are looked up one by one. The 100 added devices come
 * first.
 */
TEST(the_log_is_filtered_by_properties_of_many_devices)
{
    struct person *m = three_devices("filters.many");

    sql_run(db, text("INSERT INTO device (id, uuid, organisation, country_code, fuel_code,"
                     " attributes, created_at, updated_at) SELECT -n, gen_random_uuid(),"
                     " %jd, 'DE', 'ES100', '{}', now(), now() FROM generate_series(1, 100) n",
                     m->organization));
    sql_run(db, "UPDATE device SET updated_at = updated_at WHERE id > 0"); /* moves the rows */
    ck_assert_uint_eq(log_count(m, "?countryCode=DE"), 4);
    ck_assert_uint_eq(log_count(m, "?fuelCode=ES100"), 4);
    ck_assert_uint_eq(log_count(m, "?fuelCode=ES100&deviceTypeCode=TC120"), 2);
    ck_assert_uint_eq(text_lines(csv_of(m, "?countryCode=DE")), 1 + 4);
}

/* Returns the number of entries on all pages of two entries; each must have the status, and the
 * newest come first. */
static size_t in_status(const struct person *by, const char *query, const char *status)
{
    const char *last = "9999";
    size_t count = 0;

    EACH_PAGE (page, by, text(LOG "?limit=2&status=%s%s", status, query)) {
        for (size_t i = 0; i < json_array_size(page->json); i++, count++) {
            const json_t *entry = item_of(page, NULL, i);

            ck_assert_str_eq(text_in(entry, "status"), status);
            ck_assert_int_le(strcmp(text_in(entry, "certificate_issuance_start"), last), 0);
            last = text_in(entry, "certificate_issuance_start");
        }
    }
    return count;
}

/* Rare statuses are found by indexes that omit successful entries. */
TEST(the_log_is_filtered_by_status_for_organizations_groups_and_admins)
{
    struct person *m = certificate_person("filters.status"), *b = certificate_person("status.b");
    int64_t start = days_ago(30), device;
    int64_t group = certificate_group_of(m, "status-g", "daily", start, &device);
    char *of_group = text("&groupId=%jd", group);

    certificate_device(b, "status-b");
    store_series(m, "status-g", "Delta", start, DAY_MS, 10, 2000);
    store(m, "status-g", "Delta", days_ago(20), days_ago(19), 300);
    store_series(b, "status-b", "History", days_ago(40), DAY_MS, 4, 2000);
    certificates_issue(db, host);
    sql_run(db, text("UPDATE certificate_entry SET status = 'Failed' WHERE status = 'Succeeded'"
                     " AND (group_id = %jd AND id %% 2 = 0 OR organisation = %jd)",
                     group, b->organization));
    size_t failed = in_status(m, "", "Failed");

    ck_assert_uint_gt(failed, 2);
    ck_assert_uint_eq(failed + in_status(m, "", "Succeeded"), 10);
    ck_assert_uint_eq(in_status(m, of_group, "Failed"), failed);
    ck_assert_uint_eq(in_status(m, of_group, "Carried"), 1);
    ck_assert_uint_eq(in_status(m, of_group, "Retry"), 0);
    ck_assert_uint_eq(in_status(m, text("&end=%s", time_text(start)), "Failed"), 0);
    ck_assert_uint_eq(in_status(b, "", "Failed"), 4);
    ck_assert_uint_eq(in_status(b, of_group, "Failed"), 0);
    ck_assert_uint_eq(in_status(admin, "", "Failed"), failed + 4);
    ck_assert_uint_eq(in_status(admin, "&minWatthour=2001", "Failed"), 0);
    ck_assert_uint_eq(in_status(admin, text("&deviceId=%jd", device), "Failed"), failed);
}

/* Returns the sum of a member over all totals. */
static int64_t add_up(const struct person *by, const char *query, const char *key)
{
    struct answer *totals = ask(by, 200, NULL, "GET " LOG "/totals%s", query);
    int64_t sum = 0;

    for (size_t i = 0; i < json_array_size(totals->json); i++)
        sum += int_in(item_of(totals, NULL, i), key);
    return sum;
}

TEST(the_log_is_summed_by_devices_groups_and_months)
{
    struct person *m = three_devices("sums"), *b = certificate_person("sums.none");
    int64_t start = days_ago(10), device;
    int64_t group = certificate_group_of(m, "sums-g", "daily", start, &device);
    const char *of_group = text("?groupId=%jd", group);
    const char *of_device = text("?by=device&deviceId=%jd", device);
    const char *of_m = text("?organizationId=%jd", m->organization);

    store(m, "sums-g", "Delta", start, start + DAY_MS, 3300);
    certificates_issue(db, host);
    ask(m, 200,
        text("[{},{},{},{'deviceId':%jd,'developerId':'sums-g','entries':3,"
             "'readvalue_watthour':3300,'succeeded_watthour':3000,'carried_watthour':300}]",
             device),
        "GET " LOG "/totals?by=device");
    ask(m, 200, text("[{'groupId':null,'readvalue_watthour':12000},{'groupId':%jd}]", group),
        "GET " LOG "/totals?by=group");
    ck_assert_str_eq(text_in(item_of(ask(m, 200, NULL, "GET " LOG "/totals"), NULL, 0), "month") +
                         7,
                     "-01T00:00:00.000Z");
    ck_assert_int_eq(add_up(m, "", "readvalue_watthour"), 15300);
    ck_assert_int_eq(add_up(m, "", "entries"), 9);
    ck_assert_int_eq(add_up(m, "?countryCode=DE", "succeeded_watthour"), 8000);
    ck_assert_int_eq(add_up(m, of_group, "entries"), 3);
    ck_assert_int_eq(add_up(m, of_device, "entries"), 3);
    ck_assert_int_eq(add_up(m, "?by=group&status=Carried", "entries"), 1);
    ck_assert_int_eq(add_up(m, "?maxWatthour=0", "readvalue_watthour"), -300);
    ask(b, 200, "[]", "GET " LOG "/totals");
    ck_assert_int_eq(add_up(admin, of_m, "entries"), 9);
    struct answer *page = ask(m, 200, "[{},{},{}]", "GET " LOG "/totals?by=device&limit=3");

    ck_assert_ptr_null(next_page(ask(m, 200, "[{}]", "GET %s", next_page(page))));
}

TEST(a_buyer_reads_pages_and_sums_of_a_shared_group)
{
    struct person *m = certificate_person("pages.share"), *b = certificate_person("pages.buyer");
    int64_t start = days_ago(60), group = certificate_group_of(m, "ps1", "daily", start, NULL);
    char *filter = text("&groupId=%jd", group), *query = text("?groupId=%jd", group);

    certificate_group_of(m, "ps2", "daily", start, NULL);
    store_series(m, "ps1", "Delta", start, DAY_MS, 41, 1000);
    store_series(m, "ps2", "Delta", start, DAY_MS, 41, 1000);
    certificates_issue(db, host);
    ck_assert_int_eq(pages_of(m, "").total_count, 82);
    ck_assert_int_eq(pages_of(b, filter).total_count, 0);
    ask(m, 200, NULL, "POST " GROUPS "/%jd/share {'organizationId':%jd}", group, b->organization);
    struct sums sums = pages_of(b, filter);

    ck_assert_int_eq(sums.total_count, 41);
    ck_assert_int_eq(sums.total_pages, 3);
    ck_assert_int_eq(sums.wh, 41000);
    ck_assert_int_eq(sums.issued, 41000);
    const char *days = text("%s&start_date=%s&end_date=%s", filter, date_text(days_ago(58)),
                            date_text(days_ago(57)));

    ck_assert_int_eq(pages_of(b, days).total_count, 2);
    ck_assert_int_eq(pages_of(b, "").total_count, 0);
    ck_assert_int_eq(pages_of(m, filter).total_count, 41);
    ck_assert_int_eq(pages_of(admin, filter).total_count, 41);
    ck_assert_int_eq(add_up(b, query, "entries"), 41);
    ck_assert_uint_eq(log_count(b, text("%s&externalId=ps2", query)), 0);
    ck_assert_uint_eq(log_count(b, text("%s&externalId=ps1&limit=50", query)), 41);
    struct answer *entries = ask(m, 200, NULL, "GET " LOG "%s&limit=1", query);
    int64_t entry = json_integer_value(json_object_get(json_array_get(entries->json, 0), "id"));

    ask(b, 200,
        text("{'entries':1,'issued_watthour':1000,'groupId':%jd,'createdAt':'*',"
             "'perDeviceCertificateLog':[{'id':%jd}]}",
             group, entry),
        "GET " LOG "/%jd/certificate", entry);
    entries = ask(m, 200, NULL, "GET " LOG "?externalId=ps2&limit=1");
    entry = json_integer_value(json_object_get(json_array_get(entries->json, 0), "id"));
    ask(b, 404, NULL, "GET " LOG "/%jd/certificate", entry);
}

/* ---- explanations ---- */

static struct answer *explain(const struct person *by, const char *device, int64_t at,
                              const char *reason)
{
    struct answer *answer = ask(by, 200, text("{'reason':'%s'}", reason),
                                "GET " LOG "/explain?deviceId=%s&at=%s", device, time_text(at));

    ck_assert_uint_gt(strlen(answer_text(answer, "explanation")), 20);
    return answer;
}

/* Returns the first entry of the reading that covers the moment. */
static const json_t *entry_in(const struct answer *answer)
{
    size_t i;
    const json_t *read;

    json_array_foreach (json_object_get(answer->json, "readings"), i, read) {
        if (json_is_true(json_object_get(read, "covers")))
            return json_array_get(json_object_get(read, "entries"), 0);
    }
    ck_abort_msg("no reading covers the moment: %s", answer->body);
    return NULL;
}

TEST(an_explanation_has_each_reason)
{
    struct person *m = certificate_person("explain.all"), *b = certificate_person("explain.other");
    int64_t start = days_ago(10), half = DAY_MS / 2, device;
    int64_t group = certificate_group_of(m, "ea", "daily", start, &device);
    int64_t rated = meter_make(host, m, "er", 1000, days_ago(100));
    const char *id = text("%jd", device);

    certificate_group_make(m, "daily", start, &rated, 1);
    certificate_device(m, "en");
    store(m, "ea", "Delta", start - DAY_MS, start + HOUR_MS, 900);
    store(m, "ea", "Delta", start + HOUR_MS, start + DAY_MS, 5300);
    store(m, "ea", "Delta", start + DAY_MS, start + 2 * DAY_MS + 2 * HOUR_MS, 900);
    store(m, "ea", "Delta", start + 3 * DAY_MS, start + 4 * DAY_MS, 0);
    store(m, "ea", "Delta", start + 5 * DAY_MS, start + 6 * DAY_MS, 600);
    store(m, "ea", "History", start - 5 * DAY_MS, start - 4 * DAY_MS, 999);
    store(m, "ea", "History", start - 4 * DAY_MS, start - 3 * DAY_MS, 1000);
    store(m, "en", "Delta", start, start + DAY_MS, 5000);
    store(m, "er", "Delta", start, start + DAY_MS, 900000);
    ask(m, 200, NULL, "PATCH /api/device/er {'capacity':100}");
    int64_t now = sql_number(db, "SELECT (extract(epoch FROM date_trunc('minute', now()))"
                                 " * 1000)::bigint");

    certificates_issue(db, host);
    store(m, "ea", "Delta", now - 60000, now, 10);
    ck_status(meter_read(host, m, "ea", "Delta", start + 7 * DAY_MS, start + 8 * DAY_MS, 1e9), 409);
    ask(m, 200, NULL, "DELETE /api/meter-reads/new/ea/%jd {'reason':'meter swapped'}",
        store(m, "ea", "Delta", start + 8 * DAY_MS, start + 9 * DAY_MS, 10));
    explain(m, "ea", start - half, "beforeGroup");
    explain(m, "ea", start + DAY_MS + half, "longerThanCycle");
    explain(m, "ea", start + 3 * DAY_MS + half, "belowThreshold");
    explain(m, "ea", start - 4 * DAY_MS - half, "belowThreshold");
    explain(m, "ea", start + 4 * DAY_MS + half, "noReading");
    explain(m, "ea", now - 30000, "cycleNotEnded");
    explain(m, "en", start + half, "inNoGroup");
    explain(m, "er", start + half, "aboveCeiling");
    expect_json(item_of(explain(m, "ea", start + 5 * DAY_MS + half, "carried"), "readings", 0),
                "{'reason':'carried'}");
    struct answer *certified = explain(m, id, start + half, "certified");
    struct answer *log = log_of(m, text("?groupId=%jd&status=Succeeded&minWatthour=1", group));

    ck_assert_str_eq(text_in(entry_in(certified), "certificateTransactionUID"),
                     text_in(item_of(log, NULL, 0), "certificateTransactionUID"));
    expect_json(certified->json,
                text("{'group':{'id':%jd},'cycle':{'start':'%s'}}", group, time_text(start)));
    expect_json(entry_in(explain(m, "ea", start - 3 * DAY_MS - half, "certified")),
                "{'readvalue_watthour':1000}");
    expect_json(explain(m, "ea", start + 7 * DAY_MS + half, "refused")->json,
                "{'discarded':[{'problem':'*ceiling*'}]}");
    expect_json(explain(m, "ea", start + 8 * DAY_MS + half, "voided")->json,
                "{'discarded':[{'problem':'meter swapped'}]}");
    explain(admin, id, start + half, "certified");
    const char *at = time_text(start);

    ask(b, 404, NULL, "GET " LOG "/explain?deviceId=ea&at=%s", at);
    ask(b, 404, "Device not found", "GET " LOG "/explain?deviceId=%s&at=%s", id, at);
    ask(m, 400, NULL, "GET " LOG "/explain?deviceId=ea");
}

TEST(coverage_lists_gaps_sums_and_readings_that_no_group_certifies)
{
    struct person *m = certificate_person("coverage"), *b = certificate_person("coverage.other");
    int64_t start = days_ago(20);
    const char *path = "GET /api/device/co/coverage?from=%s&to=%s";
    char *at[10]; /* days around the start, from 3 days before it to 6 days after it */

    for (int day = -3; day <= 6; day++)
        at[day + 3] = time_text(start + day * DAY_MS);
    certificate_group_of(m, "co", "daily", start, NULL);
    store(m, "co", "Delta", start - 2 * DAY_MS, start - DAY_MS, 100);
    store(m, "co", "Delta", start - DAY_MS, start + HOUR_MS, 200);
    store(m, "co", "Delta", start + DAY_MS, start + 2 * DAY_MS, 5300);
    store(m, "co", "Delta", start + 2 * DAY_MS, start + 3 * DAY_MS, 1700);
    store(m, "co", "History", start + 4 * DAY_MS, start + 5 * DAY_MS, 2000);
    certificates_issue(db, host);
    struct answer *answer =
        ask(m, 200,
            text("{'gaps':[{'startDate':'%s','endDate':'%s'},{'startDate':'%s','endDate':'%s'},"
                 "{'startDate':'%s','endDate':'%s'},{'startDate':'%s','endDate':'%s'}],"
                 "'notCertified':[{},{'reason':'beforeGroup'}]}",
                 at[0], at[1], time_text(start + HOUR_MS), at[4], at[6], at[7], at[8], at[9]),
            path, at[0], at[9]);
    size_t i;
    const json_t *sum;

    json_array_foreach (json_object_get(answer->json, "sums"), i, sum) {
        const char *reason = text_in(sum, "reason");

        ck_assert_int_eq(int_in(sum, "value"), !strcmp(reason, "beforeGroup") ? 300
                                               : !strcmp(reason, "certified") ? 5300 + 1700 + 2000
                                                                              : 0);
    }
    ask(m, 200, text("{'from':'%s'}", time_text(days_ago(100))), "GET /api/device/co/coverage");
    ask(b, 404, NULL, path, at[3], at[4]);
    ask(m, 400, NULL, path, at[3], at[3]);
    ask(m, 200, NULL, path, time_text(start - 366 * DAY_MS - HOUR_MS), at[3]);
    ask(m, 400, NULL, path, time_text(start - 366 * DAY_MS - HOUR_MS - 1), at[3]);
}

OPENED_SUITE(certificate_log, certificates_open, 600)
