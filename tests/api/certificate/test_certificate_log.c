/* Reading the log: visibility, numbered pages, filters and cursors, CSV. */
#include <stdlib.h>
#include <string.h>

#include "certificates.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    certificates_open("certificate_log");
}

TEST(each_sees_the_log_of_its_organizations)
{
    struct person *m = certificate_person("cert.scope"), *b = certificate_person("cert.scope.b");

    meter_make(host, m, "s1", 10, days_ago(100));
    ck_status(meter_read(host, m, "s1", "History", days_ago(50), days_ago(48), 2000), 201);
    certificates_issue(db, host);
    ck_assert_uint_eq(log_entries(m), 1);
    ck_assert_uint_eq(log_entries(b), 0);
    ck_assert_int_eq(pages_of(b, "").total_count, 0);
    ck_assert_uint_ge(log_entries(admin), 1);
    const char *asked = text("?organizationId=%jd", (intmax_t)m->organization);

    ck_assert_uint_eq(json_array_size(log_of(admin, asked)->json), 1);
    ck_assert_uint_eq(json_array_size(log_of(b, asked)->json), 0);
    struct answer *pages = ask(b, 200, NULL, "GET " PAGES "%s", asked);

    ck_assert_int_eq(answer_int(pages, "totalCount"), 0);
    answer_warns(pages, "organizationId: ");
    struct answer *csv = http(host, "GET", text(LOG "/export.csv%s", asked), b->token, NULL);

    ck_assert_ptr_null(strchr(strchr(ck_status(csv, 200)->body, '\n'), ','));
}

TEST(numbered_pages_count_all_entries_and_days_narrow_them)
{
    struct person *m = certificate_person("cert.pages");

    meter_make(host, m, "p1", 10, days_ago(100));
    ck_status(meter_series(host, m, "p1", "History", days_ago(90), DAY_MS / 2, 90, 2000), 201);
    certificates_issue(db, host);
    struct sums all = pages_of(m, "");

    ck_assert_int_eq(all.total_count, 90);
    ck_assert_int_eq(all.total_pages, 5);
    struct sums some = pages_of(
        m, text("&start_date=%s&end_date=%s", date_text(days_ago(80)), date_text(days_ago(78))));

    ck_assert_int_eq(some.total_count, 6);
    ck_assert_int_eq(pages_of(m, text("&start_date=%s", date_text(days_ago(10)))).total_count, 0);
    struct answer *third = ask(m, 200, NULL, "GET " PAGES "?pageNumber=3");
    const json_t *head = item_of(third, "certificatelog", 0);

    ck_assert_str_eq(keys_of(third->json), "certificatelog currentPage totalPages totalCount");
    ck_assert_int_eq(answer_int(third, "currentPage"), 3);
    ck_assert_str_eq(text_in(head, "certificate_issuance_start"),
                     time_text(days_ago(90) + 49 * DAY_MS / 2));
    struct answer *beyond = http(host, "GET", PAGES "?pageNumber=6", m->token, NULL);

    ck_assert_uint_eq(
        json_array_size(json_object_get(ck_status(beyond, 200)->json, "certificatelog")), 0);
    ck_assert_int_eq(answer_int(beyond, "totalCount"), 90);
    ask(m, 400, NULL, "GET " PAGES "?pageNumber=0");
}

