#include "core/lib/listener.h"
#include "core/module/quota.h"
#include "suite.h"

enum { ALL = 1000, EACH = 500, MANY = 2000 };

static const struct quota_limits bounds = {ALL, EACH};
static const struct quota_owner anna = {.account = 1}, bert = {.account = 2}, carl = {.account = 3};
static struct quota_table a_table = QUOTA_TABLE(0), *const table = &a_table;

static void tear_down(void)
{
    quota_table_free(table);
}

/* Takes for a charge that holds nothing yet. */
static enum quota_result take(const struct quota_owner *owner, size_t more)
{
    return quota_take(table, &(struct quota_charge){0}, owner, more, &bounds);
}

TEST(an_owner_is_limited_to_its_share)
{
    struct quota_charge charge = {0};

    ck_assert_int_eq(take(&anna, 300), QUOTA_TAKEN);
    ck_assert_int_eq(quota_take(table, &charge, &anna, 200, &bounds), QUOTA_TAKEN);
    ck_assert_int_eq(take(&anna, 1), QUOTA_OWN_FULL);
    ck_assert_int_eq(take(&bert, 500), QUOTA_TAKEN);
    ck_assert_int_eq(take(&carl, 1), QUOTA_ALL_FULL);
    ck_assert_uint_eq(quota_taken(table), ALL);
    quota_release_all(table, &charge);
    ck_assert_uint_eq(charge.bytes, 0);
    ck_assert_int_eq(take(&carl, 200), QUOTA_TAKEN);
    ck_assert_int_eq(take(&anna, 1), QUOTA_ALL_FULL);
}

TEST(a_single_charge_may_exceed_the_limits)
{
    struct quota_charge large = {0}, small = {0};

    ck_assert_int_eq(quota_take(table, &large, &anna, 700, &bounds), QUOTA_TAKEN);
    ck_assert_int_eq(quota_take(table, &large, &anna, 100, &bounds), QUOTA_TAKEN);
    ck_assert_int_eq(take(&anna, 1), QUOTA_OWN_FULL);
    ck_assert_int_eq(quota_take(table, &small, &bert, 100, &bounds), QUOTA_TAKEN);
    ck_assert_int_eq(quota_take(table, &large, &anna, 200, &bounds), QUOTA_ALL_FULL);
    quota_release(table, &small, 100);
    ck_assert_int_eq(quota_take(table, &large, &anna, 800, &bounds), QUOTA_TAKEN);
    ck_assert_int_eq(take(&bert, 1), QUOTA_ALL_FULL);
}

TEST(an_owner_with_its_whole_share_is_full)
{
    const struct quota_limits none = {SIZE_MAX, SIZE_MAX};
    struct quota_charge charge = {0};

    ck_assert_uint_lt(quota_entry_of(table, &anna), EACH);
    ck_assert_int_eq(take(&anna, EACH - 1), QUOTA_TAKEN);
    ck_assert_int_eq(take(&bert, EACH - 1), QUOTA_TAKEN);
    ck_assert_uint_lt(quota_entry_of(table, &anna), EACH);
    ck_assert_int_eq(quota_take(table, &charge, &anna, 2, &none), QUOTA_TAKEN);
    ck_assert_uint_ge(quota_entry_of(table, &anna), EACH);
    ck_assert_uint_lt(quota_entry_of(table, &bert), EACH);
    ck_assert_uint_lt(quota_entry_of(table, &carl), EACH);
    quota_release(table, &charge, 2);
    ck_assert_uint_lt(quota_entry_of(table, &anna), EACH);
}

/* For example, a request begins as an address and continues as an account. */
TEST(a_charge_stays_with_its_first_owner)
{
    struct quota_charge charge = {0};

    ck_assert_int_eq(quota_take(table, &charge, &anna, 300, &bounds), QUOTA_TAKEN);
    ck_assert_int_eq(quota_take(table, &charge, &bert, 200, &bounds), QUOTA_TAKEN);
    ck_assert_uint_eq(quota_entry_of(table, &anna), 500);
    ck_assert_uint_eq(quota_entry_of(table, &bert), 0);
    quota_release(table, &charge, 100);
    ck_assert_uint_eq(quota_entry_of(table, &anna), 400);
    quota_release_all(table, &charge);
    ck_assert_uint_eq(quota_entry_of(table, &anna), 0);
    ck_assert_int_eq(quota_take(table, &charge, &bert, 1, &bounds), QUOTA_TAKEN);
    ck_assert_uint_eq(quota_entry_of(table, &bert), 1);
}

TEST(bytes_not_charged_are_not_released)
{
    struct quota_charge charge = {0}, made_up = {.owner = bert, .bytes = 300};

    ck_assert_int_eq(quota_take(table, &charge, &anna, 100, &bounds), QUOTA_TAKEN);
    quota_release(table, &made_up, 300);
    ck_assert_uint_eq(made_up.bytes, 0);
    quota_release(table, &charge, 300);
    ck_assert_uint_eq(charge.bytes, 0);
    ck_assert_uint_eq(quota_taken(table), 0);
    made_up = (struct quota_charge){.owner = anna, .bytes = 300};
    ck_assert_int_eq(quota_take(table, &charge, &anna, 100, &bounds), QUOTA_TAKEN);
    quota_release_all(table, &made_up);
    ck_assert_uint_eq(quota_taken(table), 0);
    quota_release_all(table, &charge);
    ck_assert_uint_eq(charge.bytes, 0);
    ck_assert_uint_eq(quota_taken(table), 0);
}

TEST(a_network_is_the_owner_without_an_account)
{
    const struct quota_owner here = {.network = address_network("10.0.0.1")},
                             there = {.network = address_network("10.0.0.2")};

    ck_assert_int_eq(take(&here, EACH), QUOTA_TAKEN);
    ck_assert_int_eq(take(&here, 1), QUOTA_OWN_FULL);
    ck_assert_int_eq(take(&there, EACH), QUOTA_TAKEN);
}

/* More owners than the table has rows; each is found again, and nothing is left afterwards. */
TEST(many_owners_are_distinguished)
{
    static struct quota_charge charges[MANY];
    const struct quota_limits wide = {MANY, 1};

    for (int64_t i = 0; i < MANY; i++)
        ck_assert_int_eq(
            quota_take(table, &charges[i], &(struct quota_owner){.account = i + 1}, 1, &wide),
            QUOTA_TAKEN);
    for (int64_t i = 1; i <= MANY; i++)
        ck_assert_int_eq(quota_take(table, &(struct quota_charge){0},
                                    &(struct quota_owner){.account = i}, 1, &wide),
                         QUOTA_OWN_FULL);
    for (int64_t i = MANY - 1; i > 0; i -= 2)
        quota_release(table, &charges[i], 1);
    for (int64_t i = 0; i < MANY; i += 2)
        quota_release(table, &charges[i], 1);
    ck_assert_uint_eq(quota_taken(table), 0);
    ck_assert_int_eq(take(&anna, EACH), QUOTA_TAKEN);
}

SUITE(quota, .after_each = tear_down)
