/*
 * Chunks: bytes that many streams share. The reference count precedes the part visible to modules.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/chunk.h"

struct held {
    atomic_size_t holders;
    size_t unused; /* aligns the chunk that follows like malloc() */
};

static struct held *chunk_held_of(struct bb_chunk *chunk)
{
    return (struct held *)(void *)chunk - 1;
}

struct bb_chunk *api_chunk_new(size_t length)
{
    struct held *held = malloc(sizeof *held + sizeof(struct bb_chunk) + length);

    if (!held)
        return NULL;
    atomic_init(&held->holders, 1);
    struct bb_chunk *chunk = (struct bb_chunk *)(void *)(held + 1);
    chunk->length = length;
    return chunk;
}

void api_chunk_release(struct bb_chunk *chunk)
{
    if (!chunk ||
        atomic_fetch_sub_explicit(&chunk_held_of(chunk)->holders, 1, memory_order_acq_rel) != 1)
        return;
    free(chunk_held_of(chunk));
}

int chunks_add(struct chunks *chunks, struct bb_chunk *chunk)
{
    struct chunk_link *link = malloc(sizeof *link);

    if (!link)
        return -1;
    atomic_fetch_add_explicit(&chunk_held_of(chunk)->holders, 1, memory_order_relaxed);
    *link = (struct chunk_link){.chunk = chunk};
    if (chunks->last)
        chunks->last->next = link;
    else
        chunks->first = link;
    chunks->last = link;
    chunks->bytes += chunk->length;
    return 0;
}

static void chunk_drop_first(struct chunks *chunks)
{
    struct chunk_link *link = chunks->first;

    chunks->bytes -= link->chunk->length - chunks->taken;
    chunks->taken = 0;
    chunks->first = link->next;
    if (!chunks->first)
        chunks->last = NULL;
    api_chunk_release(link->chunk);
    free(link);
}

size_t chunks_take(struct chunks *chunks, char *into, size_t room)
{
    size_t used = 0;

    while (chunks->first && used < room) {
        const struct bb_chunk *chunk = chunks->first->chunk;
        size_t left = chunk->length - chunks->taken;
        size_t piece = left < room - used ? left : room - used;

        memcpy(into + used, chunk->bytes + chunks->taken, piece);
        used += piece;
        chunks->taken += piece;
        chunks->bytes -= piece;
        if (chunks->taken == chunk->length)
            chunk_drop_first(chunks);
    }
    return used;
}

void chunks_clear(struct chunks *chunks)
{
    while (chunks->first)
        chunk_drop_first(chunks);
}
