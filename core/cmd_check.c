/* `busbar check` and `busbar version`. */
#include <stdio.h>

#include "core/cli.h"
#include "core/version.h"

static void print_module(const struct core_module *module)
{
    const struct bb_module *face = module->face;

    printf("  %-12s %-8s %zu routes, %zu events, %zu hooks, %zu jobs, %zu commands  (%s)\n",
           face->name, face->version, face->routes.count, face->events.count, face->hooks.count,
           face->jobs.count, face->commands.count, module->path);
}

int cmd_check(const struct cli *cli)
{
    size_t routes = 0;

    cli_guard_files();
    struct generation *g = cli_judged(cli);

    if (!g)
        return CLI_FAILED;
    for (size_t i = 0; i < g->module_count; i++)
        routes += g->modules[i].face->routes.count;
    printf("ok: %s, %zu modules, %zu routes\n", cli->conf, g->module_count, routes);
    for (size_t i = 0; i < g->module_count; i++)
        print_module(&g->modules[i]);
    generation_destroy(g);
    return CLI_DONE;
}

int cmd_version(const struct cli *cli)
{
    (void)cli;
    printf("busbar %s (module ABI %d.%d)\n", PACKAGE_VERSION, BB_ABI_MAJOR, BB_ABI_MINOR);
    return CLI_DONE;
}
