/* Meter readings: valid values, and the ceiling. */
#include <time.h>

#include "readings.h"
#include "talk.h"

TEST(a_reading_is_returned_and_read_back_in_watt_hours)
{
    const char *key = plant("answered");
    struct answer *made = post_reading(
        key,
        "{'type':'delta','unit':'kwh','startDate':null,'starttimestamp':'@9','endtimestamp':'@8',"
        "'value':0.30000000000000004}",
        201,
        "{'externalId':'answered','reads':[{'value':300,'unit':'Wh','type':'Delta',"
        "'startDate':'@9'}]}");
    const json_t *read = item_of(made, "reads", 0);
    struct answer *list = ck_status(meter_list(host, m, key, ""), 200);

    ck_assert_str_eq(keys_of(read), "id startDate endDate value unit type createdAt");
    ck_assert_uint_eq(json_array_size(list->json), 1);
    ck_assert(json_equal(item_of(list, NULL, 0), read));
    ck_assert(json_equal(ask(m, 200, NULL, "GET /api/meter-reads/latestread/%s", key)->json, read));
}

TEST(an_alias_with_another_date_is_ignored_with_a_warning)
{
    const char *warned = "{'reads':[{'startDate':'%s'}],'warnings':['starttimestamp: is ignored,"
                         " because startDate was sent, too']}";
    const char *key = plant("twice");

    post_reading(key, "{'startDate':'@9','starttimestamp':'@20','endDate':'@8','value':5}", 201,
                 text(warned, "@9"));
    post_reading(key,
                 "{'reads':[{'startDate':'@8','starttimestamp':'@20','endDate':'@7','value':5}]}",
                 201, text(warned, "@8"));
}

TEST(the_paths_of_older_clients_work)
{
    const char *key = plant("older"), *reading = "{'type':'Delta','unit':'Wh','startDate':'%s',"
                                                 "'endDate':'%s','value':5}";

    ask(m, 201, NULL, "POST /api/meter-reads/older %s", dated(text(reading, "@9", "@8")));
    ask(m, 201, NULL, "POST /api/meter-reads/addByAdmin/new/older %s",
        dated(text(reading, "@8", "@7")));
    ck_assert_int_eq(stored(key), 2);
}

TEST(every_unit_is_rounded_to_watt_hours)
{
    static const struct {
        const char *unit, *value;
        int wh;
    } cases[] = {{"Wh", "0.5", 1},         {"wH", "1234.4", 1234},    {"kWh", "0.0015", 2},
                 {"kWh", "0.5005", 501},   {"kWh", "0.5004999", 500}, {"MWh", "0.0005005", 501},
                 {"GWh", "5.005e-7", 501}, {"MWH", "0.02", 20000},    {"GWh", "0.00001", 10000}};
    const char *key = plant("units");

    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        post_reading(key,
                     text("{'type':'History','unit':'%s','startDate':'@%d','endDate':'@%d',"
                          "'value':%s}",
                          cases[i].unit, 50 - i, 49 - i, cases[i].value),
                     201, text("{'reads':[{'value':%d}]}", cases[i].wh));
}

#define DAY "{'startDate':'@20','endDate':'@19','value':%s}"

TEST(a_reading_above_the_ceiling_is_a_conflict)
{
    const char *key = plant("ceiling");

    post_reading(key, text(DAY, "65754"), 409,
                 "{'errors':[{'field':'value'}],'success':false,"
                 "'message':'Conflict*65754 Wh*65753 Wh*10 kW, 24 hours, yield 2000*'}");
    ck_assert_int_eq(stored(key), 0);
    post_reading(key, text(DAY, "65753"), 201, NULL);
    post_reading(key, "{'startDate':'@19','endDate':'@18','value':1e300}", 409, "Conflict");
    ck_assert_int_eq(stored(key), 1);
    ask(m, 200, "[{'value':null},{'value':65754}]",
        "GET /api/meter-reads/refused?externalId=ceiling");
}

/* The yield of the device has priority, then the yield of its country, then the default. */
TEST(the_ceiling_depends_on_the_yield_and_capacity_of_the_device)
{
    static const char *const patches[][2] = {{"{'countryCode':'AFG'}", "yield 1000"},
                                             {"{'yieldValue':1500}", "yield 1500"},
                                             {"{'yieldValue':null}", "yield 1000"},
                                             {"{'countryCode':'DE'}", "yield 2000"}};
    const char *key = plant("yielding");

    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        ask(m, 200, NULL, "PATCH /api/device/%s %s", key, patches[i][0]);
        post_reading(key, text(DAY, "70000"), 409, text("{'message':'*%s *'}", patches[i][1]));
    }
    ask(m, 200, NULL, "PATCH /api/device/%s {'capacity':11}", key);
    post_reading(key, text(DAY, "70000"), 201, NULL);
}

