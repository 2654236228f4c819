/* What a thread is called where threads are shown (top -H, /proc/PID/task/TID/comm). */
#ifndef CORE_THREAD_H
#define CORE_THREAD_H

/* Names the calling thread "OWNER" or "OWNER/WHAT", cut to the 15 bytes that the kernel keeps. */
void thread_name(const char *owner, const char *what);

#endif
