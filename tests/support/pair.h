/* Two hosts on one database. The suites send requests to one host and check the effects on the
 * other. */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include "people.h"

extern struct host *one, *two;

/* Call these in a suite's set-up, with the name of its database, and in its tear-down. */
void pair_open(const char *name);
void pair_close(void);

#endif
