/*
 * Reading meter readings: access (O26), pages, the latest reading, events, a client that leaves,
 * and the readings of real devices.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "readings.h"
#include "shared.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    readings_open("reading_list");
}

/* O26 */
TEST(another_organizations_device_is_unknown)
{
    ck_error(meter_read(host, b, PLANT, "Delta", days_ago(3), days_ago(2), 1), 404, "Device");
    ck_error(meter_list(host, b, PLANT, ""), 404, "Device");
    ask(b, 404, "Device", "GET /api/meter-reads/latestread/" PLANT);
    ck_status(meter_list(host, admin, PLANT, ""), 200);
    ck_error(meter_post(host, b, PLANT,
                        json_pack("{ss ss ss ss si sI}", "type", "Delta", "unit", "Wh", "startDate",
                                  time_text(days_ago(3)), "endDate", time_text(days_ago(2)),
                                  "value", 1, "organizationId", (json_int_t)m->organization)),
             404, "Device");
    ck_assert_int_eq(stored(PLANT), 0);
}

TEST(readings_are_listed_by_their_end_in_pages_and_by_period_and_type)
{
    const char *key = plant("listed");
    int64_t start = days_ago(40);

    ck_status(meter_series(host, m, key, "Delta", start, DAY_MS, 10, 3), 201);
    ck_status(meter_series(host, m, key, "History", start + 10 * DAY_MS, DAY_MS, 10, 5), 201);
    ck_assert_int_eq(meter_total(host, m, key), 80);
    ck_assert_uint_eq(json_array_size(meter_list(host, m, key, "?type=history")->json), 10);
    struct answer *some =
        ck_status(meter_list(host, m, key,
                             text("?type=Delta&start=%s&end=%s", time_text(start + 2 * DAY_MS),
                                  time_text(start + 5 * DAY_MS))),
                  200);

    ck_assert_uint_eq(json_array_size(some->json), 3);
    ck_assert_str_eq(text_in(item_of(some, NULL, 0), "endDate"), time_text(start + 3 * DAY_MS));
    ck_assert_str_eq(text_in(item_of(some, NULL, 2), "endDate"), time_text(start + 5 * DAY_MS));
    ck_error(meter_list(host, m, key, "?after=x"), 400, "");
    ck_error(meter_list(host, m, key, "?type=x"), 400, "");
}

#define CLOCK_PUT_FORWARD                                                                          \
    INT64_C(1774735200000) /* 2026-03-28T22:00Z: an hour before that day in Berlin */

static struct answer *totals(const char *key, const char *query)
{
    return http(host, "GET", text("/api/meter-reads/new/%s/totals?%s", key, query), m->token, NULL);
}

/* Returns "value/reads" of each sum. */
static const char *sums(const char *key, const char *query)
{
    struct answer *list = ck_status(totals(key, query), 200);
    const char *sums = "";
    size_t i;
    const json_t *sum;

    json_array_foreach(list->json, i, sum) sums =
        text("%s%s%jd/%jd", sums, i ? " " : "", (intmax_t)int_in(sum, "value"),
             (intmax_t)int_in(sum, "reads"));
    return sums;
}

TEST(readings_are_summed_by_days_of_a_zone)
{
    meter_make(host, m, "summed", 10, CLOCK_PUT_FORWARD - 400 * DAY_MS);
    ck_status(meter_series(host, m, "summed", "Delta", CLOCK_PUT_FORWARD, 3600000, 48, 10), 201);
    ck_status(
        meter_series(host, m, "summed", "History", CLOCK_PUT_FORWARD + 4 * DAY_MS, DAY_MS, 1, 7),
        201);
    ck_assert_str_eq(sums("summed", "timezone=Europe/Berlin"), "10/1 230/23 240/24 7/1");
    ck_assert_str_eq(sums("summed", "timezone=UTC"), "20/2 240/24 220/22 7/1");
    ck_assert_str_eq(sums("summed", ""), sums("summed", "by=day&timezone=UTC"));
    ck_assert_str_eq(sums("summed", "by=month&timezone=Europe/Berlin"), "480/48 7/1");
    ck_assert_str_eq(sums("summed", "by=year"), "487/49");
    ck_assert_str_eq(sums("summed", "by=year&type=history"), "7/1");
    ck_assert_str_eq(sums("summed", "by=year&start=2026-03-29T00:00Z&end=2026-03-29T02:00Z"),
                     "20/2");
    const json_t *day =
        item_of(ck_status(totals("summed", "timezone=Europe/Berlin"), 200), NULL, 1);

    ck_assert_str_eq(text_in(day, "startDate"), "2026-03-28T23:00:00.000Z");
    ck_assert_str_eq(text_in(day, "endDate"), "2026-03-29T22:00:00.000Z");
}

