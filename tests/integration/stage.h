/*
 * What the tests of a suite on one host stand on: the host, the Admin, and each test's own
 * connection to the database.
 */
#ifndef TESTS_STAGE_H
#define TESTS_STAGE_H

#include "people.h"
#include "suite.h"

extern struct host *host;
extern struct person *admin;
extern PGconn *db;

/* For a suite's set-up: starts its host, on a new database of the host's name. */
void stage_open(const struct host_spec *spec);

/* A suite of tests between `set_up`, which calls stage_open(), and the stop of the host. */
Suite *stage_suite(const char *name, void (*set_up)(void), int seconds_each,
                   const TTest *const *tests, size_t count);

#endif
