/* Meter readings: valid values, and the ceiling (R01). */
#include <string.h>
#include <time.h>

#include "exchange.h"
#include "readings.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    readings_open("readings");
}

TEST(a_reading_is_answered_and_read_back_in_watt_hours)
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

    ck_assert_str_eq(keys_of(read), "id startDate endDate value unit type createdAt");
    ck_assert_int_eq(int_in(read, "value"), 300);
    ck_assert_str_eq(text_in(read, "unit"), "Wh");
    ck_assert_str_eq(text_in(read, "type"), "Delta");
    ck_assert_str_eq(text_in(read, "startDate"), time_text(days_ago(9)));
    ck_assert_str_eq(answer_text(made, "externalId"), key);
    ck_assert_uint_eq(json_array_size(list->json), 1);
    ck_assert(json_equal(item_of(list, NULL, 0), read));
    struct answer *latest = ask(m, 200, NULL, "GET /api/meter-reads/latestread/%s", key);

    ck_assert(json_equal(latest->json, read));
}

TEST(a_second_name_with_another_date_is_ignored_and_told)
{
    const char *key = plant("twice");

    for (int i = 0; i < 2; i++) {
        json_t *body = json_pack("{ss ss}", "type", "Delta", "unit", "Wh");
        json_t *read =
            json_pack("{ss ss ss sf}", "startDate", time_text(days_ago(9 - i)), "starttimestamp",
                      time_text(days_ago(20)), "endDate", time_text(days_ago(8 - i)), "value", 5.0);

        if (i)
            json_object_set_new(body, "reads", json_pack("[o]", read));
        else
            json_object_update_new(body, read);
        struct answer *made = ck_status(meter_post(host, m, key, body), 201);
        const json_t *warnings = json_object_get(made->json, "warnings");

        ck_assert_str_eq(text_in(item_of(made, "reads", 0), "startDate"),
                         time_text(days_ago(9 - i)));
        ck_assert_str_eq(json_string_value(json_array_get(warnings, 0)),
                         "starttimestamp: is ignored, because startDate was sent, too");
    }
}

TEST(older_clients_use_other_paths)
{
    static const char *const paths[] = {"/api/meter-reads/", "/api/meter-reads/addByAdmin/new/"};
    const char *key = plant("older");

    for (int i = 0; i < 2; i++) {
        ask(m, 201, NULL,
            "POST %s%s {'type':'Delta','unit':'Wh','startDate':'%s','endDate':'%s','value':5.0}",
            paths[i], key, time_text(days_ago(9 - i)), time_text(days_ago(8 - i)));
    }
    ck_assert_uint_eq(json_array_size(ck_status(meter_list(host, m, key, ""), 200)->json), 2);
}

TEST(every_unit_is_rounded_to_a_watt_hour)
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
TEST(a_reading_at_the_ceiling_is_stored_and_one_watt_hour_more_is_a_conflict)
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

TEST(a_corrected_capacity_lets_the_reading_pass)
{
    const char *key = plant("corrected");

    ck_status(meter_read(host, m, key, "Delta", days_ago(20), days_ago(19), 70000), 409);
    ask(m, 200, NULL, "PATCH /api/device/%s {'capacity':11}", key);
    ck_status(meter_read(host, m, key, "Delta", days_ago(20), days_ago(19), 70000), 201);
}

