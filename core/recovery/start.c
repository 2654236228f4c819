#include "core/recovery/start.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/condition.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "core/recovery/crash.h"

enum { TELL_MS = 5000, MOST_MS = 30000 /* until the settings have been read */ };

static struct {
    pthread_t thread, watched;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t news;
    bool watches, over;
    int64_t since_ms, limit_ms;
} start = {.lock = PTHREAD_MUTEX_INITIALIZER, .limit_ms = MOST_MS};

static const char *some(const char *text)
{
    return *text ? text : NULL;
}

static void tell(void)
{
    static struct crash_look look;
    bool known = crash_look(start.watched, &look);

    log_line(BB_ERROR, "the start stands", "module", some(look.module), "ran", some(look.kind),
             "what", some(look.what), "stack", known ? look.stack : NULL, NULL);
}

static void end(int64_t ms)
{
    static char reason[96];

    snprintf(reason, sizeof reason, "the start took %" PRId64 " ms (host.stall_timeout)", ms);
    crash_end(start.watched, reason);
}

/*
 * Waits until the start is over, or has taken *ms (0: no limit); returns whether it is over. The
 * caller holds the lock.
 */
static bool over_within(const int64_t *ms)
{
    while (!start.over && (!*ms || clock_mono_ms() < start.since_ms + *ms))
        condition_wait(&start.news, &start.lock,
                       *ms ? start.since_ms + *ms : clock_mono_ms() + MOST_MS);
    return start.over;
}

static void *watch(void *arg)
{
    const int64_t tell_ms = TELL_MS;

    (void)arg;
    thread_name("start", NULL);
    pthread_mutex_lock(&start.lock);
    bool over = over_within(&tell_ms);

    if (!over) {
        pthread_mutex_unlock(&start.lock);
        tell();
        pthread_mutex_lock(&start.lock);
        over = over_within(&start.limit_ms);
    }
    pthread_mutex_unlock(&start.lock);
    if (!over)
        end(clock_mono_ms() - start.since_ms);
    return NULL;
}

void start_begin(void)
{
    start.since_ms = clock_mono_ms();
    start.watched = pthread_self();
    condition_init(&start.news);
    sigset_t all, before;

    sigfillset(&all); /* signals are handled by the calling thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    start.watches = !pthread_create(&start.thread, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!start.watches)
        log_line(BB_WARN, "nobody watches the start: no thread for it", NULL);
}

void start_limit(int64_t ms)
{
    pthread_mutex_lock(&start.lock);
    if (start.watches) {
        start.limit_ms = ms;
        pthread_cond_signal(&start.news);
    }
    pthread_mutex_unlock(&start.lock);
}

void start_over(void)
{
    pthread_mutex_lock(&start.lock);
    bool watches = start.watches;

    start.watches = false;
    start.over = true;
    if (watches)
        pthread_cond_signal(&start.news);
    pthread_mutex_unlock(&start.lock);
    if (watches)
        pthread_join(start.thread, NULL);
}
