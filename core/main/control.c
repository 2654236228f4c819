#include "core/main/control.h"

#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/lib/host_settings.h"
#include "core/lib/json.h"
#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/job.h"
#include "core/main/reload.h"
#include "core/main/serve.h"
#include "core/module/pool.h"
#include "core/store/pg.h"
#include "core/store/pg_listener.h"
#include "core/store/redis.h"

char *control_path(const struct settings *settings)
{
    const char *environment = getenv("BUSBAR_CONTROL");
    const char *path = settings ? settings->host->control.socket : CONTROL_SOCKET;
    char *joined;

    if (environment && *environment)
        return strdup(environment);
    if (!path || !*path)
        return NULL;
    if (*path == '/' || !settings)
        return strdup(path);
    return asprintf(&joined, "%s/%s", settings->directory, path) < 0 ? NULL : joined;
}

enum {
    LINE_MS = 1000, /* limit for receiving a command, because other clients wait */
    LINE_BYTES = 128,
    ANSWER_SECONDS = 2,
    BACKLOG = 16,
    PAUSE_MS = 200 /* avoids a busy loop if descriptors run out */
};

struct control {
    struct engine *engine;
    pthread_t thread;
    char *path;
    int listen_fd;
    atomic_bool stop;
    ino_t inode; /* of the socket file, because another process may replace the file */
};

void control_answer(int fd, const char *text)
{
    size_t left;

    if (!text)
        text = CONTROL_FAILED "out of memory\n";
    left = strlen(text);
    while (left) {
        ssize_t sent = send(fd, text, left, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            break; /* the client has closed the connection, or did not read in time */
        text += sent;
        left -= (size_t)sent;
    }
    close(fd);
}

void control_read(int fd, char *text, size_t size, const char *end, int64_t until_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    size_t length = 0;
    ssize_t got = 1;
    int64_t left;

    for (*text = '\0'; got > 0 && length + 1 < size && !strstr(text, end); text[length] = '\0') {
        left = until_ms - clock_mono_ms();
        if (left <= 0 || poll(&one, 1, (int)left) <= 0)
            return;
        got = recv(fd, text + length, size - 1 - length, MSG_DONTWAIT);
        length += got > 0 ? (size_t)got : 0;
    }
}

/* ---- the socket ---- */

static int control_address_of(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address->sun_path, path, strlen(path) + 1);
    return 0;
}

int control_connect(const char *path, int flags)
{
    struct sockaddr_un address;
    int fd = control_address_of(path, &address)
                 ? -1
                 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

    if (fd < 0 || !connect(fd, (struct sockaddr *)&address, sizeof address))
        return fd;
    int reason = errno;

    close(fd);
    errno = reason;
    return -1;
}

/* Creates the socket with the mode 0600. Before the chmod(), the umask (077) excludes others. */
static int control_listen(struct control *control)
{
    struct sockaddr_un address;
    struct stat about;
    int other = control_connect(control->path, SOCK_NONBLOCK);

    if (other >= 0)
        close(other);
    if (other >= 0 || errno == EAGAIN) { /* a process listens there; EAGAIN: its backlog is full */
        errno = EADDRINUSE;
        return -1;
    }
    /* Creates the directory if only the last component is missing: /run is empty after a boot. */
    char *directory = strdup(control->path);
    char *slash = directory ? strrchr(directory, '/') : NULL;

    if (slash && slash > directory) {
        *slash = '\0';
        mkdir(directory, 0700);
    }
    free(directory);
    unlink(control->path);
    if (control_address_of(control->path, &address))
        return -1;
    control->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (control->listen_fd < 0 ||
        bind(control->listen_fd, (struct sockaddr *)&address, sizeof address) ||
        stat(control->path, &about))
        return -1;
    control->inode = about.st_ino;
    return chmod(control->path, 0600) || listen(control->listen_fd, BACKLOG) ? -1 : 0;
}

/* ---- the state as JSON ---- */

/* Formats a time as in the API's responses; 0 becomes null. */
static json_t *status_time_json(int64_t wall_ms)
{
    char text[TEXT_TIME_SIZE];

    if (!wall_ms)
        return json_null();
    text_time(wall_ms, text);
    return json_string(text);
}

