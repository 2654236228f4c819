#include "core/lib/condition.h"

#include <time.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static struct timespec condition_time_of(int64_t until_ms)
{
    return (struct timespec){.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
}

int semaphore_wait(sem_t *semaphore, int64_t until_ms)
{
    const struct timespec until = condition_time_of(until_ms);
    int failed = sem_clockwait(semaphore, CLOCK_MONOTONIC, &until);

#ifdef __SANITIZE_THREAD__
    if (!failed)
        __tsan_acquire(semaphore); /* ThreadSanitizer does not know this call */
#endif
    return failed;
}

int condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms)
{
    const struct timespec until = condition_time_of(until_ms);

    return pthread_cond_timedwait(condition, lock, &until);
}
