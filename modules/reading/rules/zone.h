/*
 * A time zone of the system's zone data (TZif, RFC 8536), for turning local times into instants. A
 * zone never changes once it is read. Pure but for zone_read(); any thread.
 */
#ifndef READING_ZONE_H
#define READING_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZONE_NAME_MAX 64

struct zone;

/* Whether a text may be the name of a zone; whether there is one shows only when it is read. */
bool zone_name_good(const char *name);

/* From the content of a TZif file of version 2 or later; NULL: it is none, or no memory. free(). */
struct zone *zone_parse(const unsigned char *bytes, size_t length);

/*
 * Reads a file below the system's zone data. Blocks. NULL: there is no such zone; or, with *failed,
 * it could not be read for lack of memory or descriptors.
 */
struct zone *zone_read(const char *name, bool *failed);

/* Seconds east of UTC at an instant (seconds since 1970). */
int32_t zone_offset(const struct zone *zone, int64_t at);

/* The local time of an instant, both in ms since 1970, as if the zone's clock were that of UTC. */
int64_t zone_local(const struct zone *zone, int64_t at_ms);

/*
 * Returns the instant, in ms since 1970, of a local time that is given as if its clock showed UTC:
 * the first instant of a local time that occurs twice. A local time that is skipped counts on from
 * before the change, as if the clock had not been put forward.
 */
int64_t zone_instant(const struct zone *zone, int64_t local_ms);

/* When the clock of a zone shows a local time. */
struct zone_times {
    int count;     /* 0: a change skips it; 1; or 2: a change repeats it */
    int64_t at[2]; /* ms since 1970, in their order */
    /* The clock is changed when it reaches this local time, at `change`. The end of the hour before
     * the change may be written so, as 24:00 is the end of a day. */
    bool closes;
    int64_t change;
};

struct zone_times zone_times(const struct zone *zone, int64_t local_ms);

#endif
