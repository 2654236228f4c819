#include "core/base/condition.h"

#include <time.h>

void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms)
{
    const struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};

    return pthread_cond_timedwait(condition, lock, &until);
}
