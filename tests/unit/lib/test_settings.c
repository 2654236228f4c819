/* Settings: which YAML is accepted, which is refused, and with which messages. */
#include <sys/stat.h>

#include "core/lib/host_settings.h"
#include "core/lib/settings.h"
#include "fixture.h"
#include "setting_rows.h"
#include "suite.h"

#define SEALING_KEY "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"

static struct settings *load_bytes(const char *yaml, size_t length)
{
    file_write_bytes(conf, yaml, length);
    return settings_load(arena, conf, &problems);
}

/* Loads and binds the section `s`. */
static struct settings *load(const char *yaml)
{
    struct settings *settings = load_bytes(yaml, strlen(yaml));

    if (settings)
        settings_bind(settings, "s", &table, &problems);
    return settings;
}

static const struct setting_value *value(const struct settings *settings, const char *name, char as)
{
    const struct setting_value *found = section_value(settings_section(settings, "s"), name, as);

    ck_assert_msg(found != NULL, "no setting %s", name);
    return found;
}

/* Fails the test unless the only problem is "<path>" followed by `text`. */
static void assert_problem(const char *text)
{
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_mem_eq(problems.lines[0], conf, strlen(conf));
    ck_assert_str_eq(problems.lines[0] + strlen(conf), text);
}

/* Returns the value as a text, or NULL. */
static const char *shown(const struct setting_value *value, char as)
{
    if (as == 't')
        return json_string_value(value->json);
    if (as == 'i')
        return arena_format(arena, "%lld", (long long)setting_integer(value));
    if (as == 'n')
        return arena_format(arena, "%g", json_number_value(value->json));
    char *text = json_dumps(value->json, JSON_COMPACT);
    const char *copy = text ? arena_text(arena, text, strlen(text)) : NULL;

    free(text);
    return copy;
}

static const struct {
    const char *line; /* NULL: there is no section */
    const char *name;
    char as;
    const char *value;
} values[] = {
    {"text: '7'", "text", 't', "7"},
    {"whole: 7", "whole", 'i', "7"},
    {"number: 1.5", "number", 'n', "1.5"},
    {"yes: on", "yes", 'i', "1"},
    {"colour: blue", "colour", 't', "blue"},
    {"list: [1, \"b\"]", "list", 'j', "[\"1\",\"b\"]"},
    {"pairs: [{x: 1, y: 2}]", "pairs", 'j', "[{\"x\":1,\"y\":2}]"},
    {"any: {a: [true, null, 1, \"1\"]}", "any", 'j', "{\"a\":[true,null,1,\"1\"]}"},
    {"'null': ~", "null", 't', NULL},
    /* defaults */
    {NULL, "text", 't', "none"},
    {NULL, "whole", 'i', "3"},
    {NULL, "yes", 'i', "0"},
    {NULL, "colour", 't', NULL},
    {NULL, "any", 'j', NULL},
    {NULL, "list", 'j', "[\"a\"]"},
    /* the environment */
    {"text: x${BUSBAR_TEST_A}y", "text", 't', "xay"},
    {"whole: ${BUSBAR_TEST_7}", "whole", 'i', "7"},
    {"list: ['$${A}', \"${BUSBAR_TEST_A}${BUSBAR_TEST_A}\", $A]", "list", 'j',
     "[\"${A}\",\"aa\",\"$A\"]"},
    {"text: ${BUSBAR_TEST_A:-b}", "text", 't', "a"},
    {"whole: ${BUSBAR_TEST_NONE:-7}", "whole", 'i', "7"},
    {"list: ['${BUSBAR_TEST_EMPTY:-c d}', \"${BUSBAR_TEST_NONE:-}e\"]", "list", 'j',
     "[\"c d\",\"e\"]"},
    /* times with units */
    {"wait: 90", "wait", 'i', "90"},
    {"any: [[[[[[[[[[[[[[1]]]]]]]]]]]]]]", "any", 'j', "[[[[[[[[[[[[[[1]]]]]]]]]]]]]]"},
    {"wait: 5s", "wait", 'i', "5"},
    {"wait: 2m", "wait", 'i', "120"},
    {"wait: 1h", "wait", 'i', "3600"},
    {"wait: 3000ms", "wait", 'i', "3"},
    {"wait: \"2m\"", "wait", 'i', "120"},
    {"waits: [1, 500ms, 2m, 0.5]", "waits", 'j', "[1,0.5,120,0.5]"},
};

