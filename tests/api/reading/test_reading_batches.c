/*
 * Meter readings that conflict with others: overlaps, one row for repeated readings (R02), batches,
 * periods without a start, time zones.
 */
#include <string.h>

#include "exposition.h"
#include "readings.h"
#include "suite.h"
#include "suites.h"
#include "together.h"

static void set_up(void)
{
    readings_open("reading_batches");
}

TEST(periods_of_a_device_may_touch_but_not_overlap_whatever_their_types)
{
    const char *key = plant("overlaps");
    int64_t start = days_ago(30);

    ck_status(meter_series(host, m, key, "Delta", start, DAY_MS, 3, 100), 201);
    ck_status(meter_read(host, m, key, "History", start + 5 * DAY_MS, start + 6 * DAY_MS, 1), 201);
    ck_status(meter_read(host, m, key, "History", start - DAY_MS, start, 1), 201);
    ck_status(meter_read(host, m, key, "Delta", start + 3 * DAY_MS, start + 5 * DAY_MS, 1), 201);
    struct answer *answers[] = {
        meter_read(host, m, key, "Delta", start, start + DAY_MS, 1),
        meter_read(host, m, key, "History", start, start + DAY_MS, 100),
        meter_read(host, m, key, "Delta", start + 6 * DAY_MS - 1, start + 7 * DAY_MS, 1),
        meter_read(host, m, key, "Delta", start - 2 * DAY_MS, start - DAY_MS + 1, 1),
        meter_read(host, m, key, "History", start + HOUR_MS, start + 2 * HOUR_MS, 1),
        meter_read(host, m, key, "Delta", start - 3 * DAY_MS, start + 20 * DAY_MS, 1),
        meter_read(host, m, key, "History", start - HOUR_MS, start + HOUR_MS, 1),
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        expect_field(answers[i], 409, "value");
    ck_assert_int_eq(stored(key), 6);
}

/* Many concurrent requests with both types: their rows lock the device. */
TEST(of_one_period_in_both_types_in_parallel_one_is_stored)
{
    enum { TOGETHER = 16 };
    struct answer *answers[TOGETHER];
    struct call calls[TOGETHER];

    for (int round = 0; round < repetitions(3, 10); round++) {
        const char *key = plant(text("both%d", round));
        int made = 0;

        for (int i = 0; i < TOGETHER; i++)
            calls[i] =
                (struct call){.method = "POST",
                              .path = text("/api/meter-reads/new/%s", key),
                              .token = m->token,
                              .body = text("{\"type\":\"%s\",\"unit\":\"Wh\",\"startDate\":\"%s\","
                                           "\"endDate\":\"%s\",\"value\":7}",
                                           i % 2 ? "Delta" : "History", time_text(days_ago(5)),
                                           time_text(days_ago(4) + i))};
        parallel(host, calls, answers, TOGETHER);
        for (int i = 0; i < TOGETHER; i++)
            made += answers[i]->status == 201;
        ck_assert_int_eq(made, 1);
        ck_assert_int_eq(stored(key), 1);
    }
}

static const char *problem_of(const struct answer *answer, size_t index)
{
    return text_in(item_of(answer, "errors", index), "problem");
}

TEST(an_overlap_names_the_stored_reading_and_says_whether_it_came_again)
{
    const char *key = plant("names"), *start = time_text(days_ago(9)),
               *end = time_text(days_ago(8));
    const char *stored_one =
        text("overlaps the stored Delta reading of 31 Wh from %s to %s, which is", start, end);

    ck_status(meter_read(host, m, key, "Delta", days_ago(9), days_ago(8), 31), 201);
    struct answer *again = meter_read(host, m, key, "Delta", days_ago(9), days_ago(8), 31);
    struct answer *others[] = {
        meter_read(host, m, key, "Delta", days_ago(9), days_ago(8), 32),
        meter_read(host, m, key, "History", days_ago(9), days_ago(8), 31),
        meter_read(host, m, key, "Delta", days_ago(9) - 1, days_ago(8), 31),
        meter_read(host, m, key, "Delta", days_ago(9), days_ago(8) + 1, 31),
    };

    expect_field(again, 409, "value");
    ck_assert_str_eq(problem_of(again, 0), text("%s the same reading, sent again", stored_one));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        expect_field(others[i], 409, "value");
        ck_assert_str_eq(problem_of(others[i], 0), text("%s a different reading", stored_one));
    }
    ck_assert_int_eq(stored(key), 1);
}

