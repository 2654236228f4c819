#include "core/main/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/lib/json_out.h"
#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/version.h"
#include "core/main/control.h"
#include "core/main/job.h"
#include "core/main/readiness.h"
#include "core/main/reload.h"
#include "core/module/pool.h"
#include "core/module/worker.h"
#include "core/server/http.h"
#include "core/store/pg.h"
#include "core/store/pg_listener.h"
#include "core/store/redis.h"

/* ---- the state as JSON ---- */

/* Formats a time as in the API's answers, or null. */
static json_t *time_json(int64_t wall_ms)
{
    char text[TEXT_TIME_SIZE];

    if (!wall_ms)
        return json_null();
    text_time(wall_ms, text);
    return json_string(text);
}

/* An empty text becomes null. */
static json_t *known_json(const char *text)
{
    return *text ? json_out_text(text) : json_null();
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
    bool old = generation_superseded(g), drains = old && now < g->cut_ms;
    const char *state = drains ? "drains" : old ? "cut" : live ? "live" : "starting";
    int64_t since = old ? g->superseded_ms : live ? g->live_ms : now;
    size_t holders = atomic_load(&g->holders) - (live ? 2 : 1); /* minus this function's
                                                                 * reference, and the engine's */

    return json_pack("{si ss sf so sI si so so}", "number", (int)g->number, "state", state,
                     "seconds", (double)(now - since) / 1000, "cutInSeconds",
                     drains ? json_real((double)(g->cut_ms - now) / 1000) : json_null(), "holders",
                     (json_int_t)holders, "workers",
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

static json_t *crashes_json(struct engine *engine)
{
    const struct crash_history *history = supervised_history();
    const struct crash_note *last = &history->last;
    json_t *modules = json_array(), *left_out = json_array();
    struct generation *g = engine_generation(engine);

    for (size_t i = 0; i < history->row_count; i++) {
        const struct crash_row *row = &history->rows[i];

        json_array_append_new(modules,
                              json_pack("{so si}", "name",
                                        json_out_text(*row->module ? row->module : "unknown"),
                                        "count", (int)row->count));
    }
    for (size_t i = 0; i < g->left_out_count; i++)
        json_array_append_new(left_out,
                              json_pack("{so so}", "name", json_out_text(g->left_out[i].name),
                                        "why", json_out_text(g->left_out[i].why)));
    generation_release(g);
    return json_pack("{si so so so}", "restarts", (int)history->restarts, "last",
                     !*last->how
                         ? json_null()
                         : json_pack("{so so so}", "how", json_out_text(last->how), "module",
                                     known_json(last->module), "report", known_json(last->report)),
                     "modules", modules, "leftOut", left_out);
}

struct loop_state {
    atomic_bool answered; /* otherwise the loop is blocked, and the rest is 0 */
    size_t requests, connections;
    bool database;
    struct pg_pool_status pools[PG_POOLS];
    int64_t redis_ms; /* -1: unavailable; -2: not configured */
};

/* Filled in by the loops and read by the caller; freed by whichever finishes last. */
struct loop_states {
    atomic_uint holders;
    struct loop_state loops[];
};

static void states_release(void *arg)
{
    struct loop_states *states = arg;

    if (atomic_fetch_sub(&states->holders, 1) == 1)
        free(states);
}

/* Runs on the loop. */
static void states_fill(struct loop *loop, void *arg)
{
    struct loop_state *state = &((struct loop_states *)arg)->loops[loop->index];

    state->requests = loop->requests;
    state->connections = loop->http->connection_count;
    state->database = loop->pg != NULL;
    for (int kind = 0; loop->pg && kind < PG_POOLS; kind++)
        pg_pool_snapshot(loop->pg, (enum pg_pool_kind)kind, &state->pools[kind]);
    state->redis_ms = loop->redis ? redis_latency_ms(loop->redis) : -2;
    atomic_store(&state->answered, true);
}

static json_t *loop_json(const struct loop *loop, const struct loop_state *state)
{
    static const struct loop_state nothing = {.redis_ms = -2};
    bool blocked = !atomic_load(&state->answered);
    json_t *pools = json_object();

    if (blocked)
        state = &nothing;
    for (int kind = 0; state->database && kind < PG_POOLS; kind++) {
        const struct pg_pool_status *pool = &state->pools[kind];

        json_object_set_new(pools, pg_pool_names[kind],
                            json_pack("{si si sI sI}", "ready", (int)pool->ready, "connections",
                                      (int)pool->connections, "waiting", (json_int_t)pool->waiting,
                                      "batches", (json_int_t)pool->batches));
    }
    return json_pack(
        "{sb so sI sI so sb so}", "stands", blocked, "standsSeconds",
        blocked ? json_real((double)atomic_load(&loop->stands_ms) / 1000) : json_null(),
        "connections", (json_int_t)state->connections, "requests", (json_int_t)state->requests,
        "redisMs", state->redis_ms < 0 ? json_null() : json_integer(state->redis_ms), "redisFailed",
        state->redis_ms == -1, "lanes", pools);
}

static json_t *loops_json(struct engine *engine)
{
    struct loop_states *states =
        calloc(1, sizeof *states + engine->loop_count * sizeof *states->loops);

    if (!states)
        return NULL;
    atomic_init(&states->holders, 2);
    if (engine_tell_loops(engine, states_fill, states_release, states) < 0) {
        free(states); /* no loop got the message */
        return NULL;
    }
    json_t *list = json_array();

    for (unsigned i = 0; i < engine->loop_count; i++)
        json_array_append_new(list, loop_json(&engine->loops[i], &states->loops[i]));
    states_release(states);
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

static json_t *jobs_json(struct engine *engine)
{
    json_t *list = json_array();
    struct job_record job;

    for (size_t i = 0; job_log_snapshot(engine, i, &job); i++) {
        json_t *skipped = job.skipped_since_wall_ms
                              ? json_pack("{so so}", "since", time_json(job.skipped_since_wall_ms),
                                          "lockHolder", json_out_text(job.lock_holder))
                              : json_null();

        json_array_append_new(list, json_pack("{so sI sI sI so so sf}", "name",
                                              json_out_text(job.name), "done", (json_int_t)job.done,
                                              "failed", (json_int_t)job.failed, "skipped",
                                              (json_int_t)job.skipped, "skippedNow", skipped,
                                              "lastDoneAt", time_json(job.last_done_wall_ms),
                                              "lastSeconds", (double)job.last_us / 1000000));
    }
    return list;
}

static json_t *database_json(struct engine *engine)
{
    static const char *const states[] = {[SCHEMA_NONE] = "none",
                                         [SCHEMA_PENDING] = "pending",
                                         [SCHEMA_UNFIT] = "unfit",
                                         [SCHEMA_READY] = "ready"};
    char schema[sizeof engine->schema_problem], connection[512] = "";
    int64_t ms = engine->pg_listener ? pg_listener_latency_ms() : -1;

    readiness_problem(engine, schema, sizeof schema);
    if (ms < 0)
        pg_listener_problem(connection, sizeof connection);
    return json_pack("{so so ss si so* so so}", "latencyMs",
                     ms < 0 ? json_null() : json_integer(ms), "clockOffsetMs",
                     shared_clock_known() ? json_integer(shared_clock_offset_ms()) : json_null(),
                     "schema", states[readiness_schema(engine)], "migrationsPending",
                     (int)atomic_load(&engine->migrations_pending), "problem",
                     *schema || *connection ? json_out_text(*schema ? schema : connection) : NULL,
                     "schemaProblem", known_json(schema), "connectionProblem",
                     known_json(connection));
}

static json_t *state_json(struct engine *engine)
{
    char reason[PAUSE_REASON] = "";

    if (!pause_why(engine, reason, sizeof reason))
        *reason = '\0';
    return json_pack("{ss si sf so sb so so so so so so so sI}", "version", PACKAGE_VERSION,
                     "process", (int)getpid(), "seconds",
                     (double)(clock_mono_ms() - engine->started_ms) / 1000, "configuration",
                     json_out_text(engine->conf), "ready", (int)readiness(engine), "paused",
                     known_json(reason), "database", database_json(engine), "reloads",
                     reloads_json(engine->reloader), "crashes", crashes_json(engine), "generations",
                     generations_json(engine), "loops", loops_json(engine), "jobs",
                     jobs_json(engine), "logLinesDropped", (json_int_t)log_dropped());
}

/* ---- the JSON as text ---- */

static const json_t *part(const json_t *json, const char *name)
{
    return json_object_get(json, name);
}

static const char *word(const json_t *json, const char *name)
{
    const char *text = json_string_value(part(json, name));

    return text ? text : "";
}

/* Null becomes 0. */
static double number(const json_t *json, const char *name)
{
    return json_number_value(part(json, name));
}

static long whole(const json_t *json, const char *name)
{
    return (long)json_integer_value(part(json, name));
}

static void print_problem(FILE *out, const char *what, const char *problem)
{
    fprintf(out, "%s%s%s\n", what, *problem ? ": " : "", problem);
}

static void print_host(FILE *out, const json_t *host, const struct engine *engine)
{
    const json_t *database = part(host, "database"), *job;
    double ahead = number(database, "clockOffsetMs");
    size_t i;

    fprintf(out, "busbar %s, process %ld, up for %.1f s, %s\n", word(host, "version"),
            whole(host, "process"), number(host, "seconds"), word(host, "configuration"));
    if (engine->pg_listener && json_is_null(part(database, "latencyMs")))
        print_problem(out, "PostgreSQL does not answer", word(database, "connectionProblem"));
    else if (engine->pg_listener)
        fprintf(out, "PostgreSQL answers in %ld ms\n", whole(database, "latencyMs"));
    if (ahead >= SHARED_CLOCK_WARN_MS || ahead <= -SHARED_CLOCK_WARN_MS)
        fprintf(out, "PostgreSQL's clock is %.1f s ahead of this host's\n", ahead / 1000);
    if (*word(database, "schema") == 'u')
        print_problem(out, "the database does not fit the modules",
                      word(database, "schemaProblem"));
    if (*word(database, "schema") == 'p')
        print_problem(out, "the database is not migrated yet", word(database, "schemaProblem"));
    if (*word(host, "paused"))
        fprintf(out, "PAUSED: sending, jobs and calls to other servers: %s\n",
                word(host, "paused"));
    if (whole(host, "logLinesDropped"))
        fprintf(out, "%ld lines of the log were dropped\n", whole(host, "logLinesDropped"));
    json_array_foreach(part(host, "jobs"), i, job)
    {
        const json_t *skipped = part(job, "skippedNow");

        if (json_is_object(skipped))
            fprintf(out, "job %s skipped: lock held elsewhere since %s, by %s\n", word(job, "name"),
                    word(skipped, "since"),
                    *word(skipped, "lockHolder") ? word(skipped, "lockHolder")
                                                 : "an unknown session");
    }
}

static void print_events(FILE *out, const json_t *host)
{
    const json_t *reloads = part(host, "reloads"), *crashes = part(host, "crashes"), *row;
    const json_t *last = part(crashes, "last");
    size_t i;

    fprintf(out, "reloads: %ld done, %ld refused", whole(reloads, "done"),
            whole(reloads, "refused"));
    if (*word(reloads, "lastAt"))
        fprintf(out, "; the last at %s %s: %s", word(reloads, "lastAt"),
                word(reloads, "lastOutcome"), word(reloads, "last"));
    fputc('\n', out);
    if (whole(crashes, "restarts"))
        fprintf(out, "the worker was restarted %ld times; the last exit: %s%s%s%s%s\n",
                whole(crashes, "restarts"), word(last, "how"),
                *word(last, "module") ? ", module " : "", word(last, "module"),
                *word(last, "report") ? ", report " : "", word(last, "report"));
    json_array_foreach(part(crashes, "modules"), i, row)
    {
        fprintf(out, "  crashes of module %s: %ld\n", word(row, "name"), whole(row, "count"));
    }
    json_array_foreach(part(crashes, "leftOut"), i, row)
    {
        fprintf(out, "DISABLED: module %s, until the next reload: %s\n", word(row, "name"),
                word(row, "why"));
    }
}

static void print_generation(FILE *out, const json_t *g)
{
    const char *state = word(g, "state");
    const json_t *row;
    size_t i;

    fprintf(out, "generation %ld: ", whole(g, "number"));
    if (*state == 's')
        fputs("about to go live", out);
    else
        fprintf(out, "%s for %.1f s", *state == 'l' ? "live" : "drains", number(g, "seconds"));
    if (*state == 'd')
        fprintf(out, ", is cut in %.1f s", number(g, "cutInSeconds"));
    fprintf(out, "%s, %ld holders\n", *state == 'c' ? ", was cut" : "", whole(g, "holders"));
    json_array_foreach(part(g, "modules"), i, row)
    {
        fprintf(out, "  module %s %s, build %s, %s\n", word(row, "name"), word(row, "version"),
                *word(row, "build") ? word(row, "build") : "unknown", word(row, "path"));
    }
    json_array_foreach(part(g, "pools"), i, row)
    {
        fprintf(out, "  pool %s.%s: %ld of %ld threads, %ld busy, %ld of %ld waiting\n",
                word(row, "module"), word(row, "name"), whole(row, "started"),
                whole(row, "threads"), whole(row, "busy"), whole(row, "waiting"),
                whole(row, "queue"));
    }
    if (whole(g, "workers"))
        fprintf(out, "  %ld workers run\n", whole(g, "workers"));
}

static void print_loop(FILE *out, size_t index, const json_t *loop)
{
    const json_t *pools = part(loop, "lanes");

    if (json_is_true(part(loop, "stands"))) {
        fprintf(out, "loop %zu: BLOCKED for %.1f s, see the log\n", index,
                number(loop, "standsSeconds"));
        return;
    }
    fprintf(out, "loop %zu: %ld connections, %ld requests", index, whole(loop, "connections"),
            whole(loop, "requests"));
    if (json_is_integer(part(loop, "redisMs")))
        fprintf(out, ", Redis answers in %ld ms", whole(loop, "redisMs"));
    fputs(json_is_true(part(loop, "redisFailed")) ? ", Redis does not answer\n" : "\n", out);
    for (int kind = 0; json_object_size(pools) && kind < PG_POOLS; kind++) {
        const json_t *pool = part(pools, pg_pool_names[kind]);

        fprintf(out,
                "  database %s: %ld of %ld connections, %ld waiting, %ld batches in progress\n",
                pg_pool_names[kind], whole(pool, "ready"), whole(pool, "connections"),
                whole(pool, "waiting"), whole(pool, "batches"));
    }
}

static void print_state(FILE *out, const json_t *host, const struct engine *engine)
{
    const json_t *row;
    size_t i;

    print_host(out, host, engine);
    print_events(out, host);
    json_array_foreach(part(host, "generations"), i, row)
    {
        print_generation(out, row);
    }
    json_array_foreach(part(host, "loops"), i, row)
    {
        print_loop(out, i, row);
    }
}

char *status_text(struct engine *engine, bool json)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    bool stopping = engine_hold(engine);
    json_t *host = stopping ? NULL : state_json(engine);

    if (out && host) {
        fputs(CONTROL_DONE, out);
        if (json && !json_dumpf(host, out, JSON_INDENT(2)))
            fputc('\n', out);
        else if (!json)
            print_state(out, host, engine);
    } else if (out && stopping) {
        fputs(CONTROL_FAILED "the host is stopping\n", out);
    }
    json_decref(host);
    if (!stopping)
        engine_unhold(engine);
    if (out && !fclose(out) && (host || stopping))
        return text;
    free(text);
    return NULL;
}
