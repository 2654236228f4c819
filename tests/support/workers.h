/*
 * Runs several suites at a time: each worker is a process with its own PostgreSQL, Redis and
 * directory, and takes the next suite when it has finished one.
 */
#ifndef TESTS_WORKERS_H
#define TESTS_WORKERS_H

#include <stddef.h>

struct suite;

/* Prints the time of every suite, and at the end a summary like check's, with all failures. Each
 * worker also runs `last`. Returns the number of failed tests; tests of workers that ended early
 * count as failed. */
int workers_run(const struct suite *const *suites, size_t count, const struct suite *last,
                int workers);

#endif
