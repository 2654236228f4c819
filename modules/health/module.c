/*
 * health: reports whether the process is alive, and the state of its dependencies.
 *
 * GET /api/health depends on nothing, so it responds even while everything else waits; it sends a
 * 503 while an event loop is blocked. GET /api/health/status returns the state of each configured
 * dependency within the last second. GET /api/health/ready returns whether this host should get
 * requests, for which it does not need Redis.
 */
#include <busbar/busbar.h>

static int health_alive(struct bb_request *rq)
{
    const char *standstill = bb_standstill(rq);

    if (standstill)
        return bb_fail(rq, 503, "%s", standstill);
    return bb_reply(rq, 200, json_pack("{s:s}", "status", "ok"));
}

struct dependency {
    enum bb_dependency which;
    const char *name;
};

static const struct dependency of_status[] = {
    {BB_DATABASE, "database"}, {BB_CLOCK, "clock"}, {BB_SCHEMA, "schema"}, {BB_REDIS, "redis"}};
static const struct dependency of_ready[] = {
    {BB_HOST, "host"}, {BB_DATABASE, "database"}, {BB_CLOCK, "clock"}, {BB_SCHEMA, "schema"}};

/* Every dependency is in `details`, and also in `info` if it is up, in `error` if not. */
struct report {
    json_t *info, *error, *details;
};

/* Takes ownership of `state`. Returns 0, or -1 if out of memory. */
static int health_add(struct report *report, bool up, const char *name, json_t *state)
{
    if (json_object_set(up ? report->info : report->error, name, state) < 0) {
        json_decref(state);
        return -1;
    }
    return json_object_set_new(report->details, name, state);
}

static int health_reply(struct bb_request *rq, const struct dependency list[4])
{
    struct report report = {json_object(), json_object(), json_object()};
    const char *paused = bb_pause_reason(rq);
    int failed = 0;

    for (size_t i = 0; i < 4; i++) {
        enum bb_dependency which = list[i].which;
        int64_t latency = 0;
        int asked = bb_probe(rq, which, &latency);
        bool up = asked == 0, timed = which == BB_DATABASE || which == BB_REDIS;

        if (asked <= 0)
            failed |= health_add(
                &report, up, list[i].name,
                json_pack("{s:s, s:o*, s:o*, s:s*}", "status", up ? "up" : "down", "latencyMs",
                          up && timed ? json_integer(latency) : NULL, "offsetMs",
                          which == BB_CLOCK ? json_integer(latency) : NULL, "reason",
                          !up && (which == BB_HOST || which == BB_DATABASE)
                              ? bb_probe_problem(rq, which)
                              : NULL));
    }
    if (paused) /* a paused host serves requests, so it is up */
        failed |= health_add(&report, true, "background",
                             json_pack("{s:s, s:s}", "status", "paused", "reason", paused));
    bool well = json_object_size(report.error) == 0;
    json_t *json = json_pack("{s:s, s:o, s:o, s:o}", "status", well ? "ok" : "error", "info",
                             report.info, "error", report.error, "details", report.details);

    if (!json || failed) {
        json_decref(json);
        return bb_no_memory(rq);
    }
    return bb_reply(rq, well ? 200 : 503, json);
}

static int health_status(struct bb_request *rq)
{
    return health_reply(rq, of_status);
}

static int health_ready(struct bb_request *rq)
{
    return health_reply(rq, of_ready);
}

// clang-format off

static const struct bb_field alive_reply[] = {
    {.name = "status", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "ok"},
};

static const char *const states[] = {"ok", "error", NULL};

#define UP                                                                                         \
    "{\"database\":{\"status\":\"up\",\"latencyMs\":1},\"clock\":{\"status\":\"up\","               \
    "\"offsetMs\":0},\"schema\":{\"status\":\"up\"}}"
#define STATES                                                                                     \
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = states},                \
    {.name = "info", .type = BB_OBJECT, .flags = BB_REQUIRED, .help = "The services that are up.", \
     .example = UP},                                                                               \
    {.name = "error", .type = BB_OBJECT, .flags = BB_REQUIRED,                                     \
     .help = "The services that are down."}

static const struct bb_field status_reply[] = {
    STATES,
    {.name = "details", .type = BB_OBJECT, .flags = BB_REQUIRED, .example = UP,
     .help = "The dependencies database, clock, schema (whether the tables fit the modules) and "
             "redis, each with status up or down. If database or redis is up, it has latencyMs. "
             "clock has offsetMs, the time by which PostgreSQL's clock is ahead of this host's "
             "clock."},
};

static const struct bb_field ready_reply[] = {
    STATES,
    {.name = "details", .type = BB_OBJECT, .flags = BB_REQUIRED, .example = UP,
     .help = "The dependencies host, database, clock and schema, each with status up or down. host "
             "is down while it stops, and while one of its event loops is blocked, which its "
             "reason describes. clock is down while it differs from PostgreSQL's clock by more "
             "than 30 seconds."},
};

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/api/health", .roles = BB_ANYONE, .handler = health_alive,
     .reply = BB_TABLE(alive_reply),
     .help = "Check liveness. 200 while the process runs, even if its database is unavailable. 503 "
             "with the reason while one of its event loops is blocked."},
    {.method = "GET", .path = "/api/health/ready", .roles = BB_ANYONE, .handler = health_ready, .flags = BB_REPLY_IN_503,
     .reply = BB_TABLE(ready_reply),
     .help = "Check readiness. 503 while the database is unavailable or not migrated, while the "
             "clocks of the host and of the database differ by more than 30 seconds, while an "
             "event loop is blocked, and while the host stops. A load balancer should then send "
             "requests to other hosts."},
    {.method = "GET", .path = "/api/health/status", .roles = BB_ANYONE, .handler = health_status, .flags = BB_REPLY_IN_503,
     .reply = BB_TABLE(status_reply),
     .help = "Check the dependencies. 503 when a dependency is down."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("health", "1.0.0"),
    .help = "Liveness, readiness and the state of the dependencies.",
    .routes = BB_TABLE(routes),
};
