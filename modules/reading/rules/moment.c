#include "modules/reading/rules/moment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * Years begin in March here, so that the leap day is the last day; 400 years have 146,097 days. An
 * era is added first and subtracted at the end, so that no division has a negative operand.
 */
int64_t moment_days(int year, int month, int day)
{
    int64_t y = year + 400 - (month <= 2);
    int64_t of_era = y % 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return (y / 400 - 1) * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

int moment_year(int64_t days)
{
    int year = (int)(1970 + days * 400 / 146097); /* may be wrong by one */

    while (moment_days(year, 1, 1) > days)
        year--;
    while (moment_days(year + 1, 1, 1) <= days)
        year++;
    return year;
}

/* Parses exactly `digits` digits and advances. */
static bool moment_take(const char **at, int digits, int *number)
{
    *number = 0;
    for (; digits; digits--, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        *number = *number * 10 + (**at - '0');
    }
    return true;
}

static bool moment_skip(const char **at, char c)
{
    bool there = **at == c;

    *at += there;
    return there;
}

static bool moment_date(const char **at, int64_t *days)
{
    int year, month, day;

    if (!moment_take(at, 4, &year) || !moment_skip(at, '-') || !moment_take(at, 2, &month) ||
        !moment_skip(at, '-') || !moment_take(at, 2, &day) || !year || month < 1 || month > 12 ||
        day < 1)
        return false;
    *days = moment_days(year, month, day);
    return *days < moment_days(year + month / 12, month % 12 + 1, 1);
}

/* Parses a fraction of a second. Digits after the third are dropped. */
static bool moment_fraction(const char **at, int *ms)
{
    size_t count = strspn(*at, "0123456789");

    *ms = 0;
    for (size_t i = 0; i < 3; i++)
        *ms = *ms * 10 + (i < count ? (*at)[i] - '0' : 0);
    *at += count;
    return count > 0;
}

/* Parses a time. 24:00 is the end of a day. The hour may have one digit. */
static bool moment_clock(const char **at, int64_t *ms)
{
    int hour, minute, second = 0, fraction = 0;

    if (!moment_take(at, **at && (*at)[1] == ':' ? 1 : 2, &hour) || !moment_skip(at, ':') ||
        !moment_take(at, 2, &minute))
        return false;
    if (moment_skip(at, ':')) {
        if (!moment_take(at, 2, &second))
            return false;
        if ((moment_skip(at, '.') || moment_skip(at, ',')) && !moment_fraction(at, &fraction))
            return false;
    }
    *ms = ((hour * 60 + minute) * INT64_C(60) + second) * 1000 + fraction;
    return minute < 60 && second < 60 && *ms <= MOMENT_DAY_MS;
}

static bool moment_offset(const char **at, int64_t *ms)
{
    int hours, minutes = 0;
    char sign = **at;

    if (!moment_skip(at, '+') && !moment_skip(at, '-'))
        return false;
    if (!moment_take(at, 2, &hours))
        return false;
    if ((moment_skip(at, ':') || **at) && !moment_take(at, 2, &minutes))
        return false;
    *ms = (hours * 60 + minutes) * (sign == '-' ? INT64_C(-60000) : INT64_C(60000));
    return hours < 16 && minutes < 60;
}

int moment_parse(const char *text, struct moment *moment)
{
    int64_t days, clock = 0, offset = 0;
    bool local = false;

    if (!moment_date(&text, &days))
        return -1;
    bool date = !*text;

    if (date) {
        local = true;
    } else {
        if (!moment_skip(&text, 'T') && !moment_skip(&text, 't') && !moment_skip(&text, ' '))
            return -1;
        if (!moment_clock(&text, &clock))
            return -1;
        local = !*text;
        moment_skip(&text, ' ');
        if (!local && !moment_skip(&text, 'Z') && !moment_skip(&text, 'z') &&
            !moment_offset(&text, &offset))
            return -1;
        if (*text)
            return -1;
    }
    *moment = (struct moment){days * MOMENT_DAY_MS + clock - offset, local, date};
    return 0;
}

double unit_wh(const char *unit)
{
    static const struct {
        const char *name;
        double wh;
    } units[] = {{"Wh", 1}, {"kWh", 1e3}, {"MWh", 1e6}, {"GWh", 1e9}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (!strcasecmp(unit, units[i].name))
            return units[i].wh;
    return 0;
}

char unit_type(const char *type)
{
    if (!strcasecmp(type, "History"))
        return 'H';
    return strcasecmp(type, "Delta") ? '\0' : 'D';
}

const char *unit_type_name(char type)
{
    return type == 'H' ? "History" : "Delta";
}

bool unit_decimal(const char *text, double *number)
{
    char *end;

    *number = strtod(text, &end);
    /* strtod() also reads blanks, hexadecimal numbers and words such as "inf". */
    return end > text && !*end && !text[strspn(text, "0123456789+-.eE")] && isfinite(*number);
}
