#include "core/lib/meter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 8, ROUTES_MAX = 4096, METERS_MAX = 4096, LINE = 64 };

const int meter_statuses[METER_STATUSES] = {200, 201, 204, 400, 401, 403, 404, 405,
                                            408, 409, 410, 411, 413, 414, 415, 422,
                                            429, 431, 500, 501, 502, 503, 505, 0};
const int64_t meter_bounds_us[METER_BUCKETS - 1] = {
    500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 1000000, 2500000, 10000000};

/* The counts of a route in one slot. */
struct route_counts {
    _Alignas(LINE) atomic_uint_least64_t statuses[METER_STATUSES];
    atomic_uint_least64_t buckets[METER_BUCKETS], sum_us;
};

struct route_meter {
    struct route_counts places[PLACES]; /* first member, for alignment */
    struct route_meter *next;
    char *method, *path;
};

/* A module's metric family: `count` numbers in each slot. Slots do not share cache lines. */
struct meter {
    struct meter *next;
    char *name; /* module.metric and the values of the label: if they change, it is another meter */
    size_t count, stride;
    atomic_uint_least64_t *numbers;
};

static struct {
    pthread_mutex_t lock;
    struct route_meter *routes, **last_route;
    struct meter *meters;
    size_t route_count, meter_count;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .last_route = &all.routes};

static struct route_meter none = {.method = "other", .path = "none"};
static struct route_meter rest = {.method = "other", .path = "other"};

static _Thread_local unsigned place;

void meter_thread(unsigned index)
{
    place = index % PLACES;
}

static void add(atomic_uint_least64_t *number, uint64_t by)
{
    atomic_fetch_add_explicit(number, by, memory_order_relaxed);
}

static uint64_t value_of(const atomic_uint_least64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* ---- routes ---- */

static struct route_meter *route_new(const char *method, const char *path)
{
    struct route_meter *meter = aligned_alloc(LINE, sizeof *meter);
    char *texts = malloc(strlen(method) + strlen(path) + 2);

    if (!meter || !texts || all.route_count == ROUTES_MAX) {
        free(meter);
        free(texts);
        return &rest;
    }
    memset(meter, 0, sizeof *meter);
    meter->method = strcpy(texts, method);
    meter->path = strcpy(texts + strlen(method) + 1, path);
    *all.last_route = meter;
    all.last_route = &meter->next;
    all.route_count++;
    return meter;
}

struct route_meter *meter_route(const char *method, const char *path)
{
    pthread_mutex_lock(&all.lock);
    struct route_meter *meter = all.routes;
    while (meter && (strcmp(meter->path, path) != 0 || strcmp(meter->method, method) != 0))
        meter = meter->next;
    if (!meter)
        meter = route_new(method, path);
    pthread_mutex_unlock(&all.lock);
    return meter;
}

struct route_meter *meter_no_route(void)
{
    return &none;
}

static size_t status_place(int status)
{
    size_t i = 0;

    while (i < METER_STATUSES - 1 && meter_statuses[i] != status)
        i++;
    return i;
}

void meter_request(struct route_meter *meter, int status, int64_t us)
{
    struct route_counts *counts = &meter->places[place];
    size_t bucket = 0;

    add(&counts->statuses[status_place(status)], 1);
    if (us < 0)
        return;
    while (bucket < METER_BUCKETS - 1 && us > meter_bounds_us[bucket])
        bucket++;
    add(&counts->buckets[bucket], 1);
    add(&counts->sum_us, (uint64_t)us);
}

static void tell(const struct route_meter *meter,
                 void (*call)(const struct route_sums *sums, void *arg), void *arg)
{
    struct route_sums sums = {.method = meter->method, .path = meter->path};

    for (int i = 0; i < PLACES; i++) {
        const struct route_counts *counts = &meter->places[i];

        for (int k = 0; k < METER_STATUSES; k++)
            sums.statuses[k] += value_of(&counts->statuses[k]);
        for (int k = 0; k < METER_BUCKETS; k++)
            sums.buckets[k] += value_of(&counts->buckets[k]);
        sums.sum_us += value_of(&counts->sum_us);
    }
    call(&sums, arg);
}

void meter_routes(void (*call)(const struct route_sums *sums, void *arg), void *arg)
{
    pthread_mutex_lock(&all.lock);
    for (const struct route_meter *at = all.routes; at; at = at->next)
        tell(at, call, arg);
    pthread_mutex_unlock(&all.lock);
    tell(&none, call, arg);
    tell(&rest, call, arg);
}

/* ---- modules ---- */

static struct meter *meter_new(char *name, size_t count)
{
    struct meter *meter = calloc(1, sizeof *meter);
    size_t a_line = LINE / sizeof(atomic_uint_least64_t);

    if (!meter || all.meter_count == METERS_MAX)
        goto failed;
    meter->name = name;
    meter->count = count;
    meter->stride = (count + a_line - 1) / a_line * a_line;
    size_t size = meter->stride * PLACES * sizeof *meter->numbers;
    meter->numbers = aligned_alloc(LINE, size);
    if (!meter->numbers)
        goto failed;
    memset(meter->numbers, 0, size);
    meter->next = all.meters;
    all.meters = meter;
    all.meter_count++;
    return meter;
failed:
    free(meter);
    free(name);
    return NULL;
}

struct meter *meter_named(char *name, size_t count)
{
    struct meter *meter;

    if (!name)
        return NULL;
    pthread_mutex_lock(&all.lock);
    for (meter = all.meters; meter; meter = meter->next) {
        if (!strcmp(meter->name, name))
            break;
    }
    if (meter)
        free(name);
    else
        meter = meter_new(name, count);
    pthread_mutex_unlock(&all.lock);
    return meter;
}

uint64_t meter_sum(const struct meter *meter, size_t value)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < PLACES; i++)
        sum += value_of(&meter->numbers[i * meter->stride + value]);
    return sum;
}

void meter_add(struct meter *meter, size_t value, uint64_t by)
{
    if (value < meter->count)
        add(&meter->numbers[place * meter->stride + value], by);
}
