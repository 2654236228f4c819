/* Two hosts on one database, for the suites that look at what one does from the other. */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include "people.h"

extern struct host *one, *two;

/* For a suite's set-up, with the name of its database; and its tear-down. */
void pair_open(const char *name);
void pair_close(void);

#endif
