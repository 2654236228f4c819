/* Hosts of the plain build with the module `crash` (module_crash.c), which falls where it is told
 * to. */
#ifndef TESTS_FAULT_CRASHES_H
#define TESTS_FAULT_CRASHES_H

#include "client.h"

enum { ENDED_MS = 5000 };

struct crash_bench {
    struct host *host;
    const char *order, *state; /* the file that tells the module; the directory of reports */
    PGconn *db;
};

/* Not started. `http`, `settings`: lines of the sections http and host. */
struct crash_bench crash_bench(const char *name, const char *http, const char *settings);

/* The module's file. */
char *crash_module(void);

/* The environment that makes the module obey the file. */
const char *const *crash_environment(const char *order);

/* Where a host is asked for what has no answer then: it goes where the module may be told to fall.
 */
void crash_go(const struct crash_bench *bench, const char *place);

/* Whether the host ends within ENDED_MS; its status is in host->status then. */
bool crash_ended(struct host *host);

/* The file that the line names; fails the test without one. */
const char *crash_report(const char *line);

/* Waits for a line behind `from` in the host's log; fails the test without one. */
void expect_log(const struct host *host, size_t from, const char *line);

#endif
