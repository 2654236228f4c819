/* `busbar inspect`, `busbar modcheck` and `busbar module …`: tools for authors of modules. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/main/cli.h"
#include "core/main/inspect.h"
#include "core/module/sandbox.h"

#ifndef BUSBAR_LIBEXEC
#define BUSBAR_LIBEXEC "/usr/local/libexec/busbar"
#endif

/* In the child: writes the descriptor to `out` as JSON. */
static int cmd_inspect_write_descriptor(FILE *out, void *arg)
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
    int status = sandbox_run(cmd_inspect_write_descriptor, (void *)(uintptr_t)path, CLI_SANDBOX_MS,
                             &output, why, sizeof why);

    if (status < 0) {
        fprintf(stderr, "busbar: inspect: %s\n", why);
        return CLI_FAILED;
    }
    json_t *json = status ? NULL : json_loadb(output.bytes, output.length, 0, NULL);

    if (!status && !json) {
        fprintf(stderr, "busbar: inspect: %s: out of memory\n", path);
        status = CLI_FAILED;
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
 * Runs a separate script, because it needs nothing from the host except the path of the program.
 * argv[0] is the place for the path of the script.
 */
static int cmd_inspect_run_script(const char *script, char **argv)
{
    char own[4096];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);

    own[length > 0 ? length : 0] = '\0';
    if (!setenv("BUSBAR_PROGRAM", own, 1)) {
        argv[0] = (char *)(uintptr_t)script;
        execv(script, argv);
    }
    fprintf(stderr, "busbar: %s: %s\n", script, strerror(errno));
    return CLI_FAILED;
}

int cmd_modcheck(const struct cli *cli)
{
    if (!cli->argc)
        return cli_misused("modcheck needs", "files");
    cli->argv[cli->argc] = NULL;
    return cmd_inspect_run_script(BUSBAR_LIBEXEC "/modcheck", cli->argv - 1);
}

/* The script gets the second word of the command, such as `new`, and the words after it. */
int cmd_module_tool(const struct cli *cli)
{
    if (access(BUSBAR_LIBEXEC "/module", X_OK))
        fputs("busbar: this command is part of the package busbar-dev\n", stderr);
    cli->argv[cli->argc] = NULL;
    return cmd_inspect_run_script(BUSBAR_LIBEXEC "/module", cli->argv - 2);
}
