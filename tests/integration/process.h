/*
 * Child processes of the tests. A child gets SIGKILL when its parent ends, however that ends, so a
 * test that fails leaves nothing behind. Times are milliseconds.
 */
#ifndef TESTS_PROCESS_H
#define TESTS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCESS_ENV_MAX = 64 };

struct process_spec {
    const char *const *argv;        /* NULL-terminated */
    const char *const *environment; /* "NAME=value", added to the tests' own; NULL-terminated */
    const char *log;                /* file that output and errors are appended to */
    const char *output;             /* another file for standard output; NULL: the log */
    bool as_service;                /* never root: PostgreSQL and Redis */
};

/*
 * The tests' environment with `more`, "NAME=value" each up to NULL (or no list: NULL), which take
 * the place of what has their name. The array is NULL-terminated and to be freed, its texts are
 * not. It is made before a fork: in a child of a process with threads, putenv() may wait for ever.
 */
char **process_environment(const char *const *more);

/* Starts it; the pid. Fails the test when it cannot. */
pid_t process_start(const struct process_spec *spec);

/* Waits for its end; false after `ms` without one. *status as waitpid() gives it. */
bool process_wait(pid_t pid, int ms, int *status);

/* Sends the signal and waits; SIGKILL after `ms` times PATIENCE. The status as waitpid() gives it.
 */
int process_stop(pid_t pid, int signal, int ms);

/* The calling test cannot run here: ./test counts it as skipped. The test has to return then. */
void test_skipped(const char *reason);

/*
 * Runs a command as root: by itself where the tests run as root, else by sudo. False, with a reason
 * said by test_skipped(), where this user may not do that without a password.
 */
bool process_as_root(const char *const *argv);

/* Starts it and waits for its end, at most 60 s times PATIENCE. The exit status; 128 + n for a
 * signal. */
int process_run(const struct process_spec *spec);

/* Makes a directory that the service user owns, mode 0700. */
void process_service_directory(const char *path);

/* A number of /proc/PID/status, as of "VmHWM:" (KiB); 0 if there is no such process or line. */
int64_t process_status(pid_t pid, const char *key);

/* ThreadSanitizer keeps a shadow of all memory that was ever touched: growth says nothing there. */
bool process_shadowed(void);

int64_t now_ms(void);

/* How often a test repeats something: `few` times, `many` in a full run (BUSBAR_TEST_FULL). */
int repetitions(int few, int many);

/*
 * Limits only end what hangs, and a busy machine may be slow: wait_until(), process_stop() and
 * process_run() wait this many times as long as their callers state.
 */
enum { PATIENCE = 10 };

/* Checks the condition every few milliseconds. Returns false if it is still false after `ms` times
 * PATIENCE. */
bool wait_until(bool (*condition)(void *), void *arg, int ms);

/* printf into memory that lives as long as the process, so that tests need not free. */
__attribute__((format(printf, 1, 2))) char *text(const char *format, ...);

/* The whole file, likewise; "" if there is none. */
char *file_text(const char *path);

void file_write(const char *path, const char *content);

/* Keeps memory reachable and thereby no leak; returns it. Aborts on NULL. */
void *kept(void *memory);

#endif