TEST(a_sum_has_the_ceiling_of_a_reading_of_its_span)
{
    int64_t start = days_ago(9);

    meter_make(host, m, "ceiled", 10, start - 30 * DAY_MS);
    ck_status(meter_series(host, m, "ceiled", "History", start, DAY_MS, 2, 7), 201);
    const json_t *day = item_of(ck_status(totals("ceiled", "timezone=UTC"), 200), NULL, 0);
    int64_t ceiling = int_in(day, "ceiling");

    ck_assert_int_gt(ceiling, 7);
    ck_status(meter_read(host, m, "ceiled", "Delta", start - DAY_MS, start, (double)ceiling + 1),
              409);
    ck_status(meter_read(host, m, "ceiled", "Delta", start - DAY_MS, start, (double)ceiling), 201);
}

TEST(sums_come_in_pages_and_bad_questions_are_refused)
{
    meter_make(host, m, "paged sums", 10, CLOCK_PUT_FORWARD - 400 * DAY_MS);
    ck_status(meter_series(host, m, "paged sums", "Delta", CLOCK_PUT_FORWARD, DAY_MS / 2, 9, 10),
              201);
    struct answer *page = ck_status(totals("paged%20sums", "limit=3&timezone=Europe/Berlin"), 200);
    size_t pages = 1, count = json_array_size(page->json);

    ck_assert_uint_eq(count, 3);
    for (const char *next; (next = next_page(page)); pages++) {
        page = ask(m, 200, NULL, "GET %s", next);
        count += json_array_size(page->json);
    }
    ck_assert_uint_eq(pages, 2);
    ck_assert_uint_eq(count, 5);
    ck_error(totals("summed", "by=week"), 400, "");
    ck_error(totals("summed", "timezone=Mars/Olympus"), 400, "");
    ck_error(totals("summed", "timezone=../../etc/passwd"), 400, "");
    ck_error(totals("summed", "after=9223372036854775807"), 400, "");
    ask(b, 404, NULL, "GET /api/meter-reads/new/summed/totals");
}

TEST(the_latest_reading_is_the_one_that_ends_last_whenever_it_came)
{
    const char *key = plant("latest");
    const char *path = "/api/meter-reads/latestread/latest";

    ask(m, 404, "The device has no reading yet", "GET %s", path);
    ck_status(meter_read(host, m, key, "Delta", days_ago(10), days_ago(9), 20), 201);
    ck_status(meter_read(host, m, key, "Delta", days_ago(15), days_ago(14), 10), 201);
    struct answer *latest = ask(m, 200, NULL, "GET %s", path);

    ck_assert_int_eq(answer_int(latest, "value"), 20);
    ck_assert_str_eq(answer_text(latest, "startDate"), time_text(days_ago(10)));
    ck_status(meter_read(host, m, key, "History", days_ago(9), days_ago(8), 30), 201);
    ck_assert_int_eq(answer_int(http(host, "GET", path, m->token, NULL), "value"), 30);
}

TEST(each_type_of_a_request_raises_one_event_with_what_was_stored)
{
    int64_t id = meter_make(host, m, "raised", 10, days_ago(100));

    ck_status(meter_series(host, m, "raised", "Delta", days_ago(10), DAY_MS, 4, 100), 201);
    ck_status(meter_read(host, m, "raised", "Delta", days_ago(10), days_ago(9), 1), 409);
    const char *values[] = {text("%jd", (intmax_t)id)};
    const char *found = sql_text(db,
                                 "SELECT json_agg(payload::json) FROM spy_event"
                                 " WHERE name = 'reading.accepted'"
                                 " AND payload::jsonb ->> 'deviceId' = $1",
                                 1, values);
    const json_t *events = kept(json_loads(found, 0, NULL)), *event = json_array_get(events, 0);

    ck_assert_uint_eq(json_array_size(events), 1);
    ck_assert_str_eq(keys_of(event), "deviceId externalId uuid organizationId type count startDate "
                                     "endDate value unit");
    ck_assert_int_eq(int_in(event, "count"), 4);
    ck_assert_int_eq(int_in(event, "value"), 400);
    ck_assert_str_eq(text_in(event, "startDate"), time_text(days_ago(10)));
    ck_assert_str_eq(text_in(event, "endDate"), time_text(days_ago(6)));
}

