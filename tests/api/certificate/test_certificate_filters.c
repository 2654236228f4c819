/* Filters of the log: by properties of devices, by group; sums, and pages of a shared group. */
#include <string.h>

#include "certificates.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    certificates_open("certificate_filters");
}

static size_t found(const struct person *by, const char *query)
{
    return json_array_size(log_of(by, query)->json);
}

static int64_t device_of(const struct person *by, const char *key, const char *country,
                         const char *fuel, const char *type)
{
    int64_t id = meter_make(host, by, key, 10, days_ago(100));

    ask(by, 200, NULL,
        "PATCH /api/device/%s "
        "{'countryCode':'%s','fuelCode':'%s','deviceTypeCode':'%s','siteName':'%s'}",
        key, country, fuel, type, text("Site \\\"%s\\\"", key));
    return id;
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
        ck_status(meter_series(host, m, keys[i], "History", days_ago(70 - i), DAY_MS, 2, 2000),
                  201);
    certificates_issue(db, host);
    return m;
}

TEST(the_log_is_narrowed_by_what_devices_are)
{
    struct person *m = three_devices("filters.what"), *b = certificate_person("filters.none");
    const char *uuid =
        text_in(item_of(log_of(m, "?externalId=filters.what-three"), NULL, 0), "externalId");

    ck_assert_uint_eq(found(m, ""), 6);
    ck_assert_uint_eq(found(m, "?externalId=filters.what-one"), 2);
    ck_assert_uint_eq(found(m, text("?externalId=%s", uuid)), 2);
    ck_assert_uint_eq(found(m, "?externalId=filters.what"), 0);
    ck_assert_uint_eq(found(m, "?countryCode=de"), 4);
    ck_assert_uint_eq(found(m, "?countryCode=DEU"), 4);
    ck_assert_uint_eq(found(m, "?countryCode=XQ"), 0);
    ck_assert_uint_eq(found(m, "?fuelCode=ES100"), 4);
    ck_assert_uint_eq(found(m, "?deviceTypeCode=TC110&fuelCode=ES100"), 2);
    ck_assert_uint_eq(found(m, "?deviceTypeCode=TC120&countryCode=DE"), 0);
    ck_assert_uint_eq(found(m, "?countryCode=DE&status=Failed"), 0);
    ck_assert_uint_eq(found(m, text("?countryCode=DE&start=%s", time_text(days_ago(69)))), 3);
    ck_assert_uint_eq(found(b, "?externalId=filters.what-one"), 0);
    ck_assert_uint_eq(found(admin, "?externalId=filters.what-one"), 2);
    struct answer *page = log_of(m, "?countryCode=DE&limit=3");
    const char *next = next_page(page);

    ck_assert_uint_eq(json_array_size(page->json), 3);
    ck_assert_ptr_nonnull(next);
    ck_assert_uint_eq(json_array_size(ask(m, 200, NULL, "GET %s", next)->json), 1);
}

/* Like the test above, with more devices than are looked up one by one. */
TEST(many_devices_are_narrowed_as_few_are)
{
    struct person *m = three_devices("filters.many");

    sql_run(db, text("INSERT INTO device (id, uuid, organisation, country_code, fuel_code,"
                     " attributes, created_at, updated_at) SELECT nextval('device_id'),"
                     " gen_random_uuid(), %jd, 'DE', 'ES100', '{}', now(), now()"
                     " FROM generate_series(1, 100)",
                     (intmax_t)m->organization));
    ck_assert_uint_eq(found(m, "?countryCode=DE"), 4);
    ck_assert_uint_eq(found(m, "?fuelCode=ES100"), 4);
    ck_assert_uint_eq(found(m, "?fuelCode=ES100&deviceTypeCode=TC120"), 2);
    struct answer *csv = ask(m, 200, NULL, "GET " LOG "/export.csv?countryCode=DE");
    int lines = 0;

    for (const char *at = csv->body; (at = strstr(at, "\r\n")); at += 2)
        lines++;
    ck_assert_int_eq(lines, 1 + 4);
}

/* Returns the number of entries on all pages of two entries; each must have the status, and the
 * newest come first. */
