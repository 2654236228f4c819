#include "core/metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/ear.h"
#include "core/http.h"
#include "core/log.h"
#include "core/meter.h"
#include "core/pg.h"
#include "core/pool.h"
#include "core/redis.h"
#include "core/stream.h"
#include "core/text.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

static const char *const lanes[PG_LANES] = {"read", "unit", "long", "tx"};

/* Fifteen digits are all that a counter below 2^53 needs, and as many as are true. */
static void number_end(struct metrics *metrics, double number)
{
    fprintf(metrics->out, " %.15g\n", number);
}

void metric_number(struct metrics *metrics, double number)
{
    fputs(metrics->name, metrics->out);
    number_end(metrics, number);
}

void metric_labelled(struct metrics *metrics, const char *label, const char *value, double number)
{
    fprintf(metrics->out, "%s{%s=\"%s\"}", metrics->name, label, value);
    number_end(metrics, number);
}

static void build_info(struct metrics *metrics)
{
    metric_labelled(metrics, "version", PACKAGE_VERSION, 1);
}

/* ---- requests ---- */

/* Methods and patterns are of the modules' tables, which have no quote in them. */
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

static void requests(struct metrics *metrics)
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

static void durations(struct metrics *metrics)
{
    meter_routes(write_histogram, metrics);
}

/* ---- loops ---- */

void metrics_publish(struct loop *loop, size_t connections)
{
    struct loop_told *told = &loop->told;

    atomic_store_explicit(&told->requests, loop->requests, memory_order_relaxed);
    atomic_store_explicit(&told->connections, connections, memory_order_relaxed);
    for (int kind = 0; loop->pg && kind < PG_LANES; kind++) {
        struct pg_lane_status lane;

        pg_lane_look(loop->pg, (enum pg_lane_kind)kind, &lane);
        atomic_store_explicit(&told->ready[kind], lane.ready, memory_order_relaxed);
        atomic_store_explicit(&told->waiting[kind], lane.waiting, memory_order_relaxed);
        atomic_store_explicit(&told->batches[kind], lane.batches, memory_order_relaxed);
    }
}

static double told_of(const atomic_size_t *number)
{
    return (double)atomic_load_explicit(number, memory_order_relaxed);
}

/* A line for each loop, of the number at this place in what it told. */
static void each_loop(struct metrics *metrics, size_t place)
{
    for (unsigned i = 0; i < metrics->engine->loop_count; i++) {
        const char *told = (const char *)&metrics->engine->loops[i].told;
        char index[16];

        snprintf(index, sizeof index, "%u", i);
        metric_labelled(metrics, "loop", index,
                        told_of((const atomic_size_t *)(const void *)(told + place)));
    }
}

static void each_lane(struct metrics *metrics, size_t place)
{
    for (unsigned i = 0; i < metrics->engine->loop_count; i++) {
        const struct loop *loop = &metrics->engine->loops[i];
        const atomic_size_t *numbers =
            (const atomic_size_t *)(const void *)((const char *)&loop->told + place);

        for (int kind = 0; loop->pg && kind < PG_LANES; kind++) {
            fprintf(metrics->out, "%s{loop=\"%u\",lane=\"%s\"}", metrics->name, i, lanes[kind]);
            number_end(metrics, told_of(&numbers[kind]));
        }
    }
}

static void client_connections(struct metrics *metrics)
{
    each_loop(metrics, offsetof(struct loop_told, connections));
}

static void alive(struct metrics *metrics)
{
    each_loop(metrics, offsetof(struct loop_told, requests));
}

static void lane_ready(struct metrics *metrics)
{
    each_lane(metrics, offsetof(struct loop_told, ready));
}

static void lane_waiting(struct metrics *metrics)
{
    each_lane(metrics, offsetof(struct loop_told, waiting));
}

static void lane_batches(struct metrics *metrics)
{
    each_lane(metrics, offsetof(struct loop_told, batches));
}

static void streams(struct metrics *metrics)
{
    metric_number(metrics, (double)streams_open());
}

/* ---- dependencies ---- */

