/*
 * Migrations: the steps of the core's schema and of the modules' schemas, each applied once, in
 * order, by one host of a cluster at a time (an advisory lock). All modules are compared with the
 * database first; then the missing steps of all of them are applied in one transaction. If
 * PostgreSQL cannot run them together, each has its own transaction.
 *
 * Synchronous: it runs at the start, in a command, or on a thread of its own, never on a loop. The
 * connection is its own.
 */
#ifndef CORE_MIGRATE_H
#define CORE_MIGRATE_H

#include "core/engine/pause.h"
#include "core/generation/generation.h"
#include "core/module/migrate_steps.h"

enum migrate_outcome {
    MIGRATE_DONE,
    MIGRATE_UNREACHABLE, /* no connection, or it was lost, or the lock is busy: try again later */
    MIGRATE_FAILED       /* a step failed or does not fit the database: a person must look */
};

struct migrate_report {
    unsigned applied;  /* steps applied by this run */
    unsigned present;  /* steps that were there already */
    unsigned pending;  /* steps that are still to be applied */
    bool missing;      /* MIGRATE_FAILED because of these, and of nothing else */
    char problem[512]; /* one precise message where the outcome is not MIGRATE_DONE */
    bool paused;       /* MIGRATE_DONE: the database is paused; the reason follows */
    char pause_reason[PAUSE_REASON];
};

/*
 * Compares the schemas with the database and applies what is missing; say(arg, line), unless NULL,
 * hears of each step after its commit. With `apply` false the database is only read, say() hears of
 * each step that is missing, and any is MIGRATE_FAILED.
 */
enum migrate_outcome migrate_run(const struct generation *generation, bool apply,
                                 void (*say)(void *arg, const char *line), void *arg,
                                 struct migrate_report *report);

#endif
