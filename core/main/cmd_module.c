/* Commands of modules, see struct bb_command. */
#include <stdio.h>
#include <string.h>

#include "core/main/api.h"
#include "core/main/cli.h"
#include "core/main/serve.h"
#include "core/module/engine.h"
#include "core/module/generation.h"

#define WORDS_MAX 4

void cmd_module_list(const struct generation *generation)
{
    for (size_t i = 0; i < generation->module_count; i++) {
        const struct bb_table *table = &generation->modules[i].descriptor->commands;
        const struct bb_command *rows = MODULE_ROWS(bb_command, *table);

        for (size_t k = 0; k < table->count; k++)
            printf("  %-18s %s\n", rows[k].name, rows[k].help ? rows[k].help : "");
    }
}

/*
 * Finds the longest command name at the beginning of the arguments; *words is its number of words.
 */
static const struct bb_command *find(const struct generation *g, const struct cli *cli, int *words,
                                     struct core_module **module)
{
    const struct bb_command *found = NULL;
    char name[128] = "";
    size_t used = 0;

    for (int i = 0; i < cli->argc && i < WORDS_MAX && cli->argv[i][0] != '-'; i++) {
        struct core_module *owner;

        used +=
            (size_t)snprintf(name + used, sizeof name - used, "%s%s", i ? " " : "", cli->argv[i]);
        if (used >= sizeof name)
            break;
        const struct bb_command *command = generation_command(g, name, &owner);

        if (command) {
            found = command;
            *words = i + 1;
            *module = owner;
        }
    }
    return found;
}

static void print_option(const struct bb_field *field)
{
    const char *help = field->help ? field->help : "";
    char name[80];

    if (field->flags & BB_SECRET) {
        cli_variable_name(field->name, name, sizeof name);
        printf("  $%s%s\n      %s\n", name,
               field->flags & BB_REQUIRED ? ", or a line of standard input" : "", help);
        return;
    }
    cli_option_name(field->name, name, sizeof name);
    printf("  --%s%s%s\n      %s", name, field->type == BB_BOOL ? "" : " VALUE",
           field->flags & BB_REQUIRED ? " (required)" : "", help);
    for (const char *const *choice = field->choices; choice && *choice; choice++)
        printf("%s%s", choice == field->choices ? " One of: " : ", ", *choice);
    if (field->fallback)
        printf(" (default: %s)", field->fallback);
    putchar('\n');
}

static void print_help(const struct bb_command *command)
{
    const struct bb_field *options = MODULE_ROWS(bb_field, command->options);
    const struct bb_field *word = cli_word(&command->options);
    char name[80] = "";

    if (word)
        cli_variable_name(word->name, name, sizeof name);
    printf("usage: busbar [-c FILE] [--env-file FILE] %s%s%s%s\n\n%s\n", command->name,
           word ? " " : "", word ? name + strlen("BUSBAR_") : "",
           command->options.count ? " [options]" : "", command->help ? command->help : "");
    for (size_t i = 0; i < command->options.count; i++)
        print_option(&options[i]);
}

static bool wants_help(const struct cli *cli)
{
    for (int i = 0; i < cli->argc; i++)
        if (!strcmp(cli->argv[i], "--help") || !strcmp(cli->argv[i], "-h"))
            return true;
    return false;
}

/* Opens the modules and runs the command on an engine. Takes the generation and the options. */
static int run(struct generation *g, struct core_module *module, const struct bb_command *command,
               json_t *options)
{
    struct setting_problems problems = {0};

    if (!generation_lacks(g, &problems) && !generation_open(g, &core_api, &problems))
        return engine_command(g, module, command, options);
    setting_problems_print(&problems, stderr);
    setting_problems_free(&problems);
    json_decref(options);
    generation_destroy(g);
    return CLI_FAILED;
}

/* Takes the generation. */
static int run_found(const struct cli *cli, struct generation *g, int words,
                     struct core_module *module, const struct bb_command *command)
{
    json_t *options = NULL;
    int status = CLI_DONE;

    if (wants_help(cli)) {
        print_help(command);
    } else {
        options = cli_options(&command->options, cli->argc - words, cli->argv + words);
        status = CLI_USAGE;
    }
    if (options)
        return run(g, module, command, options);
    if (status)
        fprintf(stderr, "`busbar %s --help` lists the options.\n", command->name);
    generation_destroy(g);
    return status;
}

int cmd_module(const struct cli *cli)
{
    struct generation *g = cli_generation(cli, false);
    struct core_module *module = NULL;
    int words = 0;
    const struct bb_command *command = g ? find(g, cli, &words, &module) : NULL;

    if (command)
        return run_found(cli, g, words, module, command);
    fprintf(stderr, "busbar: unknown command %s%s\n`busbar help` lists the commands.\n",
            cli->argv[0], g ? "" : " (commands of modules need a valid configuration)");
    if (!g)
        return CLI_FAILED;
    generation_destroy(g);
    return CLI_USAGE;
}
