#include "modules/bulk/command/terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH = 80, BAR_MAX = 40, BAR_MIN = 8 };

void terminal_begin(struct terminal *terminal)
{
    *terminal = (struct terminal){.bars = isatty(STDERR_FILENO)};
}

/* Returns the current width. */
static size_t width_of_terminal(void)
{
    struct winsize size;

    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1 ? size.ws_col - 1U : WIDTH;
}

/*
 * Overwrites the rest of a longer text with spaces, because all other ways differ between
 * terminals.
 */
void terminal_show(struct terminal *terminal, const char *text)
{
    size_t before = strlen(terminal->shown), now = strlen(text);

    if (!terminal->bars || !strcmp(terminal->shown, text))
        return;
    fprintf(stderr, "\r%s%*s", text, before > now ? (int)(before - now) : 0, "");
    if (before > now)
        fprintf(stderr, "\r%s", text);
    fflush(stderr);
    snprintf(terminal->shown, sizeof(terminal->shown), "%s", text);
}

void terminal_bar_text(char *out, size_t size, size_t width, int64_t done, int64_t total,
                       int64_t failed)
{
    char words[TERMINAL_LINE], bar[BAR_MAX + 1];
    int percent = total > 0 ? (int)(done * 100 / total) : 100;

    snprintf(words, sizeof(words), "%3d %%  %lld of %lld rows, %lld failed", percent,
             (long long)done, (long long)total, (long long)failed);
    size_t used = strlen(words) + 3; /* brackets and a space */
    size_t cells = width > used ? width - used : 0;

    if (cells > BAR_MAX)
        cells = BAR_MAX;
    if (cells < BAR_MIN) {
        snprintf(out, width + 1 < size ? width + 1 : size, "%s", words);
        return;
    }
    memset(bar, '.', cells);
    memset(bar, '#', cells * (size_t)percent / 100);
    bar[cells] = '\0';
    snprintf(out, size, "[%s] %s", bar, words);
}

void terminal_bar(struct terminal *terminal, int64_t done, int64_t total, int64_t failed)
{
    char text[TERMINAL_LINE];

    terminal_bar_text(text, sizeof(text), width_of_terminal(), done, total, failed);
    terminal_show(terminal, text);
}

void terminal_line(struct terminal *terminal, const char *format, ...)
{
    va_list args;

    terminal_show(terminal, "");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
}
