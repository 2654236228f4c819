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

/* A row needs at least a name, and a descriptor at least its members up to `version`. */
TEST(the_smallest_rows_and_descriptors_are_copied)
{
    static const char *names[4097];
    struct bb_module descriptor = {BB_MODULE_HEAD("bad", "1"),
                                   .settings = {names, 4096, sizeof *names}};
    char why[256];

    ck_assert_ptr_nonnull(module_descriptor_copy(arena, &descriptor, 0, why, sizeof why));
    descriptor.settings.count++;
    is_refused(&descriptor, "has an impossible number of rows");
    descriptor.settings = (struct bb_table){names, 1, sizeof *names + 1};
    is_refused(&descriptor, "has rows of an impossible size");
    descriptor.size = offsetof(struct bb_module, schema);
    ck_assert_ptr_nonnull(
        module_descriptor_copy(arena, &descriptor, descriptor.size, why, sizeof why));
    ck_assert_ptr_null(
        module_descriptor_copy(arena, &descriptor, descriptor.size - 1, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "is too small to be a module's descriptor"));
    descriptor.version = NULL;
    is_refused(&descriptor, "has no name or no version");
    descriptor.size--;
    is_refused(&descriptor, "declares a descriptor of");
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

#define NAME48 "a_name_of_48_characters_0123456789_abcdefghijklm"

/* Two modules without a fault; several values are at their bounds. */
// clang-format off
#define ROW(row) {&(row), 1, sizeof(row)}
static const char *words[] = {"a", "b.-_2", NULL};
static struct bb_field inner[] = {{.name = "i", .type = BB_TEXT}, {.name = "k", .type = BB_ANY}},
                       segment = {.name = "d", .type = BB_INT, .min = 2, .max = 2},
                       query[] = {{.name = "q", .type = BB_TEXT, .alias = "r"},
                                  {.name = "s", .type = BB_LIST, .fields = ROW(inner[0])}},
                       body = {.name = "c", .type = BB_CHOICE, .choices = words, .fallback = "a"},
                       reply = {.name = "o", .type = BB_OBJECT, .fields = BB_TABLE(inner)},
                       payload = {.name = "p", .type = BB_UUID},
                       option = {.name = "n", .type = BB_INT, .min = 2, .fallback = "2"},
                       fields[] = {{.name = "dir", .type = BB_TEXT},
                                   {.name = "no", .type = BB_INT, .max = 5, .fallback = "5"}};
static struct bb_part parts[] = {
    {"f", .kind = BB_PART_FIELDS}, {"g", BB_PART_FILES, .count_max = 60},
    {"h", BB_PART_FILES, .count_max = 40}};
static struct bb_hook hooks[] = {
    {"a.b", BB_WITHIN, .within = (int (*)(struct bb_request *, struct bb_tx *,
                                          const struct bb_event *, void *))1},
    {"*", BB_COMMITTED, NULL, (void (*)(struct bb_request *, const struct bb_event *))1}};
static struct bb_route route = {.method = "GET", .path = "/:d", .roles = BB_ANY_ROLE | BB_ANYONE,
                                .handler = run, .segments = ROW(segment), .query = BB_TABLE(query),
                                .body = ROW(body), .reply = ROW(reply), .parts = BB_TABLE(parts),
                                .files_in = "dir", .files_pool = "p"};
static struct bb_command commands[] = {{"checks b-1", ROW(option), .run = run}, {"b", .run = run}};
static struct bb_event_descriptor events[] = {{"a.b", 1, .payload = ROW(payload)},
                                              {"a.c-_1", .version = 1}};
static struct bb_service_descriptor services[] = {{"a", 1, words}, {"b", 1, words}};
static struct bb_need need = {"a", 1}, want = {"b", 1};
static struct bb_channel channel = {"a_1", (void (*)(void *, const char *))1};
static struct bb_job jobs[] = {{"j", 1, 0, (void (*)(struct bb_request *))1},
                               {"k", 1, 0, (void (*)(struct bb_request *))1}};
static struct bb_worker workers[] = {{"w", (void (*)(struct bb_worker_context *))1, 0},
                                     {"x", (void (*)(struct bb_worker_context *))1, 0}};
static struct bb_pool pools[] = {{"p", 256, .queue = 1}, {"q", .queue = 1}};
static struct bb_metric metrics[] = {
    {"c_total", BB_COUNTER, .help = "x"}, {NAME48, BB_GAUGE, "x", "l_1", words, one}};
static struct bb_module good = {
    BB_MODULE_HEAD(NAME48, "1"), .settings = BB_TABLE(fields), .routes = ROW(route),
    .hooks = BB_TABLE(hooks), .commands = BB_TABLE(commands), .events = BB_TABLE(events),
    .services = BB_TABLE(services), .needs = ROW(need), .wants = ROW(want),
    .channels = ROW(channel), .jobs = BB_TABLE(jobs), .workers = BB_TABLE(workers),
    .pools = BB_TABLE(pools), .metrics = BB_TABLE(metrics), .schema = "-- step 1: a\n"};
static struct bb_event_descriptor its_event = {"o.a", .version = 1};
static struct bb_module other = {
    BB_MODULE_HEAD("o", "1"), .settings = BB_TABLE(fields), .events = ROW(its_event),
    .services = ROW(((struct bb_service_descriptor){"o", 1, words})),
    .commands = ROW(((struct bb_command){"o", .run = run})), .jobs = ROW(jobs[0]),
    .workers = ROW(workers[0]), .pools = ROW(pools[0])};

/* Changes of one value, and the problem that each causes; NULL: none. */
#define SET(member, to, why) {&(member), sizeof(member), (to), 0, (why)}
#define PUT(member, to, why) {&(member), sizeof(member), NULL, (to), (why)}
static const struct {
    void *at;
    size_t size;
    const void *text;
    uint64_t number;
    const char *why;
} changes[] = {
    SET(good.name, NAME48 "n", "must be of a-z"), SET(good.name, "Http", "must be of a-z"),
    SET(good.name, "http", "name is reserved"), SET(good.name, "busbar", "name is reserved"),
    SET(good.name, "o", "module o is loaded twice: x.so and y.so"),
    SET(good.schema, "SELECT 1;\n", "schema has text before its first step"),
    SET(good.schema, "-- step 1: a\n-- step 3: b\n", "misnumbered step (expected: \"-- step 2:"),
    SET(good.schema, "-- step 1: \n", "has a malformed"), SET(good.schema, "-- step 1 a\n", "malf"),
    SET(good.schema, " \t-- a comment\n\n-- step 1: a\nSELECT 1;", NULL),
    PUT(fields[1].bind.size, 8, "an offset outside of `settings_size`"),
    PUT(good.settings_size, 65536, NULL), PUT(good.settings_size, 65537, "more than 65536 bytes"),
    SET(fields[1].fallback, "6", "settings: the default of field \"no\" must be at most 5"),
    SET(query[0].name, "", "query: a field has no name"), SET(query[0].name, NULL, "has no name"),
    SET(query[1].name, "q", "\"q\" is given"), SET(query[1].name, "r", "\"r\" is given"),
    SET(query[1].alias, "q", "\"s\" is given"), SET(query[0].alias, "s", "\"s\" is given"),
    PUT(query[0].type, BB_ANY, NULL), PUT(query[0].type, BB_ANY + 1, "\"q\" has an unknown type"),
    PUT(query[0].type, 0, "\"q\" has an unknown type"), PUT(query[1].type, BB_OBJECT, NULL),
    PUT(query[1].type, BB_TEXT, "\"s\" has nested fields but is not an object or list"),
    PUT(query[1].fields.count, 2, "\"s\" is a list, so it may have only one row of fields"),
    SET(query[0].choices, words, "must have choices"), SET(body.choices, NULL, "must have choices"),
    SET(body.fallback, "c", "default of field"), PUT(payload.type, 0, "event a.b: field \"p\""),
    PUT(segment.max, 1, "segments: field \"d\" has a lower bound above the upper one"),
    PUT(inner[1].type, 0, "reply: field \"k\""), PUT(option.bind.size, 8, "is not a setting"),
    SET(route.method, NULL, "no method or path"), SET(route.path, NULL, "no method or path"),
    SET(route.handler, NULL, "has no handler"), PUT(route.roles, 64, "names an unknown role"),
    SET(parts[0].name, NULL, "name and a count"), PUT(parts[1].count_max, 0, "name and a count"),
    PUT(parts[1].count_max, 61, "at most 1 part of fields and 100 of files"),
    PUT(parts[1].kind, BB_PART_FIELDS, "at most 1 part of fields"),
    SET(route.files_in, NULL, "setting and a pool"), SET(route.files_in, "oo.no", NULL),
    SET(route.files_in, "no", "name a setting"), SET(route.files_in, "x", "name a setting"),
    SET(route.files_in, "o.dir", NULL), SET(route.files_in, "o.x", "o has no text setting \"x\""),
    SET(route.files_in, NAME48 ".x", "no text setting \"x\""),
    SET(route.files_in, "o.no", "no text set"), SET(route.files_pool, NULL, "and a pool"),
    SET(route.files_pool, "x", "setting and a pool"), SET(hooks[0].event, NULL, "no event"),
    PUT(hooks[0].kind, BB_COMMITTED, "hook on a.b"), PUT(hooks[1].kind, BB_WITHIN, "hook on *"),
    SET(hooks[0].within, NULL, "hook on a.b must"), SET(hooks[1].committed, NULL, "hook on *"),
    SET(hooks[0].committed, words, "hook on a.b must"), SET(hooks[1].within, words, "hook on *"),
    SET(commands[0].name, "A", "a name of words"), SET(commands[0].run, NULL, "and a function"),
    SET(commands[0].name, "check all", "command \"check all\" begins like a command of the host"),
    SET(commands[1].name, "checks b-1", "declares the command \"checks b-1\" twice"),
    SET(commands[1].name, "o", "and o both declare the command \"o\""),
    SET(events[1].name, "A", "and a version"), PUT(events[1].version, 0, "and a version"),
    SET(events[1].name, "a.b", "event \"a.b\""), SET(its_event.name, "a.c-_1", "both declare"),
    SET(services[0].name, NULL, "a version and an"), PUT(services[0].version, 0, "service \"a\""),
    SET(services[0].interface, NULL, "an interface"), SET(services[0].name, "b", "\"b\" twice"),
    SET(services[0].name, "o", "both declare the service"), SET(want.service, NULL, "a need must"),
    SET(need.service, NULL, "a need must name a service"), PUT(need.version, 0, "a need must name"),
    SET(channel.name, "a-1", "channel \"a-1\" needs"), SET(channel.heard, NULL, "and a function"),
    SET(jobs[1].name, NULL, "job \"\" needs"), PUT(jobs[1].every_s, 0, "a period and a function"),
    SET(jobs[1].run, NULL, "job \"k\" needs"), SET(jobs[1].name, "j", "the job \"j\" twice"),
    SET(workers[1].name, NULL, "worker \"\""), SET(workers[1].run, NULL, "worker \"x\" needs"),
    SET(workers[1].name, "w", "worker \"w\" twice"), SET(pools[1].name, NULL, "pool \"\" needs"),
    PUT(pools[1].threads, 257, "at most 256 threads"), PUT(pools[1].queue, 0, "pool \"q\" needs"),
    SET(pools[1].name, "p", "pool \"p\" twice"), SET(metrics[0].help, NULL, "needs a help text"),
    SET(metrics[0].name, NULL, "a name of a-z"), SET(metrics[0].name, "_total", "a name of a-z"),
    SET(metrics[1].name, "g-a", "a name of a-z"), SET(metrics[1].name, "g_total", "with _total"),
    SET(metrics[0].name, "c", "with _total"), SET(metrics[1].name, "total", NULL),
    PUT(metrics[0].kind, 0, "counter or a gauge"), PUT(metrics[0].kind, 3, "counter or a gauge"),
    SET(metrics[1].read, NULL, "no function to read it"), SET(metrics[1].label, "L", "a label of"),
    SET(metrics[1].label, NULL, "both a label"), SET(metrics[1].values, NULL, "both a label"),
    SET(metrics[1].values, words + 2, "both a label"), SET(words[1], "B", "values of its"),
    SET(words[1], "a", "metric \"" NAME48 "\" has a value of its label twice"),
};
// clang-format on

TEST(each_fault_of_a_module_is_reported)
{
    struct core_module modules[] = {{.descriptor = &good, .path = "x.so"},
                                    {.descriptor = &other, .path = "y.so"}};

    module_validate(&modules[0], &problems);
    module_validate(&modules[1], &problems);
    module_validate_set(modules, 2, &problems);
    ck_assert_msg(!problems.count, "%s", problems.count ? problems.lines[0] : "");
    for (size_t i = 0; i < COUNT(changes); i++) {
        const char *why = changes[i].why;
        char kept[sizeof(void *)];

        memcpy(kept, changes[i].at, changes[i].size);
        memcpy(changes[i].at, changes[i].text ? (const void *)&changes[i].text : &changes[i].number,
               changes[i].size);
        module_validate(&modules[0], &problems);
        module_validate_set(modules, 2, &problems);
        ck_assert_msg(problems.count == (why != NULL) && (!why || strstr(problems.lines[0], why)),
                      "%zu problems, \"%s\" instead of \"%s\"", problems.count,
                      problems.count ? problems.lines[0] : "", why);
        memcpy(changes[i].at, kept, changes[i].size);
        setting_problems_free(&problems);
    }
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

/* Builds a generation with a setting; fails the test unless this is the problem (NULL: none). */
static void expect_of_setting(const char *form, const char *value, const char *problem)
{
    struct generation *g = build("", arena_format(arena, form, value));

    ck_assert_msg(problems.count == (problem != NULL), "%s", value);
    ck_assert_msg(!problem || strstr(problems.lines[0], problem), "%s", problems.lines[0]);
    if (g)
        generation_release(g);
    setting_problems_free(&problems);
}

TEST(addresses_in_settings_are_checked)
{
    static const char listen[] = "http: {listen: \"%s\"}\n";
    static const char cors[] = "http: {cors_origins: [\"https://a\", \"%s\"]}\n";

    EACH_TEXT (fine, "h:65535", "[::1]:8", "127.0.0.1:0")
        expect_of_setting(listen, fine, NULL);
    EACH_TEXT (bad, "h", "h:", ":80", "h:65536", "h:000080", "h:8x", "a/h:80", "u@h:80")
        expect_of_setting(listen, bad, ":2: http.listen: must be address:port");
    EACH_TEXT (fine, "http://a.example:80", "https://b")
        expect_of_setting(cors, fine, NULL);
    EACH_TEXT (bad, "a", "ftp://a", "http://", "https://", "https://a/", "http://*", "https://a?b")
        expect_of_setting(cors, bad, ":2: http.cors_origins: item [1] must be an origin like");
    expect_of_setting("database: {url: \"%s\"}\n", "x", "database.url: must be a connection");
    expect_of_setting("database: {replicas: [\"host=a\", \"%s\"]}\n", "host=b", NULL);
    expect_of_setting("database: {replicas: [\"host=a\", \"%s\"]}\n", "x", "item [1] must be a");
    expect_of_setting("module_limits: [{module: %s, requests: 1}]\n", "probe", NULL);
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

/* Fails the test unless the probe with this section has these settings. */
static void expect_settings(const char *section, const char *expected)
{
    struct generation *g = build("", section);
    const struct probe_settings *is = bb_settings(&g->modules[0].handle.host);
    json_t *lists = json_pack("[O*, O*, O*]", is->names, is->ages, is->any);
    char text[512], *dumped = json_dumps(lists, JSON_COMPACT);

    snprintf(text, sizeof text, "%s %s %s %s %s %s %d %jd %g %jd %jd %s", is->greeting, is->email,
             is->uuid, is->since, is->colour, is->nothing ? is->nothing : "-", is->loud,
             (intmax_t)is->times, is->share, (intmax_t)is->not_bound,
             (intmax_t)bb_setting_int(&g->modules[0].handle.host, "unbound"), dumped);
    ck_assert_str_eq(text, expected);
    json_decref(lists);
    free(dumped);
    generation_release(g);
}

TEST(bound_settings_have_the_defaults_or_the_values_of_the_file)
{
    expect_settings("", "hello ada@example.com 00000000-0000-7000-8000-000000000000"
                        " 2024-01-01T00:00:00Z red - 1 7 0.5 0 3 [[\"a\"],[4]]");
    expect_settings("probe: {greeting: ahoy, colour: green, nothing: something, loud: no,\n"
                    "        times: -9223372036854775808, share: -2.25, names: [b, c],\n"
                    "        ages: {ada: 36}, any: true}\n",
                    "ahoy ada@example.com 00000000-0000-7000-8000-000000000000"
                    " 2024-01-01T00:00:00Z green something 0 -9223372036854775808 -2.25 0 3"
                    " [[\"b\",\"c\"],{\"ada\":36},true]");
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

SUITE(module, .before_each = conf_setup, .after_each = conf_teardown)
