/* GET /metrics. The host counts and formats; this module decides who may read. */
#include "metrics.h"

int metrics_show(struct bb_request *rq)
{
    size_t length;
    const char *text = bb_metrics(rq, &length);

    return bb_reply_bytes(rq, 200, "text/plain; version=0.0.4; charset=utf-8", text, length);
}
