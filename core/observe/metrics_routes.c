/* Answered requests, by the pattern of their route. */
#include <inttypes.h>

#include "core/base/meter.h"
#include "core/observe/metrics.h"

/* Methods and patterns come from the modules' tables and contain no quotes. */
static void write_statuses(const struct route_sums *sums, void *arg)
{
    struct metrics *metrics = arg;

    for (int i = 0; i < METER_STATUSES; i++) {
        if (!sums->statuses[i])
            continue;
        fprintf(metrics->out, "%s{method=\"%s\",route=\"%s\",code=\"", metrics->name, sums->method,
                sums->path);
        if (meter_statuses[i])
            fprintf(metrics->out, "%d", meter_statuses[i]);
        else
            fputs("other", metrics->out);
        fprintf(metrics->out, "\"} %" PRIu64 "\n", sums->statuses[i]);
    }
}

void metrics_requests(struct metrics *metrics)
{
    meter_routes(write_statuses, metrics);
}

static void write_histogram(const struct route_sums *sums, void *arg)
{
    const struct metrics *metrics = arg;
    const char *name = metrics->name;
    uint64_t count = 0;

    for (int i = 0; i < METER_BUCKETS; i++)
        count += sums->buckets[i];
    if (!count)
        return;
    count = 0;
    for (int i = 0; i < METER_BUCKETS; i++) {
        count += sums->buckets[i];
        fprintf(metrics->out, "%s_bucket{method=\"%s\",route=\"%s\",le=\"", name, sums->method,
                sums->path);
        if (i < METER_BUCKETS - 1)
            fprintf(metrics->out, "%.15g", (double)meter_bounds_us[i] / 1e6);
        else
            fputs("+Inf", metrics->out);
        fprintf(metrics->out, "\"} %" PRIu64 "\n", count);
    }
    fprintf(metrics->out, "%s_sum{method=\"%s\",route=\"%s\"} %.15g\n", name, sums->method,
            sums->path, (double)sums->sum_us / 1e6);
    fprintf(metrics->out, "%s_count{method=\"%s\",route=\"%s\"} %" PRIu64 "\n", name, sums->method,
            sums->path, count);
}

void metrics_durations(struct metrics *metrics)
{
    meter_routes(write_histogram, metrics);
}
