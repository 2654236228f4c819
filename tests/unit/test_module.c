/* Loading modules: tables of other sizes, files that are none, and a generation of one. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/generation.h"
#include "core/module_check.h"
#include "suites.h"

#define PROBE TEST_MODULES "/probe.so"

static struct arena *arena;
static struct setting_problems problems;
static char directory[sizeof "/tmp/busbar-module-XXXXXX"], file[64], conf[64];

static void setup(void)
{
    snprintf(directory, sizeof directory, "/tmp/busbar-module-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(file, sizeof file, "%s/a.so", directory);
    snprintf(conf, sizeof conf, "%s/busbar.yaml", directory);
    arena = arena_new();
    ck_assert_ptr_nonnull(arena);
}

static void teardown(void)
{
    unlink(file);
    unlink(conf);
    rmdir(directory);
    setting_problems_free(&problems);
    arena_free(arena);
}

static void write_file(const char *path, const void *bytes, size_t length)
{
    FILE *out = fopen(path, "w");

    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(bytes, 1, length, out), length);
    ck_assert_int_eq(fclose(out), 0);
}

static char *read_probe(size_t *length)
{
    FILE *in = fopen(PROBE, "r");
    char *bytes = malloc(1 << 20);

    ck_assert_ptr_nonnull(in);
    ck_assert_ptr_nonnull(bytes);
    *length = fread(bytes, 1, 1 << 20, in);
    ck_assert_uint_lt(*length, 1 << 20);
    fclose(in);
    return bytes;
}

/* That loading the file is refused, in these words behind its name. */
static void assert_refused(const char *path, const char *reason)
{
    struct core_module module = {0};

    ck_assert_int_eq(module_load(&module, arena, path, "busbar.yaml:1: modules", &problems), -1);
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_ptr_nonnull(strstr(problems.lines[0], "busbar.yaml:1: modules: "));
    ck_assert_msg(strstr(problems.lines[0], reason), "%s: no \"%s\"", problems.lines[0], reason);
}

/* A copy of the probe with the head of its face (size, major, minor) replaced. */
static void patch(size_t size, unsigned major, unsigned minor)
{
    struct {
        size_t size;
        unsigned major, minor;
    } old = {sizeof(struct bb_module), BB_ABI_MAJOR, BB_ABI_MINOR}, new = {size, major, minor};
    size_t length;
    char *bytes = read_probe(&length);
    char *at = memmem(bytes, length, &old, sizeof old);

    ck_assert_ptr_nonnull(at);
    memcpy(at, &new, sizeof new);
    write_file(file, bytes, length);
    free(bytes);
}

START_TEST(files_that_are_no_modules_are_refused)
{
    static const struct {
        const char *bytes, *reason;
    } cases[] = {
        {"", "is empty"},
        {"hello", "is no ELF file"},
        {"\177ELF", "is no ELF file"},
        {"/* long enough for a head of an ELF file, but none: it is text, and quite some of it */",
         "is no ELF file"},
    };

    write_file(file, cases[_i].bytes, strlen(cases[_i].bytes));
    assert_refused(file, cases[_i].reason);
}
END_TEST

START_TEST(a_missing_file_is_refused)
{
    assert_refused(file, "No such file or directory; is it installed");
}
END_TEST

START_TEST(a_directory_is_refused)
{
    assert_refused(directory, "is no regular file");
}
END_TEST

/* The C library, which is there wherever this runs. */
static const char *foreign_library(void)
{
    static Dl_info info;

    ck_assert_int_ne(dladdr((void *)(uintptr_t)&getppid, &info), 0);
    return info.dli_fname;
}

START_TEST(a_foreign_library_is_refused)
{
    assert_refused(foreign_library(), "is no busbar module: it exports no busbar_module");
}
END_TEST

START_TEST(a_program_is_refused)
{
    assert_refused("/proc/self/exe", "/proc/self/exe: ");
}
END_TEST

START_TEST(truncated_files_are_refused)
{
    size_t length;
    char *bytes = read_probe(&length), why[256];

    for (size_t cut = 1; cut < length; cut += cut < 4096 ? 61 : 997) {
        write_file(file, bytes, cut);
        ck_assert_int_eq(module_file_check(file, why, sizeof why), -1);
    }
    write_file(file, bytes, length - 1);
    ck_assert_int_eq(module_file_check(file, why, sizeof why), -1);
    ck_assert_ptr_nonnull(strstr(why, "is truncated"));
    write_file(file, bytes, length);
    ck_assert_int_eq(module_file_check(file, why, sizeof why), 0);
    free(bytes);
}
END_TEST

START_TEST(another_major_version_is_refused)
{
    patch(sizeof(struct bb_module), BB_ABI_MAJOR + 1, 7);
    assert_refused(file, "was built for ABI 2.7, this host has 1.1: build the module with");
}
END_TEST

START_TEST(a_newer_minor_version_is_refused)
{
    patch(sizeof(struct bb_module), BB_ABI_MAJOR, BB_ABI_MINOR + 1);
    assert_refused(file, "needs ABI 1.2, this host has 1.1: upgrade the host");
}
END_TEST