/* R01: changes of a valid reading. */
TEST(what_is_not_valid_is_refused_with_the_field_and_never_stored)
{
    const char *first = time_text(days_ago(20)), *second = time_text(days_ago(19));
    const char *base = text(
        "{'type':'Delta','unit':'Wh','startDate':'%s','endDate':'%s','value':1}", first, second);
    const char *const rows[][2] = {
        {"endDate", text("{'endDate':'%s'}", first)},
        {"endDate", text("{'startDate':'%s','endDate':'%s'}", second, first)},
        {"endDate", text("{'startDate':'%s','endDate':'%s'}", second, time_text(days_ago(-2)))},
        {"startDate", text("{'startDate':'%s'}", time_text(days_ago(101)))},
        {"startDate", "{'type':'History','startDate':'(absent)'}"},
        {"endDate", text("{'startDate':'%s','endDate':'(absent)'}", second)},
        {"startDate", "{'startDate':'2026-02-30'}"},
        {"startDate", "{'startDate':1700000000}"},
        {"unit", "{'unit':'(absent)'}"},
        {"unit", "{'unit':'W'}"},
        {"type", "{'type':'(absent)'}"},
        {"type", "{'type':'Sum'}"},
        {"type", "{'type':7}"},
        {"value", "{'value':'(absent)'}"},
        {"value", "{'value':null}"},
        {"value", "{'value':'5 kWh'}"},
        {"value", "{'value':'-0.1'}"},
        {"value", "{'value':-1}"},
        {"reads", "{'reads':[]}"},
        {"reads[0]", "{'reads':[7]}"},
        {"timezone", "{'timezone':'Europe/Nowhere'}"},
        {"timezone", "{'timezone':'../Europe/Berlin'}"},
    };
    const char *path = "/api/meter-reads/new/" PLANT;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ask(m, 400, text("{'errors':[{'field':'%s'}]}", rows[i][0]), "POST %s %s", path,
            json_with(base, rows[i][1]));
    /* a number, and more than any ceiling */
    ask(m, 409, "{'errors':[{'field':'value'}]}", "POST %s %s", path,
        json_with(base, "{'unit':'GWh','value':1e290}"));
    ck_assert_int_eq(stored(PLANT), 0);
}

/* At night a photovoltaic plant generates nothing. */
TEST(a_reading_of_0_is_stored_and_one_below_is_not)
{
    static const double values[] = {0, 0.4, -0.0};
    const char *key = plant("night");

    for (int i = 0; i < 3; i++) {
        struct answer *made = ck_status(meter_read(host, m, key, i ? "Delta" : "History",
                                                   days_ago(20 - i), days_ago(19 - i), values[i]),
                                        201);

        ck_assert_int_eq(int_in(item_of(made, "reads", 0), "value"), 0);
    }
    expect_field(meter_read(host, m, key, "Delta", days_ago(9), days_ago(8), -0.4), 400, "value");
    ck_assert_int_eq(stored(key), 3);
}

TEST(an_end_may_be_five_minutes_ahead)
{
    enum { MINUTE_MS = 60000 };
    const char *key = plant("ahead");
    int64_t now = (int64_t)time(NULL) * 1000;

    expect_field(meter_read(host, m, key, "Delta", now - HOUR_MS, now + 6 * MINUTE_MS, 1), 400,
                 "endDate");
    ck_status(meter_read(host, m, key, "Delta", now - HOUR_MS, now + 4 * MINUTE_MS, 1), 201);
}

TEST(decimal_texts_blanks_and_empty_texts_are_taken)
{
    const char *key = plant("texts");
    struct answer *made = ck_status(
        meter_post(host, m, key,
                   json_pack("{ss ss s[{ss ss ss} {ss ss ss}]}", "type", " delta ", "unit",
                             "\tkWh\n", "reads", "startDate", text(" %s ", time_text(days_ago(9))),
                             "endDate", text("%s ", time_text(days_ago(8))), "value", " 0.5005 ",
                             "startDate", "", "endDate", time_text(days_ago(7)), "value", "+1e-1")),
        201);

    ck_assert_int_eq(int_in(item_of(made, "reads", 0), "value"), 501);
    ck_assert_int_eq(int_in(item_of(made, "reads", 1), "value"), 100);
    ck_assert_str_eq(text_in(item_of(made, "reads", 1), "startDate"), time_text(days_ago(8)));
    expect_field(meter_post(host, m, key,
                            json_pack("{ss ss ss ss}", "type", "Delta", "unit", "kWh", "endDate",
                                      time_text(days_ago(6)), "value", "  ")),
                 400, "value");
}