TEST_EACH(a_yaml_line_has_this_value, sizeof values / sizeof *values)
{
    const char *line = values[_i].line;

    setenv("BUSBAR_TEST_A", "a", 1);
    setenv("BUSBAR_TEST_7", "7", 1);
    setenv("BUSBAR_TEST_EMPTY", "", 1);
    struct settings *s = load(line ? arena_format(arena, "s:\n  %s\n", line) : "");

    ck_assert_uint_eq(problems.count, 0);
    ck_assert_pstr_eq(shown(value(s, values[_i].name, values[_i].as), values[_i].as),
                      values[_i].value);
}

TEST(all_problems_are_reported_with_their_lines)
{
    load("s:\n  text: toolong\n  whole: 10\n  number: 1e999\n  yes: maybe\n  colour: green\n"
         "  list: x\n  pairs: [{x: a}]\n  more: 1\n");
    static const char *const expected[] = {
        ":2: s.text: must be at most 5 characters",
        ":3: s.whole: must be at most 9",
        ":4: s.number: must be a number",
        ":5: s.yes: must be true or false",
        ":6: s.colour: must be one of: red, blue",
        ":7: s.list: must be a list",
        ":8: s.pairs[0].x: must be a whole number",
        ":8: s.pairs[0].y: is required",
        ":9: s.more: is not a setting",
    };

    ck_assert_uint_eq(problems.count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < problems.count; i++)
        ck_assert_str_eq(problems.lines[i] + strlen(conf), expected[i]);
}

static const struct {
    const char *yaml, *problem;
} refused[] = {
    {"s:\n  text: a\n  text: b\n", ":3: s.text: was already given on line 2"},
    {"s: {}\ns: {}\n", ":2: s: was already given on line 1"},
    {"s:\n  text: &a b\n  whole: *a\n", ":3: s.whole: aliases (*name) are not supported"},
    {"s:\n  any: &a [*a]\n", ":2: s.any: aliases (*name) are not supported"},
    {"s:\n  text: &a whole\n  *a : 7\n", ":3: s: aliases (*name) are not supported"},
    {"s:\n  whole: !!int 3\n", ":2: s.whole: tags (!name) are not supported"},
    {"s:\n  text: *a\n", ":2: s.text: aliases (*name) are not supported"},
    {"s: {}\n---\ns: {}\n", ":2: a second document (---) is not supported"},
    {"s:\n  pairs: [{x: 1, y: 2, z: 3}]\n", ":2: s.pairs.z: is not a setting"},
    {"s: [1]\n", ":1: s: must be a mapping of settings, not a list"},
    {"- s\n", ":1: must be a mapping of sections"},
    {"s:\n  text:\n", ":2: s.text: has no value (write \"\" for an empty text)"},
    {"s:\n  text: {a: 1}\n", ":2: s.text: must be one value, not a mapping"},
    {"s:\n  ? [a]\n  : b\n", ":2: s: a key must be plain text"},
    {"s:\n  text: \"a\\0b\"\n", ":2: s.text: must not contain the character NUL"},
    {"s:\n  text: ${BUSBAR_TEST_NONE}\n", ":2: s.text: the environment variable BUSBAR_TEST_NONE "
                                          "is not set"},
    {"s:\n  text: ${BUSBAR_TEST_NONE:-{}}\n", ":2: s.text: ${ must be followed by a name, "
                                              "optionally by :- and a default, and by } (write $${ "
                                              "for a literal ${)"},
    {"s:\n  wait: 3h\n", ":2: s.wait: must be at most 7200, in seconds"},
    {"s:\n  wait: 1500ms\n", ":2: s.wait: must be a whole number, in seconds"},
    {"s:\n  wait: 5 s\n", ":2: s.wait: must be a whole number, in seconds"},
    {"s:\n  wait: 999999999s\n", ":2: s.wait: must be at most 7200, in seconds"},
    {"s:\n  wait: 1000000000s\n", ":2: s.wait: must be a whole number, in seconds"},
    {"s:\n  whole: 5s\n", ":2: s.whole: must be a whole number"},
    {"s:\n  waits: [1, 5x]\n", ":2: s.waits[1]: must be a number"},
    {"s:\n  any: [[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]\n", ":2: s.any: is nested too deeply"},
    {"s:\n  text: [a\n", ":3: did not find expected ',' or ']'"},
    {"s: {}\n\na: \xff\n", ":3: invalid leading UTF-8 octet"},
};

