/* Meter readings: what is valid, and the ceiling (R01). */
#include <string.h>

#include "readings.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    readings_open("readings");
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
                 {"kWh", 0.5005, 501},
                 {"kWh", 0.5004999, 500},
                 {"MWh", 0.0005005, 501},
                 {"GWh", 0.0000005005, 501},
                 {"MWH", 0.02, 20000},
                 {"GWh", 0.00001, 10000}};
    const char *key = plant("units");

    for (int i = 0; i < (int)(sizeof(cases) / sizeof(*cases)); i++) {
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

static struct answer *berlin_read(const char *start, const char *end)
{
    return meter_post(host, m, "berlin years",
                      json_pack("{ss ss ss ss ss si}", "type", "History", "unit", "kWh", "timezone",
                                "Europe/Berlin", "startDate", start, "endDate", end, "value", 1));
}

/* Its 366 days have an hour more where the clock was put back in between, and one less where it was
 * put forward. */
START_TEST(the_days_of_a_period_are_those_of_its_time_zone)
{
    meter_make(host, m, "berlin years", 10, INT64_C(1420070400000)); /* 2015-01-01 */
    expect_field(berlin_read("2016-10-28", "2017-10-30"), 400, "endDate");
    expect_field(berlin_read("2016-10-29", "2017-10-30T00:01"), 400, "endDate");
    ck_status(berlin_read("2016-10-29", "2017-10-30"), 201);
    expect_field(berlin_read("2019-03-30T00:00:00Z", "2020-03-30T00:00:01Z"), 400, "endDate");
    ck_status(berlin_read("2019-03-30T00:00:00Z", "2020-03-30T00:00:00Z"), 201);
    /* 2021-10-30 to 2022-10-31, midnight in the time zone that the device has now */
    int64_t start = INT64_C(1635544800000), end = start + 366 * DAY_MS + HOUR_MS;

    ck_status(meter_read(host, m, "berlin years", "History", start, end, 1000), 201);
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

Suite *readings_suite(void)
{
    const TTest *const tests[] = {
        a_reading_is_answered_and_read_back_in_watt_hours,
        every_unit_is_rounded_to_a_watt_hour,
        a_reading_at_the_ceiling_is_stored_and_one_watt_hour_more_is_a_conflict,
        a_corrected_capacity_lets_the_reading_pass,
        what_is_not_valid_is_refused_with_the_field_and_never_stored,
        a_period_of_more_than_366_days_is_refused,
        the_days_of_a_period_are_those_of_its_time_zone,
        a_device_without_capacity_or_commissioning_is_told_so,
    };

    return stage_suite("readings", set_up, 120, TESTS(tests));
}