/* An empty text becomes null. */
static json_t *status_known_json(const char *text)
{
    return *text ? json_out_text(text) : json_null();
}

static json_t *status_generations_json(struct engine *engine)
{
    struct generation *list[GENERATIONS_MAX];
    size_t count = engine_generations(engine, list);
    const struct generation *live = NULL; /* the oldest generation that is not superseded */
    json_t *json = json_array();
    int64_t now = clock_mono_ms();

    for (size_t i = count; i-- > 0;) { /* oldest first, to find `live` */
        const struct generation *g = list[i];
        /* read before `old`: if `old` is false, `holders` includes the engine's reference */
        size_t holders = atomic_load(&g->holders);
        bool old = generation_superseded(g), drains = old && now < g->cut_ms;

        if (!old && !live)
            live = g;
        const char *state = drains ? "drains" : old ? "cut" : g == live ? "live" : "starting";
        int64_t since = old ? g->superseded_ms : g == live ? g->live_ms : now;
        json_t *modules = json_array(), *pools = json_array();
        struct work_pool_status pool;

        for (size_t k = 0; k < g->module_count; k++) {
            const struct core_module *module = &g->modules[k];

            json_array_append_new(
                modules,
                json_pack("{so so so so}", "name", json_out_text(module->descriptor->name),
                          "version", json_out_text(module->descriptor->version), "build",
                          json_out_text(module->build_id), "path", json_out_text(module->path)));
        }
        for (size_t k = 0; work_pool_snapshot(g->pools, k, &pool); k++)
            json_array_append_new(
                pools, json_pack("{so so si si si si si}", "module", json_out_text(pool.module),
                                 "name", json_out_text(pool.name), "threads", (int)pool.threads,
                                 "started", (int)pool.started, "busy", (int)pool.busy, "waiting",
                                 (int)pool.waiting, "queue", (int)pool.queue));
        json_array_insert_new(
            json, 0,
            json_pack("{si ss sf so sI si so so}", "number", (int)g->number, "state", state,
                      "seconds", (double)(now - since) / 1000, "cutInSeconds",
                      drains ? json_real((double)(g->cut_ms - now) / 1000) : json_null(),
                      /* excludes this function's reference and the engine's */
                      "holders", (json_int_t)(holders - (old ? 1 : 2)), "workers",
                      (int)workers_running(g->workers), "modules", modules, "pools", pools));
    }
    engine_generations_release(list, count);
    return json;
}

static json_t *status_crashes_json(struct engine *engine)
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
                     !*last->how ? json_null()
                                 : json_pack("{so so so}", "how", json_out_text(last->how),
                                             "module", status_known_json(last->module), "report",
                                             status_known_json(last->report)),
                     "modules", modules, "leftOut", left_out);
}

static json_t *status_loops_json(struct engine *engine)
{
    struct generation *g = engine_generation(engine);
    size_t count = json_array_size(g->host->database.replicas);
    json_t *list = json_array();

    generation_release(g);

    for (unsigned i = 0; i < engine->loop_count; i++) {
        const struct loop *loop = &engine->loops[i];
        const struct loop_stats *stats = &loop->stats;
        int64_t blocked_ms = atomic_load(&loop->stands_ms);
        int64_t redis_ms = loop->redis ? redis_latency_ms(loop->redis) : -1;
        json_t *pools = json_object(), *replicas = json_array();

        for (size_t k = 0; k < count; k++)
            json_array_append_new(
                replicas, json_pack("{sI ss sI sI}", "replica", (json_int_t)k + 1, "state",
                                    pg_replica_states[atomic_load(&stats->replicas[k].state)],
                                    "lagMs", (json_int_t)atomic_load(&stats->replicas[k].lag_ms),
                                    "reads", (json_int_t)atomic_load(&stats->replicas[k].reads)));
        for (int kind = 0; loop->pg && kind < PG_POOLS; kind++)
            json_object_set_new(
                pools, pg_pool_names[kind],
                json_pack("{sI sI sI sI}", "ready", (json_int_t)atomic_load(&stats->ready[kind]),
                          "connections", (json_int_t)atomic_load(&stats->size[kind]), "waiting",
                          (json_int_t)atomic_load(&stats->waiting[kind]), "batches",
                          (json_int_t)atomic_load(&stats->batches[kind])));
        json_array_append_new(
            list,
            json_pack("{sb so sI sI so sb so so}", "stands", blocked_ms != 0, "blockedSeconds",
                      blocked_ms ? json_real((double)blocked_ms / 1000) : json_null(),
                      "connections", (json_int_t)atomic_load(&stats->connections), "requests",
                      (json_int_t)atomic_load(&stats->requests), "redisMs",
                      redis_ms < 0 ? json_null() : json_integer(redis_ms), "redisFailed",
                      loop->redis && redis_ms < 0, "pools", pools, "replicas", replicas));
    }
    return list;
}

