#include <stdio.h>

#include "core/command/cli.h"
#include "core/migrate/migrate.h"

static void say(void *arg, const char *line)
{
    (void)arg;
    puts(line);
}

int cmd_migrate(const struct cli *cli)
{
    struct generation *g = cli_generation(cli);
    struct migrate_report report;

    if (!g)
        return CLI_FAILED;
    enum migrate_outcome outcome = migrate_run(g, true, say, NULL, &report);

    generation_destroy(g);
    if (outcome != MIGRATE_DONE) {
        fprintf(stderr, "busbar: %s\n", report.problem);
        return CLI_FAILED;
    }
    printf("the database is up to date: %u steps applied now, %u before\n", report.applied,
           report.present);
    return CLI_DONE;
}
