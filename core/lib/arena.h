/*
 * An arena: memory that is freed all at once, and cleanup functions that run when it is freed. Each
 * request and each generation has an arena.
 *
 * The arena owns all memory that it returns. It may be used by one thread at a time. It starts with
 * one block of 3 KiB, so that a typical request needs one malloc().
 */
#ifndef CORE_ARENA_H
#define CORE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <busbar/abi.h>

struct arena;

/* Creates an arena. Returns NULL if memory ran out. */
struct arena *arena_new(void);

/* Returns the size of the arena's blocks, plus the bytes counted by arena_count(). Any thread. */
size_t arena_size(const struct arena *arena);
void arena_count(struct arena *arena, size_t size);

/* Returns `size` zeroed bytes, aligned to 16 bytes; for 0 a unique pointer. NULL: out of memory. */
void *arena_alloc(struct arena *arena, size_t size);

/* Makes arena_free() call undo(arg), the newest call first. Returns 0, or -1 if memory ran out. */
int arena_defer(struct arena *arena, void (*undo)(void *), void *arg);

/* Performs the deferred calls of `run` now, the newest first, instead of in arena_free(). */
void arena_undo(struct arena *arena, void (*run)(void *));

/* Copies `length` bytes and adds a NUL. Returns NULL if memory ran out. */
char *arena_text(struct arena *arena, const char *text, size_t length);

/* Formats like printf(). Returns NULL if memory ran out. */
BB_PRINTF(2, 3) char *arena_format(struct arena *arena, const char *format, ...);
BB_PRINTF(2, 0) char *arena_vformat(struct arena *arena, const char *format, va_list args);

/* Returns whether an allocation ever failed, which may be the cause of later errors. */
bool arena_starved(const struct arena *arena);

/*
 * Calls the cleanup functions, which may still read the arena but not allocate, then frees all
 * memory. NULL is allowed.
 */
void arena_free(struct arena *arena);

/* Frees the blocks that the thread keeps for its next arenas. Call before the thread ends. */
void arena_thread_end(void);

#endif
