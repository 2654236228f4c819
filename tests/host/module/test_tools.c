/*
 * Third-party modules and the tools for them: the example hello, built from the installed package
 * alone; a module built against the first frozen headers (tests/witness); check, inspect and
 * modcheck; notifications to a service manager.
 */
#include <glob.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "hello.h"
#include "stage.h"
#include "talk.h"

static struct person *platform;
static const char *hello, *notices;
static int manager;

/* The test acts as the service manager. */
static void listen_for_notices(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    notices = harness_path("notify");
    ck_assert_uint_lt(strlen(notices), sizeof address.sun_path);
    memcpy(address.sun_path, notices, strlen(notices));
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(manager, 0);
    ck_assert_int_eq(bind(manager, (struct sockaddr *)&address, sizeof address), 0);
}

/* Returns whether a notice that begins so has come. */
static bool is_noticed(const char *begin)
{
    char notice[128];
    ssize_t length = recv(manager, notice, sizeof notice - 1, 0);

    notice[length > 0 ? length : 0] = '\0';
    return !strncmp(notice, begin, strlen(begin));
}

static void set_up(void)
{
    hello = hello_build("hello");
    listen_for_notices();
    stage_open(&(struct host_spec){
        .name = "tools",
        .modules = text("[auth, chat, health, \"%s\", \"" TEST_WITNESS "\"]", hello),
        .more = "hello:\n  greeting: ahoy\nwitness:\n  limit: 2\n",
        .environment = word_list(text("NOTIFY_SOCKET=%s", notices))});
    WAIT_UNTIL(is_noticed("READY=1"), 5000);
    database_soon(the_postgres, "tools",
                  "SELECT count(to_regclass('hello_count')) * count(to_regclass('witness_row'))");
    platform = person_make(host, admin, "tools.platform", NULL);
}

static void tear_down(void)
{
    hosts_stop();
    WAIT_UNTIL(is_noticed("STOPPING=1"), 5000);
    close(manager);
}

TEST(hello_greets_and_counts_messages)
{
    struct answer *answer = ck_status(http(host, "GET", "/api/hello", platform->token, NULL), 200);

    ck_assert_str_eq(answer_text(answer, "greeting"), "ahoy");
    ck_assert_str_eq(answer_text(answer, "email"), platform->email);
    ck_assert_int_eq(answer_int(answer, "messages"), 0);
    ck_status(http(host, "GET", "/api/hello", NULL, NULL), 401);
    struct talk talk = talk_start(host, platform, platform->email, ADMIN_EMAIL, NULL);

    ck_status(talk_post(host, platform, &talk, platform->email, "one"), 201);
    ck_status(talk_post(host, platform, &talk, platform->email, "two"), 201);
    WAIT_UNTIL(answer_int(http(host, "GET", "/api/hello", platform->token, NULL), "messages") == 2,
               5000);
}

static struct answer *witness_post(const char *entry, long status)
{
    return ck_status(
        http(host, "POST", "/witness", platform->token, json_pack("{ss}", "text", entry)), status);
}

TEST(a_module_built_with_the_1_0_headers_serves_requests)
{
    for (int i = 0; i < 3; i++)
        witness_post(text("row %d", i), 201);
    ck_error(witness_post("!", 409), 409, "The witness does not like this");
    ck_error(witness_post("", 400), 400, "");
    struct answer *answer = ck_status(http(host, "GET", "/witness/row", admin->token, NULL), 200);

    ck_assert_str_eq(answer_text(answer, "mark"), "1.0");
    ck_assert_str_eq(answer_text(answer, "caller"), ADMIN_EMAIL);
    ck_assert_uint_eq(json_array_size(json_object_get(answer->json, "texts")), 2);
    answer = ck_status(http(host, "GET", "/witness/row?limit=3", admin->token, NULL), 200);
    ck_assert_uint_eq(json_array_size(json_object_get(answer->json, "texts")), 3);
    ck_status(http(host, "GET", "/witness/row", platform->token, NULL), 403);
}

