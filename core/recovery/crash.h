/*
 * Crash reports. On SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL the process writes one line to the
 * log and, below the state directory, a file `crash-TIME-PID.txt`: the signal, what ran (module,
 * route, request id), the backtrace with the names of functions, the build ids. Then the signal
 * does what it does, so the process ends by it.
 *
 * The handler runs on an alternate stack (thread_name() gives each thread one), uses
 * async-signal-safe calls, and backtrace(), which is safe once it has been called before: libgcc
 * finds frames without a lock (glibc 2.35 and later). Whatever faults while it is written is left
 * out. A build with a sanitizer leaves the signals to that.
 */
#ifndef CORE_CRASH_H
#define CORE_CRASH_H

#include <pthread.h>
#include <stdbool.h>

/* From now on crashes are reported. Once, by a process that serves; no effect with a sanitizer. */
void crash_install(void);

/*
 * Where files of reports go: made if it is missing. NULL or "": there are none, only lines. 0, or
 * -1 with errno: none can be written there. Without effect before crash_install().
 */
int crash_directory(const char *path);

/*
 * What a thread does now, asked from outside by a signal: filled into `text`, as "function
 * (module) < caller …". false: it does not answer, or the build has a sanitizer. One caller at a
 * time.
 */
struct crash_look {
    char module[64], kind[32], what[192], request[64], stack[768];
};
bool crash_look(pthread_t thread, struct crash_look *look);

/* The host itself ends the process from here on: an end of it is nothing to report. */
void crash_exits(void);

/* Somebody calls exit() or _exit(), from this place: reported like a crash, unless the host does.
 */
void crash_exited(const char *how);

/* Ends the process by SIGABRT with a report about that thread, and the reason in it. */
_Noreturn void crash_end(pthread_t thread, const char *reason);

#endif
