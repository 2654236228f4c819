/* The tables of the health module. */
#include "health.h"

// clang-format off

static const struct bb_field alive_reply[] = {
    {.name = "status", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "ok"},
};

static const char *const states[] = {"ok", "error", NULL};

static const struct bb_field status_reply[] = {
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = states},
    {.name = "info", .type = BB_OBJECT, .flags = BB_REQUIRED, .help = "The services that are up."},
    {.name = "error", .type = BB_OBJECT, .flags = BB_REQUIRED, .help = "The services that are down."},
    {.name = "details", .type = BB_OBJECT, .flags = BB_REQUIRED,
     .help = "database, clock, schema (whether the tables fit the modules) and redis: status up or down; "
             "database and redis with latencyMs when up, clock with offsetMs, by which PostgreSQL's "
             "clock is ahead of this host's."},
};

static const struct bb_field ready_reply[] = {
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = states},
    {.name = "info", .type = BB_OBJECT, .flags = BB_REQUIRED, .help = "The services that are up."},
    {.name = "error", .type = BB_OBJECT, .flags = BB_REQUIRED, .help = "The services that are down."},
    {.name = "details", .type = BB_OBJECT, .flags = BB_REQUIRED,
     .help = "host (down while it stops, and while one of its event loops is blocked: then with "
             "the reason), database, clock (down while it differs from PostgreSQL's by more than "
             "30 seconds) and schema: status up or down."},
};

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/api/health", .roles = BB_ANYONE, .handler = health_alive,
     .reply = BB_TABLE(alive_reply),
     .help = "Check liveness. Ok while the process is up, even without its database; 503 with the "
             "reason while one of its event loops is blocked."},
    {.method = "GET", .path = "/api/health/ready", .roles = BB_ANYONE, .handler = health_ready, .flags = BB_REPLY_IN_503,
     .reply = BB_TABLE(ready_reply),
     .help = "Check readiness. 503 while the database is unavailable or not migrated, while the "
             "clocks of the host and of the database differ by more than 30 seconds, while an "
             "event loop is blocked, and once the host is stopping: a load balancer should then "
             "send requests elsewhere."},
    {.method = "GET", .path = "/api/health/status", .roles = BB_ANYONE, .handler = health_status, .flags = BB_REPLY_IN_503,
     .reply = BB_TABLE(status_reply),
     .help = "Check the dependencies. 503 when one of them is down."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("health", "1.0.0"),
    .help = "Liveness, readiness and the state of the dependencies.",
    .routes = BB_TABLE(routes),
};
