#include "core/postgres/pg_slow.h"

enum {
    TIMES_USUAL = 8, /* and so many times what is usual */
    WEIGHT = 64,     /* of the average, to one of a new batch */
    QUICK_US = 1000, /* a batch that is so quick has nothing slow in it */
    TIMES = 4,       /* in a row: then it is this statement of this owner */
    AGE_MS = 10000   /* what has not been asked for so long is looked at anew */
};

bool pg_slow_batch(struct pg_slow *slow, int64_t took_us)
{
    bool is_long = took_us >= PG_SLOW_US && took_us >= TIMES_USUAL * slow->usual_us;

    slow->usual_us += (took_us - slow->usual_us) / WEIGHT;
    return is_long;
}

static size_t place_of(const struct quota_owner *owner, const struct bb_sql *sql)
{
    uint64_t hash = quota_owner_hash(owner) ^ (uint64_t)(uintptr_t)sql * 0x9e3779b97f4a7c15U;

    return (hash ^ hash >> 32) % PG_SLOW_PLACES;
}

static bool is_of(const struct pg_slow_entry *entry, const struct quota_owner *owner,
                  const struct bb_sql *sql)
{
    return entry->sql == sql && quota_owner_same(&entry->owner, owner);
}

static bool is_slow(const struct pg_slow_entry *entry, int64_t now_ms)
{
    return entry->sql && entry->times >= TIMES && now_ms - entry->at_ms < AGE_MS;
}

static void count(struct pg_slow *slow, struct pg_slow_entry *entry,
                  const struct quota_owner *owner, const struct bb_sql *sql, int64_t now_ms)
{
    if (!is_of(entry, owner, sql) || now_ms - entry->at_ms >= AGE_MS) {
        if (is_slow(entry, now_ms))
            return;
        slow->taken += !entry->sql;
        *entry = (struct pg_slow_entry){.owner = *owner, .sql = sql};
    }
    entry->times += entry->times < TIMES;
    entry->at_ms = now_ms;
}

void pg_slow_answered(struct pg_slow *slow, const struct quota_owner *owner,
                      const struct bb_sql *sql, int64_t now_ms, int64_t took_us)
{
    struct pg_slow_entry *entry = &slow->places[place_of(owner, sql)];

    if (took_us >= PG_SLOW_US) {
        count(slow, entry, owner, sql, now_ms);
    } else if (is_of(entry, owner, sql) && (took_us < QUICK_US || entry->times < TIMES)) {
        entry->sql = NULL;
        slow->taken--;
    } else if (is_of(entry, owner, sql)) {
        entry->at_ms = now_ms;
    }
}

bool pg_slow_is(const struct pg_slow *slow, const struct quota_owner *owner,
                const struct bb_sql *sql, int64_t now_ms)
{
    const struct pg_slow_entry *entry = &slow->places[place_of(owner, sql)];

    return slow->taken && is_of(entry, owner, sql) && is_slow(entry, now_ms);
}