static void database_up(struct metrics *metrics)
{
    if (metrics->engine->ear)
        metric_number(metrics, ear_fresh_ms() > 0);
}

static void database_latency(struct metrics *metrics)
{
    int64_t ms = ear_latency_ms();

    if (metrics->engine->ear && ms >= 0)
        metric_number(metrics, (double)ms / 1000);
}

static void redis_up(struct metrics *metrics)
{
    const struct redis *redis = metrics->rq->loop->redis;

    if (redis)
        metric_number(metrics, redis_latency_ms(redis) >= 0);
}

static void redis_latency(struct metrics *metrics)
{
    const struct redis *redis = metrics->rq->loop->redis;

    if (redis && redis_latency_ms(redis) >= 0)
        metric_number(metrics, (double)redis_latency_ms(redis) / 1000);
}

/* ---- pools, generations, the log ---- */

static unsigned pool_threads(const struct work_pool_status *pool)
{
    return pool->threads;
}

static unsigned pool_busy(const struct work_pool_status *pool)
{
    return pool->busy;
}

static unsigned pool_waiting(const struct work_pool_status *pool)
{
    return pool->waiting;
}

/* Of the generation that looks: two of a pool's name cannot stand side by side. */
static void each_pool(struct metrics *metrics,
                      unsigned (*number)(const struct work_pool_status *pool))
{
    struct work_pool_status pool;

    for (size_t i = 0; work_pool_look(metrics->rq->generation->pools, i, &pool); i++) {
        fprintf(metrics->out, "%s{module=\"%s\",pool=\"%s\"}", metrics->name, pool.module,
                pool.name);
        number_end(metrics, number(&pool));
    }
}

static void pools_threads(struct metrics *metrics)
{
    each_pool(metrics, pool_threads);
}

static void pools_busy(struct metrics *metrics)
{
    each_pool(metrics, pool_busy);
}

static void pools_waiting(struct metrics *metrics)
{
    each_pool(metrics, pool_waiting);
}

static void generations(struct metrics *metrics)
{
    metric_number(metrics, (double)metrics->generation_count);
}

static void generation_number(struct metrics *metrics)
{
    metric_number(metrics, metrics->rq->generation->number);
}

static void generation_age(struct metrics *metrics)
{
    metric_number(metrics, (double)(clock_mono_ms() - metrics->rq->generation->live_ms) / 1000);
}

static void log_lost(struct metrics *metrics)
{
    metric_number(metrics, (double)log_dropped());
}

// clang-format off

const struct host_metric host_metrics[] = {
    {"busbar_build_info", "gauge", "version", "Always 1.", build_info},
    {"busbar_http_requests_total", "counter", "method, route, code",
     "Requests answered, by the route's pattern; route none: there was no such path or method.",
     requests},
    {"busbar_http_request_duration_seconds", "histogram", "method, route, le",
     "From the request line to the answer, before it is sent; streams are left out.", durations},
    {"busbar_http_connections", "gauge", "loop", "Connections of clients.",
     client_connections},
    {"busbar_requests", "gauge", "loop", "Requests alive: of clients, hooks, jobs, modules.",
     alive},
    {"busbar_streams", "gauge", NULL, "Streams open.", streams},
    {"busbar_database_up", "gauge", NULL, "Whether PostgreSQL answered within the last second.",
     database_up},
    {"busbar_database_latency_seconds", "gauge", NULL, "Of its last sign of life.",
     database_latency},
    {"busbar_database_connections", "gauge", "loop, lane", "Connections that can be used.",
     lane_ready},
    {"busbar_database_waiting", "gauge", "loop, lane", "Statements and units waiting to be sent.",
     lane_waiting},
    {"busbar_database_batches", "gauge", "loop, lane", "Batches under way.", lane_batches},
    {"busbar_redis_up", "gauge", NULL, "Whether Redis answers.", redis_up},
    {"busbar_redis_latency_seconds", "gauge", NULL, "Of its last sign of life.", redis_latency},
    {"busbar_pool_threads", "gauge", "module, pool", "Threads of a module's pool.", pools_threads},
    {"busbar_pool_busy", "gauge", "module, pool", "Threads at work.", pools_busy},
    {"busbar_pool_waiting", "gauge", "module, pool", "Calls that wait for a thread.",
     pools_waiting},
    {"busbar_generations", "gauge", NULL,
     "Configurations alive; more than 1 after a reload, until the old one has drained.",
     generations},
    {"busbar_generation", "gauge", NULL, "The number of the one that answers.", generation_number},
    {"busbar_generation_age_seconds", "gauge", NULL, "Since it went live.", generation_age},
    {"busbar_log_lines_lost_total", "counter", NULL, "Lines that the log had no room for.",
     log_lost},
    {"process_resident_memory_bytes", "gauge", NULL, "Memory in use.", metrics_memory},
    {"process_cpu_seconds_total", "counter", NULL, "Time of the processors, of all threads.",
     metrics_cpu},
    {"process_open_fds", "gauge", NULL, "Descriptors open.", metrics_files},
    {"process_max_fds", "gauge", NULL, "Descriptors that may be open.", metrics_files_most},
    {"process_start_time_seconds", "gauge", NULL, "When the host started, since 1970.",
     metrics_started},
};