static void expect_mistake(const struct answer *answer, size_t index, const char *field,
                           const char *problem)
{
    ck_assert_str_eq(text_in(item_of(answer, "errors", index), "field"), field);
    ck_assert_msg(strstr(problem_of(answer, index), problem), "%zu: %s", index, answer->body);
}

TEST(every_mistake_of_every_kind_is_named_in_one_answer)
{
    const char *key = plant("mistakes");
    int64_t at = days_ago(50);

    ck_status(meter_read(host, m, key, "Delta", at, at + DAY_MS, 10), 201);
    json_t *reads = json_pack(
        "[{ss ss si ss ss} {ss si} {ss ss si} {ss ss si} {ss ss si} {ss ss si} {ss ss s[]} i]",
        "startDate", "yesterday", "endDate", time_text(days_ago(-3)), "value", -4, "type", "Sum",
        "unit", "W", "endDate", "2026-02-30", "value", 1, "startDate", time_text(days_ago(200)),
        "endDate", time_text(days_ago(201)), "value", 1, "startDate", time_text(days_ago(20)),
        "endDate", time_text(days_ago(19)), "value", 65754, "startDate", time_text(at + HOUR_MS),
        "endDate", time_text(at + DAY_MS), "value", 10, "startDate",
        time_text(days_ago(20) + HOUR_MS), "endDate", time_text(days_ago(18)), "value", 10,
        "startDate", time_text(days_ago(10)), "endDate", time_text(days_ago(9)), "value", 7);
    struct answer *answer =
        ck_error(meter_post(host, m, key,
                            json_pack("{ss ss ss so}", "type", "Delta", "unit", "Wh", "timezone",
                                      "Europe/Nowhere", "reads", reads)),
                 400, "");
    static const struct {
        const char *field, *problem;
    } expected[] = {
        {"timezone", "IANA"},
        {"reads[0].type", "History or Delta"},
        {"reads[0].unit", "must be Wh"},
        {"reads[0].value", "negative"},
        {"reads[0].startDate", "ISO 8601"},
        {"reads[0].endDate", "future"},
        {"reads[1].endDate", "ISO 8601"},
        {"reads[2].startDate", "commissioning"},
        {"reads[2].endDate", "later than startDate"},
        {"reads[3]", "plausible ceiling of 65753 Wh"},
        {"reads[4]", "overlaps the stored Delta reading of 10 Wh"},
        {"reads[5]", "overlaps reads[3]"},
        {"reads[6].value", "must be a number"},
        {"reads[7]", "must be an object"},
    };
    size_t count = sizeof(expected) / sizeof(expected[0]);

    ck_assert_msg(json_array_size(json_object_get(answer->json, "errors")) == count, "%s",
                  answer->body);
    for (size_t i = 0; i < count; i++)
        expect_mistake(answer, i, expected[i].field, expected[i].problem);
    ck_assert_int_eq(stored(key), 1);
}

TEST(ceilings_and_overlaps_are_one_conflict)
{
    const char *key = plant("conflicts");

    ck_status(meter_series(host, m, key, "History", days_ago(50), DAY_MS, 3, 5), 201);
    struct answer *answer = meter_series(host, m, key, "Delta", days_ago(48), DAY_MS, 3, 70000);

    expect_field(answer, 409, "reads[0]");
    ck_assert_uint_eq(json_array_size(json_object_get(answer->json, "errors")), 4);
    expect_mistake(answer, 0, "reads[0]", "ceiling");
    expect_mistake(answer, 1, "reads[0]", "overlaps the stored History reading of 5 Wh");
    ck_assert_ptr_nonnull(strstr(answer_text(answer, "message"), "; and 3 others"));
    ck_assert_int_eq(stored(key), 3);
}

