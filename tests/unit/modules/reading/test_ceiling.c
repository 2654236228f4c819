/*
 * The parts of the ceiling: dates, time zones, units, and the formula, compared with the C library
 * and with a second calculation.
 */
#include <math.h>
#include <time.h>

#include <busbar/moment.h>

#include "fixture.h"
#include "modules/common/zones.h"
#include "modules/reading/rules/ceiling.h"
#include "modules/reading/rules/unit.h"
#include "suite.h"

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)
#define YEAR ((int64_t)(365.25 * (double)DAY))

static const struct ceiling_rule usual = {.degradation = 0.005, .margin = 1.2};

/* These have half-hour changes, changes at midnight, a skipped day, winter time that is "summer"
 * time, and rules that change before or after the day they name. */
static const char *const zones[] = {
    "UTC",           "Europe/Berlin",  "America/New_York", "Australia/Lord_Howe", "Pacific/Apia",
    "Europe/Dublin", "Asia/Kathmandu", "America/Nuuk",     "America/Santiago",    "Asia/Gaza",
    "Asia/Kolkata",  "Asia/Beirut",    "Africa/Casablanca"};
#define ZONES (sizeof(zones) / sizeof(zones[0]))

static double between(unsigned *seed, double low, double high)
{
    return low + (high - low) * rand_r(seed) / RAND_MAX;
}

static void set_zone(const char *name)
{
    setenv("TZ", name, 1);
    tzset();
}

static void *all_zones;

static const struct zone *zone_of(const char *name)
{
    if (!all_zones)
        ck_assert_int_eq(zones_read(ZONE_FILES, &all_zones), 0);
    const struct zone *zone = zones_find(&all_zones, name);

    ck_assert_msg(zone != NULL, "%s", name);
    return zone;
}

TEST(the_ceiling_of_ten_kilowatts_for_a_day_is_65753_wh)
{
    struct ceiling_device device = {.capacity_kw = 10, .yield = 2000};

    ck_assert_double_eq(ceiling_wh(&usual, &device, 0, DAY), 65753);
}

TEST(a_whole_number_as_ceiling_is_not_rounded_down)
{
    struct ceiling_device device = {.capacity_kw = 8.76, .yield = 2000};

    ck_assert_double_eq(ceiling_wh(&usual, &device, 0, HOUR), 2400);
    device.capacity_kw = 0.0876;
    ck_assert_double_eq(ceiling_wh(&usual, &device, 0, HOUR), 24);
}

TEST(the_ceiling_of_a_large_plant_is_exact_to_the_watt_hour)
{
    struct ceiling_device device = {.capacity_kw = 8760000, .yield = 1000};

    ck_assert_double_eq(ceiling_wh(&usual, &device, 0, 365 * DAY), 10512000000000);
    device = (struct ceiling_device){.capacity_kw = 5915260, .yield = 2000};
    ck_assert_double_eq(ceiling_wh(&usual, &device, 0, DAY), 38894860273); /* .97 */
    device.capacity_kw = 9338940.3;
    ck_assert_double_eq(ceiling_wh(&usual, &device, 0, 365 * DAY), 22413456720000);
}

TEST(the_ceiling_decreases_by_half_a_percent_per_year_after_the_first)
{
    struct ceiling_device device = {.capacity_kw = 8760, .yield = 1000};

    ck_assert_double_eq(ceiling_wh(&usual, &device, YEAR - HOUR, YEAR), 1200000);
    ck_assert_double_eq(ceiling_wh(&usual, &device, 2 * YEAR - HOUR, 2 * YEAR), 1194000);
    ck_assert_double_eq(ceiling_wh(&usual, &device, 3 * YEAR - HOUR, 3 * YEAR), 1188030);
}

/* A second calculation: logarithms, hours from the C library's calendar, and no tolerance. */
static double expected(double capacity, double yield, time_t commissioned, time_t start, time_t end)
{
    long double hours = difftime(end, start) / 3600;
    long double years = difftime(end, commissioned) / 86400 / 365.25L;
    long double lost = years > 1 ? (years - 1) * log1pl(-0.005) : 0;

    return (double)(capacity * hours * yield * expl(lost) * 1.2 * 1000 / 8760);
}

static void random_local(unsigned *seed, struct tm *tm)
{
    *tm = (struct tm){.tm_year = (int)between(seed, 70, 140),
                      .tm_mon = (int)between(seed, 0, 12),
                      .tm_mday = 1 + (int)between(seed, 0, 28),
                      .tm_hour = (int)between(seed, 0, 24),
                      .tm_min = (int)between(seed, 0, 60),
                      .tm_isdst = -1};
    if (tm->tm_mon > 11)
        tm->tm_mon = 11;
    if (rand_r(seed) % 3 == 0) { /* leap days, and days of changes */
        tm->tm_mon = 1;
        tm->tm_mday = 29;
    }
}