TEST(an_idempotency_key_gives_the_first_answer_again)
{
    const char *key = plant("again");
    const char *headers[] = {"Idempotency-Key: reading-1", NULL};
    struct call call = {
        .method = "POST",
        .path = "/api/meter-reads/new/again",
        .token = m->token,
        .headers = headers,
        .body = text("{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%s\",\"endDate\":\"%s\","
                     "\"value\":7}",
                     time_text(days_ago(5)), time_text(days_ago(4)))};
    struct answer *first = ck_status(http_send(host, &call), 201);
    struct answer *second = ck_status(http_send(host, &call), 201);

    ck_assert_str_eq(first->body, second->body);
    ck_assert_int_eq(stored(key), 1);
}

static bool there(void *key)
{
    return stored(key) == 1;
}


TEST(a_client_that_leaves_before_the_answer_has_its_reading_stored_once)
{
    char *key = text("%s", plant("leaver"));
    const char *body = text("{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%s\","
                            "\"endDate\":\"%s\",\"value\":7}",
                            time_text(days_ago(5)), time_text(days_ago(4)));
    const char *bytes = text("POST /api/meter-reads/new/leaver HTTP/1.1\r\nHost: x\r\n"
                             "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                             "Content-Length: %zu\r\n\r\n%s",
                             m->token, strlen(body), body);
    int fd = raw_open(host);

    ck_assert_int_eq(write(fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    close(fd);
    ck_assert(wait_until(there, key, 5000));
    ck_status(meter_read(host, m, key, "Delta", days_ago(4), days_ago(3), 1), 201);
    ck_assert_int_eq(stored(key), 2);
}

struct row {
    char id[32], timestamp[32], value[32], unit[8];
};

enum { ROWS_MAX = 1000 };

static int read_rows(const char *path, struct row *rows)
{
    FILE *file = fopen(path, "re");
    char line[256];
    int count = 0;

    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
    while (count < ROWS_MAX && fgets(line, sizeof(line), file)) {
        struct row *row = &rows[count++];
        char *at = line;

        line[strcspn(line, "\r\n")] = '\0';
        snprintf(row->id, sizeof(row->id), "%s", strsep(&at, ","));
        snprintf(row->timestamp, sizeof(row->timestamp), "%s", strsep(&at, ","));
        snprintf(row->value, sizeof(row->value), "%s", strsep(&at, ","));
        snprintf(row->unit, sizeof(row->unit), "%s", at);
    }
    fclose(file);
    return count;
}

/* Posts a row; its period is the 24 hours before its timestamp. */
static struct answer *post_row(const struct row *row)
{
    struct tm tm = {0};

    ck_assert_ptr_nonnull(strptime(row->timestamp, "%Y-%m-%dT%H:%M:%SZ", &tm));
    int64_t end = (int64_t)timegm(&tm) * 1000;

    return meter_post(host, m, row->id,
                      json_pack("{ss ss ss ss so}", "type", "Delta", "unit", row->unit, "startDate",
                                time_text(end - DAY_MS), "endDate", row->timestamp, "value",
                                *row->value ? json_real(strtod(row->value, NULL)) : json_null()));
}

static bool seen_before(const struct row *rows, int index)
{
    for (int i = 0; i < index; i++)
        if (!strcmp(rows[i].id, rows[index].id))
            return true;
    return false;
}

/* Returns the total of the file in whole Wh, each row rounded. */
static int64_t expected_total(const struct row *rows, int count, const char *id)
{
    int64_t total = 0;

    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].id, id))
            total += (int64_t)(strtod(rows[i].value, NULL) + 0.5);
    return total;
}

