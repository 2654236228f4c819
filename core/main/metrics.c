#include "core/main/metrics.h"

#include "config.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/meter.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/main/job.h"
#include "core/main/reload.h"
#include "core/main/serve.h"
#include "core/module/account.h"
#include "core/module/module_validate.h"
#include "core/module/pool.h"
#include "core/module/quota.h"
#include "core/server/connection.h"
#include "core/server/stream.h"
#include "core/store/pg.h"
#include "core/store/pg_listener.h"
#include "core/store/redis.h"
#include "core/store/sql.h"

/* Values of metrics that have one value; NAN: currently unknown. */
struct numbers {
    double body_bytes, answer_bytes, streams, ready, paused, schema_up, migrations_pending;
    double database_up, database_writable, database_latency, clock_offset, redis_up, redis_latency,
        generations;
    double generation, generation_age, hooks_lost, log_lost, restarts, stalls, memory, cpu, files;
    double files_most, started;
};

/* The context of the functions that write metrics. */
struct metrics {
    FILE *out;
    const char *name; /* full name of the metric */
    size_t place;     /* from its row, see struct host_metric */
    struct core_request *rq;
    struct engine *engine;
    struct numbers numbers;
};

/* Writes a sample with these labels. Writes 15 digits, so that counters below 10^15 are exact. */
BB_PRINTF(3, 4)
static void metrics_put(const struct metrics *metrics, double number, const char *labels, ...)
{
    va_list args;

    fprintf(metrics->out, "%s{", metrics->name);
    va_start(args, labels);
    vfprintf(metrics->out, labels, args);
    va_end(args);
    fprintf(metrics->out, "} %.15g\n", number);
}

static void metrics_put_number(const struct metrics *metrics, double number)
{
    fprintf(metrics->out, "%s %.15g\n", metrics->name, number);
}

/* ---- answered requests, by the pattern of their route ---- */

static void metrics_statuses(const struct route_sums *sums, void *metrics)
{
    for (int i = 0; i < METER_STATUSES; i++) {
        if (sums->statuses[i] && meter_statuses[i])
            metrics_put(metrics, (double)sums->statuses[i], "%s,code=\"%d\"", sums->labels,
                        meter_statuses[i]);
        else if (sums->statuses[i])
            metrics_put(metrics, (double)sums->statuses[i], "%s,code=\"other\"", sums->labels);
    }
}

static void metrics_requests(struct metrics *metrics)
{
    meter_routes(metrics_statuses, metrics);
}

/* Writes a histogram with these labels if it has counted any times. */
static void metrics_put_times(const struct metrics *metrics, const struct meter_times *times,
                              const char *labels)
{
    uint64_t count = 0, all = 0;
    char bound[32];

    for (int i = 0; i < METER_BUCKETS; i++)
        all += times->buckets[i];
    for (int i = 0; all && i < METER_BUCKETS; i++) {
        count += times->buckets[i];
        if (i < METER_BUCKETS - 1)
            snprintf(bound, sizeof bound, "%.15g", (double)meter_bounds_us[i] / 1e6);
        fprintf(metrics->out, "%s_bucket{%s,le=\"%s\"} %" PRIu64 "\n", metrics->name, labels,
                i < METER_BUCKETS - 1 ? bound : "+Inf", count);
    }
    if (all)
        fprintf(metrics->out, "%s_sum{%s} %.15g\n%s_count{%s} %" PRIu64 "\n", metrics->name, labels,
                (double)times->sum_us / 1e6, metrics->name, labels, all);
}

static void metrics_histogram(const struct route_sums *sums, void *metrics)
{
    metrics_put_times(metrics, &sums->times, sums->labels);
}

static void metrics_durations(struct metrics *metrics)
{
    meter_routes(metrics_histogram, metrics);
}

/* ---- the connections of each loop, to clients and to PostgreSQL ---- */

/* Returns the numbers at the row's offset in the statistics of a loop. */
static const atomic_size_t *metrics_of_loop(const struct metrics *metrics, const struct loop *loop)
{
    return (const atomic_size_t *)(const void *)((const char *)&loop->stats + metrics->place);
}

