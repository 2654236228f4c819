/*
 * Text that a signal handler creates and writes to a descriptor. All functions are
 * async-signal-safe.
 */
#ifndef CORE_SIGNAL_TEXT_H
#define CORE_SIGNAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct signal_text {
    int fd; /* -1: keep the text, cut to the size of `bytes` */
    size_t used;
    bool cut; /* not everything could be written */
    char bytes[1024];
};

void signal_text_text(struct signal_text *words, const char *text); /* NULL: nothing */
void signal_text_number(struct signal_text *words, int64_t number);
void signal_text_hex(struct signal_text *words, uintptr_t number); /* with 0x */

/* Writes the buffered text. */
void signal_text_flush(struct signal_text *words);

/* Returns the text if fd is -1. */
const char *signal_text_end(struct signal_text *words);

#endif
