/*
 * Meter readings: what is valid, the ceiling (R01), overlaps, one row for what comes twice (R02),
 * batches, time zones, whose devices (O26), pages, a client that leaves (F36), and the readings of
 * real devices. M has one organisation, B another.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meter.h"
#include "shared.h"
#include "suites.h"
#include "talk.h"

static struct host *host;
static struct person *admin, *m, *b;
static PGconn *db;

/* 10 kW, commissioned 100 days ago: 65,753 Wh a day. */
#define PLANT "plant"

static void set_up(void)
{
    host = host_start(&(struct host_spec){
        .name = "readings",
        .database = database_make(the_postgres, "readings"),
        .modules = text("[auth, device, reading, \"%s\"]", harness_test_module("module_spy"))});
    admin = admin_of(host);
    m = person_make(host, admin, "readings.m", NULL);
    b = person_make(host, admin, "readings.b", NULL);
    meter_make(host, m, PLANT, 10, days_ago(100));
}

static void tear_down(void)
{
    host_stop(host);
}

static void connect_db(void)
{
    db = database_connect(the_postgres, "readings");
}

static void disconnect_db(void)
{
    PQfinish(db);
}

/* A device of its own for a test, 10 kW and 100 days old. */
static const char *plant(const char *name)
{
    meter_make(host, m, name, 10, days_ago(100));
    return name;
}

static int64_t stored(const char *external_id)
{
    return sql_number(db, text("SELECT count(*) FROM reading r JOIN device d ON d.id = r.device"
                               " WHERE d.external_id = '%s'",
                               external_id));
}

static void expect_field(struct answer *answer, long status, const char *field)
{
    ck_error(answer, status, status == 409 ? "Conflict" : "");
    const char *named = text_in(item_of(answer, "errors", 0), "field");

    ck_assert_msg(!strcmp(named, field), "%s is not %s: %s", named, field, answer->body);
}

START_TEST(a_reading_is_answered_and_read_back_in_watt_hours)
{
    const char *key = plant("answered");
    struct answer *made =
        ck_status(meter_post(host, m, key,
                             json_pack("{ss ss sn ss ss sf}", "type", "delta", "unit", "kwh",
                                       "startDate", "starttimestamp", time_text(days_ago(9)),
                                       "endtimestamp", time_text(days_ago(8)), "value", 0.1 + 0.2)),
                  201);
    const json_t *read = item_of(made, "reads", 0);
    struct answer *list = ck_status(meter_list(host, m, key, ""), 200);

    ck_assert_str_eq(keys_of(read), "startDate endDate value unit type createdAt");
    ck_assert_int_eq(int_in(read, "value"), 300);
    ck_assert_str_eq(text_in(read, "unit"), "Wh");
    ck_assert_str_eq(text_in(read, "type"), "Delta");
    ck_assert_str_eq(text_in(read, "startDate"), time_text(days_ago(9)));
    ck_assert_str_eq(answer_text(made, "externalId"), key);
    ck_assert_uint_eq(json_array_size(list->json), 1);
    ck_assert(json_equal(item_of(list, NULL, 0), read));
    struct answer *latest = ck_status(
        http(host, "GET", text("/api/meter-reads/latestread/%s", key), m->token, NULL), 200);

    ck_assert(json_equal(latest->json, read));
}

START_TEST(every_unit_is_rounded_to_a_watt_hour)
{
    static const struct {
        const char *unit;
        double value;
        int64_t wh;
    } cases[] = {{"Wh", 0.5, 1},
                 {"wH", 1234.4, 1234},
                 {"kWh", 0.0015, 2},
                 {"MWH", 0.02, 20000},
                 {"GWh", 0.00001, 10000}};
    const char *key = plant("units");

    for (int i = 0; i < 5; i++) {
        struct answer *made = ck_status(
            meter_post(host, m, key,
                       json_pack("{ss ss ss ss sf}", "type", "History", "unit", cases[i].unit,
                                 "startDate", time_text(days_ago(50 - i)), "endDate",
                                 time_text(days_ago(49 - i)), "value", cases[i].value)),
            201);

        ck_assert_int_eq(int_in(item_of(made, "reads", 0), "value"), cases[i].wh);
    }
}

