/*
 * Migrating while serving: on a thread of its own, again and again while the database is away. The
 * host serves meanwhile what needs no schema, and answers 503 to the rest.
 */
#ifndef CORE_MIGRATOR_H
#define CORE_MIGRATOR_H

#include "core/generation.h"

struct migrator;

/* NULL: not started (logged). The generation must outlive it. */
struct migrator *migrator_start(struct generation *generation);

/* Ends and joins it; NULL is fine. */
void migrator_stop(struct migrator *migrator);

#endif
