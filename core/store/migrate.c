#include "core/store/migrate.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/sqlstate.h"
#include "core/store/pg_connect.h"
#include "core/store/schema.h"
#include "core/store/sql.h"

/* All hosts use the same lock; the timeout ends the wait for a stuck host. */
#define LOCK                                                                                       \
    "SET lock_timeout = '60s'; SET statement_timeout = 0;"                                         \
    "SELECT pg_advisory_lock(" MIGRATION_LOCK ")"
#define TABLE                                                                                      \
    "CREATE TABLE IF NOT EXISTS busbar_migration ("                                                \
    " module text NOT NULL, step integer NOT NULL, checksum text NOT NULL, title text NOT NULL,"   \
    " applied_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (module, step))"
#define EXISTS "SELECT to_regclass('busbar_migration')"
#define APPLIED "SELECT step, checksum FROM busbar_migration WHERE module = $1 ORDER BY step"
#define RECORD "INSERT INTO busbar_migration (module, step, checksum, title) VALUES ($1,$2,$3,$4)"

/* A step that is missing in the database. */
struct missing {
    const char *module;
    struct migrate_step step;
};

struct migration {
    struct migrate_db db;
    bool apply;
    bool empty; /* the table of steps is missing and must not be created */
    void (*say)(void *arg, const char *line);
    void *arg;
    struct missing *missing;
    size_t count, room;
};

/* ---- the connection ---- */

/* The time for which a read-only check waits for a session that changes the tables. */
#define LOOK "-c statement_timeout=5s"

static void migrate_db_take_notice(void *arg, const PGresult *result)
{
    struct migrate_db *db = arg;

    if (pg_notice_is_unreplicated(result))
        db->unreplicated = true;
}

