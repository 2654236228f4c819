/*
 * A thread that requests GET /api/health all the time while a test breaks something: the response
 * must always be 200. `bench/run` measures how long it takes.
 */
#ifndef TESTS_HEALTH_WATCH_H
#define TESTS_HEALTH_WATCH_H

#include "client.h"

struct watch;

/* Returns when it is connected and has received a response. */
struct watch *watch_begin(const struct host *host);

/* Fails the test, with this name, unless all responses were 200. */
void watch_end(struct watch *watch, const char *name);

#endif