START_TEST(an_impossible_size_is_refused)
{
    patch(sizeof(struct bb_module) + 8, BB_ABI_MAJOR, BB_ABI_MINOR);
    assert_refused(file, "says that its face has");
}
END_TEST

/* Rows as an older header may have had them: without what came later. */
struct old_field {
    const char *name;
    enum bb_type type;
};

START_TEST(shorter_rows_are_filled_with_zeros)
{
    static const struct old_field settings[] = {{"a", BB_INT}, {"b", BB_TEXT}};
    struct bb_module face = {BB_MODULE_HEAD("old", "1"), .settings = BB_TABLE(settings)};
    char why[256];

    face.size = offsetof(struct bb_module, routes);
    face.open = (int (*)(struct bb_host *, void **))1; /* behind the size: must not be read */
    const struct bb_module *copy = module_face_copy(arena, &face, 0, why, sizeof why);

    ck_assert_ptr_nonnull(copy);
    ck_assert(!copy->open);
    ck_assert_uint_eq(copy->settings.count, 2);
    ck_assert_uint_eq(copy->settings.stride, sizeof(struct bb_field));
    const struct bb_field *fields = copy->settings.rows;

    ck_assert_str_eq(fields[1].name, "b");
    ck_assert_int_eq(fields[1].type, BB_TEXT);
    ck_assert_ptr_null(fields[1].help);
}
END_TEST

START_TEST(impossible_tables_are_refused)
{
    static const struct bb_field one = {.name = "a", .type = BB_INT};
    static const struct {
        struct bb_table table;
        const char *why;
    } cases[] = {
        {{NULL, 1, sizeof one}, "table `settings` has a count but no rows"},
        {{&one, 1, 0}, "table `settings` has rows of an impossible size"},
        {{&one, 1, sizeof one + 8}, "table `settings` has larger rows"},
        {{&one, SIZE_MAX, sizeof one}, "table `settings` has too many rows to be true"},
    };
    struct bb_module face = {BB_MODULE_HEAD("bad", "1"), .settings = cases[_i].table};
    char why[256] = "";

    ck_assert_ptr_null(module_face_copy(arena, &face, sizeof face, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, cases[_i].why));
}
END_TEST

START_TEST(fields_in_a_circle_are_refused)
{
    static struct bb_field circle = {.name = "a", .type = BB_OBJECT};
    struct bb_module face = {BB_MODULE_HEAD("bad", "1"), .settings = {&circle, 1, sizeof circle}};
    char why[256] = "";

    circle.fields = face.settings;
    ck_assert_ptr_null(module_face_copy(arena, &face, 0, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "is nested too deeply"));
}
END_TEST

START_TEST(senseless_tables_are_told)
{
    static const struct bb_field settings[] = {
        {.name = "a", .type = BB_INT, .min = 1, .max = 5, .fallback = "9"},
        {.name = "a", .type = BB_TEXT},
        {.name = "c", .type = BB_CHOICE},
    };
    static const struct bb_hook hooks[] = {{.event = "x", .kind = BB_WITHIN}};
    struct bb_module face = {BB_MODULE_HEAD("Http", "1"), .settings = BB_TABLE(settings),
                             .hooks = BB_TABLE(hooks), .schema = "SELECT 1;\n"};
    struct core_module module = {.face = &face, .path = "x.so"};
    static const char *const expected[] = {
        "x.so: module Http: its name must be of a-z",
        "module Http: settings: the default of field \"a\" must be at most 5",
        "module Http: settings: field \"a\" is there twice",
        "module Http: settings: field \"c\" must have choices just if it is a BB_CHOICE",
        "x.so: module Http: the hook on x must have exactly the function of its kind",
        "x.so: module Http: its schema has text before its first step",
    };

    module_check(&module, &problems);
    ck_assert_uint_eq(problems.count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < problems.count; i++)
        ck_assert_msg(strstr(problems.lines[i], expected[i]), "%s: no \"%s\"", problems.lines[i],
                      expected[i]);
}
END_TEST

static const struct bb_api api = {.size = sizeof api,
                                  .host_alloc = api_host_alloc,
                                  .setting_text = api_setting_text,
                                  .open_fail = api_open_fail};

/* A generation of the probe, other entries of `modules`, and sections. */
static struct generation *build(const char *others, const char *sections)
{
    FILE *out = fopen(conf, "w");

    ck_assert_ptr_nonnull(out);
    fprintf(out, "modules: [\"" PROBE "\"%s]\n%s", others, sections);
    fclose(out);
    return generation_build(conf, 1, &api, &problems);
}

