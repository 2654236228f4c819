#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/main/cli.h"
#include "core/main/hang.h"
#include "core/main/serve.h"
#include "core/module/api.h"

static int cmd_serve_run(struct generation *g)
{
    const struct crash_note *last = &supervised_history()->last;
    const struct host_settings *host = g->host;
    enum bb_level level = log_level_of(host->log.level);
    bool json = !strcmp(host->log.format, "json");
    const char *file = host->log.file;
    struct setting_problems problems = {0};
    int status = CLI_FAILED;

    supervised_log(json);
    if (*file && *file != '/')
        file = arena_format(g->arena, "%s/%s", g->settings->directory, file);
    if (!file || log_open(text_some(file), STDERR_FILENO, level, json)) {
        perror("busbar: the log cannot be opened");
        generation_destroy(g);
        return CLI_FAILED;
    }
    if (*last->how)
        log_line(BB_WARN, "the previous worker exited", "how", last->how, "module",
                 text_some(last->module), "report", text_some(last->report), NULL);
    for (size_t i = 0; i < g->left_out_count; i++)
        log_line(BB_ERROR, "module disabled until the next reload", "module", g->left_out[i].name,
                 "reason", g->left_out[i].why, NULL);
    int failed = generation_open(g, &core_api, &problems);

    setting_problems_print(&problems, stderr);
    setting_problems_free(&problems);
    if (failed)
        generation_destroy(g);
    else
        status = engine_serve(g);
    log_close();
    return status;
}

int cmd_serve(const struct cli *cli)
{
    int status = CLI_FAILED;
    sigset_t set;

    guard_process();
    /* they would end the process before the host can handle them */
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    crash_install();
    if (hang_watch_begin())
        return CLI_FAILED;
    struct generation *g = cli_generation(cli, true);

    if (g && !cli_lacks(g))
        status = cmd_serve_run(g);
    else
        generation_destroy(g);
    hang_watch_end();
    return status;
}