/* Changes of a valid reading. */
TEST(invalid_readings_are_refused_with_the_field_and_not_stored)
{
    static const char *const rows[][2] = {
        {FIELD("endDate"), "{'endDate':'@20'}"},
        {FIELD("endDate"), "{'startDate':'@19','endDate':'@20'}"},
        {FIELD("endDate"), "{'startDate':'@19','endDate':'@-2'}"},
        {FIELD("startDate"), "{'startDate':'@101'}"},
        {FIELD("startDate"), "{'type':'History','startDate':'(absent)'}"},
        {FIELD("endDate"), "{'startDate':'@19','endDate':'(absent)'}"},
        {FIELD("startDate"), "{'startDate':'2026-02-30'}"},
        {FIELD("startDate"), "{'startDate':1700000000}"},
        {FIELD("unit"), "{'unit':'(absent)'}"},
        {FIELD("unit"), "{'unit':'W'}"},
        {FIELD("type"), "{'type':'(absent)'}"},
        {FIELD("type"), "{'type':'Sum'}"},
        {FIELD("type"), "{'type':7}"},
        {FIELD("value"), "{'value':'(absent)'}"},
        {FIELD("value"), "{'value':null}"},
        {FIELD("value"), "{'value':'5 kWh'}"},
        {FIELD("value"), "{'value':'-0.1'}"},
        {FIELD("value"), "{'value':-1}"},
        {FIELD("value"), "{'value':'  '}"},
        {FIELD("reads"), "{'reads':[]}"},
        {FIELD("reads[0]"), "{'reads':[7]}"},
        {FIELD("timezone"), "{'timezone':'Europe/Nowhere'}"},
        {FIELD("timezone"), "{'timezone':'../Europe/Berlin'}"},
    };
    const char *base = dated("{'type':'Delta','unit':'Wh','startDate':'@20','endDate':'@19',"
                             "'value':1}");
    const char *path = "/api/meter-reads/new/" PLANT;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ask(m, 400, rows[i][0], "POST %s %s", path, json_with(base, dated(rows[i][1])));
    /* a number, and more than any ceiling */
    ask(m, 409, FIELD("value"), "POST %s %s", path,
        json_with(base, "{'unit':'GWh','value':1e290}"));
    ck_assert_int_eq(stored(PLANT), 0);
}

/* At night a photovoltaic plant generates nothing. */
TEST(a_reading_of_zero_is_stored_and_a_negative_one_refused)
{
    const char *key = plant("night");

    post_reading(key, "{'type':'History','startDate':'@20','endDate':'@19','value':0}", 201,
                 "{'reads':[{'value':0}]}");
    post_reading(key, "{'startDate':'@19','endDate':'@18','value':0.4}", 201,
                 "{'reads':[{'value':0}]}");
    post_reading(key, "{'startDate':'@18','endDate':'@17','value':-0.0}", 201,
                 "{'reads':[{'value':0}]}");
    post_reading(key, "{'startDate':'@9','endDate':'@8','value':-0.4}", 400, FIELD("value"));
    ck_assert_int_eq(stored(key), 3);
}

TEST(an_end_may_be_five_minutes_in_the_future)
{
    enum { MINUTE_MS = 60000 };
    const char *key = plant("ahead"), *period = "{'startDate':'%s','endDate':'%s','value':1}";
    int64_t now = (int64_t)time(NULL) * 1000;
    const char *start = time_text(now - HOUR_MS);

    post_reading(key, text(period, start, time_text(now + 6 * MINUTE_MS)), 400, FIELD("endDate"));
    post_reading(key, text(period, start, time_text(now + 4 * MINUTE_MS)), 201, NULL);
}

TEST(decimal_texts_blanks_and_empty_texts_are_accepted)
{
    post_reading(plant("texts"),
                 "{'type':' delta ','unit':'\\tkWh\\n','reads':[{'startDate':' @9 ',"
                 "'endDate':'@8 ','value':' 0.5005 '},{'startDate':'','endDate':'@7',"
                 "'value':'+1e-1'}]}",
                 201, "{'reads':[{'value':501},{'value':100,'startDate':'@8'}]}");
}

TEST(dates_without_an_offset_and_without_a_time_zone_are_utc)
{
    char *start = time_text(days_ago(20) + 10 * HOUR_MS), *end = time_text(days_ago(19));

    start[16] = '\0';
    end[19] = '\0';
    post_reading(plant("utc"), text("{'startDate':'%s','endDate':'%s','value':1}", start, end), 201,
                 "{'reads':[{'startDate':'@20+10','endDate':'@19'}]}");
}

