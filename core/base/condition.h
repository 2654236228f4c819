/* Conditions and semaphores whose waits have an end on the monotonic clock, whatever the wall clock
 * does. */
#ifndef CORE_CONDITION_H
#define CORE_CONDITION_H

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

/* In place of pthread_cond_init(); pthread_cond_destroy() follows as ever. */
void condition_init(pthread_cond_t *condition);

/*
 * pthread_cond_wait() until clock_mono_ms() is `until_ms`, at the latest. 0, or ETIMEDOUT. Only for
 * what condition_init() made; the caller holds the lock.
 */
int condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms);

/* sem_wait() until then, at the latest. 0, or -1 with errno: ETIMEDOUT, EINTR. */
int semaphore_wait(sem_t *semaphore, int64_t until_ms);

#endif
