#include "core/lib/startup_watchdog.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/lib/condition.h"
#include "core/lib/crash.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"

enum { TELL_MS = 5000, MOST_MS = 30000 /* until the settings have been read */ };

static struct {
    pthread_t thread, watched;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t news;
    bool watches, over;
    int64_t since_ms, limit_ms;
} startup = {.lock = PTHREAD_MUTEX_INITIALIZER, .limit_ms = MOST_MS};

static const char *some(const char *text)
{
    return *text ? text : NULL;
}

static void tell(void)
{
    static struct crash_snapshot snapshot;
    bool known = crash_snapshot(startup.watched, &snapshot);

    log_line(BB_ERROR, "startup is hanging", "module", some(snapshot.module), "ran",
             some(snapshot.kind), "what", some(snapshot.what), "stack",
             known ? snapshot.stack : NULL, NULL);
}

static void end(int64_t ms)
{
    static char reason[96];

    snprintf(reason, sizeof reason, "startup took %" PRId64 " ms (host.stall_timeout)", ms);
    crash_end(startup.watched, reason);
}

/*
 * Waits until the start is over, or has taken *ms (0: no limit); returns whether it is over. The
 * caller holds the lock.
 */
static bool over_within(const int64_t *ms)
{
    while (!startup.over && (!*ms || clock_mono_ms() < startup.since_ms + *ms))
        condition_wait(&startup.news, &startup.lock,
                       *ms ? startup.since_ms + *ms : clock_mono_ms() + MOST_MS);
    return startup.over;
}

static void *watch(void *arg)
{
    const int64_t tell_ms = TELL_MS;

    (void)arg;
    thread_name("start", NULL);
    pthread_mutex_lock(&startup.lock);
    bool over = over_within(&tell_ms);

    if (!over) {
        pthread_mutex_unlock(&startup.lock);
        tell();
        pthread_mutex_lock(&startup.lock);
        over = over_within(&startup.limit_ms);
    }
    pthread_mutex_unlock(&startup.lock);
    if (!over)
        end(clock_mono_ms() - startup.since_ms);
    return NULL;
}

void startup_begin(void)
{
    startup.since_ms = clock_mono_ms();
    startup.watched = pthread_self();
    condition_init(&startup.news);
    sigset_t all, before;

    sigfillset(&all); /* signals are handled by the calling thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    startup.watches = !pthread_create(&startup.thread, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!startup.watches)
        log_line(BB_WARN, "cannot start the startup watchdog thread", NULL);
}

void startup_limit(int64_t ms)
{
    pthread_mutex_lock(&startup.lock);
    if (startup.watches) {
        startup.limit_ms = ms;
        pthread_cond_signal(&startup.news);
    }
    pthread_mutex_unlock(&startup.lock);
}

void startup_over(void)
{
    pthread_mutex_lock(&startup.lock);
    bool watches = startup.watches;

    startup.watches = false;
    startup.over = true;
    if (watches)
        pthread_cond_signal(&startup.news);
    pthread_mutex_unlock(&startup.lock);
    if (watches)
        pthread_join(startup.thread, NULL);
}
