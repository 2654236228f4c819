/* <busbar/helpers.h> reads bytes and numbers from cells. Its functions that need a
 * host are tested in tests/host/module/test_helpers.c. */
#include <busbar/helpers.h>

#include "suite.h"

static const struct {
    const char *cell;
    int64_t count;
} byte_cells[] = {
    {"\\x", 0},    {"\\x00", 1},    {"\\x00ff10", 3}, {"\\x00ff1022", 4}, {"\\x00ff102233", -1},
    {"\\x0", -1},  {"\\x0g", -1},   {"\\x0A", -1},    {"00ff", -1},       {"", -1},
    {"\\y00", -1}, {"\\x00 0", -1}, {NULL, -1},
};

TEST_EACH(bb_cell_bytes_decodes_hexadecimal_digits, (int)(sizeof byte_cells / sizeof *byte_cells))
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

TEST(bb_cell_ints_counts_and_reads_numbers)
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

SUITE(cells)
