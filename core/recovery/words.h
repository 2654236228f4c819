/* Text put together by a signal handler, and written to a descriptor. All async-signal-safe. */
#ifndef CORE_WORDS_H
#define CORE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct words {
    int fd; /* -1: kept, and cut at the end of `bytes` */
    size_t used;
    bool cut; /* not all could be written */
    char bytes[1024];
};

void words_text(struct words *words, const char *text); /* NULL: nothing */
void words_number(struct words *words, int64_t number);
void words_hex(struct words *words, uintptr_t number); /* with 0x */

/* Writes what there is. */
void words_flush(struct words *words);

/* As a text, for one with fd -1. */
const char *words_end(struct words *words);

#endif
