#include "core/lib/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "core/lib/log.h"

enum { SLICE_NS = 100000, ALTERNATE = 64 * 1024 };

/* struct sched_attr of sched_setattr(2), version 0: glibc before 2.41 does not define it. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static pthread_key_t alternate;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Called at the end of the thread. */
static void thread_drop_stack(void *stack)
{
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    munmap(stack, ALTERNATE);
}

static void thread_make_key(void)
{
    (void)pthread_key_create(&alternate, thread_drop_stack);
}

void thread_alternate_stack(void)
{
    if (THREAD_SANITIZED || pthread_once(&once, thread_make_key) || pthread_getspecific(alternate))
        return;
    void *stack = mmap(NULL, ALTERNATE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    if (stack == MAP_FAILED)
        return;
    if (!pthread_setspecific(alternate, stack) &&
        !sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = ALTERNATE}, NULL))
        return;
    pthread_setspecific(alternate, NULL);
    munmap(stack, ALTERNATE);
}

void thread_name(const char *owner, const char *what)
{
    char name[16];

    snprintf(name, sizeof name, "%s%s%s", owner, what ? "/" : "", what ? what : "");
    pthread_setname_np(pthread_self(), name);
    thread_alternate_stack();
}

void thread_schedule(int nice)
{
    struct attributes attr = {.size = sizeof attr};
    char reason[128];

    if (!syscall(SYS_sched_getattr, 0, &attr, (unsigned)sizeof attr, 0)) {
        if (attr.policy != SCHED_OTHER)
            return;
        attr.runtime = SLICE_NS;
        attr.nice += nice;
        if (!syscall(SYS_sched_setattr, 0, &attr, 0))
            return;
    }
    log_line(BB_WARN, "cannot set the scheduling of a thread", "reason",
             strerror_r(errno, reason, sizeof reason), NULL);
}

unsigned thread_processors(void)
{
    cpu_set_t mine;
    long there = sysconf(_SC_NPROCESSORS_ONLN);

    /* fails if there are more than 1024 processors */
    if (!sched_getaffinity(getpid(), sizeof mine, &mine))
        there = CPU_COUNT(&mine);
    return there > 0 ? (unsigned)there : 1;
}

/* ---- conditions and semaphores ---- */

void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static struct timespec thread_time_of(int64_t until_ms)
{
    return (struct timespec){.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
}

int semaphore_wait(sem_t *semaphore, int64_t until_ms)
{
    const struct timespec until = thread_time_of(until_ms);
    int failed = sem_clockwait(semaphore, CLOCK_MONOTONIC, &until);

#ifdef __SANITIZE_THREAD__
    if (!failed)
        __tsan_acquire(semaphore); /* ThreadSanitizer does not know this call */
#endif
    return failed;
}

int condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms)
{
    const struct timespec until = thread_time_of(until_ms);

    return pthread_cond_timedwait(condition, lock, &until);
}

/* ---- the work of a thread ---- */

static _Thread_local struct activity noted;
static bool (*of_request)(struct activity *);

struct activity activity_enter(struct activity now)
{
    struct activity before = noted;

    noted = now;
    return before;
}

void activity_leave(struct activity before)
{
    noted = before;
}

void activity_source(bool (*request)(struct activity *))
{
    of_request = request;
}

struct activity activity_now(void)
{
    struct activity now = noted;

    if (of_request)
        of_request(&now);
    return now;
}
