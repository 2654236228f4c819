#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/api/api.h"
#include "core/base/log.h"
#include "core/command/cli.h"
#include "core/engine/engine.h"
#include "core/host/serve.h"
#include "core/host/stop.h"

static int open_log(const struct generation *g)
{
    bool json = !strcmp(settings_text(g->settings, "log", "format"), "json");

    return log_open(STDERR_FILENO, log_level_of(settings_text(g->settings, "log", "level")), json);
}

static int open_modules(struct generation *g)
{
    struct setting_problems problems = {0};
    int failed = generation_open(g, &core_api, &problems);

    setting_problems_print(&problems, stderr);
    setting_problems_free(&problems);
    return failed;
}

int cmd_serve(const struct cli *cli)
{
    int status = CLI_FAILED;

    signals_hold_reload();
    struct generation *g = cli_generation(cli);

    if (!g)
        return CLI_FAILED;
    if (cli_lacks(g)) {
        generation_destroy(g);
        return CLI_FAILED;
    }
    if (open_log(g)) {
        perror("busbar: the log cannot be opened");
        generation_destroy(g);
        return CLI_FAILED;
    }
    if (open_modules(g))
        generation_destroy(g);
    else
        status = engine_serve(g);
    log_close();
    return status;
}
