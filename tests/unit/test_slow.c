/* Which reads of whom go to the pool of long statements. */
#include <check.h>

#include "core/postgres/pg_slow.h"
#include "suites.h"

enum { LATE_US = PG_SLOW_US, SO_SO_US = PG_SLOW_US - 1, SOON_US = 999, TIMES = 4 };

static struct pg_slow slow;
static const struct quota_owner ada = {.account = 1}, bob = {.account = 2};
static const struct bb_sql list = {"SELECT 1", 0}, count = {"SELECT 2", 0};
static int64_t now_ms;

static void set_up(void)
{
    slow = (struct pg_slow){0};
    now_ms = 1000000;
}

static void answer(const struct quota_owner *owner, const struct bb_sql *sql, int64_t took_us)
{
    pg_slow_answered(&slow, owner, sql, now_ms, took_us);
}

static void make_slow(const struct quota_owner *owner, const struct bb_sql *sql)
{
    for (int i = 0; i < TIMES; i++)
        answer(owner, sql, LATE_US);
}

static bool is_slow(const struct quota_owner *owner, const struct bb_sql *sql)
{
    return pg_slow_is(&slow, owner, sql, now_ms);
}

START_TEST(what_is_slow_each_time_is_slow)
{
    for (int i = 0; i < TIMES; i++) {
        ck_assert(!is_slow(&ada, &list));
        answer(&ada, &list, LATE_US);
    }
    ck_assert(is_slow(&ada, &list));
    ck_assert(!is_slow(&bob, &list));
    ck_assert(!is_slow(&ada, &count));
}

START_TEST(who_was_in_bad_company_is_not)
{
    for (int i = 0; i < 100; i++)
        answer(&ada, &list, i % TIMES ? LATE_US : SO_SO_US);
    ck_assert(!is_slow(&ada, &list));
    answer(&ada, &list, SO_SO_US);
    ck_assert_uint_eq(slow.taken, 0);
}

START_TEST(it_stays_so_until_it_is_quick)
{
    make_slow(&ada, &list);
    for (int i = 0; i < 100; i++) {
        now_ms += 9999;
        ck_assert(is_slow(&ada, &list));
        answer(&ada, &list, i % 2 ? SO_SO_US : LATE_US);
    }
    answer(&ada, &list, SOON_US);
    ck_assert(!is_slow(&ada, &list));
    ck_assert_uint_eq(slow.taken, 0);
}

START_TEST(it_is_looked_at_anew_after_a_while)
{
    make_slow(&ada, &list);
    now_ms += 10000;
    ck_assert(!is_slow(&ada, &list));
    answer(&ada, &list, LATE_US);
    ck_assert(!is_slow(&ada, &list));
}

/* A table that is full forgets who is not slow, and nobody else. */
START_TEST(a_crowd_does_not_push_out_who_is_slow)
{
    make_slow(&ada, &list);
    for (int64_t i = 3; i < 1000; i++)
        answer(&(struct quota_owner){.account = i}, &count, LATE_US);
    ck_assert(is_slow(&ada, &list));
    ck_assert_uint_le(slow.taken, PG_SLOW_PLACES);
}

START_TEST(where_all_are_late_nobody_is_slow)
{
    for (int i = 0; i < 1000; i++)
        pg_slow_batch(&slow, SOON_US);
    ck_assert(!pg_slow_batch(&slow, PG_SLOW_US - 1));
    ck_assert(pg_slow_batch(&slow, 8 * SOON_US));
    for (int i = 0; i < 1000; i++)
        pg_slow_batch(&slow, PG_SLOW_US);
    ck_assert(!pg_slow_batch(&slow, 4 * PG_SLOW_US));
    ck_assert(pg_slow_batch(&slow, 9 * PG_SLOW_US));
}

Suite *slow_suite(void)
{
    Suite *suite = suite_create("slow");
    TCase *tests = tcase_create("slow");

    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, what_is_slow_each_time_is_slow);
    tcase_add_test(tests, who_was_in_bad_company_is_not);
    tcase_add_test(tests, it_stays_so_until_it_is_quick);
    tcase_add_test(tests, it_is_looked_at_anew_after_a_while);
    tcase_add_test(tests, a_crowd_does_not_push_out_who_is_slow);
    tcase_add_test(tests, where_all_are_late_nobody_is_slow);
    suite_add_tcase(suite, tests);
    return suite;
}
