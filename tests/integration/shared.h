/*
 * The cases that nobody of the project wrote: BUSBAR_SHARED/cases, else ../shared/cases seen from
 * where the tests were started. Where they are absent a test says so and passes over them.
 */
#ifndef TESTS_SHARED_H
#define TESTS_SHARED_H

/* Path of a file or folder of the cases, or NULL, told on standard error. */
char *shared_cases(const char *name);

#endif
