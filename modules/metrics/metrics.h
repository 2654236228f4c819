/* metrics: GET /metrics. */
#ifndef METRICS_H
#define METRICS_H

#include <busbar/busbar.h>

int metrics_show(struct bb_request *rq);

#endif
