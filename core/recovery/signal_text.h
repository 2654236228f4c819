/* Text put together by a signal handler, and written to a descriptor. All async-signal-safe. */
#ifndef CORE_SIGNAL_TEXT_H
#define CORE_SIGNAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct signal_text {
    int fd; /* -1: kept, and cut at the end of `bytes` */
    size_t used;
    bool cut; /* not all could be written */
    char bytes[1024];
};

void signal_text_text(struct signal_text *words, const char *text); /* NULL: nothing */
void signal_text_number(struct signal_text *words, int64_t number);
void signal_text_hex(struct signal_text *words, uintptr_t number); /* with 0x */

/* Writes what there is. */
void signal_text_flush(struct signal_text *words);

/* As a text, for one with fd -1. */
const char *signal_text_end(struct signal_text *words);

#endif