int migrate_db_open(struct migrate_db *db, const struct settings *settings, bool read_only)
{
    struct pg_login login = {.url = settings->host->database.url,
                             .name = "busbar migrate",
                             .options = read_only ? LOOK : "",
                             .mark = "busbar migrate",
                             .connect_ms = (unsigned)settings->host->database.connect_timeout};
    char problem[DIAL_PROBLEM];

    if (!*login.url) /* libpq would connect to its default database */
        return migrate_db_refuse(db, "no database is configured (database.url)");
    db->outcome = MIGRATE_DONE;
    db->conn = pg_connect(&login, false, problem);
    if (!db->conn) {
        db->outcome = MIGRATE_UNREACHABLE;
        snprintf(db->report->problem, sizeof db->report->problem, "database: %.400s", problem);
        pg_one_line(db->report->problem);
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
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    /* a retry may succeed */
    bool passing =
        PQstatus(db->conn) != CONNECTION_OK || sqlstate_has(state, SQLSTATE_MIGRATION_LATER);

    db->outcome = passing ? MIGRATE_UNREACHABLE : MIGRATE_FAILED;
    snprintf(db->sqlstate, sizeof db->sqlstate, "%s", state ? state : "");
    if (!text)
        text = PQerrorMessage(db->conn);
    snprintf(db->report->problem, sizeof db->report->problem, "%s: %s%s%s%s", what,
             *text ? text : "unexpected result", state ? " (SQLSTATE " : "", state ? state : "",
             state ? ")" : "");
    pg_one_line(db->report->problem);
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

/* ---- a run ---- */

static int migrate_prepare(struct migration *run)
{
    if (run->apply &&
        migrate_db_do(&run->db, "waiting for another host's migration", LOCK, NULL, 0))
        return -1;
    /* checked first, because the user may not be allowed to create the table */
    PGresult *result = migrate_db_run(&run->db, "busbar_migration", EXISTS, NULL, 0);
    bool exists = result && !PQgetisnull(result, 0, 0);

    if (!result)
        return -1;
    PQclear(result);
    run->empty = !exists && !run->apply;
    return exists || run->empty ? 0 : migrate_db_do(&run->db, "busbar_migration", TABLE, NULL, 0);
}

/*
 * While a step waits for a lock (held by a backup, for example), all later requests for the lock
 * wait, too. So the step soon stops waiting, and is retried. The timeout is longer than
 * deadlock_timeout, after which PostgreSQL cancels an autovacuum that has the lock.
 */
enum { LOCK_TRIES = 12, ASIDE_MS = 1000 };
#define BEGIN_STEPS "BEGIN; SET LOCAL lock_timeout = '1500ms'"

/* Runs the step in the open transaction, and records it. */
static int migrate_run_step(struct migration *run, const struct missing *missing)
{
    const struct migrate_step *step = &missing->step;
    struct migrate_db *db = &run->db;
    char number[16], what[192];
    const char *const values[] = {missing->module, number, step->checksum, step->title};

    snprintf(number, sizeof number, "%u", step->number);
    snprintf(what, sizeof what, "migration of %s, step %u (%s)", missing->module, step->number,
             step->title);
    char *sql = strndup(step->sql, step->length);

    if (!sql)
        return migrate_db_refuse(db, "out of memory");
    int failed = migrate_db_do(db, what, sql, NULL, 0);

    free(sql);
    if (failed)
        return -1;
    if (PQtransactionStatus(db->conn) != PQTRANS_INTRANS)
        return migrate_db_refuse(db, "%s: ended its transaction, which is not allowed", what);
    return migrate_db_do(db, what, RECORD, values, 4);
}

/* Runs steps in one transaction. If one fails, ROLLBACK or the end of the connection undoes all. */
static int migrate_try_steps(struct migration *run, size_t first, size_t count)
{
    if (migrate_db_do(&run->db, "BEGIN", BEGIN_STEPS, NULL, 0))
        return -1;
    for (size_t i = first; i < first + count; i++)
        if (migrate_run_step(run, &run->missing[i]))
            return -1;
    return migrate_db_do(&run->db, "COMMIT", "COMMIT", NULL, 0);
}

static int migrate_roll_back(struct migration *run)
{
    if (migrate_db_do(&run->db, "ROLLBACK", "ROLLBACK", NULL, 0))
        return -1;
    run->db.outcome = MIGRATE_DONE;
    return 0;
}

static void migrate_say_step(const struct migration *run, const struct missing *missing)
{
    char line[192];

    snprintf(line, sizeof line, "%s, step %u: %s", missing->module, missing->step.number,
             missing->step.title);
    if (run->say)
        run->say(run->arg, line);
}

static int migrate_apply_steps(struct migration *run, size_t first, size_t count)
{
    int failed = migrate_try_steps(run, first, count);

    for (int i = 1;
         failed && sqlstate_has(run->db.sqlstate, SQLSTATE_MIGRATION_LOCKED) && i < LOCK_TRIES;
         i++) {
        if (migrate_roll_back(run))
            return -1;
        poll(NULL, 0, ASIDE_MS);
        failed = migrate_try_steps(run, first, count);
    }
    for (size_t i = first; !failed && i < first + count; i++) {
        run->db.report->applied++;
        migrate_say_step(run, &run->missing[i]);
    }
    return failed;
}

/* Compares a step with row `number - 1` of `applied`, the step in the database. */
static int migrate_compare_step(struct migration *run, const char *module,
                                const struct migrate_step *step, const PGresult *applied)
{
    int row = (int)step->number - 1;

    if ((unsigned)strtoul(PQgetvalue(applied, row, 0), NULL, 10) != step->number)
        return migrate_db_refuse(&run->db,
                                 "migration of %s: the database has step %s where step %u is "
                                 "missing: restore the table busbar_migration",
                                 module, PQgetvalue(applied, row, 0), step->number);
    run->db.report->present++;
    if (!strcmp(PQgetvalue(applied, row, 1), step->checksum))
        return 0;
    /* since 0.9.0 the first step of the host's own schema does not change */
    if (!strcmp(module, "busbar") && step->number == 1)
        return migrate_db_refuse(&run->db, "the database was made by a development version before "
                                           "0.9.0; it cannot be migrated: use an empty database");
    return migrate_db_refuse(
        &run->db,
        "migration of %s: step %u (%s) differs from the step in the database: install the version "
        "of the module that created the tables, or a later version (authors: restore the step, and "
        "add a new step)",
        module, step->number, step->title);
}

/* Finds the missing steps. `applied` is NULL if there is no table of steps. */
static int migrate_compare_steps(struct migration *run, const char *module, const char *schema,
                                 const PGresult *applied)
{
    unsigned present = applied ? (unsigned)PQntuples(applied) : 0, number = 0;
    struct migrate_step step;
    char why[128];
    int found = 1;

    while (found == 1) {
        found = schema ? migrate_next(&schema, ++number, &step, why, sizeof why) : 0;
        if (found < 0)
            return migrate_db_refuse(&run->db, "the schema of %s %s", module, why);
        if (found && number <= present && migrate_compare_step(run, module, &step, applied))
            return -1;
        if (!found || number <= present)
            continue;
        if (run->count == run->room) {
            size_t room = run->room ? 2 * run->room : 64;
            struct missing *more = realloc(run->missing, room * sizeof *more);

            if (!more)
                return migrate_db_refuse(&run->db, "out of memory");
            run->missing = more;
            run->room = room;
        }
        run->missing[run->count++] = (struct missing){module, step};
    }
    number -= schema ? 1 : 0;
    if (number >= present)
        return 0;
    return migrate_db_refuse(&run->db,
                             "migration of %s: the database is newer (step %s) than this module "
                             "(step %u): install the newer version of the module",
                             module, PQgetvalue(applied, (int)present - 1, 0), number);
}

static int migrate_compare_module(struct migration *run, const char *module, const char *schema)
{
    PGresult *applied =
        run->empty ? NULL : migrate_db_run(&run->db, "busbar_migration", APPLIED, &module, 1);

    if (!applied && !run->empty)
        return -1;
    int failed = migrate_compare_steps(run, module, schema, applied);

    PQclear(applied);
    return failed;
}

/*
 * Compares all schemas, and then applies the missing steps. The steps of the core are recorded
 * under the name "busbar", which no module can have.
 */
static int migrate_all(struct migration *run, const struct generation *g)
{
    if (migrate_db_open(&run->db, g->settings, !run->apply) || migrate_prepare(run) ||
        migrate_compare_module(run, "busbar", store_schema))
        return -1;
    for (size_t i = 0; i < g->module_count; i++)
        if (migrate_compare_module(run, g->modules[i].descriptor->name,
                                   g->modules[i].descriptor->schema))
            return -1;
    if (run->apply) {
        /*
         * Applies all steps in one transaction, so that a failure changes nothing. If steps cannot
         * share a transaction (an enum value is added and used, triggers are pending, or too many
         * tables are locked), applies each in a separate one.
         */
        if (!run->count || !migrate_apply_steps(run, 0, run->count))
            return 0;
        if (run->count == 1 || !sqlstate_has(run->db.sqlstate, SQLSTATE_MIGRATION_APART) ||
            migrate_roll_back(run))
            return -1;
        for (size_t i = 0; i < run->count; i++)
            if (migrate_apply_steps(run, i, 1))
                return -1;
        return 0;
    }
    for (size_t i = 0; i < run->count; i++) {
        const struct missing *missing = &run->missing[i];

        /* the problem names the first missing step */
        if (!run->db.report->pending++ && run->empty)
            migrate_db_refuse(&run->db, "the database has no tables of busbar yet: run "
                                        "`busbar migrate`");
        else if (run->db.report->pending == 1)
            migrate_db_refuse(&run->db,
                              "migration of %s, step %u (%s) is missing in the database: run "
                              "`busbar migrate`",
                              missing->module, missing->step.number, missing->step.title);
        migrate_say_step(run, missing);
    }
    return 0;
}

enum migrate_outcome migrate_run(const struct generation *generation, bool apply,
                                 void (*say)(void *arg, const char *line), void *arg,
                                 struct migrate_report *report)
{
    struct migration run = {.apply = apply, .say = say, .arg = arg};

    *report = (struct migrate_report){0};
    run.db.report = report;
    int failed = migrate_all(&run, generation);

    if (!failed && !report->pending) {
        PGresult *result =
            migrate_db_run(&run.db, "busbar_pause_reason()", PAUSE_QUESTION, NULL, 0);

        failed = result ? 0 : -1;
        report->paused = result && !PQgetisnull(result, 0, 0);
        if (result)
            snprintf(report->pause_reason, sizeof report->pause_reason, "%s",
                     PQgetvalue(result, 0, 0));
        PQclear(result);
    }
    migrate_db_close(&run.db);
    free(run.missing);
    report->missing = !failed && report->pending;
    return failed || report->pending ? run.db.outcome : MIGRATE_DONE;
}
