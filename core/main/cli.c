#include "core/main/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/main/metrics.h"
#include "core/module/module_validate.h"
#include "core/store/pg_connect.h"

#ifndef BUSBAR_CONF
#define BUSBAR_CONF "/usr/local/etc/busbar/busbar.yaml"
#endif

struct cli_command {
    const char *name;
    int (*run)(const struct cli *cli);
    const char *summary; /* one line for the list */
    const char *help;    /* further explanation */
    /*
     * The words that may follow, as shown in the usage; NULL: only -c, --env-file and --help. If
     * `words` is a single option, such as "[--json]", other words are refused before `run`.
     */
    const char *words;
};

#define COMMAND(name, run, summary, words, help)                                                   \
    {                                                                                              \
        name, run, summary, help, words                                                            \
    }
#include "core/main/commands.h"

enum { COMMANDS = sizeof commands / sizeof commands[0] };

/* Returns the command of this name, which may have two words; NULL if there is none. */
static const struct cli_command *cli_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

/*
 * Prints the usage of the commands of two words that begin with this word. Returns whether there
 * are any. `out` may be NULL.
 */
static bool cli_print_group(const char *word, FILE *out)
{
    size_t length = strlen(word);
    bool found = false;

    for (size_t i = 0; i < COMMANDS; i++) {
        if (strncmp(commands[i].name, word, length) != 0 || commands[i].name[length] != ' ')
            continue;
        if (out)
            fprintf(out, "%s busbar %s %s\n", found ? "      " : "usage:", commands[i].name,
                    commands[i].words);
        found = true;
    }
    if (found && out)
        fprintf(out, "`busbar %s COMMAND --help` prints more.\n", word);
    return found;
}

bool cli_is_command(const char *name)
{
    return cli_find(name) || cli_print_group(name, NULL);
}

/*
 * ---- --env-file: sets the environment variables of a file ----
 *
 * So a command uses the same configuration as the service. The file has the syntax of
 * EnvironmentFile= in systemd: a line is NAME=value; blank lines and lines that begin with # or ;
 * are ignored. At the beginning of a value, and after a closing quote, ' and " quote the following
 * text, which may span lines; elsewhere they are ordinary characters. Outside of '', a backslash
 * makes the next character ordinary (inside of "", only ", \, ` and $), and at the end of a line it
 * continues the value in the next line. Other lines are errors, although systemd ignores them.
 */

/* The position in the text of the file. */
struct place {
    char *at;
    unsigned line;
};

static bool env_file_is_end(char c)
{
    return c == '\n' || c == '\r';
}

/* Copies the character after a backslash to `out`, unless it is a newline. Returns the new end. */
static char *env_file_take_escaped(struct place *place, char quote, char *out)
{
    char c = place->at[1];

    if (!c)
        return out;
    place->at++;
    if (c == '\r' && place->at[1] == '\n')
        place->at++;
    if (env_file_is_end(c)) {
        place->line++;
        return out;
    }
    if (quote && !strchr("\"\\`$", c))
        *out++ = '\\';
    *out++ = c;
    return out;
}

/* Sets the variable that begins at place->at. Returns NULL, or the error. */
static const char *env_file_take_variable(struct place *place)
{
    char *name = place->at;
    size_t length = 0;

    while (isalnum((unsigned char)name[length]) || name[length] == '_')
        length++;
    if (!length || name[length] != '=' || isdigit((unsigned char)*name))
        return "is not NAME=value";
    name[length] = '\0';
    place->at = name + length + 1;
    char *value = place->at, *out = value, *kept = value; /* blanks after `kept` are removed */
    char quote = 0;     /* the quotation mark that is open; 0: none */
    bool plain = false; /* the preceding text is unquoted, so quotes are ordinary */

    for (; *place->at && (quote || !env_file_is_end(*place->at)); place->at++) {
        char c = *place->at;
        bool opens = !quote && !plain && (c == '\'' || c == '"');
        bool matters = quote || (c != ' ' && c != '\t');

        if (c == '\\' && quote != '\'') {
            out = kept = env_file_take_escaped(place, quote, out);
            plain = !quote;
            continue;
        }
        place->line += c == '\n';
        if (opens || c == quote) {
            quote = opens ? c : '\0';
        } else if (matters || plain) {
            plain = !quote;
            *out++ = c;
        }
        if (matters)
            kept = out;
    }
    if (*place->at)
        place->line += *place->at++ == '\n';
    *kept = '\0';
    if (quote)
        return "has an unterminated quote";
    return setenv(name, value, 1) ? "out of memory" : NULL;
}

