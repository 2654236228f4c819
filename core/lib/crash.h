/*
 * Crash reports. On SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL the process writes one log line
 * and, in the state directory, a file `crash-TIME-PID.txt`: the signal, the running code (module,
 * route, request id), the backtrace with function names, and the build ids. Then the signal has its
 * default effect and ends the process. A call of exit() or _exit() that the host has not agreed to
 * is reported in the same way.
 *
 * The handler runs on an alternate stack (thread_name() creates one for each thread) and uses
 * async-signal-safe functions, and backtrace(), which is safe after a first call: libgcc finds
 * frames without a lock (glibc 2.35 and later). Parts of the report that fault are omitted. A build
 * with a sanitizer leaves the signals to the sanitizer.
 */
#ifndef CORE_CRASH_H
#define CORE_CRASH_H

#include <pthread.h>
#include <stdbool.h>

/* Reports crashes from now on. Call once, in a process that serves; no effect with a sanitizer. */
void crash_install(void);

/*
 * Sets the directory for report files, creates it if its parent exists, and deletes all reports
 * except the newest 100, so that a module that keeps crashing does not fill the disk. NULL or "":
 * no files, only log lines. Returns 0, or -1 with errno if files cannot be written there. No effect
 * before crash_install().
 */
int crash_directory(const char *path);

/*
 * Gets the current activity of a thread by sending it a signal: fills `text` with "function
 * (module) < caller …". Returns false if the thread does not respond, or the build has a sanitizer.
 * One caller at a time.
 */
struct crash_snapshot {
    char module[64], kind[32], what[192], request[64], stack[768];
};
bool crash_snapshot(pthread_t thread, struct crash_snapshot *snapshot);

/* The host ends the process intentionally: its end must not be reported. */
void crash_exits(void);

/* Ends the process by SIGABRT with a report about that thread, which contains the reason. */
_Noreturn void crash_end(pthread_t thread, const char *reason);

#endif
