/* The frames of an interrupted thread, and what they belong to. Private to recovery/. */
#ifndef CORE_FRAMES_H
#define CORE_FRAMES_H

#include <setjmp.h>

#include "core/recovery/mapped_files.h"
#include "core/recovery/signal_text.h"

enum { FRAMES_MAX = 48, FRAME_SYMBOL = 96 };

struct frame {
    uintptr_t address;
    const struct object *object; /* NULL: of no known file */
    char symbol[FRAME_SYMBOL];   /* "": not known */
    size_t into;
};

struct frames {
    struct frame list[FRAMES_MAX];
    size_t count;
};

/* Where the thread was, by the context that a handler got. */
uintptr_t frames_place(const void *context);

/* From that place on; at least that one. May fault where the stack is broken: see crash.c. */
void frames_collect(struct frames *frames, const void *context);

/* Names the functions. */
void frames_name(struct frames *frames);

/* The innermost one of a module; NULL: none. */
const struct object *frames_module(const struct frames *frames);

/* "function+0x12 (module)" */
void frame_words(struct signal_text *words, const struct frame *frame);

#endif
