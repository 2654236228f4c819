#include "core/recovery/verb.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/recovery/crash.h"

enum { TELL_MS = 5000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and what is in it */
static struct verb *running;

void verb_begin(struct verb *verb, const char *module, const char *kind)
{
    *verb = (struct verb){
        .thread = pthread_self(), .now = {.module = module, .kind = kind}, .stood_ms = -1};
    verb->before = running_enter(verb->now);
    pthread_mutex_lock(&lock);
    verb->next = running;
    running = verb;
    pthread_mutex_unlock(&lock);
}

static void forget(const struct verb *verb)
{
    struct verb **at = &running;

    while (*at != verb)
        at = &(*at)->next;
    *at = verb->next;
}

void verb_end(struct verb *verb)
{
    pthread_mutex_lock(&lock);
    forget(verb);
    pthread_mutex_unlock(&lock);
    running_leave(verb->before);
}

static void tell(const struct verb *verb)
{
    static struct crash_look look;
    bool known = crash_look(verb->thread, &look);
    char ms[24];

    snprintf(ms, sizeof ms, "%" PRId64, verb->stood_ms);
    log_line(BB_ERROR, "a module does not return", "module", verb->now.module, "ran",
             verb->now.kind, "ms", ms, "stack", known ? look.stack : NULL, NULL);
}

static void end(const struct verb *verb)
{
    static char reason[160];

    snprintf(reason, sizeof reason, "%s of module %s took %" PRId64 " ms (host.stall_timeout)",
             verb->now.kind, verb->now.module, verb->stood_ms);
    crash_end(verb->thread, reason);
}

static void look_at(struct verb *verb, int64_t passed_ms, int64_t most_ms)
{
    bool over;

    verb->stood_ms = verb->stood_ms < 0 ? 0 : verb->stood_ms + passed_ms;
    over = most_ms && verb->stood_ms >= most_ms;
    if (!verb->told && (over || verb->stood_ms >= TELL_MS)) {
        tell(verb);
        verb->told = true;
    }
    if (over)
        end(verb);
}

/* Under the lock, so that no thread of the list goes while it is looked at. */
void verbs_look(int64_t passed_ms, int64_t most_ms)
{
    pthread_mutex_lock(&lock);
    for (struct verb *verb = running; verb; verb = verb->next)
        look_at(verb, passed_ms, most_ms);
    pthread_mutex_unlock(&lock);
}
