#include "core/main/readiness.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/lib/text.h"
#include "core/store/pg_listener.h"
#include "core/store/redis.h"

int readiness_of(const struct loop *loop, enum bb_dependency dependency, int64_t *ms)
{
    struct engine *engine = loop->engine;
    enum schema_state schema = (enum schema_state)atomic_load(&engine->schema);

    *ms = 0;
    switch (dependency) {
    case BB_DATABASE:
        if (!*engine->database_url)
            return 1;
        *ms = pg_listener_fresh_ms() > 0 ? pg_listener_latency_ms() : -1;
        return *ms < 0 || pg_listener_no_writes() ? -1 : 0;
    case BB_SCHEMA:
        return schema == SCHEMA_NONE ? 1 : schema == SCHEMA_READY ? 0 : -1;
    case BB_HOST:
        return engine_stopping(engine) || engine_stands(engine) ? -1 : 0;
    case BB_CLOCK:
        if (!*engine->database_url || !shared_clock_known())
            return 1;
        *ms = shared_clock_offset_ms();
        return llabs(*ms) > SHARED_CLOCK_MOST_MS ? -1 : 0;
    default: /* BB_REDIS */
        if (!loop->redis)
            return 1;
        *ms = redis_latency_ms(loop->redis);
        return *ms < 0 ? -1 : 0;
    }
}

bool readiness(const struct engine *engine)
{
    static const enum bb_dependency needed[] = {BB_HOST, BB_SCHEMA, BB_DATABASE, BB_CLOCK};
    bool ready = true;
    int64_t ms;

    for (size_t i = 0; ready && i < sizeof needed / sizeof *needed; i++)
        ready = readiness_of(&engine->loops[0], needed[i], &ms) >= 0;
    return ready;
}
