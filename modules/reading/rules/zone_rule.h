/*
 * The rule at the end of a zone's file, in the format of POSIX TZ. It applies to all times after
 * the file's table. Pure.
 */
#ifndef READING_ZONE_RULE_H
#define READING_ZONE_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* The time of a change: a day of the year, and the seconds of local time into that day. */
struct zone_change {
    char kind; /* 'M': month, week, weekday; 'J': day 1 to 365, never 29 February; 'D': day 0 to 365
                */
    int month, week, day;
    int32_t seconds;
};

struct zone_rule {
    int32_t standard; /* seconds east of UTC */
    int32_t summer;
    bool changes; /* there is summer time, between the two changes */
    struct zone_change begin, end;
};

/* Returns 0, or -1 if it is not a valid rule. */
int zone_rule_parse(const char *text, struct zone_rule *rule);

/* Returns the seconds east of UTC at an instant (seconds since 1970). */
int32_t zone_rule_offset(const struct zone_rule *rule, int64_t at);

#endif
