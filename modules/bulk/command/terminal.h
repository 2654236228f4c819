/*
 * What `busbar bulk import` says beside the rows: on standard error, in lines; and on a terminal a
 * bar in place, which the next line takes away. Without a terminal there is no bar, and no byte
 * that only a terminal understands. Command's fiber only.
 */
#ifndef BULK_TERMINAL_H
#define BULK_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TERMINAL_LINE = 512 };

struct terminal {
    bool bars;                 /* standard error is a terminal */
    char shown[TERMINAL_LINE]; /* in place, without a newline */
};

void terminal_begin(struct terminal *terminal);

/* In place, until something else is shown; nothing without a terminal. */
void terminal_show(struct terminal *terminal, const char *text);
void terminal_bar(struct terminal *terminal, int64_t done, int64_t total, int64_t failed);

/* A line of its own, that stays. */
__attribute__((format(printf, 2, 3))) void terminal_line(struct terminal *terminal,
                                                         const char *format, ...);

/* "[####......]  40 %  4 of 10 rows, 1 failed" into at most `width` columns of `out`. Pure. */
void terminal_bar_text(char *out, size_t size, size_t width, int64_t done, int64_t total,
                       int64_t failed);

#endif
