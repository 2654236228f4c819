#include "core/lib/lifecycle_call.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/lib/crash.h"
#include "core/lib/log.h"

enum { LOG_MS = 5000, FIRST_LIMIT_MS = 30000 /* until the settings have been read */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list and its entries */
static struct lifecycle_call *running;
static _Atomic int64_t limit_ms = FIRST_LIMIT_MS;

void lifecycle_call_begin(struct lifecycle_call *call, const char *module, const char *kind)
{
    *call = (struct lifecycle_call){
        .thread = pthread_self(), .now = {.module = module, .kind = kind}, .taken_ms = -1};
    call->before = activity_enter(call->now);
    pthread_mutex_lock(&lock);
    call->next = running;
    running = call;
    pthread_mutex_unlock(&lock);
}

void lifecycle_call_end(struct lifecycle_call *call)
{
    struct lifecycle_call **at = &running;

    pthread_mutex_lock(&lock);
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    pthread_mutex_unlock(&lock);
    activity_leave(call->before);
}

void lifecycle_calls_set_limit(int64_t ms)
{
    atomic_store(&limit_ms, ms);
}

int64_t lifecycle_calls_limit(void)
{
    return atomic_load(&limit_ms);
}

/* Holds the lock, so that no thread in the list can end during the check. */
void lifecycle_calls_check(int64_t passed_ms)
{
    static struct crash_snapshot snapshot;
    static char reason[160];
    int64_t limit = lifecycle_calls_limit();

    pthread_mutex_lock(&lock);
    for (struct lifecycle_call *call = running; call; call = call->next) {
        call->taken_ms = call->taken_ms < 0 ? 0 : call->taken_ms + passed_ms;
        bool over = limit && call->taken_ms >= limit;

        if (!call->logged && (over || call->taken_ms >= LOG_MS)) {
            bool known = crash_snapshot(call->thread, &snapshot);

            log_line(BB_ERROR, "module does not return", "module", call->now.module, "ran",
                     call->now.kind, "ms", LOG_NUMBER(call->taken_ms), "stack",
                     known ? snapshot.stack : NULL, NULL);
            call->logged = true;
        }
        if (!over)
            continue;
        snprintf(reason, sizeof reason, "%s of module %s took %" PRId64 " ms (host.stall_timeout)",
                 call->now.kind, call->now.module, call->taken_ms);
        crash_end(call->thread, reason);
    }
    pthread_mutex_unlock(&lock);
}
