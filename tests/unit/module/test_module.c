/* Descriptors of modules: tables with other row sizes and invalid tables; and a generation of a
 * module. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/module/generation.h"
#include "core/module/module_validate.h"
#include "fixture.h"
#include "suite.h"

#define PROBE TEST_MODULES "/probe.so"

/* Rows of an older header, without the later members. */
struct old_field {
    const char *name;
    enum bb_type type;
};

TEST(shorter_rows_are_filled_with_zeros)
{
    static const struct old_field settings[] = {{"a", BB_INT}, {"b", BB_TEXT}};
    struct bb_module descriptor = {BB_MODULE_HEAD("old", "1"), .settings = BB_TABLE(settings)};
    char why[256];

    descriptor.size = offsetof(struct bb_module, routes);
    descriptor.open = (int (*)(struct bb_host *, void **))1; /* must not be read: beyond the size */
    const struct bb_module *copy = module_descriptor_copy(arena, &descriptor, 0, why, sizeof why);

    ck_assert_ptr_nonnull(copy);
    ck_assert(!copy->open);
    ck_assert_uint_eq(copy->settings.count, 2);
    ck_assert_uint_eq(copy->settings.stride, sizeof(struct bb_field));
    const struct bb_field *fields = copy->settings.rows;

    ck_assert_str_eq(fields[1].name, "b");
    ck_assert_int_eq(fields[1].type, BB_TEXT);
    ck_assert_ptr_null(fields[1].help);
    ck_assert_uint_eq(fields[1].bind.size, 0);
    ck_assert_uint_eq(copy->settings_size, 0);
}

TEST_EACH(impossible_tables_are_refused, 4)
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
    struct bb_module descriptor = {BB_MODULE_HEAD("bad", "1"), .settings = cases[_i].table};
    char why[256] = "";

    ck_assert_ptr_null(
        module_descriptor_copy(arena, &descriptor, sizeof descriptor, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, cases[_i].why));
}

TEST(fields_in_a_circle_are_refused)
{
    static struct bb_field circle = {.name = "a", .type = BB_OBJECT};
    struct bb_module descriptor = {BB_MODULE_HEAD("bad", "1"),
                                   .settings = {&circle, 1, sizeof circle}};
    char why[256] = "";

    circle.fields = descriptor.settings;
    ck_assert_ptr_null(module_descriptor_copy(arena, &descriptor, 0, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "is nested too deeply"));
}

/* Each row of a table contains the whole next table: 16 to the power of 16 rows in total. */
TEST(fields_that_multiply_are_refused)
{
    static struct bb_field tables[16][16];
    struct bb_module descriptor = {BB_MODULE_HEAD("bad", "1"), .settings = BB_TABLE(tables[0])};
    char why[256] = "";

    for (size_t i = 0; i < 16; i++)
        for (size_t k = 0; k < 16; k++)
            tables[i][k] = (struct bb_field){
                .name = "a",
                .type = BB_OBJECT,
                .fields = {tables[i + 1 < 16 ? i + 1 : i], i + 1 < 16 ? 16 : 0, sizeof **tables}};
    ck_assert_ptr_null(module_descriptor_copy(arena, &descriptor, 0, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "has too many rows to be true"));
}

TEST(senseless_tables_are_told)
{
    static const struct bb_field settings[] = {
        {.name = "a", .type = BB_INT, .min = 1, .max = 5, .fallback = "9"},
        {.name = "a", .type = BB_TEXT},
        {.name = "c", .type = BB_CHOICE},
        {.name = "a", .alias = "b", .type = BB_TEXT},
    };
    static const struct bb_hook hooks[] = {{.event = "x", .kind = BB_WITHIN}};
    struct bb_module descriptor = {BB_MODULE_HEAD("Http", "1"), .settings = BB_TABLE(settings),
                                   .hooks = BB_TABLE(hooks), .schema = "SELECT 1;\n"};
    struct core_module module = {.descriptor = &descriptor, .path = "x.so"};
    static const char *const expected[] = {
        "x.so: module Http: its name must be of a-z",
        "module Http: settings: the default of field \"a\" must be at most 5",
        "module Http: settings: field \"a\" is given twice",
        "module Http: settings: field \"c\" must have choices if it is a BB_CHOICE, and only then",
        "module Http: settings: field \"a\" is given twice",
        "x.so: module Http: the hook on x must have exactly the function of its kind",
        "x.so: module Http: its schema has text before its first step",
    };

    module_validate(&module, &problems);
    ck_assert_uint_eq(problems.count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < problems.count; i++)
        ck_assert_msg(strstr(problems.lines[i], expected[i]), "%s: no \"%s\"", problems.lines[i],
                      expected[i]);
}

