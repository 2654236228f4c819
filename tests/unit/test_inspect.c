/* Reading a module's descriptor from its file, and checking such files. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/inspect/inspect.h"
#include "core/inspect/modcheck.h"
#include "core/module/elf_image.h"
#include "core/module/module_load.h"
#include "suites.h"

#define PROBE TEST_MODULES "/probe.so"

enum { FLIPS = 400 };

static struct arena *arena;
static struct setting_problems findings;

static void setup(void)
{
    arena = arena_new();
    ck_assert_ptr_nonnull(arena);
}

static void teardown(void)
{
    setting_problems_free(&findings);
    arena_free(arena);
}

/* Returns the descriptor as loaded by the linker. */
static json_t *loaded_json(void)
{
    struct core_module module = {0};

    ck_assert_int_eq(module_load(&module, arena, PROBE, "x", &findings), 0);
    json_t *json = inspect_json(module.descriptor);

    ck_assert_ptr_nonnull(json);
    return json;
}

static json_t *read_json(const char *path)
{
    struct elf_file file;
    struct elf_image image;
    char why[256];
    size_t size = 0;

    ck_assert_int_eq(elf_file_open(&file, path, why, sizeof why), 0);
    ck_assert_int_eq(elf_image_make(&image, &file, why, sizeof why), 0);
    const struct bb_module *descriptor = elf_image_find(&image, &file, BB_MODULE_SYMBOL, &size);

    ck_assert_ptr_nonnull(descriptor);
    descriptor = module_descriptor_copy(arena, descriptor, size, why, sizeof why);
    ck_assert_ptr_nonnull(descriptor);
    json_t *json = inspect_json(descriptor);

    ck_assert_ptr_nonnull(json);
    elf_image_free(&image);
    elf_file_close(&file);
    return json;
}

START_TEST(a_file_shows_what_the_loaded_module_has)
{
    json_t *loaded = loaded_json(), *read = read_json(PROBE);

    ck_assert(json_equal(loaded, read));
    ck_assert_str_eq(json_string_value(json_object_get(read, "name")), "probe");
    const json_t *setting = json_array_get(json_object_get(read, "settings"), 0);

    ck_assert_str_eq(json_string_value(json_object_get(setting, "default")), "hello");
    ck_assert_int_eq(json_integer_value(json_object_get(setting, "max")), 20);
    ck_assert_uint_eq(json_array_size(json_object_get(read, "hooks")), 2);
    json_decref(loaded);
    json_decref(read);
}
END_TEST

START_TEST(the_text_names_what_the_json_has)
{
    json_t *json = read_json(PROBE);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    ck_assert_ptr_nonnull(out);
    inspect_print(json, out);
    fclose(out);
    static const char *const expected[] = {
        "probe 1.0.0: module ABI 1.",      "  greeting: text to 20 characters, default hello\n",
        "  GET /probe  (anyone)\n",        "  probe.done, version 1\n      Something was probed.\n",
        "  probe.undeclared, committed\n",
    };

    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        ck_assert_msg(strstr(text, expected[i]) != NULL, "no \"%s\" in\n%s", expected[i], text);
    free(text);
    json_decref(json);
}
END_TEST

static void assert_printed(const json_t *json, const char *expected)
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

START_TEST(a_route_shows_its_parts)
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
    const json_t *route = json_array_get(json_object_get(json, "routes"), 0);
    const json_t *photos = json_array_get(json_object_get(route, "parts"), 1);

    ck_assert_int_eq(json_integer_value(json_object_get(photos, "countMax")), 10);
    ck_assert_int_eq(json_integer_value(json_object_get(photos, "bytesMax")), 5);
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(route, "flags"), 0)),
                     "keepOthers");
    assert_printed(json, "  POST /p  (anyone)\n      parts: fields!, PHOTOS*10\n");
    json_decref(json);
}
END_TEST

START_TEST(texts_are_no_lines_and_no_orders_to_a_terminal)
{
    static const struct bb_event_descriptor events[] = {{"e",
                                                         1,
                                                         {0},
                                                         "h\nhooks:\n  \x1b]0;owned\x07 \xC2\x9B"
                                                         "2J \xC3\xA4\x7F"}};
    struct bb_module descriptor = {BB_MODULE_HEAD("e", "1\r2"), .events = BB_TABLE(events)};
    json_t *json = inspect_json(&descriptor);

    ck_assert_int_eq(inspect_sanitize(json), 0);
    assert_printed(json, "e 1?2: module ABI");
    assert_printed(json, "      h?hooks:?  ?]0;owned? ??2J \xC3\xA4?\n");
    json_decref(json);
}
END_TEST

