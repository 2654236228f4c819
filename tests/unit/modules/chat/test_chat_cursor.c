/* Cursors of the live stream: their text form, and the order of snapshots. */
#include "modules/chat/cursor.h"
#include "suite.h"

TEST(snapshots_are_ordered_by_xmax_and_transactions_in_progress)
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

TEST(an_event_id_encodes_the_position_of_its_reader)
{
    char text[] = "d77-100:120:100,110-105:130:105-101.7.3-120.9.11";
    static const int64_t block[3] = {101, 7, 3}, event[3] = {120, 9, 11};
    struct chat_cursor cursor;

    ck_assert_int_eq(chat_cursor_split(text, &cursor), 0);
    ck_assert_uint_eq(cursor.home, 77);
    ck_assert_str_eq(cursor.seen, "100:120:100,110");
    ck_assert_str_eq(cursor.target, "105:130:105");
    ck_assert_mem_eq(cursor.block, block, sizeof block);
    ck_assert_mem_eq(cursor.event, event, sizeof event);
}

TEST(an_event_id_between_two_reads_is_a_snapshot)
{
    char text[] = "100:120:";
    struct chat_cursor cursor;

    ck_assert_int_eq(chat_cursor_split(text, &cursor), 0);
    ck_assert_uint_eq(cursor.home, 0);
    ck_assert_str_eq(cursor.seen, "100:120:");
    ck_assert_ptr_null(cursor.target);
}

TEST(a_cursor_has_the_events_visible_in_its_snapshot)
{
    static const char here[] = "d5-100:120:110";

    ck_assert(chat_cursor_has(here, here));
    ck_assert(chat_cursor_has(here, "d5-100:119:"));
    ck_assert(chat_cursor_has(here, "d5-90:100:-100:120:110-1.1.1-2.2.2"));
    ck_assert(!chat_cursor_has(here, "d5-100:120:"));
    ck_assert(!chat_cursor_has(here, "d5-90:100:-100:121:-1.1.1-2.2.2"));
    ck_assert(!chat_cursor_has(here, "d6-100:119:"));
}

TEST(malformed_event_ids_are_refused)
{
    EACH_TEXT (id, "", "1", "1:2", "2:1:", "0:1:", "1:5:7", "1:5:3,3", "1:5:4,3", "2:5:1", "1:5:2,",
               "1:5:2x", "-1:5:", "a:b:c", "99999999999999999999:1:", "d0-1:5:", "d-1:5:",
               "d 7-1:5:", "1: 5:", "1:99999999999999999999:", "d771:5:", "1:5:-",
               "1:5:-1:6:", "1:5:-1:6:-1.1.1", "1:5:-1:6:-1.1.1-1.1", "1:5:-1:6:-1.1.1-1.1.-1",
               "1:5:-1:6:-1.1.1-1.1.1-", "1:5:-1:6:-1.1.1-1.1.99999999999999999999",
               "5:6:-1:5:-0.0.0-0.0.0", "1:6:-1:6:1-0.0.0-0.0.0") {
        struct chat_cursor cursor;
        char *text = strdup(id);

        ck_assert_msg(chat_cursor_split(text, &cursor), "%s", id);
        free(text);
    }
}

SUITE(chat_cursor)
