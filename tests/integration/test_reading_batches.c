/*
 * Meter readings that meet others: overlaps, one row for what comes twice (R02), batches, periods
 * without a start, time zones.
 */
#include "exposition.h"
#include "readings.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    readings_open("reading_batches");
}

START_TEST(periods_may_touch_but_not_overlap_and_types_do_not_meet)
{
    const char *key = plant("overlaps");
    int64_t start = days_ago(30);

    ck_status(meter_series(host, m, key, "Delta", start, DAY_MS, 3, 100), 201);
    ck_status(meter_read(host, m, key, "Delta", start + 5 * DAY_MS, start + 6 * DAY_MS, 1), 201);
    ck_status(meter_read(host, m, key, "Delta", start - DAY_MS, start, 1), 201);
    ck_status(meter_read(host, m, key, "Delta", start + 3 * DAY_MS, start + 5 * DAY_MS, 1), 201);
    ck_status(meter_read(host, m, key, "History", start, start + DAY_MS, 1), 201);
    struct answer *answers[] = {
        meter_read(host, m, key, "Delta", start, start + DAY_MS, 1),
        meter_read(host, m, key, "Delta", start + 6 * DAY_MS - 1, start + 7 * DAY_MS, 1),
        meter_read(host, m, key, "Delta", start - 2 * DAY_MS, start - DAY_MS + 1, 1),
        meter_read(host, m, key, "Delta", start + HOUR_MS, start + 2 * HOUR_MS, 1),
        meter_read(host, m, key, "Delta", start - 3 * DAY_MS, start + 20 * DAY_MS, 1),
        meter_read(host, m, key, "History", start - HOUR_MS, start + HOUR_MS, 1),
    };

    for (int i = 0; i < 6; i++)
        expect_field(answers[i], 409, "value");
    ck_assert_int_eq(stored(key), 7);
}

/* R02 */
START_TEST(of_the_same_reading_in_parallel_one_is_stored_and_the_others_conflict)
{
    enum { TOGETHER = 16 };
    const char *key = plant("parallel");
    struct answer *answers[TOGETHER];
    struct call calls[TOGETHER];
    int made = 0;

    for (int i = 0; i < TOGETHER; i++)
        calls[i] =
            (struct call){.method = "POST",
                          .path = "/api/meter-reads/new/parallel",
                          .token = m->token,
                          .body = text("{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%s\","
                                       "\"endDate\":\"%s\",\"value\":7}",
                                       time_text(days_ago(5)), time_text(days_ago(4)))};
    parallel(host, calls, answers, TOGETHER);
    for (int i = 0; i < TOGETHER; i++) {
        made += answers[i]->status == 201;
        if (answers[i]->status != 201)
            ck_error(answers[i], 409, "Conflict");
    }
    ck_assert_int_eq(made, 1);
    ck_assert_int_eq(stored(key), 1);
}

static double accepted(void)
{
    return exposition_value(exposition_get(host, admin->token), "busbar_reading_accepted_total",
                            "");
}

/* One stores; the others meet its key, early or late, and get its answer. */
START_TEST(a_reading_that_is_sent_many_times_with_one_key_is_counted_once)
{
    enum { TOGETHER = 16, ROUNDS = 8 };
    struct answer *answers[TOGETHER];
    struct call calls[TOGETHER];

    for (int round = 0; round < ROUNDS; round++) {
        const char *key = plant(text("counted%d", round));
        const char *const headers[] = {text("Idempotency-Key: %s", key), NULL};
        double before = accepted();

        for (int i = 0; i < TOGETHER; i++)
            calls[i] = (struct call){
                .method = "POST",
                .path = text("/api/meter-reads/new/%s", key),
                .token = m->token,
                .headers = headers,
                .body = text("{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%s\","
                             "\"endDate\":\"%s\",\"value\":7}",
                             time_text(days_ago(5)), time_text(days_ago(4)))};
        parallel(host, calls, answers, TOGETHER);
        for (int i = 0; i < TOGETHER; i++)
            ck_assert_str_eq(ck_status(answers[i], 201)->body, answers[0]->body);
        ck_assert_int_eq(stored(key), 1);
        ck_assert_double_eq(accepted() - before, 1);
    }
}