START_TEST(a_module_exports_its_descriptor_alone)
{
    modcheck(PROBE, &findings);
    for (size_t i = 0; i < findings.count; i++)
        ck_assert_msg(!strstr(findings.lines[i], "exports"), "%s", findings.lines[i]);
}
END_TEST

START_TEST(a_library_is_told_from_a_module)
{
    Dl_info info;

    ck_assert_int_ne(dladdr((void *)(uintptr_t)&json_object, &info), 0);
    modcheck(info.dli_fname, &findings);
    ck_assert_uint_ge(findings.count, 3);
    ck_assert_ptr_nonnull(strstr(findings.lines[0], "symbols in addition to busbar_module"));
    ck_assert_ptr_nonnull(strstr(findings.lines[1], "exports no data busbar_module"));
    ck_assert_ptr_nonnull(strstr(findings.lines[2], "holds a copy of jansson"));
}
END_TEST

START_TEST(what_is_no_elf_file_is_one_finding)
{
    modcheck("/proc/self/status", &findings);
    ck_assert_uint_eq(findings.count, 1);
}
END_TEST

/* Names used by g++ 12, rustc 1.63 and rustc 1.95. */
START_TEST(what_a_runtime_keeps_is_told_from_the_modules_data)
{
    static const char *const runtimes[] = {
        "__dso_handle",
        "DW.ref.__gxx_personality_v0",
        "DW.ref.rust_eh_personality",
        "_rust_extern_with_linkage___dso_handle.llvm.6393127353238539583",
        "_ZN3std9panicking11panic_count18GLOBAL_PANIC_COUNT17h5354b3620215049eE",
        "_RNvNtNtCsjrHSEGnQ3l9_3std6thread7current7CURRENT",
        "_RNvNvMs0_NtNtNtCsjrHSEGnQ3l9_3std12backtrace_rs9symbolize5gimliNtB7_5Cache11with_global",
    };
    static const char *const modules[] = {
        "calls",
        "_ZN12_GLOBAL__N_15callsE",
        "_ZN2rs5CALLS17hf7006a1d2bedd218E",
        "_ZN2rs3std5CALLS17hf7006a1d2bedd218E",
        "_RNvCs2qSCrjELJ5V_11visits_rust5CALLS",
        "_RNvNvXCs2qSCrjELJ5V_2rsNtNtCsjrHSEGnQ3l9_3std6string6String5CALLS",
        "_R",
        "_RNvCs",
    };

    for (size_t i = 0; i < sizeof runtimes / sizeof runtimes[0]; i++)
        ck_assert_msg(modcheck_is_runtimes(runtimes[i]), "%s", runtimes[i]);
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        ck_assert_msg(!modcheck_is_runtimes(modules[i]), "%s", modules[i]);
}
END_TEST

/* A damaged file may pass or fail the check, but must not crash it. */
START_TEST(damaged_files_are_judged_without_harm)
{
    char path[] = "/tmp/busbar-inspect-XXXXXX", why[256], id[129];
    static char bytes[1 << 20];
    FILE *in = fopen(PROBE, "r");
    unsigned random = 4711;

    ck_assert_ptr_nonnull(in);
    size_t length = fread(bytes, 1, sizeof bytes, in);

    fclose(in);
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    for (int i = 0; i < FLIPS; i++) {
        struct elf_file file;
        struct elf_image image;

        random = random * 1103515245 + 12345;
        size_t at = i < 64 ? (size_t)i : random % length;
        char old = bytes[at];

        bytes[at] = (char)(random >> 16);
        ck_assert_int_eq(pwrite(fd, bytes, length, 0), (ssize_t)length);
        bytes[at] = old;
        modcheck(path, &findings);
        if (elf_file_open(&file, path, why, sizeof why))
            continue;
        elf_file_build_id(&file, id, sizeof id);
        if (!elf_image_make(&image, &file, why, sizeof why))
            elf_image_free(&image);
        elf_file_close(&file);
    }
    close(fd);
    unlink(path);
    ck_assert_uint_gt(findings.count, 0);
}
END_TEST

Suite *inspect_suite(void)
{
    Suite *suite = suite_create("inspect");
    TCase *tests = tcase_create("all");

    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_file_shows_what_the_loaded_module_has);
    tcase_add_test(tests, the_text_names_what_the_json_has);
    tcase_add_test(tests, a_route_shows_its_parts);
    tcase_add_test(tests, texts_are_no_lines_and_no_orders_to_a_terminal);
    tcase_add_test(tests, a_module_exports_its_descriptor_alone);
    tcase_add_test(tests, a_library_is_told_from_a_module);
    tcase_add_test(tests, what_is_no_elf_file_is_one_finding);
    tcase_add_test(tests, what_a_runtime_keeps_is_told_from_the_modules_data);
    tcase_add_test(tests, damaged_files_are_judged_without_harm);
    suite_add_tcase(suite, tests);
    return suite;
}