/* R01 */
START_TEST(a_reading_at_the_ceiling_is_stored_and_one_watt_hour_more_is_a_conflict)
{
    const char *key = plant("ceiling");
    struct answer *over = meter_read(host, m, key, "Delta", days_ago(20), days_ago(19), 65754);

    expect_field(over, 409, "value");
    const char *message = answer_text(over, "message");

    ck_assert_msg(strstr(message, "65754 Wh") && strstr(message, "65753 Wh") &&
                      strstr(message, "10 kW") && strstr(message, "24 hours") &&
                      strstr(message, "yield 2000"),
                  "%s", message);
    ck_assert(json_is_false(json_object_get(over->json, "success")));
    ck_assert_int_eq(stored(key), 0);
    ck_status(meter_read(host, m, key, "Delta", days_ago(20), days_ago(19), 65753), 201);
    ck_error(meter_read(host, m, key, "Delta", days_ago(19), days_ago(18), 1e300), 409, "Conflict");
    ck_assert_int_eq(stored(key), 1);
}

START_TEST(a_corrected_capacity_lets_the_reading_pass)
{
    const char *key = plant("corrected");

    ck_status(meter_read(host, m, key, "Delta", days_ago(20), days_ago(19), 70000), 409);
    ck_status(http(host, "PATCH", text("/api/device/%s", key), m->token,
                   json_pack("{si}", "capacity", 11)),
              200);
    ck_status(meter_read(host, m, key, "Delta", days_ago(20), days_ago(19), 70000), 201);
}

struct bad {
    const char *field;
    const char *body; /* %1$s: 20 days ago, %2$s: 19 days ago, %3$s tomorrow, %4$s: 101 days ago */
};

/* R01 */
static const struct bad bad[] = {
    {"endDate", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%1$s\",\"endDate\":\"%1$s\","
                "\"value\":1}"},
    {"endDate", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%2$s\",\"endDate\":\"%1$s\","
                "\"value\":1}"},
    {"endDate", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%2$s\",\"endDate\":\"%3$s\","
                "\"value\":1}"},
    {"startDate", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%4$s\",\"endDate\":\"%2$s\","
                  "\"value\":1}"},
    {"startDate", "{\"type\":\"History\",\"unit\":\"Wh\",\"endDate\":\"%2$s\",\"value\":1}"},
    {"endDate", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%2$s\",\"value\":1}"},
    {"startDate", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"2026-02-30\","
                  "\"endDate\":\"%2$s\",\"value\":1}"},
    {"startDate", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"2026-02-20T10:00\","
                  "\"endDate\":\"%2$s\",\"value\":1}"},
    {"startDate", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":1700000000,"
                  "\"endDate\":\"%2$s\",\"value\":1}"},
    {"unit", "{\"type\":\"Delta\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\",\"value\":1}"},
    {"unit", "{\"type\":\"Delta\",\"unit\":\"W\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\","
             "\"value\":1}"},
    {"type", "{\"unit\":\"Wh\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\",\"value\":1}"},
    {"type", "{\"type\":\"Sum\",\"unit\":\"Wh\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\","
             "\"value\":1}"},
    {"type", "{\"type\":7,\"unit\":\"Wh\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\","
             "\"value\":1}"},
    {"value", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\"}"},
    {"value", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\","
              "\"value\":null}"},
    {"value", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\","
              "\"value\":\"5\"}"},
    {"value", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\","
              "\"value\":0}"},
    {"value", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\","
              "\"value\":-1}"},
    {"value", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\","
              "\"value\":0.4}"},
    {"value", "{\"type\":\"Delta\",\"unit\":\"GWh\",\"startDate\":\"%1$s\",\"endDate\":\"%2$s\","
              "\"value\":1e290}"},
    {"reads", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"reads\":[]}"},
    {"reads[0]", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"reads\":[7]}"},
    {"timezone", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"timezone\":\"Europe/Nowhere\","
                 "\"startDate\":\"%1$s\",\"endDate\":\"%2$s\",\"value\":1}"},
    {"timezone", "{\"type\":\"Delta\",\"unit\":\"Wh\",\"timezone\":\"../Europe/Berlin\","
                 "\"startDate\":\"%1$s\",\"endDate\":\"%2$s\",\"value\":1}"},
};

