/*
 * Crash reports. On SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL the process writes one log line
 * and, in the state directory, a file `crash-TIME-PID.txt`: the signal, the running code (module,
 * route, request id), the backtrace with function names, and the build ids. Then the signal has its
 * default effect and ends the process. A call of exit() or _exit() is reported in the same way,
 * unless the host has called crash_exits() before.
 *
 * The handler runs on an alternate stack (thread_name() creates one for each thread). Besides
 * async-signal-safe functions it calls vsnprintf() and backtrace(). In glibc 2.35 and later,
 * vsnprintf() neither allocates nor locks for texts and integers, and neither does backtrace()
 * after its first call. If a part of the report faults, this part is omitted. With a sanitizer
 * there are no crash reports, because the sanitizer handles the signals.
 */
#ifndef CORE_CRASH_H
#define CORE_CRASH_H

#include <pthread.h>
#include <stdbool.h>

/* Reports crashes from now on. Call once, in a server process without a sanitizer. */
void crash_install(void);

/*
 * Sets the directory for report files, creates it if its parent exists, and deletes all reports
 * except the newest 100, so that a module that keeps crashing does not fill the disk. If `path` is
 * NULL or "", reports are only logged. Returns 0, or -1 with errno if no files can be written to
 * the directory. No effect before crash_install().
 */
int crash_directory(const char *path);

struct crash_snapshot {
    char module[64], kind[32], what[192], request[64], stack[1000];
};
/*
 * Sends a signal to a thread, and waits until the handler has stored what the thread is doing, with
 * a stack "function (module) < caller …". Returns false if the thread does not respond, or
 * if crash_install() was not called. One caller at a time.
 */
bool crash_snapshot(pthread_t thread, struct crash_snapshot *snapshot);

/* Disables the report of exit() and _exit(). Call before the host ends the process normally. */
void crash_exits(void);

/* Writes a crash report with the stack of `thread` and the reason; ends the process by SIGABRT. */
_Noreturn void crash_end(pthread_t thread, const char *reason);

/*
 * A table of the files whose code is mapped: the program, its libraries, the modules. It is created
 * in advance for signal handlers, which find the symbol of an address using only this table, the
 * file's symbol table, open() and mmap(). No code is unloaded, so no row is removed.
 */

/* Adds a row for each file that was loaded since the last call. One thread at a time. */
void mapped_files_snapshot(void);

/*
 * Marks the file that is mapped at this address as the module `name`; reports show `file` as its
 * path. Returns the file's build id in hexadecimal, or "". Call after mapped_files_snapshot().
 */
const char *mapped_files_module(const void *address, const char *name, const char *file);

#endif
