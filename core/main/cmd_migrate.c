#include <stdio.h>
#include <string.h>

#include "core/main/cli.h"
#include "core/store/migrate.h"

static void say(void *arg, const char *line)
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
    enum migrate_outcome outcome = migrate_run(g, !dry, say, NULL, &report);

    generation_destroy(g);
    if (outcome != MIGRATE_DONE && !report.missing) {
        fprintf(stderr, "busbar: %s\n", report.problem);
        return CLI_FAILED;
    }
    if (report.missing)
        printf("%u steps would be applied, %u are there\n", report.pending, report.present);
    else
        printf("the database is up to date: %u steps applied now, %u before\n", report.applied,
               report.present);
    return CLI_DONE;
}