static json_t *status_reloads_json(struct reloader *reloader)
{
    struct reload_history history;
    bool any;

    reloader_history(reloader, &history);
    any = history.last_wall_ms != 0;
    return json_pack("{si si so ss* so*}", "done", (int)history.done, "refused",
                     (int)history.refused, "lastAt", status_time_json(history.last_wall_ms),
                     "lastOutcome", any ? history.last_done ? "done" : "refused" : NULL, "last",
                     any ? json_out_text(history.last) : NULL);
}

static json_t *status_jobs_json(struct engine *engine)
{
    json_t *list = json_array();
    struct job_record job;

    for (size_t i = 0; job_log_snapshot(engine, i, &job); i++) {
        json_t *skipped =
            job.skipped_since_wall_ms
                ? json_pack("{so so}", "since", status_time_json(job.skipped_since_wall_ms),
                            "lockHolder", json_out_text(job.lock_holder))
                : json_null();

        json_array_append_new(list, json_pack("{so sI sI sI so so sf}", "name",
                                              json_out_text(job.name), "done", (json_int_t)job.done,
                                              "failed", (json_int_t)job.failed, "skipped",
                                              (json_int_t)job.skipped, "skippedNow", skipped,
                                              "lastDoneAt", status_time_json(job.last_done_wall_ms),
                                              "lastSeconds", (double)job.last_us / 1000000));
    }
    return list;
}

static json_t *status_database_json(struct engine *engine)
{
    static const char *const states[] = {[SCHEMA_NONE] = "none",
                                         [SCHEMA_PENDING] = "pending",
                                         [SCHEMA_UNFIT] = "unfit",
                                         [SCHEMA_READY] = "ready"};
    char schema[sizeof engine->schema_problem], connection[sizeof engine->connection_problem];
    int64_t ms = engine->pg_listener ? pg_listener_latency_ms() : -1;

    pthread_mutex_lock(&engine->lock);
    memcpy(schema, engine->schema_problem, sizeof schema);
    memcpy(connection, engine->connection_problem, sizeof connection);
    pthread_mutex_unlock(&engine->lock);
    if (ms >= 0)
        *connection = '\0';
    return json_pack("{so so ss si so* so so ss?}", "latencyMs",
                     ms < 0 ? json_null() : json_integer(ms), "clockOffsetMs",
                     shared_clock_known() ? json_integer(shared_clock_offset_ms()) : json_null(),
                     "schema", states[atomic_load(&engine->schema)], "migrationsPending",
                     (int)atomic_load(&engine->migrations_pending), "problem",
                     *schema || *connection ? json_out_text(*schema ? schema : connection) : NULL,
                     "schemaProblem", status_known_json(schema), "connectionProblem",
                     status_known_json(connection), "noWrites", pg_listener_no_writes());
}

/* Returns the upper bound of the bucket with the 99th percentile, in ms; 0: no times counted. */
static double status_p99_ms(const struct account *account)
{
    struct meter_times times;
    uint64_t sum = 0, all = 0;
    size_t i = 0;

    meter_times(account->meter, ACCOUNT_TIMES, &times);
    for (size_t k = 0; k < METER_BUCKETS; k++)
        all += times.buckets[k];
    while (i < METER_BUCKETS - 2 && (sum += times.buckets[i]) * 100 < all * 99)
        i++;
    return all ? (double)meter_bounds_us[i] / 1000 : 0;
}