TEST(the_log_is_filtered_and_paged_by_cursor)
{
    struct person *m = certificate_person("cert.log");
    int64_t device = meter_make(host, m, "f1", 10, days_ago(100));
    size_t seen = 0;

    ck_status(meter_series(host, m, "f1", "History", days_ago(90), DAY_MS, 25, 2000), 201);
    certificates_issue(db, host);
    struct answer *page = log_of(m, "?limit=10");

    for (;;) {
        seen += json_array_size(page->json);
        const char *next = next_page(page);

        if (!next)
            break;
        page = ask(m, 200, NULL, "GET %s", next);
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
    static const char *const bad[] = {"after=1", "after=-253402300799999-1", "after=1-1-1",
                                      "start=2024-01-01T00:00:00%2B23:59",
                                      "end=0001-01-01T00:00:00-16:00"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ask(m, 400, NULL, "GET " LOG "?%s", bad[i]);
    ask(m, 200, NULL, "GET " LOG "?after=-62135596800000-1");
    ask(m, 200, NULL, "GET " LOG "?start=2024-01-01T00:00:00%%2B15:59");
    ask(m, 400, NULL, "GET " LOG "?status=Done");
}

TEST(one_entry_is_read_by_those_who_see_it_in_the_list)
{
    struct person *m = certificate_person("cert.one"), *b = certificate_person("cert.one.b");

    meter_make(host, m, "one1", 10, days_ago(100));
    ck_status(meter_read(host, m, "one1", "History", days_ago(50), days_ago(48), 2000), 201);
    certificates_issue(db, host);
    const json_t *listed = item_of(log_of(m, ""), NULL, 0);
    const char *path = text(LOG "/%jd", (intmax_t)int_in(listed, "id"));
    struct answer *one = ask(m, 200, NULL, "GET %s", path);

    ck_assert(json_equal(one->json, listed));
    ck_assert_str_eq(keys_of(one->json), ENTRY_KEYS);
    ask(admin, 200, NULL, "GET %s", path);
    ask(b, 404, "Certificate log entry not found", "GET %s", path);
    ask(admin, 404, NULL, "GET %s?organizationId=%jd", path, b->organization);
    ask(m, 404, NULL, "GET " LOG "/9223372036854775807");
    static const char *const bad[] = {"0", "-1", "x", "1.5", "9223372036854775808", "%00"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ask(m, 400, NULL, "GET " LOG "/%s", bad[i]);
}

TEST(amounts_narrow_the_list_and_the_export)
{
    struct person *m = certificate_person("cert.amount");
    static const int wh[] = {1000, 1999, 2000, 2001, 3000};

    meter_make(host, m, "am1", 10, days_ago(100));
    for (int i = 0; i < 5; i++)
        ck_status(meter_read(host, m, "am1", "History", days_ago(50 - i), days_ago(49 - i), wh[i]),
                  201);
    certificates_issue(db, host);
    ck_assert_uint_eq(json_array_size(log_of(m, "?minWatthour=2000")->json), 3);
    ck_assert_uint_eq(json_array_size(log_of(m, "?maxWatthour=2000")->json), 3);
    ck_assert_uint_eq(json_array_size(log_of(m, "?minWatthour=1999&maxWatthour=2001")->json), 3);
    ck_assert_uint_eq(json_array_size(log_of(m, "?minWatthour=2001&maxWatthour=1999")->json), 0);
    struct answer *page = log_of(m, "?minWatthour=1999&limit=3");
    const char *next = next_page(page);

    ck_assert_uint_eq(json_array_size(page->json), 3);
    ck_assert_ptr_nonnull(next);
    page = ask(m, 200, NULL, "GET %s", next);
    ck_assert_uint_eq(json_array_size(page->json), 1);
    ck_assert_int_eq(int_in(item_of(page, NULL, 0), "readvalue_watthour"), 1999);
    struct answer *csv = http(host, "GET", LOG "/export.csv?maxWatthour=1000", m->token, NULL);
    const char *row = strchr(ck_status(csv, 200)->body, '\n') + 1;

    ck_assert_ptr_nonnull(strstr(row, ",1000,"));
    ck_assert_str_eq(strchr(row, '\n'), "\n");
    static const char *const bad[] = {"minWatthour=--1", "maxWatthour=x", "minWatthour=1e99"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ask(m, 400, NULL, "GET " LOG "?%s", bad[i]);
}

/* C02 */
TEST(the_export_has_every_entry_and_no_cell_that_a_spreadsheet_would_run)
{
    struct person *m = certificate_person("cert.csv");
    static const char *const names[] = {"=cmd|' /C calc'!A0", "+1,5",    "-2",        "@SUM(A1)",
                                        "say \"hi\", all",    "a;=1|+2", "\uff1d1 =2"};
    int lines = 0;

    for (int i = 0; i < 7; i++) {
        meter_make(host, m, names[i], 10, days_ago(800));
        ck_status(meter_series(host, m, names[i], "History", days_ago(790), DAY_MS, 500, 2000),
                  201);
    }
    certificates_issue(db, host);
    struct answer *csv = ask(m, 200, NULL, "GET " LOG "/export.csv");

    ck_assert_str_eq(answer_header(csv, "Content-Type"), "text/csv; charset=utf-8");
    ck_assert_str_eq(answer_header(csv, "Content-Disposition"),
                     "attachment; filename=\"certificate-log.csv\"");
    for (const char *at = csv->body; (at = strstr(at, "\r\n")); at += 2)
        lines++;
    ck_assert_int_eq(lines, 1 + 7 * 500);
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"'=cmd|' /C calc'!A0\","));
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"+1,5\","));
    ck_assert_ptr_nonnull(strstr(csv->body, ",-2,"));
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"'@SUM(A1)\","));
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"say \"\"hi\"\", all\","));
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"a;'=1|'+2\","));
    ck_assert_ptr_nonnull(strstr(csv->body, ",\"'\uff1d1 =2\","));
    for (const char *c = "=@"; *c; c++) {
        ck_assert_ptr_null(strstr(csv->body, text(",%c", *c)));
        ck_assert_ptr_null(strstr(csv->body, text("\"%c", *c)));
    }
    struct answer *one = ask(m, 200, NULL, "GET " LOG "/export.csv?start=%s&end=%s",
                             time_text(days_ago(790)), time_text(days_ago(789)));

    lines = 0;
    for (const char *at = one->body; (at = strstr(at, "\r\n")); at += 2)
        lines++;
    ck_assert_int_eq(lines, 1 + 7);
}

STAGE_SUITE(certificate_log, set_up, 600)