TEST(hooks_and_command_of_a_module_built_with_the_1_0_headers_run)
{
    sql_soon(db, "SELECT (count(*) >= 3)::int FROM witness_heard");
    ck_prints(host, 0, "witness: 3 rows\n", "witness", "count");
}

/* Waits until the host has received the signal. `busbar reload` returns when the reload is over. */
TEST(a_reload_is_reported_to_the_service_manager)
{
    const char *const words[] = {"reload", NULL};

    ck_assert_int_eq(host_command(host, host->environment, words), 0);
    WAIT_UNTIL(is_noticed("RELOADING=1\nMONOTONIC_USEC="), 5000);
    WAIT_UNTIL(is_noticed("READY=1"), 5000);
}

/* Returns the output of a command that ends with this status. */
#define SAYS(status, ...) says((status), (const char *const[]){__VA_ARGS__, NULL})
static const char *says(int status, const char *const *words)
{
    const char *argv[8] = {harness_program(false)};
    const char *log = harness_path(text("tool-%s-%jd.log", words[0], now_ms()));

    for (int i = 0; words[i]; i++)
        argv[i + 1] = words[i];
    int ended = process_run(&(struct process_spec){.argv = argv, .log = log});

    ck_assert_msg(ended == status, "%d: %s", ended, file_text(log));
    return file_text(log);
}

static void expect(const char *said, const char *part)
{
    ck_assert_msg(strstr(said, part) != NULL, "no \"%s\" in %s", part, said);
}

static void expect_not(const char *said, const char *part)
{
    ck_assert_msg(!strstr(said, part), "\"%s\" in %s", part, said);
}

#define KEYS                                                                                       \
    "secrets:\n"                                                                                   \
    "  keys: [\"0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0\"]\n"

TEST(check_works_without_a_database)
{
    const char *conf = harness_path("tools-check.yaml");

    file_write(conf, text("module_path: \"%s\"\n"
                          "database:\n  url: \"host=/nowhere dbname=nothing\"\n"
                          "redis:\n  url: \"unix:/nowhere\"\n" KEYS
                          "modules: [auth, chat, health, \"%s\"]\nhello:\n  greeting: hi\n",
                          harness_modules(false), hello));
    expect(SAYS(0, "check", "-c", conf), "4 modules");
    file_write(conf, text("module_path: \"%s\"\nmodules: [chat, \"%s\"]\nhello:\n  greting: hi\n",
                          harness_modules(false), hello));
    const char *said = SAYS(1, "check", "-c", conf);

    expect(said, ":4: hello.greting: is not a setting");
    expect(said, "module chat needs the service \"accounts\"");
}

/* Only the variable is wrong; an implementation could easily blame the modules' sections. */
TEST(an_unset_module_path_is_the_only_reported_error)
{
    const char *conf = harness_path("tools-check.yaml");

    file_write(conf, "module_path: \"${BUSBAR_TEST_NOT_SET}\"\n" KEYS
                     "modules: [auth, chat]\nchat: {}\nwebhook: {}\n");
    const char *said = SAYS(1, "check", "-c", conf);

    expect(said, "BUSBAR_TEST_NOT_SET");
    expect_not(said, "unknown section");
}

TEST(check_lists_sections_of_unloaded_modules_in_one_line)
{
    const char *conf = harness_path("tools-check.yaml");

    file_write(conf, text("module_path: \"%s\"\n"
                          "database:\n  url: \"host=/nowhere dbname=nothing\"\n" KEYS
                          "modules: [health]\nchat: {}\nwebhook: {}\n",
                          harness_modules(false)));
    const char *said = SAYS(0, "check", "-c", conf), *line = strstr(said, "without effect");

    ck_assert_ptr_nonnull(line);
    expect(line, "chat (line 7), webhook (line 8)");
    expect_not(line + 1, "without effect");
    expect_not(SAYS(1, "migrate", "-c", conf), "without effect");
}

