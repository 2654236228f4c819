/*
 * Parses and runs `busbar [-c FILE] [--env-file FILE] COMMAND [options]`. A name that is not in the
 * table of the host's commands is searched among the commands of the configured modules. Exit
 * statuses: 0 success, 1 failure, 2 usage error.
 */
#ifndef CORE_CLI_H
#define CORE_CLI_H

#include "core/module/generation.h"

enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli {
    const char *conf; /* path of the settings file */
    bool conf_given;  /* given with -c, which takes precedence over $BUSBAR_CONF */
    const char *name; /* name of the host's command, such as "module new" */
    int argc;         /* the words after the command's name */
    char **argv;
};

/* Runs a command after main() has set up the process. Returns the exit status. */
int cli_main(int argc, char **argv);

/* Prints a usage error, and where to find help. Returns CLI_USAGE. */
int cli_misused(const char *reason, const char *arg);

/* Prints an error. Returns CLI_FAILED. */
BB_PRINTF(1, 2) int cli_fail(const char *format, ...);

/* Returns whether a command of the host has this name, or begins with this word. */
bool cli_is_command(const char *name);

/* Runs a command of the host. Returns the exit status. */
typedef int cli_run(const struct cli *cli);

cli_run cmd_serve, cmd_ask, cmd_migrate, cmd_pause, cmd_doctor, cmd_check, cmd_settings,
    cmd_inspect, cmd_tool, cmd_metrics, cmd_problems, cmd_version, cmd_help;

/* Runs a command of a module; argv begins with the command's words. */
int cmd_module(const struct cli *cli);

/*
 * Loads and checks the configuration. If there are errors, prints them and returns NULL. If
 * `warnings` is set, also prints warnings; only `serve` and `check` set it, because a service often
 * runs other commands before `serve`, and the warnings would be repeated.
 */
struct generation *cli_generation(const struct cli *cli, bool warnings);

/* Prints settings that the modules require and that are missing; returns whether there are any. */
bool cli_lacks(const struct generation *generation);

#endif
