/*
 * Answers that are arrays of any length, in bounded memory: what is read from the database at a
 * time is bounded in bytes, and the next part is read when the client has taken most of the one
 * before. Each module that uses it is built with a copy of its own.
 */
#ifndef ARRAY_H
#define ARRAY_H

#include <busbar/busbar.h>

#include "modules/common/slots.h"

/* Items of an answer that is not sent in pages. */
enum { ARRAY_SHORT = 200 };

/* Bytes of text and items asked for at a time; the last message may go beyond the bytes. */
enum { ARRAY_PAGE_BYTES = 128 * 1024, ARRAY_PAGE_ROWS = 500 };

/* A piece of an array's JSON. All zero is an empty one at the array's beginning. */
struct array_text {
    char *bytes; /* free() */
    size_t length, room;
    bool begun;  /* there are items before it */
    bool failed; /* out of memory */
};

/* Appends an item, which is taken; NULL is out of memory. */
void array_text_add(struct bb_request *rq, struct array_text *text, json_t *item);

struct array_source {
    /* Appends what follows: 1: there is more, 0: that was the last, -1: failed. Parks. */
    int (*read)(struct bb_request *rq, struct array_text *text, void *arg);
    void (*free)(void *arg);
    void *arg;
};

/*
 * Answers 200 with the array that the source gives, which is taken, as is the slot that the caller
 * has taken for it. Where something fails on the way the connection is cut, so that
 * what is missing does not look like the end. Returns the status, as a handler does.
 */
int array_send(struct bb_request *rq, struct slots *slots, const struct array_source *source);

/*
 * The same of a source whose `arg` is a copy of the `size` bytes at `from`, with no more to free;
 * it takes the slot itself, or answers that there is none.
 */
int array_send_copy(struct bb_request *rq, struct slots *slots,
                    int (*read)(struct bb_request *, struct array_text *, void *), const void *from,
                    size_t size);

#endif
