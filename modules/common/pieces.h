/*
 * Responses of any length in bounded memory: JSON arrays and CSV files.
 *
 * A source writes a piece, and is called for the next piece when the client has received most of
 * the earlier data. So one or two pieces are in memory, and no database connection is held while
 * the client does not read. If an error occurs, the stream is cut, so that the client can see that
 * the response is incomplete. Each response holds a slot of its account. Each module that uses this
 * has its own copy compiled in.
 */
#ifndef PIECES_H
#define PIECES_H

#include <busbar/busbar.h>

#include "modules/common/csv.h"
#include "modules/common/slots.h"

/* An array with up to this number of items is sent as a whole. */
enum { ARRAY_SHORT = 200 };

/* Limits of one read of an array, in bytes and items. Only the last item may exceed the bytes. */
enum { ARRAY_PAGE_BYTES = 128 * 1024, ARRAY_PAGE_ROWS = 500 };

struct pieces_source {
    const char *name;           /* of the file that browsers save; NULL: a JSON array */
    const char *const *columns; /* the file's header line, NULL-terminated; or NULL */
    /*
     * Appends the next rows, or with pieces_add() the next items, to `text`, and updates `state`.
     * Returns 1 if more follow, 0 after the last ones, or -1 on failure. May park the fiber.
     */
    int (*write)(struct bb_request *rq, struct csv *text, void *state);
};

/* Appends an item to the array and takes ownership of the item. With NULL, the response fails. */
void pieces_add(struct bb_request *rq, struct csv *text, json_t *item);

/* Appends a copy of an item that is JSON text. With NULL, the response fails. */
void pieces_add_text(struct bb_request *rq, struct csv *text, const char *item);

/*
 * Responds with a stream. The end of the stream releases the slot that the caller took, and calls
 * free(state). If `state` is NULL, responds that memory ran out. `source` must live as long as the
 * module. Returns the status of the response sent. May park the fiber.
 */
int pieces_begin(struct bb_request *rq, struct slots *slots, const struct pieces_source *source,
                 void *state);

/* Waits for a slot, and calls pieces_begin() with a copy of the `size` bytes at `from` as state. */
int pieces_begin_copy(struct bb_request *rq, struct slots *slots,
                      const struct pieces_source *source, const void *from, size_t size);

#endif
