#include "core/lib/thread.h"

#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/log.h"

#if BUSBAR_TSAN
#include <sanitizer/tsan_interface.h>
#endif

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
    if (BUSBAR_SANITIZED || pthread_once(&once, thread_make_key) || pthread_getspecific(alternate))
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

int64_t thread_delay_us(void)
{
    FILE *in = fopen("/proc/thread-self/schedstat", "re");
    unsigned long long ns = 0;

    if (in) {
        (void)!fscanf(in, "%*u %llu", &ns);
        fclose(in);
    }
    return (int64_t)(ns / 1000);
}

/* Reduces *processors to a cgroup's quota. v2 has "QUOTA PERIOD" in one file, v1 has two files. */
static void thread_limit(const char *directory, bool v2, long *processors)
{
    static const char *const names[][2] = {{"cpu.cfs_quota_us", "cpu.cfs_period_us"},
                                           {"cpu.max", NULL}};
    long numbers[2] = {0, 0}; /* quota and period; without a limit, the quota is 0 or -1 */
    char path[PATH_MAX + 64];

    for (int i = 0; i < 2 && names[v2][i]; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[v2][i]);
        FILE *in = fopen(path, "re");

        if (!in)
            return;
        (void)!fscanf(in, v2 ? "%ld %ld" : "%ld", &numbers[i], &numbers[1]);
        fclose(in);
    }
    long quota = numbers[0], period = numbers[1];

    if (quota > 0 && period > 0 && (quota + period - 1) / period < *processors)
        *processors = (quota + period - 1) / period;
}

unsigned thread_processors(void)
{
    cpu_set_t mine;
    long there = sysconf(_SC_NPROCESSORS_ONLN);

    /* sched_getaffinity() fails if there are more than 1024 processors */
    if (!sched_getaffinity(getpid(), sizeof mine, &mine))
        there = CPU_COUNT(&mine);
    /* Applies the quotas of the process's cgroup and of the cgroups above it. */
    FILE *in = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX], directory[PATH_MAX + 32];

    while (in && fgets(line, sizeof line, in)) { /* v1: "1:cpu,cpuacct:/path"; v2: "0::/path" */
        char *controllers = strchr(line, ':'),
             *path = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!path)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        bool v2 = !controllers[1];

        if (!v2 && strcmp(controllers, ":cpu") != 0 && strncmp(controllers, ":cpu,", 5) != 0)
            continue;
        const char *root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";

        snprintf(directory, sizeof directory, "%s%s", root, path);
        for (char *slash; (slash = strrchr(directory, '/')) >= directory + strlen(root) - 1;
             *slash = '\0')
            thread_limit(directory, v2, &there);
    }
    if (in)
        fclose(in);
    return there > 0 ? (unsigned)there : 1;
}

/* ---- conditions and semaphores ---- */

static struct timespec thread_time_of(int64_t until_ms)
{
    return (struct timespec){.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
}

int semaphore_wait(sem_t *semaphore, int64_t until_ms)
{
    const struct timespec until = thread_time_of(until_ms);
    int failed = sem_clockwait(semaphore, CLOCK_MONOTONIC, &until);

#if BUSBAR_TSAN
    if (!failed)
        __tsan_acquire(semaphore); /* ThreadSanitizer does not intercept sem_clockwait() */
#endif
    return failed;
}

int condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms)
{
    const struct timespec until = thread_time_of(until_ms);

    return pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &until);
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

enum { LOG_MS = 5000, FIRST_LIMIT_MS = 30000 /* until the settings have been read */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list and its entries */
static LIST_HEAD(, lifecycle_call) running;
_Atomic int64_t lifecycle_limit_ms = FIRST_LIMIT_MS;

void lifecycle_call_begin(struct lifecycle_call *call, const char *module, const char *kind)
{
    *call = (struct lifecycle_call){
        .thread = pthread_self(), .now = {.module = module, .kind = kind}, .taken_ms = -1};
    call->before = activity_enter(call->now);
    BB_LOCKED(&lock);
    LIST_INSERT_HEAD(&running, call, link);
}

void lifecycle_call_end(struct lifecycle_call *call)
{
    pthread_mutex_lock(&lock);
    LIST_REMOVE(call, link);
    pthread_mutex_unlock(&lock);
    activity_leave(call->before);
}

/* Holds the lock, so that no thread in the list can end during the check. */
void lifecycle_calls_check(int64_t passed_ms)
{
    static struct crash_snapshot snapshot;
    static char reason[160];
    int64_t limit = atomic_load(&lifecycle_limit_ms);

    BB_LOCKED(&lock);
    struct lifecycle_call *call;

    LIST_FOREACH (call, &running, link) {
        call->taken_ms = call->taken_ms < 0 ? 0 : call->taken_ms + passed_ms;
        bool over = limit && call->taken_ms >= limit;

        if (!call->logged && (over || call->taken_ms >= LOG_MS)) {
            bool known = crash_snapshot(call->thread, &snapshot);

            log_line(BB_ERROR, "module does not return", "module", call->now.module, "ran",
                     call->now.kind, LOG_NUMBER("ms", call->taken_ms), "stack",
                     known ? snapshot.stack : NULL, NULL);
            call->logged = true;
        }
        if (!over)
            continue;
        snprintf(reason, sizeof reason, "%s of module %s took %" PRId64 " ms (host.stall_timeout)",
                 call->now.kind, call->now.module, call->taken_ms);
        crash_end(call->thread, reason);
    }
}
