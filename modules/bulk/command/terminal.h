/*
 * Messages of `busbar bulk import` other than the rows: lines on standard error. On a terminal
 * there is also a progress bar, which is updated in place and which the next line replaces. Without
 * a terminal there is neither a bar nor any control character. Command's fiber only.
 */
#ifndef BULK_TERMINAL_H
#define BULK_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TERMINAL_LINE = 512 };

struct terminal {
    bool bars;                 /* standard error is a terminal */
    char shown[TERMINAL_LINE]; /* shown in place, without a newline */
};

void terminal_begin(struct terminal *terminal);

/* Shows a text in place until the next output; does nothing without a terminal. */
void terminal_show(struct terminal *terminal, const char *text);
void terminal_bar(struct terminal *terminal, int64_t done, int64_t total, int64_t failed);

/* Prints a permanent line. */
__attribute__((format(printf, 2, 3))) void terminal_line(struct terminal *terminal,
                                                         const char *format, ...);

/* Formats "[####......]  40 %  4 of 10 rows, 1 failed" in `out`, up to `width` columns. Pure. */
void terminal_bar_text(char *out, size_t size, size_t width, int64_t done, int64_t total,
                       int64_t failed);

#endif
