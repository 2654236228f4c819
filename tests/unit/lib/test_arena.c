/* The arena: alignment, zeroing, growth, undo functions. */
#include <stdint.h>

#include "core/lib/arena.h"
#include "fixture.h"
#include "suite.h"

TEST(arena_memory_is_zeroed_aligned_and_disjoint)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 100, 2047, 2048, 2049, 5000, 70000, 1000000};
    static const char zeroes[1000000];
    char *before = NULL;

    for (int round = 0; round < 10; round++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            char *got = arena_alloc(arena, sizes[i]);

            ck_assert_ptr_nonnull(got);
            ck_assert_ptr_ne(got, before);
            ck_assert_uint_eq((uintptr_t)got % 16, 0);
            ck_assert_mem_eq(got, zeroes, sizes[i]);
            memset(got, 0xA5, sizes[i]);
            before = got;
        }
    }
}

TEST(impossible_sizes_are_refused)
{
    ck_assert_ptr_null(arena_alloc(arena, SIZE_MAX));
    ck_assert_ptr_null(arena_alloc(arena, SIZE_MAX - 8));
    ck_assert_ptr_null(arena_alloc(arena, SIZE_MAX / 2));
    ck_assert_ptr_null(arena_text(arena, "", SIZE_MAX));
}

TEST(texts_are_copied_with_their_length)
{
    char *text = arena_text(arena, "a\0bc", 3);

    ck_assert_mem_eq(text, "a\0b", 4);
    ck_assert_str_eq(arena_text(arena, NULL, 0), "");
}

TEST(formats_of_any_length_fit)
{
    for (int width = 1; width < 5000; width++) {
        char *text = arena_format(arena, "%*d", width, 7);

        ck_assert_uint_eq(strlen(text), (size_t)width);
        ck_assert_int_eq(text[width - 1], '7');
    }
}

static char order[8];

static void note(void *arg)
{
    strcat(order, arg);
}

TEST(undo_functions_run_in_reverse_order)
{
    struct arena *own = arena_new();

    order[0] = '\0';
    ck_assert_int_eq(arena_defer(own, note, "a"), 0);
    ck_assert_int_eq(arena_defer(own, note, arena_text(own, "b", 1)), 0);
    ck_assert_int_eq(arena_defer(own, note, "c"), 0);
    ck_assert_str_eq(order, "");
    arena_free(own);
    ck_assert_str_eq(order, "cba");
    arena_free(NULL);
}

static void note_loudly(void *arg)
{
    note(arg);
    note("!");
}

TEST(deferred_calls_of_one_function_can_run_early)
{
    struct arena *own = arena_new();

    order[0] = '\0';
    ck_assert_int_eq(arena_defer(own, note_loudly, "a"), 0);
    ck_assert_int_eq(arena_defer(own, note, "b"), 0);
    ck_assert_int_eq(arena_defer(own, note_loudly, "c"), 0);
    arena_undo(own, note_loudly);
    ck_assert_str_eq(order, "c!a!");
    arena_undo(own, note_loudly);
    arena_free(own);
    ck_assert_str_eq(order, "c!a!b");
}

SUITE(arena, .before_each = arena_setup, .after_each = arena_teardown)