/*
 * Sets the environment variables that the file contains. Returns 0, or -1 after a message on
 * standard error, which contains the line number but never the value.
 */
static int env_file_read(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    unsigned number = 0;
    const char *wrong = NULL;
    ssize_t length = file ? getdelim(&text, &room, '\0', file) : -1;
    int failed = length < 0 && !(file && feof(file)) ? errno : 0;
    struct place place = {text, 1};

    if (length > 0 && strlen(text) < (size_t)length)
        wrong = "has a zero byte";
    while (length > 0 && !wrong && *place.at) {
        number = place.line;
        if (*place.at == '#' || *place.at == ';')
            place.at += strcspn(place.at, "\r\n");
        else if (*place.at == ' ' || *place.at == '\t' || env_file_is_end(*place.at))
            place.line += *place.at++ == '\n';
        else
            wrong = env_file_take_variable(&place);
    }
    if (text)
        explicit_bzero(text, room);
    free(text);
    if (file)
        fclose(file);
    if (failed)
        fprintf(stderr, "busbar: %s: cannot be read: %s\n", path, strerror(failed));
    else if (wrong && number)
        fprintf(stderr, "busbar: %s:%u: %s\n", path, number, wrong);
    else if (wrong)
        fprintf(stderr, "busbar: %s: %s\n", path, wrong);
    pg_clean_environment();
    return failed || wrong ? -1 : 0;
}

/* ---- the commands of the host ---- */

static void cli_print_usage(FILE *out)
{
    fputs("usage: busbar [-c FILE] [--env-file FILE] COMMAND [options]\n", out);
}

/* Prints the host's commands, then the configured modules' commands, if they can be loaded. */
int cmd_help(const struct cli *cli)
{
    cli_print_usage(stdout);
    printf("\n  -c, --config FILE   settings file (or $BUSBAR_CONF; currently %s)\n", cli->conf);
    puts("      --env-file FILE  variables of the service, as NAME=value\n\ncommands:");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-18s %s\n", commands[i].name, commands[i].summary);
    struct setting_problems problems = {0};
    struct generation *g =
        access(cli->conf, R_OK) ? NULL : generation_check(cli->conf, 0, &problems);

    for (size_t i = 0; g && i < g->module_count; i++)
        MODULE_EACH (bb_command, row, g->modules[i].descriptor->commands)
            printf("  %-18s %s\n", row->name, row->help ? row->help : "");
    generation_destroy(g);
    setting_problems_free(&problems);
    puts("\n`busbar COMMAND --help` prints more.");
    return CLI_DONE;
}

struct generation *cli_generation(const struct cli *cli, bool warnings)
{
    struct setting_problems problems = {0};
    struct generation *g = generation_check(cli->conf, 1, &problems);

    if (warnings)
        setting_problems_print(&problems, stderr);
    else
        setting_lines_print(problems.lines, problems.count, "", stderr);
    if (g && problems.count) {
        generation_destroy(g);
        g = NULL;
    }
    setting_problems_free(&problems);
    return g;
}

bool cli_lacks(const struct generation *g)
{
    struct setting_problems problems = {0};
    bool lacks = generation_lacks(g, &problems);

    setting_problems_print(&problems, stderr);
    setting_problems_free(&problems);
    return lacks;
}

static bool cli_is_help(const char *arg)
{
    return !strcmp(arg, "--help") || !strcmp(arg, "-h");
}

int cli_misused(const char *reason, const char *arg)
{
    fprintf(stderr, "busbar: %s %s\n", reason, arg);
    cli_print_usage(stderr);
    fputs("`busbar help` lists the commands.\n", stderr);
    return CLI_USAGE;
}

int cli_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("busbar: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return CLI_FAILED;
}

/* Returns the settings file named by the environment, or the built-in default. */
static const char *cli_conf_default(void)
{
    const char *named = getenv("BUSBAR_CONF");

    return named && *named ? named : BUSBAR_CONF;
}

/* The options of all commands. */
static const char *const common[] = {"--config", "-c", "--env-file"};

