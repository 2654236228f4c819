/*
 * Reading and writing JSON. Cases from outside come from the shared folder (BUSBAR_SHARED, or
 * ../shared); what JavaScript makes of our numbers and strings is asked of node.
 */
#include <dirent.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/json_in.h"
#include "core/json_out.h"
#include "suites.h"

static json_t *read_text(const char *text, struct json_problem *problem)
{
    return json_read(text, strlen(text), problem);
}

static void check_round(const char *in, const char *out)
{
    struct json_problem problem;
    json_t *value = read_text(in, &problem);

    ck_assert_msg(value != NULL, "%s: %s", in, problem.text);
    size_t length;
    char *text = json_write(value, &length);

    ck_assert_str_eq(text, out);
    ck_assert_uint_eq(length, strlen(out));
    free(text);
    json_decref(value);
}

static void check_refused(const char *bytes, size_t length, const char *why)
{
    struct json_problem problem = {.text = ""};
    json_t *value = json_read(bytes, length, &problem);

    ck_assert_msg(!value, "%s", bytes);
    ck_assert_msg(!strcmp(problem.text, why), "%s: %s", bytes, problem.text);
}

START_TEST(bad_json_is_refused_with_a_reason)
{
    static const struct {
        const char *text, *why;
    } rows[] = {{"", "empty"},
                {" ", "the text ends too early"},
                {"{", "the text ends too early"},
                {"1", "not valid JSON"},
                {"\"a\"", "not valid JSON"},
                {"null", "not valid JSON"},
                {"{a:1}", "not valid JSON"},
                {"[1,]", "not valid JSON"},
                {"[NaN]", "not valid JSON"},
                {"[01]", "not valid JSON"},
                {"[\"\t\"]", "not valid JSON"},
                {"{} x", "something stands behind the end"},
                {"{}{}", "something stands behind the end"},
                {"{\"a\":1,\"a\":2}", "a key is there twice"},
                {"{\"a\":1,\"\\u0061\":2}", "a key is there twice"},
                {"[1e400]", "a number is too large"},
                {"[-1e400]", "a number is too large"},
                {"[9223372036854775808]", "a number is too large"},
                {"[\"\\u0000\"]", "the character NUL is not allowed"},
                {"\xEF\xBB\xBF{}", "a byte order mark is not allowed"},
                {"[\"\xFF\"]", "invalid UTF-8"},
                {"[\"\xED\xA0\x80\"]", "invalid UTF-8"},
                {"[\"\\uD800\"]", "not valid JSON"},
                {"[\"\\uDC00\\uD800\"]", "not valid JSON"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_refused(rows[i].text, strlen(rows[i].text), rows[i].why);
    check_refused("[123\0]", 6, "the character NUL is not allowed");
    check_refused("[123]\0", 6, "the character NUL is not allowed");
}
END_TEST

START_TEST(problems_tell_the_place_but_not_the_input)
{
    struct json_problem problem;

    ck_assert_ptr_null(read_text("{\n \"password\": hunter2}", &problem));
    ck_assert_int_eq(problem.line, 2);
    ck_assert_int_gt(problem.column, 12);
    ck_assert_ptr_null(strstr(problem.text, "hunter"));
    ck_assert_ptr_null(json_read("{\n\"\xC3\xA4\0", 6, &problem));
    ck_assert_int_eq(problem.line, 2);
    ck_assert_int_eq(problem.column, 3);
}
END_TEST

START_TEST(depth_is_64_and_brackets_in_strings_do_not_count)
{
    char text[200000];
    struct json_problem problem;

    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    json_t *value = json_read(text, 128, &problem);

    ck_assert_ptr_nonnull(value);
    json_decref(value);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    check_refused(text, 130, "nested too deeply");
    memset(text, '[', sizeof(text));
    check_refused(text, sizeof(text), "nested too deeply");
    memcpy(text, "[\"\\\"", 4);
    memset(text + 4, '{', 1000);
    memcpy(text + 1004, "\\\\\"]", 4);
    value = json_read(text, 1008, &problem);
    ck_assert_ptr_nonnull(value);
    json_decref(value);
}
END_TEST

/* Milliseconds of the processor that an object of so many keys takes; *value is what came of it. */
static long time_keys(int count, json_t **value, struct json_problem *problem)
{
    char *text = malloc((size_t)count * 24 + 2), *at = text;

    *at++ = '{';
    for (int i = 0; i < count; i++)
        at += sprintf(at, "%s\"key%d\":%d", i ? "," : "", i, i);
    *at++ = '}';
    clock_t before = clock();

    *value = json_read(text, (size_t)(at - text), problem);
    long took = (long)(clock() - before) * 1000 / CLOCKS_PER_SEC;

    free(text);
    return took;
}

START_TEST(many_keys_are_quick_or_refused)
{
    struct json_problem problem;
    json_t *value;

    ck_assert_int_lt(time_keys(10000, &value, &problem), 50);
    ck_assert_uint_eq(json_object_size(value), 10000);
    json_decref(value);
    printf("json: 100,000 keys took %ld ms\n", time_keys(100000, &value, &problem));
    ck_assert_uint_eq(json_object_size(value), 100000);
    json_decref(value);
    ck_assert_int_lt(time_keys(1000000, &value, &problem), 100);
    ck_assert_ptr_null(value);
    ck_assert_str_eq(problem.text, "too many values");
}
END_TEST

static const char *shared_folder(void)
{
    static const char *const places[] = {"../shared", "../../shared", "../../../shared"};
    const char *named = getenv("BUSBAR_SHARED");

    if (named)
        return named;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (!access(places[i], R_OK))
            return places[i];
    }
    return NULL;
}

/* What our own rules refuse of the valid texts: scalars, duplicate keys, NUL. */
static bool refused_by_rule(const char *name, const char *bytes, size_t length)
{
    size_t at = 0;

    while (at < length && strchr(" \t\r\n", bytes[at]))
        at++;
    return strstr(name, "duplicated_key") ||
           (memmem(bytes, length, "\\u0000", 6) && !memmem(bytes, length, "\\\\u0000", 7)) ||
           (bytes[at] != '{' && bytes[at] != '[');
}

static void check_case(const char *folder, const char *name)
{
    static char bytes[400000];
    char path[1024];
    struct json_problem problem;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");

    ck_assert_ptr_nonnull(file);
    size_t length = fread(bytes, 1, sizeof(bytes), file);

    fclose(file);
    json_t *value = json_read(bytes, length, &problem);

    if (name[0] == 'n')
        ck_assert_msg(!value, "%s was accepted", name);
    if (name[0] == 'y' && refused_by_rule(name, bytes, length))
        ck_assert_msg(!value, "%s was accepted against our rules", name);
    else if (name[0] == 'y')
        ck_assert_msg(value != NULL, "%s: %s", name, problem.text);
    if (value) {
        char *text = json_write(value, &length);
        json_t *again = json_read(text, length, &problem);

        char *twice = json_write(again, NULL);

        ck_assert_msg(!strcmp(text, twice), "%s: %s %s", name, text, twice);
        json_decref(again);
        free(twice);
        free(text);
    }
    json_decref(value);
}

START_TEST(the_json_test_suite_passes)
{
    const char *shared = shared_folder();
    char folder[512];
    struct dirent *entry;
    int count = 0;

    snprintf(folder, sizeof(folder), "%s/cases/jsontestsuite/test_parsing", shared ? shared : "");
    DIR *open = opendir(folder);

    if (!open) {
        printf("SKIPPED json: no jsontestsuite at %s (set BUSBAR_SHARED)\n", folder);
        return;
    }
    while ((entry = readdir(open))) {
        if (entry->d_name[0] == '.')
            continue;
        check_case(folder, entry->d_name);
        count++;
    }
    closedir(open);
    ck_assert_int_gt(count, 300);
}
END_TEST

START_TEST(numbers_look_as_in_javascript)
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
END_TEST

START_TEST(text_is_compact_and_in_order)
{
    check_round(" { \"z\" : [ ] , \"a\" : { } , \"b\" : [ true , false , null ] } ",
                "{\"z\":[],\"a\":{},\"b\":[true,false,null]}");
    check_round("[\"\\/\\u00e4\\ud83d\\ude00\\u2028\\u007f\"]",
                "[\"/\xC3\xA4\xF0\x9F\x98\x80\xE2\x80\xA8\x7F\"]");
    check_round("[\"\\b\\f\\n\\r\\t\\\"\\\\\\u001B\\u0001\"]",
                "[\"\\b\\f\\n\\r\\t\\\"\\\\\\u001b\\u0001\"]");
}
END_TEST

START_TEST(what_is_no_json_is_not_written)
{
    json_t *broken = json_stringn_nocheck("\xFF", 1), *deep = json_array();

    ck_assert_ptr_null(json_write(NULL, NULL));
    ck_assert_ptr_null(json_write(broken, NULL));
    for (int i = 0; i < 200; i++) {
        json_t *outer = json_array();

        json_array_append_new(outer, deep);
        deep = outer;
    }
    ck_assert_ptr_null(json_write(deep, NULL));
    json_decref(deep);
    json_decref(broken);
}
END_TEST

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
        char in[16];

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

/* Every line must come back from node byte for byte. */
START_TEST(node_agrees)
{
    static const char script[] =
        "node -e 'let n=0;for(const l of require(\"fs\").readFileSync(process.argv[1],\"utf8\")"
        ".split(\"\\n\")){if(l&&JSON.stringify(JSON.parse(l))!==l){console.log(l,"
        "JSON.stringify(JSON.parse(l)));if(++n>9)break}}process.exit(n?1:0)' ";
    char name[] = "/tmp/busbar-json-XXXXXX", command[1024];

    if (system("node --version >/dev/null 2>&1") != 0) {
        printf("SKIPPED json: node is not on the PATH\n");
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
END_TEST

static long allowed;

static void *scarce(size_t size)
{
    return allowed-- > 0 ? malloc(size) : NULL;
}

START_TEST(no_memory_is_a_problem_like_others)
{
    static const char text[] = "{\"a\":[1,2.5,\"text\",{\"b\":null}],\"c\":\"\\u00e4\"}";
    struct json_problem problem;
    json_t *value = NULL;
    int rounds = 0;

    json_set_alloc_funcs(scarce, free);
    for (; !value && rounds < 1000; rounds++) {
        allowed = rounds;
        value = read_text(text, &problem);
    }
    json_set_alloc_funcs(malloc, free);
    ck_assert_int_gt(rounds, 5);
    ck_assert_ptr_nonnull(value);
    json_decref(value);
}
END_TEST

Suite *json_suite(void)
{
    Suite *suite = suite_create("json");
    TCase *all = tcase_create("all");

    tcase_set_timeout(all, 120);
    tcase_add_test(all, bad_json_is_refused_with_a_reason);
    tcase_add_test(all, problems_tell_the_place_but_not_the_input);
    tcase_add_test(all, depth_is_64_and_brackets_in_strings_do_not_count);
    tcase_add_test(all, many_keys_are_quick_or_refused);
    tcase_add_test(all, the_json_test_suite_passes);
    tcase_add_test(all, numbers_look_as_in_javascript);
    tcase_add_test(all, text_is_compact_and_in_order);
    tcase_add_test(all, what_is_no_json_is_not_written);
    tcase_add_test(all, node_agrees);
    tcase_add_test(all, no_memory_is_a_problem_like_others);
    suite_add_tcase(suite, all);
    return suite;
}
