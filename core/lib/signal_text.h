/*
 * Text that a signal handler creates and writes to a descriptor. All functions are
 * async-signal-safe.
 */
#ifndef CORE_SIGNAL_TEXT_H
#define CORE_SIGNAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include <busbar/abi.h>

struct signal_text {
    int fd; /* -1: keep the text, cut to the size of `bytes` */
    size_t used;
    bool cut; /* not everything could be written */
    char bytes[1024];
};

/* Appends a text. The format may have only %s (NULL: nothing), %lld and %#lx. */
BB_PRINTF(2, 3) void signal_text_add(struct signal_text *text, const char *format, ...);

/* Writes the buffered text. */
void signal_text_flush(struct signal_text *text);

/* Returns the text if fd is -1. */
const char *signal_text_end(struct signal_text *text);

#endif
