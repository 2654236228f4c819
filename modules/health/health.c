/*
 * GET /api/health depends on nothing, so it responds while everything else waits; the status is 503
 * while an event loop is blocked. GET /api/health/status returns the state of each dependency as of
 * the last second, without dependencies that are not configured. GET /api/health/ready returns
 * whether to send requests to this host; Redis does not matter for it.
 */
#include "health.h"

static int no_memory(struct bb_request *rq)
{
    return bb_fail(rq, 503, "Out of memory");
}

int health_alive(struct bb_request *rq)
{
    const char *standstill = bb_standstill(rq);

    if (standstill)
        return bb_fail(rq, 503, "%s", standstill);
    json_t *json = json_pack("{s:s}", "status", "ok");

    return json ? bb_reply(rq, 200, json) : no_memory(rq);
}

struct dependency {
    enum bb_dependency which;
    const char *name;
};

static const struct dependency database = {BB_DATABASE, "database"};
static const struct dependency schema = {BB_SCHEMA, "schema"};
static const struct dependency clocks = {BB_CLOCK, "clock"};
static const struct dependency redis = {BB_REDIS, "redis"};
static const struct dependency host = {BB_HOST, "host"};

static const struct dependency *const of_status[] = {&database, &clocks, &schema, &redis, NULL};
static const struct dependency *const of_ready[] = {&host, &database, &clocks, &schema, NULL};

/* Every dependency is in `details`, and also in `info` if it is up, in `error` if not. */
struct report {
    json_t *info, *error, *details;
};

/* Returns 0, or -1 if out of memory. */
static int ask(struct bb_request *rq, const struct dependency *dependency, struct report *report)
{
    bool timed = dependency->which == BB_DATABASE || dependency->which == BB_REDIS;
    int64_t latency = 0;
    int asked = bb_probe(rq, dependency->which, &latency);
    bool up = asked == 0;

    if (asked > 0)
        return 0;
    const char *reason = dependency->which == BB_HOST ? bb_standstill(rq) : NULL;
    json_t *state = json_pack("{s:s, s:o*, s:o*, s:s*}", "status", up ? "up" : "down", "latencyMs",
                              up && timed ? json_integer(latency) : NULL, "offsetMs",
                              dependency->which == BB_CLOCK ? json_integer(latency) : NULL,
                              "reason", up ? NULL : reason);
    json_t *list = up ? report->info : report->error;

    if (json_object_set(list, dependency->name, state) < 0) {
        json_decref(state);
        return -1;
    }
    return json_object_set_new(report->details, dependency->name, state);
}

/* A paused host serves requests, so it is up. Returns 0, or -1 if out of memory. */
static int tell_pause(struct bb_request *rq, struct report *report)
{
    const char *reason = bb_pause_reason(rq);

    if (!reason)
        return 0;
    json_t *state = json_pack("{s:s, s:s}", "status", "paused", "reason", reason);

    if (json_object_set(report->info, "background", state) < 0) {
        json_decref(state);
        return -1;
    }
    return json_object_set_new(report->details, "background", state);
}

static int reply_report(struct bb_request *rq, const struct dependency *const *list)
{
    struct report report = {json_object(), json_object(), json_object()};
    int failed = 0;

    for (; *list; list++)
        failed |= ask(rq, *list, &report);

    failed |= tell_pause(rq, &report);
    bool well = json_object_size(report.error) == 0;
    json_t *json = json_pack("{s:s, s:o, s:o, s:o}", "status", well ? "ok" : "error", "info",
                             report.info, "error", report.error, "details", report.details);

    if (!json || failed) {
        json_decref(json);
        return no_memory(rq);
    }
    return bb_reply(rq, well ? 200 : 503, json);
}

int health_status(struct bb_request *rq)
{
    return reply_report(rq, of_status);
}

int health_ready(struct bb_request *rq)
{
    return reply_report(rq, of_ready);
}
