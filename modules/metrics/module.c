/* metrics: GET /metrics. */
#include <busbar/busbar.h>

static int metrics_show(struct bb_request *rq)
{
    size_t length;
    const char *text = bb_metrics(rq, &length);

    return bb_reply_bytes(rq, 200, "text/plain; version=0.0.4; charset=utf-8", text, length);
}

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
