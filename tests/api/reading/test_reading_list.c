/*
 * Reading meter readings: access, pages, the latest reading, events, a client that leaves,
 * and refused readings.
 */
#include "readings.h"
#include "talk.h"

TEST(a_device_of_another_organization_is_404)
{
    const char *reading = dated("{'type':'Delta','unit':'Wh','startDate':'@3','endDate':'@2',"
                                "'value':1}");
    const char *named = json_with(reading, text("{'organizationId':%jd}", m->organization));
    const char *readings = "/api/meter-reads/new/" PLANT;

    exchanges(host, {text("POST %s %s", readings, reading), b, 404, "Device"},
              {text("POST %s %s", readings, named), b, 404, "Device"},
              {text("GET %s", readings), b, 404, "Device"},
              {"GET /api/meter-reads/latestread/" PLANT, b, 404, "Device"},
              {text("GET %s", readings), admin, 200});
    ck_assert_int_eq(stored(PLANT), 0);
}

TEST(readings_are_listed_by_their_end_in_pages_and_by_period_and_type)
{
    const char *key = plant("listed"), *list = "GET /api/meter-reads/new/listed?%s";

    ck_status(meter_series(host, m, key, "Delta", days_ago(40), DAY_MS, 10, 3), 201);
    ck_status(meter_series(host, m, key, "History", days_ago(30), DAY_MS, 10, 5), 201);
    ck_assert_int_eq(meter_total(host, m, key), 80);
    ck_assert_uint_eq(json_array_size(ask(m, 200, NULL, list, "type=history")->json), 10);
    ask(m, 200, dated("[{'endDate':'@37'},{},{'endDate':'@35'}]"), list,
        dated("type=Delta&start=@38&end=@35"));
    ask(m, 400, NULL, list, "after=x");
    ask(m, 400, NULL, list, "type=x");
}

#define CLOCK_PUT_FORWARD                                                                          \
    INT64_C(1774735200000) /* 2026-03-28T22:00Z: an hour before that day in Berlin */

#define TOTALS "GET /api/meter-reads/new/%s/totals?%s"

/* Returns "value/reads" of each sum. */
static const char *sums(const char *key, const char *query)
{
    struct answer *list = ask(m, 200, NULL, TOTALS, key, query);
    const char *sums = "";
    size_t i;
    const json_t *sum;

    json_array_foreach (list->json, i, sum)
        sums = text("%s%s%jd/%jd", sums, i ? " " : "", int_in(sum, "value"), int_in(sum, "reads"));
    return sums;
}

TEST(readings_are_summed_by_days_of_a_time_zone)
{
    static const char *const rows[][2] = {
        {"timezone=Europe/Berlin", "10/1 230/23 240/24 7/1"},
        {"timezone=UTC", "20/2 240/24 220/22 7/1"},
        {"", "20/2 240/24 220/22 7/1"},
        {"by=day&timezone=UTC", "20/2 240/24 220/22 7/1"},
        {"by=hour&timezone=Europe/Berlin&limit=5", "10/1 10/1 10/1 10/1 10/1"},
        {"by=month&timezone=Europe/Berlin", "480/48 7/1"},
        {"by=year", "487/49"},
        {"by=year&type=history", "7/1"},
        {"by=year&start=2026-03-29T00:00Z&end=2026-03-29T02:00Z", "20/2"},
    };
    int64_t start = CLOCK_PUT_FORWARD;

    meter_make(host, m, "summed", 10, start - 400 * DAY_MS);
    ck_status(meter_series(host, m, "summed", "Delta", start, HOUR_MS, 48, 10), 201);
    ck_status(meter_series(host, m, "summed", "History", start + 4 * DAY_MS, DAY_MS, 1, 7), 201);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_str_eq(sums("summed", rows[i][0]), rows[i][1]);
    ask(m, 200,
        "[{},{'startDate':'2026-03-28T23:00:00.000Z','endDate':'2026-03-29T22:00:00.000Z'},{},{}]",
        TOTALS, "summed", "timezone=Europe/Berlin");
    ask(m, 200, "[{'startDate':'2026-03-29T01:00:00.000Z','endDate':'2026-03-29T02:00:00.000Z'}]",
        TOTALS, "summed",
        "by=hour&timezone=Europe/Berlin&start=2026-03-29T01:00Z&end=2026-03-29T02:00Z");
}

