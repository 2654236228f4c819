/* GET /metrics: all counters and gauges in Prometheus's text format 0.0.4. */
#ifndef CORE_METRICS_H
#define CORE_METRICS_H

#include <stdio.h>

#include "core/module/engine.h"
#include "core/module/request.h"

/* The context of the functions that write metrics. */
struct metrics {
    FILE *out;
    const char *name; /* full name of the metric */
    size_t place;     /* of its row, see struct host_metric */
    struct core_request *rq;
    struct engine *engine;
    struct generation *generations[GENERATIONS_MAX]; /* with references */
    size_t generation_count;
};

/* A metric of the host itself: the reference and the output are generated from the same rows. */
struct host_metric {
    const char *name;   /* full name */
    const char *type;   /* "counter", "gauge", "histogram" */
    const char *labels; /* "method, route, code"; NULL: none */
    const char *help;
    void (*write)(struct metrics *metrics);
    size_t place; /* offset of the number in the struct that `write` reads, if it serves several
                     rows */
};

extern const struct host_metric host_metrics[];
extern const size_t host_metric_count;

/* Whether the host has a metric of this name. */
bool host_metric_named(const char *name);

/* metrics_shares.c */
void metrics_shares_taken(struct metrics *metrics);
void metrics_shares_limit(struct metrics *metrics);
void metrics_shares_refused(struct metrics *metrics);

/* crashes.c */
void metrics_crashes(struct metrics *metrics);
void metrics_restarts(struct metrics *metrics);
void metrics_left_out(struct metrics *metrics);
void metrics_stalls(struct metrics *metrics);

/* Write a value of the current metric, without and with a label. */
void metric_number(struct metrics *metrics, double number);
void metric_labelled(struct metrics *metrics, const char *label, const char *value, double number);
/* Writes only the number, after a name and labels. */
void metric_end(struct metrics *metrics, double number);

/* bb_metrics() */
char *api_metrics(struct bb_request *rq, size_t *length);

#endif
