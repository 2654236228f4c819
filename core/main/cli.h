/*
 * Parses and runs `busbar [-c FILE] [--env-file FILE] COMMAND [options]`. If the table of the
 * host's commands does not contain the name, it is searched among the commands of the configured
 * modules. Exit statuses: 0 success, 1 failure, 2 usage error.
 */
#ifndef CORE_CLI_H
#define CORE_CLI_H

#include <jansson.h>

#include "core/module/generation.h"

enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli {
    const char *conf; /* path of the settings file */
    bool conf_given;  /* given with -c, which takes precedence over $BUSBAR_CONF */
    int argc;         /* the words after the command's name */
    char **argv;
};

struct cli_command {
    const char *name;
    int (*run)(const struct cli *cli);
    const char *summary; /* one line for the list */
    const char *help;    /* further explanation */
    /* words that it accepts, as shown in the usage text; NULL: only -c, --env-file and --help */
    const char *words;
};

extern const struct cli_command cli_commands[];
extern const size_t cli_command_count;

/* Runs a command after main() has set up the process. Returns the exit status. */
int cli_main(int argc, char **argv);

/* Prints a usage error, and where to find help. Returns CLI_USAGE. */
int cli_misused(const char *reason, const char *arg);

/* Returns the host's command of this name, which may have two words; NULL if there is none. */
const struct cli_command *cli_find(const char *name);

int cmd_serve(const struct cli *cli);
int cmd_reload(const struct cli *cli);
int cmd_status(const struct cli *cli);
int cmd_migrate(const struct cli *cli);
int cmd_pause(const struct cli *cli);
int cmd_resume(const struct cli *cli);
int cmd_doctor(const struct cli *cli);
int cmd_check(const struct cli *cli);
int cmd_settings(const struct cli *cli);
int cmd_inspect(const struct cli *cli);
int cmd_modcheck(const struct cli *cli);
int cmd_module_tool(const struct cli *cli);
int cmd_metrics(const struct cli *cli);
int cmd_version(const struct cli *cli);
int cmd_help(const struct cli *cli);

/* Runs a command of a module; argv begins with the command's words. */
int cmd_module(const struct cli *cli);

/* Prints name and help of all commands of a generation's modules, for cmd_help(). */
void cmd_module_list(const struct generation *generation);

/* The time limit for the child process (sandbox.h) that loads modules for `inspect` and `check`. */
enum { CLI_SANDBOX_MS = 30000 };

/*
 * Loads and checks the configuration. If there are errors, prints them and returns NULL. If
 * `warnings` is set, also prints warnings; only `serve` and `check` set it, because a service often
 * runs other commands before `serve`, and the warnings would be repeated.
 */
struct generation *cli_generation(const struct cli *cli, bool warnings);

/* Prints settings that the modules require and that are missing; returns whether there are any. */
bool cli_lacks(const struct generation *generation);

/*
 * Parses the options of a module's command by its table. Returns an object, which the caller owns;
 * NULL after a message on standard error. Reads secret options from the environment or standard
 * input.
 */
json_t *cli_options(const struct bb_table *fields, int argc, char **argv);

/* Returns the first required option, which may be given without its name; NULL: there is none. */
const struct bb_field *cli_word(const struct bb_table *fields);

/* Writes "first-name" for "firstName" to `out`. */
void cli_option_name(const char *field, char *out, size_t size);

/* Writes "BUSBAR_CLIENT_SECRET" for "clientSecret", the variable for a secret option. */
void cli_variable_name(const char *field, char *out, size_t size);

/*
 * Implements --env-file: sets the environment variables of a file, so that a command uses the same
 * configuration as the service. The file has the syntax of EnvironmentFile= in systemd: a line is
 * NAME=value; blank lines and lines that begin with # or ; are ignored. At the beginning of a
 * value, and after a closing quote, ' and " quote the following text, which may span lines;
 * elsewhere they are ordinary characters. A backslash removes the meaning of the next character; at
 * the end of a line it continues the value in the next line. Other lines are errors, although
 * systemd ignores them.
 *
 * Call in the main thread, before other threads are created.
 */

/*
 * Sets all variables of the file, replacing existing ones. Returns 0, or -1 after a message on
 * standard error, which contains the line number but never the value.
 */
int env_file_read(const char *path);

#endif
