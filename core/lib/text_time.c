/*
 * ISO 8601 and the clocks. Dates are computed here because timegm() and strftime() take locks and
 * are slow.
 */
#include <string.h>
#include <time.h>

#include "core/lib/text.h"

#define DAY_MS INT64_C(86400000)
#define FRACTION_MAX 30                    /* digits */
#define YEAR_0 INT64_C(-62167219200000)    /* 0000-01-01T00:00:00.000Z */
#define YEAR_1 INT64_C(-62135596800000)    /* 0001-01-01T00:00:00.000Z */
#define YEAR_9999 INT64_C(253402300799999) /* its last millisecond */

/*
 * Days since 1970 of a date in the proleptic Gregorian calendar. Years begin in March here, so that
 * the leap day is the last day; 400 years have 146,097 days.
 */
static int64_t days_of(int year, int month, int day)
{
    year -= month <= 2;
    int era = year / 400, of_era = year - era * 400;
    int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return (int64_t)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* The inverse of days_of(). */
static void date_of(int64_t days, int *year, int *month, int *day)
{
    days += 719468 + 146097; /* one era earlier, because January and February of year 0 belong to
                              * it */
    int era = (int)(days / 146097), of_era = (int)(days % 146097);
    int y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int of_year = of_era - (365 * y + y / 4 - y / 100);
    int m = (5 * of_year + 2) / 153;

    *day = of_year - (153 * m + 2) / 5 + 1;
    *month = m < 10 ? m + 3 : m - 9;
    *year = y + (era - 1) * 400 + (*month <= 2);
}

static void put(char *out, int digits, int number)
{
    while (digits--) {
        out[digits] = (char)('0' + number % 10);
        number /= 10;
    }
}

void text_time(int64_t wall_ms, char out[TEXT_TIME_SIZE])
{
    wall_ms = wall_ms < YEAR_0 ? YEAR_0 : wall_ms > YEAR_9999 ? YEAR_9999 : wall_ms;
    int64_t days = wall_ms / DAY_MS - (wall_ms % DAY_MS < 0);
    int of_day = (int)(wall_ms - days * DAY_MS);
    int year, month, day;

    date_of(days, &year, &month, &day);
    memcpy(out, "0000-00-00T00:00:00.000Z", TEXT_TIME_SIZE);
    put(out, 4, year);
    put(out + 5, 2, month);
    put(out + 8, 2, day);
    put(out + 11, 2, of_day / 3600000);
    put(out + 14, 2, of_day / 60000 % 60);
    put(out + 17, 2, of_day / 1000 % 60);
    put(out + 20, 3, of_day % 1000);
}

/* Reads exactly `digits` digits and advances *at. */
static bool take(const char **at, int digits, int *number)
{
    *number = 0;
    for (; digits; digits--, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        *number = *number * 10 + (**at - '0');
    }
    return true;
}

static bool take_char(const char **at, char c)
{
    bool there = **at == c;

    *at += there;
    return there;
}

static int month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 || year % 400 == 0);

    return days[month - 1] + (month == 2 && leap);
}

static bool take_date(const char **at, int64_t *ms)
{
    int year, month, day;

    if (!take(at, 4, &year) || !take_char(at, '-') || !take(at, 2, &month) || !take_char(at, '-') ||
        !take(at, 2, &day))
        return false;
    if (!year || month < 1 || month > 12 || day < 1 || day > month_days(year, month))
        return false;
    *ms = days_of(year, month, day) * DAY_MS;
    return true;
}

/* PostgreSQL reads at most 128 characters of a time. */
static bool take_fraction(const char **at, int *ms)
{
    int digits = 0;

    for (int unit = 100; **at >= '0' && **at <= '9'; (*at)++, unit /= 10, digits++)
        *ms += (**at - '0') * unit;
    return digits > 0 && digits <= FRACTION_MAX;
}

static bool take_clock(const char **at, int64_t *ms)
{
    int hour, minute, second = 0, part = 0;

    if (!take(at, 2, &hour) || !take_char(at, ':') || !take(at, 2, &minute))
        return false;
    if (take_char(at, ':')) {
        if (!take(at, 2, &second))
            return false;
        if (take_char(at, '.') && !take_fraction(at, &part))
            return false;
    }
    if (hour > 23 || minute > 59 || second > 59)
        return false;
    *ms += ((hour * 60 + minute) * 60 + second) * INT64_C(1000) + part;
    return true;
}

/* Z, ±hh:mm, ±hhmm or ±hh, as far as PostgreSQL accepts them; UTC if absent */
static bool take_offset(const char **at, int64_t *ms)
{
    int hour, minute = 0;

    if (!**at || take_char(at, 'Z'))
        return true;
    int sign = take_char(at, '+') ? 1 : take_char(at, '-') ? -1 : 0;

    if (!sign || !take(at, 2, &hour))
        return false;
    if ((take_char(at, ':') || **at) && !take(at, 2, &minute))
        return false;
    if (hour > 15 || minute > 59)
        return false;
    *ms -= sign * (hour * 60 + minute) * INT64_C(60000);
    return true;
}

int text_time_parse(const char *text, int64_t *wall_ms)
{
    int64_t ms;

    if (!take_date(&text, &ms))
        return -1;
    if (*text) {
        if (!take_char(&text, 'T') && !take_char(&text, ' '))
            return -1;
        if (!take_clock(&text, &ms) || !take_offset(&text, &ms) || *text)
            return -1;
    }
    if (ms < YEAR_1 || ms > YEAR_9999)
        return -1;
    *wall_ms = ms;
    return 0;
}

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now); /* cannot fail with these clocks */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_mono_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

int64_t clock_mono_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

int64_t clock_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}