static void metrics_each_loop(struct metrics *metrics)
{
    for (unsigned i = 0; i < metrics->engine->loop_count; i++)
        metrics_put(metrics,
                    (double)atomic_load(metrics_of_loop(metrics, &metrics->engine->loops[i])),
                    "loop=\"%u\"", i);
}

static void metrics_each_pg_pool(struct metrics *metrics)
{
    for (unsigned i = 0; i < metrics->engine->loop_count; i++) {
        const struct loop *loop = &metrics->engine->loops[i];

        for (int kind = 0; loop->pg && kind < PG_POOLS; kind++)
            metrics_put(metrics, (double)atomic_load(&metrics_of_loop(metrics, loop)[kind]),
                        "loop=\"%u\",pool=\"%s\"", i, pg_pool_names[kind]);
    }
}

static void metrics_each_replica(struct metrics *metrics)
{
    size_t count = json_array_size(metrics->rq->generation->host->database.replicas);

    for (unsigned i = 0; i < metrics->engine->loop_count; i++)
        for (size_t k = 0; k < count; k++) {
            const struct replica_stats *stats = &metrics->engine->loops[i].stats.replicas[k];
            size_t number = atomic_load(
                (const atomic_size_t *)(const void *)((const char *)stats + metrics->place));
            double unit = strstr(metrics->name, "_seconds") ? 1000 : 1;

            metrics_put(metrics, (double)number / unit, "loop=\"%u\",replica=\"%zu\"", i, k + 1);
        }
}

/* ---- metrics with one value ---- */

static double metrics_memory(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages;
    bool known = file && fscanf(file, "%*u %lu", &pages) == 1; // NOLINT

    if (file)
        fclose(file);
    return known ? (double)pages * (double)sysconf(_SC_PAGESIZE) : NAN;
}

static double metrics_files(void)
{
    DIR *files = opendir("/proc/self/fd");
    double count = -3; /* ".", ".." and the descriptor of the directory */

    if (!files)
        return NAN;
    while (readdir(files))
        count++;
    closedir(files);
    return count;
}

static double metrics_seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* Returns the current values. */
static struct numbers metrics_numbers(const struct metrics *metrics)
{
    struct engine *engine = metrics->engine;
    const struct generation *g = metrics->rq->generation;
    const struct redis *redis = metrics->rq->loop->redis;
    int64_t ms;
    int schema = readiness_of(metrics->rq->loop, BB_SCHEMA, &ms); /* 1: there is no database */
    int64_t database_ms = engine->pg_listener ? pg_listener_latency_ms() : -1;
    int64_t redis_ms = redis ? redis_latency_ms(redis) : -1, now = clock_mono_ms();
    struct generation *generations[GENERATIONS_MAX];
    size_t generation_count = engine_generations(engine, generations);
    struct rusage used = {0};
    struct rlimit limit;

    engine_generations_release(generations, generation_count);
    getrusage(RUSAGE_SELF, &used);
    return (struct numbers){
        .body_bytes = (double)quota_taken(&quota_tables[QUOTA_BODIES]),
        .answer_bytes = (double)quota_taken(&quota_tables[QUOTA_ANSWERS]),
        .streams = (double)streams_open(),
        .ready = readiness(engine),
        .paused = engine->pg_listener ? pause_holds(engine) : NAN,
        .schema_up = schema <= 0 ? schema == 0 : NAN,
        .migrations_pending = schema <= 0 ? (double)atomic_load(&engine->migrations_pending) : NAN,
        .database_up = engine->pg_listener ? pg_listener_fresh_ms() > 0 : NAN,
        .database_writable = engine->pg_listener ? !pg_listener_no_writes() : NAN,
        .database_latency = database_ms >= 0 ? (double)database_ms / 1000 : NAN,
        .clock_offset = shared_clock_known() ? (double)shared_clock_offset_ms() / 1000 : NAN,
        .redis_up = redis ? redis_ms >= 0 : NAN,
        .redis_latency = redis_ms >= 0 ? (double)redis_ms / 1000 : NAN,
        .generations = (double)generation_count,
        .generation = g->number,
        .generation_age = (double)(now - g->live_ms) / 1000,
        .hooks_lost = (double)bus_hooks_lost(),
        .log_lost = (double)log_dropped(),
        .restarts = supervised_history()->restarts,
        .stalls = atomic_load(&engine->stalls),
        .memory = metrics_memory(),
        .cpu = metrics_seconds(used.ru_utime) + metrics_seconds(used.ru_stime),
        .files = metrics_files(),
        .files_most = getrlimit(RLIMIT_NOFILE, &limit) ? NAN : (double)limit.rlim_cur,
        .started = (double)(clock_wall_ms() - (now - engine->started_ms)) / 1000,
    };
}

