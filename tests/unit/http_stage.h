/*
 * A loop with the host's HTTP part, as core/host/engine.c makes it, in the process of a unit test.
 * There is one thread: the host, the handlers (http_routes.h) and the clients (http_client.h) take
 * turns in the same loop, so the order of events is the same in each run.
 *
 * No test waits for a time. A test waits until a condition is true, and http_stage_pass() makes the
 * time limits of connections expire early.
 */
#ifndef TESTS_UNIT_HTTP_STAGE_H
#define TESTS_UNIT_HTTP_STAGE_H

#include "core/engine/engine.h"
#include "core/http/http.h"
#include "core/request/quota.h"

enum {
    HTTP_STAGE_SECONDS = 30, /* the most that a test may take */
    HTTP_STAGE_HEADER_MS = 10000,
    HTTP_STAGE_BODY_MS = 20000,
    HTTP_STAGE_IDLE_MS = 60000,
    HTTP_STAGE_WRITE_MS = 30000,
    HTTP_STAGE_MAX_BODY = 4096
};

extern struct loop http_stage_loop;
extern struct generation http_stage_generation;

/* Fixtures. After the test they fail it if anything that it made is left in the host. */
void http_stage_set_up(void);
void http_stage_tear_down(void);

/*
 * Starts to listen. `section` has lines of the section http of the settings; NULL: all defaults.
 * Limits that are 0, or all where `limits` is NULL, are those above.
 */
void http_stage_open(const char *section, const struct http_settings *limits);
unsigned http_stage_port(void);

/* Turns the loop until is_so(of) is true; fails the test when that takes far too long. */
void http_stage_until(bool (*is_so)(const void *of), const void *of);

/*
 * Sweeps as if so many milliseconds had passed for all connections. Before a stop there is no other
 * sweep: it would hide that an event was missed.
 */
void http_stage_pass(int64_t ms);
/* The host looks at its streams in the next turn, not when it would do so by itself. */
void http_stage_look_at_streams(void);

/* Waits until the host has so many connections; until it has no request any more. */
void http_stage_expect_connections(size_t count);
void http_stage_expect_no_requests(void);

/* What all owners hold of a quota. */
size_t http_stage_taken(enum quota quota);

#endif
