/*
 * A strict parser of Prometheus's text format 0.0.4: fails the test where promtool or a server
 * would complain. Its results live as long as the process.
 */
#ifndef TESTS_EXPOSITION_H
#define TESTS_EXPOSITION_H

#include "client.h"

struct sample {
    char *name, *labels; /* labels as written, without braces; "" for none */
    double value;
};

struct exposition {
    struct sample *samples;
    size_t count;
};

/* Sends GET /metrics; the response must be 200 and well-formed. */
struct exposition *exposition_get(const struct host *host, const char *token);

/* Returns the value of a sample, or -1 if there is none. `labels` must be all labels of the sample.
 */
double exposition_value(const struct exposition *exposition, const char *name, const char *labels);

#endif