/* Lists the modules that were loaded since the start, those with the most CPU time first. */
static json_t *status_modules_json(void)
{
    json_t *list = json_array();

    for (const struct account *at = account_first(); at; at = at->next) {
        json_int_t values[ACCOUNT_TIMES];
        size_t place = 0;

        for (size_t i = 0; i < ACCOUNT_TIMES; i++)
            values[i] = (json_int_t)meter_sum(at->meter, i);
        double cpu_s = (double)values[ACCOUNT_CPU_US] / 1e6;

        while (json_number_value(json_object_get(json_array_get(list, place), "cpuSeconds")) >
               cpu_s)
            place++;
        json_array_insert_new(
            list, place,
            json_pack("{so sf sI sf sI sf sf sI sI sI}", "name", json_out_text(at->name),
                      "cpuSeconds", cpu_s, "requests", values[ACCOUNT_REQUESTS], "p99Ms",
                      status_p99_ms(at), "statements", values[ACCOUNT_STATEMENTS],
                      "databaseSeconds", (double)values[ACCOUNT_DATABASE_US] / 1e6, "queueSeconds",
                      (double)values[ACCOUNT_QUEUE_US] / 1e6, "events", values[ACCOUNT_EVENTS],
                      "memoryBytes", values[ACCOUNT_MEMORY], "refused",
                      values[ACCOUNT_REFUSED] + values[ACCOUNT_REFUSED + 1] +
                          values[ACCOUNT_REFUSED + 2]));
    }
    return list;
}

static json_t *status_state_json(struct engine *engine)
{
    struct generation *g = engine_generation(engine);
    json_t *configuration = json_out_text(g->settings->path);
    char reason[PAUSE_REASON] = "";

    generation_release(g);
    if (!pause_why(engine, reason, sizeof reason))
        *reason = '\0';
    return json_pack("{ss si sf so sb so so so so so so so so sI}", "version", PACKAGE_VERSION,
                     "process", (int)getpid(), "seconds",
                     (double)(clock_mono_ms() - engine->started_ms) / 1000, "configuration",
                     configuration, "ready", (int)readiness(engine), "paused",
                     status_known_json(reason), "database", status_database_json(engine), "reloads",
                     status_reloads_json(engine->reloader), "crashes", status_crashes_json(engine),
                     "generations", status_generations_json(engine), "loops",
                     status_loops_json(engine), "jobs", status_jobs_json(engine), "modules",
                     status_modules_json(), "logLinesDropped", (json_int_t)log_dropped());
}

/* ---- the JSON as text ---- */

static const char *status_word(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text ? text : "";
}

static long status_whole(const json_t *json, const char *name)
{
    return (long)json_integer_value(json_object_get(json, name));
}

/*
 * Prints a format. {name} becomes the member `name`. {name|text} becomes the member, or, if the
 * member is empty, `text`. {text~name} becomes `text` and the member, or, if the member is empty,
 * nothing. A number before the name is the width, as for printf().
 */
static void status_print(FILE *out, const json_t *json, const char *format)
{
    for (; *format; format++) {
        if (*format != '{') {
            fputc(*format, out);
            continue;
        }
        const char *end = format + strcspn(format, "}"),
                   *tilde = memchr(format, '~', (size_t)(end - format));
        char *name;
        int width = (int)strtol(tilde ? tilde + 1 : format + 1, &name, 10);
        size_t length = strcspn(name, "|}");
        const json_t *value = json_object_getn(json, name, length);

        if (tilde && json_string_length(value))
            fprintf(out, "%.*s", (int)(tilde - format - 1), format + 1);
        if (json_is_real(value))
            fprintf(out, "%*.1f", width, json_real_value(value));
        else if (json_is_integer(value))
            fprintf(out, "%*" JSON_INTEGER_FORMAT, width, json_integer_value(value));
        else if (json_string_length(value))
            fprintf(out, "%*s", width, json_string_value(value));
        else if (name[length] == '|')
            fprintf(out, "%.*s", (int)(end - (name + length + 1)), name + length + 1);
        format = end;
    }
}

/* Prints the format for each row of a list. */
static void status_print_rows(FILE *out, const json_t *json, const char *list, const char *format)
{
    const json_t *row;
    size_t i;

    json_array_foreach (json_object_get(json, list), i, row)
        status_print(out, row, format);
}

