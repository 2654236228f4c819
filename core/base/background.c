#include "core/base/background.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/condition.h"
#include "core/base/text.h"
#include "core/base/thread.h"

enum {
    MOST_MS = 250 /* that one waits: others may sleep in their calls */,
    LOOK_MS = 20 /* whether answers are still late */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_cond_t ended;
static unsigned at_work, most;
static atomic_int_least64_t late_until_ms;

void background_give_way(int64_t until_ms)
{
    atomic_store_explicit(&late_until_ms, until_ms, memory_order_relaxed);
}

bool background_gives_way(void)
{
    return clock_mono_ms() < atomic_load_explicit(&late_until_ms, memory_order_relaxed);
}

static void make(void)
{
    unsigned processors = thread_processors();

    most = processors > 2 ? processors - 1 : 1;
    condition_init(&ended);
}

void background_begin(void)
{
    int64_t until_ms = clock_mono_ms() + MOST_MS;

    (void)pthread_once(&once, make);
    pthread_mutex_lock(&lock);
    while (background_gives_way() && at_work >= most && clock_mono_ms() < until_ms)
        (void)condition_wait(&ended, &lock, clock_mono_ms() + LOOK_MS);
    at_work++;
    pthread_mutex_unlock(&lock);
}

void background_end(void)
{
    pthread_mutex_lock(&lock);
    at_work--;
    (void)pthread_cond_signal(&ended);
    pthread_mutex_unlock(&lock);
}
