/* UTF-8, percent-encoding, UUIDs, times, hexadecimal. */
#include <busbar/field.h>
#include <busbar/moment.h>
#include <time.h>

#include "core/lib/text.h"
#include "fixture.h"
#include "suite.h"

TEST(exactly_the_code_points_are_valid_utf8)
{

    for (int32_t c = 0x80; c <= 0x10FFFF; c++) {
        unsigned char out[4];
        size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, got;

        for (size_t i = size - 1; i; i--)
            out[i] = (unsigned char)(0x80 | (c >> 6 * (size - 1 - i) & 0x3F));
        out[0] = (unsigned char)((size == 2   ? 0xC0
                                  : size == 3 ? 0xE0
                                              : 0xF0) |
                                 c >> 6 * (size - 1));
        bool surrogate = c >= 0xD800 && c <= 0xDFFF;

        if (text_utf8((char *)out, size) == surrogate)
            ck_abort_msg("U+%04X", (unsigned)c);
        if (!surrogate && (text_code_point((char *)out, size, &got) != c || got != size))
            ck_abort_msg("U+%04X", (unsigned)c);
        if (text_utf8((char *)out, size - 1))
            ck_abort_msg("cut U+%04X", (unsigned)c);
    }
    EACH_TEXT (bad, "\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x80\x80",
               "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x80\x80\x80",
               "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF0\x9F\x98", "\xFE",
               "\xFF", "abcdefghijk\xFFlmnopq")
        ck_assert_msg(!text_utf8(bad, strlen(bad)), "%s", bad);
    ck_assert(text_utf8("", 0));
    ck_assert(text_utf8("plain text that is longer than a word", 37));
}

TEST(text_characters_counts_code_points)
{
    ck_assert_uint_eq(text_characters(""), 0);
    ck_assert_uint_eq(text_characters("abc"), 3);
    ck_assert_uint_eq(text_characters("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"), 4);
}

TEST(text_blank_includes_unicode_blanks)
{
    ck_assert(text_blank(""));
    ck_assert(text_blank(" \t\r\n\v\f"));
    ck_assert(text_blank("\xC2\xA0\xE2\x80\x83\xE3\x80\x80\xEF\xBB\xBF\xE2\x80\xA8"));
    ck_assert(!text_blank(" a "));
    ck_assert(!text_blank("\xC3\xA4"));
}

TEST(percent_encoding_is_decoded_once)
{
    ck_assert_str_eq(text_percent("a%2Fb%2520+", 11, false, arena), "a/b%20+");
    ck_assert_str_eq(text_percent("a+b%2B", 6, true, arena), "a b+");
    ck_assert_str_eq(text_percent("%C3%a4", 6, false, arena), "\xC3\xA4");
    ck_assert_str_eq(text_percent("", 0, false, arena), "");
}

TEST(invalid_percent_encoding_is_refused)
{
    EACH_TEXT (bad, "%", "%4", "a%", "%zz", "%4g", "%%41", "%00", "%0a", "a%7Fb", "a\tb", "%C3%28",
               "\xC3", "%FF", "%-1", "% 41", "%c0%af")
        ck_assert_msg(!text_percent(bad, strlen(bad), true, arena), "%s", bad);
    ck_assert_ptr_null(text_percent("a%41", 3, false, arena));
    ck_assert_ptr_null(text_percent("a\0b", 3, false, arena));
}

TEST(uuids_are_of_version_7_and_differ)
{
    char before[TEXT_UUID_SIZE] = "", uuid[TEXT_UUID_SIZE], stamp[14];

    for (int i = 0; i < 2000; i++) {
        text_uuid7(uuid);
        ck_assert(bb_is_uuid(uuid));
        ck_assert_int_eq(uuid[14], '7');
        ck_assert_ptr_nonnull(strchr("89ab", uuid[19]));
        ck_assert_str_ne(uuid, before);
        memcpy(before, uuid, sizeof(before));
    }
    snprintf(stamp, sizeof(stamp), "%08llx", (unsigned long long)clock_wall_ms() >> 16);
    ck_assert_int_eq(strncmp(uuid, stamp, 8), 0);
}

TEST(uuids_are_recognized)
{
    ck_assert(bb_is_uuid("0190A0b0-0000-7000-8000-00000000000F"));
    EACH_TEXT (other, "", "0190a0b0-0000-7000-8000-00000000000",
               "0190a0b0-0000-7000-8000-0000000000000", "0190a0b0x0000-7000-8000-000000000000",
               "0190a0g0-0000-7000-8000-000000000000")
        ck_assert_msg(!bb_is_uuid(other), "%s", other);
}

