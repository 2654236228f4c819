/* `busbar status --json`: the content of the text for programs. Names must stay stable. */
#include <stdlib.h>
#include <unistd.h>

#include "core/lib/json_out.h"
#include "core/lib/log.h"
#include "core/lib/shared_clock.h"
#include "core/lib/text.h"
#include "core/lib/version.h"
#include "core/main/crashes.h"
#include "core/main/readiness.h"
#include "core/main/reload.h"
#include "core/main/status.h"
#include "core/module/engine.h"
#include "core/module/job_log.h"
#include "core/module/pool.h"
#include "core/module/worker.h"
#include "core/store/pg_listener.h"

/* Formats a time as in the API's answers, or null. */
static json_t *time_json(int64_t wall_ms)
{
    char text[TEXT_TIME_SIZE];

    if (!wall_ms)
        return json_null();
    text_time(wall_ms, text);
    return json_string(text);
}

static json_t *modules_json(const struct generation *g)
{
    json_t *list = json_array();

    for (size_t i = 0; i < g->module_count; i++) {
        const struct core_module *module = &g->modules[i];

        json_array_append_new(
            list, json_pack("{so so so so}", "name", json_out_text(module->descriptor->name),
                            "version", json_out_text(module->descriptor->version), "build",
                            json_out_text(module->build_id), "path", json_out_text(module->path)));
    }
    return list;
}

static json_t *pools_json(const struct generation *g)
{
    json_t *list = json_array();
    struct work_pool_status pool;

    for (size_t i = 0; work_pool_snapshot(g->pools, i, &pool); i++)
        json_array_append_new(
            list, json_pack("{so so si si si si si}", "module", json_out_text(pool.module), "name",
                            json_out_text(pool.name), "threads", (int)pool.threads, "started",
                            (int)pool.started, "busy", (int)pool.busy, "waiting", (int)pool.waiting,
                            "queue", (int)pool.most));
    return list;
}

static json_t *generation_json(const struct generation *g, bool live)
{
    int64_t now = clock_mono_ms();
    bool old = generation_superseded(g);
    const char *state = !old ? (live ? "live" : "starting") : now < g->cut_ms ? "drains" : "cut";
    int64_t since = old ? g->superseded_ms : live ? g->live_ms : now;
    size_t holders = atomic_load(&g->holders) - (live ? 2 : 1); /* minus this function's
                                                                 * reference, and the engine's */

    return json_pack("{si ss sf sI si so so}", "number", (int)g->number, "state", state, "seconds",
                     (double)(now - since) / 1000, "holders", (json_int_t)holders, "workers",
                     workers_ended(g->workers) ? 0 : (int)workers_running(g->workers), "modules",
                     modules_json(g), "pools", pools_json(g));
}

static json_t *generations_json(struct engine *engine)
{
    struct generation *list[GENERATIONS_MAX];
    struct generation *live = engine_generation(engine);
    size_t count = engine_generations(engine, list);
    json_t *json = json_array();

    generation_release(live); /* the list has a reference to it or its successor */
    for (size_t i = 0; i < count; i++)
        json_array_append_new(json, generation_json(list[i], list[i] == live));
    engine_generations_release(list, count);
    return json;
}

static json_t *pg_pools_json(const struct loop_status *status)
{
    json_t *pools = json_object();

    for (int kind = 0; status->database && kind < PG_POOLS; kind++) {
        const struct pg_pool_status *pool = &status->pools[kind];

        json_object_set_new(pools, pg_pool_names[kind],
                            json_pack("{si si sI sI}", "ready", (int)pool->ready, "connections",
                                      (int)pool->connections, "waiting", (json_int_t)pool->waiting,
                                      "batches", (json_int_t)pool->batches));
    }
    return pools;
}

static json_t *crashes_of(struct engine *engine)
{
    struct generation *live = engine_generation(engine);
    json_t *json = crashes_json(live);

    generation_release(live);
    return json;
}

/* For how long it has been blocked, or null. */
static json_t *stands_json(const struct loop *loop, bool stands)
{
    return stands ? json_real((double)atomic_load(&loop->stands_ms) / 1000) : json_null();
}

