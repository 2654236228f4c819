/*
 * Migrating while serving: on a thread of its own, again and again while the database is away. The
 * host serves meanwhile what needs no schema, and answers 503 to the rest. With `database.migrate`
 * off, and once a step has failed, it only looks whether somebody else has made the tables fit.
 * What it finds is in readiness.h.
 */
#ifndef CORE_MIGRATOR_H
#define CORE_MIGRATOR_H

#include "core/generation/generation.h"

struct migrator;

/* NULL: not started (logged). Holds the generation, which has its engine, until it is done. */
struct migrator *migrator_start(struct generation *generation);

/* Whether the database is up to date; not before the first success. Any thread. */
bool migrator_done(struct migrator *migrator);

/* Logs a step, as migrate_run() wants it. */
void migrator_say(void *arg, const char *line);

/* Ends and joins it; NULL is fine. */
void migrator_stop(struct migrator *migrator);

#endif