TEST(the_real_daily_readings_add_up_by_device_and_what_is_refused_is_told_why)
{
    static struct row rows[ROWS_MAX];
    const char *path = shared_cases("readings/daily.csv");

    if (!path)
        return;
    int count = read_rows(path, rows), refused = 0;

    ck_assert_int_eq(count, 411);
    for (int i = 0; i < count; i++) {
        if (!seen_before(rows, i))
            meter_make(host, m, rows[i].id, 0.5, 1577836800000); /* 2020-01-01 */
        struct answer *answer = post_row(&rows[i]);
        bool good = *rows[i].value && strtod(rows[i].value, NULL) >= 0;

        if (good) {
            ck_status(answer, 201);
            continue;
        }
        expect_field(answer, 400, "value");
        refused++;
    }
    ck_assert_int_gt(refused, 0);
    for (int i = 0; i < count; i++)
        if (!seen_before(rows, i))
            ck_assert_int_eq(meter_total(host, m, rows[i].id),
                             expected_total(rows, count, rows[i].id));
}

static struct answer *refused(const struct person *by, const char *query)
{
    return http(host, "GET", text("/api/meter-reads/refused%s", query), by->token, NULL);
}

TEST(what_was_refused_is_kept_with_the_reason_and_is_no_reading)
{
    const char *key = plant("refusing");
    int64_t start = days_ago(5);

    ck_status(meter_series(host, m, key, "Delta", start, DAY_MS, 3, 70000), 409);
    ck_status(meter_read(host, m, key, "Delta", start, start, 1), 400);
    ck_assert_int_eq(stored(key), 0);
    struct answer *list = ck_status(refused(m, text("?externalId=%s", key)), 200);

    ck_assert_uint_eq(json_array_size(list->json), 4);
    const json_t *last = item_of(list, NULL, 1);

    ck_assert_int_eq(int_in(last, "value"), 70000);
    ck_assert_str_eq(text_in(last, "type"), "Delta");
    ck_assert_str_eq(text_in(last, "endDate"), time_text(start + 3 * DAY_MS));
    ck_assert_ptr_nonnull(strstr(text_in(last, "problem"), "plausible ceiling"));
    ck_status(meter_series(host, m, key, "Delta", start, DAY_MS, 3, 10), 201);
    struct answer *page = ck_status(refused(m, text("?externalId=%s&limit=3", key)), 200);

    page = ask(m, 200, NULL, "GET %s", next_page(page));
    ck_assert_uint_eq(json_array_size(page->json), 1);
    ck_assert_uint_eq(json_array_size(refused(b, "")->json), 0);
    ck_error(refused(b, text("?externalId=%s", key)), 404, "Device");
    ck_error(refused(m, "?after=x"), 400, "");
    ck_assert_uint_ge(json_array_size(refused(m, "")->json), 4);
    ck_assert_uint_ge(json_array_size(refused(admin, "")->json), 4);
    ck_assert_uint_eq(json_array_size(refused(m, "?start=2100-01-01")->json), 0);
}

TEST(of_a_request_and_of_an_organization_only_so_many_refused_ones_are_kept)
{
    const char *key = plant("flooding");

    for (int i = 0; i < 102; i++)
        ck_status(meter_series(host, m, key, "Delta", days_ago(90), HOUR_MS, 101, 70000), 409);
    int64_t count = 0;

    for (const char *next = "/api/meter-reads/refused"; next;) {
        struct answer *page = ask(m, 200, NULL, "GET %s", next);

        count += (int64_t)json_array_size(page->json);
        next = next_page(page);
    }
    ck_assert_int_eq(count, 10000);
}

static int64_t old_refused(void)
{
    return sql_number(db, "SELECT count(*) FROM reading_refused WHERE refused_at < now() -"
                          " interval '90 days'");
}

static bool is_swept(void *arg)
{
    (void)arg;
    return old_refused() == 0;
}

TEST(what_was_refused_90_days_ago_is_swept_away)
{
    const char *key = plant("forgetting");
    ck_status(meter_read(host, m, key, "Delta", days_ago(5), days_ago(4), 70000), 409);
    ck_status(meter_read(host, m, key, "Delta", days_ago(5), days_ago(4), 70001), 409);
    sql_run(db, "INSERT INTO reading_refused (organisation, device, problem, refused_at)"
                " SELECT 0, 0, '', now() - interval '91 days' FROM generate_series(1, 2500)");
    ck_assert_int_eq(old_refused(), 2500);
    host_stop(host);
    ck_assert(host_run(host)); /* the job's first run follows */
    ck_assert(wait_until(is_swept, NULL, 20000));
    ck_assert_uint_eq(json_array_size(refused(m, text("?externalId=%s", key))->json), 2);
}

STAGE_SUITE(reading_list, set_up, 120)