static json_t *loop_json(const struct loop *loop, const struct loop_status *status)
{
    bool stands = !atomic_load(&status->looked);
    bool redis = status->redis_ms >= 0;

    return json_pack("{sb so sI sI so so}", "stands", stands, "standsSeconds",
                     stands_json(loop, stands), "connections", (json_int_t)status->connections,
                     "requests", (json_int_t)status->requests, "redisMs",
                     redis ? json_integer(status->redis_ms) : json_null(), "lanes",
                     pg_pools_json(status));
}

static json_t *loops_json(struct engine *engine)
{
    struct loop_status *status = status_loops(engine);
    json_t *list = status ? json_array() : NULL;

    for (unsigned i = 0; status && i < engine->loop_count; i++)
        json_array_append_new(list, loop_json(&engine->loops[i], &status[i]));
    free(status);
    return list;
}

static json_t *reloads_json(struct reloader *reloader)
{
    struct reload_history history;
    bool any;

    reloader_history(reloader, &history);
    any = history.last_wall_ms != 0;
    return json_pack("{si si so ss* so*}", "done", (int)history.done, "refused",
                     (int)history.refused, "lastAt", time_json(history.last_wall_ms), "lastOutcome",
                     any ? history.last_done ? "done" : "refused" : NULL, "last",
                     any ? json_out_text(history.last) : NULL);
}

/* Null unless the job is being skipped. */
static json_t *skipped_json(const struct job_record *job)
{
    if (!job->skipped_since_wall_ms)
        return json_null();
    return json_pack("{so so}", "since", time_json(job->skipped_since_wall_ms), "lockHolder",
                     json_out_text(job->lock_holder));
}

static json_t *jobs_json(struct engine *engine)
{
    json_t *list = json_array();
    struct job_record job;

    for (size_t i = 0; job_log_snapshot(engine, i, &job); i++)
        json_array_append_new(
            list, json_pack("{so sI sI sI so so sf}", "name", json_out_text(job.name), "done",
                            (json_int_t)job.done, "failed", (json_int_t)job.failed, "skipped",
                            (json_int_t)job.skipped, "skippedNow", skipped_json(&job), "lastDoneAt",
                            time_json(job.last_done_wall_ms), "lastSeconds",
                            (double)job.last_us / 1000000));
    return list;
}

static json_t *database_json(struct engine *engine)
{
    static const char *const states[] = {[SCHEMA_NONE] = "none",
                                         [SCHEMA_PENDING] = "pending",
                                         [SCHEMA_UNFIT] = "unfit",
                                         [SCHEMA_READY] = "ready"};
    char problem[sizeof engine->schema_problem];
    int64_t ms = engine->pg_listener ? pg_listener_latency_ms() : -1;

    readiness_problem(engine, problem, sizeof problem);
    if (!*problem && ms < 0)
        pg_listener_problem(problem, sizeof problem);
    return json_pack("{so so ss si so*}", "latencyMs", ms < 0 ? json_null() : json_integer(ms),
                     "clockOffsetMs",
                     shared_clock_known() ? json_integer(shared_clock_offset_ms()) : json_null(),
                     "schema", states[readiness_schema(engine)], "migrationsPending",
                     (int)atomic_load(&engine->migrations_pending), "problem",
                     *problem ? json_out_text(problem) : NULL);
}

/* The reason, or null. */
static json_t *pause_json(struct engine *engine)
{
    char reason[PAUSE_REASON];

    return pause_why(engine, reason, sizeof reason) ? json_out_text(reason) : json_null();
}

json_t *status_json(struct engine *engine)
{
    return json_pack("{ss si sf so sb so so so so so so so sI}", "version", PACKAGE_VERSION,
                     "process", (int)getpid(), "seconds",
                     (double)(clock_mono_ms() - engine->started_ms) / 1000, "configuration",
                     json_out_text(engine->conf), "ready", (int)readiness(engine), "paused",
                     pause_json(engine), "database", database_json(engine), "reloads",
                     reloads_json(engine->reloader), "crashes", crashes_of(engine), "generations",
                     generations_json(engine), "loops", loops_json(engine), "jobs",
                     jobs_json(engine), "logLinesDropped", (json_int_t)log_dropped());
}
