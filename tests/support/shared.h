/*
 * Test cases from outside of the project: in BUSBAR_SHARED/cases, or else in ../shared/cases
 * relative to the directory in which the tests were started. If they are absent, a test reports
 * that and skips them.
 */
#ifndef TESTS_SHARED_H
#define TESTS_SHARED_H

/* Returns the path of a file or folder of the cases; if it is absent, reports that on standard
 * error and returns NULL. */
char *shared_cases(const char *name);

#endif
