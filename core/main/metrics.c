#include "core/main/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/meter.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/version.h"
#include "core/main/readiness.h"
#include "core/module/engine.h"
#include "core/module/job_log.h"
#include "core/module/module_validate.h"
#include "core/module/pool.h"
#include "core/module/quota.h"
#include "core/server/http.h"
#include "core/server/stream.h"
#include "core/store/pg.h"
#include "core/store/pg_listener.h"
#include "core/store/redis.h"
#include "core/store/sql.h"

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

/* Fifteen digits are sufficient for counters below 2^53, and are the precision of a double. */
static void metric_end(struct metrics *metrics, double number)
{
    fprintf(metrics->out, " %.15g\n", number);
}

static void metric_number(struct metrics *metrics, double number)
{
    fputs(metrics->name, metrics->out);
    metric_end(metrics, number);
}

static void metric_labelled(struct metrics *metrics, const char *label, const char *value,
                            double number)
{
    fprintf(metrics->out, "%s{%s=\"%s\"}", metrics->name, label, value);
    metric_end(metrics, number);
}

/* ---- answered requests, by the pattern of their route ---- */

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

static void http_requests(struct metrics *metrics)
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

static void http_durations(struct metrics *metrics)
{
    meter_routes(write_histogram, metrics);
}

/* ---- the connections of each loop, to clients and to PostgreSQL ---- */

static double stat_of(const atomic_size_t *number)
{
    return (double)atomic_load_explicit(number, memory_order_relaxed);
}

/* Writes a line for each loop; `place` is the offset of the number in the statistics. */
static void each_loop(struct metrics *metrics)
{
    for (unsigned i = 0; i < metrics->engine->loop_count; i++) {
        const char *told = (const char *)&metrics->engine->loops[i].stats;
        char index[16];

        snprintf(index, sizeof index, "%u", i);
        metric_labelled(metrics, "loop", index,
                        stat_of((const atomic_size_t *)(const void *)(told + metrics->place)));
    }
}

static void each_pg_pool(struct metrics *metrics)
{
    for (unsigned i = 0; i < metrics->engine->loop_count; i++) {
        const struct loop *loop = &metrics->engine->loops[i];
        const atomic_size_t *numbers =
            (const atomic_size_t *)(const void *)((const char *)&loop->stats + metrics->place);

        for (int kind = 0; loop->pg && kind < PG_POOLS; kind++) {
            fprintf(metrics->out, "%s{loop=\"%u\",lane=\"%s\"}", metrics->name, i,
                    pg_pool_names[kind]);
            metric_end(metrics, stat_of(&numbers[kind]));
        }
    }
}

/* ---- the process, with the names that Prometheus's own clients use ---- */

static void process_memory(struct metrics *metrics)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[128];
    char *at = line;

    if (!file)
        return;
    if (fgets(line, sizeof line, file)) {
        strtoull(at, &at, 10);
        metric_number(metrics, (double)strtoull(at, NULL, 10) * (double)sysconf(_SC_PAGESIZE));
    }
    fclose(file);
}

