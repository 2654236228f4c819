/* Settings that are bound to a struct of their module, and wrong bindings. */
#include <string.h>
#include <unistd.h>

#include "core/module/generation.h"
#include "core/module/module_validate.h"
#include "fixture.h"
#include "suite.h"
#include "unit/probe/probe.h"

#define PROBE TEST_MODULES "/probe.so"

static const struct bb_api api = {.size = sizeof api,
                                  .host_alloc = api_host_alloc,
                                  .setting_text = api_setting_text,
                                  .setting_int = api_setting_int,
                                  .settings = api_settings,
                                  .open_fail = api_open_fail};

/* Builds a generation of the probe with this section. */
static struct generation *build(const char *section)
{
    FILE *out = fopen(conf, "w");

    ck_assert_ptr_nonnull(out);
    fprintf(out, "modules: [\"" PROBE "\"]\n%s", section);
    fclose(out);
    struct generation *g = conf_generation(&api);

    ck_assert_ptr_nonnull(g);
    return g;
}

static void check_defaults(struct bb_host *host)
{
    const struct probe_settings *settings = bb_settings(host);

    ck_assert_str_eq(settings->greeting, "hello");
    ck_assert_str_eq(settings->email, "ada@example.com");
    ck_assert_str_eq(settings->uuid, "00000000-0000-7000-8000-000000000000");
    ck_assert_str_eq(settings->since, "2024-01-01T00:00:00Z");
    ck_assert_str_eq(settings->colour, "red");
    ck_assert_ptr_null(settings->nothing);
    ck_assert(settings->loud);
    ck_assert_int_eq(settings->times, 7);
    ck_assert_double_eq(settings->share, 0.5);
    ck_assert_int_eq(settings->not_bound, 0);
    ck_assert_str_eq(json_string_value(json_array_get(settings->names, 0)), "a");
    ck_assert_ptr_null(settings->ages);
    ck_assert_int_eq(json_integer_value(json_array_get(settings->any, 0)), 4);
    ck_assert_int_eq(bb_setting_int(host, "unbound"), 3);
}

static void check_values(struct bb_host *host)
{
    const struct probe_settings *settings = bb_settings(host);

    ck_assert_str_eq(settings->greeting, "ahoy");
    ck_assert_str_eq(settings->colour, "green");
    ck_assert_str_eq(settings->nothing, "something");
    ck_assert(!settings->loud);
    ck_assert_int_eq(settings->times, INT64_MIN);
    ck_assert_double_eq(settings->share, -2.25);
    ck_assert_uint_eq(json_array_size(settings->names), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(settings->ages, "ada")), 36);
    ck_assert(json_is_true(settings->any));
}

TEST(the_struct_has_the_defaults)
{
    struct generation *g = build("");

    check_defaults(&g->modules[0].handle.host);
    generation_release(g);
}

TEST(the_struct_has_what_the_file_says)
{
    struct generation *g =
        build("probe: {greeting: ahoy, colour: green, nothing: something, loud: no,\n"
              "        times: -9223372036854775808, share: -2.25, names: [b, c],\n"
              "        ages: {ada: 36}, any: true}\n");

    check_values(&g->modules[0].handle.host);
    generation_release(g);
}

struct small {
    int64_t first, second;
    bool third;
};

/* Fails the test unless module_validate() reports these problems. */
static void refused(const struct bb_module *descriptor, const char *const *expected, size_t count)
{
    struct core_module module = {.descriptor = descriptor, .path = "x.so"};

    module_validate(&module, &problems);
    ck_assert_uint_eq(problems.count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_str_eq(problems.lines[i], expected[i]);
}

TEST(places_that_cannot_be_are_told)
{
    static const struct bb_field settings[] = {
        {.name = "a", .type = BB_INT, .bind = BB_BIND(struct small, first)},
        {.name = "b", .type = BB_BOOL, .bind = BB_BIND(struct small, second)},
        {.name = "c", .type = BB_TEXT, .bind = {4, sizeof(char *)}},
        {.name = "d", .type = BB_NUMBER, .bind = {sizeof(struct small), sizeof(double)}},
        {.name = "e", .type = BB_LIST, .bind = {UINT32_MAX - 7, sizeof(json_t *)}},
        {.name = "f", .type = BB_BOOL, .bind = BB_BIND(struct small, third)},
        {.name = "g", .type = BB_BOOL, .bind = BB_BIND(struct small, third)},
        {.name = "h", .type = BB_BOOL, .bind = {3, sizeof(bool)}},
        {.name = "i", .type = BB_BOOL},
    };
    static const char *const expected[] = {
        "module m: settings: field \"b\" is bound to a member that is not of its type's size",
        "module m: settings: field \"c\" is bound to a place that its type cannot have",
        "module m: settings: field \"d\" is bound to a place outside of `settings_size`",
        "module m: settings: field \"e\" is bound to a place outside of `settings_size`",
        "module m: settings: field \"g\" is bound to a member that another setting is bound to",
        "module m: settings: field \"h\" is bound to a member that another setting is bound to",
    };
    const struct bb_module descriptor = {BB_MODULE_HEAD("m", "1"), .settings = BB_TABLE(settings),
                                         .settings_size = sizeof(struct small)};

    refused(&descriptor, expected, sizeof expected / sizeof expected[0]);
}

TEST(a_struct_that_is_not_there_or_too_large_is_told)
{
    static const struct bb_field settings[] = {
        {.name = "a", .type = BB_INT, .bind = BB_BIND(struct small, first)}};
    static const char *const expected[] = {
        "module m: settings: field \"a\" is bound to a place outside of `settings_size`",
        "module m: settings: `settings_size` is more than 65536 bytes",
    };
    struct bb_module descriptor = {BB_MODULE_HEAD("m", "1"), .settings = BB_TABLE(settings)};

    refused(&descriptor, expected, 1);
    descriptor.settings_size = SIZE_MAX;
    refused(&descriptor, expected, 2);
}

static int run(struct bb_request *rq)
{
    (void)rq;
    return 0;
}

TEST(what_is_no_setting_cannot_be_bound)
{
    static const struct bb_field fields[] = {
        {.name = "a", .type = BB_INT, .bind = BB_BIND(struct small, first)}};
    static const struct bb_field settings[] = {
        {.name = "s", .type = BB_OBJECT, .fields = BB_TABLE(fields)}};
    static const struct bb_command commands[] = {
        {.name = "go", .options = BB_TABLE(fields), .run = run}};
    static const char *const expected[] = {
        "module m: settings: field \"a\" is bound, but it is not a setting",
        "module m: command go: field \"a\" is bound, but it is not a setting",
    };
    const struct bb_module descriptor = {BB_MODULE_HEAD("m", "1"), .settings = BB_TABLE(settings),
                                         .settings_size = sizeof(struct small),
                                         .commands = BB_TABLE(commands)};

    refused(&descriptor, expected, 2);
}

SUITE(bind, .before_each = conf_setup, .after_each = conf_teardown)
