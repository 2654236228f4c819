/* `busbar status`: the state of the running host as text for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/shared_clock.h"
#include "core/lib/text.h"
#include "core/lib/version.h"
#include "core/main/control.h"
#include "core/main/crashes.h"
#include "core/main/readiness.h"
#include "core/main/reload.h"
#include "core/main/status.h"
#include "core/module/engine.h"
#include "core/module/job_log.h"
#include "core/module/pool.h"
#include "core/module/worker.h"
#include "core/server/http.h"
#include "core/store/pg_listener.h"
#include "core/store/redis.h"

/* Filled in by the loops and read by the caller; freed by whichever finishes last. */
struct looks {
    atomic_uint holders;
    struct loop_status loops[];
};

static void let_go(void *arg)
{
    struct looks *looks = arg;

    if (atomic_fetch_sub(&looks->holders, 1) == 1)
        free(looks);
}

/* Runs on the loop. */
static void look(struct loop *loop, void *arg)
{
    struct loop_status *status = &((struct looks *)arg)->loops[loop->index];

    status->requests = loop->requests;
    status->connections = loop->http->connection_count;
    status->database = loop->pg != NULL;
    for (int kind = 0; loop->pg && kind < PG_POOLS; kind++)
        pg_pool_snapshot(loop->pg, (enum pg_pool_kind)kind, &status->pools[kind]);
    status->redis_ms = loop->redis ? redis_latency_ms(loop->redis) : -2;
    atomic_store(&status->looked, true);
}

static void print_loop(FILE *out, unsigned index, const struct loop_status *status)
{
    fprintf(out, "loop %u: %zu connections, %zu requests", index, status->connections,
            status->requests);
    if (status->redis_ms >= 0)
        fprintf(out, ", Redis answers in %" PRId64 " ms", status->redis_ms);
    else if (status->redis_ms == -1)
        fputs(", Redis does not answer", out);
    fputc('\n', out);
    for (int kind = 0; status->database && kind < PG_POOLS; kind++) {
        const struct pg_pool_status *pool = &status->pools[kind];

        fprintf(out, "  database %s: %u of %u connections, %zu waiting, %zu batches in progress\n",
                pg_pool_names[kind], pool->ready, pool->connections, pool->waiting, pool->batches);
    }
}

struct loop_status *status_loops(struct engine *engine)
{
    struct looks *looks = calloc(1, sizeof *looks + engine->loop_count * sizeof *looks->loops);

    if (!looks)
        return NULL;
    atomic_init(&looks->holders, 2);
    int left = engine_tell_loops(engine, look, let_go, looks);

    if (left < 0) { /* no loop got the message */
        free(looks);
        return NULL;
    }
    struct loop_status *status = calloc(engine->loop_count, sizeof *status);

    for (unsigned i = 0; status && i < engine->loop_count; i++)
        if (atomic_load(&looks->loops[i].looked))
            status[i] = looks->loops[i];
    let_go(looks);
    return status;
}

static int print_loops(FILE *out, struct engine *engine)
{
    struct loop_status *status = status_loops(engine);

    if (!status)
        return -1;
    for (unsigned i = 0; i < engine->loop_count; i++) {
        if (atomic_load(&status[i].looked))
            print_loop(out, i, &status[i]);
        else
            fprintf(out, "loop %u: BLOCKED for %.1f s, see the log\n", i,
                    (double)atomic_load(&engine->loops[i].stands_ms) / 1000);
    }
    free(status);
    return 0;
}

static void print_runtime(FILE *out, const struct generation *g)
{
    struct work_pool_status pool;

    for (size_t i = 0; work_pool_snapshot(g->pools, i, &pool); i++)
        fprintf(out, "  pool %s.%s: %u of %u threads, %u busy, %u of %u waiting\n", pool.module,
                pool.name, pool.started, pool.threads, pool.busy, pool.waiting, pool.most);
    if (!workers_ended(g->workers))
        fprintf(out, "  %zu workers run\n", workers_running(g->workers));
}

static void print_generation(FILE *out, const struct generation *g, bool live, int64_t now)
{
    size_t holders = atomic_load(&g->holders) - 1; /* minus this function's reference */

    fprintf(out, "generation %u: ", g->number);
    if (generation_superseded(g) && now < g->cut_ms)
        fprintf(out, "drains for %.1f s, is cut in %.1f s", (double)(now - g->superseded_ms) / 1000,
                (double)(g->cut_ms - now) / 1000);
    else if (generation_superseded(g))
        fprintf(out, "drains for %.1f s, was cut", (double)(now - g->superseded_ms) / 1000);
    else if (live)
        fprintf(out, "live for %.1f s", (double)(now - g->live_ms) / 1000);
    else
        fputs("about to go live", out);
    fprintf(out, ", %zu holders\n",
            live ? holders - 1 : holders); /* minus the engine's reference */
    for (size_t i = 0; i < g->module_count; i++) {
        const struct core_module *module = &g->modules[i];

        fprintf(out, "  module %s %s, build %s, %s\n", module->descriptor->name,
                module->descriptor->version, *module->build_id ? module->build_id : "unknown",
                module->path);
    }
    print_runtime(out, g);
}

