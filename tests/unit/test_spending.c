/* Who had much of the time lately waits, while others are there. */
#include <check.h>

#include "core/base/spending.h"
#include "suites.h"

enum { PERCENT = 25 };

static struct spending spending;
static const struct quota_owner ada = {.account = 1}, bob = {.account = 2};
static int64_t now_ms;

static void set_up(void)
{
    spending = (struct spending){.percent = PERCENT};
    now_ms = 1000000;
}

static void work(const struct quota_owner *owner, int64_t took_us)
{
    spending_charge(&spending, owner, now_ms, took_us);
}

static int64_t wait_of(const struct quota_owner *owner)
{
    const struct spending_entry *entry = spending_entry_of(&spending, owner);

    return entry ? spending_wait_ms(&spending, entry, now_ms) : 0;
}

START_TEST(who_asks_for_little_never_waits)
{
    for (int i = 0; i < 100000; i++)
        work(&ada, 249);
    ck_assert_int_eq(wait_of(&ada), 0);
}

START_TEST(a_debt_is_paid_off_by_the_share)
{
    work(&ada, 100000);
    ck_assert_int_eq(wait_of(&ada), 0);
    work(&ada, 25000);
    ck_assert_int_eq(wait_of(&ada), 101);
    ck_assert_int_eq(wait_of(&bob), 0);
    now_ms += 50;
    ck_assert_int_eq(wait_of(&ada), 51);
    work(&ada, 25000);
    ck_assert_int_eq(wait_of(&ada), 151);
    now_ms += 151;
    ck_assert_int_eq(wait_of(&ada), 0);
}

START_TEST(those_who_owe_have_one_share_together)
{
    work(&ada, 125000);
    work(&bob, 100000); /* for that nobody waits */
    ck_assert_int_eq(wait_of(&ada), 101);
    work(&bob, 75000);
    ck_assert_int_eq(wait_of(&ada), 201);
    ck_assert_int_eq(wait_of(&bob), 601);
    now_ms += 200; /* each has paid off 25 ms */
    ck_assert_int_eq(wait_of(&ada), 0);
    ck_assert_int_eq(wait_of(&bob), 201);
    now_ms += 200; /* alone it pays with all of the share */
    ck_assert_int_eq(wait_of(&bob), 0);
}

START_TEST(a_small_share_of_many_is_paid_off_too)
{
    spending.percent = 1; /* 10 us of a millisecond, for 20 */
    for (int64_t account = 1; account <= 20; account++)
        work(&(struct quota_owner){.account = account}, 100100);
    ck_assert_int_gt(wait_of(&ada), 1);
    for (int i = 0; i < 202; i++) {
        now_ms++;
        wait_of(&bob);
    }
    ck_assert_int_eq(wait_of(&ada), 0);
}

START_TEST(a_debt_has_an_end)
{
    for (int i = 0; i < 100; i++)
        work(&ada, 1000000);
    ck_assert_int_eq(wait_of(&ada), 3601); /* 0.9 s, by a quarter of the time */
    now_ms += 4000;
    ck_assert_int_eq(wait_of(&ada), 0);
}

START_TEST(the_host_itself_owes_nothing)
{
    static const struct quota_owner host;

    work(&host, 1000000);
    ck_assert_int_eq(wait_of(&host), 0);
}

START_TEST(what_is_paid_in_advance_is_not_paid_again)
{
    work(&ada, 100000);
    spending_advance(&spending, spending_entry_of(&spending, &ada),
                     now_ms); /* seven eighths of 100 ms */
    ck_assert_int_eq(wait_of(&ada), 351);
    work(&ada, 80000);
    ck_assert_int_eq(wait_of(&ada), 351);
    work(&ada, 7750); /* 0.25 ms more than was paid */
    ck_assert_int_eq(wait_of(&ada), 352);
}

