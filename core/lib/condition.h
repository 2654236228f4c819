/* Conditions and semaphores with timeouts on the monotonic clock, independent of the wall clock. */
#ifndef CORE_CONDITION_H
#define CORE_CONDITION_H

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

/* Use instead of pthread_cond_init(); free with pthread_cond_destroy() as usual. */
void condition_init(pthread_cond_t *condition);

/*
 * Like pthread_cond_wait(), but only until clock_mono_ms() reaches `until_ms`. Returns 0 or
 * ETIMEDOUT. The condition must have been initialized by condition_init(). The caller holds the
 * lock.
 */
int condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms);

/*
 * Like sem_wait(), until clock_mono_ms() reaches `until_ms`. Returns 0, or -1 with errno:
 * ETIMEDOUT, EINTR.
 */
int semaphore_wait(sem_t *semaphore, int64_t until_ms);

#endif
