#include "core/lib/meter.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/thread.h"

/* A route's meter counts requests by status and, from index TIMES_AT, by duration. */
enum { TIMES_AT = METER_STATUSES, ROUTE_VALUES = TIMES_AT + METER_TIME_VALUES };

/* A cache line has LINE values. Slots begin at cache lines, so that no line is in two slots. */
enum { PLACES = 8, METERS_MAX = 8192, LINE = 8, ROUTE_STRIDE = (ROUTE_VALUES / LINE + 1) * LINE };

const int meter_statuses[METER_STATUSES] = {200, 201, 204, 400, 401, 403, 404, 405,
                                            408, 409, 410, 411, 413, 414, 415, 422,
                                            429, 431, 500, 501, 502, 503, 505, 0};
const int64_t meter_bounds_us[METER_BUCKETS - 1] = {
    500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 1000000, 2500000, 10000000};

/* `numbers` has PLACES slots of `stride` numbers; the first `count` of each slot are used. */
struct meter {
    struct meter *next;
    /* of a route: the labels; of a module's metric: the name and all values of the label, so that a
     * reload that changes these values gets another meter */
    const char *name;
    bool route;
    size_t count, stride;
    atomic_uint_least64_t *numbers;
};

/* Shared meters: for requests without a route, and for routes for which meter_new() has failed. */
static _Alignas(LINE * sizeof(uint64_t)) atomic_uint_least64_t spare[2][PLACES * ROUTE_STRIDE];
static struct meter other_routes = {
    NULL, "method=\"other\",route=\"other\"", true, ROUTE_VALUES, ROUTE_STRIDE, spare[1]};
struct meter meter_no_route = {
    &other_routes, "method=\"other\",route=\"none\"", true, ROUTE_VALUES, ROUTE_STRIDE, spare[0]};

/* meter_lock protects the list of all meters: meter_no_route and its successors. */
static pthread_mutex_t meter_lock = PTHREAD_MUTEX_INITIALIZER;
static struct meter **meters_end = &other_routes.next;
static size_t meters;

static _Thread_local unsigned place;

void meter_thread(unsigned index)
{
    place = index % PLACES;
}

/* Creates a meter, which then owns the name. NULL: out of memory, or too many meters. */
static struct meter *meter_new(const char *name, bool route, size_t count)
{
    size_t stride = (count + LINE - 1) / LINE * LINE;
    size_t size = stride * PLACES * sizeof(atomic_uint_least64_t);
    struct meter *meter = meters < METERS_MAX ? malloc(sizeof *meter) : NULL;
    void *numbers = meter ? aligned_alloc(LINE * sizeof(uint64_t), size) : NULL;

    if (!numbers) {
        free(meter);
        return NULL;
    }
    *meter = (struct meter){NULL, name, route, count, stride, memset(numbers, 0, size)};
    *meters_end = meter;
    meters_end = &meter->next;
    meters++;
    return meter;
}

/* Returns or creates the meter; NULL if meter_new() fails. Takes ownership of `name`. */
static struct meter *meter_find(char *name, bool route, size_t count)
{
    pthread_mutex_lock(&meter_lock);
    struct meter *meter = &meter_no_route;

    while (meter && (meter->route != route || strcmp(meter->name, name) != 0))
        meter = meter->next;
    bool found = meter != NULL;

    if (!found)
        meter = meter_new(name, route, count);
    pthread_mutex_unlock(&meter_lock);
    if (found || !meter)
        free(name);
    return meter;
}

struct meter *meter_named(char *name, size_t count)
{
    return name ? meter_find(name, false, count) : NULL;
}

void meter_add(struct meter *meter, size_t value, uint64_t by)
{
    if (value < meter->count)
        atomic_fetch_add_explicit(&meter->numbers[place * meter->stride + value], by,
                                  memory_order_relaxed);
}

uint64_t meter_sum(const struct meter *meter, size_t value)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < PLACES; i++)
        sum +=
            atomic_load_explicit(&meter->numbers[i * meter->stride + value], memory_order_relaxed);
    return sum;
}

void meter_add_time(struct meter *meter, size_t first, int64_t us)
{
    size_t bucket = 0;

    while (bucket < METER_BUCKETS - 1 && us > meter_bounds_us[bucket])
        bucket++;
    meter_add(meter, first + bucket, 1);
    meter_add(meter, first + METER_BUCKETS, (uint64_t)us);
}

void meter_times(const struct meter *meter, size_t first, struct meter_times *times)
{
    for (size_t i = 0; i < METER_BUCKETS; i++)
        times->buckets[i] = meter_sum(meter, first + i);
    times->sum_us = meter_sum(meter, first + METER_BUCKETS);
}

/* ---- routes ---- */

struct meter *meter_route(const char *method, const char *path)
{
    char *name;
    struct meter *meter = asprintf(&name, "method=\"%s\",route=\"%s\"", method, path) < 0
                              ? NULL
                              : meter_find(name, true, ROUTE_VALUES);

    return meter ? meter : &other_routes;
}

void meter_request(struct meter *route, int status, int64_t us)
{
    size_t at = 0;

    while (at < METER_STATUSES - 1 && meter_statuses[at] != status)
        at++;
    meter_add(route, at, 1);
    if (us >= 0)
        meter_add_time(route, TIMES_AT, us);
}

void meter_routes(void (*call)(const struct route_sums *sums, void *arg), void *arg)
{
    struct route_sums sums;

    BB_LOCKED(&meter_lock);
    for (const struct meter *route = &meter_no_route; route; route = route->next) {
        if (!route->route)
            continue;
        sums.labels = route->name;
        for (size_t i = 0; i < METER_STATUSES; i++)
            sums.statuses[i] = meter_sum(route, i);
        meter_times(route, TIMES_AT, &sums.times);
        call(&sums, arg);
    }
}