/* The second day of each of these begins with a clock change. */
static const struct {
    const char *zone;
    int64_t begin; /* of the day before */
    int hours;     /* length of the second day */
} midnights[] = {
    {"America/Santiago", INT64_C(1757131200000), 23}, /* 2025-09-06 */
    {"Atlantic/Azores", INT64_C(1761350400000), 25},  /* 2025-10-25 */
    {"Atlantic/Azores", INT64_C(1743210000000), 23},  /* 2025-03-29 */
    {"Africa/Cairo", INT64_C(1745445600000), 23},     /* 2025-04-24 */
    {"America/Havana", INT64_C(1761969600000), 25},   /* 2025-11-01 */
};

TEST(days_whose_midnight_is_skipped_or_repeated_are_summed_once)
{
    meter_make(host, m, "midnights", 10, midnights[2].begin - 400 * DAY_MS);
    for (size_t i = 0; i < sizeof midnights / sizeof *midnights; i++) {
        int64_t first = midnights[i].begin, second = first + DAY_MS;
        int64_t third = second + midnights[i].hours * HOUR_MS;
        const char *query = text("timezone=%s&start=%s&end=%s", midnights[i].zone, time_text(first),
                                 time_text(third));
        const char *day = "{'startDate':'%s','endDate':'%s','value':%d}";
        const char *one = text(day, time_text(first), time_text(second), 240);
        const char *two = text(day, time_text(second), time_text(third), midnights[i].hours * 10);

        ck_status(meter_series(host, m, "midnights", "Delta", first, HOUR_MS,
                               24 + midnights[i].hours, 10),
                  201);
        ask(m, 200, text("[%s,%s]", one, two), TOTALS, "midnights", query);
        struct answer *page =
            ask(m, 200, text("[%s]", one), TOTALS, "midnights", text("%s&limit=1", query));

        ask(m, 200, text("[%s]", two), TOTALS, "midnights",
            text("%s&after=%jd", query, (intmax_t)first)); /* a cursor of an earlier version */
        page = ask(m, 200, text("[%s]", two), "GET %s", next_page(page));
        ck_assert_ptr_null(next_page(page));
    }
}

TEST(a_sum_has_the_ceiling_of_its_period)
{
    int64_t start = days_ago(9);

    meter_make(host, m, "ceiled", 10, start - 30 * DAY_MS);
    ck_status(meter_series(host, m, "ceiled", "History", start, DAY_MS, 2, 7), 201);
    const json_t *day = item_of(ask(m, 200, NULL, TOTALS, "ceiled", "timezone=UTC"), NULL, 0);
    int64_t ceiling = int_in(day, "ceiling");

    ck_assert_int_gt(ceiling, 7);
    ck_status(meter_read(host, m, "ceiled", "Delta", start - DAY_MS, start, (double)ceiling + 1),
              409);
    ck_status(meter_read(host, m, "ceiled", "Delta", start - DAY_MS, start, (double)ceiling), 201);
}

TEST(sums_are_paged_and_invalid_queries_refused)
{
    meter_make(host, m, "paged sums", 10, CLOCK_PUT_FORWARD - 400 * DAY_MS);
    ck_status(meter_series(host, m, "paged sums", "Delta", CLOCK_PUT_FORWARD, DAY_MS / 2, 9, 10),
              201);
    struct answer *page =
        ask(m, 200, "[{},{},{}]", TOTALS, "paged%20sums", "limit=3&timezone=Europe/Berlin");

    ck_assert_ptr_null(next_page(ask(m, 200, "[{},{}]", "GET %s", next_page(page))));
    ask(m, 400, NULL, TOTALS, "paged%20sums", "by=week");
    ask(m, 400, NULL, TOTALS, "paged%20sums", "timezone=Mars/Olympus");
    ask(m, 400, NULL, TOTALS, "paged%20sums", "timezone=../../etc/passwd");
    ask(m, 400, NULL, TOTALS, "paged%20sums", "after=9223372036854775807");
    ask(b, 404, NULL, TOTALS, "paged%20sums", "");
}