START_TEST(a_batch_is_stored_whole_or_not_at_all_and_each_bad_reading_is_named)
{
    const char *key = plant("batch");
    json_t *reads = json_array();

    for (int i = 0; i < 200; i++) {
        json_t *read =
            json_pack("{ss ss si}", "startDate", time_text(days_ago(50) + i * HOUR_MS), "endDate",
                      time_text(days_ago(50) + (i + 1) * HOUR_MS), "value", 10);

        if (i % 2)
            json_object_set_new(read, "value", json_integer(-i));
        json_array_append_new(reads, read);
    }
    struct answer *refused =
        ck_error(meter_post(host, m, key,
                            json_pack("{ss ss so}", "type", "Delta", "unit", "Wh", "reads", reads)),
                 400, "");
    const json_t *errors = json_object_get(refused->json, "errors");

    ck_assert_uint_eq(json_array_size(errors), 100);
    for (size_t i = 0; i < 100; i++)
        ck_assert_str_eq(text_in(json_array_get(errors, i), "field"),
                         text("reads[%zu].value", 2 * i + 1));
    ck_assert_int_eq(stored(key), 0);
    ck_status(meter_series(host, m, key, "Delta", days_ago(50) + 3 * HOUR_MS, HOUR_MS, 2, 5), 201);
    struct answer *overlap = meter_series(host, m, key, "Delta", days_ago(50), HOUR_MS, 10, 5);

    expect_field(overlap, 409, "reads[3]");
    ck_assert_str_eq(text_in(item_of(overlap, "errors", 1), "field"), "reads[4]");
    ck_assert_uint_eq(json_array_size(json_object_get(overlap->json, "errors")), 2);
    ck_assert_int_eq(stored(key), 2);
}

START_TEST(a_batch_in_any_order_of_both_types_is_answered_in_the_order_of_the_request)
{
    const char *key = plant("mixed");
    json_t *reads = json_array();

    for (int i = 5; i >= 0; i--)
        json_array_append_new(reads, json_pack("{ss ss ss si}", "type", i % 2 ? "Delta" : "History",
                                               "startDate", time_text(days_ago(20 - i)), "endDate",
                                               time_text(days_ago(19 - i)), "value", 100 + i));
    struct answer *made = ck_status(
        meter_post(host, m, key, json_pack("{ss so}", "unit", "Wh", "reads", reads)), 201);

    for (size_t i = 0; i < 6; i++)
        ck_assert_int_eq(int_in(item_of(made, "reads", i), "value"), 105 - (int64_t)i);
    json_t *twice =
        json_pack("[{ss ss si} {ss ss si}]", "startDate", time_text(days_ago(9)), "endDate",
                  time_text(days_ago(7)), "value", 1, "startDate", time_text(days_ago(8)),
                  "endDate", time_text(days_ago(6)), "value", 1);

    expect_field(meter_post(host, m, key,
                            json_pack("{ss ss so}", "type", "Delta", "unit", "Wh", "reads", twice)),
                 409, "reads[1]");
    ck_assert_int_eq(stored(key), 6);
}

START_TEST(ten_thousand_readings_in_a_request_are_fine_and_one_more_is_not)
{
    meter_make(host, m, "crowd", 10, days_ago(450));
    struct answer *made =
        ck_status(meter_series(host, m, "crowd", "Delta", days_ago(440), HOUR_MS, 10000, 1), 201);

    ck_assert_uint_eq(json_array_size(json_object_get(made->json, "reads")), 10000);
    ck_assert_int_eq(stored("crowd"), 10000);
    ck_error(meter_series(host, m, "crowd", "Delta", days_ago(440), 60000, 10001, 1), 400, "");
}

START_TEST(a_delta_without_a_start_begins_where_the_one_before_it_ends)
{
    const char *key = plant("chained");
    json_t *reads = json_pack("[{ss si} {ss si}]", "endDate", time_text(days_ago(40)), "value", 2,
                              "endDate", time_text(days_ago(60)), "value", 1);
    struct answer *made = ck_status(
        meter_post(host, m, key,
                   json_pack("{ss ss so}", "type", "Delta", "unit", "kWh", "reads", reads)),
        201);

    ck_assert_str_eq(text_in(item_of(made, "reads", 1), "startDate"), time_text(days_ago(100)));
    ck_assert_str_eq(text_in(item_of(made, "reads", 0), "startDate"), time_text(days_ago(60)));
    for (int day = 30; day > 10; day -= 10) {
        made = ck_status(meter_post(host, m, key,
                                    json_pack("{ss ss ss si}", "type", "Delta", "unit", "kWh",
                                              "endDate", time_text(days_ago(day)), "value", 1)),
                         201);
        ck_assert_str_eq(text_in(item_of(made, "reads", 0), "startDate"),
                         time_text(days_ago(day + 10)));
    }
    expect_field(meter_post(host, m, key,
                            json_pack("{ss ss ss si}", "type", "Delta", "unit", "kWh", "endDate",
                                      time_text(days_ago(35)), "value", 1)),
                 409, "value");
}