TEST(check_refuses_invalid_module_limits)
{
    static const struct {
        const char *limits, *says;
        int status;
    } cases[] = {
        {"[{module: health, requests: 4, cpu_time: 10}]", "", 0},
        {"[{module: chat, requests: 4}]", "item [0] of module_limits has no effect", 0},
        {"[{module: health}, {module: no_such}]", "item [1] names a module that is not installed",
         1},
        {"[{module: ../modules/chat, requests: 4}]", "names a module that is not installed", 1},
        {"[{module: health}, {module: health}]",
         "item [1] names the same module as an earlier item", 1},
        {"[{module: health, requests: 0}]", "module_limits[0].requests: must be at least 1", 1},
        {"[{module: health, speed: 1}]", "is not a setting", 1},
        {"[{requests: 4}]", "is required", 1},
        {"{health: 4}", "module_limits: ", 1},
        {"[health]", "module_limits", 1},
    };

    const char *conf = harness_path("tools-check.yaml");

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_write(conf, text("module_path: \"%s\"\ndatabase:\n  url: \"host=/nowhere "
                              "dbname=nothing\"\n" KEYS "modules: [health]\nmodule_limits: %s\n",
                              harness_modules(false), cases[i].limits));
        expect(SAYS(cases[i].status, "check", "-c", conf), cases[i].says);
    }
}

static const char *configuration_with(const char *module)
{
    const char *conf = harness_path("tools-check.yaml");

    file_write(conf, text(KEYS "database:\n  url: \"host=/nowhere dbname=nothing\"\n"
                               "module_path: \"%s\"\nmodules: [auth, chat, health, \"%s\"]\n",
                          harness_modules(false), module));
    return conf;
}

TEST_EACH(check_reports_a_module_whose_constructor_crashes_or_exits, 2)
{
    static const struct {
        const char *name, *code, *reason;
    } cases[] = {
        {"hello-crash", "__builtin_trap();", "crashes while it is loaded"},
        {"hello-exit", "exit(0);", "ends the process while it is loaded (exit status 0)"},
    };
    const char *const edits[][2] = {
        {"static const struct bb_sql add",
         text("__attribute__((constructor)) static void early(void)\n{\n    %s\n}\n\n"
              "static const struct bb_sql add",
              cases[_i].code)}};
    const char *file = hello_build_edited(cases[_i].name, edits, 1);
    const char *reason = text("%s: %s", file, cases[_i].reason);

    expect(SAYS(1, "check", "-c", configuration_with(file)), reason);
    expect(SAYS(1, "inspect", file), reason);
    expect(SAYS(1, "modcheck", file), text("%s: has a constructor: early", file));
}

TEST(check_reports_undefined_symbols)
{
    static const char *const edits[][2] = {
        {"static const struct bb_sql add", "void nowhere(void);\n\nstatic const struct bb_sql add"},
        {"int64_t n = ", "nowhere();\n    int64_t n = "}};
    const char *unlinked = hello_build_edited("hello-unlinked", edits, 2);

    expect(SAYS(1, "check", "-c", configuration_with(unlinked)),
           "hello.so: cannot be loaded: undefined symbol: nowhere");
}

/* The linker gives each module its own libraries, whatever other modules have loaded. */
TEST(check_does_not_resolve_symbols_from_libraries_of_another_module)
{
    static const char *const edits[][2] = {
        {"static const struct bb_sql add",
         "int magic_version(void);\n\nstatic const struct bb_sql add"},
        {"int64_t n = ", "int64_t n = !magic_version() ? 0 : "}};
    const char *borrower = hello_build_edited("hello-borrower", edits, 2);
    const char *conf = harness_path("tools-check.yaml");

    file_write(conf, text("module_path: \"%s\"\nmodules: [auth, device, chat, health, \"%s\"]\n",
                          harness_modules(false), borrower));
    const char *said = SAYS(1, "check", "-c", conf);

    expect(said, "cannot be loaded: undefined symbol: magic_version");
    expect_not(said, "device");
}

