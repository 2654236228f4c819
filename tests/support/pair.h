/*
 * Fixture like stage.h with two hosts on one database: suites send requests to one and check the
 * effects on the other.
 */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include "stage.h"

extern struct host *other;

/* Starts both hosts on a new database of the spec's name; call it in the set-up. */
void pair_open(const struct host_spec *spec);

/* Makes a suite like STAGE_SUITE() with two hosts of its name. */
#define PAIR_SUITE(suite, seconds_each)                                                            \
    static void suite##_set_up(void)                                                               \
    {                                                                                              \
        pair_open(&(struct host_spec){.name = #suite});                                            \
    }                                                                                              \
    STAGE_SUITE(suite, suite##_set_up, seconds_each)

#endif
