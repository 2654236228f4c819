/*
 * This host's own counters of failed logins, used while Redis is down or refuses to count. The
 * table has a fixed number of entries in sets of four; a full set drops the counter that ends
 * first, so memory is bounded however many clients there are. One mutex guards it.
 */
#include "modules/auth/password/password.h"

#include <pthread.h>

#define SETS 2048
#define WAYS 4

struct counter {
    uint64_t id;
    int64_t count;
    int64_t ends_ms; /* monotonic clock; 0: free */
    bool alone;      /* Redis refused to count some of it, so the counter in Redis is too low */
};

struct throttle_table {
    pthread_mutex_t lock;
    struct counter counters[SETS][WAYS];
};

struct throttle_table *throttle_table_new(void)
{
    struct throttle_table *table = calloc(1, sizeof(*table));

    if (table && pthread_mutex_init(&table->lock, NULL) == 0)
        return table;
    free(table);
    return NULL;
}

void throttle_table_free(struct throttle_table *table)
{
    if (!table)
        return;
    pthread_mutex_destroy(&table->lock);
    free(table);
}

static struct counter *find(struct throttle_table *table, uint64_t id, int64_t now_ms)
{
    struct counter *set = table->counters[id % SETS];

    for (size_t i = 0; i < WAYS; i++)
        if (set[i].id == id && set[i].ends_ms > now_ms)
            return set + i;
    return NULL;
}

int64_t throttle_table_wait(struct throttle_table *table, uint64_t id, int64_t limit,
                            int64_t now_ms, bool redis_answered)
{
    pthread_mutex_lock(&table->lock);
    const struct counter *counter = find(table, id, now_ms);
    bool holds = counter && counter->count >= limit && (counter->alone || !redis_answered);
    int64_t wait = holds ? counter->ends_ms - now_ms : 0;
    pthread_mutex_unlock(&table->lock);
    return wait;
}

void throttle_table_alone(struct throttle_table *table, uint64_t id, int64_t now_ms)
{
    pthread_mutex_lock(&table->lock);
    struct counter *counter = find(table, id, now_ms);
    if (counter)
        counter->alone = true;
    pthread_mutex_unlock(&table->lock);
}

void throttle_table_count(struct throttle_table *table, uint64_t id, int64_t window_ms,
                          int64_t now_ms)
{
    pthread_mutex_lock(&table->lock);
    struct counter *counter = find(table, id, now_ms);
    if (!counter) {
        counter = table->counters[id % SETS];
        for (size_t i = 1; i < WAYS; i++)
            if (table->counters[id % SETS][i].ends_ms < counter->ends_ms)
                counter = table->counters[id % SETS] + i;
        *counter = (struct counter){.id = id, .ends_ms = now_ms + window_ms};
    }
    counter->count++;
    pthread_mutex_unlock(&table->lock);
}

void throttle_table_clear(struct throttle_table *table, uint64_t id)
{
    pthread_mutex_lock(&table->lock);
    for (size_t i = 0; i < WAYS; i++)
        if (table->counters[id % SETS][i].id == id)
            table->counters[id % SETS][i] = (struct counter){0};
    pthread_mutex_unlock(&table->lock);
}