static void status_print_loop(FILE *out, size_t index, const json_t *loop)
{
    json_t *pools = json_object_get(loop, "pools"), *pool;
    const char *name;

    fprintf(out, "loop %zu: ", index);
    if (json_is_true(json_object_get(loop, "stands"))) {
        status_print(out, loop, "BLOCKED for {blockedSeconds} s, see the log\n");
        return;
    }
    status_print(out, loop, "{connections} connections, {requests} requests");
    if (json_is_integer(json_object_get(loop, "redisMs")))
        status_print(out, loop, ", Redis responds in {redisMs} ms");
    if (json_is_true(json_object_get(loop, "redisFailed")))
        fputs(", Redis does not respond", out);
    fputc('\n', out);
    json_object_foreach (pools, name, pool) {
        fprintf(out, "  database %s: ", name);
        status_print(out, pool,
                     "{ready} of {connections} connections, {waiting} waiting, "
                     "{batches} batches in progress\n");
    }
    status_print_rows(out, loop, "replicas",
                      "  replica {replica}: {state}, lag {lagMs} ms, {reads} reads\n");
}

static void status_print_all(FILE *out, const json_t *host, const struct engine *engine)
{
    const json_t *database = json_object_get(host, "database");
    const json_t *reloads = json_object_get(host, "reloads");
    const json_t *crashes = json_object_get(host, "crashes"), *row;
    const char *schema = status_word(database, "schema");
    double ahead = json_number_value(json_object_get(database, "clockOffsetMs"));
    size_t i;

    status_print(out, host,
                 "busbar {version}, process {process}, up for {seconds} s, "
                 "{configuration}\n");
    if (engine->pg_listener && json_is_null(json_object_get(database, "latencyMs")))
        status_print(out, database, "PostgreSQL does not respond{: ~connectionProblem}\n");
    else if (engine->pg_listener)
        status_print(out, database, "PostgreSQL responds in {latencyMs} ms\n");
    if (*status_word(database, "noWrites"))
        status_print(out, database, "PostgreSQL accepts no writes: {noWrites}\n");
    if (ahead >= SHARED_CLOCK_WARN_MS || ahead <= -SHARED_CLOCK_WARN_MS)
        fprintf(out, "PostgreSQL's clock is %.1f s ahead of this host's\n", ahead / 1000);
    if (*schema == 'u')
        status_print(out, database, "the database does not fit the modules: {schemaProblem}\n");
    if (*schema == 'p')
        status_print(out, database, "the database is not migrated yet{: ~schemaProblem}\n");
    if (*status_word(host, "paused"))
        status_print(out, host, "PAUSED: deliveries, jobs and calls to other servers: {paused}\n");
    if (status_whole(host, "logLinesDropped"))
        status_print(out, host, "{logLinesDropped} lines of the log were dropped\n");
    json_array_foreach (json_object_get(host, "jobs"), i, row) {
        const json_t *skipped = json_object_get(row, "skippedNow");

        if (!json_is_object(skipped))
            continue;
        status_print(out, row, "job {name} skipped: lock held elsewhere ");
        status_print(out, skipped, "since {since}, by {lockHolder|an unknown session}\n");
    }
    status_print(out, reloads,
                 "reloads: {done} done, {refused} refused{; the last at ~lastAt}{ ~lastOutcome}"
                 "{: ~last}\n");
    if (status_whole(crashes, "restarts")) {
        status_print(out, crashes, "the worker was restarted {restarts} times; the last exit: ");
        status_print(out, json_object_get(crashes, "last"),
                     "{how}{, module ~module}{, report ~report}\n");
    }
    status_print_rows(out, crashes, "modules", "  crashes of module {name}: {count}\n");
    status_print_rows(out, crashes, "leftOut",
                      "DISABLED: module {name}, until the next reload: {why}\n");
    json_array_foreach (json_object_get(host, "generations"), i, row) {
        const char *state = status_word(row, "state");

        status_print(out, row, "generation {number}: ");
        status_print(out, row,
                     *state == 's'   ? "about to go live"
                     : *state == 'l' ? "live for {seconds} s"
                     : *state == 'd' ? "draining for {seconds} s, cut in {cutInSeconds} s"
                                     : "draining for {seconds} s, was cut");
        status_print(out, row, ", used by {holders} requests or threads\n");
        status_print_rows(out, row, "modules",
                          "  module {name} {version}, build {build|unknown}, {path}\n");
        status_print_rows(out, row, "pools",
                          "  pool {module}.{name}: {started} of {threads} threads, {busy} busy, "
                          "{waiting} of {queue} waiting\n");
        if (status_whole(row, "workers"))
            status_print(out, row, "  {workers} workers run\n");
    }
    json_array_foreach (json_object_get(host, "loops"), i, row)
        status_print_loop(out, i, row);
    fputs("module               CPU s requests  p99 ms statements "
          "database s queue s   events   memory refused\n",
          out);
    status_print_rows(out, host, "modules",
                      "{-16name} {9cpuSeconds} {8requests} {7p99Ms} {10statements} "
                      "{10databaseSeconds} {7queueSeconds} {8events} {8memoryBytes} {7refused}\n");
}

