#include "core/lib/settings.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/*
 * A line counts even if memory runs out for it: the configuration must not be accepted for that
 * reason.
 */
static void keep(char ***lines, size_t *count, size_t *room, char *line)
{
    if (*count >= *room) {
        size_t wanted = *room ? *room * 2 : 16;
        char **grown = realloc(*lines, wanted * sizeof **lines);

        if (!grown) {
            free(line);
            if (!*count)
                ++*count;
            return;
        }
        memset(grown + *room, 0, (wanted - *room) * sizeof *grown);
        *lines = grown;
        *room = wanted;
    }
    (*lines)[(*count)++] = line;
}

BB_PRINTF(1, 0) static char *format_line(const char *format, va_list args)
{
    char *line;

    return vasprintf(&line, format, args) < 0 ? NULL : line;
}

void setting_problem(struct setting_problems *problems, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    keep(&problems->lines, &problems->count, &problems->room, format_line(format, args));
    va_end(args);
}

void setting_warning(struct setting_problems *problems, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    keep(&problems->warnings, &problems->warning_count, &problems->warning_room,
         format_line(format, args));
    va_end(args);
}

static void print_lines(char *const *lines, size_t count, size_t room, const char *prefix,
                        FILE *out)
{
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s\n", prefix, i < room && lines[i] ? lines[i] : "out of memory");
}

void setting_errors_print(const struct setting_problems *problems, FILE *out)
{
    print_lines(problems->lines, problems->count, problems->room, "", out);
}

void setting_problems_print(const struct setting_problems *problems, FILE *out)
{
    setting_errors_print(problems, out);
    print_lines(problems->warnings, problems->warning_count, problems->warning_room,
                "warning: ", out);
}

void setting_problems_free(struct setting_problems *problems)
{
    for (size_t i = 0; i < problems->count && i < problems->room; i++)
        free(problems->lines[i]);
    for (size_t i = 0; i < problems->warning_count && i < problems->warning_room; i++)
        free(problems->warnings[i]);
    free(problems->lines);
    free(problems->warnings);
    *problems = (struct setting_problems){0};
}