static void print_generations(FILE *out, struct engine *engine)
{
    struct generation *list[GENERATIONS_MAX];
    struct generation *live = engine_generation(engine);
    size_t count = engine_generations(engine, list);

    crashes_print(out, live);
    generation_release(live); /* the list, created later, has a reference to it or its successor */
    for (size_t i = 0; i < count; i++)
        print_generation(out, list[i], list[i] == live, clock_mono_ms());
    engine_generations_release(list, count);
}

static void print_reloads(FILE *out, struct reloader *reloader)
{
    struct reload_history history;
    char at[TEXT_TIME_SIZE];

    reloader_history(reloader, &history);
    fprintf(out, "reloads: %u done, %u refused", history.done, history.refused);
    if (history.last_wall_ms) {
        text_time(history.last_wall_ms, at);
        fprintf(out, "; the last at %s %s: %s", at, history.last_done ? "done" : "refused",
                history.last);
    }
    fputc('\n', out);
}

/* Jobs that do not run here because another session has their lock. */
static void print_skipped_jobs(FILE *out, struct engine *engine)
{
    struct job_record job;
    char since[TEXT_TIME_SIZE];

    for (size_t i = 0; job_log_snapshot(engine, i, &job); i++) {
        if (!job.skipped_since_wall_ms)
            continue;
        text_time(job.skipped_since_wall_ms, since);
        fprintf(out, "job %s skipped: lock held elsewhere since %s, by %s\n", job.name, since,
                *job.lock_holder ? job.lock_holder : "an unknown session");
    }
}

static void print_schema(FILE *out, struct engine *engine)
{
    enum schema_state state = readiness_schema(engine);
    char problem[sizeof engine->schema_problem];

    readiness_problem(engine, problem, sizeof problem);
    if (state == SCHEMA_UNFIT)
        fprintf(out, "the database does not fit the modules: %s\n", problem);
    else if (state == SCHEMA_PENDING)
        fprintf(out, "the database is not migrated yet%s%s\n", *problem ? ": " : "", problem);
}

static void print_pause(FILE *out, struct engine *engine)
{
    char reason[PAUSE_REASON];

    if (pause_why(engine, reason, sizeof reason))
        fprintf(out, "PAUSED: sending, jobs and calls to other servers: %s\n", reason);
}

static void print_host(FILE *out, struct engine *engine)
{
    int64_t latency = pg_listener_latency_ms();
    char problem[512];

    fprintf(out, "busbar %s, process %ld, up for %.1f s, %s\n", PACKAGE_VERSION, (long)getpid(),
            (double)(clock_mono_ms() - engine->started_ms) / 1000, engine->conf);
    if (engine->pg_listener && latency >= 0)
        fprintf(out, "PostgreSQL answers in %" PRId64 " ms\n", latency);
    else if (engine->pg_listener) {
        pg_listener_problem(problem, sizeof problem);
        fprintf(out, "PostgreSQL does not answer%s%s\n", *problem ? ": " : "", problem);
    }
    if (llabs(shared_clock_offset_ms()) >= SHARED_CLOCK_WARN_MS)
        fprintf(out, "PostgreSQL's clock is %.1f s ahead of this host's\n",
                (double)shared_clock_offset_ms() / 1000);
    print_schema(out, engine);
    print_pause(out, engine);
    if (log_dropped())
        fprintf(out, "%" PRIu64 " lines of the log were dropped\n", log_dropped());
}

static int print_json(FILE *out, struct engine *engine)
{
    json_t *json = status_json(engine);
    int failed = json ? json_dumpf(json, out, JSON_INDENT(2)) : -1;

    fputc('\n', out);
    json_decref(json);
    return failed;
}

static int print_all(FILE *out, struct engine *engine, bool json)
{
    fputs(CONTROL_DONE, out);
    if (json)
        return print_json(out, engine);
    print_host(out, engine);
    print_skipped_jobs(out, engine);
    print_reloads(out, engine->reloader);
    print_generations(out, engine);
    return print_loops(out, engine);
}

char *status_text(struct engine *engine, bool json)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    int failed = -1;

    if (!out)
        return NULL;
    if (engine_hold(engine)) {
        fputs(CONTROL_FAILED "the host is stopping\n", out);
        failed = 0;
    } else {
        failed = print_all(out, engine, json);
        engine_unhold(engine);
    }
    if (!fclose(out) && !failed)
        return text;
    free(text);
    return NULL;
}
