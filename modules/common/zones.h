/*
 * Converts local times to instants, with the system's zone data (TZif, RFC 8536). A zone does not
 * change after it was read, so any thread may use it. Only zones_read() has side effects.
 */
#ifndef COMMON_ZONES_H
#define COMMON_ZONES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZONE_FILES "/usr/share/zoneinfo"
#define ZONE_NAME_MAX 64

/* ---- the end of a file, in the format of POSIX TZ, which applies to all later times ---- */

/* When the clocks change in a year: the day, and the seconds of local time since 00:00. */
struct zone_change {
    /* 'M': month, week, weekday; 'J': day 1 to 365, never 29 February; 'D': day 0 to 365 */
    char kind;
    int month, week, day;
    int32_t seconds;
};

struct zone_rule {
    int32_t standard; /* seconds east of UTC */
    int32_t summer;
    bool changes; /* the clocks change to summer time at `begin`, and back at `end` */
    struct zone_change begin, end;
};

/* Returns 0, or -1 if the text is not a valid rule. */
int zone_rule_parse(const char *text, struct zone_rule *rule);

/* Returns the seconds east of UTC at an instant (seconds since 1970). */
int32_t zone_rule_offset(const struct zone_rule *rule, int64_t at);

/* ---- files ---- */

struct zone;

/*
 * Parses the content of a TZif file of version 2 or later. Returns NULL if it is invalid, or if out
 * of memory. The caller must free() the zone.
 */
struct zone *zone_parse(const unsigned char *bytes, size_t length);

/* Returns the seconds east of UTC at an instant (seconds since 1970). */
int32_t zone_offset(const struct zone *zone, int64_t at);

/* Converts an instant to local time, encoded as if it were UTC. Both are in ms since 1970. */
int64_t zone_local(const struct zone *zone, int64_t at_ms);

/*
 * Returns the instant, in ms since 1970, of a local time that is given as if it were UTC. If a
 * local time occurs twice, returns the first instant. For a skipped local time, returns the instant
 * at which the clock would show it if it had not been put forward.
 */
int64_t zone_instant(const struct zone *zone, int64_t local_ms);

/* The instants at which the clock of a zone shows a local time. */
struct zone_times {
    int count;     /* 1; 0 if a change skips the local time; 2 if a change repeats it */
    int64_t at[2]; /* ms since 1970, ascending */
    /*
     * Whether the clock changes at the instant `change`, and would show this local time without the
     * change. A period that ends at this instant may name this time as its end, like 24:00.
     */
    bool closes;
    int64_t change;
};

struct zone_times zone_times(const struct zone *zone, int64_t local_ms);

/* ---- all zones: a tree for tfind(3) of structs that begin with the zone's name ---- */

/*
 * Reads all zones below a directory into the tree *zones, which must be NULL before. It blocks, so
 * call it in `open`. If the directory does not exist, the tree stays empty. Returns 0, or -1 if out
 * of memory or descriptors, or if the directory cannot be read.
 */
int zones_read(const char *directory, void **zones);
void zones_free(void *zones);

/* Returns NULL if no zone has this name, such as Europe/Berlin. */
const struct zone *zones_find(void *const *zones, const char *name);

#endif
