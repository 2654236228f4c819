/* A lock that is released at the end of a block. Any thread. */
#ifndef BUSBAR_LOCK_H
#define BUSBAR_LOCK_H

#include <pthread.h>

/* Holds a lock from here to the end of the block, whichever way the block is left. */
#define BB_LOCKED(mutex)                                                                           \
    pthread_mutex_t *const bb_locked __attribute__((cleanup(bb_unlock), unused)) = bb_lock(mutex)

static inline pthread_mutex_t *bb_lock(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void bb_unlock(pthread_mutex_t *const *locked)
{
    pthread_mutex_unlock(*locked);
}

#endif
