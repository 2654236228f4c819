/* Hosts of the plain build with the module `crash` (module_crash.c), which crashes in the place
 * that a test names. */
#ifndef TESTS_FAULT_CRASHES_H
#define TESTS_FAULT_CRASHES_H

#include "client.h"

enum { ENDED_MS = 5000 };

struct crash_bench {
    struct host *host;
    const char *order, *state; /* the file that controls the module; the directory of reports */
    PGconn *db;
};

/* Makes a host that is not started yet. `http`, `settings`: lines of the sections http and host. */
struct crash_bench crash_bench(const char *name, const char *http, const char *settings);

/* Starts the host with a supervisor and waits until it is healthy. `order` is for the module. */
struct host *crash_run(const struct crash_bench *bench, const char *order);

/* Returns the module's file. */
char *crash_module(void);

/* Returns the environment that makes the module read the file `order`. */
const char *const *crash_environment(const char *order);

/* Makes the host run the code in which the module may crash; expects no response. */
void crash_go(const struct crash_bench *bench, const char *place);

/* Returns whether the host ends within ENDED_MS; host->status is then its status. */
bool crash_ended(struct host *host);

/* Returns the first log line about a crash after offset `from`, and the report whose file a line
 * names; both fail the test if there is none. */
const char *crash_line(const struct host *host, size_t from);
const char *crash_report(const char *line);

#endif
