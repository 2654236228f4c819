/* Reading JSON, also of test cases from outside of the project. */
#include <dirent.h>

#include "core/lib/json.h"
#include "fixture.h"
#include "suite.h"
#include "support/process.h"

static json_t *read_text(const char *text, struct json_problem *problem)
{
    return json_read(text, strlen(text), JSON_COMMAS_MAX, problem);
}

static void check_refused(const char *bytes, size_t length, const char *why)
{
    struct json_problem problem = {.text = ""};
    char *exact = malloc(length + !length); /* so that sanitizers detect overruns */
    json_t *value = json_read(memcpy(exact, bytes, length), length, JSON_COMMAS_MAX, &problem);

    free(exact);
    ck_assert_msg(!value, "%s", bytes);
    ck_assert_msg(!strcmp(problem.text, why), "%s: %s", bytes, problem.text);
}

TEST(bad_json_is_refused_with_a_reason)
{
    static const struct {
        const char *text, *why;
    } rows[] = {{"", "empty"},
                {" ", "the text ends too early"},
                {"{", "the text ends too early"},
                {"1", "must be an object or a list"},
                {"\"a\"", "must be an object or a list"},
                {"null ", "must be an object or a list"},
                {"nul", "not valid JSON"},
                {"null x", "not valid JSON"},
                {"{a:1}", "not valid JSON"},
                {"[1,]", "not valid JSON"},
                {"[NaN]", "not valid JSON"},
                {"[01]", "not valid JSON"},
                {"[\"\t\"]", "not valid JSON"},
                {"{} x", "unexpected text after the end"},
                {"{}{}", "unexpected text after the end"},
                {"{\"a\":1,\"a\":2}", "a key is given twice"},
                {"{\"a\":1,\"\\u0061\":2}", "a key is given twice"},
                {"[1e400]", "a number is too large"},
                {"[-1e400]", "a number is too large"},
                {"[9223372036854775808,1e400]", "a number is too large"},
                {"[9223372036854775808 x]", "not valid JSON"},
                {"[-09223372036854775808]", "not valid JSON"},
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

TEST(problems_have_the_position_but_not_the_input)
{
    struct json_problem problem;

    ck_assert_ptr_null(read_text("{\n \"password\": hunter2}", &problem));
    ck_assert_int_eq(problem.line, 2);
    ck_assert_int_eq(problem.column, 19);
    ck_assert_ptr_null(strstr(problem.text, "hunter"));
    ck_assert_ptr_null(json_read("{\n\"\xC3\xA4\0", 6, JSON_COMMAS_MAX, &problem));
    ck_assert_int_eq(problem.line, 2);
    ck_assert_int_eq(problem.column, 3);
}

TEST(depth_is_limited_to_64_without_brackets_in_strings)
{
    char text[200000];
    struct json_problem problem;

    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    json_t *value = json_read(text, 128, JSON_COMMAS_MAX, &problem);

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
    value = json_read(text, 1008, JSON_COMMAS_MAX, &problem);
    ck_assert_ptr_nonnull(value);
    json_decref(value);
}

TEST(an_object_may_have_100000_keys)
{
    struct json_problem problem;
    char *text = malloc(100000 * 24), *at = text;

    for (int i = 0; i < 100000; i++)
        at += sprintf(at, "%c\"key%d\":%d", i ? ',' : '{', i, i);
    *at++ = '}';
    json_t *value = json_read(text, (size_t)(at - text), JSON_COMMAS_MAX, &problem);

    free(text);
    ck_assert_uint_eq(json_object_size(value), 100000);
    json_decref(value);
}

TEST(too_many_values_are_refused)
{
    struct json_problem problem;
    json_t *value = json_read("[1,[2,3]]", 9, 2, &problem);

    ck_assert_uint_eq(json_array_size(value), 2);
    json_decref(value);
    ck_assert_ptr_null(json_read("[1,[2,3]]", 9, 1, &problem));
    ck_assert_str_eq(problem.text, "too many values");
    ck_assert_int_eq(problem.column, 6);
}

/* Valid texts that our own rules refuse: scalars, duplicate keys, NUL. */
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
    char path[1024];
    struct json_problem problem;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    size_t length;
    char *bytes = file_read_bytes(path, &length);
    json_t *value = json_read(bytes, length, JSON_COMMAS_MAX, &problem);

    if (name[0] == 'n')
        ck_assert_msg(!value, "%s was accepted", name);
    if (name[0] == 'y')
        ck_assert_msg(!value == refused_by_rule(name, bytes, length), "%s", name);
    if (value) {
        char *text = json_write(value, &length);
        json_t *again = json_read(text, length, JSON_COMMAS_MAX, &problem);

        char *twice = json_write(again, NULL);

        ck_assert_msg(!strcmp(text, twice), "%s: %s %s", name, text, twice);
        json_decref(again);
        free(twice);
        free(text);
    }
    free(bytes);
    json_decref(value);
}

TEST(the_json_test_suite_passes)
{
    const char *folder = shared_cases("jsontestsuite/test_parsing");
    struct dirent *entry;
    int count = 0;

    if (!folder)
        return;
    DIR *open = opendir(folder);

    ck_assert_ptr_nonnull(open);
    while ((entry = readdir(open))) {
        if (entry->d_name[0] == '.')
            continue;
        check_case(folder, entry->d_name);
        count++;
    }
    closedir(open);
    ck_assert_int_gt(count, 300);
}

/* In quadratic time it would take hours. */
TEST(blanks_before_a_number_above_64_bits_take_linear_time)
{
    static char text[8 << 20];
    struct json_problem problem;

    memset(text, ' ', sizeof(text));
    memcpy(text, "[", 1);
    memcpy(text + sizeof(text) - 21, "20000000000000000000]", 21);
    json_t *value = json_read(text, sizeof(text), JSON_COMMAS_MAX, &problem);

    ck_assert_ptr_nonnull(value);
    json_decref(value);
}

TEST(numbers_above_64_bits_are_read_and_written_as_in_javascript)
{
    static const char *const rows[][2] = {
        {"[100000000000000000000]", "[100000000000000000000]"},
        {"[-10000000000000000000, 0.5]", "[-10000000000000000000,0.5]"},
        {"{\"a\": 9223372036854775807, \"b\": 1e300}", "{\"a\":9223372036854775807,\"b\":1e+300}"},
        {"[9223372036854775808,1e+21]", "[9223372036854776000,1e+21]"},
        {"[1000000000000000000000]", "[1e+21]"},
        {"[10000000000000000000.25,20000000000000000000]",
         "[10000000000000000000,20000000000000000000]"},
        {"[20000000000000000000,\"\\\"20000000000000000000\\\\\"]",
         "[20000000000000000000,\"\\\"20000000000000000000\\\\\"]"},
        {"20000000000000000000", "20000000000000000000"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool memory = true;
        json_t *value = json_read_stored(rows[i][0], &memory);

        ck_assert_msg(value && !memory, "%s", rows[i][0]);
        char *text = json_write(value, NULL);

        ck_assert_str_eq(text, rows[i][1]);
        free(text);
        struct json_problem problem;
        json_t *sent = read_text(rows[i][0], &problem);

        ck_assert_msg(json_is_number(value) || json_equal(sent, value), "%s", rows[i][0]);
        json_decref(sent);
        json_decref(value);
    }
}

TEST(stored_texts_that_are_not_json_are_refused)
{
    static const char *const texts[] = {
        "",    "[20000000000000000000",   "[1e400]",
        "[-]", "[\"20000000000000000000", "{} 20000000000000000000"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        bool memory = true;

        ck_assert_ptr_null(json_read_stored(texts[i], &memory));
        ck_assert(!memory);
    }
}

static long allowed;

static void *scarce(size_t size)
{
    return allowed-- > 0 ? malloc(size) : NULL;
}

TEST(a_failed_allocation_is_reported_as_a_problem)
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

SUITE(json, .timeout_s = 120)