TEST(a_period_of_more_than_366_days_is_refused)
{
    meter_make(host, m, "years", 10, days_ago(1000));
    post_reading("years", "{'type':'History','startDate':'@900','endDate':'@533','value':1000}",
                 400, FIELD("endDate"));
    post_reading("years", "{'type':'History','startDate':'@900','endDate':'@534','value':1000}",
                 201, NULL);
}

/* A period of 366 days is an hour longer if the clock was set back in it, and an hour shorter if it
 * was set forward. */
TEST(the_366_days_of_a_period_are_counted_in_its_time_zone)
{
    static const struct {
        const char *start, *end;
        long status;
    } rows[] = {{"2016-10-28", "2017-10-30", 400},
                {"2016-10-29", "2017-10-30T00:01", 400},
                {"2016-10-29", "2017-10-30", 201},
                {"2019-03-30T00:00:00Z", "2020-03-30T00:00:01Z", 400},
                {"2019-03-30T00:00:00Z", "2020-03-30T00:00:00Z", 201}};

    meter_make(host, m, "berlin years", 10, INT64_C(1420070400000)); /* 2015-01-01 */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        post_reading("berlin years",
                     text("{'type':'History','unit':'kWh','timezone':'Europe/Berlin',"
                          "'startDate':'%s','endDate':'%s','value':1}",
                          rows[i].start, rows[i].end),
                     rows[i].status, rows[i].status == 400 ? FIELD("endDate") : NULL);
    /* 2021-10-30 to 2022-10-31, midnight in the device's current time zone */
    int64_t start = INT64_C(1635544800000), end = start + 366 * DAY_MS + HOUR_MS;

    ck_status(meter_read(host, m, "berlin years", "History", start, end, 1000), 201);
}

TEST(a_commissioning_date_after_a_stored_reading_is_refused)
{
    const char *key = plant("commissioned"), *path = text("/api/device/%s", key);
    int64_t first = days_ago(30) + 12 * HOUR_MS;
    const char *before = "PATCH %s {'commissioningDate':'%s'}";

    ask(m, 200, NULL, before, path, date_text(days_ago(40)));
    ck_status(meter_series(host, m, key, "History", first, DAY_MS, 1, 500), 201);
    ck_status(meter_series(host, m, key, "Delta", days_ago(20), DAY_MS, 2, 500), 201);
    ask(m, 409, text("{'message':'Conflict*%s*'}", time_text(first)), before, path,
        date_text(days_ago(29)));
    ask(m, 200, text("{'commissioningDate':'%s'}", date_text(days_ago(40))), "GET %s", path);
    ask(m, 200, NULL, "PATCH %s {'capacity':'11'}", path);
    ask(m, 200, NULL, before, path, date_text(days_ago(30)));
    /* there a day begins 14 hours earlier than in UTC */
    ask(m, 200, NULL, "PATCH %s {'timezone':'Pacific/Kiritimati'}", path);
    ask(m, 200, NULL, before, path, date_text(days_ago(29)));
    ask(m, 409, "Conflict", before, path, date_text(days_ago(28)));
    ask(m, 409, "Conflict: commissioningDate cannot be cleared",
        "PATCH %s {'commissioningDate':null}", path);
    ask(m, 409, "Conflict: capacity cannot be cleared", "PATCH %s {'capacity':null}", path);
}

/* In Tokyo a day begins nine hours earlier than in the time zone of the device. */
TEST(a_device_with_a_reading_of_another_time_zone_can_be_sent_back_with_a_change)
{
    const char *key = plant("returned"), *path = text("/api/device/%s", key);

    ask(m, 200, NULL, "PATCH %s {'timezone':'UTC','commissioningDate':'2024-05-02'}", path);
    post_reading(key,
                 text("{'type':'History','unit':'Wh','timezone':'Asia/Tokyo','startDate':"
                      "'2024-05-02T00:00:00','endDate':'2024-05-02T01:00:00','value':1}"),
                 201, NULL);
    struct answer *device = ask(m, 200, NULL, "GET %s", path);

    json_object_set_new(device->json, "address", json_string("Street 8"));
    ck_status(http(host, "PATCH", path, m->token, json_incref(device->json)), 200);
    ask(m, 200, NULL, "PATCH %s {'commissioningDate':'2024-05-01'}", path);
    ask(m, 409, "Conflict", "PATCH %s {'commissioningDate':'2024-05-02'}", path);
}

TEST(a_reading_requires_the_capacity_and_commissioning_date_of_its_device)
{
    ask(m, 201, NULL, "POST /api/device {'externalId':'bare','commissioningDate':'2020-01-01'}");
    post_reading("bare", text(DAY, "1"), 400, FIELD("capacity"));
    ask(m, 201, NULL, "POST /api/device {'externalId':'undated','capacity':5}");
    post_reading("undated", text(DAY, "1"), 400, FIELD("commissioningDate"));
}

OPENED_SUITE(readings, readings_open, 120)
