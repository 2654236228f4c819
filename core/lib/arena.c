#include "core/lib/arena.h"

#include "config.h"

#include <sanitizer/asan_interface.h> /* its macros have no effect in builds without AddressSanitizer */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 16
#define FIRST_BLOCK 3072 /* bytes; enough for a request with its HTTP transaction */
#define IDLE_BLOCKS 512  /* first blocks that a thread keeps for the next arenas */
#define LAST_BLOCK 65536
#define LARGEST ((size_t)1 << 32) /* larger sizes are bugs */

/* Header of a block; the memory for callers follows. malloc() aligns blocks to 16 bytes. */
struct block {
    _Alignas(ALIGNMENT) struct block *next;
};

struct undo {
    void (*run)(void *);
    void *arg;
    struct undo *next;
};

/* Stored at the beginning of the arena's first block. */
struct arena {
    struct block *blocks;
    struct undo *undos;
    char *free, *end;   /* the rest of the current block */
    size_t block_size;  /* of the next block */
    atomic_size_t size; /* of all blocks, plus the bytes of arena_count() */
    bool starved;
};

static size_t arena_aligned(size_t size)
{
    return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/*
 * Unused first blocks, which the thread keeps for its next arenas: each request creates and frees
 * two arenas, and malloc() is slow at this size. With a sanitizer every block comes from malloc(),
 * so that use after free is detected.
 */
static _Thread_local struct block *idle;
static _Thread_local unsigned idle_count;

/* Bytes after each allocation that nobody may access. */
static const size_t gap = BUSBAR_ASAN ? ALIGNMENT : 0;

static const unsigned idle_max = BUSBAR_SANITIZED ? 0 : IDLE_BLOCKS;

void arena_thread_end(void)
{
    while (idle) {
        struct block *next = idle->next;

        free(idle);
        idle = next;
    }
    idle_count = 0;
}

struct arena *arena_new(void)
{
    struct block *first = idle;

    if (first) {
        idle = first->next;
        idle_count--;
    } else {
        first = malloc(FIRST_BLOCK);
        if (!first)
            return NULL;
    }
    first->next = NULL;
    struct arena *arena = (struct arena *)(void *)(first + 1);

    *arena = (struct arena){.blocks = first,
                            .free = (char *)arena + arena_aligned(sizeof(*arena)),
                            .end = (char *)first + FIRST_BLOCK,
                            .block_size = FIRST_BLOCK,
                            .size = FIRST_BLOCK};
    ASAN_POISON_MEMORY_REGION(arena->free, (size_t)(arena->end - arena->free));
    return arena;
}

bool arena_starved(const struct arena *arena)
{
    return arena->starved;
}

size_t arena_size(const struct arena *arena)
{
    return atomic_load_explicit(&arena->size, memory_order_relaxed);
}

void arena_count(struct arena *arena, size_t size)
{
    atomic_fetch_add_explicit(&arena->size, size, memory_order_relaxed);
}

static void *block_add(struct arena *arena, size_t size)
{
    struct block *block = malloc(size);

    if (!block) {
        arena->starved = true;
        return NULL;
    }
    block->next = arena->blocks;
    arena->blocks = block;
    arena_count(arena, size);
    ASAN_POISON_MEMORY_REGION(block + 1, size - sizeof(struct block));
    return block + 1;
}

/* Returns `size` bytes, a multiple of ALIGNMENT, or NULL without memory. */
static void *arena_room(struct arena *arena, size_t size)
{
    if (size > (size_t)(arena->end - arena->free)) {
        /* Large allocations get a separate block; the current block stays in use. */
        if (size > FIRST_BLOCK / 2)
            return block_add(arena, sizeof(struct block) + size);
        /* block sizes double, so that an arena needs few malloc() calls and wastes at most half */
        size_t next = arena->block_size < LAST_BLOCK ? arena->block_size * 2 : LAST_BLOCK;
        char *start = block_add(arena, next);

        if (!start)
            return NULL;
        arena->block_size = next;
        arena->free = start;
        arena->end = start + next - sizeof(struct block);
    }
    void *taken = arena->free;

    arena->free += size;
    return taken;
}

/* Like arena_alloc(), but the memory is not zeroed. */
static void *arena_take(struct arena *arena, size_t size)
{
    if (size > LARGEST)
        return NULL;
    void *taken = arena_room(arena, (size ? arena_aligned(size) : ALIGNMENT) + gap);

    if (taken)
        ASAN_UNPOISON_MEMORY_REGION(taken, size);
    return taken;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    void *taken = arena_take(arena, size);

    return taken ? memset(taken, 0, size) : NULL;
}

int arena_defer(struct arena *arena, void (*run)(void *), void *arg)
{
    struct undo *undo = arena_alloc(arena, sizeof(*undo));

    if (!undo)
        return -1;
    *undo = (struct undo){.run = run, .arg = arg, .next = arena->undos};
    arena->undos = undo;
    return 0;
}

void arena_undo(struct arena *arena, void (*run)(void *))
{
    struct undo **at = &arena->undos;

    while (*at) {
        struct undo *undo = *at;

        if (undo->run != run) {
            at = &undo->next;
            continue;
        }
        *at = undo->next;
        run(undo->arg);
    }
}

char *arena_text(struct arena *arena, const char *text, size_t length)
{
    char *copy = length < SIZE_MAX ? arena_take(arena, length + 1) : NULL;

    if (!copy)
        return NULL;
    if (length)
        memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *arena_format(struct arena *arena, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *text = arena_vformat(arena, format, args);
    va_end(args);
    return text;
}

char *arena_vformat(struct arena *arena, const char *format, va_list args)
{
    char small[256];
    va_list again;

    va_copy(again, args);
    int length = vsnprintf(small, sizeof(small), format, args);
    char *text = NULL;

    if (length >= 0 && (size_t)length < sizeof(small)) {
        text = arena_text(arena, small, (size_t)length);
    } else if (length >= 0) {
        text = arena_take(arena, (size_t)length + 1);
        if (text)
            vsnprintf(text, (size_t)length + 1, format, again);
    }
    va_end(again);
    return text;
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    for (struct undo *undo = arena->undos; undo; undo = undo->next)
        undo->run(undo->arg);
    /* The arena itself is in the last block. */
    struct block *block = arena->blocks;

    while (block) {
        struct block *next = block->next;

        if (next || idle_count + 1 > idle_max) {
            free(block);
        } else {
            block->next = idle;
            idle = block;
            idle_count++;
        }
        block = next;
    }
}
