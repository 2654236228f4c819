/*
 * Which reads of whom are slow. A short statement shares a batch with those of others, and they
 * wait until the whole of it is answered; what has been slow several times is sent by the pool of
 * long statements instead, until it is quick again. Belongs to its loop's thread.
 */
#ifndef CORE_PG_SLOW_H
#define CORE_PG_SLOW_H

#include <stdbool.h>

#include <busbar/sql.h>

#include "core/base/quota_table.h"

enum {
    PG_SLOW_PLACES = 64, /* of the table; a newer one takes the place of one that is not slow */
    PG_SLOW_US = 5000    /* a batch that takes so long has something slow in it */
};

struct pg_slow_entry {
    struct quota_owner owner;
    const struct bb_sql *sql; /* NULL: the place is free */
    unsigned times;           /* in a row */
    int64_t at_ms;            /* the last time */
};

struct pg_slow {
    struct pg_slow_entry places[PG_SLOW_PLACES];
    unsigned taken;
    int64_t usual_us; /* what batches of short statements take: a moving average */
};

/* A batch of short statements took so long. Whether that is long: where all do, nobody is slow. */
bool pg_slow_batch(struct pg_slow *slow, int64_t took_us);

/*
 * What the owner asked was answered after so long, alone or among others: in a batch nobody knows
 * whose statement took the time, so that only the one counts that is there each time.
 */
void pg_slow_answered(struct pg_slow *slow, const struct quota_owner *owner,
                      const struct bb_sql *sql, int64_t now_ms, int64_t took_us);

/* Whether it should be sent by the pool of long statements. */
bool pg_slow_is(const struct pg_slow *slow, const struct quota_owner *owner,
                const struct bb_sql *sql, int64_t now_ms);

#endif