/* R02 */
TEST(of_the_same_reading_in_parallel_one_is_stored_and_the_others_conflict)
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

/* One request stores the reading; the others find its key, early or late, and get its response. */
TEST(a_reading_that_is_sent_many_times_with_one_key_is_counted_once)
{
    enum { TOGETHER = 16 };
    struct answer *answers[TOGETHER];
    struct call calls[TOGETHER];

    for (int round = 0; round < repetitions(2, 8); round++) {
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

TEST(a_batch_is_stored_whole_or_not_at_all_and_each_bad_reading_is_named)
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

TEST(a_batch_in_any_order_of_both_types_is_answered_in_the_order_of_the_request)
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

TEST(ten_thousand_readings_in_a_request_are_fine_and_one_more_is_not)
{
    meter_make(host, m, "crowd", 10, days_ago(450));
    struct answer *made =
        ck_status(meter_series(host, m, "crowd", "Delta", days_ago(440), HOUR_MS, 10000, 1), 201);

    ck_assert_uint_eq(json_array_size(json_object_get(made->json, "reads")), 10000);
    ck_assert_int_eq(stored("crowd"), 10000);
    ck_error(meter_series(host, m, "crowd", "Delta", days_ago(440), 60000, 10001, 1), 400, "");
}

TEST(a_delta_without_a_start_begins_where_the_one_before_it_ends)
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

/* Its period is at most 366 days, and a reading of the other type counts as the previous one. */
TEST(the_first_delta_without_a_start_begins_at_most_366_days_before_its_end)
{
    meter_make(host, m, "old", 10, days_ago(1000));
    static const char *const types[] = {"History", "Delta"};

    for (int i = 0; i < 2; i++) {
        const char *key = i ? "old" : plant("young");
        struct answer *made =
            ck_status(meter_post(host, m, key,
                                 json_pack("{ss ss ss si}", "type", "Delta", "unit", "kWh",
                                           "endDate", time_text(days_ago(40)), "value", 1)),
                      201);

        ck_assert_str_eq(text_in(item_of(made, "reads", 0), "startDate"),
                         time_text(days_ago(i ? 406 : 100)));
        ck_status(meter_read(host, m, key, types[i], days_ago(39), days_ago(38), 1), 201);
        made = ck_status(meter_post(host, m, key,
                                    json_pack("{ss ss ss si}", "type", "Delta", "unit", "kWh",
                                              "endDate", time_text(days_ago(30)), "value", 1)),
                         201);
        ck_assert_str_eq(text_in(item_of(made, "reads", 0), "startDate"), time_text(days_ago(38)));
    }
}

static const char *berlin(const char *field)
{
    return answer_text(ask(m, 200, NULL, "GET /api/device/berlin"), field);
}

TEST(local_dates_are_those_of_the_time_zone_and_the_device_keeps_it)
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
    /* the zone of an earlier reading is kept, and another one does not replace it */
    made = ck_status(
        meter_post(host, m, "berlin",
                   json_pack("{ss ss ss ss si}", "type", "Delta", "unit", "kWh", "startDate",
                             "2025-06-01T12:00", "endDate", "2025-06-01T13:00", "value", 1)),
        201);
    ck_assert_str_eq(text_in(item_of(made, "reads", 0), "startDate"), "2025-06-01T12:00:00.000Z");
    ck_assert_str_eq(text_in(item_of(made, "reads", 0), "endDate"), "2025-06-01T13:00:00.000Z");
    ck_status(meter_post(host, m, "berlin",
                         json_pack("{ss ss ss ss ss si}", "type", "Delta", "unit", "kWh",
                                   "timezone", "Asia/Kolkata", "startDate", "2025-07-01", "endDate",
                                   "2025-07-02", "value", 1)),
              201);
    ck_assert_str_eq(berlin("timezone"), "Europe/Berlin");
    ck_assert_str_eq(berlin("updatedAt"), named);
}

TEST(an_organization_in_the_query_counts_as_one_in_the_body)
{
    meter_make(host, m, "query", 10, days_ago(100));
    const char *body = "{\"type\":\"Delta\",\"unit\":\"Wh\",\"value\":5,\"endDate\":\"%s\"}";
    json_t *reading = json_loads(text(body, date_text(days_ago(50))), 0, NULL);

    const char *foreign =
        text("/api/meter-reads/new/query?organizationId=%jd", (intmax_t)b->organization);
    const char *own =
        text("/api/meter-reads/new/query?organizationId=%jd", (intmax_t)m->organization);

    ck_error(http(host, "POST", foreign, b->token, json_deep_copy(reading)), 404, "Device");
    ck_error(http(host, "POST", own, b->token, json_deep_copy(reading)), 404, "Device");
    ck_assert_int_eq(stored("query"), 0);
    ck_status(http(host, "POST", foreign, m->token, json_deep_copy(reading)), 201);
    ck_error(http(host, "POST", own, m->token, reading), 409, "");
    ck_assert_int_eq(stored("query"), 1);
}

/* ---- many meters at once ---- */

enum { METERS = 24 };

/* Returns a meter's reading in a round: usually its next day, sometimes one that is refused. */
static const char *reading_of(int meter, int round, int day, long *status)
{
    bool again = day > 0 && (meter + round) % 4 == 3, much = (meter * 5 + round) % 7 == 6;
    int64_t start = days_ago(90 - (again ? day - 1 : day));

    *status = again || much ? 409 : 201;
    return text(
        "{\"type\":\"%s\",\"unit\":\"Wh\",\"startDate\":\"%s\",\"endDate\":\"%s\",\"value\":%d}",
        (meter + round) % 2 ? "Delta" : "History", time_text(start), time_text(start + DAY_MS),
        much ? 9000000 : 1000 + round);
}

/* Readings that wait together are stored by one statement, and each gets its own response. The host
 * has no spy, which would add a statement to each unit. */
TEST(readings_of_many_meters_at_once_are_each_judged_by_themselves)
{
    int days[METERS] = {0};
    struct host *of = host_start(&(struct host_spec){.name = "reading_together",
                                                     .database = "reading_batches",
                                                     .modules = "[auth, device, reading, metrics]",
                                                     .db = "  unit_connections: 1\n"});
    struct together held = {.host = of,
                            .admin = admin,
                            .db = db,
                            .tables = "reading IN SHARE MODE",
                            .pool = "unit",
                            .least = METERS / 2};

    for (int i = 0; i < METERS; i++)
        plant(text("many%d", i));
    for (int round = 0; round < repetitions(5, 12); round++) {
        struct call calls[METERS];
        struct answer *answers[METERS];
        long wanted[METERS];

        for (int i = 0; i < METERS; i++)
            calls[i] = (struct call){.method = "POST",
                                     .path = text("/api/meter-reads/new/many%d", i),
                                     .token = m->token,
                                     .body = reading_of(i, round, days[i], &wanted[i])};
        ask_together(&held, calls, answers, METERS);
        for (int i = 0; i < METERS; i++) {
            ck_status(answers[i], wanted[i]);
            days[i] += wanted[i] == 201;
        }
    }
    for (int i = 0; i < METERS; i++)
        ck_assert_int_eq(stored(text("many%d", i)), days[i]);
    expect_shared(&held, METERS);
    host_stop(of);
}

STAGE_SUITE(reading_batches, set_up, 120)