TEST(inspect_shows_a_module_that_is_not_loaded)
{
    const char *said = SAYS(0, "inspect", hello);

    expect(said, "hello 1.0.0: module ABI 1.");
    expect(said, "  method GET, path /api/hello, roles ");
    expect(said, "  event message.new, kind committed\n");
    json_t *json = json_loads(SAYS(0, "inspect", "--json", TEST_WITNESS), 0, NULL);

    ck_assert_str_eq(json_string_value(json_object_get(json, "abi")), "1.0");
    ck_assert_uint_eq(json_array_size(json_object_get(json, "routes")), 2);
    json_decref(json);
    expect(SAYS(1, "inspect", harness_path("tools.yaml")), "is not an ELF file, and therefore not "
                                                           "a module");
}

/*
 * Removes texts for readers, and members that other tests compare. Names, types, limits and roles
 * remain.
 */
static void remove_texts(json_t *value)
{
    json_t *item;
    void *next;
    size_t i;

    EACH_TEXT (text, "buildId", "example", "help", "metrics", "migrations", "payload", "reply",
               "settings")
        json_object_del(value, text);
    json_array_foreach (value, i, item)
        remove_texts(item);
    for (void *at = json_object_iter(value); at; at = next) {
        next = json_object_iter_next(value, at);
        item = json_object_iter_value(at);
        if (json_array_size(item) > 0 || !json_is_array(item))
            remove_texts(item);
        else
            json_object_del(value, json_object_iter_key(at));
    }
}

/* Adds the value's JSON as a line to the file. */
static void add_line(FILE *file, const char *module, const json_t *value)
{
    fprintf(file, "%s ", module);
    ck_assert_int_eq(json_dumpf(value, file, 0), 0);
    putc('\n', file);
}

/*
 * Clients depend on limits, roles and names. If one of them changes, the list must change, too.
 * After a failure, the directory of the kept run has the new list.
 */
TEST(modules_declare_what_declarations_txt_lists)
{
    const char *made = harness_path("declarations.txt");
    FILE *file = fopen(made, "w");
    glob_t found;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(glob(text("%s/*.so", harness_modules(false)), 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        json_t *module =
                   json_loads(host_says(host, 0, "inspect", "--json", found.gl_pathv[i]), 0, NULL),
               *route;
        const char *name = json_string_value(json_object_get(module, "name"));
        size_t j;

        remove_texts(module);
        json_array_foreach (json_object_get(module, "routes"), j, route)
            add_line(file, name, route);
        json_object_del(module, "routes");
        add_line(file, name, module);
        json_decref(module);
    }
    globfree(&found);
    ck_assert_int_eq(fclose(file), 0);
    ASSERT_SAME_TEXT(file_text(made), file_text(TEST_SOURCES "/host/module/declarations.txt"));
}

TEST(documents_have_the_settings_metrics_and_problems_of_the_tables)
{
    const char *log = harness_path("make-docs.log");
    const char *const argv[] = {TEST_SOURCES "/../scripts/make-docs", "--check",
                                harness_program(false), NULL};
    int status = process_run(&(struct process_spec){.argv = argv, .output = log, .log = log});

    ck_assert_msg(status == 0, "%s", file_text(log));
}

TEST(modcheck_accepts_hello)
{
    ck_assert_str_eq(SAYS(0, "modcheck", hello), text("%s: ok\n", hello));
    expect(SAYS(1, "modcheck", hello, harness_program(false)), "exports no data busbar_module");
}

/* Needs neither a configuration nor the package of the tools. */
TEST(module_without_a_known_command_prints_its_usage)
{
    static const char usage[] = "usage: busbar module new NAME [--lang c|cpp|rust]";

    expect(SAYS(0, "module", "--help"), usage);
    expect(SAYS(0, "module", "help"), usage);
    expect(SAYS(2, "module"), "busbar: a command must follow module\nusage: ");
    expect(SAYS(2, "module", "mistyped"), "busbar: unknown command module mistyped\nusage: ");
}

SUITE(tools, .timeout_s = 60, .before_all = set_up, .after_all = tear_down,
      .before_each = stage_connect, .after_each = stage_disconnect)