static void process_cpu(struct metrics *metrics)
{
    struct rusage used;

    if (!getrusage(RUSAGE_SELF, &used))
        metric_number(metrics, (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
}

static void process_files(struct metrics *metrics)
{
    DIR *files = opendir("/proc/self/fd");
    double count = -3; /* ".", ".." and the descriptor of the directory */

    if (!files)
        return;
    while (readdir(files))
        count++;
    closedir(files);
    metric_number(metrics, count);
}

static void process_files_most(struct metrics *metrics)
{
    struct rlimit limit;

    if (!getrlimit(RLIMIT_NOFILE, &limit))
        metric_number(metrics, (double)limit.rlim_cur);
}

static void process_started(struct metrics *metrics)
{
    int64_t age_ms = clock_mono_ms() - metrics->engine->started_ms;

    metric_number(metrics, (double)(clock_wall_ms() - age_ms) / 1000);
}

/* ---- the host ---- */

static void build_info(struct metrics *metrics)
{
    metric_labelled(metrics, "version", PACKAGE_VERSION, 1);
}

static void body_bytes(struct metrics *metrics)
{
    metric_number(metrics, (double)quota_taken(&quota_tables[QUOTA_BODIES]));
}

static void response_bytes(struct metrics *metrics)
{
    metric_number(metrics, (double)quota_taken(&quota_tables[QUOTA_ANSWERS]));
}

static void streams(struct metrics *metrics)
{
    metric_number(metrics, (double)streams_open());
}

/* ---- dependencies ---- */

static void database_up(struct metrics *metrics)
{
    if (metrics->engine->pg_listener)
        metric_number(metrics, pg_listener_fresh_ms() > 0);
}

static void schema_up(struct metrics *metrics)
{
    int asked = readiness_of_schema(metrics->engine);

    if (asked <= 0)
        metric_number(metrics, asked == 0);
}

static void paused(struct metrics *metrics)
{
    if (metrics->engine->pg_listener)
        metric_number(metrics, pause_holds(metrics->engine));
}

static void ready(struct metrics *metrics)
{
    metric_number(metrics, readiness(metrics->engine));
}

static void database_latency(struct metrics *metrics)
{
    int64_t ms = pg_listener_latency_ms();

    if (metrics->engine->pg_listener && ms >= 0)
        metric_number(metrics, (double)ms / 1000);
}

static void clock_offset(struct metrics *metrics)
{
    if (shared_clock_known())
        metric_number(metrics, (double)shared_clock_offset_ms() / 1000);
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

/* Of the generation that answers, because two generations may have a pool of the same name. */
static void each_pool(struct metrics *metrics)
{
    struct work_pool_status pool;

    for (size_t i = 0; work_pool_snapshot(metrics->rq->generation->pools, i, &pool); i++) {
        const char *number = (const char *)&pool + metrics->place;

        fprintf(metrics->out, "%s{module=\"%s\",pool=\"%s\"}", metrics->name, pool.module,
                pool.name);
        metric_end(metrics, *(const unsigned *)(const void *)number);
    }
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

static void reloads(struct metrics *metrics)
{
    metric_labelled(metrics, "outcome", "done", atomic_load(&metrics->engine->reloads_done));
    metric_labelled(metrics, "outcome", "refused", atomic_load(&metrics->engine->reloads_refused));
}

static void migrations_pending(struct metrics *metrics)
{
    if (readiness_of_schema(metrics->engine) <= 0)
        metric_number(metrics, atomic_load(&metrics->engine->migrations_pending));
}

static void hooks_lost(struct metrics *metrics)
{
    metric_number(metrics, (double)bus_hooks_lost());
}

/* ---- jobs ---- */

static void job_runs(struct metrics *metrics)
{
    struct job_record job;

    for (size_t i = 0; job_log_snapshot(metrics->engine, i, &job); i++) {
        fprintf(metrics->out, "%s{job=\"%s\",outcome=\"done\"}", metrics->name, job.name);
        metric_end(metrics, (double)job.done);
        fprintf(metrics->out, "%s{job=\"%s\",outcome=\"failed\"}", metrics->name, job.name);
        metric_end(metrics, (double)job.failed);
        fprintf(metrics->out, "%s{job=\"%s\",outcome=\"skipped\"}", metrics->name, job.name);
        metric_end(metrics, (double)job.skipped);
    }
}

/* Writes a time of each job whose record has it. */
static void each_job_time(struct metrics *metrics)
{
    struct job_record job;

    for (size_t i = 0; job_log_snapshot(metrics->engine, i, &job); i++) {
        int64_t ms = *(const int64_t *)(const void *)((const char *)&job + metrics->place);

        if (ms)
            metric_labelled(metrics, "job", job.name, (double)ms / 1000);
    }
}

static void job_duration(struct metrics *metrics)
{
    struct job_record job;

    for (size_t i = 0; job_log_snapshot(metrics->engine, i, &job); i++)
        metric_labelled(metrics, "job", job.name, (double)job.last_us / 1000000);
}

static void log_lost(struct metrics *metrics)
{
    metric_number(metrics, (double)log_dropped());
}

/* ---- shared resources: the amount in use, the limit, and the number of refusals ---- */

struct amount {
    size_t taken, all, each;
};

static struct amount pools_amount(const struct metrics *metrics)
{
    struct amount amount = {0};
    struct work_pool_status pool;

    for (size_t i = 0; work_pool_snapshot(metrics->rq->generation->pools, i, &pool); i++) {
        amount.taken += pool.busy + pool.waiting;
        amount.all += pool.threads + pool.most;
        amount.each += pool.each;
    }
    return amount;
}

/* All pools of all loops, each of which has a separate queue. */
static struct amount database_amount(const struct metrics *metrics)
{
    const struct generation *g = metrics->rq->generation;
    size_t queue = (size_t)host_settings(g->settings)->database.queue, pools = 0;
    struct amount amount = {0};

    for (unsigned i = 0; i < metrics->engine->loop_count; i++) {
        const struct loop *loop = &metrics->engine->loops[i];

        for (int kind = 0; loop->pg && kind < PG_POOLS; kind++, pools++)
            amount.taken += atomic_load_explicit(&loop->stats.waiting[kind], memory_order_relaxed);
    }
    amount.all = queue * pools;
    amount.each = quota_part(g->request.share, queue) * pools;
    return amount;
}

static struct amount amount_of(const struct metrics *metrics, enum quota quota)
{
    if (quota == QUOTA_POOLS)
        return pools_amount(metrics);
    if (quota == QUOTA_DATABASE)
        return database_amount(metrics);
    size_t taken = quota_taken(&quota_tables[quota]);

    if (quota == QUOTA_CONNECTIONS) {
        struct http_settings settings =
            http_settings_of(metrics->rq->generation, &metrics->engine->listeners);

        return (struct amount){taken, settings.max_connections, settings.per_address};
    }
    struct quota_limits bounds = quota_bounds(metrics->rq->generation, quota);

    return (struct amount){taken, bounds.all, bounds.each};
}

static void share_line(struct metrics *metrics, enum quota quota, const char *whose, double number)
{
    fprintf(metrics->out, "%s{resource=\"%s\",whose=\"%s\"}", metrics->name, quota_names[quota],
            whose);
    metric_end(metrics, number);
}

static void shares_taken(struct metrics *metrics)
{
    for (enum quota quota = 0; quota < QUOTAS; quota++)
        metric_labelled(metrics, "resource", quota_names[quota],
                        (double)amount_of(metrics, quota).taken);
}

static void shares_limit(struct metrics *metrics)
{
    for (enum quota quota = 0; quota < QUOTAS; quota++) {
        struct amount amount = amount_of(metrics, quota);

        share_line(metrics, quota, "all", (double)amount.all);
        share_line(metrics, quota, "owner", (double)amount.each);
    }
}

static void shares_refused(struct metrics *metrics)
{
    for (enum quota quota = 0; quota < QUOTAS; quota++) {
        share_line(metrics, quota, "all", (double)quota_refused(quota, false));
        share_line(metrics, quota, "owner", (double)quota_refused(quota, true));
    }
}

/* ---- crashes, as the supervisor counts them ---- */

static void crashes(struct metrics *metrics)
{
    const struct crash_history *history = supervised_history();

    for (size_t i = 0; i < history->row_count; i++) {
        const char *module = history->rows[i].module;

        metric_labelled(metrics, "module", *module ? module : "unknown", history->rows[i].count);
    }
}

static void restarts(struct metrics *metrics)
{
    metric_number(metrics, supervised_history()->restarts);
}

static void left_out(struct metrics *metrics)
{
    const struct generation *g = metrics->rq->generation;

    for (size_t i = 0; i < g->left_out_count; i++)
        metric_labelled(metrics, "module", g->left_out[i].name, 1);
}

static void stalls(struct metrics *metrics)
{
    metric_number(metrics, (double)atomic_load(&metrics->engine->stalls));
}

/* ---- the table of all metrics, and the page ---- */

// clang-format off

#define LOOP(member) offsetof(struct loop_stats, member)
#define POOL(member) offsetof(struct work_pool_status, member)
#define JOB(member) offsetof(struct job_record, member)

const struct host_metric host_metrics[] = {
    {"busbar_build_info", "gauge", "version", "Always 1.", build_info, 0},
    {"busbar_http_requests_total", "counter", "method, route, code",
     "Requests answered, by the route's pattern; route none: there was no such path or method.",
     http_requests, 0},
    {"busbar_http_request_duration_seconds", "histogram", "method, route, le",
     "From the request line to the response, before it is sent; streams are not counted.", http_durations, 0},
    {"busbar_http_connections", "gauge", "loop", "Connections of clients.",
     each_loop, LOOP(connections)},
    {"busbar_http_connections_refused_total", "counter", "loop",
     "Connections closed at once: over max_connections or connections_per_address.",
     each_loop, LOOP(rejected)},
    {"busbar_requests", "gauge", "loop", "Requests alive: of clients, hooks, jobs, modules.",
     each_loop, LOOP(requests)},
    {"busbar_body_bytes", "gauge", NULL, "Bodies of 64 KiB and more, in memory.", body_bytes, 0},
    {"busbar_answer_bytes", "gauge", NULL, "Answers of 64 KiB and more, not yet read.",
     response_bytes, 0},
    {"busbar_share_taken", "gauge", "resource",
     "Use of what all share: connections, requests in progress, requests without a token "
     "(`anonymous`), bytes of bodies, answers and unfinished uploads, calls in pools, statements "
     "that wait for the database.",
     shares_taken, 0},
    {"busbar_share_limit", "gauge", "resource, whose",
     "Limit of each resource: for all together, and for one owner (an account, or an address "
     "without one).",
     shares_limit, 0},
    {"busbar_share_refused_total", "counter", "resource, whose",
     "Refusals; whose all: the limit for all was reached; whose owner: the owner had used its "
     "share.",
     shares_refused, 0},
    {"busbar_streams", "gauge", NULL, "Streams open.", streams, 0},
    {"busbar_ready", "gauge", NULL, "Whether GET /api/health/ready answers 200.", ready, 0},
    {"busbar_paused", "gauge", NULL,
     "Whether sending, jobs and calls to other servers are paused, or it is not known yet.", paused, 0},
    {"busbar_schema_up", "gauge", NULL, "Whether the database's tables fit the modules.", schema_up, 0},
    {"busbar_database_up", "gauge", NULL, "Whether PostgreSQL answered within the last second.",
     database_up, 0},
    {"busbar_database_latency_seconds", "gauge", NULL, "Round trip of its last sign of life.",
     database_latency, 0},
    {"busbar_clock_offset_seconds", "gauge", NULL,
     "By how much PostgreSQL's clock is ahead of this host's.", clock_offset, 0},
    {"busbar_database_connections", "gauge", "loop, lane", "Connections that can be used.",
     each_pg_pool, LOOP(ready)},
    {"busbar_database_waiting", "gauge", "loop, lane", "Statements and units waiting to be sent.",
     each_pg_pool, LOOP(waiting)},
    {"busbar_database_batches", "gauge", "loop, lane", "Batches in progress.", each_pg_pool, LOOP(batches)},
    {"busbar_database_shared_executions_total", "counter", "loop, lane",
     "Executions of statements that several requests ran with different keys.",
     each_pg_pool, LOOP(shared)},
    {"busbar_database_sharing_requests_total", "counter", "loop, lane",
     "Requests whose statements were executed together with others'.", each_pg_pool, LOOP(sharers)},
    {"busbar_redis_up", "gauge", NULL, "Whether Redis answers.", redis_up, 0},
    {"busbar_redis_latency_seconds", "gauge", NULL, "Round trip of its last sign of life.", redis_latency, 0},
    {"busbar_pool_threads", "gauge", "module, pool", "Threads that a pool may have; module busbar: the host's.", each_pool, POOL(threads)},
    {"busbar_pool_busy", "gauge", "module, pool", "Threads at work.", each_pool, POOL(busy)},
    {"busbar_pool_waiting", "gauge", "module, pool", "Calls that wait for a thread.",
     each_pool, POOL(waiting)},
    {"busbar_generations", "gauge", NULL,
     "Configurations in use; more than 1 after a reload, until the previous configuration has "
     "drained.",
     generations, 0},
    {"busbar_generation", "gauge", NULL, "Number of the configuration in use.", generation_number, 0},
    {"busbar_generation_age_seconds", "gauge", NULL, "Time since the configuration in use went "
                                                     "live.", generation_age, 0},
    {"busbar_reloads_total", "counter", "outcome", "Reloads that were requested.", reloads, 0},
    {"busbar_migrations_pending", "gauge", NULL,
     "Schema steps that are missing in the database; `busbar migrate --dry-run` lists them.",
     migrations_pending, 0},
    {"busbar_hooks_lost_total", "counter", NULL,
     "Committed hooks that could not be started, because of a lack of memory or room.", hooks_lost, 0},
    {"busbar_job_runs_total", "counter", "job, outcome",
     "Runs of jobs on this host; outcome failed: a statement failed, or time or memory ran out; "
     "skipped: another session held the job's lock.",
     job_runs, 0},
    {"busbar_job_skipped_since_timestamp_seconds", "gauge", "job",
     "Since when each run on this host was skipped because another session held the job's lock, "
     "since 1970; absent if the last run was not.",
     each_job_time, JOB(skipped_since_wall_ms)},
    {"busbar_job_last_done_timestamp_seconds", "gauge", "job",
     "When the job last ended well on this host, since 1970.", each_job_time, JOB(last_done_wall_ms)},
    {"busbar_job_last_duration_seconds", "gauge", "job", "How long its last run took.",
     job_duration, 0},
    {"busbar_log_lines_lost_total", "counter", NULL, "Log lines dropped because the log had no "
                                                     "room for them.",
     log_lost, 0},
    {"busbar_worker_restarts_total", "counter", NULL,
     "Restarts of the worker by the supervisor.", restarts, 0},
    {"busbar_crashes_total", "counter", "module",
     "Unexpected ends of workers, by the module at fault; unknown: no module.",
     crashes, 0},
    {"busbar_module_left_out", "gauge", "module",
     "Always 1: a module that is disabled until the next reload, because it or a module that it "
     "needs crashed repeatedly.",
     left_out, 0},
    {"busbar_loop_stalls_total", "counter", NULL, "Times that an event loop was blocked for a "
                                                  "second or longer.",
     stalls, 0},
    {"process_resident_memory_bytes", "gauge", NULL, "Memory in use.", process_memory, 0},
    {"process_cpu_seconds_total", "counter", NULL, "Processor time of all threads.",
     process_cpu, 0},
    {"process_open_fds", "gauge", NULL, "Descriptors open.", process_files, 0},
    {"process_max_fds", "gauge", NULL, "Descriptors that may be open.", process_files_most, 0},
    {"process_start_time_seconds", "gauge", NULL, "When the host started, since 1970.",
     process_started, 0},
};

// clang-format on

const size_t host_metric_count = sizeof host_metrics / sizeof host_metrics[0];

bool host_metric_named(const char *name)
{
    size_t i = 0;

    while (i < host_metric_count && strcmp(host_metrics[i].name, name))
        i++;
    return i < host_metric_count;
}

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

static double read_metric(const struct core_module *module, size_t row, size_t value)
{
    const struct bb_metric *metric = &MODULE_ROWS(bb_metric, module->descriptor->metrics)[row];

    if (metric->read)
        return metric->read(module->handle.host.state, value);
    return (double)meter_sum(module->handle.meters[row], value);
}

static void write_module(struct metrics *metrics, const struct core_module *module)
{
    const struct bb_metric *rows = MODULE_ROWS(bb_metric, module->descriptor->metrics);
    char name[METRIC_NAME_MAX];

    for (size_t i = 0; i < module->descriptor->metrics.count; i++) {
        metric_full_name(module->descriptor, &rows[i], name);
        metrics->name = name;
        write_head(metrics, rows[i].kind == BB_COUNTER ? "counter" : "gauge", rows[i].help);
        if (!rows[i].label)
            metric_number(metrics, read_metric(module, i, 0));
        for (size_t k = 0; rows[i].label && rows[i].values[k]; k++)
            metric_labelled(metrics, rows[i].label, rows[i].values[k], read_metric(module, i, k));
    }
    metrics->name = NULL; /* the name was allocated here */
}

static void write_all(struct metrics *metrics)
{
    const struct generation *g = metrics->rq->generation;

    metrics->generation_count = engine_generations(metrics->engine, metrics->generations);
    for (size_t i = 0; i < host_metric_count; i++) {
        metrics->name = host_metrics[i].name;
        metrics->place = host_metrics[i].place;
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
