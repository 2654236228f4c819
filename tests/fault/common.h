/* What tests of faults share: an endless load, the answers that it may get, waiting for answers. */
#ifndef TESTS_FAULT_COMMON_H
#define TESTS_FAULT_COMMON_H

#include "fault/faults.h"
#include "health_watch.h"
#include "scene.h"

enum { ENOUGH = 1000000, DEADLINE_MS = 5000, BACK_MS = 5000 };

#define A_READ "/api/chat/unread-count/somebody%40shop.example"

/* Whether a GET answers so within BACK_MS; the other fails the test unless it does. */
bool soon(const struct host *host, const char *path, const char *token, long status);
void expect_soon(const struct host *host, const char *path, const char *token, long status);

/* A scene of one host whose load never reaches its count; load_stop() ends it where it stands. */
struct scene *scene_on(struct postgres *pg, const char *name);
void load_stop(struct scene *scene);

/* How often a worker is to be killed: BUSBAR_TEST_KILLS, 8 without it. How long a test of faults
 * may take then. */
int fault_kills(void);
int fault_seconds(void);

/* Waits for so many more messages. */
void load_more(struct scene *scene, long messages);

/* Nothing but 201, and 503 with Retry-After within the deadline, and no connection cut. */
void expect_only_503(const struct scene *scene);

/* A GET that is answered 503 with Retry-After within the deadline. */
void expect_refused(const struct host *host, const char *path, const char *token);

/* The same several times, and each at once: the host knows by now, so nobody waits for it. */
void expect_refused_at_once(const struct host *host, const char *path, const char *token);

/* Stops the load, lays the ledger, stops the hosts. */
struct ledger_report fault_over(struct scene *scene, struct watch *watch, const char *name);

/* PostgreSQL and its backends, which outlive a killed postmaster for a moment. */
void postgres_end(struct postgres *pg, int signal);
void postgres_signal_all(const struct postgres *pg, int signal);

/* The same server as seen through an address of one's own: libpq's "host" and what follows it. */
struct postgres *postgres_at(const struct postgres *pg, const char *address);

/* Its socket. */
const char *postgres_socket(const struct postgres *pg);

/* Clock ticks of the processor that a process has used. */
unsigned long cpu_ticks(pid_t pid);

/* Entries of /proc/<pid>/fd. */
int open_descriptors(pid_t pid);

/* Whether this process is root's, as a fault needs that makes mounts or networks of its own; else
 * the test is skipped, which is told. */
bool fault_as_root(const char *fault);

#endif
