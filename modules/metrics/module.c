/* The tables of the metrics module. */
#include "metrics.h"

static const struct bb_route routes[] = {
    {.method = "GET",
     .path = "/metrics",
     .roles = BB_ROLE_ADMIN,
     .flags = BB_INSIDE,
     .handler = metrics_show,
     .reply_type = "text/plain",
     .help = "Get metrics in Prometheus text format."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("metrics", "1.0.0"),
    .help = "Metrics for Prometheus.",
    .routes = BB_TABLE(routes),
};
