/* Helpers of the tests of faults: an endless load, the responses that are allowed under a fault,
 * and waiting for responses. */
#ifndef TESTS_FAULT_COMMON_H
#define TESTS_FAULT_COMMON_H

#include "health_watch.h"
#include "scene.h"
#include "suite.h"

enum { ENOUGH = 1000000, DEADLINE_MS = 5000, BACK_MS = 5000 };

#define A_READ "/api/chat/unread-count/somebody%40shop.example"

/* soon() returns whether a GET has this status within BACK_MS; expect_soon() fails the test unless
 * it does. */
bool soon(const struct host *host, const char *path, const char *token, long status);
void expect_soon(const struct host *host, const char *path, const char *token, long status);

/* scene_on() makes a scene of one host whose load never reaches its count; load_stop() ends the
 * load after the messages sent so far. */
struct scene *scene_on(struct postgres *pg, const char *name);
void load_stop(struct scene *scene);

/* Makes the suite of a file. `./test fault` runs it, `./test integration` does not. */
#define FAULT_SUITE(name) SUITE(name, .timeout_s = fault_seconds(), .runs = SUITE_FAULT)

/* fault_kills() returns how often to kill a worker: BUSBAR_TEST_KILLS, default 8. fault_seconds()
 * returns how long a test of faults may then take. */
int fault_kills(void);
int fault_seconds(void);

/* Waits for this many more messages. */
void load_more(struct scene *scene, long messages);

/* Fails the test unless every response was a 201, or a 503 with Retry-After within the deadline,
 * and no connection was cut. */
void expect_only_503(const struct scene *scene);

/* Sends a GET; fails the test unless the response is a 503 with Retry-After within the deadline. */
void expect_refused(const struct host *host, const char *path, const char *token);

/* Like expect_refused(), several times. Each response must come at once, because the host already
 * knows about the fault and no request waits for it. */
void expect_refused_at_once(const struct host *host, const char *path, const char *token);

/* Stops the load, checks the ledger, and stops the hosts. */
struct ledger_report fault_over(struct scene *scene, struct watch *watch, const char *name);

/* Signal PostgreSQL and its backends; the backends outlive a killed postmaster for a moment. */
void postgres_end(struct postgres *pg, int signal);
void postgres_signal_all(const struct postgres *pg, int signal);

/* Returns the same server at another address: libpq's "host" and the text after it. */
struct postgres *postgres_at(const struct postgres *pg, const char *address);

/* Returns the server's socket. */
const char *postgres_socket(const struct postgres *pg);

/* Returns the CPU time that a process has used, in clock ticks. */
unsigned long cpu_ticks(pid_t pid);

/* Returns the number of entries in /proc/<pid>/fd. */
int open_descriptors(pid_t pid);

/* Returns whether this process may make its own namespaces of this kind (CLONE_NEW…). If not, the
 * test is reported as skipped. */
bool fault_may(const char *fault, int namespaces);

#endif