TEST(the_latest_reading_is_the_one_that_ends_last)
{
    const char *key = plant("latest"), *latest = "GET /api/meter-reads/latestread/latest";

    ask(m, 404, "The device has no reading yet", "%s", latest);
    post_reading(key, "{'startDate':'@10','endDate':'@9','value':20}", 201, NULL);
    post_reading(key, "{'startDate':'@15','endDate':'@14','value':10}", 201, NULL);
    ask(m, 200, dated("{'value':20,'startDate':'@10'}"), "%s", latest);
    post_reading(key, "{'type':'History','startDate':'@9','endDate':'@8','value':30}", 201, NULL);
    ask(m, 200, "{'value':30}", "%s", latest);
    int64_t id = answer_int(ask(m, 200, NULL, "GET /api/device/latest"), "id");
    int64_t none = answer_int(ask(m, 200, NULL, "GET /api/device/%s", plant("never")), "id");
    const char *all =
        text("GET /api/meter-reads/latestread?deviceIds=%jd,%%20%jd,0%%20,%jd", none, id, id);

    ask(m, 200, text("[{'deviceId':%jd,'value':30,'type':'History'}]", id), "%s", all);
    ask(admin, 200, "[{}]", "%s", all);
    ask(b, 200, "[]", "%s", all);
    ask(admin, 200, "[{}]", "%s&organizationId=%jd", all, m->organization);
    ask(admin, 200, "[]", "%s&organizationId=%jd", all, b->organization);
    EACH_TEXT (bad, "x", "1,x", "1,,2", "1,", "%20", "1%202", "-1", "1234567890123456789")
        ask(m, 400, "{'errors':[{'field':'deviceIds'}]}",
            "GET /api/meter-reads/latestread?deviceIds=%s", bad);
}

TEST(a_request_raises_one_event_per_reading_type)
{
    int64_t id = meter_make(host, m, "raised", 10, days_ago(100));

    ck_status(meter_series(host, m, "raised", "Delta", days_ago(10), DAY_MS, 4, 100), 201);
    ck_status(meter_read(host, m, "raised", "Delta", days_ago(10), days_ago(9), 1), 409);
    const char *found = sql_text(db,
                                 "SELECT json_agg(payload::json) FROM spy_event"
                                 " WHERE name = 'reading.accepted'"
                                 " AND payload::jsonb ->> 'deviceId' = $1",
                                 1, (const char *[]){text("%jd", id)});
    const json_t *events = kept(json_of(found));

    expect_json(events, dated("[{'count':4,'value':400,'startDate':'@10','endDate':'@6'}]"));
    ck_assert_str_eq(keys_of(json_array_get(events, 0)),
                     "deviceId externalId uuid organizationId type count startDate "
                     "endDate value unit");
}

#define READING "{'type':'Delta','unit':'Wh','startDate':'@5','endDate':'@4','value':7}"

