/* Locks of a module's state. */
#ifndef COMMON_LOCK_H
#define COMMON_LOCK_H

#include <pthread.h>

/* Holds a lock from here to the end of the block, whichever way the block is left. */
#define LOCKED(mutex)                                                                              \
    pthread_mutex_t *const locked_here __attribute__((cleanup(lock_release), unused)) =            \
        lock_take(mutex)

static inline pthread_mutex_t *lock_take(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void lock_release(pthread_mutex_t *const *locked)
{
    pthread_mutex_unlock(*locked);
}

#endif
