/* Writing JSON. node checks that JavaScript reads the same numbers and strings. */
#include <math.h>
#include <stdint.h>

#include "core/lib/json.h"
#include "suite.h"
#include "support/process.h"

static void check_round(const char *in, const char *out)
{
    struct json_problem problem;
    json_t *value = json_read(in, strlen(in), JSON_COMMAS_MAX, &problem);

    ck_assert_msg(value != NULL, "%s: %s", in, problem.text);
    size_t length;
    char *text = json_write(value, &length);

    ck_assert_str_eq(text, out);
    ck_assert_uint_eq(length, strlen(out));
    free(text);
    json_decref(value);
}

TEST(numbers_are_written_as_in_javascript)
{
    static const char *const rows[][2] = {{"[1.0]", "[1]"},
                                          {"[100.0,-0.0,0.0,-0]", "[100,0,0,0]"},
                                          {"[1e21]", "[1e+21]"},
                                          {"[1e20]", "[100000000000000000000]"},
                                          {"[123456789012345680000.0]", "[123456789012345680000]"},
                                          {"[0.1,1234.56,-2.5]", "[0.1,1234.56,-2.5]"},
                                          {"[1e-6,1e-7]", "[0.000001,1e-7]"},
                                          {"[1.5e-7,0.0000015]", "[1.5e-7,0.0000015]"},
                                          {"[5e-324]", "[5e-324]"},
                                          {"[1.7976931348623157e308]", "[1.7976931348623157e+308]"},
                                          {"[5.684341886080802e-14]", "[5.684341886080802e-14]"},
                                          {"[0.30000000000000004]", "[0.30000000000000004]"},
                                          {"[9223372036854775807]", "[9223372036854775807]"},
                                          {"[9007199254740993.0]", "[9007199254740992]"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_round(rows[i][0], rows[i][1]);
}

TEST(json_is_written_compactly_and_in_order)
{
    check_round(" { \"z\" : [ ] , \"a\" : { } , \"b\" : [ true , false , null ] } ",
                "{\"z\":[],\"a\":{},\"b\":[true,false,null]}");
    check_round("[\"\\/\\u00e4\\ud83d\\ude00\\u2028\\u007f\"]",
                "[\"/\xC3\xA4\xF0\x9F\x98\x80\xE2\x80\xA8\x7F\"]");
    check_round("[\"\\b\\f\\n\\r\\t\\\"\\\\\\u001B\\u0001\"]",
                "[\"\\b\\f\\n\\r\\t\\\"\\\\\\u001b\\u0001\"]");
}

/* Texts are scanned eight bytes at a time, so each byte is tested at each place of such a group. */
TEST(every_byte_is_escaped_at_every_position)
{
    for (int byte = 1; byte < 0x80; byte++) {
        for (size_t at = 0; at < 24; at++) {
            char text[25] = "aaaaaaaaaaaaaaaaaaaaaaaa", *own;
            json_t *read;

            text[at] = (char)byte;
            json_t *value = json_pack("[s]", text);
            char *ours = json_write(value, NULL);
            struct json_problem problem;

            ck_assert_ptr_nonnull(strchr(ours, byte < 0x20 ? '\\' : byte));
            read = json_read(ours, strlen(ours), JSON_COMMAS_MAX, &problem);
            own = json_dumps(value, JSON_COMPACT);
            ck_assert_str_eq(json_string_value(json_array_get(read, 0)), text);
            ck_assert_uint_eq(strlen(ours), strlen(own));
            free(own);
            free(ours);
            json_decref(read);
            json_decref(value);
        }
    }
}

TEST(invalid_json_values_are_not_written)
{
    json_t *broken = json_stringn_nocheck("\xFF", 1), *deep = json_array();

    ck_assert_ptr_null(json_write(NULL, NULL));
    ck_assert_ptr_null(json_write(broken, NULL));
    for (int i = 0; i < 129; i++) {
        char *text = json_write(deep, NULL);

        ck_assert_ptr_nonnull(text);
        free(text);
        json_t *outer = json_array();

        json_array_append_new(outer, deep);
        deep = outer;
    }
    ck_assert_ptr_null(json_write(deep, NULL));
    json_decref(deep);
    json_decref(broken);
}

static uint64_t random_bits(void)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void write_line(FILE *file, json_t *value)
{
    char *text = json_write(value, NULL);

    ck_assert_ptr_nonnull(text);
    fprintf(file, "%s\n", text);
    free(text);
    json_decref(value);
}

static void write_number(FILE *file, double number)
{
    json_t *list = json_array();

    if (isfinite(number)) {
        json_array_append_new(list, json_real(number));
        char *text = json_write(list, NULL);

        if (strtod(text + 1, NULL) != number)
            ck_abort_msg("%.17g became %s", number, text);
        free(text);
    }
    write_line(file, list);
}

static void write_numbers(FILE *file)
{
    for (int e = -1074; e < 1024; e++) {
        double power = ldexp(1, e);

        write_number(file, power);
        write_number(file, -power);
        write_number(file, nextafter(power, 0));
        write_number(file, nextafter(power, INFINITY));
    }
    for (int e = -330; e < 310; e++) {
        char text[16];

        snprintf(text, sizeof(text), "1e%d", e);
        write_number(file, strtod(text, NULL));
        write_number(file, strtod(text, NULL) * 1.5);
    }
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = random_bits();
        double number;

        memcpy(&number, &bits, sizeof(number));
        write_number(file, number);
        write_number(file, (double)(int64_t)(bits >> 20) / 1000);
        bits &= UINT64_C(0x800FFFFFFFFFFFFF); /* subnormal */
        memcpy(&number, &bits, sizeof(number));
        write_number(file, number);
    }
}

static void write_strings(FILE *file)
{
    for (uint32_t c = 1; c < 0x11000; c++) {
        char in[24];

        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        uint32_t high = 0xD800 + ((c - 0x10000) >> 10), low = 0xDC00 + ((c - 0x10000) & 0x3FF);

        if (c < 0x10000)
            snprintf(in, sizeof(in), "\"\\u%04x\"", c);
        else
            snprintf(in, sizeof(in), "\"\\u%04x\\u%04x\"", high, low);
        json_t *text = json_loads(in, JSON_DECODE_ANY, NULL);

        write_line(file, json_pack("{so,s[s]}", "k", text, "a\n\x1B/", "\x7F</script>"));
    }
}

/* node must print every line unchanged. */
TEST(node_reads_the_same_json)
{
    static const char script[] =
        "node -e 'let n=0;for(const l of require(\"fs\").readFileSync(process.argv[1],\"utf8\")"
        ".split(\"\\n\")){if(l&&JSON.stringify(JSON.parse(l))!==l){console.log(l,"
        "JSON.stringify(JSON.parse(l)));if(++n>9)break}}process.exit(n?1:0)' ";
    char name[] = "/tmp/busbar-json-XXXXXX", command[1024];

    if (system("node --version >/dev/null 2>&1") != 0) {
        test_skipped("node is not on the PATH");
        return;
    }
    int fd = mkstemp(name);
    FILE *file = fdopen(fd, "w");

    ck_assert_ptr_nonnull(file);
    write_numbers(file);
    write_strings(file);
    ck_assert_int_eq(fclose(file), 0);
    snprintf(command, sizeof(command), "%s%s", script, name);
    int status = system(command);

    unlink(name);
    ck_assert_int_eq(status, 0);
}

TEST(invalid_utf8_is_replaced)
{
    static const char *const rows[][2] = {{"", ""},
                                          {"a\xc3\xa4", "a\xc3\xa4"},
                                          {"a\xe9t\xe9", "a\xef\xbf\xbdt\xef\xbf\xbd"},
                                          {"cut \xc3", "cut \xef\xbf\xbd"},
                                          {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *json = json_out_text(rows[i][0]);

        ck_assert_str_eq(json_string_value(json), rows[i][1]);
        json_decref(json);
    }
}

SUITE(json_out, .timeout_s = 120)