static void metrics_one(struct metrics *metrics)
{
    double number =
        *(const double *)(const void *)((const char *)&metrics->numbers + metrics->place);

    if (!isnan(number))
        metrics_put_number(metrics, number);
}

/* ---- the build, pools, reloads ---- */

static void metrics_build(struct metrics *metrics)
{
    metrics_put(metrics, 1, "version=\"%s\"", PACKAGE_VERSION);
}

/* Writes the pools of one generation, because two generations may have pools of the same name. */
static void metrics_each_pool(struct metrics *metrics)
{
    struct work_pool_status pool;

    for (size_t i = 0; work_pool_snapshot(metrics->rq->generation->pools, i, &pool); i++)
        metrics_put(metrics,
                    *(const unsigned *)(const void *)((const char *)&pool + metrics->place),
                    "module=\"%s\",pool=\"%s\"", pool.module, pool.name);
}

static void metrics_reloads(struct metrics *metrics)
{
    struct reload_history history = {0};

    if (metrics->engine->reloader) /* NULL: a command runs on the engine */
        reloader_history(metrics->engine->reloader, &history);
    metrics_put(metrics, history.done, "outcome=\"done\"");
    metrics_put(metrics, history.refused, "outcome=\"refused\"");
}

/* ---- accounting by module ---- */

/* Writes a value of each module. Converts it from microseconds if the metric is in seconds. */
static void metrics_modules(struct metrics *metrics)
{
    double unit = strstr(metrics->name, "_seconds") ? 1e6 : 1;

    for (const struct account *at = account_first(); at; at = at->next)
        metrics_put(metrics, (double)meter_sum(at->meter, metrics->place) / unit, "module=\"%s\"",
                    at->name);
}

static void metrics_module_refused(struct metrics *metrics)
{
    for (const struct account *at = account_first(); at; at = at->next)
        for (unsigned i = 0; i < ACCOUNT_LIMITS; i++)
            metrics_put(metrics, (double)meter_sum(at->meter, ACCOUNT_REFUSED + i),
                        "module=\"%s\",limit=\"%s\"", at->name, account_limit_names[i]);
}

static void metrics_module_times(struct metrics *metrics)
{
    char labels[128]; /* names of modules are shorter */
    struct meter_times times;

    for (const struct account *at = account_first(); at; at = at->next) {
        snprintf(labels, sizeof labels, "module=\"%s\"", at->name);
        meter_times(at->meter, ACCOUNT_TIMES, &times);
        metrics_put_times(metrics, &times, labels);
    }
}

/* ---- jobs ---- */

static void metrics_job_runs(struct metrics *metrics)
{
    struct job_record job;

    for (size_t i = 0; job_log_snapshot(metrics->engine, i, &job); i++) {
        metrics_put(metrics, (double)job.done, "job=\"%s\",outcome=\"done\"", job.name);
        metrics_put(metrics, (double)job.failed, "job=\"%s\",outcome=\"failed\"", job.name);
        metrics_put(metrics, (double)job.skipped, "job=\"%s\",outcome=\"skipped\"", job.name);
    }
}

