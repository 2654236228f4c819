/*
 * A client that makes a new connection again and again, and the worker behind a supervisor.
 */
#ifndef TESTS_FAULT_GAPS_H
#define TESTS_FAULT_GAPS_H

#include "client.h"

struct gaps;

/* Asks GET /api/health, a connection each, from a thread. */
struct gaps *gaps_begin(const struct host *host);

/* The longest time without an answer since this was asked last, in milliseconds. */
int64_t gaps_longest(struct gaps *gaps);

/* Prints and returns the longest time without an answer, in milliseconds; fails the test where a
 * connection was refused. */
int64_t gaps_end(struct gaps *gaps, const char *name);

/* The worker of a supervised host, once it is another process than `before`; fails the test when
 * there is none within five seconds. */
pid_t worker_of(const struct host *host, pid_t before);

#endif
