/*
 * Child processes of the tests. A child gets SIGKILL when its parent ends for any reason, so a
 * failed test leaves no process running. Times are in milliseconds.
 */
#ifndef TESTS_PROCESS_H
#define TESTS_PROCESS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCESS_ENV_MAX = 64 };

struct process_spec {
    const char *const *argv;        /* NULL-terminated */
    const char *const *environment; /* "NAME=value", added to the tests' own; NULL-terminated */
    const char *log;                /* file that output and errors are appended to */
    const char *output;             /* another file for standard output; NULL: the log */
    bool as_service;                /* run it unprivileged, even if the tests run as root:
                                     * PostgreSQL and Redis */
};

/*
 * Returns the tests' environment with the variables of `more` ("NAME=value", ending with NULL;
 * NULL: no list) added or replaced. The array ends with NULL; the caller frees it, but not its
 * texts. Call it before a fork: in a child of a process with threads, putenv() may block forever.
 */
char **process_environment(const char *const *more);

/* Starts the process and returns its pid. Fails the test if it cannot be started. */
pid_t process_start(const struct process_spec *spec);

/* Waits for the process to end; returns false after `ms`. *status is a waitpid() status. */
bool process_wait(pid_t pid, int ms, int *status);

/* Returns whether a process is gone, or is a zombie that only its parent can reap. */
bool process_has_ended(pid_t pid);

/* Sends the signal and waits; sends SIGKILL after `ms` times PATIENCE. Returns the waitpid()
 * status. */
int process_stop(pid_t pid, int signal, int ms);

/* Marks the calling test as skipped in ./test because it cannot run here. The test must return
 * after the call. */
void test_skipped(const char *reason);

/*
 * Returns the path of a file or folder of the test cases from outside of the project: in
 * BUSBAR_SHARED/cases, or else in ../shared/cases relative to the directory in which the tests were
 * started. If it is absent, reports that with test_skipped() and returns NULL.
 */
char *shared_cases(const char *name);

/*
 * Runs a command as root: directly if the tests run as root, otherwise with sudo. Returns false,
 * after calling test_skipped() with the reason, if this user may not do that without a password.
 */
bool process_as_root(const char *const *argv);

/* Starts the process and waits for its end, at most 60 s times PATIENCE. Returns the exit status;
 * 128 + n for a signal. */
int process_run(const struct process_spec *spec);

/* Makes a directory that the service user owns, mode 0700. */
void process_service_directory(const char *path);

/* Returns a number of /proc/PID/status, such as "VmHWM:" (KiB); 0: no such process or line. */
int64_t process_status(pid_t pid, const char *key);

/* Sets VmHWM of a process to its current memory use. */
void process_forget_peak(pid_t pid);

/* The environment of a process whose memory a test measures: AddressSanitizer keeps little of what
 * was freed. */
extern const char *const process_lean[];

/* Returns whether the hosts have ThreadSanitizer (./test tsan), which has options then. It keeps a
 * shadow of all memory ever used, so memory growth cannot be measured. */
bool process_shadowed(void);

int64_t now_ms(void);

/* Returns how often a test repeats something: `few` times, or `many` in a full run
 * (BUSBAR_TEST_FULL). */
int repetitions(int few, int many);

/*
 * Time limits exist only to end hung tests, and a busy machine may be slow: WAIT_UNTIL(),
 * process_stop() and process_run() wait this many times as long as their callers ask for.
 */
enum { PATIENCE = 10 };

/*
 * Checks the condition every few milliseconds at first and ten times a second later, and fails the
 * test if it is still false after `ms` times PATIENCE. WAIT_UNTIL_MSG() does so with a message;
 * WAIT_FOR() goes on with the test.
 */
#define WAIT_UNTIL(condition, ms) WAIT_UNTIL_MSG(condition, ms, "not in time: %s", #condition)
#define WAIT_UNTIL_MSG(condition, ms, ...)                                                         \
    for (struct patience patience = patience_of(ms); !(condition);)                                \
    ck_assert_msg(patience_pause(&patience), __VA_ARGS__)
#define WAIT_FOR(condition, ms)                                                                    \
    for (struct patience patience = patience_of(ms); !(condition) && patience_pause(&patience);)   \
    continue

/* The state of such a wait: patience_pause() sleeps, and returns false once the time is over. */
struct patience {
    int64_t began, end, checked;
};
struct patience patience_of(int ms);
bool patience_pause(struct patience *patience);

/* Print to memory that lives as long as the process, so tests need not free it. */
__attribute__((format(printf, 1, 2))) char *text(const char *format, ...);
char *text_of(const char *format, va_list args);

/* Returns the words of a command, which a single space separates. */
__attribute__((format(printf, 1, 2))) const char *const *words(const char *format, ...);

/* Return a list of words, which may have spaces, in memory that lives as long as the process;
 * words_of() copies a list that ends with NULL. */
#define word_list(...) words_of((const char *const[]){__VA_ARGS__, NULL})
const char *const *words_of(const char *const *list);

/* Returns `part`, repeated, in memory that lives as long as the process. */
char *text_repeated(const char *part, size_t times);

/* Returns the number of line ends. */
size_t text_lines(const char *text);

/* Returns the whole file, in memory that lives as long as the process; "" if there is no file. */
char *file_text(const char *path);

void file_write(const char *path, const char *content);

/* Keeps memory reachable, so that it is not reported as a leak; returns it. Aborts on NULL. */
void *kept(void *memory);

#endif
