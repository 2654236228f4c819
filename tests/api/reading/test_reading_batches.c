/*
 * Meter readings that conflict with others: overlaps, one row for repeated readings, batches,
 * periods without a start, time zones.
 */
#include "exposition.h"
#include "readings.h"
#include "together.h"

/* Returns a reading; `more`: further members, such as ",'type':'Delta'". */
static const char *read_of(const char *start, const char *end, int value, const char *more)
{
    return text("{'startDate':'%s','endDate':'%s','value':%d%s}", start, end, value, more);
}

TEST(periods_of_both_types_may_touch_but_not_overlap)
{
    const struct {
        const char *type, *start, *end;
    } rows[] = {{"Delta", "@30", "@29"},
                {"History", "@30", "@29"},
                {"Delta", time_text(days_ago(24) - 1), "@23"},
                {"Delta", "@32", time_text(days_ago(31) + 1)},
                {"History", "@30+1", "@30+2"},
                {"Delta", "@33", "@10"},
                {"History", "@31+23", "@30+1"}};
    const char *key = plant("overlaps");

    ck_status(meter_series(host, m, key, "Delta", days_ago(30), DAY_MS, 3, 100), 201);
    post_reading(key, read_of("@25", "@24", 1, ",'type':'History'"), 201, NULL);
    post_reading(key, read_of("@31", "@30", 1, ",'type':'History'"), 201, NULL);
    post_reading(key, read_of("@27", "@25", 1, ""), 201, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        post_reading(key,
                     read_of(rows[i].start, rows[i].end, 1, text(",'type':'%s'", rows[i].type)),
                     409, "{'message':'Conflict*','errors':[{'field':'value'}]}");
    ck_assert_int_eq(stored(key), 6);
}

enum { TOGETHER = 16 };

/* Posts the readings of reading(i) for the device in parallel; returns how many were stored, and
 * the responses. The others must be conflicts. */
static int post_together(const char *key, const char *(*reading)(int i), const char *const *headers,
                         struct answer **answers)
{
    struct call calls[TOGETHER];
    int made = 0;

    for (int i = 0; i < TOGETHER; i++) {
        calls[i] = call_by(m, "POST /api/meter-reads/new/%s %s", key,
                           json_with(dated(reading(i)), "{'unit':'Wh','value':7}"));
        calls[i].headers = headers;
    }
    parallel(host, calls, answers, TOGETHER);
    for (int i = 0; i < TOGETHER; i++) {
        made += answers[i]->status == 201;
        if (answers[i]->status != 201)
            ck_error(answers[i], 409, "Conflict");
    }
    return made;
}

static const char *in_both_types(int i)
{
    return text("{'type':'%s','startDate':'@5','endDate':'%s'}", i % 2 ? "Delta" : "History",
                time_text(days_ago(4) + i));
}

static const char *same(int i)
{
    (void)i;
    return "{'type':'Delta','startDate':'@5','endDate':'@4'}";
}

/* Their rows lock the device. */
TEST(parallel_readings_of_one_period_in_one_type_or_both_store_one)
{
    struct answer *answers[TOGETHER];

    for (int round = 0; round < repetitions(4, 12); round++) {
        const char *key = plant(text("both%d", round));

        ck_assert_int_eq(post_together(key, round % 4 ? in_both_types : same, NULL, answers), 1);
        ck_assert_int_eq(stored(key), 1);
    }
}

static double accepted(void)
{
    return exposition_value(exposition_get(host, admin->token), "busbar_reading_accepted_total",
                            "");
}

/* One request stores the reading; the others find its key, early or late, and get its response. */
TEST(a_reading_sent_many_times_with_one_idempotency_key_is_counted_once)
{
    struct answer *answers[TOGETHER];

    for (int round = 0; round < repetitions(2, 8); round++) {
        const char *key = plant(text("counted%d", round));
        const char *const headers[] = {text("Idempotency-Key: %s", key), NULL};
        double before = accepted();

        ck_assert_int_eq(post_together(key, same, headers, answers), TOGETHER);
        for (int i = 0; i < TOGETHER; i++)
            ck_assert_str_eq(answers[i]->body, answers[0]->body);
        ck_assert_int_eq(stored(key), 1);
        ck_assert_double_eq(accepted() - before, 1);
    }
}

TEST(an_overlap_error_names_the_stored_reading_and_whether_it_is_equal)
{
    const char *key = plant("names");
    const char *problem = "{'message':'Conflict*','errors':[{'field':'value','problem':"
                          "'overlaps the stored Delta reading of 31 Wh from @9 to @8, which is %s "
                          "reading%s'}]}";

    post_reading(key, read_of("@9", "@8", 31, ""), 201, NULL);
    post_reading(key, read_of("@9", "@8", 31, ""), 409, text(problem, "the same", ", sent again"));
    EACH_TEXT (other, read_of("@9", "@8", 32, ""), read_of("@9", "@8", 31, ",'type':'History'"),
               read_of(time_text(days_ago(9) - 1), "@8", 31, ""),
               read_of("@9", time_text(days_ago(8) + 1), 31, ""))
        post_reading(key, other, 409, text(problem, "a different", ""));
    ck_assert_int_eq(stored(key), 1);
}

TEST(all_errors_of_a_batch_are_reported_in_one_response)
{
    const char *key = plant("mistakes");

    post_reading(key, read_of("@50", "@49", 10, ""), 201, NULL);
    post_reading(key,
                 "{'timezone':'Europe/Nowhere','reads':["
                 "{'startDate':'yesterday','endDate':'@-3','value':-4,'type':'Sum','unit':'W'},"
                 "{'endDate':'2026-02-30','value':1},"
                 "{'startDate':'@200','endDate':'@201','value':1},"
                 "{'startDate':'@20','endDate':'@19','value':65754},"
                 "{'startDate':'@50+1','endDate':'@49','value':10},"
                 "{'startDate':'@20+1','endDate':'@18','value':10},"
                 "{'startDate':'@10','endDate':'@9','value':[]},"
                 "7]}",
                 400,
                 "{'errors':["
                 "{'field':'timezone','problem':'*IANA*'},"
                 "{'field':'reads[0].type','problem':'*History, Delta*'},"
                 "{'field':'reads[0].unit','problem':'*one of: Wh*'},"
                 "{'field':'reads[0].value','problem':'*at least 0*'},"
                 "{'field':'reads[0].startDate','problem':'*ISO 8601*'},"
                 "{'field':'reads[0].endDate','problem':'*future*'},"
                 "{'field':'reads[1].endDate','problem':'*ISO 8601*'},"
                 "{'field':'reads[2].startDate','problem':'*commissioning*'},"
                 "{'field':'reads[2].endDate','problem':'*later than startDate*'},"
                 "{'field':'reads[3]','problem':'*plausible ceiling of 65753 Wh*'},"
                 "{'field':'reads[4]','problem':'*overlaps the stored Delta reading of 10 Wh*'},"
                 "{'field':'reads[5]','problem':'*overlaps reads[3]*'},"
                 "{'field':'reads[6].value','problem':'*must be a number*'},"
                 "{'field':'reads[7]','problem':'*must be an object*'}]}");
    ck_assert_int_eq(stored(key), 1);
}

TEST(ceiling_and_overlap_errors_are_in_one_conflict)
{
    const char *key = plant("conflicts");

    ck_status(meter_series(host, m, key, "History", days_ago(50), DAY_MS, 3, 5), 201);
    expect_json(ck_error(meter_series(host, m, key, "Delta", days_ago(48), DAY_MS, 3, 70000), 409,
                         "Conflict")
                    ->json,
                "{'message':'*; and 3 others*','errors':["
                "{'field':'reads[0]','problem':'*ceiling*'},{'field':'reads[0]',"
                "'problem':'*overlaps the stored History reading of 5 Wh*'},{},{}]}");
    host_logs(host, 0, "3 readings of device ");
    ck_assert_int_eq(stored(key), 3);
}

/* Readings are stored in the order of their types, so the first period is not the earliest. */
TEST(an_overlap_before_a_later_reading_of_the_other_type_is_named)
{
    const char *key = plant("types");

    post_reading(key, read_of("@20", "@19", 5, ",'type':'History'"), 201, NULL);
    post_reading(key,
                 "{'reads':[{'type':'Delta','startDate':'@19','endDate':'@18','value':5},"
                 "{'type':'History','startDate':'@20+5','endDate':'@20+6','value':1}]}",
                 409,
                 "{'message':'Conflict*','errors':[{'field':'reads[1]',"
                 "'problem':'*overlaps the stored History reading of 5 Wh*'}]}");
    ck_assert_int_eq(stored(key), 1);
}

TEST(a_batch_is_stored_completely_or_not_and_every_error_is_reported)
{
    const char *key = plant("batch"), *reads = "", *errors = "";

    for (int i = 0; i < 200; i++) {
        reads = text("%s%s%s", reads, i ? "," : "",
                     read_of(text("@50+%d", i), text("@50+%d", i + 1), i % 2 ? -i : 10, ""));
        if (i % 2)
            errors = text("%s%s{'field':'reads[%d].value'}", errors, i > 1 ? "," : "", i);
    }
    post_reading(key, text("{'reads':[%s]}", reads), 400, text("{'errors':[%s]}", errors));
    ck_assert_int_eq(stored(key), 0);
    ck_status(meter_series(host, m, key, "Delta", days_ago(50) + 3 * HOUR_MS, HOUR_MS, 2, 5), 201);
    struct answer *overlap = meter_series(host, m, key, "Delta", days_ago(50), HOUR_MS, 10, 5);

    expect_json(ck_error(overlap, 409, "Conflict")->json,
                "{'message':'*; and 1 other. Periods *',"
                "'errors':[{'field':'reads[3]'},{'field':'reads[4]'}]}");
    ck_assert_int_eq(stored(key), 2);
}

TEST(a_batch_response_has_the_order_of_the_request)
{
    const char *key = plant("mixed"), *reads = "", *values = "";

    for (int i = 5; i >= 0; i--) {
        const char *type = i % 2 ? ",'type':'Delta'" : ",'type':'History'";

        reads = text("%s%s%s", reads, i < 5 ? "," : "",
                     read_of(text("@%d", 20 - i), text("@%d", 19 - i), 100 + i, type));
        values = text("%s%s{'value':%d}", values, i < 5 ? "," : "", 100 + i);
    }
    post_reading(key, text("{'type':'(absent)','reads':[%s]}", reads), 201,
                 text("{'reads':[%s]}", values));
    post_reading(key,
                 text("{'reads':[%s,%s]}", read_of("@9", "@7", 1, ""), read_of("@8", "@6", 1, "")),
                 409, FIELD("reads[1]"));
    ck_assert_int_eq(stored(key), 6);
}

TEST(a_request_has_up_to_ten_thousand_readings)
{
    meter_make(host, m, "crowd", 10, days_ago(450));
    struct answer *made =
        ck_status(meter_series(host, m, "crowd", "Delta", days_ago(440), HOUR_MS, 10000, 1), 201);

    ck_assert_uint_eq(json_array_size(json_object_get(made->json, "reads")), 10000);
    ck_assert_int_eq(stored("crowd"), 10000);
    ck_error(meter_series(host, m, "crowd", "Delta", days_ago(440), 60000, 10001, 1), 400, "");
}

/* Sends a Delta without a start, which must begin then. */
static void begins(const char *key, int end, int start)
{
    post_reading(key, text("{'endDate':'@%d','value':1}", end), 201,
                 text("{'reads':[{'startDate':'@%d'}]}", start));
}

TEST(a_delta_without_a_start_begins_at_the_end_of_the_previous_one)
{
    const char *key = plant("chained");

    post_reading(key, "{'reads':[{'endDate':'@40','value':2},{'endDate':'@60','value':1}]}", 201,
                 "{'reads':[{'startDate':'@60'},{'startDate':'@100'}]}");
    begins(key, 30, 40);
    begins(key, 20, 30);
    post_reading(key, "{'endDate':'@35','value':1}", 409, FIELD("value"));
}

/* Its period is at most 366 days, and a reading of the other type counts as the previous one. */
TEST(the_first_delta_without_a_start_begins_at_most_366_days_before_its_end)
{
    const char *young = plant("young");

    meter_make(host, m, "old", 10, days_ago(1000));
    begins(young, 40, 100);
    post_reading(young, read_of("@39", "@38", 1, ",'type':'History'"), 201, NULL);
    begins(young, 30, 38);
    begins("old", 40, 406);
    post_reading("old", read_of("@39", "@38", 1, ""), 201, NULL);
    begins("old", 30, 38);
}

static const char *berlin(const char *field)
{
    return answer_text(ask(m, 200, NULL, "GET /api/device/berlin"), field);
}

TEST(local_dates_use_the_time_zone_which_the_device_keeps)
{
    meter_make(host, m, "berlin", 10, 1735689600000); /* 2025-01-01 */
    struct answer *made =
        post_reading("berlin",
                     "{'timezone':'Europe/Berlin','reads':["
                     "{'startDate':'2025-03-30','endDate':'2025-03-31','value':1},"
                     "{'startDate':'2025-10-26T00:00','endDate':'2025-10-27T00:00','value':1}]}",
                     201,
                     "{'reads':[{'startDate':'2025-03-29T23:00:00.000Z',"
                     "'endDate':'2025-03-30T22:00:00.000Z'},"
                     "{'startDate':'2025-10-25T22:00:00.000Z',"
                     "'endDate':'2025-10-26T23:00:00.000Z'}]}");
    const char *named = berlin("updatedAt");

    ck_assert_str_eq(berlin("timezone"), "Europe/Berlin");
    ck_assert_str_ge(named, text_in(item_of(made, "reads", 0), "createdAt"));
    /* the zone of an earlier reading is kept, and another one does not replace it */
    post_reading("berlin", read_of("2025-06-01T12:00", "2025-06-01T13:00", 1, ""), 201,
                 "{'reads':[{'startDate':'2025-06-01T12:00:00.000Z',"
                 "'endDate':'2025-06-01T13:00:00.000Z'}]}");
    post_reading("berlin", read_of("2025-07-01", "2025-07-02", 1, ",'timezone':'Asia/Kolkata'"),
                 201, NULL);
    ck_assert_str_eq(berlin("timezone"), "Europe/Berlin");
    ck_assert_str_eq(berlin("updatedAt"), named);
}

TEST(organization_id_in_the_query_counts_as_in_the_body)
{
    meter_make(host, m, "query", 10, days_ago(100));
    const char *body = dated("{'type':'Delta','unit':'Wh','value':5,'endDate':'@50'}");
    const char *request = "POST /api/meter-reads/new/query?organizationId=%jd %s";
    const char *foreign = text(request, b->organization, body);
    const char *own = text(request, m->organization, body);

    exchanges(host, {foreign, b, 404, "Device"}, {own, b, 404, "Device"}, {foreign, m, 201},
              {own, m, 409});
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
TEST(readings_stored_by_one_statement_get_separate_responses)
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
            calls[i] = call_by(m, "POST /api/meter-reads/new/many%d %s", i,
                               reading_of(i, round, days[i], &wanted[i]));
        ask_together(&held, calls, answers, METERS);
        for (int i = 0; i < METERS; i++) {
            ck_status(answers[i], wanted[i]);
            days[i] += wanted[i] == 201;
        }
    }
    for (int i = 0; i < METERS; i++)
        ck_assert_int_eq(stored(text("many%d", i)), days[i]);
    expect_shared(&held, METERS);
}

OPENED_SUITE(reading_batches, readings_open, 120)
