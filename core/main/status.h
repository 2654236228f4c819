/* The state of the running host for the control socket: as text for people, and as JSON. */
#ifndef CORE_STATUS_H
#define CORE_STATUS_H

#include <jansson.h>

#include "core/module/engine.h"
#include "core/store/pg.h"

struct loop_status {
    atomic_bool looked; /* the loop responded; otherwise it is blocked, and the rest is 0 */
    size_t requests, connections;
    bool database;
    struct pg_pool_status pools[PG_POOLS];
    int64_t redis_ms; /* -1: unavailable; -2: not configured */
};

/*
 * Returns a row for each loop, which the caller frees. NULL: out of memory. The caller holds the
 * engine.
 */
struct loop_status *status_loops(struct engine *engine);

/*
 * Returns the content of the text as an object, which the caller owns. NULL: out of memory. The
 * caller holds the engine.
 */
json_t *status_json(struct engine *engine);

#endif
