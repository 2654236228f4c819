/* Helpers of the tests of faults: an endless load, the responses that are allowed under a fault,
 * and waiting for responses. */
#ifndef TESTS_FAULT_COMMON_H
#define TESTS_FAULT_COMMON_H

#include "scene.h"

enum { BACK_MS = 5000 };

#define A_READ "/api/chat/unread-count/somebody%40shop.example"

/* Makes a scene of one host with these settings (NULL: the defaults) whose load never reaches its
 * count, and watches the host's health. scene_on() makes it on this server. */
struct scene *fault_scene(const char *name, const struct host_spec *spec);
struct scene *scene_on(struct postgres *pg, const char *name);

/* Starts the load and waits for some messages. */
void load_begin(struct scene *scene);

/* Makes the suite of a file. `./test fault` runs it, `./test integration` does not. */
#define FAULT_SUITE(name) SUITE(name, .timeout_s = fault_seconds(), .runs = SUITE_FAULT)

/* fault_kills() returns how often to kill a worker: BUSBAR_TEST_KILLS, default 8. fault_seconds()
 * returns how long a test of faults may then take. */
int fault_kills(void);
int fault_seconds(void);

/* Fails the test unless every response was a 201 or a 503 with Retry-After, and none was cut. */
void expect_only_503(const struct scene *scene);

/* Sends a GET; fails the test unless the response is a 503 with Retry-After. */
void expect_refused(const struct host *host, const char *path, const char *token);

/* Sends such a GET of A_READ repeatedly, until this time. */
void expect_refused_until(const struct host *host, const char *token, int64_t end_ms);

/* Like expect_refused(), several times. No response may say that the request took too long, because
 * the host already knows about the fault and no request waits for it. */
void expect_refused_at_once(const struct host *host, const char *path, const char *token);

/* Stops the load, checks the ledger and the health, and stops the hosts. Fails the test if there
 * was a response that no fault permits. */
struct ledger_report fault_over(struct scene *scene);

/* Signal PostgreSQL and its backends; the backends outlive a killed postmaster for a moment. */
void postgres_end(struct postgres *pg, int signal);
void postgres_signal_all(const struct postgres *pg, int signal);

/*
 * Returns whether all threads of the process sleep in each look of a tenth of a second. A thread
 * that spins never does, on any machine.
 */
bool process_sleeps(pid_t pid);

/* Returns the number of entries in /proc/<pid>/fd. */
int open_descriptors(pid_t pid);

/* Puts a small disk (a tmpfs of this many MiB, for PostgreSQL if `pg` is not NULL) on a directory
 * that only this process and its children see. */
void disk_make(const char *directory, int mib, const struct postgres *pg);

/* Fills a disk to the last byte, as another program might; returns the file's path. */
const char *disk_fill(const char *directory);

/* Puts the databases that are made from now on onto a small disk, which disappears with the test.
 */
void postgres_on_disk(struct postgres *pg, const char *directory, int mib);

/* Returns whether this process may make its own namespaces of this kind (CLONE_NEW…). If not, the
 * test is reported as skipped. */
bool fault_may(const char *fault, int namespaces);

#endif
