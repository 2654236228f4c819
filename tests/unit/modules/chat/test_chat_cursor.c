/* Marks and cursors of the live stream: the set of transactions seen, and its text form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/chat/live/cursor.h"
#include "unit_suites.h"

static struct chat_mark mark_of(const char *snapshot)
{
    struct chat_mark mark;

    ck_assert_msg(!chat_mark_parse(snapshot, &mark), "%s", snapshot);
    return mark;
}

START_TEST(a_mark_has_what_its_snapshot_shows)
{
    struct chat_mark mark = mark_of("10:20:10,14,19");

    ck_assert(chat_mark_has(&mark, 9));
    ck_assert(!chat_mark_has(&mark, 10));
    ck_assert(chat_mark_has(&mark, 13));
    ck_assert(!chat_mark_has(&mark, 19));
    ck_assert(!chat_mark_has(&mark, 20));
}
END_TEST

START_TEST(what_is_taken_out_of_a_mark_can_be_put_back)
{
    struct chat_mark mark = mark_of("10:20:10,14");
    char text[CHAT_SNAPSHOT_SIZE];

    ck_assert_int_eq(chat_mark_exclude(&mark, 12), 0);
    ck_assert_int_eq(chat_mark_exclude(&mark, 12), 0);
    ck_assert_int_eq(chat_mark_exclude(&mark, 25), 0);
    chat_mark_text(&mark, text);
    ck_assert_str_eq(text, "10:20:10,12,14");
    chat_mark_include(&mark, 10);
    chat_mark_include(&mark, 11);
    chat_mark_text(&mark, text);
    ck_assert_str_eq(text, "12:20:12,14");
}
END_TEST

START_TEST(a_mark_names_only_so_many_transactions)
{
    struct chat_mark mark = {.xmax = 10000};

    for (int i = 0; i < CHAT_XIPS; i++)
        ck_assert_int_eq(chat_mark_exclude(&mark, (uint64_t)(9999 - 2 * i)), 0);
    ck_assert_int_eq(chat_mark_exclude(&mark, 2), -1);
}
END_TEST

START_TEST(texts_that_are_no_snapshot_or_id_are_refused)
{
    static const char *const snapshots[] = {
        "",        "1",      "1:2",    "2:1:",  "1:5:7", "1:5:3,3",
        "1:5:4,3", "1:5:2,", "1:5:2x", "-1:5:", "a:b:c", "99999999999999999999:1:"};
    static const char *const ids[] = {
        "",          "1",           "1-2",           "1-5-9",        "1-5-3.3",      "1-5-2-1",
        "1-5-2-1-1", "1-5-2-1-1-1", "1-5-2-1-1-1-1", "1-5-2-2-1-1 ", "1-5-2-2--1-1", "x-5-"};
    struct chat_mark mark;
    struct chat_cursor cursor;

    for (size_t i = 0; i < sizeof snapshots / sizeof *snapshots; i++)
        ck_assert_msg(chat_mark_parse(snapshots[i], &mark) == -1, "%s", snapshots[i]);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        ck_assert_msg(chat_cursor_parse(ids[i], &cursor) == -1, "%s", ids[i]);
}
END_TEST

START_TEST(an_id_says_where_its_reader_stands)
{
    struct chat_cursor cursor = {
        .mark = mark_of("100:120:100,110"), .xid = 110, .conversation = 7, .part = 9};
    struct chat_cursor again;
    char id[CHAT_ID_SIZE];

    ck_assert_int_eq(chat_cursor_text(&cursor, id), 0);
    ck_assert_str_eq(id, "100-20-0.10-10-7-9");
    ck_assert_int_eq(chat_cursor_parse(id, &again), 0);
    ck_assert(chat_cursor_has(&again, 110, 7, 9));
    ck_assert(chat_cursor_has(&again, 110, 6, 20));
    ck_assert(!chat_cursor_has(&again, 110, 7, 10));
    ck_assert(!chat_cursor_has(&again, 110, 8, 1));
    ck_assert(!chat_cursor_has(&again, 100, 1, 1));
    ck_assert(chat_cursor_has(&again, 119, 9, 9));
}
END_TEST

START_TEST(an_id_names_its_home)
{
    struct chat_cursor cursor = {.home = 77, .mark = mark_of("100:120:100")}, again;
    char id[CHAT_ID_SIZE];

    ck_assert_int_eq(chat_cursor_text(&cursor, id), 0);
    ck_assert_str_eq(id, "d77-100-20-0");
    ck_assert_int_eq(chat_cursor_parse(id, &again), 0);
    ck_assert_uint_eq(again.home, 77);
    ck_assert_int_eq(chat_cursor_parse("100-20-0", &again), 0);
    ck_assert_uint_eq(again.home, 0);
    ck_assert_int_eq(chat_cursor_parse("d0-100-20-0", &again), -1);
    ck_assert_int_eq(chat_cursor_parse("d-100-20-0", &again), -1);
    ck_assert_int_eq(chat_cursor_parse("d77100-20-0", &again), -1);
}
END_TEST

/* Returns a mark of up to 24 transactions without up to 4 random ones. */
static struct chat_mark random_mark(unsigned *state)
{
    struct chat_mark mark = {.xmax = 1 + (uint64_t)rand_r(state) % 24};

