/*
 * Queues of chunks: what waits to be written to a stream. A queue is guarded by its owner; chunks
 * are shared by queues of any thread.
 */
#ifndef CORE_CHUNK_H
#define CORE_CHUNK_H

#include <busbar/stream.h>

struct chunk_link {
    struct chunk_link *next;
    struct bb_chunk *chunk; /* held */
};

struct chunks {
    struct chunk_link *first, *last;
    size_t taken; /* of the first one */
    size_t bytes; /* not yet taken, of all */
};

struct bb_chunk *api_chunk_new(size_t length);
void api_chunk_release(struct bb_chunk *chunk);

/* Takes a hold of its own. 0, or -1 without memory. */
int chunks_add(struct chunks *chunks, struct bb_chunk *chunk);

/* Copies what fits from the front, and lets go of what is used up. Returns how many bytes. */
size_t chunks_take(struct chunks *chunks, char *into, size_t room);

void chunks_clear(struct chunks *chunks);

#endif
