/*
 * Fixture of a suite that uses one host: the host, the Admin, and a connection to the database for
 * each test.
 */
#ifndef TESTS_STAGE_H
#define TESTS_STAGE_H

#include "exchange.h"

extern struct host *host;
extern struct person *admin;
extern PGconn *db;

/* Starts the suite's host on a new database of the host's name; call it in the set-up. */
void stage_open(const struct host_spec *spec);

/* Makes the suite of a file whose tests run between `set_up`, which calls stage_open(), and the
 * stop of the host. */
#define STAGE_SUITE(name, set_up, seconds_each, ...)                                               \
    SUITE(name, .timeout_s = (seconds_each), .before_all = (set_up), .before_each = stage_connect, \
          .after_each = stage_disconnect, __VA_ARGS__)

/* Makes a suite like STAGE_SUITE(); open(name) starts its host, with a database of that name. */
#define OPENED_SUITE(name, open, seconds_each)                                                     \
    static void name##_set_up(void)                                                                \
    {                                                                                              \
        open(#name);                                                                               \
    }                                                                                              \
    STAGE_SUITE(name, name##_set_up, seconds_each)
void stage_connect(void);
void stage_disconnect(void);

/*
 * Waits for the tables of module_spy.c in a database: a host listens before a module's schema is
 * there, and until then the spy refuses every event.
 */
void spy_await(const char *database);

#endif
