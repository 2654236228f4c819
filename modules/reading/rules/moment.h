/* Dates and times as clients send them: ISO 8601, with an offset or local. Pure; any thread. */
#ifndef READING_MOMENT_H
#define READING_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#define MOMENT_DAY_MS INT64_C(86400000)

struct moment {
    int64_t ms; /* since 1970; for a local time, as if it were UTC */
    bool local; /* without an offset or Z */
    bool date;  /* only a date; `ms` is its midnight */
};

/*
 * Returns the days since 1970 of a date in the proleptic Gregorian calendar. Accepts the years 1 to
 * 9999 and a few before and after.
 */
int64_t moment_days(int year, int month, int day);

/* Returns the year of a day (days since 1970). */
int moment_year(int64_t days);

/* Advances if the text begins with the character. Returns whether it does. */
bool moment_skip(const char **at, char c);

/*
 * Parses "YYYY-MM-DD", alone or followed by "T" or a blank and a time: "hh:mm[:ss[.fraction]]",
 * then nothing, "Z", "±hh:mm", "±hhmm" or "±hh". Also accepts "t" and "z", a comma before the
 * fraction, an hour of one digit, and a blank before the offset. Returns 0, or -1 if the text has
 * another form or the date does not exist.
 */
int moment_parse(const char *text, struct moment *moment);

/* The problem text that describes the accepted form. */
#define MOMENT_FORM                                                                                \
    "must be an ISO 8601 date, or date and time, such as 2026-04-01 or 2026-04-01T12:00:00Z"

/* Units of energy, and the numbers in front of them. Pure; any thread. */

/* Returns the Wh of a unit (Wh, kWh, MWh or GWh, ignoring case), or 0 for an unknown unit. */
double unit_wh(const char *unit);

/* Returns 'H' for History or 'D' for Delta, ignoring case, or 0 for another text. */
char unit_type(const char *type);

/* Returns "History" or "Delta". */
const char *unit_type_name(char type);

/*
 * Parses a decimal number as in JSON, and also "+5", ".5" and "5.". Returns false if the text is
 * not a number, or the number is too large.
 */
bool unit_decimal(const char *text, double *number);

#endif
