/* Reads the connection settings of a generation. */
#include "core/module/quota.h"
#include "core/server/http.h"

static int64_t number(const struct generation *g, const char *name)
{
    return settings_int(g->settings, "http", name);
}

/* 0 means the default share of one owner. */
static unsigned per_address(const struct generation *g)
{
    int64_t own = number(g, "connections_per_address");
    size_t all = (size_t)number(g, "max_connections");

    return own ? (unsigned)own : (unsigned)quota_part(g->request.share, all);
}

struct http_settings http_settings_of(const struct generation *g, const struct listeners *listeners)
{
    return (struct http_settings){
        .listeners = listeners,
        .max_connections = (unsigned)number(g, "max_connections"),
        .per_address = per_address(g),
        .header_ms = number(g, "header_timeout") * 1000,
        .body_ms = number(g, "body_timeout") * 1000,
        .idle_ms = number(g, "idle_timeout") * 1000,
        .write_ms = number(g, "write_timeout") * 1000,
    };
}
