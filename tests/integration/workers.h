/*
 * Runs suites, several at a time: each worker is a process with a PostgreSQL, a Redis and a
 * directory of its own, and takes the next suite when it has done with one. Suites that measure
 * times run alone, when the other workers have ended.
 */
#ifndef TESTS_WORKERS_H
#define TESTS_WORKERS_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>

struct suite_row {
    const char *name;
    Suite *(*make)(void);
    bool alone;
};

/* Prints the time of every suite, and in the end a summary as check's, with all failures. `last` is
 * run in each worker, too. Returns how many tests failed, the workers that ended before their time
 * included.
 */
int workers_run(const struct suite_row *const *rows, size_t count, const struct suite_row *last,
                int workers);

#endif
