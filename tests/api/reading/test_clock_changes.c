/* Readings in local times around the hours that a clock change repeats or skips. */
#include "readings.h"

#define COMMISSIONED INT64_C(1577836800000) /* 2020-01-01 */
#define MINUTE_MS INT64_C(60000)

/* Consecutive periods, as a logger with a local clock writes them. */
struct series {
    const char *zone;
    int64_t begin; /* ms since 1970 */
    int minutes;   /* length of each period */
    const char *times[8];
};

static const struct series autumn[] = {
    {"Europe/London",
     INT64_C(1761433200000),
     60,
     {"2025-10-26T00:00", "2025-10-26T01:00", "2025-10-26T01:00", "2025-10-26T02:00",
      "2025-10-26T03:00"}},
    {"Europe/London",
     INT64_C(1761433200000) + 30 * MINUTE_MS,
     30,
     {"2025-10-26T00:30", "2025-10-26T01:00", "2025-10-26T01:30", "2025-10-26T01:00",
      "2025-10-26T01:30", "2025-10-26T02:00", "2025-10-26T02:30"}},
    {"Europe/Berlin",
     INT64_C(1761433200000),
     60,
     {"2025-10-26T01:00", "2025-10-26T02:00", "2025-10-26T02:00", "2025-10-26T03:00",
      "2025-10-26T04:00"}},
    {"America/New_York",
     INT64_C(1762056000000),
     60,
     {"2025-11-02T00:00", "2025-11-02T01:00", "2025-11-02T01:00", "2025-11-02T02:00",
      "2025-11-02T03:00"}},
    {"Australia/Lord_Howe",
     INT64_C(1743861600000),
     30,
     {"2025-04-06T01:00", "2025-04-06T01:30", "2025-04-06T01:30", "2025-04-06T02:00",
      "2025-04-06T02:30"}},
};
enum { AUTUMNS = sizeof(autumn) / sizeof(autumn[0]) };

static int periods(const struct series *series)
{
    int count = 0;

    while (count < 7 && series->times[count + 1])
        count++;
    return count;
}

static json_t *period(const struct series *series, int i, bool open)
{
    json_t *read = json_pack("{ss si}", "endDate", series->times[i + 1], "value", 300);

    if (!open)
        json_object_set_new(read, "startDate", json_string(series->times[i]));
    return read;
}

/* Sends readings of 300 Wh each in the series' zone. */
static struct answer *post(const char *key, const char *zone, json_t *reads)
{
    return meter_post(host, m, key,
                      json_pack("{ss ss ss so}", "type", "Delta", "unit", "Wh", "timezone", zone,
                                "reads", reads));
}

static void expect_series(const char *key, const struct series *series)
{
    struct answer *list = ck_status(meter_list(host, m, key, ""), 200);

    ck_assert_uint_eq(json_array_size(list->json), (size_t)periods(series));
    for (int i = 0; i < periods(series); i++) {
        int64_t start = series->begin + i * series->minutes * MINUTE_MS;
        const json_t *read = item_of(list, NULL, (size_t)i);

        ck_assert_str_eq(text_in(read, "startDate"), time_text(start));
        ck_assert_str_eq(text_in(read, "endDate"), time_text(start + series->minutes * MINUTE_MS));
    }
}

static const char *device(const char *kind, int number)
{
    const char *key = text("%s-%d", kind, number);

    meter_make(host, m, key, 10, COMMISSIONED);
    return key;
}

TEST(periods_in_a_repeated_hour_are_stored_once_with_their_length)
{
    for (int s = 0; s < AUTUMNS; s++) {
        const struct series *series = &autumn[s];
        const char *one = device("one", s), *ends = device("ends", s);

        for (int i = 0; i < periods(series); i++) {
            ck_status(post(one, series->zone, json_pack("[o]", period(series, i, false))), 201);
            ck_status(post(ends, series->zone, json_pack("[o]", period(series, i, i > 0))),
                      i > 0 && !strcmp(series->times[i], series->times[i + 1]) ? 400 : 201);
            if (i > 0 && !strcmp(series->times[i], series->times[i + 1])) {
                /* with the same end and energy it would be taken for a repetition */
                json_t *again = period(series, i, true);

                json_object_set_new(again, "value", json_integer(299));
                ck_status(post(ends, series->zone, json_pack("[o]", again)), 201);
            }
        }
        expect_series(one, series);
        expect_series(ends, series);
    }
}

