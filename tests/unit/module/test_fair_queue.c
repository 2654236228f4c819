#include "core/module/quota.h"
#include "suite.h"

enum { THINGS = 64, MANY = 500 };

static const struct quota_owner anna = {.account = 1}, bert = {.account = 2}, carl = {.account = 3};
static struct quota_table table;
static struct fair_queue queues[2];
static struct fair_entry things[THINGS];

static void set_up(void)
{
    table = (struct quota_table)QUOTA_TABLE(2);
    queues[0] = (struct fair_queue)FAIR_QUEUE(queues[0], 0);
    queues[1] = (struct fair_queue)FAIR_QUEUE(queues[1], 1);
}

static void tear_down(void)
{
    quota_table_free(&table);
}

static void wait_in(int queue, int thing, const struct quota_owner *owner)
{
    enum quota_result why;

    things[thing].owner = fair_enter(&table, owner, SIZE_MAX, &why);
    ck_assert_ptr_nonnull(things[thing].owner);
    fair_wait(&queues[queue], &things[thing]);
}

/* Takes the next item and fails the test unless it is this one. */
static void expect(int queue, int thing)
{
    struct fair_entry *entry = fair_take(&queues[queue]);

    ck_assert_ptr_eq(entry, &things[thing]);
    fair_leave(&table, entry->owner);
}

TEST(owners_are_served_in_turns_and_each_in_order)
{
    for (int i = 0; i < 4; i++)
        wait_in(0, i, &anna);
    wait_in(0, 10, &bert);
    wait_in(0, 11, &bert);
    wait_in(0, 20, &carl);
    ck_assert_uint_eq(queues[0].flows, 3);
    static const int order[] = {0, 10, 20, 1, 11, 2, 3};

    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        expect(0, order[i]);
    ck_assert_ptr_null(fair_take(&queues[0]));
    ck_assert_uint_eq(queues[0].flows, 0);
}

TEST(queues_of_one_table_are_separate_and_share_quotas)
{
    enum quota_result why;

    wait_in(0, 0, &anna);
    wait_in(1, 1, &anna);
    ck_assert_ptr_null(fair_enter(&table, &anna, 2, &why));
    ck_assert_int_eq(why, QUOTA_OWN_FULL);
    expect(1, 1);
    ck_assert_ptr_null(fair_first(&queues[1]));
    struct quota_entry *owner = fair_enter(&table, &anna, 2, &why);

    ck_assert_ptr_nonnull(owner);
    fair_leave(&table, owner);
    expect(0, 0);
}

TEST(a_cancelled_entry_is_not_served)
{
    for (int i = 0; i < 3; i++)
        wait_in(0, i, &anna);
    wait_in(0, 10, &bert);
    for (int i = 2; i >= 0; i -= 2) {
        fair_cancel(&queues[0], &things[i]);
        fair_leave(&table, things[i].owner);
    }
    fair_cancel(&queues[0], &things[10]);
    fair_leave(&table, things[10].owner);
    ck_assert_uint_eq(queues[0].flows, 1);
    wait_in(0, 20, &carl);
    expect(0, 1);
    expect(0, 20);
    ck_assert_ptr_null(fair_take(&queues[0]));
}

TEST(a_skipped_owner_is_served_after_the_others)
{
    wait_in(0, 0, &anna);
    fair_skip(&queues[0]);
    wait_in(0, 1, &bert);
    fair_skip(&queues[0]);
    expect(0, 1);
    expect(0, 0);
}

TEST(many_owners_are_distinguished_and_freed)
{
    static struct quota_entry *owners[MANY];
    enum quota_result why;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            owners[i] = fair_enter(&table, &(struct quota_owner){.account = i + 1}, 1, &why);
            ck_assert_ptr_nonnull(owners[i]);
        }
        for (int i = 0; i < MANY; i++)
            ck_assert_ptr_null(
                fair_enter(&table, &(struct quota_owner){.account = i + 1}, 1, &why));
        for (int i = 0; i < MANY; i++)
            fair_leave(&table, owners[i]);
    }
}

SUITE(fair_queue, .before_each = set_up, .after_each = tear_down)