// clang-format on

const size_t host_metric_count = sizeof host_metrics / sizeof host_metrics[0];

/* ---- the page ---- */

static void write_head(struct metrics *metrics, const char *type, const char *help)
{
    fprintf(metrics->out, "# HELP %s ", metrics->name);
    for (; *help; help++) {
        if (*help == '\\' || *help == '\n')
            fputs(*help == '\n' ? "\\n" : "\\\\", metrics->out);
        else
            fputc(*help, metrics->out);
    }
    fprintf(metrics->out, "\n# TYPE %s %s\n", metrics->name, type);
}

void metric_full_name(const struct bb_module *face, const struct bb_metric *metric,
                      char name[METRIC_NAME_MAX])
{
    snprintf(name, METRIC_NAME_MAX, "busbar_%s_%s", face->name, metric->name);
}

static double read_metric(const struct core_module *module, size_t row, size_t value)
{
    const struct bb_metric *metric = &MODULE_ROWS(bb_metric, module->face->metrics)[row];

    if (metric->read)
        return metric->read(module->handle.host.state, value);
    return (double)meter_sum(module->handle.meters[row], value);
}

static void write_module(struct metrics *metrics, const struct core_module *module)
{
    const struct bb_metric *rows = MODULE_ROWS(bb_metric, module->face->metrics);
    char name[METRIC_NAME_MAX];

    for (size_t i = 0; i < module->face->metrics.count; i++) {
        metric_full_name(module->face, &rows[i], name);
        metrics->name = name;
        write_head(metrics, rows[i].kind == BB_COUNTER ? "counter" : "gauge", rows[i].help);
        if (!rows[i].label)
            metric_number(metrics, read_metric(module, i, 0));
        for (size_t k = 0; rows[i].label && rows[i].values[k]; k++)
            metric_labelled(metrics, rows[i].label, rows[i].values[k], read_metric(module, i, k));
    }
}

static void write_all(struct metrics *metrics)
{
    const struct generation *g = metrics->rq->generation;

    metrics->generation_count = engine_generations(metrics->engine, metrics->generations);
    for (size_t i = 0; i < host_metric_count; i++) {
        metrics->name = host_metrics[i].name;
        write_head(metrics, host_metrics[i].type, host_metrics[i].help);
        host_metrics[i].write(metrics);
    }
    for (size_t i = 0; i < g->module_count; i++)
        write_module(metrics, &g->modules[i]);
    engine_generations_release(metrics->generations, metrics->generation_count);
}

char *api_metrics(struct bb_request *rq, size_t *length)
{
    char *text = NULL;
    struct metrics metrics = {.rq = request_of(rq), .engine = request_of(rq)->loop->engine};

    *length = 0;
    metrics.out = open_memstream(&text, length);
    if (metrics.out)
        write_all(&metrics);
    int failed = metrics.out ? fclose(metrics.out) : -1;
    if (!failed && !arena_defer(metrics.rq->arena, free, text))
        return text;
    free(text);
    request_out_of_memory(metrics.rq);
}
