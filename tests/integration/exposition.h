/*
 * A strict reader of Prometheus's text format 0.0.4: fails the test where promtool or a server
 * would complain. Lives as long as the process.
 */
#ifndef TESTS_EXPOSITION_H
#define TESTS_EXPOSITION_H

#include "client.h"

struct sample {
    char *name, *labels; /* labels as they stand, without braces; "" for none */
    double value;
};

struct exposition {
    struct sample *samples;
    size_t count;
};

/* GET /metrics, which must be answered 200 and well-formed. */
struct exposition *exposition_get(const struct host *host, const char *token);

/* The value of a sample; -1: there is none. `labels` must be the whole of them. */
double exposition_value(const struct exposition *exposition, const char *name, const char *labels);

#endif
