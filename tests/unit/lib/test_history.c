/* The supervisor's history: crashes by module, and modules in quarantine. */
#include "core/lib/supervised.h"
#include "suite.h"

static struct crash_history history;

static void end_worker(const char *module, bool served, int64_t at_ms)
{
    struct crash_note note = {.how = "SIGSEGV"};

    strncpy(note.module, module, sizeof note.module - 1);
    if (*module)
        snprintf(note.file, sizeof note.file, "%.9s.file", module);
    history_add(&history, &note, served, at_ms);
}

static void crash(const char *module, int64_t at_ms)
{
    end_worker(module, true, at_ms);
}

static void begin(void)
{
    memset(&history, 0, sizeof history);
}

TEST(three_crashes_within_a_minute_disable_a_module)
{
    crash("bad", 1000);
    crash("bad", 30000);
    ck_assert_ptr_null(history_out(&history, "bad"));
    crash("bad", 1000 + QUARANTINE_MS);
    ck_assert_ptr_nonnull(history_out(&history, "bad"));
    ck_assert_ptr_nonnull(history_out(&history, "bad.file"));
    ck_assert_uint_eq(history_out(&history, "bad")->count, 3);
    ck_assert_ptr_null(history_out(&history, "good"));
}

TEST(crashes_far_apart_or_of_several_modules_are_tolerated)
{
    for (int i = 0; i < 9; i++)
        crash("bad", 1000 + i / 2 * (QUARANTINE_MS + 1) + i % 2);
    for (int i = 0; i < 2; i++) {
        crash("one", 300000 + i);
        crash("two", 300000 + i);
    }
    ck_assert_ptr_null(history_out(&history, "bad"));
    ck_assert_ptr_null(history_out(&history, "one"));
    ck_assert_uint_eq(history.restarts, 13);
}

/* A module that hangs in `open` takes half a minute each time. */
TEST(three_failed_starts_of_any_duration_disable_a_module)
{
    end_worker("slow", false, 31000);
    end_worker("slow", false, 62000);
    ck_assert_ptr_null(history_out(&history, "slow"));
    end_worker("slow", false, 93000);
    ck_assert_ptr_nonnull(history_out(&history, "slow"));
    history_forgive(&history);
    end_worker("slow", false, 200000);
    ck_assert_ptr_null(history_out(&history, "slow"));
}

TEST(a_worker_that_served_is_not_a_failed_start)
{
    end_worker("slow", false, 31000);
    end_worker("slow", false, 62000);
    end_worker("other", true, 100000);
    end_worker("slow", false, 131000);
    end_worker("slow", false, 162000);
    ck_assert_ptr_null(history_out(&history, "slow"));
}

/* A worker that was killed from outside names no module that could be disabled. */
TEST(crashes_without_a_module_are_counted_and_disable_nothing)
{
    for (int i = 0; i < 5; i++)
        crash("", 1000 + i);
    ck_assert_uint_eq(history.row_count, 1);
    ck_assert_uint_eq(history.rows[0].count, 5);
    ck_assert(!history.rows[0].out);
}

TEST(a_reload_enables_disabled_modules)
{
    for (int i = 0; i < 3; i++)
        crash("bad", 1000 + i);
    history_forgive(&history);
    ck_assert_ptr_null(history_out(&history, "bad"));
    crash("bad", 2000);
    ck_assert_ptr_null(history_out(&history, "bad"));
    ck_assert_uint_eq(history.rows[0].count, 4);
}

TEST(the_crash_history_is_limited)
{
    char name[16];

    for (int i = 0; i < 2 * HISTORY_ROWS; i++) {
        snprintf(name, sizeof name, "m%d", i);
        crash(name, 1000 + i);
    }
    ck_assert_uint_eq(history.row_count, HISTORY_ROWS);
    ck_assert_uint_eq(history.restarts, 2 * HISTORY_ROWS);
}

SUITE(history, .before_each = begin)
