/* How many long statements may be under way beside short ones. */
#include <check.h>

#include "core/postgres/pg_pace.h"
#include "suites.h"

enum { MOST = 3, QUICK_US = 300, LATE_US = 20000 };

static struct pg_pace pace;
static int64_t now_ms;

static void set_up(void)
{
    now_ms = 1000000;
    pg_pace_init(&pace, MOST);
}

/* How many others may be under way when one more begins, at most. */
static size_t allowed(void)
{
    size_t running = 0;

    while (running < 100 && pg_pace_may_begin(&pace, now_ms, running))
        running++;
    return running;
}

static void answer(int64_t took_us)
{
    now_ms++;
    pg_pace_answered(&pace, now_ms, took_us);
    pg_pace_begun(&pace, now_ms);
}

START_TEST(without_short_ones_nothing_is_held_back)
{
    ck_assert_uint_eq(allowed(), 100);
    answer(QUICK_US);
    ck_assert_uint_eq(allowed(), MOST);
    now_ms += 1000;
    ck_assert_uint_eq(allowed(), 100);
}

START_TEST(while_short_ones_are_late_one_runs_after_the_other)
{
    answer(QUICK_US);
    answer(LATE_US);
    ck_assert_uint_eq(allowed(), 1);
    for (int i = 0; i < 998; i++)
        answer(QUICK_US);
    ck_assert_uint_eq(allowed(), 1);
    for (int i = 0; i < 2; i++)
        answer(QUICK_US);
    ck_assert_uint_eq(allowed(), 2);
    for (int i = 0; i < 1000; i++)
        answer(QUICK_US);
    ck_assert_uint_eq(allowed(), MOST);
    for (int i = 0; i < 2000; i++)
        answer(QUICK_US);
    ck_assert_uint_eq(allowed(), MOST);
}

START_TEST(a_slow_one_does_not_hold_up_the_others)
{
    answer(QUICK_US);
    answer(LATE_US);
    ck_assert(!pg_pace_may_begin(&pace, now_ms + 99, 1));
    ck_assert(pg_pace_may_begin(&pace, now_ms + 100, 1));
}

/* PostgreSQL may be far away: each answer takes as long then. */
START_TEST(what_is_late_is_measured_by_the_quickest_of_late)
{
    answer(LATE_US);
    answer(LATE_US * 3);
    ck_assert_uint_eq(allowed(), MOST);
    answer(QUICK_US);
    answer(LATE_US);
    ck_assert_uint_eq(allowed(), 1);
    for (int windows = 0; windows < 3; windows++) {
        now_ms += 30000;
        answer(LATE_US);
    }
    for (int i = 0; i < 3000; i++)
        answer(LATE_US);
    ck_assert_uint_eq(allowed(), MOST);
}

Suite *pace_suite(void)
{
    Suite *suite = suite_create("pace");
    TCase *tests = tcase_create("pace");

    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, without_short_ones_nothing_is_held_back);
    tcase_add_test(tests, while_short_ones_are_late_one_runs_after_the_other);
    tcase_add_test(tests, a_slow_one_does_not_hold_up_the_others);
    tcase_add_test(tests, what_is_late_is_measured_by_the_quickest_of_late);
    suite_add_tcase(suite, tests);
    return suite;
}
