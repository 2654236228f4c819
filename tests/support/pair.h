/* Two hosts on one database: suites send requests to one and check the effects on the other. */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include "people.h"

extern struct host *one, *two;
extern PGconn *pair_db; /* a connection of each test to the database */

/* Makes a suite whose hosts run on a new database of its name. */
#define PAIR_SUITE(name, seconds_each)                                                             \
    static void name##_set_up(void)                                                                \
    {                                                                                              \
        pair_open(#name);                                                                          \
    }                                                                                              \
    SUITE(name, .timeout_s = (seconds_each), .before_all = name##_set_up,                          \
          .before_each = pair_connect, .after_each = pair_disconnect)
void pair_open(const char *name);
void pair_connect(void);
void pair_disconnect(void);

#endif
