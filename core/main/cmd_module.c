/* Commands of modules, see struct bb_command. Their options are parsed by tables of fields. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "core/lib/field.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/main/cli.h"
#include "core/main/serve.h"
#include "core/module/api.h"
#include "core/module/engine.h"
#include "core/module/pool.h"
#include "core/module/request.h"
#include "core/store/migrate.h"

#define WORDS_MAX 4
#define NAME_SIZE 64
#define SECRET_MAX 4096 /* bytes */

/* ---- options ---- */

/* The options that were read so far. */
struct options {
    const struct bb_table *fields;
    struct arena *arena;
    json_t *object;
};

/* Writes "first-name" for "firstName" to `out`. */
static void option_name(const char *field, char *out, size_t size)
{
    size_t used = 0;

    for (; *field && used + 2 < size; field++) {
        if (isupper((unsigned char)*field) && used)
            out[used++] = '-';
        out[used++] = (char)tolower((unsigned char)*field);
        if (*field == '_')
            out[used - 1] = '-';
    }
    out[used] = '\0';
}

static int option_complain(const char *option, const char *reason)
{
    fprintf(stderr, "busbar: %s: %s\n", option, reason);
    return -1;
}

/* Returns the option that needs no name: the first required option that is not secret; or NULL. */
static const struct bb_field *option_word(const struct bb_table *fields)
{
    MODULE_EACH (bb_field, field, *fields)
        if ((field->flags & (BB_REQUIRED | BB_SECRET)) == BB_REQUIRED)
            return field;
    return NULL;
}

/* Writes "BUSBAR_CLIENT_SECRET" for "clientSecret", the variable for a secret option. */
static void option_variable(const char *field, char *out, size_t size)
{
    char option[64];

    option_name(field, option, sizeof option);
    snprintf(out, size, "BUSBAR_%s", option);
    for (; *out; out++) {
        *out = (char)toupper((unsigned char)*out);
        if (*out == '-')
            *out = '_';
    }
}

/* Reads a secret option from the environment or stdin, because other users can see argv. */
static const char *option_secret(const struct bb_field *field, struct arena *arena)
{
    struct termios kept, quiet;
    char option[64], variable[80], line[SECRET_MAX];

    option_name(field->name, option, sizeof option);
    option_variable(field->name, variable, sizeof variable);
    const char *value = getenv(variable);

    if (value || !(field->flags & BB_REQUIRED))
        return value;
    bool terminal = isatty(STDIN_FILENO);
    bool hidden = terminal && !tcgetattr(STDIN_FILENO, &kept);

    if (hidden) { /* no echo while the user types */
        quiet = kept;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        hidden = !tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    }
    if (terminal)
        fprintf(stderr, "%s: ", option);
    bool got = fgets(line, sizeof line, stdin);

    if (hidden) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &kept);
        fputc('\n', stderr);
    }
    const char *text = got ? arena_text(arena, line, strcspn(line, "\r\n")) : NULL;

    explicit_bzero(line, sizeof line);
    return text;
}

/* Checks one option and adds it (`text` NULL: the option is absent). Returns 0, or -1 (printed). */
static int option_set(const struct options *options, const struct bb_field *field, const char *text)
{
    struct problems found = {.arena = options->arena};
    char option[NAME_SIZE + 2] = "--";

    option_name(field->name, option + 2, NAME_SIZE);
    if (!text && field->flags & BB_SECRET)
        text = option_secret(field, options->arena);
    if (!text)
        text = field->fallback;
    const char *normal = field_check_text(field, text, options->arena, &found);

    if (!normal && !text && !found.count)
        return 0; /* absent and not required */
    if (!normal)
        return option_complain(option, found.count ? found.list[0].text : "out of memory");
    return json_object_set_new(options->object, field->name, field_json(field, normal))
               ? option_complain(option, "out of memory")
               : 0;
}

/* Reads the option at argv[*at]. The value may be the next word. Returns 0, or -1 (printed). */
static int option_take(const struct options *options, int argc, char **argv, int *at)
{
    const char *arg = argv[*at], *value = NULL;
    const struct bb_field *field = NULL;
    size_t length = strcspn(arg, "=");
    char name[NAME_SIZE];

    MODULE_EACH (bb_field, row, *options->fields) {
        option_name(row->name, name, sizeof name);
        if (!strncmp(arg, "--", 2) && strlen(name) == length - 2 &&
            !strncmp(name, arg + 2, length - 2))
            field = row;
    }
    if (field && arg[length])
        value = arg + length + 1;
    if (!field && (arg[0] != '-' || !arg[1])) {
        field = option_word(options->fields);
        value = arg;
    }
    if (!field)
        return option_complain(arg, "unknown option");
    if (field->flags & BB_SECRET)
        return option_complain(arg, "is secret and cannot be given on the command line, because "
                                    "other users can see it; see --help");
    if (json_object_get(options->object, field->name))
        return option_complain(arg, "is given twice");
    if (!value && field->type == BB_BOOL)
        value = "true";
    if (!value && *at + 1 < argc)
        value = argv[++*at];
    return value ? option_set(options, field, value) : option_complain(arg, "needs a value");
}

