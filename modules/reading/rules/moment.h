/* Dates and times as they are sent: ISO 8601, with an offset, or local. Pure; any thread. */
#ifndef READING_MOMENT_H
#define READING_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#define MOMENT_DAY_MS INT64_C(86400000)

struct moment {
    int64_t ms; /* since 1970; of a local one, as if its clock were that of UTC */
    bool local; /* neither offset nor Z stands behind it */
    bool date;  /* a date alone: its midnight */
};

/* Days since 1970 of a date of the proleptic Gregorian calendar, years 1 to 9999 and around. */
int64_t moment_days(int year, int month, int day);

/* The year of a day. */
int moment_year(int64_t days);

/*
 * Reads "YYYY-MM-DD", alone or followed by "T" or a blank and a time: "hh:mm[:ss[.fraction]]", and
 * then nothing, "Z", "±hh:mm", "±hhmm" or "±hh". Also takes "t" and "z", a comma before the
 * fraction, an hour of one digit, and a blank before the offset. Returns 0, or -1 if the text has
 * another form or the calendar has no such date.
 */
int moment_parse(const char *text, struct moment *moment);

/* How a problem names the form that is taken. */
#define MOMENT_FORM                                                                                \
    "must be an ISO 8601 date, or date and time, such as 2026-04-01 or 2026-04-01T12:00:00Z"

#endif
