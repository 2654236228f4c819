/* GET /metrics: all counters and gauges in Prometheus's text format 0.0.4. */
#ifndef CORE_METRICS_H
#define CORE_METRICS_H

#include "core/module/engine.h"
#include "core/module/request.h"

struct metrics;

/* A metric of the host itself: the reference and the output are generated from the same rows. */
struct host_metric {
    const char *name;   /* full name */
    const char *type;   /* "counter", "gauge", "histogram" */
    const char *labels; /* "method, route, code"; NULL: none */
    void (*write)(struct metrics *metrics);
    /* offset of the number in the struct that `write` reads, if `write` serves several rows */
    size_t place;
    const char *help;
};

extern const struct host_metric host_metrics[];
extern const size_t host_metric_count;

/* Returns whether the host has a metric of this name. */
bool host_metric_named(const char *name);

#endif
