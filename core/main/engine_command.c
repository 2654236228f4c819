/* Runs a module's command: an engine without a listener, with one fiber. */
#include <signal.h>
#include <stdio.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/main/reload_swap.h"
#include "core/main/serve.h"
#include "core/module/engine.h"
#include "core/module/request.h"
#include "core/store/migrate.h"

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

static void print_answer(const struct response *answer)
{
    json_t *body =
        answer->body ? json_loadb(answer->body, answer->length, JSON_DECODE_ANY, NULL) : NULL;
    const char *message = json_string_value(json_object_get(body, "message"));

    if (answer->status >= 400 && message)
        fprintf(stderr, "busbar: %s\n", message);
    json_decref(body);
}

/* Prints that the database is not migrated, if that is why the command failed. */
static void explain(const struct engine *engine, const struct core_request *rq)
{
    struct migrate_report report;

    if (rq->response.status >= 500 && *engine->database_url &&
        migrate_run(engine->generation, false, NULL, NULL, &report) != MIGRATE_DONE)
        fprintf(stderr, "busbar: %s\n", report.problem);
}

static void command_ended(struct core_request *rq)
{
    print_answer(&rq->response);
    rq->loop->stop = true;
}

/* ---- commands that may be interrupted ---- */

static const int interrupts[] = {SIGINT, SIGTERM};
static atomic_bool *interrupted; /* set before the handlers are installed */

static void on_interrupt(int signal)
{
    (void)signal;
    atomic_store(interrupted, true);
}

/* Handles each signal once: the second one ends the process. Ignored signals stay ignored. */
static void hear_interrupts(struct generation *generation)
{
    struct sigaction before,
        heard = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART};

    interrupted = &generation->superseded;
    sigemptyset(&heard.sa_mask);
    for (size_t i = 0; i < sizeof interrupts / sizeof interrupts[0]; i++)
        if (!sigaction(interrupts[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(interrupts[i], &heard, NULL);
}

/* The generation ends: later signals end the process. */
static void forget_interrupts(void)
{
    struct sigaction before;

    for (size_t i = 0; i < sizeof interrupts / sizeof interrupts[0]; i++)
        if (!sigaction(interrupts[i], NULL, &before) && before.sa_handler == on_interrupt)
            signal(interrupts[i], SIG_DFL);
}

static int run_command(struct engine *engine, struct core_module *module,
                       const struct bb_command *command, json_t *options)
{
    struct command_run *run = NULL;

    if (!engine_init(engine, 1) && !swap_pools(engine->generation))
        run = request_make(sizeof *run, REQUEST_COMMAND, &engine->loops[0], engine->generation);
    if (!run) {
        json_decref(options);
        return 1;
    }
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

    if (status)
        explain(engine, &run->rq);
    request_free(&run->rq);
    return status;
}

int engine_command(struct generation *generation, struct core_module *module,
                   const struct bb_command *command, json_t *options)
{
    struct engine engine = {.generation = generation};
    bool lasts = command->flags & BB_COMMAND_LONG;

    pthread_mutex_init(&engine.lock, NULL);
    if (lasts) {
        log_level(BB_WARN, false);
        hear_interrupts(generation);
    }
    int status = run_command(&engine, module, command, options);

    if (lasts)
        forget_interrupts();
    engine_free(&engine);
    return status;
}
