/*
 * Meters: counters of the host and its modules. Up to 8 loops count in separate slots, so that
 * counting needs no locks and loops do not share cache lines; readers sum up the slots. Meters are
 * identified by name and live as long as the process, so they survive reloads. Any thread.
 */
#ifndef CORE_METER_H
#define CORE_METER_H

#include <stddef.h>
#include <stdint.h>

struct meter;

enum {
    METER_STATUSES = 24, /* the last one counts statuses that meter_statuses lacks */
    METER_BUCKETS = 13,  /* the last one is unbounded */
    METER_TIME_VALUES = METER_BUCKETS + 1 /* the buckets, and the sum of all times */
};

extern const int meter_statuses[METER_STATUSES];         /* the last element is 0 */
extern const int64_t meter_bounds_us[METER_BUCKETS - 1]; /* ascending */

/* Selects a slot for the calling thread by the index of a loop. The default is the first slot. */
void meter_thread(unsigned index);

/*
 * Returns the meter of a route, identified by its pattern. If memory runs out or there are too many
 * meters, returns a shared one. Never NULL.
 */
struct meter *meter_route(const char *method, const char *path);

extern struct meter meter_no_route; /* counts requests that match no route */

/* Counts a request of a route. `us` is the time until the response; -1: not measured. */
void meter_request(struct meter *route, int status, int64_t us);

struct meter_times {
    uint64_t buckets[METER_BUCKETS], sum_us;
};

struct route_sums {
    const char *labels; /* method="GET",route="/path" */
    uint64_t statuses[METER_STATUSES];
    struct meter_times times;
};

/* Calls call(sums, arg) for each route, in the order of creation. */
void meter_routes(void (*call)(const struct route_sums *sums, void *arg), void *arg);

/*
 * Returns or creates the metric family with this name and `count` values. Takes over `name`, which
 * is from malloc(). Returns NULL if `name` is NULL, memory ran out, or there are too many meters.
 */
struct meter *meter_named(char *name, size_t count);

/* Adds to the value with this index; no effect if there is no such value. Any thread. */
void meter_add(struct meter *meter, size_t value, uint64_t by);

uint64_t meter_sum(const struct meter *meter, size_t value);

/* Count one time, or read all times, in the METER_TIME_VALUES values from index `first`. */
void meter_add_time(struct meter *meter, size_t first, int64_t us);
void meter_times(const struct meter *meter, size_t first, struct meter_times *times);

#endif