START_TEST(a_generation_has_what_its_modules_bring)
{
    struct generation *g = build("", "probe: {greeting: hi}\n");
    struct route_match match;

    ck_assert_ptr_nonnull(g);
    ck_assert_uint_eq(problems.count, 0);
    ck_assert_uint_eq(problems.warning_count, 1);
    ck_assert_str_eq(problems.warnings[0],
                     "module probe has a hook on \"probe.undeclared\", which no module declares");
    ck_assert_int_eq(router_match(g->router, "GET", "/probe", &match), ROUTE_OK);
    ck_assert_ptr_eq(match.owner, &generation_module(g, "probe")->handle);
    ck_assert_uint_eq(generation_event(g, "probe.done")->committed_count, 1);
    ck_assert_ptr_null(generation_event(g, "probe.undeclared"));
    ck_assert_ptr_nonnull(g->modules[0].handle.host.state);
    generation_acquire(g);
    generation_release(g);
    generation_release(g);
}
END_TEST

START_TEST(open_says_why_it_fails)
{
    ck_assert_ptr_null(build("", "probe: {greeting: rude}\n"));
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_str_eq(problems.lines[0], "module probe: the greeting \"rude\" is not nice");
}
END_TEST

START_TEST(all_problems_come_at_once)
{
    ck_assert_ptr_null(build(", &a gone", "gone: {}\nprobe: {greeting: [1]}\n"));
    ck_assert_uint_eq(problems.count, 3);
    ck_assert_ptr_nonnull(strstr(problems.lines[0], ":1: modules: anchors"));
    ck_assert_ptr_nonnull(strstr(problems.lines[1], "gone.so: cannot be read"));
    ck_assert_ptr_nonnull(strstr(problems.lines[2], ":3: probe.greeting: must be one value"));
}
END_TEST

/* Puts the probe, and `more` bytes behind it, in the file's place by rename. */
static void upgrade(size_t more)
{
    char newer[64];
    size_t length;
    char *bytes = read_probe(&length);

    snprintf(newer, sizeof newer, "%s/b.so", directory);
    memset(bytes + length, 'x', more);
    write_file(newer, bytes, length + more);
    free(bytes);
    ck_assert_int_eq(rename(newer, file), 0);
}

static const struct bb_module *load_file(void)
{
    struct core_module module = {0};

    ck_assert_int_eq(module_load(&module, arena, file, "x", &problems), 0);
    ck_assert_uint_ge(strlen(module.build_id), 16);
    return module.face;
}

/* The linker knows the file by its name, and must be made to look again. */
START_TEST(an_upgraded_file_is_loaded_anew)
{
    patch(sizeof(struct bb_module), BB_ABI_MAJOR, BB_ABI_MINOR);
    const struct bb_module *first = load_file(), *second = load_file();

    ck_assert_ptr_eq(second->open, first->open);
    upgrade(1);
    ck_assert(load_file()->open != first->open);
}
END_TEST

/* Code is never unloaded, so what comes again must not be loaded again. */
START_TEST(an_equal_file_gets_the_code_that_is_there)
{
    upgrade(2);
    const struct bb_module *first = load_file();

    upgrade(3);
    const struct bb_module *second = load_file();

    ck_assert(second->open != first->open);
    for (int i = 0; i < 10; i++) {
        upgrade(2);
        ck_assert(load_file()->open == first->open);
        upgrade(3);
        ck_assert(load_file()->open == second->open);
    }
}
END_TEST

/* Only behind its end here: with other code under it this process would not get far. */
START_TEST(a_file_that_was_written_over_is_refused)
{
    upgrade(4);
    load_file();
    FILE *out = fopen(file, "a");

    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(fputc('x', out), 'x');
    ck_assert_int_eq(fclose(out), 0);
    assert_refused(file, "was written over while its code is in use: put a new file in its place");
    upgrade(4);
    load_file();
}
END_TEST

Suite *module_suite(void)
{
    Suite *suite = suite_create("module");
    TCase *tests = tcase_create("all");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, files_that_are_no_modules_are_refused, 0, 4);
    tcase_add_test(tests, a_missing_file_is_refused);
    tcase_add_test(tests, a_directory_is_refused);
    tcase_add_test(tests, a_foreign_library_is_refused);
    tcase_add_test(tests, a_program_is_refused);
    tcase_add_test(tests, truncated_files_are_refused);
    tcase_add_test(tests, another_major_version_is_refused);
    tcase_add_test(tests, a_newer_minor_version_is_refused);
    tcase_add_test(tests, an_impossible_size_is_refused);
    tcase_add_test(tests, shorter_rows_are_filled_with_zeros);
    tcase_add_loop_test(tests, impossible_tables_are_refused, 0, 4);
    tcase_add_test(tests, fields_in_a_circle_are_refused);
    tcase_add_test(tests, senseless_tables_are_told);
    tcase_add_test(tests, a_generation_has_what_its_modules_bring);
    tcase_add_test(tests, open_says_why_it_fails);
    tcase_add_test(tests, all_problems_come_at_once);
    tcase_add_test(tests, an_upgraded_file_is_loaded_anew);
    tcase_add_test(tests, an_equal_file_gets_the_code_that_is_there);
    tcase_add_test(tests, a_file_that_was_written_over_is_refused);
    suite_add_tcase(suite, tests);
    return suite;
}