START_TEST(what_is_not_valid_is_refused_with_the_field_and_never_stored)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char body[512];

        snprintf(body, sizeof(body), bad[i].body, time_text(days_ago(20)), time_text(days_ago(19)),
                 time_text(days_ago(-2)), time_text(days_ago(101)));
        struct call call = {.method = "POST",
                            .path = "/api/meter-reads/new/" PLANT,
                            .token = m->token,
                            .body = body};
        /* 1e290 GWh is a number, and more than any ceiling. */
        bool conflict = strstr(body, "1e290") != NULL;

        expect_field(http_send(host, &call), conflict ? 409 : 400, bad[i].field);
    }
    ck_assert_int_eq(stored(PLANT), 0);
}

START_TEST(a_period_of_more_than_366_days_is_refused)
{
    meter_make(host, m, "years", 10, days_ago(1000));
    expect_field(meter_read(host, m, "years", "History", days_ago(900), days_ago(533), 1000), 400,
                 "endDate");
    ck_status(meter_read(host, m, "years", "History", days_ago(900), days_ago(534), 1000), 201);
}

START_TEST(a_device_without_capacity_or_commissioning_is_told_so)
{
    ck_status(http(host, "POST", "/api/device", m->token,
                   json_pack("{ss ss}", "externalId", "bare", "commissioningDate", "2020-01-01")),
              201);
    expect_field(meter_read(host, m, "bare", "Delta", days_ago(3), days_ago(2), 1), 400,
                 "capacity");
    ck_status(http(host, "POST", "/api/device", m->token,
                   json_pack("{ss si}", "externalId", "undated", "capacity", 5)),
              201);
    expect_field(meter_read(host, m, "undated", "Delta", days_ago(3), days_ago(2), 1), 400,
                 "commissioningDate");
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
    ck_assert_str_eq(
        answer_text(http(host, "GET", "/api/device/berlin", m->token, NULL), "timezone"),
        "Europe/Berlin");
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
    ck_assert_str_eq(
        answer_text(http(host, "GET", "/api/device/berlin", m->token, NULL), "timezone"),
        "Europe/Berlin");
}

/* O26 */
START_TEST(another_organisations_device_is_unknown)
{
    ck_error(meter_read(host, b, PLANT, "Delta", days_ago(3), days_ago(2), 1), 404, "Device");
    ck_error(meter_list(host, b, PLANT, ""), 404, "Device");
    ck_error(http(host, "GET", "/api/meter-reads/latestread/" PLANT, b->token, NULL), 404,
             "Device");
    ck_status(meter_list(host, admin, PLANT, ""), 200);
    ck_error(meter_post(host, b, PLANT,
                        json_pack("{ss ss ss ss si sI}", "type", "Delta", "unit", "Wh", "startDate",
                                  time_text(days_ago(3)), "endDate", time_text(days_ago(2)),
                                  "value", 1, "organizationId", (json_int_t)m->organisation)),
             403, "");
    ck_assert_int_eq(stored(PLANT), 0);
}

