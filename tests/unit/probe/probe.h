/* The settings of the probe, one of each type, in the form in which the host fills them in. */
#ifndef TESTS_UNIT_PROBE_H
#define TESTS_UNIT_PROBE_H

#include <busbar/busbar.h>

struct probe_settings {
    const char *greeting, *email, *uuid, *since, *colour;
    const char *nothing; /* has no default */
    bool loud;
    int64_t times;
    double share;
    int64_t not_bound;
    json_t *names, *ages, *any;
};

#endif
