/*
 * A thread that asks GET /api/health all the time, while a test breaks something: it must answer
 * 200 throughout, and within 50 ms for 99 of 100.
 */
#ifndef TESTS_HEALTH_WATCH_H
#define TESTS_HEALTH_WATCH_H

#include "client.h"

struct watch;

/* It has a connection, and had an answer, when it returns. */
struct watch *watch_begin(const struct host *host);

/* Prints what it saw under the name, and fails the test unless all was well. */
void watch_end(struct watch *watch, const char *name);

#endif
