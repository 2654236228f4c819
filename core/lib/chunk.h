/*
 * Queues of chunks that wait to be written to a stream. A chunk can be in queues of several
 * threads; a queue has no lock, so its owner must lock it.
 */
#ifndef CORE_CHUNK_H
#define CORE_CHUNK_H

#include <busbar/stream.h>

struct chunk_link {
    struct chunk_link *next;
    struct bb_chunk *chunk; /* the link holds a reference */
};

struct chunks {
    struct chunk_link *first, *last;
    size_t taken; /* bytes already taken from the first chunk */
    size_t bytes; /* bytes not yet taken from all chunks */
};

struct bb_chunk *api_chunk_new(size_t length);
void api_chunk_release(struct bb_chunk *chunk);

/* Appends the chunk and takes a reference. Returns 0, or -1 if memory ran out. */
int chunks_add(struct chunks *chunks, struct bb_chunk *chunk);

/*
 * Copies up to `room` bytes from the front and releases chunks that are used up. Returns the number
 * of bytes.
 */
size_t chunks_take(struct chunks *chunks, char *into, size_t room);

void chunks_clear(struct chunks *chunks);

#endif
