/* The host's own metrics: those about the whole process, and the table of all. */
#include <string.h>

#include "core/base/log.h"
#include "core/base/quota_table.h"
#include "core/base/shared_clock.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "core/engine/job_log.h"
#include "core/engine/pause.h"
#include "core/http/stream.h"
#include "core/observe/metrics.h"
#include "core/observe/readiness.h"
#include "core/postgres/pg_listener.h"
#include "core/postgres/sql.h"
#include "core/redis/redis.h"
#include "core/request/pool.h"

static void build_info(struct metrics *metrics)
{
    metric_labelled(metrics, "version", PACKAGE_VERSION, 1);
}

static void body_bytes(struct metrics *metrics)
{
    metric_number(metrics, (double)quota_taken(metrics->engine->quotas[QUOTA_BODIES]));
}

static void response_bytes(struct metrics *metrics)
{
    metric_number(metrics, (double)quota_taken(metrics->engine->quotas[QUOTA_ANSWERS]));
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

/*
 * Pools of the generation that answers the request, because two pools with one name cannot be
 * reported.
 */
static void each_pool(struct metrics *metrics,
                      unsigned (*number)(const struct work_pool_status *pool))
{
    struct work_pool_status pool;

    for (size_t i = 0; work_pool_look(metrics->rq->generation->pools, i, &pool); i++) {
        fprintf(metrics->out, "%s{module=\"%s\",pool=\"%s\"}", metrics->name, pool.module,
                pool.name);
        metric_end(metrics, number(&pool));
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

    for (size_t i = 0; job_log_look(metrics->engine, i, &job); i++) {
        fprintf(metrics->out, "%s{job=\"%s\",outcome=\"done\"}", metrics->name, job.name);
        metric_end(metrics, (double)job.done);
        fprintf(metrics->out, "%s{job=\"%s\",outcome=\"failed\"}", metrics->name, job.name);
        metric_end(metrics, (double)job.failed);
        fprintf(metrics->out, "%s{job=\"%s\",outcome=\"skipped\"}", metrics->name, job.name);
        metric_end(metrics, (double)job.skipped);
    }
}

static void job_last_done(struct metrics *metrics)
{
    struct job_record job;

    for (size_t i = 0; job_log_look(metrics->engine, i, &job); i++)
        if (job.last_done_wall_ms)
            metric_labelled(metrics, "job", job.name, (double)job.last_done_wall_ms / 1000);
}

static void job_skipped_since(struct metrics *metrics)
{
    struct job_record job;

    for (size_t i = 0; job_log_look(metrics->engine, i, &job); i++)
        if (job.skipped_since_wall_ms)
            metric_labelled(metrics, "job", job.name, (double)job.skipped_since_wall_ms / 1000);
}

static void job_duration(struct metrics *metrics)
{
    struct job_record job;

    for (size_t i = 0; job_log_look(metrics->engine, i, &job); i++)
        metric_labelled(metrics, "job", job.name, (double)job.last_us / 1000000);
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
     metrics_requests},
    {"busbar_http_request_duration_seconds", "histogram", "method, route, le",
     "From the request line to the answer, before it is sent; streams are left out.", metrics_durations},
    {"busbar_http_connections", "gauge", "loop", "Connections of clients.",
     metrics_connections},
    {"busbar_http_connections_refused_total", "counter", "loop",
     "Connections closed at once: over max_connections or connections_per_address.",
     metrics_rejected},
    {"busbar_requests", "gauge", "loop", "Requests alive: of clients, hooks, jobs, modules.",
     metrics_alive},
    {"busbar_body_bytes", "gauge", NULL, "Bodies of 64 KiB and more, in memory.", body_bytes},
    {"busbar_answer_bytes", "gauge", NULL, "Answers of 64 KiB and more, not yet read.",
     response_bytes},
    {"busbar_share_taken", "gauge", "resource",
     "Use of what all share: connections, requests in progress, bytes of bodies, answers and "
     "unfinished uploads, calls in pools, statements that wait for the database.",
     metrics_shares_taken},
    {"busbar_share_limit", "gauge", "resource, whose",
     "How much there is of it: for all, and for one owner (an account, or without one an address).",
     metrics_shares_limit},
    {"busbar_share_refused_total", "counter", "resource, whose",
     "What was refused: whose all, there was no room at all; whose owner, it had its share.",
     metrics_shares_refused},
    {"busbar_streams", "gauge", NULL, "Streams open.", streams},
    {"busbar_ready", "gauge", NULL, "Whether GET /api/health/ready answers 200.", ready},
    {"busbar_paused", "gauge", NULL,
     "Whether sending, jobs and calls to other servers are paused, or it is not known yet.", paused},
    {"busbar_schema_up", "gauge", NULL, "Whether the database's tables fit the modules.", schema_up},
    {"busbar_database_up", "gauge", NULL, "Whether PostgreSQL answered within the last second.",
     database_up},
    {"busbar_database_latency_seconds", "gauge", NULL, "Of its last sign of life.",
     database_latency},
    {"busbar_clock_offset_seconds", "gauge", NULL,
     "By how much PostgreSQL's clock is ahead of this host's.", clock_offset},
    {"busbar_database_connections", "gauge", "loop, lane", "Connections that can be used.",
     metrics_pg_pool_ready},
    {"busbar_database_waiting", "gauge", "loop, lane", "Statements and units waiting to be sent.",
     metrics_pg_pool_waiting},
    {"busbar_database_batches", "gauge", "loop, lane", "Batches under way.", metrics_pg_pool_batches},
    {"busbar_database_shared_executions_total", "counter", "loop, lane",
     "Executions of statements that several requests asked with different keys.",
     metrics_pg_pool_shared},
    {"busbar_database_sharing_requests_total", "counter", "loop, lane",
     "Requests whose statements were executed together with others'.", metrics_pg_pool_sharers},
    {"busbar_redis_up", "gauge", NULL, "Whether Redis answers.", redis_up},
    {"busbar_redis_latency_seconds", "gauge", NULL, "Of its last sign of life.", redis_latency},
    {"busbar_pool_threads", "gauge", "module, pool", "Threads that a pool may have; module busbar: the host's.", pools_threads},
    {"busbar_pool_busy", "gauge", "module, pool", "Threads at work.", pools_busy},
    {"busbar_pool_waiting", "gauge", "module, pool", "Calls that wait for a thread.",
     pools_waiting},
    {"busbar_generations", "gauge", NULL,
     "Configurations alive; more than 1 after a reload, until the old one has drained.",
     generations},
    {"busbar_generation", "gauge", NULL, "The number of the one that answers.", generation_number},
    {"busbar_generation_age_seconds", "gauge", NULL, "Since it went live.", generation_age},
    {"busbar_reloads_total", "counter", "outcome", "Reloads that were asked for.", reloads},
    {"busbar_migrations_pending", "gauge", NULL,
     "Steps of the schemas that the database was seen to lack; `busbar migrate --dry-run` names them.",
     migrations_pending},
    {"busbar_hooks_lost_total", "counter", NULL,
     "Committed hooks that could not be started, for want of memory or of room.", hooks_lost},
    {"busbar_job_runs_total", "counter", "job, outcome",
     "Runs of jobs on this host; outcome failed: a statement failed, or time or memory ran out; "
     "skipped: another session held the job's lock.",
     job_runs},
    {"busbar_job_skipped_since_timestamp_seconds", "gauge", "job",
     "Since when each run on this host was skipped because another session held the job's lock, "
     "since 1970; absent if the last run was not.",
     job_skipped_since},
    {"busbar_job_last_done_timestamp_seconds", "gauge", "job",
     "When the job last ended well on this host, since 1970.", job_last_done},
    {"busbar_job_last_duration_seconds", "gauge", "job", "How long its last run took.",
     job_duration},
    {"busbar_log_lines_lost_total", "counter", NULL, "Lines that the log had no room for.",
     log_lost},
    {"busbar_worker_restarts_total", "counter", NULL,
     "Workers that the supervisor started after one had ended.", metrics_restarts},
    {"busbar_crashes_total", "counter", "module",
     "Ends of workers that nobody asked for, by the module to blame; unknown: none is.",
     metrics_crashes},
    {"busbar_module_left_out", "gauge", "module",
     "Always 1: a module that is left out until a reload, for it or what it needs crashed again and again.",
     metrics_left_out},
    {"busbar_settings_kept", "gauge", NULL,
     "1 while the host serves by the settings of the worker before, in place of the file.",
     metrics_kept_settings},
    {"busbar_loop_stalls_total", "counter", NULL, "Times that a loop stood for a second and longer.",
     metrics_stalls},
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

bool host_metric_named(const char *name)
{
    size_t i = 0;

    while (i < host_metric_count && strcmp(host_metrics[i].name, name))
        i++;
    return i < host_metric_count;
}
