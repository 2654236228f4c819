/* The order in which live streams with a backlog are served: accounts take turns. */
#include <stdio.h>
#include <string.h>

#include "modules/chat/live/listeners.h"
#include "unit_suites.h"

enum { SOME = 40 };

static struct listeners all;
static struct chat_listener *made[SOME];
static size_t count;
static const struct chat_listener *deaf;

static void setup(void)
{
    ck_assert_int_eq(listeners_init(&all), 0);
    count = 0;
    deaf = NULL;
}

static void teardown(void)
{
    while (count) {
        listeners_remove(&all, made[--count]);
        chat_listener_free(made[count]);
    }
    listeners_free(&all);
}

static struct chat_listener *come(int64_t account)
{
    static const struct chat_cursor start;
    const struct chat_scope scope = {.own = "a@shop.example"};
    struct chat_listener *listener = chat_listener_new(NULL, &scope, account, &start);

    ck_assert_ptr_nonnull(listener);
    ck_assert_int_eq(listeners_add(&all, listener), 0);
    return made[count++] = listener;
}

static void leave(struct chat_listener *listener)
{
    listeners_remove(&all, listener);
    for (size_t i = 0; i < count; i++)
        if (made[i] == listener)
            made[i] = made[--count];
    chat_listener_free(listener);
}

static bool ready(const struct chat_listener *listener)
{
    return listener != deaf;
}

/* Returns the accounts of the next turns, in one text. */
static const char *turns(int number)
{
    static char text[SOME * 4];
    size_t used = 0;

    for (int i = 0; i < number; i++) {
        const struct chat_listener *listener = listeners_turn(&all, ready);

        ck_assert_ptr_nonnull(listener);
        used += (size_t)snprintf(text + used, sizeof text - used, "%d", (int)listener->account_id);
    }
    return text;
}

START_TEST(an_account_waits_for_one_turn_of_each_other_however_many_they_have)
{
    for (int i = 0; i < 20; i++)
        come(1);
    ck_assert_str_eq(turns(5), "11111");
    come(2);
    ck_assert_str_eq(turns(4), "1212");
    for (int i = 0; i < 10; i++)
        come(3);
    ck_assert_str_eq(turns(6), "123123");
}
END_TEST

START_TEST(the_listeners_of_an_account_take_turns)
{
    struct chat_listener *first = come(1), *second = come(1), *third = come(1);

    ck_assert_ptr_eq(listeners_turn(&all, ready), first);
    ck_assert_ptr_eq(listeners_turn(&all, ready), second);
    ck_assert_ptr_eq(listeners_turn(&all, ready), third);
    ck_assert_ptr_eq(listeners_turn(&all, ready), first);
    listeners_set_behind(&all, second, false);
    ck_assert_ptr_eq(listeners_turn(&all, ready), third);
    ck_assert_ptr_eq(listeners_turn(&all, ready), first);
}
END_TEST

START_TEST(who_has_no_room_is_passed_over)
{
    deaf = come(1);
    ck_assert_ptr_null(listeners_turn(&all, ready));
    come(2);
    ck_assert_str_eq(turns(3), "222");
    deaf = NULL;
    ck_assert_str_eq(turns(3), "121");
}
END_TEST

START_TEST(coming_anew_wins_no_turn)
{
    come(1);
    come(2);
    struct chat_listener *again = come(3);

    ck_assert_str_eq(turns(3), "123");
    for (int i = 0; i < 5; i++) {
        leave(again);
        again = come(3);
        ck_assert_int_ne(listeners_turn(&all, ready)->account_id, 3);
    }
}
END_TEST

START_TEST(streams_are_counted_by_account)
{
    struct chat_listener *one = come(1);

    come(1);
    come(1025);
    ck_assert_uint_eq(listeners_count(&all, 1), 2);
    ck_assert_uint_eq(listeners_count(&all, 1025), 1);
    ck_assert_uint_eq(listeners_count(&all, 2), 0);
    leave(one);
    ck_assert_uint_eq(listeners_count(&all, 1), 1);
    ck_assert_uint_eq(all.count, 2);
    ck_assert_uint_eq(all.behind_count, 2);
}
END_TEST

Suite *chat_turns_suite(void)
{
    Suite *suite = suite_create("chat_turns");
    TCase *tests = tcase_create("chat_turns");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_account_waits_for_one_turn_of_each_other_however_many_they_have);
    tcase_add_test(tests, the_listeners_of_an_account_take_turns);
    tcase_add_test(tests, who_has_no_room_is_passed_over);
    tcase_add_test(tests, coming_anew_wins_no_turn);
    tcase_add_test(tests, streams_are_counted_by_account);
    suite_add_tcase(suite, tests);
    return suite;
}
