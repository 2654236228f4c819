/* `busbar check` and `busbar version`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/host_settings.h"
#include "core/lib/version.h"
#include "core/main/cli.h"
#include "core/module/sandbox.h"
#include "core/store/migrate.h"

static int cmd_check_print_refusal(const char *problem)
{
    fprintf(stderr, "busbar: %s\n", problem);
    return CLI_FAILED;
}

/* ---- in the child process ---- */

/* Writes the report, and the schemas for cmd_check_database(): name and schema, a zero byte
 * after each.
 */
static int cmd_check_in_child(FILE *out, void *arg)
{
    const struct cli *cli = arg;
    struct generation *g = cli_generation(cli, true);
    size_t routes = 0;

    if (!g || cli_lacks(g))
        return CLI_FAILED;
    if (cli->argc)
        return settings_print(g->settings, out) ? cmd_check_print_refusal("out of memory")
                                                : CLI_DONE;
    for (size_t i = 0; i < g->module_count; i++)
        routes += g->modules[i].descriptor->routes.count;
    fprintf(out, "ok: %s, %zu modules, %zu routes\n", cli->conf, g->module_count, routes);
    for (size_t i = 0; i < g->module_count; i++) {
        const struct bb_module *descriptor = g->modules[i].descriptor;

        fprintf(out,
                "  %-12s %-8s %zu routes, %zu events, %zu hooks, %zu jobs, %zu commands  (%s)\n",
                descriptor->name, descriptor->version, descriptor->routes.count,
                descriptor->events.count, descriptor->hooks.count, descriptor->jobs.count,
                descriptor->commands.count, g->modules[i].path);
    }
    fputc('\0', out);
    for (size_t i = 0; i < g->module_count; i++) {
        const struct bb_module *descriptor = g->modules[i].descriptor;

        if (descriptor->schema)
            fprintf(out, "%s%c%s%c", descriptor->name, '\0', descriptor->schema, '\0');
    }
    return CLI_DONE;
}

/* ---- in the parent ---- */

/* Compares the schemas with the database. An unavailable database is not an error. */
static int cmd_check_compare_schemas(const struct generation *g)
{
    const char *url = host_settings(g->settings)->database.url;
    struct migrate_report report;

    if (!url || !*url)
        return CLI_DONE;
    enum migrate_outcome outcome = migrate_run(g, false, NULL, NULL, &report);

    if (outcome == MIGRATE_DONE)
        printf("the database is up to date: %u steps\n", report.present);
    else if (outcome == MIGRATE_UNREACHABLE)
        printf("the database could not be queried: %s\n", report.problem);
    else if (report.missing && host_settings(g->settings)->database.migrate)
        printf("%s, or let `busbar serve` do it\n", report.problem);
    else
        return cmd_check_print_refusal(report.problem);
    return CLI_DONE;
}

/*
 * The child has no network, so the parent connects. It does not load the modules: it gets their
 * schemas from the child, and only reads the host's settings again.
 */
static int cmd_check_database(const struct cli *cli, const char *at, const char *end)
{
    struct setting_problems problems = {0};
    struct generation g = {.arena = arena_new()};
    size_t room = 0;
    int status = CLI_FAILED;

    for (const char *byte = at; byte < end; byte++)
        room += !*byte;
    if (g.arena)
        g.settings = settings_load(g.arena, cli->conf, &problems);
    if (g.settings && !host_settings_bind(g.settings, &problems))
        g.modules = arena_alloc(g.arena, (room / 2 + 1) * sizeof *g.modules);
    while (g.modules && g.module_count < room / 2) {
        struct bb_module *descriptor = arena_alloc(g.arena, sizeof *descriptor);

        if (!descriptor)
            break;
        descriptor->name = at;
        descriptor->schema = at += strlen(at) + 1;
        at += strlen(at) + 1;
        g.modules[g.module_count++].descriptor = descriptor;
    }
    if (g.modules && g.module_count == room / 2)
        status = cmd_check_compare_schemas(&g);
    else
        status = cmd_check_print_refusal("the settings cannot be read again");
    setting_problems_free(&problems);
    if (g.arena)
        arena_free(g.arena);
    return status;
}

int cmd_check(const struct cli *cli)
{
    bool print = cli->argc == 1 && !strcmp(cli->argv[0], "--print");
    struct sandbox_output output;
    char why[4608];

    if (cli->argc && !print)
        return cli_misused("unknown option", cli->argv[cli->argc - 1]);
    int status = sandbox_run(cmd_check_in_child, (void *)(uintptr_t)cli, CLI_SANDBOX_MS, &output,
                             why, sizeof why);

    if (status < 0)
        return cmd_check_print_refusal(why);
    fputs(output.bytes, stdout);
    if (!status && !print)
        status = cmd_check_database(cli, output.bytes + strlen(output.bytes) + 1,
                                    output.bytes + output.length);
    free(output.bytes);
    return status;
}

int cmd_version(const struct cli *cli)
{
    (void)cli;
    printf("busbar %s (module ABI %d.%d)\n", PACKAGE_VERSION, BB_ABI_MAJOR, BB_ABI_MINOR);
    return CLI_DONE;
}