TEST_EACH(unsupported_yaml_features_are_refused, sizeof refused / sizeof refused[0])
{
    load(refused[_i].yaml);
    assert_problem(refused[_i].problem);
}

/* Returns the output of settings_print(); the caller frees it. */
static char *printed(const struct settings *settings)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(settings_print(settings, out), 0);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

TEST(printed_settings_can_be_read_again)
{
    struct settings *s =
        load("s:\n  text: \"a: #\"\n  list: [\"$${A}\", \"\\\"\\\\\\u00e9\\n\", '~']\n"
             "  pairs: [{x: 1, y: 2}]\n  any: {\"a b\": [true, null, 1.5, '1']}\n"
             "  wait: 2m\n  waits: [500ms]\n");
    char *text = printed(s);

    ck_assert_ptr_nonnull(strstr(text, "s:\n  text: \"a: #\"\n  whole: 3  # default\n"));
    ck_assert_ptr_nonnull(strstr(text, "  wait: 120  # seconds\n  waits: [0.5]\n"));
    ck_assert_ptr_nonnull(strstr(text, "  # colour:  # not set\n"));
    struct settings *again = load(text);
    char *twice = printed(again);

    ck_assert_uint_eq(problems.count, 0);
    for (const char *name = "list\0pairs\0any\0waits\0"; *name; name += strlen(name) + 1)
        ck_assert(json_equal(value(s, name, 'j')->json, value(again, name, 'j')->json));
    ck_assert_str_eq(json_string_value(value(again, "text", 't')->json), "a: #");
    free(text);
    free(twice);
}

TEST(secrets_are_not_printed)
{
    static const char yaml[] =
        "database:\n  url: geheim\nsecrets:\n  keys: [\"" SEALING_KEY "\"]\n";
    struct settings *s = load_bytes(yaml, sizeof yaml - 1);

    ck_assert_int_eq(host_settings_bind(s, &problems), 0);
    char *text = printed(s);

    ck_assert_ptr_nonnull(strstr(text, "\n  url: \"(hidden)\"\n"));
    ck_assert_ptr_nonnull(strstr(text, "\n  keys: [\"(hidden)\"]\n"));
    ck_assert_ptr_nonnull(strstr(text, "redis:\n  url: \"\"  # default\n"));
    ck_assert_ptr_null(strstr(text, "geheim"));
    ck_assert_ptr_null(strstr(text, SEALING_KEY));
    free(text);
}

TEST(secrets_that_are_not_texts_are_not_printed)
{
    static const struct bb_field secret[] = {
        {.name = "pin", .type = BB_INT, .flags = BB_SECRET, .max = 99999},
        {.name = "share", .type = BB_NUMBER, .flags = BB_SECRET, .max = 9},
        {.name = "on", .type = BB_BOOL, .flags = BB_SECRET},
        {.name = "none", .type = BB_INT, .flags = BB_SECRET, .max = 9},
    };
    static const struct bb_table secrets = BB_TABLE(secret);
    static const char yaml[] = "s:\n  pin: 48151\n  share: 1.625\n  on: true\n";
    struct settings *s = load_bytes(yaml, sizeof yaml - 1);

    ck_assert_ptr_nonnull(settings_bind(s, "s", &secrets, &problems));
    char *text = printed(s);

    ck_assert_ptr_nonnull(
        strstr(text, "s:\n  pin: \"(hidden)\"\n  share: \"(hidden)\"\n  on: \"(hidden)\"\n"
                     "  # none:  # not set\n"));
    free(text);
}

