#include "core/base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLICE_NS = 100000 };

/* struct sched_attr of sched_setattr(2), version 0: glibc has none before 2.41. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

void thread_name(const char *owner, const char *what)
{
    char name[16];

    snprintf(name, sizeof name, "%s%s%s", owner, what ? "/" : "", what ? what : "");
    pthread_setname_np(pthread_self(), name);
}

void thread_wants_short_slices(void)
{
    struct attributes attr = {.size = sizeof attr};

    if (syscall(SYS_sched_getattr, 0, &attr, (unsigned)sizeof attr, 0))
        return;
    if (attr.policy != SCHED_OTHER)
        return;
    attr.runtime = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &attr, 0);
}
