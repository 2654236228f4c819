/* What a thread is called where threads are shown (top -H, /proc/PID/task/TID/comm). */
#ifndef CORE_THREAD_H
#define CORE_THREAD_H

/* Whether the build has a sanitizer, which has handlers and stacks for signals of its own. */
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
 * Gives the calling thread a stack for signal handlers, so that the overflow of its own one can be
 * reported; it goes when the thread ends. Without memory there is none. No effect with a sanitizer.
 */
void thread_alternate_stack(void);

/*
 * Names the calling thread "OWNER" or "OWNER/WHAT", cut to the 15 bytes that the kernel keeps, and
 * gives it an alternate stack. Every thread of the host begins with it.
 */
void thread_name(const char *owner, const char *what);

/*
 * Asks the scheduler to let the calling thread run soon and for short, rather than late and for
 * long: its share of the processors stays what it is. Linux before 6.12 does not know this, and
 * ignores it; a thread with a policy of its own keeps that.
 */
void thread_wants_short_slices(void);

/* Processors that the process may use (sched_setaffinity(2), cpusets), at least 1. Any thread. */
unsigned thread_processors(void);

#endif
