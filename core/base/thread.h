/* What a thread is called where threads are shown (top -H, /proc/PID/task/TID/comm). */
#ifndef CORE_THREAD_H
#define CORE_THREAD_H

/* Names the calling thread "OWNER" or "OWNER/WHAT", cut to the 15 bytes that the kernel keeps. */
void thread_name(const char *owner, const char *what);

/*
 * Asks the scheduler to let the calling thread run soon and for short, rather than late and for
 * long: its share of the processors stays what it is. Linux before 6.12 does not know this, and
 * ignores it; a thread with a policy of its own keeps that.
 */
void thread_wants_short_slices(void);

#endif