START_TEST(who_asks_for_less_pays_less_in_advance)
{
    work(&ada, 80000);
    now_ms += 10000;
    for (int i = 0; i < 100; i++)
        spending_advance(&spending, spending_entry_of(&spending, &ada), now_ms);
    int64_t before_ms = wait_of(&ada);

    for (int i = 0; i < 4; i++)
        spending_advance(&spending, spending_entry_of(&spending, &ada), now_ms);
    ck_assert_int_eq(wait_of(&ada), before_ms + 4); /* a millisecond is four times the least */
}

START_TEST(one_goes_on_in_the_time_that_the_patience_takes)
{
    work(&ada, 1000000);
    work(&bob, 1000000);
    struct spending_entry *entry = spending_entry_of(&spending, &ada);

    ck_assert(spending_lets_go(entry, now_ms));
    ck_assert(!spending_lets_go(entry, now_ms + SPENDING_WAIT_MS - 1));
    ck_assert(spending_lets_go(entry, now_ms + SPENDING_WAIT_MS));
    ck_assert(!spending_lets_go(entry, now_ms + SPENDING_WAIT_MS + 1));
    ck_assert(spending_lets_go(spending_entry_of(&spending, &bob), now_ms));
}

START_TEST(whose_requests_wait_keeps_its_place)
{
    work(&ada, 1000);
    struct spending_entry *entry = spending_entry_of(&spending, &ada);

    entry->waiting = 1;
    for (int64_t account = 10; account < 10000; account++)
        work(&(struct quota_owner){.account = account}, 1000000);
    ck_assert_ptr_eq(spending_entry_of(&spending, &ada), entry);
    entry->waiting = 0;
    for (int64_t account = 10000; account < 20000; account++)
        work(&(struct quota_owner){.account = account}, 1000000);
    ck_assert_ptr_null(spending_entry_of(&spending, &ada));
}

START_TEST(those_who_owe_most_are_remembered)
{
    work(&ada, 500000);
    for (int64_t account = 10; account < 10000; account++)
        work(&(struct quota_owner){.account = account}, 1000);
    ck_assert_int_gt(wait_of(&ada), 0);
    work(&bob, 1000000);
    ck_assert_int_gt(wait_of(&bob), 0);
}

START_TEST(others_are_there_who_asked_a_moment_ago)
{
    spending_asks(&spending, &ada, now_ms);
    spending_asks(&spending, &ada, now_ms);
    ck_assert(!spending_has_several(&spending, now_ms));
    spending_asks(&spending, &bob, now_ms);
    ck_assert(spending_has_several(&spending, now_ms));
    ck_assert(spending_has_several(&spending, now_ms + 999));
    spending_asks(&spending, &bob, now_ms + 1000);
    ck_assert(!spending_has_several(&spending, now_ms + 1000));
    ck_assert(spending_has_others(&spending, &ada, now_ms + 1999));
    ck_assert(!spending_has_others(&spending, &bob, now_ms + 1000));
    spending_asks(&spending, &ada, now_ms + 1000);
    ck_assert(spending_has_several(&spending, now_ms + 1000));
}

Suite *spending_suite(void)
{
    Suite *suite = suite_create("spending");
    TCase *tests = tcase_create("spending");

    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, who_asks_for_little_never_waits);
    tcase_add_test(tests, a_debt_is_paid_off_by_the_share);
    tcase_add_test(tests, those_who_owe_have_one_share_together);
    tcase_add_test(tests, a_small_share_of_many_is_paid_off_too);
    tcase_add_test(tests, a_debt_has_an_end);
    tcase_add_test(tests, the_host_itself_owes_nothing);
    tcase_add_test(tests, what_is_paid_in_advance_is_not_paid_again);
    tcase_add_test(tests, who_asks_for_less_pays_less_in_advance);
    tcase_add_test(tests, one_goes_on_in_the_time_that_the_patience_takes);
    tcase_add_test(tests, whose_requests_wait_keeps_its_place);
    tcase_add_test(tests, those_who_owe_most_are_remembered);
    tcase_add_test(tests, others_are_there_who_asked_a_moment_ago);
    suite_add_tcase(suite, tests);
    return suite;
}
