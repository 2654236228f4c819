/*
 * The command line: `busbar [-c FILE] [--env-file FILE] COMMAND [options]`. The host's commands are
 * rows of a table; any other name is looked for among the commands of the modules that the
 * configuration loads. Exit statuses: 0 done, 1 failed, 2 not understood.
 */
#ifndef CORE_CLI_H
#define CORE_CLI_H

#include <jansson.h>

#include "core/generation/generation.h"

enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli {
    const char *conf; /* path of the settings file */
    bool conf_given;  /* by -c: it goes before $BUSBAR_CONF */
    int argc;         /* what follows the command's name */
    char **argv;
};

struct cli_command {
    const char *name;
    int (*run)(const struct cli *cli);
    const char *summary; /* one line for the list */
    const char *help;    /* what more there is to say */
    const char
        *words; /* what may follow it, for the usage; NULL: nothing but -c, --env-file and --help */
};

extern const struct cli_command cli_commands[];
extern const size_t cli_command_count;

/* Everything that main() does once the process is set up. Returns the exit status. */
int cli_main(int argc, char **argv);

/* Says what was not understood, and where to look. Returns CLI_USAGE. */
int cli_misused(const char *reason, const char *arg);

/* NULL: the host has no such command. */
const struct cli_command *cli_find(const char *name);

int cmd_serve(const struct cli *cli);
int cmd_reload(const struct cli *cli);
int cmd_status(const struct cli *cli);
int cmd_migrate(const struct cli *cli);
int cmd_pause(const struct cli *cli);
int cmd_resume(const struct cli *cli);
int cmd_check(const struct cli *cli);
int cmd_settings(const struct cli *cli);
int cmd_inspect(const struct cli *cli);
int cmd_modcheck(const struct cli *cli);
int cmd_metrics(const struct cli *cli);
int cmd_version(const struct cli *cli);
int cmd_help(const struct cli *cli);

/* A command of a module; argv begins with the command's words. */
int cmd_module(const struct cli *cli);

/* Name and help of all commands of a generation's modules, as cmd_help() lists them. */
void cmd_module_list(const struct generation *generation);

/* For commands that read modules' files without loading them: a file whose tables point outside of
 * it ends the process with a word about that. */
void cli_guard_files(void);

/*
 * Loads and checks the configuration and prints its errors; NULL if there are any. `warnings`:
 * prints them too. Only `serve` and `check` do: a start runs other commands first, which would
 * repeat them.
 */
struct generation *cli_generation(const struct cli *cli, bool warnings);

/* The same with the modules' files only read: nothing of the modules may be called. */
struct generation *cli_validated(const struct cli *cli);

/* Prints what the modules need of the configuration and do not have; true: there is any. */
bool cli_lacks(const struct generation *generation);

/*
 * Reads the options of a module's command to an object, as its table says; the caller's. NULL after
 * a message on standard error. Secret ones come from the environment or standard input.
 */
json_t *cli_options(const struct bb_table *fields, int argc, char **argv);

/* The option that may be given as a bare word: the first required one. NULL: there is none. */
const struct bb_field *cli_word(const struct bb_table *fields);

/* "first-name" of "firstName", into `out` of `size` bytes. */
void cli_option_name(const char *field, char *out, size_t size);

/* "BUSBAR_CLIENT_SECRET" of "clientSecret", where a secret option is looked for. */
void cli_variable_name(const char *field, char *out, size_t size);

/* The value of a secret option, in the arena; NULL: none. Asks only for required ones. */
const char *cli_secret(const struct bb_field *field, struct arena *arena);

#endif