TEST(a_reading_of_a_client_that_disconnects_early_is_stored_once)
{
    char *key = text("%s", plant("leaver"));
    const char *body = json_with(dated(READING), "{}");
    const char *bytes = text("POST /api/meter-reads/new/leaver HTTP/1.1\r\nHost: x\r\n"
                             "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                             "Content-Length: %zu\r\n\r\n%s",
                             m->token, strlen(body), body);
    int fd = raw_open(host);

    ck_assert_int_eq(write(fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    close(fd);
    WAIT_UNTIL(stored(key) == 1, 5000);
    post_reading(key, "{'startDate':'@4','endDate':'@3','value':1}", 201, NULL);
    ck_assert_int_eq(stored(key), 2);
}

/* ---- refused readings ---- */

#define REFUSED "GET /api/meter-reads/refused?%s"

TEST(a_refused_reading_is_kept_with_its_reason)
{
    const char *key = plant("refusing");
    int64_t start = days_ago(5);

    ck_status(meter_series(host, m, key, "Delta", start, DAY_MS, 3, 70000), 409);
    ck_status(meter_read(host, m, key, "Delta", start, start, 1), 400);
    ck_assert_int_eq(stored(key), 0);
    ask(m, 200,
        dated("[{},{'value':70000,'type':'Delta','endDate':'@2','problem':'*plausible ceiling*',"
              "'errors':[{'field':'reads[2]*','code':'over_ceiling','params':{'ceiling':'*'}}]},"
              "{},{}]"),
        REFUSED, "externalId=refusing");
    ck_status(meter_series(host, m, key, "Delta", start, DAY_MS, 3, 10), 201);
    struct answer *page = ask(m, 200, "[{},{},{}]", REFUSED, "externalId=refusing&limit=3");

    ask(m, 200, "[{}]", "GET %s", next_page(page));
    ask(b, 200, "[]", REFUSED, "");
    ask(b, 404, "Device", REFUSED, "externalId=refusing");
    ask(m, 400, NULL, REFUSED, "after=x");
    ck_assert_uint_ge(json_array_size(ask(m, 200, NULL, REFUSED, "")->json), 4);
    ck_assert_uint_ge(json_array_size(ask(admin, 200, NULL, REFUSED, "")->json), 4);
    ask(m, 200, "[]", REFUSED, "start=2100-01-01");
}

TEST(refused_readings_are_limited_per_request_and_organization)
{
    int64_t device = meter_make(host, m, "flooding", 10, days_ago(100)), count = 0;

    ck_status(meter_series(host, m, "flooding", "Delta", days_ago(90), HOUR_MS, 101, 70000), 409);
    sql_is(db, 100, "SELECT count(*) FROM reading_refused WHERE device = %jd", device);
    sql_run(db, text("INSERT INTO reading_refused (organisation, device, problem, refused_at)"
                     " SELECT %jd, %jd, '', now() FROM generate_series(1, 9950)",
                     m->organization, device));
    ck_status(meter_series(host, m, "flooding", "Delta", days_ago(90), HOUR_MS, 101, 70000), 409);
    EACH_PAGE (page, m, "/api/meter-reads/refused")
        count += (int64_t)json_array_size(page->json);
    ck_assert_int_eq(count, 10000);
}

static int64_t old_refused(void)
{
    return sql_number(db, "SELECT count(*) FROM reading_refused WHERE refused_at < now() -"
                          " interval '90 days'");
}

TEST(refused_readings_are_deleted_after_90_days)
{
    const char *key = plant("forgetting");

    post_reading(key, "{'startDate':'@5','endDate':'@4','value':70000}", 409, NULL);
    post_reading(key, "{'startDate':'@5','endDate':'@4','value':70001}", 409, NULL);
    sql_run(db, "INSERT INTO reading_refused (organisation, device, problem, refused_at)"
                " SELECT 0, 0, '', now() - interval '91 days' FROM generate_series(1, 2500)");
    ck_assert_int_eq(old_refused(), 2500);
    host_stop(host);
    ck_assert(host_run(host)); /* the job's first run follows */
    WAIT_UNTIL(old_refused() == 0, 20000);
    ask(m, 200, "[{},{}]", REFUSED, "externalId=forgetting");
}

TEST(months_in_which_no_host_ran_get_partitions)
{
    sql_run(db, "BEGIN");
    sql_run(db,
            "DO $$ BEGIN EXECUTE (SELECT 'DROP TABLE ' || string_agg(c.relname, ',')"
            " FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid"
            " WHERE inhparent = 'reading'::regclass AND c.relname ~ '_20(2[5-9]|[3-9])'); END $$");
    sql_run(db, "SELECT reading_partitions()");
    sql_is(db, 0,
           "SELECT count(*) FROM generate_series(timestamp '2025-01-01', now() AT TIME ZONE"
           " 'UTC' + interval '1 year', '1 month') AS month"
           " WHERE to_regclass(to_char(month, '\"reading_\"YYYYMM')) IS NULL");
    sql_run(db, "ROLLBACK");
}

OPENED_SUITE(reading_list, readings_open, 120)
