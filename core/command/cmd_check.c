/* `busbar check` and `busbar version`. */
#include <stdio.h>
#include <string.h>

#include "core/base/version.h"
#include "core/command/cli.h"
#include "core/migrate/migrate.h"

static void print_module(const struct core_module *module)
{
    const struct bb_module *descriptor = module->descriptor;

    printf("  %-12s %-8s %zu routes, %zu events, %zu hooks, %zu jobs, %zu commands  (%s)\n",
           descriptor->name, descriptor->version, descriptor->routes.count,
           descriptor->events.count, descriptor->hooks.count, descriptor->jobs.count,
           descriptor->commands.count, module->path);
}

static int print_refusal(const char *problem)
{
    fprintf(stderr, "busbar: %s\n", problem);
    return CLI_FAILED;
}

/* Whether the database matches. An unavailable database is not a configuration error. */
static int check_database(const struct generation *g)
{
    const char *url = settings_text(g->settings, "database", "url");
    struct migrate_report report;

    if (!url || !*url)
        return CLI_DONE;
    enum migrate_outcome outcome = migrate_run(g, false, NULL, NULL, &report);

    if (outcome == MIGRATE_DONE)
        printf("the database is up to date: %u steps\n", report.present);
    else if (outcome == MIGRATE_UNREACHABLE)
        printf("the database could not be asked: %s\n", report.problem);
    else if (report.missing && settings_int(g->settings, "database", "migrate"))
        printf("%s, or let `busbar serve` do it\n", report.problem);
    else
        return print_refusal(report.problem);
    return CLI_DONE;
}

static int report(const struct cli *cli, const struct generation *g)
{
    size_t routes = 0;

    for (size_t i = 0; i < g->module_count; i++)
        routes += g->modules[i].descriptor->routes.count;
    printf("ok: %s, %zu modules, %zu routes\n", cli->conf, g->module_count, routes);
    for (size_t i = 0; i < g->module_count; i++)
        print_module(&g->modules[i]);
    return check_database(g);
}

int cmd_check(const struct cli *cli)
{
    bool print = cli->argc == 1 && !strcmp(cli->argv[0], "--print");
    int status = CLI_FAILED;

    if (cli->argc && !print)
        return cli_misused("unknown option", cli->argv[cli->argc - 1]);
    cli_guard_files();
    struct generation *g = cli_validated(cli);

    if (!g)
        return CLI_FAILED;
    bool lacks = cli_lacks(g);

    if (!lacks && print)
        status = settings_print(g->settings, stdout) ? print_refusal("out of memory") : CLI_DONE;
    else if (!lacks)
        status = report(cli, g);
    generation_destroy(g);
    return status;
}

int cmd_version(const struct cli *cli)
{
    (void)cli;
    printf("busbar %s (module ABI %d.%d)\n", PACKAGE_VERSION, BB_ABI_MAJOR, BB_ABI_MINOR);
    return CLI_DONE;
}
