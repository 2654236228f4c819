#include "core/lib/lifecycle_call.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/lib/crash.h"
#include "core/lib/log.h"

enum { TELL_MS = 5000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list and its entries */
static struct lifecycle_call *running;

void lifecycle_call_begin(struct lifecycle_call *call, const char *module, const char *kind)
{
    *call = (struct lifecycle_call){
        .thread = pthread_self(), .now = {.module = module, .kind = kind}, .stood_ms = -1};
    call->before = activity_enter(call->now);
    pthread_mutex_lock(&lock);
    call->next = running;
    running = call;
    pthread_mutex_unlock(&lock);
}

static void forget(const struct lifecycle_call *call)
{
    struct lifecycle_call **at = &running;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
}

void lifecycle_call_end(struct lifecycle_call *call)
{
    pthread_mutex_lock(&lock);
    forget(call);
    pthread_mutex_unlock(&lock);
    activity_leave(call->before);
}

static void tell(const struct lifecycle_call *call)
{
    static struct crash_snapshot snapshot;
    bool known = crash_snapshot(call->thread, &snapshot);
    char ms[24];

    snprintf(ms, sizeof ms, "%" PRId64, call->stood_ms);
    log_line(BB_ERROR, "module does not return", "module", call->now.module, "ran", call->now.kind,
             "ms", ms, "stack", known ? snapshot.stack : NULL, NULL);
}

static void end(const struct lifecycle_call *call)
{
    static char reason[160];

    snprintf(reason, sizeof reason, "%s of module %s took %" PRId64 " ms (host.stall_timeout)",
             call->now.kind, call->now.module, call->stood_ms);
    crash_end(call->thread, reason);
}

static void look_at(struct lifecycle_call *call, int64_t passed_ms, int64_t most_ms)
{
    bool over;

    call->stood_ms = call->stood_ms < 0 ? 0 : call->stood_ms + passed_ms;
    over = most_ms && call->stood_ms >= most_ms;
    if (!call->told && (over || call->stood_ms >= TELL_MS)) {
        tell(call);
        call->told = true;
    }
    if (over)
        end(call);
}

/* Holds the lock, so that no thread in the list can end meanwhile. */
void lifecycle_calls_look(int64_t passed_ms, int64_t most_ms)
{
    pthread_mutex_lock(&lock);
    for (struct lifecycle_call *call = running; call; call = call->next)
        look_at(call, passed_ms, most_ms);
    pthread_mutex_unlock(&lock);
}