static bool same_local(time_t at, const struct tm *wanted)
{
    struct tm got;

    localtime_r(&at, &got);
    return got.tm_mday == wanted->tm_mday && got.tm_hour == wanted->tm_hour &&
           got.tm_min == wanted->tm_min && got.tm_mon == wanted->tm_mon;
}

/* Returns whether a local time exists exactly once: it is neither skipped nor repeated within three
 * hours. */
static bool plain(time_t at, const struct tm *wanted)
{
    for (int minutes = 30; minutes <= 180; minutes += 30)
        if (same_local(at - minutes * 60, wanted) || same_local(at + minutes * 60, wanted))
            return false;
    return same_local(at, wanted);
}

static int64_t parsed(const struct zone *zone, const struct tm *tm)
{
    char text[64];
    struct bb_moment moment;

    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M", tm);
    ck_assert_int_eq(bb_moment_parse(text, &moment), 0);
    ck_assert(moment.local);
    return zone_instant(zone, moment.ms);
}

/* Compares the whole path from a reading's local text to the verdict with the C library's
 * result. */
static int compare(const struct zone *zone, unsigned *seed)
{
    struct tm start_tm, end_tm;

    random_local(seed, &start_tm);
    time_t start = mktime(&start_tm), end = start + (time_t)between(seed, 3600, 366 * 86400.0);

    localtime_r(&end, &end_tm);
    end_tm.tm_sec = 0;
    end = mktime(&end_tm);
    if (!plain(start, &start_tm) || !plain(end, &end_tm) || end <= start)
        return 0;
    time_t commissioned = start - (time_t)between(seed, 0, 30 * 365.25 * 86400);
    struct ceiling_device device = {.capacity_kw = between(seed, 0.01, 10000),
                                    .yield = between(seed, 1, 4000),
                                    .commissioned = commissioned * INT64_C(1000)};
    double got = ceiling_wh(&usual, &device, parsed(zone, &start_tm), parsed(zone, &end_tm));
    double exact = expected(device.capacity_kw, device.yield, commissioned, start, end);

    ck_assert_msg(fabs(exact - round(exact)) < exact * 1e-11 || got == floor(exact),
                  "%.17g kW, %.17g, %ld, %ld to %ld: %.17g, not %.17g", device.capacity_kw,
                  device.yield, (long)commissioned, (long)start, (long)end, got, exact);
    return 1;
}

TEST(ceilings_of_random_readings_equal_an_independent_computation)
{
    unsigned seed = 20260401;
    int compared = 0;

    for (size_t z = 0; z < ZONES; z++) {
        const struct zone *zone = zone_of(zones[z]);

        set_zone(zones[z]);
        for (int i = 0; i < 2000; i++)
            compared += compare(zone, &seed);
    }
    ck_assert_int_gt(compared, (int)ZONES * 1500);
}

TEST(time_zone_offsets_equal_the_c_library_from_1920_to_2200)
{
    unsigned seed = 7;

    for (size_t z = 0; z < ZONES; z++) {
        const struct zone *zone = zone_of(zones[z]);

        set_zone(zones[z]);
        for (int i = 0; i < 30000; i++) { /* at last, each half hour after July 2037 */
            time_t at = i < 5000 ? (time_t)between(&seed, -1577923200.0, 7258118400.0)
                                 : 2130019200 + 1800 * (time_t)(i - 5000);
            struct tm tm;

            localtime_r(&at, &tm);
            ck_assert_msg(zone_offset(zone, at) == tm.tm_gmtoff, "%s at %ld: %d, not %ld", zones[z],
                          (long)at, zone_offset(zone, at), tm.tm_gmtoff);
        }
    }
}

