#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/guard.h"
#include "core/lib/log.h"
#include "core/lib/startup_watchdog.h"
#include "core/lib/supervised.h"
#include "core/main/api.h"
#include "core/main/cli.h"
#include "core/main/last_good_settings.h"
#include "core/main/serve.h"
#include "core/main/stop.h"
#include "core/module/engine.h"

static int open_log(const struct generation *g)
{
    enum bb_level level = log_level_of(settings_text(g->settings, "log", "level"));
    bool json = !strcmp(settings_text(g->settings, "log", "format"), "json");
    const char *file = settings_text(g->settings, "log", "file");

    supervised_log(json);
    if (!*file)
        return log_open(STDERR_FILENO, level, json);
    const char *path = *file == '/'
                           ? file
                           : arena_format(g->arena, "%s/%s", settings_directory(g->settings), file);

    return path ? log_open_file(path, level, json) : -1;
}

static int open_modules(struct generation *g)
{
    struct setting_problems problems = {0};
    int failed = generation_open(g, &core_api, &problems);

    setting_problems_print(&problems, stderr);
    setting_problems_free(&problems);
    return failed;
}

/* Logs the crash of the previous worker, and the modules that are disabled because of it. */
static void tell_of_crash(const struct generation *g)
{
    const struct crash_note *last = &supervised_history()->last;

    if (*last->how)
        log_line(BB_WARN, "the previous worker exited", "how", last->how, "module",
                 *last->module ? last->module : NULL, "report", *last->report ? last->report : NULL,
                 NULL);
    if (g->kept)
        log_line(BB_ERROR,
                 "previous settings in use until the next reload: the settings file was refused, "
                 "or reloading it ended the worker",
                 NULL);
    for (size_t i = 0; i < g->left_out_count; i++)
        log_line(BB_ERROR, "module disabled until the next reload", "module", g->left_out[i].name,
                 "reason", g->left_out[i].why, NULL);
}

/* Serves until the end. Takes the generation. CLI_FAILED: it could not start. */
static int serve_by(struct generation *g)
{
    int status = CLI_FAILED;

    if (open_log(g)) {
        perror("busbar: the log cannot be opened");
        generation_destroy(g);
        return CLI_FAILED;
    }
    tell_of_crash(g);
    if (open_modules(g))
        generation_destroy(g);
    else
        status = engine_serve(g);
    log_close();
    return status;
}

static int serve_by_file(const struct cli *cli)
{
    struct generation *g = cli_generation(cli, true);

    if (g && !cli_lacks(g))
        return serve_by(g);
    if (g)
        generation_destroy(g);
    return CLI_FAILED;
}

/*
 * Whether the previous worker crashed in a reload of a file that differs from the settings it
 * served with.
 */
static bool reload_ended_it(const struct cli *cli)
{
    return supervised_history()->last.reloading && last_good_settings_differ(cli->conf);
}

/* If the file is invalid after a crash, serves with the previous settings. */
static int serve(const struct cli *cli)
{
    int status = reload_ended_it(cli) ? CLI_FAILED : serve_by_file(cli);
    struct generation *kept = status ? last_good_settings_generation(cli->conf) : NULL;

    return kept ? serve_by(kept) : status;
}

int cmd_serve(const struct cli *cli)
{
    for (int i = 0; i < cli->argc; i++) /* parsed by supervisor_run() already */
        if (strcmp(cli->argv[i], "--no-supervisor") != 0)
            return cli_misused("unknown option", cli->argv[i]);
    guard_process();
    signals_hold_reload();
    crash_install();
    startup_begin();
    int status = serve(cli);

    startup_over();
    return status;
}