static const char *berlin(const char *field)
{
    return answer_text(ck_status(http(host, "GET", "/api/device/berlin", m->token, NULL), 200),
                       field);
}

START_TEST(local_dates_are_those_of_the_time_zone_and_the_device_keeps_it)
{
    meter_make(host, m, "berlin", 10, 1735689600000); /* 2025-01-01 */
    struct answer *made = ck_status(
        meter_post(host, m, "berlin",
                   json_pack("{ss ss ss s[{ss ss si} {ss ss si}]}", "type", "Delta", "unit", "kWh",
                             "timezone", "Europe/Berlin", "reads", "startDate", "2025-03-30",
                             "endDate", "2025-03-31", "value", 1, "startDate", "2025-10-26T00:00",
                             "endDate", "2025-10-27T00:00", "value", 1)),
        201);

    ck_assert_str_eq(text_in(item_of(made, "reads", 0), "startDate"), "2025-03-29T23:00:00.000Z");
    ck_assert_str_eq(text_in(item_of(made, "reads", 0), "endDate"), "2025-03-30T22:00:00.000Z");
    ck_assert_str_eq(text_in(item_of(made, "reads", 1), "startDate"), "2025-10-25T22:00:00.000Z");
    ck_assert_str_eq(text_in(item_of(made, "reads", 1), "endDate"), "2025-10-26T23:00:00.000Z");
    const char *named = berlin("updatedAt");

    ck_assert_str_eq(berlin("timezone"), "Europe/Berlin");
    ck_assert_str_ge(named, text_in(item_of(made, "reads", 0), "createdAt"));
    /* from now on the device's, and another one does not replace it */
    made = ck_status(
        meter_post(host, m, "berlin",
                   json_pack("{ss ss ss ss si}", "type", "Delta", "unit", "kWh", "startDate",
                             "2025-06-01T12:00", "endDate", "2025-06-01T13:00", "value", 1)),
        201);
    ck_assert_str_eq(text_in(item_of(made, "reads", 0), "startDate"), "2025-06-01T10:00:00.000Z");
    ck_status(meter_post(host, m, "berlin",
                         json_pack("{ss ss ss ss ss si}", "type", "Delta", "unit", "kWh",
                                   "timezone", "Asia/Kolkata", "startDate", "2025-07-01", "endDate",
                                   "2025-07-02", "value", 1)),
              201);
    ck_assert_str_eq(berlin("timezone"), "Europe/Berlin");
    ck_assert_str_eq(berlin("updatedAt"), named);
}

START_TEST(an_organisation_in_the_query_counts_as_one_in_the_body)
{
    meter_make(host, m, "query", 10, days_ago(100));
    const char *body = "{\"type\":\"Delta\",\"unit\":\"Wh\",\"value\":5,\"endDate\":\"%s\"}";
    json_t *reading = json_loads(text(body, date_text(days_ago(50))), 0, NULL);

    ck_error(http(host, "POST",
                  text("/api/meter-reads/new/query?organizationId=%jd", (intmax_t)b->organisation),
                  m->token, json_deep_copy(reading)),
             403, "");
    ck_assert_int_eq(stored("query"), 0);
    ck_status(http(host, "POST",
                   text("/api/meter-reads/new/query?organizationId=%jd", (intmax_t)m->organisation),
                   m->token, reading),
              201);
}

Suite *reading_batches_suite(void)
{
    const TTest *const tests[] = {
        periods_may_touch_but_not_overlap_and_types_do_not_meet,
        of_the_same_reading_in_parallel_one_is_stored_and_the_others_conflict,
        a_reading_that_is_sent_many_times_with_one_key_is_counted_once,
        a_batch_is_stored_whole_or_not_at_all_and_each_bad_reading_is_named,
        a_batch_in_any_order_of_both_types_is_answered_in_the_order_of_the_request,
        ten_thousand_readings_in_a_request_are_fine_and_one_more_is_not,
        a_delta_without_a_start_begins_where_the_one_before_it_ends,
        local_dates_are_those_of_the_time_zone_and_the_device_keeps_it,
        an_organisation_in_the_query_counts_as_one_in_the_body,
    };

    return stage_suite("reading_batches", set_up, 120, TESTS(tests));
}
