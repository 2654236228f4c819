/*
 * Fixture of the suites of readings: a host with the module and the spy on its own database; M and
 * B are in different organizations.
 */
#ifndef TESTS_READINGS_H
#define TESTS_READINGS_H

#include "meter.h"
#include "stage.h"

/* 10 kW, commissioned 100 days ago: 65,753 Wh a day. */
#define PLANT "plant"

extern struct person *m, *b;

/* Call it in a suite's set-up. */
void readings_open(const char *name);

/* Makes a separate device for a test, of 10 kW and commissioned 100 days ago. */
const char *plant(const char *name);

/* Returns the number of readings of a device in the database. */
int64_t stored(const char *external_id);

/* Fails the test unless the response is an error whose first problem is in this field. */
void expect_field(struct answer *answer, long status, const char *field);

#endif
