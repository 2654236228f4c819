/*
 * An arena: memory that is freed all at once, and undos that run then. One for each request, one
 * for each generation.
 *
 * Everything it gives belongs to it. It is for one thread at a time. It starts with one block of
 * 4 KiB, so that a common request costs one malloc.
 */
#ifndef CORE_ARENA_H
#define CORE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <busbar/abi.h>

struct arena;

/* NULL when there is no memory. */
struct arena *arena_new(void);

/* `size` zeroed bytes (also for 0 a pointer of their own), aligned to 16; NULL when none is left.
 */
void *arena_alloc(struct arena *arena, size_t size);

/* Has undo(arg) called by arena_free(); last deferred, first undone. 0, or -1 without memory. */
int arena_defer(struct arena *arena, void (*undo)(void *), void *arg);

/* A copy of `length` bytes with a NUL behind them; NULL when there is no memory. */
char *arena_text(struct arena *arena, const char *text, size_t length);

/* Text as of printf; NULL when there is no memory. */
BB_PRINTF(2, 3) char *arena_format(struct arena *arena, const char *format, ...);
BB_PRINTF(2, 0) char *arena_vformat(struct arena *arena, const char *format, va_list args);

/* Whether there was no memory once: what looks wrong since then may be for want of it. */
bool arena_starved(const struct arena *arena);

/* Runs the undos, which may still read the arena but not allocate, then frees all. NULL is fine. */
void arena_free(struct arena *arena);

/* Frees what the calling thread keeps for its next arenas; before it ends. */
void arena_thread_end(void);

#endif
