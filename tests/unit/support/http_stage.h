/*
 * A loop with the host's HTTP part, set up as in core/main/serve.c, in the process of a unit test.
 * There is one thread: the host, the handlers (http_routes.h) and the clients (http_client.h) all
 * run in this loop, so the order of events is the same in each run.
 *
 * No test waits for a fixed time. A test waits until a condition is true, and http_stage_pass()
 * makes the time limits of connections expire early.
 */
#ifndef TESTS_UNIT_HTTP_STAGE_H
#define TESTS_UNIT_HTTP_STAGE_H

#include "core/module/engine.h"
#include "core/module/quota.h"
#include "core/server/connection.h"

enum {
    HTTP_STAGE_SECONDS = 30, /* time limit of a test */
    HTTP_STAGE_HEADER_MS = 10000,
    HTTP_STAGE_BODY_MS = 20000,
    HTTP_STAGE_IDLE_MS = 60000,
    HTTP_STAGE_WRITE_MS = 30000,
    HTTP_STAGE_MAX_BODY = 4096
};

extern struct loop http_stage_loop;
extern struct generation http_stage_generation;

/* Fixtures. The tear-down fails the test if anything that it made is left in the host. */
void http_stage_set_up(void);
void http_stage_tear_down(void);

/* Starts to listen. `section` has lines of the section http of the settings; NULL: all defaults.
 * The numbers are limits of connections; 0: enough. */
void http_stage_open(const char *section, unsigned connections, unsigned per_address);
unsigned http_stage_port(void);

/* Runs the loop until is_so(of) is true; fails the test if that takes far too long. */
void http_stage_until(bool (*is_so)(const void *of), const void *of);

/*
 * Sweeps as if this many milliseconds had passed for all connections. Before a stop there is no
 * other sweep, because it would hide a missed event.
 */
void http_stage_pass(int64_t ms);
/* Makes the host check its streams in the next iteration instead of at the usual time. */
void http_stage_look_at_streams(void);

/* Wait until the host has this many connections; until it has no requests left. */
void http_stage_expect_connections(size_t count);
void http_stage_expect_no_requests(void);

/* Returns how much of a quota all owners have taken. */
size_t http_stage_taken(enum quota quota);

#endif