/* Compares with the C library over all days of the range. */
TEST(times_agree_with_the_c_library)
{
    for (int64_t day = -719528; day < 2932897; day += 1) {
        time_t seconds = (time_t)(day * 86400 + (day * 7919 % 86400 + 86400) % 86400);
        char ours[TEXT_TIME_SIZE], theirs[128];
        struct tm tm;
        int64_t ms = seconds * 1000 + (day & 1) * 45, back;

        text_time(ms, ours);
        if (day % 16 == 0) {
            gmtime_r(&seconds, &tm);
            snprintf(theirs, sizeof(theirs), "%04d-%02d-%02dT%02d:%02d:%02d.000Z",
                     tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
                     tm.tm_sec);
            if (strcmp(ours, theirs) != 0)
                ck_abort_msg("%s is not %s", ours, theirs);
        }
        if (day >= -719162 && (text_time_parse(ours, &back) || back != ms))
            ck_abort_msg("%s is not read back", ours);
    }
}

TEST(times_beyond_four_digits_are_clamped)
{
    char out[TEXT_TIME_SIZE];

    text_time(INT64_MAX, out);
    ck_assert_str_eq(out, "9999-12-31T23:59:59.999Z");
    text_time(INT64_MIN, out);
    ck_assert_str_eq(out, "0000-01-01T00:00:00.000Z");
    text_time(-1, out);
    ck_assert_str_eq(out, "1969-12-31T23:59:59.999Z");
}

TEST(iso_8601_times_are_read_if_they_exist)
{
    static const struct {
        const char *text;
        int64_t ms;
        bool local;
    } good[] = {{"1970-01-01", 0, true},
                {"1970-01-01T00:00Z", 0, false},
                {"1970-01-01T00:00:00Z", 0, false},
                {"1970-01-01t00:00:00z", 0, false},
                {"1970-01-01T00:00:00.5Z", 500, false},
                {"1970-01-01T00:00:00,500Z", 500, false},
                {"1970-01-01T00:00:00.123456789Z", 123, false},
                {"1970-01-01T01:00:00+01:00", 0, false},
                {"1970-01-01 01:00:00.5+01:00", 500, false},
                {"1970-01-01T01:00:00+0100", 0, false},
                {"1970-01-01 01:00:00 +0100", 0, false},
                {"1969-12-31T16:00-0800", 0, false},
                {"1969-12-31T22:00-02", 0, false},
                {"1970-01-01T15:59+15:59", 0, false},
                {"1969-12-31T23:30:00-00:30", 0, false},
                {"2000-02-29", 951782400000, true},
                {"2024-02-29T00:00:00Z", 1709164800000, false},
                {"1970-01-01T00:00:01", 1000, true},
                {"1970-01-01T01:30", 5400000, true},
                {"1970-01-01 00:00Z", 0, false},
                {"1970-01-01 00:00 Z", 0, false},
                {"1970-01-01 00:01", 60000, true},
                {"1970-01-01 0:00", 0, true},
                {"0001-01-01T00:00Z", -62135596800000, false},
                {"9999-12-31T23:59:59.999Z", 253402300799999, false},
                {"1970-01-01T00:00:00.123456789012345678901234567890Z", 123, false},
                {"2026-04-01T12:00:00.000Z", 1775044800000, false}};
    struct bb_moment moment;
    int64_t ms;

    for (size_t i = 0; i < COUNT(good); i++) {
        ck_assert_msg(!bb_moment_parse(good[i].text, &moment), "%s", good[i].text);
        ck_assert_msg(!text_time_parse(good[i].text, &ms), "%s", good[i].text);
        ck_assert_msg(moment.ms == good[i].ms && ms == good[i].ms, "%s", good[i].text);
        ck_assert_msg(moment.local == good[i].local, "%s", good[i].text);
    }
    EACH_TEXT (bad, "", "2026", "2026-02-30", "2025-02-29", "1900-02-29", "0000-01-01",
               "2026-13-01", "2026-00-01", "2026-01-00", "2026-1-1", "2026-01-01T",
               "2026-01-01  12:00Z", "2026-01-01T12:60Z", "2026-01-01T00:60Z", "2026-01-01T24:01Z",
               "2026-01-01T12:00:60Z", "2026-01-01T12:00:00.Z", "2026-01-01T00:00:00,Z",
               "2026-01-01T12:00Zx", "2026-01-01T12:00+1:00", "2026-01-01T12:00+2400",
               "2026-01-01T12:00+16:00", "2026-01-01T00:00+24:00", "2026-01-01T12:00-23:59",
               "2026-01-01T12:00+01:", "2026-01-01T12:00+010", "2026-01-01T12:00+01000",
               "2026-01-01T00:00:00+", "2026-01-01T00:00:00 ", "2026-01-01T00:00:00 01:00",
               "2026-01-01T:00Z", "2026-01-01Z", "20260101", "2026-01-01T12Z", "1970-01-01T05+05",
               "+2026-01-01", " 2026-01-01", "1e9") {
        ck_assert_msg(bb_moment_parse(bad, &moment) == -1, "%s", bad);
        ck_assert_msg(text_time_parse(bad, &ms) == -1, "%s", bad);
    }
    ck_assert_int_eq(bb_moment_parse("1969-12-31T24:00Z", &moment), 0);
    ck_assert_int_eq(moment.ms, 0);
    EACH_TEXT (bad, "2026-01-01T24:00Z", "0001-01-01T00:00+01:00", "9999-12-31T23:59:59-01:00",
               "2026-01-01T12:00:00.1234567890123456789012345678901Z")
        ck_assert_msg(text_time_parse(bad, &ms) == -1, "%s", bad);
}

