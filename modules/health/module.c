/* health: its tables, and nothing else. */
#include "health.h"

// clang-format off

static const struct bb_field alive_reply[] = {
    {.name = "status", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "ok"},
};

static const char *const states[] = {"ok", "error", NULL};

static const struct bb_field status_reply[] = {
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = states},
    {.name = "info", .type = BB_OBJECT, .flags = BB_REQUIRED, .help = "What is up."},
    {.name = "error", .type = BB_OBJECT, .flags = BB_REQUIRED, .help = "What is down."},
    {.name = "details", .type = BB_OBJECT, .flags = BB_REQUIRED,
     .help = "database, schema (whether the tables fit the modules) and redis: status up or down; "
             "database and redis with latencyMs when up."},
};

static const struct bb_field ready_reply[] = {
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = states},
    {.name = "info", .type = BB_OBJECT, .flags = BB_REQUIRED, .help = "What is up."},
    {.name = "error", .type = BB_OBJECT, .flags = BB_REQUIRED, .help = "What is down."},
    {.name = "details", .type = BB_OBJECT, .flags = BB_REQUIRED,
     .help = "host (down while it stops), database and schema: status up or down."},
};

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/api/health", .roles = BB_ANYONE, .handler = health_alive,
     .reply = BB_TABLE(alive_reply), .help = "Ok while the process is up."},
    {.method = "GET", .path = "/api/health/ready", .roles = BB_ANYONE, .handler = health_ready,
     .reply = BB_TABLE(ready_reply),
     .help = "Whether to send requests to this host; 503 while its database is away or not migrated, "
             "and once it stops."},
    {.method = "GET", .path = "/api/health/status", .roles = BB_ANYONE, .handler = health_status,
     .reply = BB_TABLE(status_reply), .help = "State of the dependencies; 503 when one is down."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("health", "1.0.0"),
    .routes = BB_TABLE(routes),
};