/* Writes for each job the time at the offset `place` of its record, unless it is 0. */
static void metrics_job_time(struct metrics *metrics)
{
    struct job_record job;

    for (size_t i = 0; job_log_snapshot(metrics->engine, i, &job); i++) {
        int64_t ms = *(const int64_t *)(const void *)((const char *)&job + metrics->place);

        if (ms)
            metrics_put(metrics, (double)ms / 1000, "job=\"%s\"", job.name);
    }
}

static void metrics_job_duration(struct metrics *metrics)
{
    struct job_record job;

    for (size_t i = 0; job_log_snapshot(metrics->engine, i, &job); i++)
        metrics_put(metrics, (double)job.last_us / 1000000, "job=\"%s\"", job.name);
}

/* ---- shared resources: the amount in use, the limit, and the number of refusals ---- */

struct amount {
    size_t taken, all, each;
};

static struct amount metrics_amount(const struct metrics *metrics, enum quota quota)
{
    const struct generation *g = metrics->rq->generation;
    struct amount amount = {.taken = 0};

    if (quota == QUOTA_POOLS) {
        struct work_pool_status pool;

        for (size_t i = 0; work_pool_snapshot(g->pools, i, &pool); i++) {
            amount.taken += pool.busy + pool.waiting;
            amount.all += pool.threads + pool.queue;
            amount.each += pool.each;
        }
    } else if (quota == QUOTA_DATABASE) { /* each pool of each loop has a separate queue */
        size_t queue = (size_t)g->host->database.queue, pools = 0;

        for (unsigned i = 0; i < metrics->engine->loop_count; i++) {
            const struct loop *loop = &metrics->engine->loops[i];

            for (int kind = 0; loop->pg && kind < PG_POOLS; kind++, pools++)
                amount.taken += atomic_load(&loop->stats.waiting[kind]);
        }
        amount.all = queue * pools;
        amount.each = quota_part((size_t)g->host->http.client_percent, queue) * pools;
    } else if (quota == QUOTA_CONNECTIONS) {
        struct http_settings settings = http_settings_of(g, &metrics->engine->listeners);

        amount = (struct amount){quota_taken(&quota_tables[quota]), settings.max_connections,
                                 settings.per_address};
    } else {
        struct quota_limits bounds = quota_bounds(g, quota);

        amount = (struct amount){quota_taken(&quota_tables[quota]), bounds.all, bounds.each};
    }
    return amount;
}

static void metrics_taken(struct metrics *metrics)
{
    for (enum quota quota = 0; quota < QUOTAS; quota++)
        metrics_put(metrics, (double)metrics_amount(metrics, quota).taken, "resource=\"%s\"",
                    quota_names[quota]);
}

/* Writes two samples: the value for all owners together, and the value for a single owner. */
static void metrics_put_quota(const struct metrics *metrics, enum quota quota, double all,
                              double owner)
{
    metrics_put(metrics, all, "resource=\"%s\",whose=\"all\"", quota_names[quota]);
    metrics_put(metrics, owner, "resource=\"%s\",whose=\"owner\"", quota_names[quota]);
}

static void metrics_limits(struct metrics *metrics)
{
    for (enum quota quota = 0; quota < QUOTAS; quota++) {
        struct amount amount = metrics_amount(metrics, quota);

        metrics_put_quota(metrics, quota, (double)amount.all, (double)amount.each);
    }
}

static void metrics_refused(struct metrics *metrics)
{
    for (enum quota quota = 0; quota < QUOTAS; quota++)
        metrics_put_quota(metrics, quota, (double)quota_refused(quota, false),
                          (double)quota_refused(quota, true));
}

/* ---- crashes, as the supervisor counts them ---- */

static void metrics_crashes(struct metrics *metrics)
{
    const struct crash_history *history = supervised_history();

    for (size_t i = 0; i < history->row_count; i++) {
        const char *module = history->rows[i].module;

        metrics_put(metrics, history->rows[i].count, "module=\"%s\"", *module ? module : "unknown");
    }
}

