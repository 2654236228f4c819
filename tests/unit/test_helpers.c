/* Cells as <busbar/helpers.h> reads them: bytes, numbers and JSON. The tests of lists use the rest
 * of the header. */
#include <busbar/fake.h>
#include <stdlib.h>

#include "suites.h"

static const struct {
    const char *cell;
    int64_t count;
} byte_cells[] = {
    {"\\x", 0},    {"\\x00", 1},    {"\\x00ff10", 3}, {"\\x00ff1022", 4}, {"\\x00ff102233", -1},
    {"\\x0", -1},  {"\\x0g", -1},   {"\\x0A", -1},    {"00ff", -1},       {"", -1},
    {"\\y00", -1}, {"\\x00 0", -1}, {NULL, -1},
};

START_TEST(bytes_of_a_cell_are_those_of_its_digits)
{
    unsigned char bytes[4] = {0xAA, 0xAA, 0xAA, 0xAA};
    int64_t count = bb_cell_bytes(byte_cells[_i].cell, bytes, sizeof bytes);

    ck_assert_int_eq(count, byte_cells[_i].count);
    if (count == 3) {
        ck_assert_uint_eq(bytes[0], 0);
        ck_assert_uint_eq(bytes[1], 0xFF);
        ck_assert_uint_eq(bytes[2], 0x10);
    }
    if (count >= 0 && count < 4)
        ck_assert_uint_eq(bytes[count], 0xAA);
}
END_TEST

START_TEST(numbers_of_a_cell_are_counted_and_read)
{
    int64_t numbers[3] = {0};

    ck_assert_uint_eq(bb_cell_ints(NULL, numbers), 0);
    ck_assert_uint_eq(bb_cell_ints("{}", numbers), 0);
    ck_assert_uint_eq(bb_cell_ints("{1,-2,9223372036854775807}", NULL), 3);
    ck_assert_uint_eq(bb_cell_ints("{1,-2,9223372036854775807}", numbers), 3);
    ck_assert_int_eq(numbers[0], 1);
    ck_assert_int_eq(numbers[1], -2);
    ck_assert_int_eq(numbers[2], INT64_MAX);
}
END_TEST

/* ---- a module with one route, on the fake host ---- */

/* Calls bb_failed() if the stored value cannot be read. */
static int show_stored(struct bb_request *rq)
{
    static const struct bb_sql find = {"SELECT stored FROM thing", 0};
    const struct bb_rows *rows = bb_query(rq, &find, BB_NO_ARGS);
    json_t *json = bb_json_hold(rq, bb_json_read(rq, bb_cell(rq, rows, 0, 0)));

    return json ? bb_reply(rq, 200, json_incref(json)) : bb_failed(rq);
}

static json_t *thing_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_column columns[] = {
        {"id", BB_COLUMN_INT, 0},      {"name", BB_COLUMN_TEXT, 1}, {"group", BB_COLUMN_ID, 2},
        {"size", BB_COLUMN_NUMBER, 3}, {"made", BB_COLUMN_TIME, 4}, {"big", BB_COLUMN_BOOL, 5},
    };
    static const struct bb_column more[] = {{"tags", BB_COLUMN_JSON, 6},
                                            {"name", BB_COLUMN_TEXT, 1}};

    return BB_ROW_ADD(rq, rows, row, more, BB_ROW_JSON(rq, rows, row, columns));
}

static int list_things(struct bb_request *rq)
{
    static const struct bb_sql find = {"SELECT * FROM thing", 0};
    const struct bb_rows *rows = bb_query(rq, &find, BB_NO_ARGS);

    return bb_reply_rows(rq, rows, 10, 0, thing_json);
}

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/api/things", .roles = BB_ANYONE, .handler = list_things},
    {.method = "GET", .path = "/api/stored", .roles = BB_ANYONE, .handler = show_stored},
};

static const struct bb_module things = {
    BB_MODULE_HEAD("things", "1.0.0"),
    .routes = BB_TABLE(routes),
};

static const struct {
    const char *stored;
    int status;
} stored[] = {
    {"[1, \"two\"]", 200}, {"{}", 200}, {"\"word\"", 200}, {"12", 200},
    {"[1,", 500},          {"", 500},   {NULL, 500},
};

START_TEST(stored_json_is_read_or_answered_500)
{
    struct bb_fake *fake = bb_fake_new(&things);

    ck_assert_int_eq(bb_fake_open(fake), 0);
    bb_fake_rows(fake, "SELECT stored", 1, 1, stored[_i].stored);
    ck_assert_int_eq(bb_fake_call(fake, "GET", "/api/stored", NULL), stored[_i].status);
    if (stored[_i].status == 200) {
        char *text = json_dumps(bb_fake_reply(fake), JSON_ENCODE_ANY);

        ck_assert_str_eq(text, stored[_i].stored);
        free(text);
    }
    bb_fake_free(fake);
}
END_TEST

START_TEST(rows_are_objects_of_their_columns)
{
    struct bb_fake *fake = bb_fake_new(&things);

    ck_assert_int_eq(bb_fake_open(fake), 0);
    bb_fake_rows(fake, "SELECT *", 2, 7, "9", "Rooftop", "3", "1.5", "1775044800000", "t", "[1]",
                 "10", NULL, "0", NULL, NULL, "f", NULL);
    ck_assert_int_eq(bb_fake_call(fake, "GET", "/api/things", NULL), 200);
    char *text = json_dumps(bb_fake_reply(fake), JSON_COMPACT);

    ck_assert_str_eq(text, "[{\"id\":9,\"name\":\"Rooftop\",\"group\":3,\"size\":1.5,"
                           "\"made\":\"2026-04-01T12:00:00.000Z\",\"big\":true,\"tags\":[1]},"
                           "{\"id\":10,\"name\":null,\"group\":null,\"size\":null,"
                           "\"made\":null,\"big\":false,\"tags\":null}]");
    free(text);
    bb_fake_free(fake);
}
END_TEST

START_TEST(a_row_with_json_that_is_none_is_no_object)
{
    struct bb_fake *fake = bb_fake_new(&things);

    ck_assert_int_eq(bb_fake_open(fake), 0);
    bb_fake_rows(fake, "SELECT *", 1, 7, "9", NULL, NULL, NULL, NULL, NULL, "[");
    ck_assert_int_ge(bb_fake_call(fake, "GET", "/api/things", NULL), 500);
    bb_fake_free(fake);
}
END_TEST

Suite *helpers_suite(void)
{
    Suite *suite = suite_create("helpers");
    TCase *tests = tcase_create("all");

    tcase_add_loop_test(tests, bytes_of_a_cell_are_those_of_its_digits, 0,
                        (int)(sizeof byte_cells / sizeof *byte_cells));
    tcase_add_test(tests, numbers_of_a_cell_are_counted_and_read);
    tcase_add_loop_test(tests, stored_json_is_read_or_answered_500, 0,
                        (int)(sizeof stored / sizeof *stored));
    tcase_add_test(tests, rows_are_objects_of_their_columns);
    tcase_add_test(tests, a_row_with_json_that_is_none_is_no_object);
    suite_add_tcase(suite, tests);
    return suite;
}
