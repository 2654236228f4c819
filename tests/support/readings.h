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

/*
 * Sends POST of {'type':'Delta','unit':'Wh'} with the members of `change` for a device of m; see
 * exchange.h. In `change` and `expected`, @9 is midnight 9 days ago, and @9+2 is 2 hours later.
 */
struct answer *post_reading(const char *key, const char *change, long status, const char *expected);
const char *dated(const char *text);

/* The response to a request with one problem, in this field. */
#define FIELD(name) "{'errors':[{'field':'" name "'}]}"

/* Returns the number of readings of a device in the database. */
int64_t stored(const char *external_id);

#endif
