#include "modules/reading/rules/moment.h"

#include <ctype.h>
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

bool moment_skip(const char **at, char c)
{
    bool there = **at == c;

    *at += there;
    return there;
}

/*
 * Parses numbers and advances. A digit of `form` is the number of digits of a number; other
 * characters of `form` must be in the text.
 */
static bool moment_scan(const char **at, const char *form, int *numbers)
{
    for (; *form; form++) {
        int digits = isdigit((unsigned char)*form) ? *form - '0' : 0;

        if (!digits && !moment_skip(at, *form))
            return false;
        for (int i = 0; i < digits; i++, (*at)++) {
            if (!isdigit((unsigned char)**at))
                return false;
            *numbers = (i ? *numbers * 10 : 0) + (**at - '0');
        }
        numbers += digits > 0;
    }
    return true;
}

/* Parses a time and its offset. 24:00 is the end of a day. The hour may have one digit. */
static bool moment_clock(const char *at, struct moment *moment)
{
    int clock[3] = {0, 0, 0}, offset[2] = {0, 0}, fraction = 0, sign = 1;

    if (!moment_scan(&at, *at && at[1] == ':' ? "1:2" : "2:2", clock))
        return false;
    bool seconds = *at == ':';

    if (seconds && !moment_scan(&at, ":2", &clock[2]))
        return false;
    if (seconds && (moment_skip(&at, '.') || moment_skip(&at, ','))) {
        size_t count = strspn(at, "0123456789");

        for (size_t i = 0; i < 3; i++) /* further digits are dropped */
            fraction = fraction * 10 + (i < count ? at[i] - '0' : 0);
        at += count;
        if (!count)
            return false;
    }
    moment->local = !*at;
    moment_skip(&at, ' ');
    if (!moment->local && !moment_skip(&at, 'Z') && !moment_skip(&at, 'z')) {
        sign = *at == '-' ? -1 : 1;
        if ((!moment_skip(&at, '+') && !moment_skip(&at, '-')) || !moment_scan(&at, "2", offset) ||
            ((moment_skip(&at, ':') || *at) && !moment_scan(&at, "2", &offset[1])))
            return false;
    }
    int64_t ms = ((clock[0] * 60 + clock[1]) * INT64_C(60) + clock[2]) * 1000 + fraction;

    moment->ms += ms - sign * (offset[0] * 60 + offset[1]) * INT64_C(60000);
    return !*at && clock[1] < 60 && clock[2] < 60 && ms <= MOMENT_DAY_MS && offset[0] < 16 &&
           offset[1] < 60;
}

int moment_parse(const char *text, struct moment *moment)
{
    int date[3];

    if (!moment_scan(&text, "4-2-2", date) || !date[0] || date[1] < 1 || date[1] > 12 ||
        date[2] < 1)
        return -1;
    int64_t days = moment_days(date[0], date[1], date[2]);

    if (days >= moment_days(date[0] + date[1] / 12, date[1] % 12 + 1, 1))
        return -1;
    struct moment parsed = {.ms = days * MOMENT_DAY_MS, .local = true, .date = !*text};

    if (!parsed.date &&
        ((!moment_skip(&text, 'T') && !moment_skip(&text, 't') && !moment_skip(&text, ' ')) ||
         !moment_clock(text, &parsed)))
        return -1;
    *moment = parsed;
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