/* Uses the file of an option of `common`. Returns 0, or CLI_FAILED. */
static int cli_take_file(struct cli *cli, const char *option, const char *path)
{
    if (strcmp(option, "--env-file") != 0) {
        cli->conf = path;
        cli->conf_given = true;
    } else if (env_file_read(path)) {
        return CLI_FAILED;
    } else if (!cli->conf_given) {
        cli->conf = cli_conf_default();
    }
    return 0;
}

/*
 * Parses an option of `common` at argv[*at]. The file is the next word or follows a =. Returns 0 if
 * the option is valid, an exit status if it is not, or -1 if the word is not such an option.
 */
static int cli_take_common(struct cli *cli, int argc, char **argv, int *at)
{
    const char *arg = argv[*at];

    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        size_t length = strlen(common[i]);

        if (strncmp(arg, common[i], length) != 0)
            continue;
        if (arg[length] == '=' && length > 2)
            return cli_take_file(cli, common[i], arg + length + 1);
        if (arg[length])
            continue;
        if (*at + 1 == argc)
            return cli_misused("a file must follow", arg);
        return cli_take_file(cli, common[i], argv[++*at]);
    }
    return -1;
}

static bool cli_accepts(const char *words, const char *word)
{
    size_t length = strlen(word);

    if (!words || strncmp(words, "[--", 3) != 0 || strcspn(words, "]") + 1 < strlen(words))
        return words != NULL;
    return !strncmp(words + 1, word, length) && !strcmp(words + 1 + length, "]");
}

/* Parses -c, --env-file and --help, and passes other words to the command if it accepts them. */
static int cli_run_command(struct cli *cli)
{
    char two_words[64];

    snprintf(two_words, sizeof two_words, "%s %s", cli->argv[0], cli->argc > 1 ? cli->argv[1] : "");
    const struct cli_command *command = cli_find(two_words);
    int kept = 0, words = command ? 2 : 1;

    if (!command)
        command = cli_find(cli->argv[0]);
    if (!command && cli_print_group(cli->argv[0], NULL)) {
        const char *word = cli->argc > 1 ? cli->argv[1] : "";
        bool help = cli_is_help(word) || !strcmp(word, "help");

        if (!help)
            fprintf(stderr, "busbar: %s %s\n", *word ? "unknown command" : "a command must follow",
                    *word ? two_words : cli->argv[0]);
        cli_print_group(cli->argv[0], help ? stdout : stderr);
        return help ? CLI_DONE : CLI_USAGE;
    }
    if (!command)
        return cmd_module(cli);
    cli->argc -= words;
    cli->argv += words;
    for (int i = 0; i < cli->argc; i++) {
        if (cli_is_help(cli->argv[i])) {
            printf("usage: busbar [-c FILE] [--env-file FILE] %s%s%s\n\n%s: %s.\n%s\n",
                   command->name, command->words ? " " : "", command->words ? command->words : "",
                   command->name, command->summary, command->help);
            return CLI_DONE;
        }
        int taken = cli_take_common(cli, cli->argc, cli->argv, &i);

        if (taken > 0)
            return taken;
        if (taken < 0 && !cli_accepts(command->words, cli->argv[i]))
            return cli_misused("unknown option", cli->argv[i]);
        if (taken < 0)
            cli->argv[kept++] = cli->argv[i];
    }
    cli->argc = kept;
    cli->name = command->name;
    return command->run(cli);
}

int cli_main(int argc, char **argv)
{
    struct cli cli = {.conf = cli_conf_default()};

    module_names_reserve(cli_is_command, host_metric_named);
    for (int i = 1; i < argc; i++) {
        int taken = cli_take_common(&cli, argc, argv, &i);

        if (taken > 0)
            return taken;
        if (!taken)
            continue;
        if (cli_is_help(argv[i]))
            return cmd_help(&cli);
        if (!strcmp(argv[i], "--version"))
            return cmd_version(&cli);
        if (argv[i][0] == '-')
            return cli_misused("unknown option", argv[i]);
        cli.argc = argc - i;
        cli.argv = argv + i;
        return cli_run_command(&cli);
    }
    cli_print_usage(stderr);
    fputs("`busbar help` lists the commands.\n", stderr);
    return CLI_USAGE;
}
