/* The linker (-Wl,--wrap) makes other source files call these functions instead of the arena's. */
#include "starve.h"

#include "core/lib/arena.h"

bool starved;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
void *__real_arena_alloc(struct arena *arena, size_t size);
void *__wrap_arena_alloc(struct arena *arena, size_t size);
int __real_arena_defer(struct arena *arena, void (*undo)(void *), void *arg);
int __wrap_arena_defer(struct arena *arena, void (*undo)(void *), void *arg);

void *__wrap_arena_alloc(struct arena *arena, size_t size)
{
    return starved ? NULL : __real_arena_alloc(arena, size);
}

int __wrap_arena_defer(struct arena *arena, void (*undo)(void *), void *arg)
{
    return starved ? -1 : __real_arena_defer(arena, undo, arg);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
