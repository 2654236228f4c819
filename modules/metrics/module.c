/* metrics: its tables, and nothing else. */
#include "metrics.h"

static const struct bb_route routes[] = {
    {.method = "GET",
     .path = "/metrics",
     .roles = BB_ROLE_ADMIN,
     .flags = BB_INSIDE,
     .handler = metrics_show,
     .help = "What the host and its modules count, in the text format of Prometheus."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("metrics", "1.0.0"),
    .routes = BB_TABLE(routes),
};
