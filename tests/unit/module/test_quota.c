#include "core/module/quota.h"
#include "suite.h"

enum { ALL = 1000, EACH = 500, MANY = 2000, QUEUES = 2, THINGS = 21 };

static const struct quota_limits bounds = {ALL, EACH};
static const struct quota_owner anna = {.account = 1}, bert = {.account = 2}, carl = {.account = 3};
static struct quota_table a_table, *const table = &a_table;
static struct fair_queue queues[QUEUES];
static struct fair_entry things[THINGS];

static void set_up(void)
{
    a_table = (struct quota_table)QUOTA_TABLE(QUEUES);
    for (unsigned i = 0; i < QUEUES; i++)
        queues[i] = (struct fair_queue)FAIR_QUEUE(queues[i], i);
}

static void tear_down(void)
{
    quota_table_free(table);
}

/* Calls quota_take() with an empty charge. */
static enum quota_result take(const struct quota_owner *owner, size_t more)
{
    return quota_take(table, &(struct quota_charge){0}, owner, more, &bounds);
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

/* ---- queues, in which owners take turns: see the suites pg_pool and pool ---- */

static void wait_in(int queue, int thing, const struct quota_owner *owner)
{
    enum quota_result why;

    things[thing].owner = fair_enter(table, owner, SIZE_MAX, &why);
    ck_assert_ptr_nonnull(things[thing].owner);
    fair_wait(&queues[queue], &things[thing]);
}

/* Takes the next item and fails the test unless it is this one. */
static void expect(int queue, int thing)
{
    struct fair_entry *entry = fair_take(&queues[queue]);

    ck_assert_ptr_eq(entry, &things[thing]);
    fair_leave(table, entry->owner);
}

TEST(queues_of_one_table_are_separate_and_share_quotas)
{
    enum quota_result why;

    wait_in(0, 0, &anna);
    wait_in(1, 1, &anna);
    ck_assert_ptr_null(fair_enter(table, &anna, 2, &why));
    ck_assert_int_eq(why, QUOTA_OWN_FULL);
    expect(1, 1);
    ck_assert_ptr_null(fair_first(&queues[1]));
    struct quota_entry *owner = fair_enter(table, &anna, 2, &why);

    ck_assert_ptr_nonnull(owner);
    fair_leave(table, owner);
    expect(0, 0);
}

TEST(a_cancelled_entry_is_not_served)
{
    for (int i = 0; i < 3; i++)
        wait_in(0, i, &anna);
    wait_in(0, 10, &bert);
    for (int i = 2; i >= 0; i -= 2) {
        fair_cancel(&queues[0], &things[i]);
        fair_leave(table, things[i].owner);
    }
    fair_cancel(&queues[0], &things[10]);
    fair_leave(table, things[10].owner);
    ck_assert_uint_eq(queues[0].flows, 1);
    wait_in(0, 20, &carl);
    expect(0, 1);
    expect(0, 20);
    ck_assert_ptr_null(fair_take(&queues[0]));
}

SUITE(quota, .before_each = set_up, .after_each = tear_down)
