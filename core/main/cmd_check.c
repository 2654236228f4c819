/* `busbar check`, `inspect`, `modcheck` and `module …`: commands that read files of modules. */
#include "config.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lib/host_settings.h"
#include "core/main/cli.h"
#include "core/main/inspect.h"
#include "core/module/sandbox.h"
#include "core/store/migrate.h"

#ifndef BUSBAR_LIBEXEC
#define BUSBAR_LIBEXEC "/usr/local/libexec/busbar"
#endif

enum { SANDBOX_MS = 30000 }; /* time limit of the child process, which loads the modules */

/* ---- `busbar check`, in the child process ---- */

/* Writes the report, and for cmd_check_database() the name and the schema of each module, each
 * followed by a zero byte. */
static int cmd_check_in_child(FILE *out, void *arg)
{
    const struct cli *cli = arg;
    struct generation *g = cli_generation(cli, true);
    size_t routes = 0;

    if (!g || cli_lacks(g))
        return CLI_FAILED;
    if (cli->argc)
        return settings_print(g->settings, out) ? cli_fail("out of memory") : CLI_DONE;
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

/* ---- `busbar check`, in the parent ---- */

/* Compares the schemas with the database. An unavailable database is not an error. */
static int cmd_check_compare_schemas(const struct generation *g)
{
    const char *url = g->host->database.url;
    struct migrate_report report;

    if (!url || !*url)
        return CLI_DONE;
    enum migrate_outcome outcome = migrate_run(g, false, NULL, NULL, &report);

    if (outcome == MIGRATE_DONE)
        printf("the database is up to date: %u steps\n", report.present);
    else if (outcome == MIGRATE_UNREACHABLE)
        printf("the database could not be queried: %s\n", report.problem);
    else if (report.missing && g->host->database.migrate)
        printf("%s, or let `busbar serve` do it\n", report.problem);
    else
        return cli_fail("%s", report.problem);
    return CLI_DONE;
}

/*
 * Compares the database with the schemas, which are texts from `at` to `end`. The child has sent
 * the texts to this process, because the child has no network and this process loads no modules.
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
    if (g.settings && !host_settings_bind(g.settings, &problems)) {
        g.host = g.settings->host;
        g.modules = arena_alloc(g.arena, (room / 2 + 1) * sizeof *g.modules);
    }
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
        status = cli_fail("the settings changed during the check, or memory ran out");
    setting_problems_free(&problems);
    arena_free(g.arena);
    return status;
}

int cmd_check(const struct cli *cli)
{
    bool print = cli->argc > 0; /* --print */
    struct sandbox_output output;
    char why[4608];
    int status = sandbox_run(cmd_check_in_child, (void *)(uintptr_t)cli, SANDBOX_MS, &output, why,
                             sizeof why);

    if (status < 0)
        return cli_fail("%s", why);
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

/* ---- tools for authors of modules ---- */

/* In the child: writes the descriptor to `out` as JSON. */
static int cmd_check_write_descriptor(FILE *out, void *arg)
{
    const char *path = arg;
    struct setting_problems problems = {0};
    struct core_module module = {0};
    struct arena *arena = arena_new();
    json_t *json = NULL;

    sandbox_file(path);
    if (!arena)
        setting_problem(&problems, "inspect: %s: out of memory", path);
    else if (!module_load(&module, arena, path, "inspect", &problems)) {
        json = inspect_json(module.descriptor);
        if (!json)
            setting_problem(&problems, "inspect: %s: has texts that are not UTF-8", path);
        else if (*module.build_id)
            json_object_set_new(json, "buildId", json_string(module.build_id));
    }
    if (problems.count)
        fputs("busbar: ", stderr);
    setting_problems_print(&problems, stderr);
    return json && !json_dumpf(json, out, JSON_COMPACT) ? CLI_DONE : CLI_FAILED;
}

int cmd_inspect(const struct cli *cli)
{
    bool as_json = false;
    const char *path = NULL;
    char place[4096], why[4608];
    struct sandbox_output output;

    for (int i = 0; i < cli->argc; i++) {
        if (!strcmp(cli->argv[i], "--json"))
            as_json = true;
        else if (cli->argv[i][0] != '-' && !path)
            path = cli->argv[i];
        else
            return cli_misused("inspect does not accept", cli->argv[i]);
    }
    if (!path)
        return cli_misused("inspect needs", "a file");
    snprintf(place, sizeof place, "./%s", path);
    if (!strchr(path, '/'))
        path = place; /* dlopen() would look for the name in the directories of libraries */
    int status = sandbox_run(cmd_check_write_descriptor, (void *)(uintptr_t)path, SANDBOX_MS,
                             &output, why, sizeof why);

    if (status < 0)
        return cli_fail("inspect: %s", why);
    json_t *json = status ? NULL : json_loadb(output.bytes, output.length, 0, NULL);

    if (!status && !json) {
        status = cli_fail("inspect: %s: out of memory", path);
    } else if (!status && as_json) {
        json_dumpf(json, stdout, JSON_INDENT(2));
        putchar('\n');
    } else if (!status) {
        inspect_print(json, stdout);
    }
    json_decref(json);
    free(output.bytes);
    return status;
}

/*
 * Runs the script that has the name of the command's first word, with the other words as arguments.
 * These commands are scripts, because they need nothing from the program except its path.
 */
int cmd_tool(const struct cli *cli)
{
    char own[4096], script[sizeof BUSBAR_LIBEXEC + 64];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    char **argv = cli->argv - (strchr(cli->name, ' ') ? 2 : 1);

    if (!strcmp(cli->name, "modcheck") && !cli->argc)
        return cli_misused("modcheck needs", "files");
    snprintf(script, sizeof script, BUSBAR_LIBEXEC "/%.*s", (int)strcspn(cli->name, " "),
             cli->name);
    if (access(script, X_OK))
        fputs("busbar: this command is part of the package busbar-dev\n", stderr);
    own[length > 0 ? length : 0] = '\0';
    cli->argv[cli->argc] = NULL;
    if (!setenv("BUSBAR_PROGRAM", own, 1)) {
        argv[0] = script;
        execv(script, argv);
    }
    return cli_fail("%s: %s", script, strerror(errno));
}
