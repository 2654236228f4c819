/* The connection of a migration run; for migrate*.c only. */
#ifndef CORE_MIGRATE_DB_H
#define CORE_MIGRATE_DB_H

#include <libpq-fe.h>

#include "core/store/migrate.h"

struct migrate_db {
    PGconn *conn;
    struct migrate_report *report;
    enum migrate_outcome outcome; /* of the failed operation; MIGRATE_DONE until then */
    char sqlstate[6];             /* of the last failure, or "" */
    bool unreplicated;            /* a commit may not have reached the synchronous standby */
};

/* Connects. Returns 0, or -1 with outcome and problem set. Close it in both cases. */
int migrate_db_open(struct migrate_db *db, const struct settings *settings, bool read_only);
void migrate_db_close(struct migrate_db *db);

/*
 * Runs SQL; `what` precedes the problem. With parameters it must be one statement, otherwise it may
 * be several. Returns the result, which the caller clears; NULL with outcome and problem set.
 */
PGresult *migrate_db_run(struct migrate_db *db, const char *what, const char *sql,
                         const char *const *values, int count);

/* Like migrate_db_run(), without returning the result. Returns 0 or -1. */
int migrate_db_do(struct migrate_db *db, const char *what, const char *sql,
                  const char *const *values, int count);

/* Records that an operator must act. Returns -1. */
BB_PRINTF(2, 3) int migrate_db_refuse(struct migrate_db *db, const char *format, ...);

#endif
