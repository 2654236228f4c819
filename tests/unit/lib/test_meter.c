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

SUITE(meter, .before_each = arena_setup, .after_each = arena_teardown)
