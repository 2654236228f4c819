#include "core/store/migrate_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/sqlstate.h"
#include "core/store/pg_connect.h"

/* A read-only check does not wait for a session that changes the tables. */
#define LOOK "-c statement_timeout=5s"

/* Converts a text to one line, as the log needs it. */
static void migrate_db_flatten(char *text)
{
    size_t length = strlen(text);

    while (length && strchr(" \n\r\t", text[length - 1]))
        text[--length] = '\0';
    for (; *text; text++)
        if (strchr("\n\r\t", *text))
            *text = ' ';
}

static void migrate_db_take_notice(void *arg, const PGresult *result)
{
    struct migrate_db *db = arg;

    if (pg_notice_is_unreplicated(result))
        db->unreplicated = true;
}

int migrate_db_open(struct migrate_db *db, const struct settings *settings, bool read_only)
{
    struct pg_login login = {.url = host_settings(settings)->database.url,
                             .name = "busbar migrate",
                             .options = read_only ? LOOK : "",
                             .mark = "busbar migrate",
                             .connect_ms =
                                 (unsigned)host_settings(settings)->database.connect_timeout};
    char problem[DIAL_PROBLEM];

    db->outcome = MIGRATE_DONE;
    db->conn = pg_connect(&login, false, problem);
    if (!db->conn) {
        db->outcome = MIGRATE_UNREACHABLE;
        snprintf(db->report->problem, sizeof db->report->problem, "database: %.400s", problem);
        migrate_db_flatten(db->report->problem);
        return -1;
    }
    PQsetNoticeReceiver(db->conn, migrate_db_take_notice, db);
    return 0;
}

void migrate_db_close(struct migrate_db *db)
{
    PQfinish(db->conn);
    db->conn = NULL;
}

static void migrate_db_record(struct migrate_db *db, const char *what, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    /* a retry may succeed: connection lost, shutting down, busy, out of resources */
    bool passing =
        PQstatus(db->conn) != CONNECTION_OK || sqlstate_has(state, SQLSTATE_MIGRATION_LATER);

    db->outcome = passing ? MIGRATE_UNREACHABLE : MIGRATE_FAILED;
    snprintf(db->sqlstate, sizeof db->sqlstate, "%s", state ? state : "");
    if (!text)
        text = PQerrorMessage(db->conn);
    snprintf(db->report->problem, sizeof db->report->problem, "%s: %s%s%s%s", what,
             *text ? text : "unexpected answer", state ? " (SQLSTATE " : "", state ? state : "",
             state ? ")" : "");
    migrate_db_flatten(db->report->problem);
}

PGresult *migrate_db_run(struct migrate_db *db, const char *what, const char *sql,
                         const char *const *values, int count)
{
    PGresult *result = count ? PQexecParams(db->conn, sql, count, NULL, values, NULL, NULL, 0)
                             : PQexec(db->conn, sql);
    ExecStatusType status = PQresultStatus(result);

    if (db->unreplicated) {
        PQclear(result);
        migrate_db_refuse(db, "%s: committed, but not confirmed by the synchronous standby", what);
        db->outcome = MIGRATE_UNREACHABLE;
        return NULL;
    }
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY)
        return result;
    migrate_db_record(db, what, result);
    PQclear(result);
    return NULL;
}

int migrate_db_do(struct migrate_db *db, const char *what, const char *sql,
                  const char *const *values, int count)
{
    PGresult *result = migrate_db_run(db, what, sql, values, count);

    if (!result)
        return -1;
    PQclear(result);
    return 0;
}

int migrate_db_refuse(struct migrate_db *db, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(db->report->problem, sizeof db->report->problem, format, args);
    va_end(args);
    db->outcome = MIGRATE_FAILED;
    db->sqlstate[0] = '\0';
    return -1;
}
