/*
 * How many long statements of a loop may be under way, so that short ones do not wait for the
 * processors of PostgreSQL: all that there are connections for while short ones are answered as
 * soon as ever, and one after the other while they are late. A pace belongs to its loop's thread.
 */
#ifndef CORE_PG_PACE_H
#define CORE_PG_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg_pace {
    unsigned most;       /* connections for long statements */
    unsigned allowed;    /* of them, as the answers to short ones have it */
    int64_t changed_ms;  /* when that was decided */
    int64_t answered_ms; /* when a short one was answered */
    int64_t begun_ms;    /* when a long one began */
    int64_t window_ms;   /* when the present window began */
    int64_t least_us[2]; /* the quickest answer of the present window, and of the one before */
};

/* All times are those of the loop's monotonic clock. */
void pg_pace_init(struct pg_pace *pace, unsigned most);

/* A batch of short statements was answered so many microseconds after it was sent. */
void pg_pace_answered(struct pg_pace *pace, int64_t now_ms, int64_t took_us);

/*
 * Whether a long statement may begin beside `running` others. It may even while short ones are late
 * where none has begun for a while: others wait for a slow one no longer than that.
 */
bool pg_pace_may_begin(const struct pg_pace *pace, int64_t now_ms, size_t running);

/* Whether short ones were answered late a moment ago. */
bool pg_pace_is_late(const struct pg_pace *pace, int64_t now_ms);

void pg_pace_begun(struct pg_pace *pace, int64_t now_ms);

#endif
