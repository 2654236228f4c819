/* Descriptors of modules: tables with other row sizes and invalid tables; a generation of a module;
 * and settings that are bound to its struct. */
#include "core/module/generation.h"
#include "core/module/module_validate.h"
#include "fixture.h"
#include "suite.h"
#include "unit/probe/probe.h"

#define PROBE TEST_MODULES "/probe.so"

/* Fails the test unless these are the problems; each may have more text before it. */
static void expect_problems(const char *const *expected, size_t count)
{
    ck_assert_uint_eq(problems.count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(strstr(problems.lines[i], expected[i]), "%s: no \"%s\"", problems.lines[i],
                      expected[i]);
}

static void validate(const struct bb_module *descriptor)
{
    struct core_module module = {.descriptor = descriptor, .path = "x.so"};

    module_validate(&module, &problems);
}

/* Rows of an older header, without the later members. */
struct old_field {
    const char *name;
    enum bb_type type;
};

TEST(shorter_rows_of_a_table_are_filled_with_zeros)
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

static void is_refused(const struct bb_module *descriptor, const char *reason)
{
    char why[256] = "";

    ck_assert_ptr_null(
        module_descriptor_copy(arena, descriptor, sizeof *descriptor, why, sizeof why));
    ck_assert_msg(strstr(why, reason) != NULL, "%s: no \"%s\"", why, reason);
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
        {{&one, SIZE_MAX, sizeof one}, "table `settings` has an impossible number of rows"},
    };
    struct bb_module descriptor = {BB_MODULE_HEAD("bad", "1"), .settings = cases[_i].table};

    is_refused(&descriptor, cases[_i].why);
}

TEST(cyclic_fields_are_refused)
{
    static struct bb_field circle = {.name = "a", .type = BB_OBJECT};
    struct bb_module descriptor = {BB_MODULE_HEAD("bad", "1"),
                                   .settings = {&circle, 1, sizeof circle}};

    circle.fields = descriptor.settings;
    is_refused(&descriptor, "is nested too deeply");
}

/* Each row of a table contains the whole next table: 16 to the power of 16 rows in total. */
TEST(exponentially_nested_fields_are_refused)
{
    static struct bb_field tables[16][16];
    struct bb_module descriptor = {BB_MODULE_HEAD("bad", "1"), .settings = BB_TABLE(tables[0])};

    for (size_t i = 0; i < 16; i++)
        for (size_t k = 0; k < 16; k++)
            tables[i][k] = (struct bb_field){
                .name = "a",
                .type = BB_OBJECT,
                .fields = {tables[i + 1 < 16 ? i + 1 : i], i + 1 < 16 ? 16 : 0, sizeof **tables}};
    is_refused(&descriptor, "has an impossible number of rows");
}

TEST(contradictory_tables_are_reported)
{
    static const struct bb_field settings[] = {
        {.name = "a", .type = BB_INT, .min = 1, .max = 5, .fallback = "9"},
        {.name = "a", .type = BB_TEXT},
        {.name = "c", .type = BB_CHOICE},
        {.name = "a", .alias = "b", .type = BB_TEXT},
    };
    static const struct bb_hook hooks[] = {{.event = "x", .kind = BB_WITHIN}};
    static const struct bb_event_descriptor events[] = {{"x.made", 1, {0}, ""},
                                                        {"made", 1, {0}, ""}};
    struct bb_module descriptor = {BB_MODULE_HEAD("Http", "1"), .settings = BB_TABLE(settings),
                                   .events = BB_TABLE(events), .hooks = BB_TABLE(hooks),
                                   .schema = "SELECT 1;\n"};
    static const char *const expected[] = {
        "x.so: module Http: its name must be of a-z",
        "module Http: settings: the default of field \"a\" must be at most 5",
        "module Http: settings: field \"a\" is given twice",
        "module Http: settings: field \"c\" must have choices if it is a BB_CHOICE, and only then",
        "module Http: settings: field \"a\" is given twice",
        "x.so: module Http: the hook on x must have the function of its kind, and no other",
        "x.so: module Http: its schema has text before its first step",
    };

    validate(&descriptor);
    expect_problems(expected, COUNT(expected));
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
TEST(duplicate_metrics_are_reported)
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
        "module pool: metric \"busy\": another metric has the name busbar_pool_busy",
        "module pool: metric \"own\": another metric has the name busbar_pool_own",
        "module pool_a: metric \"b\": another metric has the name busbar_pool_a_b",
    };

    module_validate(&modules[0], &problems);
    module_validate_set(modules, 2, &problems);
    expect_problems(expected, COUNT(expected));
}