TEST(dates_without_an_offset_and_without_a_time_zone_are_utc)
{
    const char *key = plant("utc");
    char *start = time_text(days_ago(20) + 10 * HOUR_MS), *end = time_text(days_ago(19));

    start[16] = '\0';
    end[19] = '\0';
    struct answer *made =
        ck_status(meter_post(host, m, key,
                             json_pack("{ss ss ss ss si}", "type", "Delta", "unit", "Wh",
                                       "startDate", start, "endDate", end, "value", 1)),
                  201);

    ck_assert_str_eq(text_in(item_of(made, "reads", 0), "startDate"),
                     time_text(days_ago(20) + 10 * HOUR_MS));
    ck_assert_str_eq(text_in(item_of(made, "reads", 0), "endDate"), time_text(days_ago(19)));
}

TEST(a_period_of_more_than_366_days_is_refused)
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

/* A period of 366 days is an hour longer if the clock was set back in it, and an hour shorter if it
 * was set forward. */
TEST(the_days_of_a_period_are_those_of_its_time_zone)
{
    meter_make(host, m, "berlin years", 10, INT64_C(1420070400000)); /* 2015-01-01 */
    expect_field(berlin_read("2016-10-28", "2017-10-30"), 400, "endDate");
    expect_field(berlin_read("2016-10-29", "2017-10-30T00:01"), 400, "endDate");
    ck_status(berlin_read("2016-10-29", "2017-10-30"), 201);
    expect_field(berlin_read("2019-03-30T00:00:00Z", "2020-03-30T00:00:01Z"), 400, "endDate");
    ck_status(berlin_read("2019-03-30T00:00:00Z", "2020-03-30T00:00:00Z"), 201);
    /* 2021-10-30 to 2022-10-31, midnight in the device's current time zone */
    int64_t start = INT64_C(1635544800000), end = start + 366 * DAY_MS + HOUR_MS;

    ck_status(meter_read(host, m, "berlin years", "History", start, end, 1000), 201);
}

static struct answer *change(const char *key, const char *field, const char *value)
{
    return http(host, "PATCH", text("/api/device/%s", key), m->token,
                json_pack("{ss?}", field, value));
}

TEST(a_device_is_not_commissioned_after_a_stored_reading)
{
    const char *key = plant("commissioned");

    int64_t first = days_ago(30) + 12 * HOUR_MS;

    ck_status(change(key, "commissioningDate", date_text(days_ago(40))), 200);
    ck_status(meter_series(host, m, key, "History", first, DAY_MS, 1, 500), 201);
    ck_status(meter_series(host, m, key, "Delta", days_ago(20), DAY_MS, 2, 500), 201);
    struct answer *refused =
        ck_error(change(key, "commissioningDate", date_text(days_ago(29))), 409, "Conflict");

    ck_assert_ptr_nonnull(strstr(answer_text(refused, "message"), time_text(first)));
    struct answer *before = ask(m, 200, NULL, "GET /api/device/%s", key);

    ck_assert_str_eq(answer_text(before, "commissioningDate"), date_text(days_ago(40)));
    ck_status(change(key, "capacity", "11"), 200);
    ck_status(change(key, "commissioningDate", date_text(days_ago(30))), 200);
    /* there a day begins 14 hours earlier than in UTC */
    ck_status(change(key, "timezone", "Pacific/Kiritimati"), 200);
    ck_status(change(key, "commissioningDate", date_text(days_ago(29))), 200);
    ck_error(change(key, "commissioningDate", date_text(days_ago(28))), 409, "Conflict");
    ck_error(change(key, "commissioningDate", NULL), 409,
             "Conflict: commissioningDate cannot be cleared");
    ck_error(change(key, "capacity", NULL), 409, "Conflict: capacity cannot be cleared");
}

TEST(a_device_without_capacity_or_commissioning_is_told_so)
{
    ask(m, 201, NULL, "POST /api/device {'externalId':'bare','commissioningDate':'2020-01-01'}");
    expect_field(meter_read(host, m, "bare", "Delta", days_ago(3), days_ago(2), 1), 400,
                 "capacity");
    ask(m, 201, NULL, "POST /api/device {'externalId':'undated','capacity':5}");
    expect_field(meter_read(host, m, "undated", "Delta", days_ago(3), days_ago(2), 1), 400,
                 "commissioningDate");
}

STAGE_SUITE(readings, set_up, 120)
