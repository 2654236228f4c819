/* Suites whose tests stand in a table, for the unit and the integration tests. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>

/* A table of tests, and how many there are: two arguments. */
#define TESTS(table) (table), sizeof(table) / sizeof((table)[0])

/* A suite of one case with these tests. *cases is that case, for its fixtures and time limit. */
Suite *suite_of(const char *name, const TTest *const *tests, size_t count, TCase **cases);

#endif
