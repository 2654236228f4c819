/* The stack frames of an interrupted thread, with files and symbols. */
#ifndef CORE_FRAMES_H
#define CORE_FRAMES_H

#include <setjmp.h>

#include "core/lib/mapped_files.h"
#include "core/lib/signal_text.h"

enum { FRAMES_MAX = 48, FRAME_SYMBOL = 96 };

struct frame {
    uintptr_t address;
    const struct object *object; /* NULL: no known file */
    char symbol[FRAME_SYMBOL];   /* "": unknown */
    size_t into;
};

struct frames {
    struct frame list[FRAMES_MAX];
    size_t count;
};

/* Returns where the thread was interrupted, from the context that a signal handler gets. */
uintptr_t frames_place(const void *context);

/*
 * Collects the frames from that place on; at least that one. May fault if the stack is damaged: see
 * crash.c.
 */
void frames_collect(struct frames *frames, const void *context);

/* Finds the function names. */
void frames_name(struct frames *frames);

/* Returns the innermost object that is a module; NULL: none. */
const struct object *frames_module(const struct frames *frames);

/* Appends "function+0x12 (module)". */
void frame_words(struct signal_text *words, const struct frame *frame);

#endif
