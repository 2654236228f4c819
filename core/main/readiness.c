#include "core/main/readiness.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/lib/text.h"
#include "core/store/pg_listener.h"

void readiness_set_schema(struct engine *engine, enum schema_state state, const char *problem)
{
    pthread_mutex_lock(&engine->lock);
    snprintf(engine->schema_problem, sizeof engine->schema_problem, "%s", problem ? problem : "");
    pthread_mutex_unlock(&engine->lock);
    atomic_store(&engine->schema, state);
}

enum schema_state readiness_schema(const struct engine *engine)
{
    return (enum schema_state)atomic_load(&engine->schema);
}

void readiness_problem(struct engine *engine, char *out, size_t size)
{
    pthread_mutex_lock(&engine->lock);
    snprintf(out, size, "%s", engine->schema_problem);
    pthread_mutex_unlock(&engine->lock);
}

int readiness_of_schema(const struct engine *engine)
{
    enum schema_state state = readiness_schema(engine);

    if (state == SCHEMA_NONE)
        return 1;
    return state == SCHEMA_READY ? 0 : -1;
}

int readiness_of_host(struct engine *engine)
{
    return engine_stopping(engine) || engine_stands(engine) ? -1 : 0;
}

int readiness_of_database(const struct engine *engine, int64_t *latency_ms)
{
    if (!*engine->database_url)
        return 1;
    *latency_ms = pg_listener_fresh_ms() > 0 ? pg_listener_latency_ms() : -1;
    return *latency_ms < 0 ? -1 : 0;
}

int readiness_of_clock(const struct engine *engine, int64_t *offset_ms)
{
    if (!*engine->database_url || !shared_clock_known())
        return 1;
    *offset_ms = shared_clock_offset_ms();
    return llabs(*offset_ms) > SHARED_CLOCK_MOST_MS ? -1 : 0;
}

bool readiness(struct engine *engine)
{
    int64_t latency_ms, offset_ms;

    return readiness_of_host(engine) >= 0 && readiness_of_schema(engine) >= 0 &&
           readiness_of_database(engine, &latency_ms) >= 0 &&
           readiness_of_clock(engine, &offset_ms) >= 0;
}
