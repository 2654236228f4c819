/*
 * Whether the host can serve: it does not stop, PostgreSQL answers, its clock and this host's
 * agree, and the tables there fit the modules. That a host is alive is another question, which
 * touches none of this.
 *
 * Any thread, unless it says otherwise.
 */
#ifndef CORE_READINESS_H
#define CORE_READINESS_H

#include "core/engine/engine.h"

/* Sets it; `problem` is one line for the operator, NULL: none. */
void readiness_set_schema(struct engine *engine, enum schema_state state, const char *problem);

enum schema_state readiness_schema(const struct engine *engine);

/* The line, or "" where there is none. */
void readiness_problem(struct engine *engine, char *out, size_t size);

/* A dependency as bb_probe() has it: 0, -1: down, 1: none is configured. */
int readiness_of_schema(const struct engine *engine);
int readiness_of_host(struct engine *engine);
int readiness_of_database(const struct engine *engine, int64_t *latency_ms);

/* Down while this host's clock differs too much from PostgreSQL's; *offset_ms: PostgreSQL's minus
 * this host's. */
int readiness_of_clock(const struct engine *engine, int64_t *offset_ms);

/* All of them together. */
bool readiness(struct engine *engine);

#endif
