#include <check.h>

#include "core/base/address.h"
#include "core/base/share.h"
#include "suites.h"

enum { ALL = 1000, EACH = 500, MANY = 2000 };

static const struct share_bounds bounds = {ALL, EACH};
static const struct share_owner anna = {.account = 1}, bert = {.account = 2}, carl = {.account = 3};
static struct shares *shares;

static void set_up(void)
{
    shares = shares_new();
    ck_assert_ptr_nonnull(shares);
}

static void tear_down(void)
{
    shares_free(shares);
}

/* By a piece of work that holds nothing yet. */
static enum share_answer take(const struct share_owner *owner, size_t more)
{
    return share_take(shares, owner, 0, more, &bounds);
}

START_TEST(an_owner_takes_its_part_and_no_more)
{
    ck_assert_int_eq(take(&anna, 300), SHARE_TAKEN);
    ck_assert_int_eq(take(&anna, 200), SHARE_TAKEN);
    ck_assert_int_eq(take(&anna, 1), SHARE_OWN_FULL);
    ck_assert_int_eq(take(&bert, 500), SHARE_TAKEN);
    ck_assert_int_eq(take(&carl, 1), SHARE_ALL_FULL);
    ck_assert_uint_eq(shares_taken(shares), ALL);
    share_give(shares, &anna, 200);
    ck_assert_int_eq(take(&carl, 200), SHARE_TAKEN);
    ck_assert_int_eq(take(&anna, 1), SHARE_ALL_FULL);
}

START_TEST(what_is_alone_may_be_larger_than_a_bound)
{
    ck_assert_int_eq(take(&anna, 700), SHARE_TAKEN);
    ck_assert_int_eq(share_take(shares, &anna, 700, 100, &bounds), SHARE_TAKEN);
    ck_assert_int_eq(take(&anna, 1), SHARE_OWN_FULL);
    ck_assert_int_eq(take(&bert, 100), SHARE_TAKEN);
    ck_assert_int_eq(share_take(shares, &anna, 800, 200, &bounds), SHARE_ALL_FULL);
    share_give(shares, &bert, 100);
    ck_assert_int_eq(share_take(shares, &anna, 800, 800, &bounds), SHARE_TAKEN);
    ck_assert_int_eq(take(&bert, 1), SHARE_ALL_FULL);
}

START_TEST(who_has_its_part_is_full)
{
    const struct share_bounds none = {SIZE_MAX, SIZE_MAX};

    ck_assert(!share_is_full(shares, &anna, EACH));
    ck_assert_int_eq(take(&anna, EACH - 1), SHARE_TAKEN);
    ck_assert_int_eq(take(&bert, EACH - 1), SHARE_TAKEN);
    ck_assert(!share_is_full(shares, &anna, EACH));
    ck_assert_int_eq(share_take(shares, &anna, 0, 2, &none), SHARE_TAKEN);
    ck_assert(share_is_full(shares, &anna, EACH));
    ck_assert(!share_is_full(shares, &bert, EACH));
    ck_assert(!share_is_full(shares, &carl, EACH));
    share_give(shares, &anna, 2);
    ck_assert(!share_is_full(shares, &anna, EACH));
}

START_TEST(without_an_account_a_network_is_the_owner)
{
    const struct share_owner here = {.network = address_network("10.0.0.1")},
                             there = {.network = address_network("10.0.0.2")};

    ck_assert_int_eq(take(&here, EACH), SHARE_TAKEN);
    ck_assert_int_eq(take(&here, 1), SHARE_OWN_FULL);
    ck_assert_int_eq(take(&there, EACH), SHARE_TAKEN);
}

/* More than there are rows in the table; each is found again, and nothing is left behind. */
START_TEST(many_owners_are_told_apart)
{
    const struct share_bounds wide = {MANY, 1};

    for (int64_t i = 1; i <= MANY; i++)
        ck_assert_int_eq(share_take(shares, &(struct share_owner){.account = i}, 0, 1, &wide),
                         SHARE_TAKEN);
    for (int64_t i = 1; i <= MANY; i++)
        ck_assert_int_eq(share_take(shares, &(struct share_owner){.account = i}, 0, 1, &wide),
                         SHARE_OWN_FULL);
    for (int64_t i = MANY; i; i -= 2)
        share_give(shares, &(struct share_owner){.account = i}, 1);
    for (int64_t i = 1; i < MANY; i += 2)
        share_give(shares, &(struct share_owner){.account = i}, 1);
    ck_assert_uint_eq(shares_taken(shares), 0);
    ck_assert_int_eq(take(&anna, EACH), SHARE_TAKEN);
}

Suite *share_suite(void)
{
    Suite *suite = suite_create("share");
    TCase *cases = tcase_create("share");

    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, an_owner_takes_its_part_and_no_more);
    tcase_add_test(cases, what_is_alone_may_be_larger_than_a_bound);
    tcase_add_test(cases, who_has_its_part_is_full);
    tcase_add_test(cases, without_an_account_a_network_is_the_owner);
    tcase_add_test(cases, many_owners_are_told_apart);
    suite_add_tcase(suite, cases);
    return suite;
}