TEST(rows_of_a_request_resolve_a_repeated_hour_by_their_order)
{
    for (int s = 0; s < AUTUMNS; s++) {
        const struct series *series = &autumn[s];
        const char *keys[] = {device("rising", s), device("falling", s), device("open", s)};
        json_t *reads[] = {json_array(), json_array(), json_array()};

        for (int i = 0; i < periods(series); i++) {
            json_array_append_new(reads[0], period(series, i, false));
            json_array_insert_new(reads[1], 0, period(series, i, false));
            json_array_append_new(reads[2], period(series, i, i > 0));
        }
        for (int i = 0; i < 3; i++) {
            ck_status(post(keys[i], series->zone, reads[i]), 201);
            expect_series(keys[i], series);
        }
    }
}

/* The problem must be in this field and contain these words. */
static void refuse(const char *key, const char *zone, const char *reads, long status,
                   const char *field, const char *words)
{
    post_reading(key, text("{'timezone':'%s','reads':[%s]}", zone, reads), status,
                 text("{'errors':[{'field':'%s','problem':'*%s*'}]}", field, words));
}

/* `change`: "2025-10-26T01:00 2025-10-26T02:00" */
static const char *span(const char *change)
{
    const char *end = strchr(change, ' ');

    return text("{'startDate':'%.*s','endDate':'%s','value':300}", (int)(end - change), change,
                end + 1);
}

static void take(const char *key, const char *zone, const char *change)
{
    post_reading(key, text("{'timezone':'%s','reads':[%s]}", zone, span(change)), 201, NULL);
}

/* Both hours from 1 to 2, as in an inverter's file. */
TEST(the_same_local_hour_twice_in_a_request_is_two_hours)
{
    const char *key = device("labels", 0);

    post_reading(
        key,
        text("{'timezone':'Europe/London','reads':[%s,%s,%s,%s]}",
             span("2025-10-26T00:00 2025-10-26T01:00"), span("2025-10-26T01:00 2025-10-26T02:00"),
             span("2025-10-26T01:00 2025-10-26T02:00"), span("2025-10-26T02:00 2025-10-26T03:00")),
        201, NULL);
    expect_series(key, &autumn[0]);
}

TEST(an_ambiguous_local_time_is_refused_unless_it_has_an_offset)
{
    static const char london[] = "Europe/London";
    const char *key = device("either", 0), *gaps = device("gaps", 0);
    const char *hour = span("2025-10-26T01:00 2025-10-26T02:00");

    /* this may be one hour up to the change, or two */
    refuse(key, london, hour, 400, "reads[0].endDate",
           "send it with its offset, 2025-10-26T02:00:00+01:00 or 2025-10-26T02:00:00+00:00");
    take(key, london, "2025-10-26T01:00+00:00 2025-10-26T02:00");
    take(key, london, "2025-10-26T01:00+01:00 2025-10-26T01:00");
    take(key, london, "2025-10-26T00:00 2025-10-26T01:00");
    refuse(key, london, hour, 409, "reads[0]", "which is the same reading, sent again");
    ck_assert_int_eq(stored(key), 3);
    /* both occurrences of the hour are free, and both touch a stored reading */
    take(gaps, london, "2025-10-26T00:00 2025-10-26T01:00");
    take(gaps, london, "2025-10-26T01:30+01:00 2025-10-26T01:00+00:00");
    refuse(gaps, london, span("2025-10-26T01:00 2025-10-26T01:30"), 400, "reads[0].startDate",
           "occurs twice when the clocks of Europe/London are set back");
}

/* Only the energy shows whether a reading is the stored one, sent again. */
TEST(any_energy_is_compared_with_a_stored_reading)
{
    const char *key = device("vast", 0);

    take(key, "Europe/London", "2025-10-26T00:00+01:00 2025-10-26T01:00+01:00");
    refuse(key, "Europe/London", "{'endDate':'2025-10-26T01:00','value':1e300}", 409, "reads[0]",
           "is more than the plausible ceiling");
    refuse(key, "Europe/London", "{'endDate':'2025-10-26T01:00','value':300}", 400,
           "reads[0].endDate", "occurs twice when the clocks of Europe/London are set back");
}

