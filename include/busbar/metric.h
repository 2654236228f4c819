/*
 * Metrics: numbers that a module shows at GET /metrics, in a table of its descriptor. A row is a
 * family: one number, or one for each value of a label. It is shown as busbar_<module>_<name>.
 *
 * Without `read` the host keeps the numbers, which bb_metric_add() counts up; they outlive reloads.
 * With `read` the module is asked whenever somebody looks.
 *
 * Since minor 1.
 */
#ifndef BUSBAR_METRIC_H
#define BUSBAR_METRIC_H

#include <busbar/abi.h>

enum bb_metric_kind {
    BB_COUNTER = 1, /* only rises, but for restarts; the name ends with _total */
    BB_GAUGE        /* goes up and down; needs `read` */
};

struct bb_metric {
    const char
        *name; /* [a-z][a-z0-9_]*; with its unit at the end, seconds or bytes, if it has one */
    enum bb_metric_kind kind;
    const char *help;          /* one sentence */
    const char *label;         /* "outcome"; NULL: a single number */
    const char *const *values; /* of the label, NULL-terminated: the whole of them, few */
    /*
     * The number of the label's value with this index (0 without a label). On a thread of the
     * host; must not wait.
     */
    double (*read)(void *state, size_t value);
};

#endif
