/*
 * `busbar serve` runs a host. `busbar reload`, `busbar status` and `busbar run-job` send a line to
 * the running host, and print its response.
 * `busbar migrate`, `busbar pause` and `busbar resume` use the database, so no host needs to run.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/host_settings.h"
#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/main/cli.h"
#include "core/main/control.h"
#include "core/main/hang.h"
#include "core/main/serve.h"
#include "core/module/api.h"
#include "core/store/migrate.h"

enum { TRIES = 20, TRY_US = 100000 };

static int cmd_control_serve(struct generation *g)
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
    /* blocks signals that would end the process before the host can handle them */
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (!BUSBAR_SANITIZED)
        crash_install();
    if (hang_watch_begin())
        return CLI_FAILED;
    struct generation *g = cli_generation(cli, true);

    if (g && !cli_lacks(g))
        status = cmd_control_serve(g);
    else
        generation_destroy(g);
    hang_watch_end();
    return status;
}

/* ---- requests to a running host ---- */

/* Prints the response without its first line. Returns the exit status, which is in that line. */
static int cmd_control_print_answer(int fd)
{
    FILE *in = fdopen(fd, "r");
    char text[4096];
    int status = CLI_FAILED;

    if (!in || !fgets(text, sizeof text, in)) {
        fputs("busbar: the host exited before it responded\n", stderr);
    } else {
        status = (int)strtol(text, NULL, 10);
        while (fgets(text, sizeof text, in))
            fputs(text, status ? stderr : stdout);
    }
    if (in)
        fclose(in);
    else
        close(fd);
    return status;
}

/* Sends the command, as it was typed, to the running host, and prints the response. */
int cmd_ask(const struct cli *cli)
{
    char line[128];

    if (cli->argc != 1 && !strcmp(cli->name, "run-job"))
        return cli_misused(cli->name, "needs one name");
    snprintf(line, sizeof line, "%s%s%s\n", cli->name, cli->argc ? " " : "",
             cli->argc ? cli->argv[0] : "");
    struct setting_problems why = {0}, others = {0};
    struct arena *arena = arena_new();
    struct settings *settings = arena ? settings_load(arena, cli->conf, &why) : NULL;

    if (settings)
        host_settings_bind(settings, &others); /* problems found here are not printed */
    bool known = settings && settings->host;
    char *path = control_path(known ? settings : NULL);
    int fd = path ? control_connect(path, 0) : -1;
    int status = CLI_FAILED;

    setting_problems_free(&others);
    arena_free(arena);
    for (int i = 0; path && fd < 0 && errno == ECONNREFUSED && i < TRIES; i++) {
        usleep(TRY_US); /* the supervisor may be restarting the server process */
        fd = control_connect(path, 0);
    }

    if (fd < 0)
        setting_problems_print(&why, stderr);
    if (!path)
        fprintf(stderr, "busbar: the host of %s has no control socket (control.socket)\n",
                cli->conf);
    else if (fd < 0)
        fprintf(stderr, "busbar: no host responds at %s: %s\n", path, strerror(errno));
    else if (send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line))
        status = cmd_control_print_answer(fd);
    else
        close(fd);
    setting_problems_free(&why);
    free(path);
    return status;
}

/* ---- the database ---- */

#define TABLE "SELECT to_regclass('busbar_pause')"
#define PAUSE                                                                                      \
    "WITH done AS (UPDATE busbar_pause SET paused_at = coalesce(paused_at, now()))"                \
    " SELECT pg_notify('" BB_PAUSE_CHANNEL "', 'paused')"
#define RESUME                                                                                     \
    "WITH done AS (UPDATE busbar_pause SET paused_at = NULL, place = busbar_place())"              \
    " SELECT pg_notify('" BB_PAUSE_CHANNEL "', 'resumed')"

static void cmd_control_say(void *arg, const char *line)
{
    (void)arg;
    puts(line);
}

int cmd_migrate(const struct cli *cli)
{
    bool dry = cli->argc > 0; /* --dry-run */
    struct generation *g = cli_generation(cli, false);
    struct migrate_report report;

    if (!g)
        return CLI_FAILED;
    enum migrate_outcome outcome = migrate_run(g, !dry, cmd_control_say, NULL, &report);

    generation_destroy(g);
    if (outcome != MIGRATE_DONE && !report.missing)
        return cli_fail("%s", report.problem);
    if (report.missing)
        printf("%u steps would be applied, %u are already applied\n", report.pending,
               report.present);
    else
        printf("the database is up to date: %u steps applied now, %u earlier\n", report.applied,
               report.present);
    return CLI_DONE;
}

/* `busbar pause` and `busbar resume`. */
int cmd_pause(const struct cli *cli)
{
    bool pause = !strcmp(cli->name, "pause");
    struct generation *g = cli_generation(cli, false);
    struct migrate_report report = {0};
    struct migrate_db db = {.report = &report};
    PGresult *result = NULL;
    int failed = -1;

    if (!g)
        return CLI_FAILED;
    if (!migrate_db_open(&db, g->settings, false))
        result = migrate_db_run(&db, "busbar_pause", TABLE, NULL, 0);
    if (result && PQgetisnull(result, 0, 0))
        migrate_db_refuse(&db, "the database has no table for pauses yet: run `busbar migrate`, "
                               "which sends no deliveries, and try again");
    else if (result)
        failed = migrate_db_do(&db, "busbar_pause", pause ? PAUSE : RESUME, NULL, 0);
    PQclear(result);
    migrate_db_close(&db);
    generation_destroy(g);
    if (failed)
        return cli_fail("%s", report.problem);
    printf("deliveries, jobs and calls to other servers are %s on all hosts of the database\n",
           pause ? "paused" : "resumed");
    return CLI_DONE;
}