static double one(void *state, size_t value)
{
    (void)state;
    (void)value;
    return 1;
}

static int run(struct bb_request *rq)
{
    (void)rq;
    return 0;
}

/* If GET /metrics has a name twice, Prometheus rejects all of it. */
TEST(metrics_given_twice_are_told)
{
    static const char *const values[] = {"a", "b", "a", NULL};
    static const struct bb_metric first[] = {
        {.name = "busy", .kind = BB_GAUGE, .help = "The host's.", .read = one},
        {.name = "own", .kind = BB_GAUGE, .help = "Its own.", .read = one},
        {.name = "own", .kind = BB_GAUGE, .help = "Again.", .read = one},
        {.name = "a_b", .kind = BB_GAUGE, .help = "As a of pool_a.", .read = one},
        {.name = "c", .kind = BB_GAUGE, .help = "x", .read = one, .label = "l", .values = values},
    };
    static const struct bb_metric second[] = {
        {.name = "b", .kind = BB_GAUGE, .help = "As a_b of pool.", .read = one}};
    struct bb_module pool = {BB_MODULE_HEAD("pool", "1"), .metrics = BB_TABLE(first)};
    struct bb_module pool_a = {BB_MODULE_HEAD("pool_a", "1"), .metrics = BB_TABLE(second)};
    struct core_module modules[] = {{.descriptor = &pool, .path = "x.so"},
                                    {.descriptor = &pool_a, .path = "y.so"}};
    static const char *const expected[] = {
        "x.so: module pool: metric \"c\" has a value of its label twice",
        "module pool: metric \"busy\": there is a busbar_pool_busy already",
        "module pool: metric \"own\": there is a busbar_pool_own already",
        "module pool_a: metric \"b\": there is a busbar_pool_a_b already",
    };

    module_validate(&modules[0], &problems);
    module_validate_set(modules, 2, &problems);
    ck_assert_uint_eq(problems.count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < problems.count; i++)
        ck_assert_str_eq(problems.lines[i], expected[i]);
}

TEST(commands_that_the_host_has_are_told)
{
    static const struct bb_command commands[] = {{.name = "check all", .run = run},
                                                 {.name = "checks", .run = run}};
    struct bb_module descriptor = {BB_MODULE_HEAD("m", "1"), .commands = BB_TABLE(commands)};
    struct core_module module = {.descriptor = &descriptor, .path = "x.so"};

    module_validate(&module, &problems);
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_str_eq(problems.lines[0],
                     "x.so: module m: command \"check all\" begins like a command of the host");
}

static const struct bb_api api = {.size = sizeof api,
                                  .host_alloc = api_host_alloc,
                                  .setting_text = api_setting_text,
                                  .open_fail = api_open_fail};

/* Builds a generation of the probe, other entries of `modules`, and sections. */
static struct generation *build(const char *others, const char *sections)
{
    FILE *out = fopen(conf, "w");

    ck_assert_ptr_nonnull(out);
    fprintf(out, "modules: [\"" PROBE "\"%s]\n%s", others, sections);
    fclose(out);
    return conf_generation(&api);
}

TEST(a_generation_has_what_its_modules_bring)
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

TEST(open_says_why_it_fails)
{
    ck_assert_ptr_null(build("", "probe: {greeting: rude}\n"));
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_str_eq(problems.lines[0], "module probe: the greeting \"rude\" is not nice");
}

TEST(all_problems_come_at_once)
{
    ck_assert_ptr_null(build(", !a gone", "gone: {}\nprobe: {greeting: [1]}\n"));
    ck_assert_uint_eq(problems.count, 3);
    ck_assert_ptr_nonnull(strstr(problems.lines[0], ":1: modules: tags"));
    ck_assert_ptr_nonnull(strstr(problems.lines[1], "gone.so: cannot be read"));
    ck_assert_ptr_nonnull(strstr(problems.lines[2], ":3: probe.greeting: must be one value"));
}

TEST(an_address_of_the_web_is_no_place_of_redis)
{
    ck_assert_ptr_null(build("", "redis: {url: \"redis://:secret@cache:6379\"}\n"));
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_ptr_nonnull(strstr(problems.lines[0], ":2: redis.url: must be host:port"));
    ck_assert_ptr_null(strstr(problems.lines[0], "secret"));
}

TEST(a_wrong_directory_of_modules_is_one_problem)
{
    ck_assert_ptr_null(build(", auth", "module_path: \"\"\nauth: {}\n"));
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_ptr_nonnull(strstr(problems.lines[0], ":2: module_path: must not be blank"));
}

SUITE(module, .before_each = conf_setup, .after_each = conf_teardown)
