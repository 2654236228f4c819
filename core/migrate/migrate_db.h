/* The connection of one run of migrations; for migrate*.c only. */
#ifndef CORE_MIGRATE_DB_H
#define CORE_MIGRATE_DB_H

#include <libpq-fe.h>

#include "core/migrate/migrate.h"

struct migrate_db {
    PGconn *conn;
    struct migrate_report *report;
    enum migrate_outcome outcome; /* of what failed; MIGRATE_DONE so far */
    char sqlstate[6];             /* of what failed last, or "" */
    bool unreplicated;            /* a commit may not be on the synchronous standby */
};

/* Connects. 0, or -1 with outcome and problem set. Close in both cases. */
int migrate_db_open(struct migrate_db *db, const struct settings *settings, bool read_only);
void migrate_db_close(struct migrate_db *db);

/*
 * Runs SQL; `what` goes in front of the problem. With parameters it is one statement, without it
 * may be several. The result, to be cleared; NULL with outcome and problem set.
 */
PGresult *migrate_db_run(struct migrate_db *db, const char *what, const char *sql,
                         const char *const *values, int count);

/* The same without a result to look at. 0, or -1. */
int migrate_db_do(struct migrate_db *db, const char *what, const char *sql,
                  const char *const *values, int count);

/* Records that a person must look. Returns -1. */
BB_PRINTF(2, 3) int migrate_db_refuse(struct migrate_db *db, const char *format, ...);

#endif