TEST(a_day_of_a_clock_change_has_23_or_25_hours)
{
    const struct zone *zone = zone_of("Europe/Berlin");
    int64_t spring = bb_moment_days(2026, 3, 29) * DAY, autumn = bb_moment_days(2026, 10, 25) * DAY;

    ck_assert_int_eq(zone_instant(zone, spring + DAY) - zone_instant(zone, spring), 23 * HOUR);
    ck_assert_int_eq(zone_instant(zone, autumn + DAY) - zone_instant(zone, autumn), 25 * HOUR);
    /* 02:30 is skipped in spring and occurs twice in autumn */
    ck_assert_int_eq(zone_instant(zone, spring + 5 * HOUR / 2), spring + 3 * HOUR / 2);
    ck_assert_int_eq(zone_instant(zone, autumn + 5 * HOUR / 2), autumn + HOUR / 2);
    for (int half = 0; half < 10; half++) {
        struct zone_times in_spring = zone_times(zone, spring + half * HOUR / 2);
        struct zone_times in_autumn = zone_times(zone, autumn + half * HOUR / 2);

        ck_assert_int_eq(in_spring.count, half / 2 != 2);
        ck_assert_int_eq(in_autumn.count, half / 2 == 2 ? 2 : 1);
        ck_assert(in_spring.closes == (half == 4) && in_autumn.closes == (half == 6));
        ck_assert_int_eq(in_autumn.at[in_autumn.count - 1],
                         autumn + half * HOUR / 2 - (half < 4 ? 2 : 1) * HOUR);
    }
}

TEST(truncated_zone_files_and_names_outside_the_zone_data_are_refused)
{
    size_t length;
    char *bytes = file_read_bytes("/usr/share/zoneinfo/Europe/Berlin", &length);

    for (size_t cut = 0; cut < length; cut++)
        ck_assert_ptr_null(zone_parse((unsigned char *)bytes, cut));
    free(bytes);
    zone_of("Europe/Berlin");
    EACH_TEXT (bad, "", "../../etc/passwd", "/etc/localtime", ".", "Nowhere/X", "right/UTC",
               "posixrules", "Europe", "a b", "zone.tab")
        ck_assert_msg(!zones_find(&all_zones, bad), "%s", bad);
}

TEST(time_zone_rules_of_every_form_are_read)
{
    struct zone_rule rule;

    EACH_TEXT (good, "EST5EDT,M3.2.0,M11.1.0", "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1",
               "IST-1GMT0,M10.5.0,M3.5.0/1", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
               "AAA3BBB,J60/0,J300/24:30:15", "AAA3BBB,59,299", "UTC0")
        ck_assert_msg(!zone_rule_parse(good, &rule), "%s", good);
    EACH_TEXT (bad, "", "5", "ES5", "EST", "EST5EDT", "EST5EDT,", "<-03", "EST5EDT,M13.1.0,M1.1.0",
               "EST5x", "EST5EDT,M3.2.0", "EST5EDT,M3.2.0,M11.1.0x", "EST5EDT,J0,J1")
        ck_assert_msg(zone_rule_parse(bad, &rule), "%s", bad);
    ck_assert_int_eq(zone_rule_parse("AAA3BBB,J60/0,J300", &rule), 0);
    ck_assert_int_eq(zone_rule_offset(&rule, bb_moment_days(2024, 2, 29) * 86400 + 43200),
                     -3 * 3600);
    ck_assert_int_eq(zone_rule_offset(&rule, bb_moment_days(2024, 3, 1) * 86400 + 43200),
                     -2 * 3600);
}

TEST(four_centuries_have_146097_days)
{
    ck_assert_int_eq(bb_moment_days(2200, 1, 1) - bb_moment_days(1800, 1, 1), 146097);
}

TEST(units_and_types_are_accepted_in_any_case)
{
    ck_assert_double_eq(unit_wh("wh"), 1);
    ck_assert_double_eq(unit_wh("KWH"), 1e3);
    ck_assert_double_eq(unit_wh("mWh"), 1e6);
    ck_assert_double_eq(unit_wh("GWh"), 1e9);
    ck_assert_double_eq(unit_wh("W"), 0);
    ck_assert_double_eq(unit_wh("kW"), 0);
    ck_assert_double_eq(unit_wh(""), 0);
    ck_assert_int_eq(unit_type("history"), 'H');
    ck_assert_int_eq(unit_type("DELTA"), 'D');
    ck_assert_int_eq(unit_type("Aggregate"), 0);
}

TEST(decimal_numbers_are_accepted_as_in_json_and_data_loggers)
{
    double number;

    EACH_TEXT (bad, "", "-", ".", "+.", "1e", "1e400", "0x10", "nan", "1,5", "1 2", "--1", "inf",
               "5kWh")
        ck_assert_msg(!unit_decimal(bad, &number), "%s", bad);
    ck_assert(unit_decimal("0012.5", &number) && number == 12.5);
    ck_assert(unit_decimal("-3", &number) && number == -3);
    ck_assert(unit_decimal("+2.5E-1", &number) && number == 0.25);
    ck_assert(unit_decimal(".005", &number) && number == 0.005);
    ck_assert(unit_decimal("5.", &number) && number == 5);
    ck_assert(unit_decimal("+5", &number) && number == 5);
}

SUITE(ceiling, .timeout_s = 60)