TEST(files_in_must_name_a_text_setting_of_a_module_in_the_list)
{
    static const struct bb_field settings[] = {{.name = "documents", .type = BB_TEXT},
                                               {.name = "quota", .type = BB_INT}};
    static const struct bb_route routes[] = {
        {.method = "POST", .path = "/a", .files_in = "store.documents"},
        {.method = "POST", .path = "/b", .files_in = "store.document"},
        {.method = "POST", .path = "/c", .files_in = "store.quota"},
        {.method = "POST", .path = "/d", .files_in = "stores.document"},
        {.method = "POST", .path = "/e"},
    };
    struct bb_module files = {BB_MODULE_HEAD("files", "1"), .routes = BB_TABLE(routes)};
    struct bb_module store = {BB_MODULE_HEAD("store", "1"), .settings = BB_TABLE(settings)};
    struct core_module modules[] = {{.descriptor = &files, .path = "x.so"},
                                    {.descriptor = &store, .path = "y.so"}};
    static const char *const expected[] = {
        "module files: route POST /b: module store has no text setting \"document\"",
        "module files: route POST /c: module store has no text setting \"quota\"",
    };

    module_validate_set(modules, 2, &problems);
    expect_problems(expected, COUNT(expected));
}

TEST(commands_of_the_host_are_reported)
{
    static const struct bb_command commands[] = {{.name = "check all", .run = run},
                                                 {.name = "checks", .run = run}};
    struct bb_module descriptor = {BB_MODULE_HEAD("m", "1"), .commands = BB_TABLE(commands)};

    validate(&descriptor);
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_str_eq(problems.lines[0],
                     "x.so: module m: command \"check all\" begins like a command of the host");
}

static const struct bb_api api = {.size = sizeof api,
                                  .host_alloc = api_host_alloc,
                                  .setting_text = api_setting_text,
                                  .setting_int = api_setting_int,
                                  .settings = api_settings,
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

TEST(a_generation_has_the_routes_and_settings_of_its_modules)
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

TEST(a_failed_open_reports_the_reason)
{
    ck_assert_ptr_null(build("", "probe: {greeting: rude}\n"));
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_str_eq(problems.lines[0], "module probe: the greeting \"rude\" is not nice");
}

TEST(all_problems_are_reported_together)
{
    ck_assert_ptr_null(build(", !a gone", "gone: {}\nprobe: {greeting: [1]}\n"));
    ck_assert_uint_eq(problems.count, 3);
    ck_assert_ptr_nonnull(strstr(problems.lines[0], ":1: modules: tags"));
    ck_assert_ptr_nonnull(strstr(problems.lines[1], "gone.so: cannot be read"));
    ck_assert_ptr_nonnull(strstr(problems.lines[2], ":3: probe.greeting: must be one value"));
}

TEST(an_invalid_redis_url_is_refused_without_its_password)
{
    ck_assert_ptr_null(build("", "redis: {url: \"redis://:secret@cache:6379/x\"}\n"));
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_ptr_nonnull(strstr(problems.lines[0], ":2: redis.url: must be host:port"));
    ck_assert_ptr_null(strstr(problems.lines[0], "secret"));
}

TEST(a_wrong_module_path_is_one_problem)
{
    ck_assert_ptr_null(build(", auth", "module_path: \"\"\nauth: {}\n"));
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_ptr_nonnull(strstr(problems.lines[0], ":2: module_path: must not be blank"));
}

/* ---- bound settings -------------------------------------------------------------------------- */

TEST(bound_settings_have_the_defaults)
{
    struct generation *g = build("", "");
    struct bb_host *host = &g->modules[0].handle.host;
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
    generation_release(g);
}

TEST(bound_settings_have_the_values_of_the_file)
{
    struct generation *g =
        build("", "probe: {greeting: ahoy, colour: green, nothing: something, loud: no,\n"
                  "        times: -9223372036854775808, share: -2.25, names: [b, c],\n"
                  "        ages: {ada: 36}, any: true}\n");
    struct bb_host *host = &g->modules[0].handle.host;
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
    generation_release(g);
}

struct small {
    int64_t first, second;
    bool third;
};

TEST(settings_bound_to_impossible_places_are_reported)
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
        ("module m: settings: field \"b\" is bound to a member whose size is not the size of its "
         "type"),
        "module m: settings: field \"c\" is bound to an offset that is not aligned for its type",
        "module m: settings: field \"d\" is bound to an offset outside of `settings_size`",
        "module m: settings: field \"e\" is bound to an offset outside of `settings_size`",
        "module m: settings: field \"g\" is bound to the same member as another setting",
        "module m: settings: field \"h\" is bound to the same member as another setting",
    };
    const struct bb_module descriptor = {BB_MODULE_HEAD("m", "1"), .settings = BB_TABLE(settings),
                                         .settings_size = sizeof(struct small)};

    validate(&descriptor);
    expect_problems(expected, COUNT(expected));
}

TEST(a_missing_or_too_large_settings_struct_is_reported)
{
    static const struct bb_field settings[] = {
        {.name = "a", .type = BB_INT, .bind = BB_BIND(struct small, first)}};
    static const char *const expected[] = {
        "module m: settings: field \"a\" is bound to an offset outside of `settings_size`",
        "module m: settings: `settings_size` is more than 65536 bytes",
    };
    struct bb_module descriptor = {BB_MODULE_HEAD("m", "1"), .settings = BB_TABLE(settings)};

    validate(&descriptor);
    expect_problems(expected, 1);
    descriptor.settings_size = SIZE_MAX;
    validate(&descriptor);
    expect_problems(expected, 2);
}

TEST(only_settings_can_be_bound)
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

    validate(&descriptor);
    expect_problems(expected, 2);
}

SUITE(module, .before_each = conf_setup, .after_each = conf_teardown)
