/*
 * Threads: names (as shown by top -H and /proc/PID/task/TID/comm), signal stacks, scheduling, waits
 * with a timeout, and a record of the work of each thread.
 */
#ifndef CORE_THREAD_H
#define CORE_THREAD_H

#include <busbar/lock.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/*
 * Gives the calling thread a separate stack for signal handlers, so that a stack overflow can be
 * reported. The stack is freed when the thread ends. If memory runs out, the thread gets none. No
 * effect with a sanitizer.
 */
void thread_alternate_stack(void);

/*
 * Names the calling thread "OWNER" or "OWNER/WHAT", cut to the 15 bytes that the kernel stores, and
 * gives it an alternate stack. Every thread of the host calls this first.
 */
void thread_name(const char *owner, const char *what);

/*
 * Asks the scheduler to run the calling thread sooner and for shorter slices, and adds `nice` to
 * its niceness. Linux before 6.12 ignores the slices; threads with another scheduling policy are
 * not changed. A failure is logged.
 */
void thread_schedule(int nice);

/* Returns how long the calling thread has waited for a processor in total; 0 if unknown. */
int64_t thread_delay_us(void);

/*
 * Returns the number of processors that the process may use (sched_setaffinity(2), cpusets, the
 * quotas of cgroups rounded up), at least 1. Any thread.
 */
unsigned thread_processors(void);

/* ---- conditions and semaphores with timeouts on the monotonic clock ---- */

/* Like pthread_cond_wait(), until clock_mono_ms() reaches `until_ms`. Returns 0 or ETIMEDOUT. */
int condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms);

/* Like sem_wait() until clock_mono_ms() is `until_ms`. Returns 0, or -1 with ETIMEDOUT, EINTR. */
int semaphore_wait(sem_t *semaphore, int64_t until_ms);

/*
 * ---- the work of a thread ----
 *
 * Records what a thread is running, so that reports can name a module. A request on a fiber needs
 * no record, because the request itself has the information; other threads and calls (open, start,
 * a worker, a pool, a channel) need a record.
 */

/* The caller owns the texts; signal handlers may read them until activity_leave(). */
struct activity {
    const char *module;        /* NULL: the host */
    const char *kind;          /* "handler", "open", "pool" …; NULL: nothing recorded */
    const char *name;          /* name of the job, event, channel or pool; or NULL */
    const char *method, *path; /* the route's; or NULL */
    const char *request;       /* the request's id; or NULL */
};

/* Records what this thread does from now on. Returns the previous record for activity_leave(). */
struct activity activity_enter(struct activity now);
void activity_leave(struct activity before);

/*
 * Sets the function that fills *running with the request on the calling thread, or returns false if
 * there is no request. Signal handlers call it. Call activity_source() before creating threads.
 */
void activity_source(bool (*request)(struct activity *running));

/* Returns the record of the calling thread. Async-signal-safe. */
struct activity activity_now(void);

/*
 * Records and checks calls of a module's lifecycle functions (`open`, `start`, `quiesce`, `close`)
 * and of the constructors of its file. Reports name the recorded call. The checks find calls that
 * hang; the checks of loops (hang.h) cannot, because these calls do not run on a loop.
 */

/* A lifecycle call, stored on the stack of the caller. Private to thread.c. */
struct lifecycle_call {
    LIST_ENTRY(lifecycle_call) link;
    pthread_t thread;
    struct activity now, before;
    int64_t taken_ms; /* time since the first check that has seen the call; -1: not seen yet */
    bool logged;
};

/* Records that this thread will call a module's function `kind`. The caller owns the texts. */
void lifecycle_call_begin(struct lifecycle_call *call, const char *module, const char *kind);
void lifecycle_call_end(struct lifecycle_call *call);

/* The maximum duration of a lifecycle call in milliseconds; 0: no limit. */
extern _Atomic int64_t lifecycle_limit_ms;

/*
 * Checks all running calls; `passed_ms` is the time since the last check. When a call has taken
 * five seconds, logs the call with a backtrace. If a call exceeds the limit, ends the process with
 * a crash report about the call's thread. One caller at a time; no other thread may use
 * crash_snapshot() during the check.
 */
void lifecycle_calls_check(int64_t passed_ms);

#endif
