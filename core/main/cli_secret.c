/* Secret options are never in argv, which every user of the machine can read. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "core/main/cli.h"

#define SECRET_MAX 4096 /* bytes */

void cli_variable_name(const char *field, char *out, size_t size)
{
    char option[64];

    cli_option_name(field, option, sizeof option);
    snprintf(out, size, "BUSBAR_%s", option);
    for (; *out; out++) {
        *out = (char)toupper((unsigned char)*out);
        if (*out == '-')
            *out = '_';
    }
}

/* Disables the terminal's echo while the user types. -1: not a terminal, *kept is not set. */
static int hide(struct termios *kept)
{
    struct termios quiet;

    if (tcgetattr(STDIN_FILENO, kept))
        return -1;
    quiet = *kept;
    quiet.c_lflag &= ~(tcflag_t)ECHO;
    return tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
}

static const char *read_line(const char *option, struct arena *arena)
{
    struct termios kept;
    char line[SECRET_MAX];
    bool terminal = isatty(STDIN_FILENO);
    bool hidden = terminal && !hide(&kept);

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

const char *cli_secret(const struct bb_field *field, struct arena *arena)
{
    char option[64], variable[80];

    cli_option_name(field->name, option, sizeof option);
    cli_variable_name(field->name, variable, sizeof variable);
    const char *value = getenv(variable);

    if (value)
        return value;
    return field->flags & BB_REQUIRED ? read_line(option, arena) : NULL;
}