/*
 * Returns the output of `busbar status`, or of `busbar status --json`, for control_answer(). The
 * caller frees it; NULL: out of memory. The names in the JSON must stay stable.
 */
static char *status_text(struct engine *engine, bool json)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    bool stopping = engine_hold(engine);
    json_t *host = stopping ? NULL : status_state_json(engine);

    if (out && host) {
        fputs(CONTROL_DONE, out);
        if (json && !json_dumpf(host, out, JSON_INDENT(2)))
            fputc('\n', out);
        else if (!json)
            status_print_all(out, host, engine);
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

/* ---- clients ---- */

#define RUN_JOB "run-job "

/* Starts a job, and returns the response for the client. */
static const char *control_run_job(struct engine *engine, const char *name)
{
    if (engine_hold(engine))
        return CONTROL_FAILED "the host is stopping\n";
    bool found = jobs_call(engine, name);

    engine_unhold(engine);
    return found ? CONTROL_DONE "the job was started\n"
                 : CONTROL_FAILED "no module of the host has a job of this name\n";
}

static void *control_main(void *arg)
{
    struct control *control = arg;
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    char line[LINE_BYTES];

    thread_name("control", NULL);
    while (!atomic_load(&control->stop)) {
        int fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0) {
            if (!atomic_load(&control->stop))
                poll(NULL, 0, PAUSE_MS);
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        control_read(fd, line, sizeof line, "\n", clock_mono_ms() + LINE_MS);
        line[strcspn(line, "\n")] = '\0';
        if (!strcmp(line, "reload")) {
            reloader_ask(control->engine->reloader, fd);
        } else if (!strcmp(line, "status") || !strcmp(line, "status --json")) {
            char *text = status_text(control->engine, line[6] != '\0');

            control_answer(fd, text);
            free(text);
        } else if (!strncmp(line, RUN_JOB, strlen(RUN_JOB))) {
            control_answer(fd, control_run_job(control->engine, line + strlen(RUN_JOB)));
        } else {
            control_answer(fd, CONTROL_FAILED
                           "unknown command: this host accepts reload, status and run-job\n");
        }
    }
    return NULL;
}

/* ---- start and end ---- */

static void control_leave(struct control *control)
{
    struct stat about;

    if (control->listen_fd >= 0) {
        close(control->listen_fd);
        if (!stat(control->path, &about) && about.st_ino == control->inode)
            unlink(control->path);
    }
    free(control->path);
    free(control);
}

struct control *control_new(struct engine *engine)
{
    struct generation *g = engine_generation(engine);
    char *path = control_path(g->settings);
    struct control *control = path ? calloc(1, sizeof *control) : NULL;

    generation_release(g);
    if (!control) {
        free(path);
        return NULL;
    }
    *control = (struct control){.engine = engine, .path = path, .listen_fd = -1};
    int error = control_listen(control)
                    ? errno
                    : pthread_create(&control->thread, NULL, control_main, control);

    if (!error)
        return control;
    log_line(BB_WARN,
             "no control socket: `busbar reload` and `busbar status` will not reach this "
             "host",
             "path", path, "reason",
             error == EADDRINUSE ? "another host uses this path" : strerror(error), NULL);
    control_leave(control);
    return NULL;
}

void control_free(struct control *control)
{
    if (!control)
        return;
    atomic_store(&control->stop, true);
    shutdown(control->listen_fd, SHUT_RDWR); /* makes accept4() return */
    pthread_join(control->thread, NULL);
    control_leave(control);
}
