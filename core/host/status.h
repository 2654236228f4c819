/* What the running host knows of itself, for the control socket: as text for people, as JSON. */
#ifndef CORE_STATUS_H
#define CORE_STATUS_H

#include <jansson.h>

#include "core/engine/engine.h"
#include "core/postgres/pg.h"

struct loop_status {
    atomic_bool looked; /* by the loop; else it stands, and the rest is 0 */
    size_t requests, connections;
    bool database;
    struct pg_pool_status pools[PG_POOLS];
    int64_t redis_ms; /* -1: away; -2: none */
};

/* Fills a row for each loop; the caller's. NULL: no memory. While the engine is held. */
struct loop_status *status_loops(struct engine *engine);

/* All that the text says, as one object; the caller's, NULL: no memory. While it is held. */
json_t *status_json(struct engine *engine);

#endif
