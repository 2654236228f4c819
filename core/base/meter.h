/*
 * Meters: the numbers that rise while the host works. Each loop counts in a place of its own, so
 * that nothing is locked and no cache line is fought for; who looks adds the places up. Meters are
 * found by their names and live as long as the process, so they outlive generations. Any thread.
 */
#ifndef CORE_METER_H
#define CORE_METER_H

#include <busbar/module.h>

#include "core/base/arena.h"

struct meter;
struct route_meter;

enum {
    METER_STATUSES = 24, /* the last one is for those that have no place of their own */
    METER_BUCKETS = 13   /* the last one has no bound */
};

extern const int meter_statuses[METER_STATUSES];         /* the last one: 0 */
extern const int64_t meter_bounds_us[METER_BUCKETS - 1]; /* rising */

/* The calling thread counts in this place from here on (a loop's index); others share the first. */
void meter_thread(unsigned index);

/* The meter of a route, by its pattern; never NULL: where there is no room, one for all such. */
struct route_meter *meter_route(const char *method, const char *path);

/* The meter of requests that no route is for. */
struct route_meter *meter_no_route(void);

/* Counts a request; us: time until its answer, -1: none that says anything. */
void meter_request(struct route_meter *meter, int status, int64_t us);

struct route_sums {
    const char *method, *path;
    uint64_t statuses[METER_STATUSES], buckets[METER_BUCKETS], sum_us;
};

/* Calls with each route's sums, in the order they were first seen. */
void meter_routes(void (*call)(const struct route_sums *sums, void *arg), void *arg);

/* The family of this name (taken; NULL: no memory), made if it is new, of `count` values. NULL: no
 * memory. */
struct meter *meter_named(char *name, size_t count);

/* Adds to a value of it; one that it does not have is passed over. Any thread. */
void meter_add(struct meter *meter, size_t value, uint64_t by);

uint64_t meter_sum(const struct meter *meter, size_t value);

#endif