START_TEST(readings_are_listed_by_their_end_in_pages_and_by_period_and_type)
{
    const char *key = plant("listed");
    int64_t start = days_ago(40);

    ck_status(meter_series(host, m, key, "Delta", start, DAY_MS, 10, 3), 201);
    ck_status(meter_series(host, m, key, "History", start, DAY_MS, 10, 5), 201);
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

START_TEST(the_latest_reading_is_the_one_that_ends_last_whenever_it_came)
{
    const char *key = plant("latest");
    const char *path = "/api/meter-reads/latestread/latest";

    ck_error(http(host, "GET", path, m->token, NULL), 404, "The device has no reading yet");
    ck_status(meter_read(host, m, key, "Delta", days_ago(10), days_ago(9), 20), 201);
    ck_status(meter_read(host, m, key, "Delta", days_ago(15), days_ago(14), 10), 201);
    struct answer *latest = ck_status(http(host, "GET", path, m->token, NULL), 200);

    ck_assert_int_eq(answer_int(latest, "value"), 20);
    ck_assert_str_eq(answer_text(latest, "startDate"), time_text(days_ago(10)));
    ck_status(meter_read(host, m, key, "History", days_ago(9), days_ago(8), 30), 201);
    ck_assert_int_eq(answer_int(http(host, "GET", path, m->token, NULL), "value"), 30);
}

START_TEST(each_type_of_a_request_raises_one_event_with_what_was_stored)
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

START_TEST(an_idempotency_key_gives_the_first_answer_again)
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

/* F36 */
START_TEST(a_client_that_leaves_before_the_answer_has_its_reading_stored_once)
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

/* ---- readings of real devices ---- */

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

/* The period of a row is the 24 hours before its timestamp. */
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

/* Of the file, by whole Wh, as a clerk would add them up. */
static int64_t expected_total(const struct row *rows, int count, const char *id)
{
    int64_t total = 0;

    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].id, id))
            total += (int64_t)(strtod(rows[i].value, NULL) + 0.5);
    return total;
}

START_TEST(the_real_daily_readings_add_up_by_device_and_what_is_refused_is_told_why)
{
    static struct row rows[ROWS_MAX];
    const char *path = shared_cases("readings/daily.csv");

    if (!path)
        return;
    int count = read_rows(path, rows), refused = 0;

    ck_assert_int_gt(count, 100);
    for (int i = 0; i < count; i++) {
        if (!seen_before(rows, i))
            meter_make(host, m, rows[i].id, 0.5, 1577836800000); /* 2020-01-01 */
        struct answer *answer = post_row(&rows[i]);
        bool good = strtod(rows[i].value, NULL) > 0;

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

Suite *readings_suite(void)
{
    const TTest *const tests[] = {
        a_reading_is_answered_and_read_back_in_watt_hours,
        every_unit_is_rounded_to_a_watt_hour,
        a_reading_at_the_ceiling_is_stored_and_one_watt_hour_more_is_a_conflict,
        a_corrected_capacity_lets_the_reading_pass,
        what_is_not_valid_is_refused_with_the_field_and_never_stored,
        a_period_of_more_than_366_days_is_refused,
        a_device_without_capacity_or_commissioning_is_told_so,
        periods_may_touch_but_not_overlap_and_types_do_not_meet,
        of_the_same_reading_in_parallel_one_is_stored_and_the_others_conflict,
        a_batch_is_stored_whole_or_not_at_all_and_each_bad_reading_is_named,
        a_batch_in_any_order_of_both_types_is_answered_in_the_order_of_the_request,
        ten_thousand_readings_in_a_request_are_fine_and_one_more_is_not,
        a_delta_without_a_start_begins_where_the_one_before_it_ends,
        local_dates_are_those_of_the_time_zone_and_the_device_keeps_it,
        another_organisations_device_is_unknown,
        readings_are_listed_by_their_end_in_pages_and_by_period_and_type,
        the_latest_reading_is_the_one_that_ends_last_whenever_it_came,
        each_type_of_a_request_raises_one_event_with_what_was_stored,
        an_idempotency_key_gives_the_first_answer_again,
        a_client_that_leaves_before_the_answer_has_its_reading_stored_once,
        the_real_daily_readings_add_up_by_device_and_what_is_refused_is_told_why,
    };
    Suite *suite = suite_create("readings");
    TCase *cases = tcase_create("readings");

    tcase_add_unchecked_fixture(cases, set_up, tear_down);
    tcase_add_checked_fixture(cases, connect_db, disconnect_db);
    tcase_set_timeout(cases, 120);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return suite;
}
