#include <check.h>

#include "core/base/turns.h"
#include "suites.h"

enum { THINGS = 64, MANY = 500 };

static const struct quota_owner anna = {.account = 1}, bert = {.account = 2}, carl = {.account = 3};
static struct turns turns;
static struct turn_ring rings[2];
static struct turn things[THINGS];

static void set_up(void)
{
    turns = (struct turns){0};
    turns_init(&turns, 2);
    rings[0] = (struct turn_ring){.index = 0};
    rings[1] = (struct turn_ring){.index = 1};
}

static void tear_down(void)
{
    turns_free(&turns);
}

static void wait_in(int ring, int thing, const struct quota_owner *owner)
{
    enum quota_result why;

    things[thing].owner = turns_enter(&turns, owner, SIZE_MAX, &why);
    ck_assert_ptr_nonnull(things[thing].owner);
    turn_wait(&rings[ring], &things[thing]);
}

/* Takes one, which must be this. */
static void expect(int ring, int thing)
{
    struct turn *turn = turn_take(&rings[ring]);

    ck_assert_ptr_eq(turn, &things[thing]);
    turns_leave(&turns, turn->owner);
}

START_TEST(each_owner_is_served_in_turn_and_in_its_order)
{
    for (int i = 0; i < 4; i++)
        wait_in(0, i, &anna);
    wait_in(0, 10, &bert);
    wait_in(0, 11, &bert);
    wait_in(0, 20, &carl);
    ck_assert_uint_eq(rings[0].lines, 3);
    static const int order[] = {0, 10, 20, 1, 11, 2, 3};

    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        expect(0, order[i]);
    ck_assert_ptr_null(turn_take(&rings[0]));
    ck_assert_uint_eq(rings[0].lines, 0);
}

START_TEST(rings_of_one_table_keep_apart_and_count_together)
{
    enum quota_result why;

    wait_in(0, 0, &anna);
    wait_in(1, 1, &anna);
    ck_assert_ptr_null(turns_enter(&turns, &anna, 2, &why));
    ck_assert_int_eq(why, QUOTA_OWN_FULL);
    expect(1, 1);
    ck_assert_ptr_null(turn_first(&rings[1]));
    struct turn_owner *owner = turns_enter(&turns, &anna, 2, &why);

    ck_assert_ptr_nonnull(owner);
    turns_leave(&turns, owner);
    expect(0, 0);
}

START_TEST(what_is_cancelled_is_not_served)
{
    for (int i = 0; i < 3; i++)
        wait_in(0, i, &anna);
    wait_in(0, 10, &bert);
    for (int i = 2; i >= 0; i -= 2) {
        turn_cancel(&rings[0], &things[i]);
        turns_leave(&turns, things[i].owner);
    }
    turn_cancel(&rings[0], &things[10]);
    turns_leave(&turns, things[10].owner);
    ck_assert_uint_eq(rings[0].lines, 1);
    wait_in(0, 20, &carl);
    expect(0, 1);
    expect(0, 20);
    ck_assert_ptr_null(turn_take(&rings[0]));
}

START_TEST(who_is_skipped_comes_behind_the_others)
{
    wait_in(0, 0, &anna);
    turn_skip(&rings[0]);
    wait_in(0, 1, &bert);
    turn_skip(&rings[0]);
    expect(0, 1);
    expect(0, 0);
}

START_TEST(many_owners_are_told_apart_and_forgotten)
{
    static struct turn_owner *owners[MANY];
    enum quota_result why;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            owners[i] = turns_enter(&turns, &(struct quota_owner){.account = i + 1}, 1, &why);
            ck_assert_ptr_nonnull(owners[i]);
        }
        for (int i = 0; i < MANY; i++)
            ck_assert_ptr_null(
                turns_enter(&turns, &(struct quota_owner){.account = i + 1}, 1, &why));
        for (int i = 0; i < MANY; i++)
            turns_leave(&turns, owners[i]);
    }
}

Suite *turns_suite(void)
{
    Suite *suite = suite_create("turns");
    TCase *cases = tcase_create("turns");

    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, each_owner_is_served_in_turn_and_in_its_order);
    tcase_add_test(cases, rings_of_one_table_keep_apart_and_count_together);
    tcase_add_test(cases, what_is_cancelled_is_not_served);
    tcase_add_test(cases, who_is_skipped_comes_behind_the_others);
    tcase_add_test(cases, many_owners_are_told_apart_and_forgotten);
    suite_add_tcase(suite, cases);
    return suite;
}
