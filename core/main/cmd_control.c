/* `busbar reload` and `busbar status`: send a line to the running host, and print its response. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lib/host_settings.h"
#include "core/main/cli.h"
#include "core/main/control.h"

enum { TRIES = 20, TRY_US = 100000 };

/* Prints everything after the first line, which contains the exit status. */
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

static int cmd_control_ask(const struct cli *cli, const char *line)
{
    struct setting_problems why = {0}, others = {0};
    struct arena *arena = arena_new();
    struct settings *settings = arena ? settings_load(arena, cli->conf, &why) : NULL;

    if (settings)
        host_settings_bind(settings, &others); /* only the path matters here */
    bool known = settings && host_settings(settings);
    char *path = control_path(known ? settings : NULL);
    int fd = path ? control_connect(path) : -1;
    int status = CLI_FAILED;

    setting_problems_free(&others);
    arena_free(arena);
    for (int i = 0; path && fd < 0 && errno == ECONNREFUSED && i < TRIES; i++) {
        usleep(TRY_US); /* the server process may be about to be restarted */
        fd = control_connect(path);
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

int cmd_reload(const struct cli *cli)
{
    return cmd_control_ask(cli, "reload\n");
}

int cmd_status(const struct cli *cli)
{
    bool json = cli->argc == 1 && !strcmp(cli->argv[0], "--json");

    if (cli->argc && !json)
        return cli_misused("unknown option", cli->argv[cli->argc - 1]);
    return cmd_control_ask(cli, json ? "status --json\n" : "status\n");
}
