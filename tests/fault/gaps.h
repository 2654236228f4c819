/* A client that makes new connections repeatedly, and the worker of a supervisor. */
#ifndef TESTS_FAULT_GAPS_H
#define TESTS_FAULT_GAPS_H

#include "client.h"

struct gaps;

/* Starts a thread that sends GET /api/health, each on a new connection. */
struct gaps *gaps_begin(const struct host *host);

/* Prints the longest time without a response; fails the test if a connection was refused. */
void gaps_end(struct gaps *gaps, const char *name);

/* Returns the worker of a supervised host once its pid differs from `before`; fails the test if
 * there is none within five seconds. */
pid_t worker_of(const struct host *host, pid_t before);

/* Kills the worker and returns the next one. */
pid_t worker_kill(const struct host *host);

#endif