TEST(a_local_time_skipped_by_a_clock_change_is_refused)
{
    static const struct {
        const char *zone, *day, *hours[4];
    } springs[] = {
        {"Europe/London", "2025-03-30", {"00:00", "01:00", "02:00", "03:00"}},
        {"Europe/Berlin", "2025-03-30", {"01:00", "02:00", "03:00", "04:00"}},
        {"America/New_York", "2025-03-09", {"01:00", "02:00", "03:00", "04:00"}},
        {"Australia/Lord_Howe", "2025-10-05", {"01:30", "02:00", "02:30", "03:00"}},
    };
    static const char london[] = "Europe/London";

    for (int i = 0; i < 4; i++) {
        const char *key = device("spring", i), *spans[3];

        for (int j = 0; j < 3; j++)
            spans[j] = text("%sT%s %sT%s", springs[i].day, springs[i].hours[j], springs[i].day,
                            springs[i].hours[j + 1]);
        take(key, springs[i].zone, spans[0]);
        refuse(key, springs[i].zone, span(spans[1]), 400, "reads[0].startDate",
               "because the clocks skip it: send the time with an offset");
        take(key, springs[i].zone, spans[2]);
        struct answer *list = ck_status(meter_list(host, m, key, ""), 200);

        ck_assert_str_eq(text_in(item_of(list, NULL, 0), "endDate"),
                         text_in(item_of(list, NULL, 1), "startDate"));
    }
    refuse(device("within", 0), london, span("2025-03-30T00:30 2025-03-30T01:30"), 400,
           "reads[0].endDate", "does not exist in Europe/London");
    /* a logger that writes only ends has a row for the hour that does not exist */
    refuse(device("lonely", 0), london,
           text("%s,{'endDate':'2025-03-30T02:00','value':0},"
                "{'endDate':'2025-03-30T03:00','value':300}",
                span("2025-03-30T00:00 2025-03-30T01:00")),
           400, "reads[1].endDate",
           "must be later than the end of the previous reading, at which this reading begins; the "
           "clocks of Europe/London are put forward then");
    refuse(device("lonely", 1), london,
           text("%s,{'endDate':'2025-04-01T01:00','value':300}",
                span("2025-04-01T00:00 2025-04-01T01:00")),
           400, "reads[1].endDate",
           "must be later than the end of the previous reading, at which this reading begins");
    refuse(device("lonely", 2), london, "{'endDate':'2020-01-01T00:00','value':300}", 400,
           "reads[0].endDate", "must be later than the device*s commissioning on 2020-01-01");
    /* this day begins with the change, at 01:00 */
    take(device("cairo", 0), "Africa/Cairo", "2025-04-25 2025-04-26");
}

TEST(dates_and_numbers_in_the_forms_of_data_loggers_are_accepted)
{
    static const struct {
        const char *start, *value;
        int wh;
    } rows[] = {{"2025-06-01t00:00:00z", ".5", 1},
                {"2025-06-01T00:00:00,000Z", "+5", 5},
                {"2025-06-01 00:00:00 +0000", "5.", 5},
                {"2025-06-01 0:00", "+.5e1", 5}};

    for (int i = 0; i < 4; i++)
        post_reading(
            device("forms", i),
            text("{'startDate':'%s','endDate':'2025-06-01T01:00Z','value':'%s'}", rows[i].start,
                 rows[i].value),
            201,
            text("{'reads':[{'startDate':'2025-06-01T00:00:00.000Z','value':%d}]}", rows[i].wh));
    ask(m, 200, "[{}]",
        "GET /api/meter-reads/new/forms-0?start=2025-06-01%%200:00:00%%20%%2B0000"
        "&end=2025-06-02t00:00z");
    refuse("forms-0", "UTC", span("01.06.2025 2025-06-02"), 400, "reads[0].startDate",
           "such as 2026-04-01 or 2026-04-01T12:00:00Z");
}

static size_t count_in(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, part)); at++)
        count++;
    return count;
}

/* Their gaps lie in an hour that occurs twice, so each asks what is stored around it. */
TEST(repeated_local_times_of_a_request_are_resolved_by_one_statement)
{
    static const char statement[] = "WITH ORDINALITY AS x (at, number) LEFT JOIN LATERAL";
    static const char *const times[] = {
        "2025-10-26T02:00 2025-10-26T02:05", "2025-10-26T02:10 2025-10-26T02:15",
        "2025-10-26T02:20 2025-10-26T02:25", "2025-10-26T02:30 2025-10-26T02:35"};
    const char *name = database_make(the_postgres, "clock_counted");

    sql_run(db, text("ALTER DATABASE %s SET log_statement = 'all'", name));
    struct host *own = host_start(&(struct host_spec){
        .name = "clock-counted", .database = name, .modules = "[auth, device, reading]"});
    struct person *person = person_make(own, admin_of(own), "counted", NULL);

    meter_make(own, person, "gaps", 100, COMMISSIONED);
    ask_on(own, person, 201, NULL, "POST /api/meter-reads/new/gaps %s",
           text("{'type':'Delta','unit':'Wh','timezone':'Europe/Berlin','reads':[%s,%s,%s,%s]}",
                span(times[0]), span(times[1]), span(times[2]), span(times[3])));
    ck_assert_uint_eq(count_in(file_text(the_postgres->log), statement), 1);
}

OPENED_SUITE(clock_changes, readings_open, 120)
