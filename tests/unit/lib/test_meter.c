#include "core/lib/meter.h"
#include "core/module/generation.h"
#include "fixture.h"
#include "suite.h"

static const char *const two[] = {"done", "refused", NULL};
static const char *const other_two[] = {"refused", "done", NULL};

/* A module of a generation; a reload makes a new one. */
struct version {
    struct bb_metric row;
    struct bb_module descriptor;
    struct core_module module;
};

static void make(struct version *version, const char *const *values)
{
    *version = (struct version){
        .row = {.name = "fair_total", .kind = BB_COUNTER, .label = "outcome", .values = values},
        .descriptor = {.name = "mill"}};
    version->descriptor.metrics = (struct bb_table){&version->row, 1, sizeof version->row};
    version->module.descriptor = &version->descriptor;
    version->module.handle.module = &version->module;
    ck_assert_int_eq(meters_bind(&version->module, arena), 0);
}

static uint64_t first_of(const struct version *version)
{
    return meter_sum(version->module.handle.meters[0], 0);
}

TEST(counters_continue_in_the_next_generation_under_the_same_label)
{
    struct version before, same, turned;

    make(&before, two);
    api_metric_add(&before.module.handle.host, 0, 0, 3);
    make(&same, two);
    ck_assert_uint_eq(first_of(&same), 3);
    make(&turned, other_two);
    ck_assert_uint_eq(first_of(&turned), 0);
}

static void get_sums(const struct route_sums *sums, void *found)
{
    if (!strcmp(sums->labels, "method=\"GET\",route=\"/unit\""))
        *(struct route_sums *)found = *sums;
}

TEST(requests_are_counted_by_status_and_duration)
{
    static const int64_t bounds[] = {500,   1000,   2500,   5000,    10000,   25000,
                                     50000, 100000, 250000, 1000000, 2500000, 10000000};
    static const int statuses[] = {200, 201, 204, 400, 401, 403, 404, 405, 408, 409, 410, 411,
                                   413, 414, 415, 422, 429, 431, 500, 501, 502, 503, 505};
    struct meter *route = meter_route("GET", "/unit");
    struct route_sums found = {.labels = NULL};
    uint64_t sum = 0;

    for (size_t i = 0; i < COUNT(statuses); i++)
        meter_request(meter_route("GET", "/unit"), statuses[i], -1);
    for (size_t i = 0; i < COUNT(bounds); i++) {
        meter_request(route, 299, bounds[i]);
        meter_request(route, 299, bounds[i] + 1);
        sum += 2 * (uint64_t)bounds[i] + 1;
    }
    meter_routes(get_sums, &found);
    for (size_t i = 0; i < METER_STATUSES; i++)
        ck_assert_uint_eq(found.statuses[i], i < COUNT(statuses) ? 1 : 2 * COUNT(bounds));
    for (size_t i = 0; i < METER_BUCKETS; i++)
        ck_assert_uint_eq(found.times.buckets[i], i == 0 || i == COUNT(bounds) ? 1 : 2);
    ck_assert_uint_eq(found.times.sum_us, sum);
}

SUITE(meter, .before_each = arena_setup, .after_each = arena_teardown)
