/*
 * `busbar migrate`, `busbar pause` and `busbar resume`. A pause is a row in the database, so no
 * host needs to run.
 */
#include <stdio.h>
#include <string.h>

#include "core/main/cli.h"
#include "core/store/migrate.h"

#define TABLE "SELECT to_regclass('busbar_pause')"
#define PAUSE                                                                                      \
    "WITH done AS (UPDATE busbar_pause SET paused_at = coalesce(paused_at, now()))"                \
    " SELECT pg_notify('" BB_PAUSE_CHANNEL "', 'paused')"
#define RESUME                                                                                     \
    "WITH done AS (UPDATE busbar_pause SET paused_at = NULL, place = busbar_place())"              \
    " SELECT pg_notify('" BB_PAUSE_CHANNEL "', 'resumed')"

static void cmd_database_say(void *arg, const char *line)
{
    (void)arg;
    puts(line);
}

int cmd_migrate(const struct cli *cli)
{
    bool dry = cli->argc == 1 && !strcmp(cli->argv[0], "--dry-run");

    if (cli->argc && !dry)
        return cli_misused("unknown option", cli->argv[cli->argc - 1]);
    struct generation *g = cli_generation(cli, false);
    struct migrate_report report;

    if (!g)
        return CLI_FAILED;
    enum migrate_outcome outcome = migrate_run(g, !dry, cmd_database_say, NULL, &report);

    generation_destroy(g);
    if (outcome != MIGRATE_DONE && !report.missing) {
        fprintf(stderr, "busbar: %s\n", report.problem);
        return CLI_FAILED;
    }
    if (report.missing)
        printf("%u steps would be applied, %u are already applied\n", report.pending,
               report.present);
    else
        printf("the database is up to date: %u steps applied now, %u earlier\n", report.applied,
               report.present);
    return CLI_DONE;
}

static int cmd_database_change(struct migrate_db *db, const struct settings *settings,
                               const char *sql)
{
    PGresult *result = NULL;

    if (migrate_db_open(db, settings, false) ||
        !(result = migrate_db_run(db, "busbar_pause", TABLE, NULL, 0)))
        return -1;
    bool there = !PQgetisnull(result, 0, 0);

    PQclear(result);
    if (!there)
        return migrate_db_refuse(db,
                                 "the database cannot store this yet: run `busbar migrate`, which "
                                 "sends no deliveries, and try again");
    return migrate_db_do(db, "busbar_pause", sql, NULL, 0);
}

static int cmd_database_turn(const struct cli *cli, const char *sql, const char *done)
{
    struct generation *g = cli_generation(cli, false);
    struct migrate_report report = {0};
    struct migrate_db db = {.report = &report};

    if (!g)
        return CLI_FAILED;
    int failed = cmd_database_change(&db, g->settings, sql);

    migrate_db_close(&db);
    generation_destroy(g);
    if (failed) {
        fprintf(stderr, "busbar: %s\n", report.problem);
        return CLI_FAILED;
    }
    printf("deliveries, jobs and calls to other servers are %s on all hosts of the database\n",
           done);
    return CLI_DONE;
}

int cmd_pause(const struct cli *cli)
{
    return cmd_database_turn(cli, PAUSE, "paused");
}

int cmd_resume(const struct cli *cli)
{
    return cmd_database_turn(cli, RESUME, "resumed");
}