static void metrics_left_out(struct metrics *metrics)
{
    const struct generation *g = metrics->rq->generation;

    for (size_t i = 0; i < g->left_out_count; i++)
        metrics_put(metrics, 1, "module=\"%s\"", g->left_out[i].name);
}

/* ---- the table of all metrics, and the response ---- */

// clang-format off

/* Macros for rows. Most rows have the offset of a number in a struct, which `write` reads. */
#define OTHER(name, type, labels, write, help) {name, type, labels, write, 0, help}
#define ROW(name, type, labels, help, write, of, member)                                           \
    {name, type, labels, write, offsetof(struct of, member), help}
#define ONE(name, type, member, help) ROW(name, type, NULL, help, metrics_one, numbers, member)
#define LOOP(name, type, member, help)                                                             \
    ROW(name, type, "loop", help, metrics_each_loop, loop_stats, member)
#define PG_POOL(name, type, member, help)                                                          \
    ROW(name, type, "loop, pool", help, metrics_each_pg_pool, loop_stats, member)
#define REPLICA(name, type, member, help)                                                          \
    ROW(name, type, "loop, replica", help, metrics_each_replica, replica_stats, member)
#define POOL(name, type, member, help)                                                             \
    ROW(name, type, "module, pool", help, metrics_each_pool, work_pool_status, member)
#define MODULE(name, type, value, help) {name, type, "module", metrics_modules, value, help}
#define JOB_TIME(name, member, help)                                                               \
    ROW(name, "gauge", "job", help, metrics_job_time, job_record, member)

#include "core/main/host_metrics.h"

// clang-format on

const size_t host_metric_count = sizeof host_metrics / sizeof host_metrics[0];

bool host_metric_named(const char *name)
{
    size_t i = 0;

    while (i < host_metric_count && strcmp(host_metrics[i].name, name))
        i++;
    return i < host_metric_count;
}

static void metrics_head(const struct metrics *metrics, const char *type, const char *help)
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

static double metrics_read(const struct core_module *module, size_t row, size_t value)
{
    const struct bb_metric *metric = &MODULE_ROWS(bb_metric, module->descriptor->metrics)[row];

    if (metric->read)
        return metric->read(module->handle.host.state, value);
    return (double)meter_sum(module->handle.meters[row], value);
}

char *api_metrics(struct bb_request *rq, size_t *length)
{
    char *text = NULL;
    struct metrics metrics = {.rq = request_of(rq), .engine = request_of(rq)->loop->engine};
    const struct generation *g = metrics.rq->generation;

    *length = 0;
    metrics.out = open_memstream(&text, length);
    if (!metrics.out)
        request_out_of_memory(metrics.rq);
    metrics.numbers = metrics_numbers(&metrics);
    for (size_t i = 0; i < host_metric_count; i++) {
        metrics.name = host_metrics[i].name;
        metrics.place = host_metrics[i].place;
        metrics_head(&metrics, host_metrics[i].type, host_metrics[i].help);
        host_metrics[i].write(&metrics);
    }
    for (size_t i = 0; i < g->module_count; i++) {
        const struct core_module *module = &g->modules[i];
        const struct bb_metric *rows = MODULE_ROWS(bb_metric, module->descriptor->metrics);
        char name[METRIC_NAME_MAX];

        for (size_t j = 0; j < module->descriptor->metrics.count; j++) {
            metric_full_name(module->descriptor, &rows[j], name);
            metrics.name = name;
            metrics_head(&metrics, rows[j].kind == BB_COUNTER ? "counter" : "gauge", rows[j].help);
            if (!rows[j].label)
                metrics_put_number(&metrics, metrics_read(module, j, 0));
            for (size_t k = 0; rows[j].label && rows[j].values[k]; k++)
                metrics_put(&metrics, metrics_read(module, j, k), "%s=\"%s\"", rows[j].label,
                            rows[j].values[k]);
        }
        metrics.name = NULL; /* it points to `name` above */
    }
    if (!fclose(metrics.out) && !arena_defer(metrics.rq->arena, free, text))
        return text;
    free(text);
    request_out_of_memory(metrics.rq);
}