TEST(integers_are_written_as_by_the_c_library)
{
    static const int64_t numbers[] = {0, 7, 10, -1, 999, -1000, INT32_MIN, INT64_MAX, INT64_MIN};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        char ours[TEXT_INTEGER_SIZE], theirs[TEXT_INTEGER_SIZE];
        int length = snprintf(theirs, sizeof(theirs), "%lld", (long long)numbers[i]);

        ck_assert_uint_eq(text_integer(numbers[i], ours), (size_t)length);
        ck_assert_str_eq(ours, theirs);
    }
}

TEST(milliseconds_have_three_decimals)
{
    static const int64_t numbers[] = {0, 1, 12, 123, 1000, 12345, 999999, INT64_MAX};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        char ours[TEXT_MS_SIZE], theirs[TEXT_MS_SIZE];

        snprintf(theirs, sizeof(theirs), "%lld.%03lld", (long long)(numbers[i] / 1000),
                 (long long)(numbers[i] % 1000));
        text_ms(numbers[i], ours);
        ck_assert_str_eq(ours, theirs);
    }
}

TEST(hexadecimal_is_encoded_and_decoded)
{
    unsigned char bytes[3];
    char out[7];

    ck_assert_int_eq(text_hex_decode("00fFa9", bytes, 3), 0);
    text_hex(bytes, 3, out);
    ck_assert_str_eq(out, "00ffa9");
    ck_assert_int_eq(text_hex_decode("00ff", bytes, 3), -1);
    ck_assert_int_eq(text_hex_decode("00fff", bytes, 3), -1);
    ck_assert_int_eq(text_hex_decode("00ffa9a", bytes, 3), -1);
    ck_assert_int_eq(text_hex_decode("00ffx9", bytes, 3), -1);
}

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

static const struct {
    const char *given;
    const char *flags; /* flags of the host's own header; NULL: the client's trace is not used */
} parents[] = {
    {"00-" TRACE "-" SPAN "-01", "01"},
    {"00-" TRACE "-" SPAN "-00", "00"},
    {"00-" TRACE "-" SPAN "-ff", "03"},
    {"cc-" TRACE "-" SPAN "-01-what-comes", "01"},
    {"cc-" TRACE "-" SPAN "-01", "01"},
    {NULL, NULL},
    {"", NULL},
    {"00-" TRACE "-" SPAN, NULL},
    {"00-" TRACE "-" SPAN "-01-more", NULL},
    {"00-" TRACE "-" SPAN "-1", NULL},
    {"cc-" TRACE "-" SPAN "-01.more", NULL},
    {"ff-" TRACE "-" SPAN "-01", NULL},
    {"0-" TRACE "-" SPAN "-010", NULL},
    {"00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01", NULL},
    {"00-00000000000000000000000000000000-" SPAN "-01", NULL},
    {"00-" TRACE "-0000000000000000-01", NULL},
    {"00_" TRACE "-" SPAN "-01", NULL},
    {"00-" TRACE "0" SPAN "-01", NULL},
    {"00-" TRACE "-" SPAN "-0g", NULL},
};

TEST_EACH(a_valid_traceparent_is_continued_and_another_replaced, sizeof parents / sizeof *parents)
{
    char own[TRACE_PARENT_SIZE], trace[TRACE_ID_SIZE], again[TRACE_PARENT_SIZE];

    trace_parent(parents[_i].given, own);
    trace_id(own, trace);
    ck_assert_uint_eq(strlen(own), 55);
    ck_assert_int_eq(!strcmp(trace, TRACE), parents[_i].flags != NULL);
    ck_assert_ptr_null(strstr(own, SPAN));
    ck_assert_str_eq(own + 53, parents[_i].flags ? parents[_i].flags : "02");
    trace_parent(own, again); /* the host's own header is well-formed */
    ck_assert_mem_eq(again, own, 36);
    ck_assert_str_ne(again, own);
}

SUITE(text, .timeout_s = 60, .before_each = arena_setup, .after_each = arena_teardown)