/*
 * Parses the options of a module's command by its table. Returns an object, which the caller owns;
 * NULL after an error message. Reads secret options from the environment or standard input.
 */
static json_t *options_read(const struct bb_table *fields, int argc, char **argv)
{
    struct options options = {fields, arena_new(), json_object()};
    int failed = 0;

    if (!options.arena || !options.object)
        failed = option_complain("options", "out of memory");
    for (int i = 0; !failed && i < argc; i++)
        failed = option_take(&options, argc, argv, &i);
    MODULE_EACH (bb_field, field, *fields)
        if (!failed && !json_object_get(options.object, field->name))
            failed = option_set(&options, field, NULL);
    arena_free(options.arena);
    if (!failed)
        return options.object;
    json_decref(options.object);
    return NULL;
}

/* ---- finding a command, and its help ---- */

/* Finds the longest command name at the start of the arguments. Sets *words to its word count. */
static const struct bb_command *cmd_module_find(const struct generation *g, const struct cli *cli,
                                                int *words, struct core_module **module)
{
    const struct bb_command *found = NULL;
    char name[128] = "";
    size_t used = 0;

    for (int i = 0; i < cli->argc && i < WORDS_MAX && cli->argv[i][0] != '-'; i++) {
        used +=
            (size_t)snprintf(name + used, sizeof name - used, "%s%s", i ? " " : "", cli->argv[i]);
        if (used >= sizeof name)
            break;
        for (size_t k = 0; k < g->module_count; k++)
            MODULE_EACH (bb_command, command, g->modules[k].descriptor->commands)
                if (!strcmp(command->name, name)) {
                    found = command;
                    *words = i + 1;
                    *module = &g->modules[k];
                }
    }
    return found;
}

static void cmd_module_print_help(const struct bb_command *command)
{
    const struct bb_field *word = option_word(&command->options);
    char name[80] = "";

    if (word)
        option_variable(word->name, name, sizeof name);
    printf("usage: busbar [-c FILE] [--env-file FILE] %s%s%s%s\n\n%s\n", command->name,
           word ? " " : "", word ? name + strlen("BUSBAR_") : "",
           command->options.count ? " [options]" : "", command->help ? command->help : "");
    MODULE_EACH (bb_field, field, command->options) {
        const char *help = field->help ? field->help : "";

        if (field->flags & BB_SECRET) {
            option_variable(field->name, name, sizeof name);
            printf("  $%s%s\n      %s\n", name,
                   field->flags & BB_REQUIRED ? ", or a line of standard input" : "", help);
            continue;
        }
        option_name(field->name, name, sizeof name);
        printf("  --%s%s%s\n      %s", name, field->type == BB_BOOL ? "" : " VALUE",
               field->flags & BB_REQUIRED ? " (required)" : "", help);
        for (const char *const *choice = field->choices; choice && *choice; choice++)
            printf("%s%s", choice == field->choices ? " One of: " : ", ", *choice);
        if (field->fallback)
            printf(" (default: %s)", field->fallback);
        putchar('\n');
    }
}

/* ---- running a command on one fiber of an engine without a listener ---- */

enum { COMMAND_MS = 30000, COMMAND_TICK_MS = 5 };

struct command_run {
    struct core_request rq; /* must be first */
    const struct bb_command *command;
    int status;
    struct timer timer; /* after the end of the command, until its hooks and tasks have ended */
    int64_t until_ms;
};

static void command_entry(struct core_request *rq)
{
    struct command_run *run = (struct command_run *)(void *)rq;

    run->status = run->command->run(&rq->pub);
}

/* Stops the loop when no other request is left: committed hooks, and functions of bb_run(). */
static void command_tick(struct timer *timer)
{
    struct command_run *run = BB_CONTAINER_OF(timer, struct command_run, timer);
    struct loop *loop = run->rq.loop;

    loop->stop = loop->requests == 1 && loop_quiet(loop);
    if (!loop->stop && loop->now_ms >= run->until_ms) {
        run->status =
            cli_fail("%zu hooks or tasks of the command have not ended", loop->requests - 1);
        loop->stop = true;
    }
    if (!loop->stop)
        timer_set(&loop->timers, timer, loop->now_ms + COMMAND_TICK_MS);
}

