/* Commands of modules, see struct bb_command. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/main/api.h"
#include "core/main/cli.h"
#include "core/main/reload.h"
#include "core/main/serve.h"
#include "core/module/engine.h"
#include "core/module/generation.h"
#include "core/module/request.h"
#include "core/store/migrate.h"

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

/* Finds the longest command name at the beginning of the arguments; sets *words to its length. */
static const struct bb_command *cmd_module_find(const struct generation *g, const struct cli *cli,
                                                int *words, struct core_module **module)
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

static void cmd_module_print_option(const struct bb_field *field)
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

static void cmd_module_print_help(const struct bb_command *command)
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
        cmd_module_print_option(&options[i]);
}

/* ---- running a command on one fiber of an engine without a listener ---- */

enum { COMMAND_MS = 30000 };

struct command_run {
    struct core_request rq; /* first */
    const struct bb_command *command;
    int status;
};

static void command_entry(struct core_request *rq)
{
    struct command_run *run = (struct command_run *)(void *)rq;

    run->status = run->command->run(&rq->pub);
}

static void command_ended(struct core_request *rq)
{
    const struct response *answer = &rq->response;
    json_t *body =
        answer->body ? json_loadb(answer->body, answer->length, JSON_DECODE_ANY, NULL) : NULL;
    const char *message = json_string_value(json_object_get(body, "message"));

    if (answer->status >= 400 && message)
        fprintf(stderr, "busbar: %s\n", message);
    json_decref(body);
    rq->loop->stop = true;
}

/* ---- commands that may be interrupted ---- */

static const int interrupts[] = {SIGINT, SIGTERM};
static atomic_bool *interrupted; /* set before the handlers are installed */

static void cmd_module_on_interrupt(int signal)
{
    (void)signal;
    atomic_store(interrupted, true);
}

/* Handles each signal once: the second one ends the process. Ignored signals stay ignored. */
static void cmd_module_hear_interrupts(struct generation *generation)
{
    struct sigaction before,
        heard = {.sa_handler = cmd_module_on_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART};

    interrupted = &generation->superseded;
    sigemptyset(&heard.sa_mask);
    for (size_t i = 0; i < sizeof interrupts / sizeof interrupts[0]; i++)
        if (!sigaction(interrupts[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(interrupts[i], &heard, NULL);
}

/* From now on signals end the process, because the generation ends. */
static void cmd_module_forget_interrupts(void)
{
    struct sigaction before;

    for (size_t i = 0; i < sizeof interrupts / sizeof interrupts[0]; i++)
        if (!sigaction(interrupts[i], NULL, &before) &&
            before.sa_handler == cmd_module_on_interrupt)
            signal(interrupts[i], SIG_DFL);
}

static int cmd_module_run_command(struct engine *engine, struct core_module *module,
                                  const struct bb_command *command, json_t *options)
{
    struct command_run *run = NULL;
    struct migrate_report report;

    if (!engine_init(engine, 1) && !reload_create_pools(engine->generation))
        run = request_make(sizeof *run, REQUEST_COMMAND, &engine->loops[0], engine->generation);
    if (!run) {
        json_decref(options);
        return 1;
    }
    run->status = 1; /* if the command ends in bb_end() or without memory */
    run->command = command;
    run->rq.name = command->name;
    run->rq.entry = command_entry;
    run->rq.ended = command_ended;
    run->rq.body = options;
    if (!(command->flags & BB_COMMAND_LONG))
        run->rq.deadline_ms = clock_mono_ms() + COMMAND_MS;
    request_enter(&run->rq, &module->handle.host);
    request_schedule(&run->rq);
    loop_run(&engine->loops[0]);
    int status = run->status;

    /* the database may not be migrated */
    if (status && run->rq.response.status >= 500 && *engine->database_url &&
        migrate_run(engine->generation, false, NULL, NULL, &report) != MIGRATE_DONE)
        fprintf(stderr, "busbar: %s\n", report.problem);
    request_free(&run->rq);
    return status;
}

/* Opens the modules and runs the command on an engine. Takes the generation and the options. */
static int cmd_module_run(struct generation *g, struct core_module *module,
                          const struct bb_command *command, json_t *options)
{
    struct engine engine = {.generation = g};
    bool lasts = command->flags & BB_COMMAND_LONG;
    struct setting_problems problems = {0};

    if (command->flags & BB_COMMAND_ALONE) {
        g->api = module->handle.host.api = &core_api;
    } else if (generation_lacks(g, &problems) || generation_open(g, &core_api, &problems)) {
        setting_problems_print(&problems, stderr);
        setting_problems_free(&problems);
        json_decref(options);
        generation_destroy(g);
        return CLI_FAILED;
    }
    pthread_mutex_init(&engine.lock, NULL);
    if (lasts) {
        log_level(BB_WARN, false);
        setvbuf(stdout, NULL, _IOLBF, 0); /* a pipe gets each line of the progress at once */
        cmd_module_hear_interrupts(g);
    }
    int status = cmd_module_run_command(&engine, module, command, options);

    if (lasts)
        cmd_module_forget_interrupts();
    engine_free(&engine);
    return status;
}

int cmd_module(const struct cli *cli)
{
    struct generation *g = cli_generation(cli, false);
    struct core_module *module = NULL;
    int words = 0;
    const struct bb_command *command = g ? cmd_module_find(g, cli, &words, &module) : NULL;

    if (!command)
        fprintf(stderr, "busbar: unknown command %s%s\n`busbar help` lists the commands.\n",
                cli->argv[0], g ? "" : " (commands of modules need a valid configuration)");
    if (!g)
        return CLI_FAILED;
    bool help = false;

    for (int i = 0; command && i < cli->argc; i++)
        help = help || !strcmp(cli->argv[i], "--help") || !strcmp(cli->argv[i], "-h");

    if (help) {
        cmd_module_print_help(command);
    } else if (command) {
        json_t *options = cli_options(&command->options, cli->argc - words, cli->argv + words);

        if (options)
            return cmd_module_run(g, module, command, options);
        fprintf(stderr, "`busbar %s --help` lists the options.\n", command->name);
    }
    generation_destroy(g);
    return help ? CLI_DONE : CLI_USAGE;
}
