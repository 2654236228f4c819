/* Thread names (as shown by top -H and /proc/PID/task/TID/comm), signal stacks and scheduling. */
#ifndef CORE_THREAD_H
#define CORE_THREAD_H

/* 1 if the build has a sanitizer, which installs its own signal handlers and stacks. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define THREAD_SANITIZED 1
#endif
#endif
#ifndef THREAD_SANITIZED
#define THREAD_SANITIZED 0
#endif

/*
 * Gives the calling thread a separate stack for signal handlers, so that a stack overflow can be
 * reported; it is freed when the thread ends. If memory runs out, the thread has none. No effect
 * with a sanitizer.
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

/*
 * Returns the number of processors that the process may use (sched_setaffinity(2), cpusets), at
 * least 1. Any thread.
 */
unsigned thread_processors(void);

#endif
