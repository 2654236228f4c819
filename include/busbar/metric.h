/*
 * Metrics: numbers that a module reports at GET /metrics, in a table of its descriptor. A row is a
 * metric family: one number, or one number for each value of a label. The name at GET /metrics is
 * busbar_<module>_<name>.
 *
 * Without `read` the host stores the numbers across reloads, and bb_metric_add() increases them.
 * With `read` the host calls the module for each scrape.
 */
#ifndef BUSBAR_METRIC_H
#define BUSBAR_METRIC_H

#include <busbar/abi.h>

enum bb_metric_kind {
    BB_COUNTER = 1, /* only rises, except at restarts; the name ends with _total */
    BB_GAUGE        /* rises and falls; needs `read` */
};

struct bb_metric {
    const char *name; /* [a-z][a-z0-9_]*; ends with the unit, seconds or bytes, if there is one */
    enum bb_metric_kind kind;
    const char *help;          /* one sentence */
    const char *label;         /* name of the label, such as "outcome"; NULL: no label */
    const char *const *values; /* all values of the label (few), NULL-terminated */
    /* Returns the number for values[value]; `value` is 0 without a label. Must not wait. */
    double (*read)(void *state, size_t value);
};

#endif