    for (int i = 0; i < 4; i++)
        chat_mark_exclude(&mark, 1 + (uint64_t)rand_r(state) % 24);
    return mark;
}

START_TEST(a_cursor_covers_another_exactly_when_it_has_all_of_it)
{
    unsigned state = 4711, covering = 0;

    for (int round = 0; round < 20000; round++) {
        struct chat_cursor one = {.mark = random_mark(&state)}, two = {.mark = random_mark(&state)};
        bool covers = true;

        for (uint64_t xid = 1; xid < 30; xid++)
            covers = covers && (!chat_mark_has(&two.mark, xid) || chat_mark_has(&one.mark, xid));
        ck_assert(chat_cursor_covers(&one, &two) == covers);
        covering += covers;
    }
    ck_assert_uint_gt(covering, 100);
}
END_TEST

START_TEST(a_place_in_a_transaction_is_covered_only_from_there_on)
{
    struct chat_cursor start = {
        .mark = mark_of("10:20:15"), .xid = 15, .conversation = 3, .part = 5};
    struct chat_cursor before = start, same = start, whole = {.mark = mark_of("20:20:")};

    before.part = 3;
    ck_assert(!chat_cursor_covers(&before, &start));
    ck_assert(chat_cursor_covers(&same, &start));
    ck_assert(chat_cursor_covers(&whole, &start));
    ck_assert(!chat_cursor_covers(&start, &whole));
}
END_TEST

/* Returns the text of the union of two cursors; NULL if they cannot be merged. */
static const char *merged(const char *one, const char *other)
{
    static char text[CHAT_ID_SIZE];
    struct chat_cursor into, more, before;

    ck_assert_msg(!chat_cursor_parse(one, &into), "%s", one);
    ck_assert_msg(!chat_cursor_parse(other, &more), "%s", other);
    before = into;
    if (chat_cursor_merge(&into, &more)) {
        ck_assert_mem_eq(&into, &before, sizeof into);
        return NULL;
    }
    ck_assert(chat_cursor_covers(&into, &before));
    ck_assert(chat_cursor_covers(&into, &more));
    ck_assert_int_eq(chat_cursor_text(&into, text), 0);
    return text;
}

static const struct {
    const char *one, *other, *both;
} merges[] = {
    {"10-0-", "20-0-", "20-0-"},
    {"10-10-0.4", "10-20-0.5", "10-20-0"},            /* the first has seen 14, the second 15 */
    {"10-10-0", "15-5-0", "20-0-"},                   /* each has seen what the other lacks */
    {"10-5-", "20-5-0.2", "20-5-0.2"},                /* the first cursor covers nothing above 10 */
    {"10-5-0-0-7-3", "10-5-0-0-7-5", "10-5-0-0-7-5"}, /* the later place counts */
    {"10-5-0-0-8-1", "10-5-0-0-7-5", "10-5-0-0-8-1"},
    {"10-5-0-0-7-3", "20-0-", "20-0-"},         /* a transaction that the other has seen whole */
    {"10-5-0-0-7-3", "10-6-0", "10-6-0-0-7-3"}, /* a transaction that the other has not seen */
    {"10-6-0", "10-5-0-0-7-3", "10-6-0-0-7-3"},
    {"10-5-0.1-0-7-3", "10-5-0.1-1-7-3", NULL}, /* two transactions are partly seen */
};

START_TEST(two_cursors_make_one_that_has_what_either_has)
{
    const char *both = merged(merges[_i].one, merges[_i].other);

    ck_assert_pstr_eq(both, merges[_i].both);
}
END_TEST

Suite *chat_cursor_suite(void)
{
    Suite *suite = suite_create("chat_cursor");
    TCase *tcase = tcase_create("chat_cursor");

    tcase_add_test(tcase, an_id_names_its_home);
    tcase_add_test(tcase, a_mark_has_what_its_snapshot_shows);
    tcase_add_test(tcase, what_is_taken_out_of_a_mark_can_be_put_back);
    tcase_add_test(tcase, a_mark_names_only_so_many_transactions);
    tcase_add_test(tcase, texts_that_are_no_snapshot_or_id_are_refused);
    tcase_add_test(tcase, an_id_says_where_its_reader_stands);
    tcase_add_test(tcase, a_cursor_covers_another_exactly_when_it_has_all_of_it);
    tcase_add_test(tcase, a_place_in_a_transaction_is_covered_only_from_there_on);
    tcase_add_loop_test(tcase, two_cursors_make_one_that_has_what_either_has, 0,
                        (int)(sizeof merges / sizeof merges[0]));
    suite_add_tcase(suite, tcase);
    return suite;
}
