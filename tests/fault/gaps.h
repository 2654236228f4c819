/* A client that makes new connections repeatedly, and the worker of a supervisor. */
#ifndef TESTS_FAULT_GAPS_H
#define TESTS_FAULT_GAPS_H

#include "client.h"

struct gaps;

/* Starts a thread that sends GET /api/health, each on a new connection. */
struct gaps *gaps_begin(const struct host *host);

/* Returns the longest time without a response since the last call, in milliseconds. */
int64_t gaps_longest(struct gaps *gaps);

/* Prints and returns the longest time without a response, in milliseconds; fails the test if a
 * connection was refused. */
int64_t gaps_end(struct gaps *gaps, const char *name);

/* Returns the worker of a supervised host once its pid differs from `before`; fails the test if
 * there is none within five seconds. */
pid_t worker_of(const struct host *host, pid_t before);

#endif
