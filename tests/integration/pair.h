/* Two hosts on one database, for the suites that check on one host the effects of requests to the
 * other. */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include "people.h"

extern struct host *one, *two;

/* For a suite's set-up, with the name of its database, and for its tear-down. */
void pair_open(const char *name);
void pair_close(void);

#endif
