#include <check.h>

#include "core/base/address.h"
#include "core/base/quota_table.h"
#include "suites.h"

enum { ALL = 1000, EACH = 500, MANY = 2000 };

static const struct quota_limits bounds = {ALL, EACH};
static const struct quota_owner anna = {.account = 1}, bert = {.account = 2}, carl = {.account = 3};
static struct quota_table *table;

static void set_up(void)
{
    table = quota_table_new();
    ck_assert_ptr_nonnull(table);
}

static void tear_down(void)
{
    quota_table_free(table);
}

/* By a piece of work that holds nothing yet. */
static enum quota_result take(const struct quota_owner *owner, size_t more)
{
    return quota_take(table, owner, 0, more, &bounds);
}

START_TEST(an_owner_takes_its_part_and_no_more)
{
    ck_assert_int_eq(take(&anna, 300), QUOTA_TAKEN);
    ck_assert_int_eq(take(&anna, 200), QUOTA_TAKEN);
    ck_assert_int_eq(take(&anna, 1), QUOTA_OWN_FULL);
    ck_assert_int_eq(take(&bert, 500), QUOTA_TAKEN);
    ck_assert_int_eq(take(&carl, 1), QUOTA_ALL_FULL);
    ck_assert_uint_eq(quota_taken(table), ALL);
    quota_release(table, &anna, 200);
    ck_assert_int_eq(take(&carl, 200), QUOTA_TAKEN);
    ck_assert_int_eq(take(&anna, 1), QUOTA_ALL_FULL);
}

START_TEST(what_is_alone_may_be_larger_than_a_bound)
{
    ck_assert_int_eq(take(&anna, 700), QUOTA_TAKEN);
    ck_assert_int_eq(quota_take(table, &anna, 700, 100, &bounds), QUOTA_TAKEN);
    ck_assert_int_eq(take(&anna, 1), QUOTA_OWN_FULL);
    ck_assert_int_eq(take(&bert, 100), QUOTA_TAKEN);
    ck_assert_int_eq(quota_take(table, &anna, 800, 200, &bounds), QUOTA_ALL_FULL);
    quota_release(table, &bert, 100);
    ck_assert_int_eq(quota_take(table, &anna, 800, 800, &bounds), QUOTA_TAKEN);
    ck_assert_int_eq(take(&bert, 1), QUOTA_ALL_FULL);
}

START_TEST(who_has_its_part_is_full)
{
    const struct quota_limits none = {SIZE_MAX, SIZE_MAX};

    ck_assert(!quota_is_full(table, &anna, EACH));
    ck_assert_int_eq(take(&anna, EACH - 1), QUOTA_TAKEN);
    ck_assert_int_eq(take(&bert, EACH - 1), QUOTA_TAKEN);
    ck_assert(!quota_is_full(table, &anna, EACH));
    ck_assert_int_eq(quota_take(table, &anna, 0, 2, &none), QUOTA_TAKEN);
    ck_assert(quota_is_full(table, &anna, EACH));
    ck_assert(!quota_is_full(table, &bert, EACH));
    ck_assert(!quota_is_full(table, &carl, EACH));
    quota_release(table, &anna, 2);
    ck_assert(!quota_is_full(table, &anna, EACH));
}

START_TEST(without_an_account_a_network_is_the_owner)
{
    const struct quota_owner here = {.network = address_network("10.0.0.1")},
                             there = {.network = address_network("10.0.0.2")};

    ck_assert_int_eq(take(&here, EACH), QUOTA_TAKEN);
    ck_assert_int_eq(take(&here, 1), QUOTA_OWN_FULL);
    ck_assert_int_eq(take(&there, EACH), QUOTA_TAKEN);
}

/* More than there are rows in the table; each is found again, and nothing is left behind. */
START_TEST(many_owners_are_told_apart)
{
    const struct quota_limits wide = {MANY, 1};

    for (int64_t i = 1; i <= MANY; i++)
        ck_assert_int_eq(quota_take(table, &(struct quota_owner){.account = i}, 0, 1, &wide),
                         QUOTA_TAKEN);
    for (int64_t i = 1; i <= MANY; i++)
        ck_assert_int_eq(quota_take(table, &(struct quota_owner){.account = i}, 0, 1, &wide),
                         QUOTA_OWN_FULL);
    for (int64_t i = MANY; i; i -= 2)
        quota_release(table, &(struct quota_owner){.account = i}, 1);
    for (int64_t i = 1; i < MANY; i += 2)
        quota_release(table, &(struct quota_owner){.account = i}, 1);
    ck_assert_uint_eq(quota_taken(table), 0);
    ck_assert_int_eq(take(&anna, EACH), QUOTA_TAKEN);
}

Suite *quota_suite(void)
{
    Suite *suite = suite_create("quota");
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
