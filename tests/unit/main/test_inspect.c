/* A module's descriptor as JSON and as text. */
#include "core/main/inspect.h"
#include "core/module/module_load.h"
#include "fixture.h"
#include "suite.h"

#define PROBE TEST_MODULES "/probe.so"

static void assert_printed(json_t *json, const char *expected)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    ck_assert_ptr_nonnull(out);
    inspect_print(json, out);
    fclose(out);
    ck_assert_msg(strstr(text, expected) != NULL, "no \"%s\" in\n%s", expected, text);
    free(text);
}

TEST(inspect_shows_the_tables_of_a_loaded_module)
{
    struct core_module module = {0};

    ck_assert_int_eq(module_load(&module, arena, PROBE, "x", &problems), 0);
    json_t *json = inspect_json(module.descriptor);

    ck_assert_ptr_nonnull(json);
    ck_assert_uint_eq(json_array_size(json_object_get(json, "hooks")), 2);
    EACH_TEXT (expected, "probe 1.0.0: module ABI 1.",
               "\nsettings:\n  name greeting, type text, max 20, default hello",
               "\nroutes:\n  method GET, path /probe, roles anyone, success 200",
               "  name probe.done, version 1, help Something was probed.\n",
               "  event probe.undeclared, kind committed\n")
        assert_printed(json, expected);
    json_decref(json);
}

TEST(inspect_shows_the_parts_of_a_route)
{
    static const struct bb_part parts[] = {
        {.name = "fields", .kind = BB_PART_FIELDS, .flags = BB_REQUIRED},
        {.name = "PHOTOS", .kind = BB_PART_FILES, .count_max = 10, .bytes_max = 5}};
    static const struct bb_route routes[] = {{.method = "POST",
                                              .path = "/p",
                                              .roles = BB_ANYONE,
                                              .flags = BB_KEEP_OTHERS,
                                              .parts = BB_TABLE(parts)}};
    struct bb_module descriptor = {BB_MODULE_HEAD("p", "1"), .routes = BB_TABLE(routes)};
    json_t *json = inspect_json(&descriptor);

    assert_printed(json, "  method POST, path /p, roles anyone, success 200, flags keepOthers\n"
                         "    parts:\n"
                         "      name fields, kind fields, required true\n"
                         "      name PHOTOS, kind files, countMax 10, bytesMax 5\n");
    json_decref(json);
}

TEST(inspect_escapes_newlines_and_control_sequences)
{
    static const struct bb_event_descriptor events[] = {{"e",
                                                         1,
                                                         {0},
                                                         "h\nhooks:\n  \x1b]0;owned\x07 \xC2\x9B"
                                                         "2J \xC3\xA4\x7F"}};
    struct bb_module descriptor = {BB_MODULE_HEAD("e", "1\r2"), .events = BB_TABLE(events)};
    json_t *json = inspect_json(&descriptor);

    assert_printed(json, "e 1?2: module ABI");
    assert_printed(json, "help h?hooks:?  ?]0;owned? ?2J \xC3\xA4?\n");
    json_decref(json);
}

SUITE(inspect, .before_each = conf_setup, .after_each = conf_teardown)