static size_t in_status(const struct person *by, const char *query, const char *status)
{
    const char *next = text(LOG "?limit=2&status=%s%s", status, query);
    const char *last = "9999";
    size_t count = 0;

    while (next) {
        struct answer *page = ask(by, 200, NULL, "GET %s", next);

        for (size_t i = 0; i < json_array_size(page->json); i++) {
            const json_t *entry = item_of(page, NULL, i);

            ck_assert_str_eq(text_in(entry, "status"), status);
            ck_assert_int_le(strcmp(text_in(entry, "certificate_issuance_start"), last), 0);
            last = text_in(entry, "certificate_issuance_start");
        }
        count += json_array_size(page->json);
        next = next_page(page);
    }
    return count;
}

/* Rare statuses are found by indexes that omit successful entries. */
TEST(each_status_is_found_by_organizations_groups_and_admins)
{
    struct person *m = certificate_person("filters.status"), *b = certificate_person("status.b");
    int64_t start = days_ago(30), device = meter_make(host, m, "status-g", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", start, &device, 1);
    char *of_group = text("&groupId=%jd", (intmax_t)group);

    meter_make(host, b, "status-b", 10, days_ago(100));
    ck_status(meter_series(host, m, "status-g", "Delta", start, DAY_MS, 10, 2000), 201);
    ck_status(meter_read(host, m, "status-g", "Delta", days_ago(20), days_ago(19), 300), 201);
    ck_status(meter_series(host, b, "status-b", "History", days_ago(40), DAY_MS, 4, 2000), 201);
    certificates_issue(db, host);
    sql_run(db, text("UPDATE certificate_entry SET status = 'Failed' WHERE status = 'Succeeded'"
                     " AND (group_id = %jd AND id %% 2 = 0 OR organisation = %jd)",
                     (intmax_t)group, (intmax_t)b->organization));
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
    ck_assert_uint_eq(in_status(admin, text("&deviceId=%jd", (intmax_t)device), "Failed"), failed);
}

TEST(the_export_has_the_certificate_and_the_site)
{
    struct person *m = three_devices("filters.csv");
    struct answer *csv =
        http(host, "GET", LOG "/export.csv?externalId=filters.csv-two", m->token, NULL);
    const char *body = ck_status(csv, 200)->body, *row = strchr(body, '\n') + 1;

    ck_assert_ptr_nonnull(strstr(body, ",ongoing_end_date,siteName,organizationId,"
                                       "certificate_start,certificate_end,issued_watthour\r\n"));
    ck_assert_ptr_nonnull(strstr(row, text(",\"Site \"\"filters.csv-two\"\"\",%jd,%s,%s,2000\r\n",
                                           (intmax_t)m->organization, time_text(days_ago(68)),
                                           time_text(days_ago(67)))));
}

static struct answer *totals_of(const struct person *by, const char *query)
{
    return ask(by, 200, NULL, "GET " LOG "/totals%s", query);
}

static int64_t add_up(const struct answer *totals, const char *key)
{
    int64_t sum = 0;

    for (size_t i = 0; i < json_array_size(totals->json); i++)
        sum += int_in(item_of(totals, NULL, i), key);
    return sum;
}

TEST(the_log_is_summed_by_devices_groups_and_months)
{
    struct person *m = three_devices("sums"), *b = certificate_person("sums.none");
    int64_t start = days_ago(10), device = meter_make(host, m, "sums-g", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", start, &device, 1);

    ck_status(meter_read(host, m, "sums-g", "Delta", start, start + DAY_MS, 3300), 201);
    certificates_issue(db, host);
    struct answer *devices = totals_of(m, "?by=device");
    const json_t *last = item_of(devices, NULL, 3);

    ck_assert_uint_eq(json_array_size(devices->json), 4);
    ck_assert_int_eq(int_in(last, "deviceId"), device);
    ck_assert_str_eq(text_in(last, "developerId"), "sums-g");
    ck_assert_int_eq(int_in(last, "entries"), 3);
    ck_assert_int_eq(int_in(last, "readvalue_watthour"), 3300);
    ck_assert_int_eq(int_in(last, "succeeded_watthour"), 3000);
    ck_assert_int_eq(int_in(last, "carried_watthour"), 300);
    struct answer *groups = totals_of(m, "?by=group");

    ck_assert_uint_eq(json_array_size(groups->json), 2);
    ck_assert(json_is_null(json_object_get(item_of(groups, NULL, 0), "groupId")));
    ck_assert_int_eq(int_in(item_of(groups, NULL, 0), "readvalue_watthour"), 12000);
    ck_assert_int_eq(int_in(item_of(groups, NULL, 1), "groupId"), group);
    struct answer *months = totals_of(m, "");

    ck_assert_int_eq(add_up(months, "readvalue_watthour"), 15300);
    ck_assert_int_eq(add_up(months, "entries"), 9);
    ck_assert_ptr_nonnull(strstr(text_in(item_of(months, NULL, 0), "month"), "-01T00:00:00.000Z"));
    ck_assert_int_eq(add_up(totals_of(m, "?countryCode=DE"), "succeeded_watthour"), 8000);
    ck_assert_int_eq(add_up(totals_of(m, text("?groupId=%jd", (intmax_t)group)), "entries"), 3);
    ck_assert_int_eq(
        add_up(totals_of(m, text("?by=device&deviceId=%jd", (intmax_t)device)), "entries"), 3);
    ck_assert_int_eq(add_up(totals_of(m, "?by=group&status=Carried"), "entries"), 1);
    ck_assert_int_eq(add_up(totals_of(m, "?maxWatthour=0"), "readvalue_watthour"), -300);
    ck_assert_uint_eq(json_array_size(totals_of(b, "")->json), 0);
    ck_assert_int_eq(
        add_up(totals_of(admin, text("?organizationId=%jd", (intmax_t)m->organization)), "entries"),
        9);
    struct answer *page = totals_of(m, "?by=device&limit=3");
    const char *next = next_page(page);

    ck_assert_uint_eq(json_array_size(page->json), 3);
    page = ask(m, 200, NULL, "GET %s", next);
    ck_assert_uint_eq(json_array_size(page->json), 1);
    ck_assert_ptr_null(next_page(page));
    ask(m, 400, NULL, "GET " LOG "/totals?by=year");
}

TEST(a_buyer_reads_numbered_pages_and_sums_of_a_shared_group)
{
    struct person *m = certificate_person("pages.share"), *b = certificate_person("pages.buyer");
    int64_t start = days_ago(60), device = meter_make(host, m, "ps1", 10, days_ago(100));
    int64_t other = meter_make(host, m, "ps2", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", start, &device, 1);
    char *filter = text("&groupId=%jd", (intmax_t)group);

    certificate_group_make(m, "daily", start, &other, 1);
    ck_status(meter_series(host, m, "ps1", "Delta", start, DAY_MS, 45, 1000), 201);
    ck_status(meter_series(host, m, "ps2", "Delta", start, DAY_MS, 45, 1000), 201);
    certificates_issue(db, host);
    ck_assert_int_eq(pages_of(m, "").total_count, 90);
    ck_assert_int_eq(pages_of(b, filter).total_count, 0);
    ask(m, 200, NULL, "POST " GROUPS "/%jd/share {'organizationId':%jd}", group, b->organization);
    struct sums sums = pages_of(b, filter);

    ck_assert_int_eq(sums.total_count, 45);
    ck_assert_int_eq(sums.total_pages, 3);
    ck_assert_int_eq(sums.wh, 45000);
    ck_assert_int_eq(sums.issued, 45000);
    sums = pages_of(b, text("%s&start_date=%s&end_date=%s", filter, date_text(days_ago(58)),
                            date_text(days_ago(57))));
    ck_assert_int_eq(sums.total_count, 2);
    ck_assert_int_eq(pages_of(b, "").total_count, 0);
    ck_assert_int_eq(pages_of(m, filter).total_count, 45);
    ck_assert_int_eq(pages_of(admin, filter).total_count, 45);
    ck_assert_int_eq(add_up(totals_of(b, text("?groupId=%jd", (intmax_t)group)), "entries"), 45);
    ck_assert_uint_eq(found(b, text("?groupId=%jd&externalId=ps2", (intmax_t)group)), 0);
    ck_assert_uint_eq(found(b, text("?groupId=%jd&externalId=ps1&limit=50", (intmax_t)group)), 45);
}

STAGE_SUITE(certificate_filters, set_up, 600)
