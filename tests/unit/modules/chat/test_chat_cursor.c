/* Cursors of the live stream: their text form, and the order of snapshots and of keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/chat/cursor.h"
#include "suite.h"
#include "unit_suites.h"

TEST(a_snapshot_has_what_was_committed)
{
    const char *snapshot = "10:20:10,14,19";

    ck_assert(chat_snapshot_has(snapshot, 9));
    ck_assert(!chat_snapshot_has(snapshot, 10));
    ck_assert(chat_snapshot_has(snapshot, 13));
    ck_assert(!chat_snapshot_has(snapshot, 14));
    ck_assert(!chat_snapshot_has(snapshot, 19));
    ck_assert(!chat_snapshot_has(snapshot, 20));
    ck_assert(chat_snapshot_has("20:20:", 19));
    ck_assert(!chat_snapshot_has("20:20:", 20));
}

TEST(the_later_snapshot_has_a_higher_xmax_or_less_in_progress)
{
    static const char *const in_order[] = {
        "10:20:10,14,19", "10:20:10,14", "14:20:14", "20:20:", "20:21:20", "21:21:", "9:100:9"};

    for (size_t i = 0; i < sizeof in_order / sizeof *in_order; i++)
        for (size_t j = 0; j < sizeof in_order / sizeof *in_order; j++) {
            int order = chat_snapshot_compare(in_order[i], in_order[j]);

            ck_assert_msg((order > 0) - (order < 0) == (i > j) - (i < j), "%s and %s", in_order[i],
                          in_order[j]);
        }
}

TEST(keys_are_ordered_by_transaction_conversation_and_number)
{
    static const struct chat_key in_order[] = {{0, 0, 0}, {1, 1, 1}, {1, 1, 2},
                                               {1, 2, 1}, {2, 1, 1}, {10, 1, 1}};

    for (size_t i = 0; i < sizeof in_order / sizeof *in_order; i++)
        for (size_t j = 0; j < sizeof in_order / sizeof *in_order; j++)
            ck_assert_int_eq(chat_key_compare(&in_order[i], &in_order[j]), (i > j) - (i < j));
}

TEST(an_id_says_where_its_reader_is)
{
    static const char text[] = "d77-100:120:100,110-105:130:105-101.7.3-120.9.11";
    struct chat_cursor *cursor = chat_cursor_parse(text);
    char id[CHAT_ID_SIZE];

    ck_assert_ptr_nonnull(cursor);
    ck_assert_uint_eq(cursor->home, 77);
    ck_assert_str_eq(cursor->seen, "100:120:100,110");
    ck_assert_str_eq(cursor->target, "105:130:105");
    ck_assert_int_eq(cursor->block.xid, 101);
    ck_assert_int_eq(cursor->block.conversation, 7);
    ck_assert_int_eq(cursor->block.number, 3);
    ck_assert_int_eq(cursor->event.xid, 120);
    ck_assert_int_eq(cursor->event.conversation, 9);
    ck_assert_int_eq(cursor->event.number, 11);
    struct chat_cursor *copy = chat_cursor_copy(cursor);

    ck_assert_ptr_nonnull(copy);
    free(cursor);
    ck_assert_int_eq(chat_cursor_text(copy, id), 0);
    ck_assert_str_eq(id, text);
    free(copy);
}

TEST(an_id_between_two_reads_is_a_snapshot)
{
    struct chat_cursor *cursor = chat_cursor_parse("100:120:");
    char id[CHAT_ID_SIZE];

    ck_assert_ptr_nonnull(cursor);
    ck_assert_uint_eq(cursor->home, 0);
    ck_assert_ptr_null(cursor->target);
    cursor->home = 5;
    ck_assert_int_eq(chat_cursor_text(cursor, id), 0);
    ck_assert_str_eq(id, "d5-100:120:");
    free(cursor);
}

TEST(texts_that_are_no_id_are_refused)
{
    static const char *const ids[] = {
        "",
        "1",
        "1:2",
        "2:1:",
        "0:1:",
        "1:5:7",
        "1:5:3,3",
        "1:5:4,3",
        "2:5:1",
        "1:5:2,",
        "1:5:2x",
        "-1:5:",
        "a:b:c",
        "99999999999999999999:1:",
        "d0-1:5:",
        "d-1:5:",
        "d771:5:",
        "1:5:-",
        "1:5:-1:6:",
        "1:5:-1:6:-1.1.1",
        "1:5:-1:6:-1.1.1-1.1",
        "1:5:-1:6:-1.1.1-1.1.-1",
        "1:5:-1:6:-1.1.1-1.1.1-",
        "1:5:-1:6:-1.1.1-1.1.99999999999999999999",
    };

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        ck_assert_msg(!chat_cursor_parse(ids[i]), "%s", ids[i]);
}

TEST(an_id_of_too_many_transactions_is_none)
{
    char seen[2 * CHAT_ID_SIZE], id[CHAT_ID_SIZE];
    size_t used = (size_t)sprintf(seen, "1000:99999:1000");

    for (int xid = 1001; used < CHAT_ID_SIZE; xid++)
        used += (size_t)sprintf(seen + used, ",%d", xid);
    struct chat_cursor *cursor = chat_cursor_new(1, seen, NULL);

    ck_assert_ptr_nonnull(cursor);
    ck_assert_int_eq(chat_cursor_text(cursor, id), -1);
    free(cursor);
}

SUITE(chat_cursor)
