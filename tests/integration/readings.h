/*
 * What the suites of readings stand on: a host with the module and the spy on a database of its
 * own, M in one organisation, B in another.
 */
#ifndef TESTS_READINGS_H
#define TESTS_READINGS_H

#include "meter.h"
#include "stage.h"

/* 10 kW, commissioned 100 days ago: 65,753 Wh a day. */
#define PLANT "plant"

extern struct person *m, *b;

/* For a suite's set-up. */
void readings_open(const char *name);

/* A device of its own for a test, 10 kW and 100 days old. */
const char *plant(const char *name);

/* How many readings the database has of a device. */
int64_t stored(const char *external_id);

/* An error, whose first problem is that of the field. */
void expect_field(struct answer *answer, long status, const char *field);

#endif
