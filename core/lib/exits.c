/*
 * Detects calls of _exit(), which bypass exit(): the dynamic linker lets a program define _exit(),
 * as it may define malloc(). A module that ends the process in this way is reported, too.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/thread.h"

#if !THREAD_SANITIZED
void _exit(int status)
{
    crash_exited("_exit()");
    for (;;)
        syscall(SYS_exit_group, status);
}

void _Exit(int status) __attribute__((alias("_exit")));
#endif