static void command_ended(struct core_request *rq)
{
    struct command_run *run = (struct command_run *)(void *)rq;
    const struct response *answer = &rq->response;
    json_t *body =
        answer->body ? json_loadb(answer->body, answer->length, JSON_DECODE_ANY, NULL) : NULL;
    const char *message = json_string_value(json_object_get(body, "message"));

    if (answer->status >= 400 && message)
        fprintf(stderr, "busbar: %s\n", message);
    json_decref(body);
    run->timer.fire = command_tick;
    run->until_ms = rq->loop->now_ms + COMMAND_MS;
    command_tick(&run->timer);
}

/* ---- commands that may be interrupted ---- */

static const int interrupts[] = {SIGINT, SIGTERM};
static atomic_bool *interrupted; /* the flag that the signal handler sets */

static void cmd_module_on_interrupt(int signal)
{
    (void)signal;
    atomic_store(interrupted, true);
}

/*
 * Makes the first interrupt set generation->superseded, and the second one end the process. If
 * `generation` is NULL, the first interrupt ends the process. Ignored signals stay ignored.
 */
static void cmd_module_hear_interrupts(struct generation *generation)
{
    void (*heard)(int) = generation ? cmd_module_on_interrupt : SIG_DFL;
    struct sigaction before,
        next = {.sa_handler = heard, .sa_flags = (int)SA_RESETHAND | SA_RESTART};

    if (generation)
        interrupted = &generation->superseded;
    for (size_t i = 0; i < sizeof interrupts / sizeof interrupts[0]; i++)
        if (!sigaction(interrupts[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(interrupts[i], &next, NULL);
}

/* Opens the modules and runs the command on an engine. Frees the generation and the options. */
static int cmd_module_run(struct generation *g, struct core_module *module,
                          const struct bb_command *command, json_t *options)
{
    static struct host_settings host; /* the generation keeps its address */
    struct engine engine = {.generation = g};
    bool lasts = command->flags & BB_COMMAND_LONG;
    struct setting_problems problems = {0};
    struct migrate_report report;
    struct command_run *run = NULL;
    int status = CLI_FAILED;

    if (command->flags & BB_COMMAND_ALONE) {
        g->api = module->handle.host.api = &core_api;
    } else if (generation_lacks(g, &problems) || generation_open(g, &core_api, &problems)) {
        setting_problems_print(&problems, stderr);
        setting_problems_free(&problems);
        json_decref(options);
        generation_destroy(g);
        return CLI_FAILED;
    }
    host = *g->host;
    /* enough, because no fiber of a command waits for another one while it uses a connection */
    host.database.read_connections = host.database.write_connections = 1;
    host.database.unit_connections = host.database.long_connections = 1;
    host.database.transaction_connections = 1;
    g->host = &host;
    pthread_mutex_init(&engine.lock, NULL);
    if (lasts) {
        log_level(BB_WARN, false);
        setvbuf(stdout, NULL, _IOLBF, 0); /* a pipe gets each line of the progress at once */
        cmd_module_hear_interrupts(g);
    }
    if (!engine_init(&engine, 1) && (g->pools = work_pools_new(g)))
        run = request_make(sizeof *run, REQUEST_COMMAND, &engine.loops[0], g);
    if (run) {
        run->status = CLI_FAILED; /* stays if the command runs out of memory or calls bb_end() */
        run->command = command;
        run->rq.name = command->name;
        run->rq.entry = command_entry;
        run->rq.ended = command_ended;
        run->rq.body = options;
        if (!lasts)
            run->rq.deadline_ms = clock_mono_ms() + COMMAND_MS;
        request_enter(&run->rq, &module->handle.host);
        request_schedule(&run->rq);
        loop_run(&engine.loops[0]);
        status = run->status;
        /* the cause may be that the database is not migrated */
        if (status && run->rq.response.status >= 500 && engine.loops[0].pg &&
            migrate_run(g, false, NULL, NULL, &report) != MIGRATE_DONE)
            fprintf(stderr, "busbar: %s\n", report.problem);
        request_free(&run->rq);
    } else {
        json_decref(options);
    }
    if (lasts)
        cmd_module_hear_interrupts(NULL); /* engine_free() frees the generation and its flag */
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
        json_t *options = options_read(&command->options, cli->argc - words, cli->argv + words);

        if (options)
            return cmd_module_run(g, module, command, options);
        fprintf(stderr, "`busbar %s --help` lists the options.\n", command->name);
    }
    generation_destroy(g);
    return help ? CLI_DONE : CLI_USAGE;
}
