#ifndef BUSBAR_METRIC_H
#define BUSBAR_METRIC_H 
#include <busbar/abi.h>
enum bb_metric_kind {
    BB_COUNTER = 1,
    BB_GAUGE
};
struct bb_metric {
    const char *name;
    enum bb_metric_kind kind;
    const char *help;
    const char *label;
    const char *const *values;
    double (*read)(void *state, size_t value);
};
#endif
