/* Dates and times as clients send them (ISO 8601), with or without an offset. Any thread. */
#ifndef BUSBAR_MOMENT_H
#define BUSBAR_MOMENT_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>

#define BB_DAY_MS INT64_C(86400000)

struct bb_moment {
    int64_t ms; /* since 1970, UTC; a local time is read as if it were UTC */
    bool local; /* the text had neither an offset nor Z */
    bool date;  /* the text was only a date; `ms` is midnight */
};

/*
 * Returns the number of days from 1970-01-01 to a date in the proleptic Gregorian calendar, for
 * years from -399 on. `y` and `of_year` count from March, so that the leap day is the last day of
 * its year; 400 years have 146,097 days. The 400 years that are added first and subtracted at the
 * end keep the operands of the divisions positive.
 */
static inline int64_t bb_moment_days(int year, int month, int day)
{
    int64_t y = year + 400 - (month <= 2), of_era = y % 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return (y / 400 - 1) * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Advances if the text begins with the character. Returns whether it does. */
static inline bool bb_moment_skip(const char **at, char c)
{
    bool there = **at == c;

    *at += there;
    return there;
}

/*
 * Parses numbers in the format `form`, and advances. Returns whether the text has this format. A
 * digit N of `form` is a number with N digits; other characters of `form` must be in the text.
 */
static inline bool bb_moment_scan(const char **at, const char *form, int *numbers)
{
    for (; *form; form++) {
        int digits = isdigit((unsigned char)*form) ? *form - '0' : 0;

        if (!digits && !bb_moment_skip(at, *form))
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

/* Parses a time of day with its offset, and adds it to moment->ms. Returns whether it is valid. */
static inline bool bb_moment_clock(const char *at, struct bb_moment *moment)
{
    int clock[3] = {0, 0, 0}, offset[2] = {0, 0}, sign = 1;
    int64_t ms = 0;

    if (!bb_moment_scan(&at, *at && at[1] == ':' ? "1:2" : "2:2", clock))
        return false;
    bool seconds = *at == ':';

    if (seconds && !bb_moment_scan(&at, ":2", &clock[2]))
        return false;
    if (seconds && (bb_moment_skip(&at, '.') || bb_moment_skip(&at, ','))) {
        if (!isdigit((unsigned char)*at))
            return false;
        for (int unit = 100; isdigit((unsigned char)*at); unit /= 10) /* drops further digits */
            ms += (*at++ - '0') * unit;
    }
    moment->local = !*at;
    bb_moment_skip(&at, ' ');
    if (!moment->local && !bb_moment_skip(&at, 'Z') && !bb_moment_skip(&at, 'z')) {
        sign = *at == '-' ? -1 : 1;
        if ((!bb_moment_skip(&at, '+') && !bb_moment_skip(&at, '-')) ||
            !bb_moment_scan(&at, "2", offset) ||
            ((bb_moment_skip(&at, ':') || *at) && !bb_moment_scan(&at, "2", &offset[1])))
            return false;
    }
    ms += ((clock[0] * 60 + clock[1]) * INT64_C(60) + clock[2]) * 1000;
    moment->ms += ms - sign * (offset[0] * 60 + offset[1]) * INT64_C(60000);
    return !*at && clock[1] < 60 && clock[2] < 60 && ms <= BB_DAY_MS && offset[0] < 16 &&
           offset[1] < 60;
}

/*
 * Parses "YYYY-MM-DD", alone or followed by "T" or a blank and a time: "hh:mm[:ss[.fraction]]",
 * then nothing, "Z", "±hh:mm", "±hhmm" or "±hh". Also accepts "t" and "z", a comma before the
 * fraction, an hour of one digit, a blank before the offset, and 24:00 as the end of a day. Returns
 * 0, or -1 if the text has another form or the date does not exist.
 */
static inline int bb_moment_parse(const char *text, struct bb_moment *moment)
{
    int date[3];
    struct bb_moment parsed = {0, true, false};

    if (!bb_moment_scan(&text, "4-2-2", date) || !date[0] || date[1] < 1 || date[1] > 12 ||
        date[2] < 1)
        return -1;
    int64_t days = bb_moment_days(date[0], date[1], date[2]);

    if (days >= bb_moment_days(date[0] + date[1] / 12, date[1] % 12 + 1, 1))
        return -1;
    parsed.ms = days * BB_DAY_MS;
    parsed.date = !*text;
    if (!parsed.date && ((!bb_moment_skip(&text, 'T') && !bb_moment_skip(&text, 't') &&
                          !bb_moment_skip(&text, ' ')) ||
                         !bb_moment_clock(text, &parsed)))
        return -1;
    *moment = parsed;
    return 0;
}

#endif