TEST(unknown_sections_are_reported)
{
    struct settings *s = load("s: {}\nother: {}\nclaimed: {}\n");

    settings_claim(s, "claimed");
    settings_unknown(s, NULL, NULL, &problems);
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_ptr_nonnull(strstr(problems.lines[0], ":2: unknown section \"other\""));
}

TEST(files_that_cannot_be_read_are_reported)
{
    static char large[SETTINGS_SIZE_MAX + 2];

    ck_assert_ptr_null(settings_load(arena, "/nonexistent/busbar.yaml", &problems));
    ck_assert_ptr_null(settings_load(arena, "/", &problems));
    memset(large, '#', sizeof large);
    ck_assert_ptr_nonnull(load_bytes(large, SETTINGS_SIZE_MAX));
    ck_assert_ptr_null(load_bytes(large, SETTINGS_SIZE_MAX + 1));
    ck_assert_int_eq(unlink(conf), 0);
    ck_assert_int_eq(mkfifo(conf, 0600), 0);
    EACH_TEXT (other, conf, "/dev/zero")
        ck_assert_ptr_null(settings_load(arena, other, &problems));
    const char *const expected[] = {
        "/nonexistent/busbar.yaml: cannot be read: No such file or directory",
        "/: is not a regular file", "is larger than 1048576 bytes", ": is not a regular file",
        "/dev/zero: is not a regular file"};

    ck_assert_uint_eq(problems.count, COUNT(expected));
    for (size_t i = 0; i < COUNT(expected); i++)
        ck_assert_msg(strstr(problems.lines[i], expected[i]) != NULL, "%s: no \"%s\"",
                      problems.lines[i], expected[i]);
}

/* A problem found in reading is not reported again, and the value does not count as set. */
TEST_EACH(a_value_that_cannot_be_read_refuses_its_section, 3)
{
    static const char *const bad[] = {"whole: ${BUSBAR_TEST_", "list: [a, \"${BUSBAR_TEST_\"]",
                                      "whole: \"7\\0\""};
    char yaml[64];

    snprintf(yaml, sizeof yaml, "s:\n  text: a\n  %s\n", bad[_i]);
    struct settings *s = load_bytes(yaml, strlen(yaml));

    ck_assert_ptr_nonnull(s);
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_ptr_null(settings_bind(s, "s", &table, &problems));
    ck_assert_uint_eq(problems.count, 1);
}

TEST(a_setting_is_found_by_its_name_and_type)
{
    const struct setting_section *section = settings_section(load(""), "s");

    ck_assert_ptr_nonnull(section_value(section, "whole", 'i'));
    ck_assert_ptr_null(section_value(section, "whole", 't'));
    ck_assert_ptr_nonnull(section_value(section, "whole", 'n'));
    ck_assert_ptr_null(section_value(section, "whole", 'j'));
    ck_assert_ptr_null(section_value(section, "text", 'i'));
    ck_assert_ptr_null(section_value(section, "undeclared", 't'));
}

TEST(the_defaults_of_the_host_are_valid)
{
    struct settings *s = load_bytes("", 0);

    ck_assert_int_eq(host_settings_bind(s, &problems), 0);
    ck_assert_int_eq(s->host->http.deadline, 5000);
    ck_assert_str_eq(s->host->redis.url, "");
    ck_assert(host_settings_own("database"));
    ck_assert(host_settings_own("modules"));
    ck_assert(!host_settings_own("chat"));
}

SUITE(settings, .before_each = conf_setup, .after_each = conf_teardown)
