/*
 * Responses that are arrays of any length, in bounded memory: each read from the database is
 * limited in bytes, and the next part is read when the client has received most of the previous
 * one. Each module that uses this has its own copy compiled in.
 */
#ifndef ARRAY_H
#define ARRAY_H

#include <busbar/busbar.h>

#include "modules/common/slots.h"

/* Items of a response that is sent as a whole. */
enum { ARRAY_SHORT = 200 };

/* Bytes of text and items per read; only the last item may exceed the bytes. */
enum { ARRAY_PAGE_BYTES = 128 * 1024, ARRAY_PAGE_ROWS = 500 };

/* A piece of an array's JSON. A zeroed struct is an empty piece at the array's beginning. */
struct array_text {
    char *bytes; /* free() it */
    size_t length, room;
    bool begun;  /* there are earlier items */
    bool failed; /* out of memory */
};

/* Appends an item and takes ownership of it; NULL means out of memory. */
void array_text_add(struct bb_request *rq, struct array_text *text, json_t *item);

struct array_source {
    /*
     * Appends the next part. Returns 1 if there is more, 0 if that was the last, -1 on failure. May
     * park the fiber.
     */
    int (*read)(struct bb_request *rq, struct array_text *text, void *arg);
    void (*free)(void *arg);
    void *arg;
};

/*
 * Sends a 200 with the array from the source. Takes ownership of the source's `arg` and of the slot
 * that the caller took. If an error occurs later, the connection is cut, so that the client can see
 * that the array is incomplete. Returns the status, like a handler.
 */
int array_send(struct bb_request *rq, struct slots *slots, const struct array_source *source);

/*
 * The same for a source whose `arg` is a copy of the `size` bytes at `from`, which needs no other
 * cleanup. Takes the slot itself, or sends a response if there is none.
 */
int array_send_copy(struct bb_request *rq, struct slots *slots,
                    int (*read)(struct bb_request *, struct array_text *, void *), const void *from,
                    size_t size);

#endif
