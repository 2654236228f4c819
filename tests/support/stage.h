/*
 * Fixture of a suite that uses one host: the host, the Admin, and a connection to the database for
 * each test.
 */
#ifndef TESTS_STAGE_H
#define TESTS_STAGE_H

#include "people.h"
#include "suite.h"

extern struct host *host;
extern struct person *admin;
extern PGconn *db;

/* Starts the suite's host on a new database of the host's name; call it in the set-up. */
void stage_open(const struct host_spec *spec);

/* Makes a suite of tests that run between `set_up`, which calls stage_open(), and the stop of the
 * host. */
Suite *stage_suite(const char *name, void (*set_up)(void), int seconds_each,
                   const TTest *const *tests, size_t count);

#endif
