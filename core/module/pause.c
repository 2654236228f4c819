#include "core/module/pause.h"

#include <stdio.h>
#include <string.h>

#include "core/lib/log.h"

void pause_note(struct engine *engine, const char *reason)
{
    enum pause_state now = reason ? PAUSE_ON : PAUSE_OFF;

    pthread_mutex_lock(&engine->lock);
    bool same = !reason || !strcmp(engine->pause_reason, reason);
    enum pause_state before = (enum pause_state)atomic_load(&engine->pause);

    snprintf(engine->pause_reason, sizeof engine->pause_reason, "%s", reason ? reason : "");
    atomic_store(&engine->pause, now);
    pthread_mutex_unlock(&engine->lock);
    if (now == PAUSE_ON && (before != PAUSE_ON || !same))
        log_line(BB_WARN, "sending, jobs and calls to other servers are paused", "reason", reason,
                 NULL);
    if (now == PAUSE_OFF && before == PAUSE_ON)
        log_line(BB_WARN, "sending, jobs and calls to other servers are resumed", NULL);
}

bool pause_holds(const struct engine *engine)
{
    return engine->pg_listener && atomic_load(&engine->pause) != PAUSE_OFF;
}

bool pause_why(struct engine *engine, char *reason, size_t size)
{
    if (!pause_holds(engine))
        return false;
    pthread_mutex_lock(&engine->lock);
    snprintf(reason, size, "%s",
             *engine->pause_reason ? engine->pause_reason
                                   : "the database has not been queried yet");
    pthread_mutex_unlock(&engine->lock);
    return true;
}
