#include "core/migrate/migrate.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/migrate/migrate_db.h"
#include "core/migrate/schema.h"

/* One lock in a database for all hosts; bounded, so that a stuck host does not hold up the rest. */
#define LOCK                                                                                       \
    "SET lock_timeout = '60s'; SET statement_timeout = 0;"                                         \
    "SELECT pg_advisory_lock(7094709482943872001)"
#define TABLE                                                                                      \
    "CREATE TABLE IF NOT EXISTS busbar_migration ("                                                \
    " module text NOT NULL, step integer NOT NULL, checksum text NOT NULL, title text NOT NULL,"   \
    " applied_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (module, step))"
#define EXISTS "SELECT to_regclass('busbar_migration')"
#define APPLIED "SELECT step, checksum FROM busbar_migration WHERE module = $1 ORDER BY step"
#define RECORD "INSERT INTO busbar_migration (module, step, checksum, title) VALUES ($1,$2,$3,$4)"

struct migration {
    struct migrate_db db;
    bool apply;
    bool empty; /* there is no table of steps, and there shall be none: all are missing */
    void (*say)(void *arg, const char *line);
    void *arg;
};

/* Whether the table is there; asked first, for a user that may create nothing. -1: failed. */
static int table_exists(struct migration *run)
{
    PGresult *result = migrate_db_run(&run->db, "busbar_migration", EXISTS, NULL, 0);

    if (!result)
        return -1;
    int exists = !PQgetisnull(result, 0, 0);

    PQclear(result);
    return exists;
}

static int prepare(struct migration *run)
{
    if (run->apply &&
        migrate_db_do(&run->db, "waiting for another host's migration", LOCK, NULL, 0))
        return -1;
    int exists = table_exists(run);

    if (exists < 0)
        return -1;
    run->empty = !exists && !run->apply;
    return exists || run->empty ? 0 : migrate_db_do(&run->db, "busbar_migration", TABLE, NULL, 0);
}

/*
 * A step that waits for a lock has all that come behind it wait, too: requests, while a backup
 * reads the table. So it steps aside soon, for a second, and comes again. Not before PostgreSQL has
 * sent its own vacuum away, which it does for who has waited for deadlock_timeout: a second.
 */
enum { LOCK_TRIES = 12, ASIDE_MS = 1000 };
#define BEGIN_STEP "BEGIN; SET LOCAL lock_timeout = '1500ms'"

/* BEGIN, the step, its record, COMMIT. What fails is undone when the connection closes. */
static int try_step(struct migration *run, const char *module, const struct migrate_step *step,
                    const char *sql)
{
    struct migrate_db *db = &run->db;
    char number[16], what[192];
    const char *const values[] = {module, number, step->checksum, step->title};

    snprintf(number, sizeof number, "%u", step->number);
    snprintf(what, sizeof what, "migration of %s, step %u (%s)", module, step->number, step->title);
    if (migrate_db_do(db, what, BEGIN_STEP, NULL, 0) || migrate_db_do(db, what, sql, NULL, 0))
        return -1;
    if (PQtransactionStatus(db->conn) != PQTRANS_INTRANS)
        return migrate_db_refuse(db, "%s: ended its transaction, which is not allowed", what);
    return migrate_db_do(db, what, RECORD, values, 4) || migrate_db_do(db, what, "COMMIT", NULL, 0)
               ? -1
               : 0;
}

static int run_step(struct migration *run, const char *module, const struct migrate_step *step,
                    const char *sql)
{
    int failed = try_step(run, module, step, sql);

    for (int i = 1; failed && run->db.locked && i < LOCK_TRIES; i++) {
        if (migrate_db_do(&run->db, "ROLLBACK", "ROLLBACK", NULL, 0))
            return -1;
        poll(NULL, 0, ASIDE_MS);
        run->db.outcome = MIGRATE_DONE;
        failed = try_step(run, module, step, sql);
    }
    return failed;
}

static void say_step(const struct migration *run, const char *module,
                     const struct migrate_step *step)
{
    char line[192];

    snprintf(line, sizeof line, "%s, step %u: %s", module, step->number, step->title);
    if (run->say)
        run->say(run->arg, line);
}

/* The first one is what the problem names. */
static void note_missing(struct migration *run, const char *module, const struct migrate_step *step)
{
    if (!run->db.report->pending++ && run->empty)
        migrate_db_refuse(&run->db, "the database has no tables of busbar yet: run "
                                    "`busbar migrate`");
    else if (run->db.report->pending == 1)
        migrate_db_refuse(&run->db,
                          "migration of %s, step %u (%s) is missing in the database: run "
                          "`busbar migrate`",
                          module, step->number, step->title);
    say_step(run, module, step);
}

static int apply_step(struct migration *run, const char *module, const struct migrate_step *step)
{
    if (!run->apply) {
        note_missing(run, module, step);
        return 0;
    }
    char *sql = strndup(step->sql, step->length);

    if (!sql)
        return migrate_db_refuse(&run->db, "out of memory");
    int failed = run_step(run, module, step, sql);

    free(sql);
    if (failed)
        return -1;
    run->db.report->applied++;
    say_step(run, module, step);
    return 0;
}

/* A step that the database has must be the same one. Row `number - 1` of `applied` is its record.
 */
static int compare_step(struct migration *run, const char *module, const struct migrate_step *step,
                        const PGresult *applied)
{
    int row = (int)step->number - 1;

    if ((unsigned)strtoul(PQgetvalue(applied, row, 0), NULL, 10) != step->number)
        return migrate_db_refuse(&run->db,
                                 "migration of %s: the database has step %s where step %u is "
                                 "missing: restore the table busbar_migration",
                                 module, PQgetvalue(applied, row, 0), step->number);
    if (strcmp(PQgetvalue(applied, row, 1), step->checksum) != 0)
        return migrate_db_refuse(
            &run->db,
            "migration of %s: step %u (%s) is another one than the database was "
            "made with: install the version of the module that it was made "
            "with, or a later one (its author: put the step back, add a new "
            "one)",
            module, step->number, step->title);
    run->db.report->present++;
    return 0;
}

/* `applied` is NULL where there is no table of steps. */
static int migrate_steps(struct migration *run, const char *module, const char *schema,
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
        if (found && (number <= present ? compare_step(run, module, &step, applied)
                                        : apply_step(run, module, &step)))
            return -1;
    }
    number -= schema ? 1 : 0;
    if (number >= present)
        return 0;
    return migrate_db_refuse(&run->db,
                             "migration of %s: the database is newer (step %s) than this module "
                             "(step %u): install the newer version of the module",
                             module, PQgetvalue(applied, (int)present - 1, 0), number);
}

static int migrate_module(struct migration *run, const char *module, const char *schema)
{
    PGresult *applied =
        run->empty ? NULL : migrate_db_run(&run->db, "busbar_migration", APPLIED, &module, 1);

    if (!applied && !run->empty)
        return -1;
    int failed = migrate_steps(run, module, schema, applied);

    PQclear(applied);
    return failed;
}

/* The core's steps are named after the program, which no module can be. */
static int migrate_all(struct migration *run, const struct generation *g)
{
    if (migrate_db_open(&run->db, g->settings, !run->apply) || prepare(run) ||
        migrate_module(run, "busbar", migrate_schema))
        return -1;
    for (size_t i = 0; i < g->module_count; i++)
        if (migrate_module(run, g->modules[i].descriptor->name, g->modules[i].descriptor->schema))
            return -1;
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

    migrate_db_close(&run.db);
    report->missing = !failed && report->pending;
    return failed || report->pending ? run.db.outcome : MIGRATE_DONE;
}
