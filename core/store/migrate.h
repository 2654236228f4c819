/*
 * Applies the steps of the core's schema and of the modules' schemas to the database, each once, in
 * order. An advisory lock ensures that only one host of a cluster does so at a time. The host first
 * compares all schemas with the database, and then applies all missing steps in one transaction,
 * or, if PostgreSQL cannot run them together, each step in a separate one.
 *
 * The functions block: call them at the start, in a command, or on a separate thread, never on a
 * loop. They use a separate connection.
 */
#ifndef CORE_MIGRATE_H
#define CORE_MIGRATE_H

#include <libpq-fe.h>

#include "core/module/engine.h"
#include "core/module/generation.h"
#include "core/module/module_validate.h"

enum migrate_outcome {
    MIGRATE_DONE,
    MIGRATE_UNREACHABLE, /* no connection, connection lost, or lock busy: try again later */
    MIGRATE_FAILED       /* a step failed or does not match the database: an operator must act */
};

struct migrate_report {
    unsigned applied;  /* steps applied by this run */
    unsigned present;  /* steps that were applied before */
    unsigned pending;  /* steps that still have to be applied */
    bool missing;      /* pending steps are the only reason for MIGRATE_FAILED */
    char problem[512]; /* a precise message, if the outcome is not MIGRATE_DONE */
    bool paused;       /* if the outcome is MIGRATE_DONE: work is paused, see pause_reason */
    char pause_reason[PAUSE_REASON];
};

/*
 * Compares the schemas with the database and applies missing steps; calls say(arg, line) for each
 * step after its commit. If `apply` is false, only reads the database, calls say() for each
 * missing step, and returns MIGRATE_FAILED if steps are missing. `say` may be NULL.
 */
enum migrate_outcome migrate_run(const struct generation *generation, bool apply,
                                 void (*say)(void *arg, const char *line), void *arg,
                                 struct migrate_report *report);

/* The connection of a run, and of commands that change rows of the host. */
struct migrate_db {
    PGconn *conn;
    struct migrate_report *report;
    enum migrate_outcome outcome; /* MIGRATE_DONE until an operation fails */
    char sqlstate[6];             /* SQLSTATE of the last failure, or "" */
    bool unreplicated;            /* a commit may not have reached the synchronous standby */
};

/* Connects. Returns 0 or -1, see migrate_db_run(). Call migrate_db_close() in both cases. */
int migrate_db_open(struct migrate_db *db, const struct settings *settings, bool read_only);
void migrate_db_close(struct migrate_db *db);

/*
 * Runs one statement with values, or one or several without values. Returns the result, which the
 * caller clears; or NULL after setting db->outcome and report->problem, which begins with `what`.
 */
PGresult *migrate_db_run(struct migrate_db *db, const char *what, const char *sql,
                         const char *const *values, int count);

/* Like migrate_db_run(), but clears the result. Returns 0 or -1. */
int migrate_db_do(struct migrate_db *db, const char *what, const char *sql,
                  const char *const *values, int count);

/* Sets MIGRATE_FAILED and the report's problem, because an operator must act. Returns -1. */
BB_PRINTF(2, 3) int migrate_db_refuse(struct migrate_db *db, const char *format, ...);

#endif
