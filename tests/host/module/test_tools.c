/*
 * Third-party modules and the tools for them: the example hello, built from the installed package
 * alone; a module built against the first frozen headers (tests/witness); check, inspect and
 * modcheck; notifications to a service manager.
 */
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "hello.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static struct host *host;
static struct person *admin, *platform;
static const char *database, *hello, *notices;
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

static bool is_noticed(void *arg)
{
    char notice[128];
    ssize_t length = recv(manager, notice, sizeof notice - 1, 0);

    notice[length > 0 ? length : 0] = '\0';
    return !strcmp(notice, arg);
}

static bool is_reloading(void *arg)
{
    char notice[128];
    ssize_t length = recv(manager, notice, sizeof notice - 1, 0);

    (void)arg;
    notice[length > 0 ? length : 0] = '\0';
    return !strncmp(notice, "RELOADING=1\nMONOTONIC_USEC=", 27);
}

static bool schemas_are_there(void *arg)
{
    return sql_text(arg,
                    "SELECT to_regclass('hello_count')::text || to_regclass('witness_row')::text",
                    0, NULL) != NULL;
}

static void set_up(void)
{
    static const char *environment[2];

    hello = hello_build("hello");
    listen_for_notices();
    environment[0] = text("NOTIFY_SOCKET=%s", notices);
    database = database_make(the_postgres, "tools");
    host = host_start(&(struct host_spec){
        .name = "tools",
        .database = database,
        .modules = text("[auth, chat, health, \"%s\", \"" TEST_WITNESS "\"]", hello),
        .more = "hello:\n  greeting: ahoy\nwitness:\n  limit: 2\n",
        .environment = environment});
    ck_assert(wait_until(is_noticed, "READY=1", 5000));
    PGconn *db = database_connect(the_postgres, database);

    ck_assert(wait_until(schemas_are_there, db, 10000));
    PQfinish(db);
    admin = admin_of(host);
    platform = person_make(host, admin, "tools.platform", NULL);
}

static void tear_down(void)
{
    host_stop(host);
    ck_assert(wait_until(is_noticed, "STOPPING=1", 5000));
    close(manager);
}

static bool hello_counts_two(void *arg)
{
    (void)arg;
    return answer_int(http(host, "GET", "/api/hello", platform->token, NULL), "messages") == 2;
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
    ck_assert(wait_until(hello_counts_two, NULL, 5000));
}

static struct answer *witness_post(const char *entry, long status)
{
    return ck_status(
        http(host, "POST", "/witness", platform->token, json_pack("{ss}", "text", entry)), status);
}

TEST(a_module_of_the_first_headers_serves)
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

static bool three_were_heard(void *arg)
{
    return sql_number(arg, "SELECT count(*) FROM witness_heard") >= 3;
}

TEST(its_hooks_and_its_command_run)
{
    PGconn *db = database_connect(the_postgres, database);
    const char *const words[] = {"witness", "count", NULL};

    ck_assert(wait_until(three_were_heard, db, 5000));
    PQfinish(db);
    ck_assert_int_eq(host_command(host, NULL, words), 0);
    ck_assert_ptr_nonnull(strstr(file_text(host->log), "witness: 3 rows\n"));
}

/* Waits until the host has received the signal. `busbar reload` returns when the reload is over. */
TEST(a_reload_is_told_to_the_service_manager)
{
    const char *const words[] = {"reload", NULL};

    ck_assert_int_eq(host_command(host, host->environment, words), 0);
    ck_assert(wait_until(is_reloading, NULL, 5000));
    ck_assert(wait_until(is_noticed, "READY=1", 5000));
}

/* Returns the output of a command; *status is its exit status. */
static const char *output_of(const char *const *words, int *status)
{
    const char *argv[8] = {harness_program(false)};
    const char *log = harness_path(text("tool-%s-%jd.log", words[0], (intmax_t)now_ms()));

    for (int i = 0; words[i]; i++)
        argv[i + 1] = words[i];
    *status = process_run(&(struct process_spec){.argv = argv, .log = log});
    return file_text(log);
}

#define KEYS                                                                                       \
    "secrets:\n"                                                                                   \
    "  keys: [\"0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0\"]\n"

TEST(check_judges_without_a_server)
{
    const char *conf = harness_path("tools-check.yaml");
    const char *const words[] = {"check", "-c", conf, NULL};
    int status;

    file_write(conf, text("module_path: \"%s\"\n"
                          "database:\n  url: \"host=/nowhere dbname=nothing\"\n"
                          "redis:\n  url: \"unix:/nowhere\"\n" KEYS
                          "modules: [auth, chat, health, \"%s\"]\nhello:\n  greeting: hi\n",
                          harness_modules(false), hello));
    ck_assert_ptr_nonnull(strstr(output_of(words, &status), "4 modules"));
    ck_assert_int_eq(status, 0);
    file_write(conf, text("module_path: \"%s\"\nmodules: [chat, \"%s\"]\nhello:\n  greting: hi\n",
                          harness_modules(false), hello));
    const char *said = output_of(words, &status);

    ck_assert_int_eq(status, 1);
    ck_assert_ptr_nonnull(strstr(said, ":4: hello.greting: is not a setting"));
    ck_assert_ptr_nonnull(strstr(said, "module chat needs the service \"accounts\""));
}

/* Only the variable is wrong; an implementation could easily blame the modules' sections. */
TEST(a_module_path_that_is_not_set_blames_no_section)
{
    const char *conf = harness_path("tools-check.yaml");
    const char *const words[] = {"check", "-c", conf, NULL};
    int status;

    file_write(conf, "module_path: \"${BUSBAR_TEST_NOT_SET}\"\n" KEYS
                     "modules: [auth, chat]\nchat: {}\nwebhook: {}\n");
    const char *said = output_of(words, &status);

    ck_assert_int_eq(status, 1);
    ck_assert_msg(strstr(said, "BUSBAR_TEST_NOT_SET") != NULL, "%s", said);
    ck_assert_msg(!strstr(said, "unknown section"), "%s", said);
}

TEST(sections_of_modules_that_are_not_loaded_are_one_line_and_only_of_check)
{
    const char *conf = harness_path("tools-check.yaml");
    const char *const check[] = {"check", "-c", conf, NULL};
    const char *const migrate[] = {"migrate", "-c", conf, NULL};
    int status;

    file_write(conf, text("module_path: \"%s\"\n"
                          "database:\n  url: \"host=/nowhere dbname=nothing\"\n" KEYS
                          "modules: [health]\nchat: {}\nwebhook: {}\n",
                          harness_modules(false)));
    const char *said = output_of(check, &status);
    const char *line = strstr(said, "without effect");

    ck_assert_int_eq(status, 0);
    ck_assert_msg(line && strstr(line, "chat (line 7), webhook (line 8)"), "%s", said);
    ck_assert_msg(!strstr(line + 1, "without effect"), "%s", said);
    said = output_of(migrate, &status);
    ck_assert_int_eq(status, 1);
    ck_assert_msg(!strstr(said, "without effect"), "%s", said);
}

static const char *configuration_with(const char *module)
{
    const char *conf = harness_path("tools-check.yaml");

    file_write(conf, text(KEYS "database:\n  url: \"host=/nowhere dbname=nothing\"\n"
                               "module_path: \"%s\"\nmodules: [auth, chat, health, \"%s\"]\n",
                          harness_modules(false), module));
    return conf;
}

static void assert_named(const char *const *words, const char *file, const char *reason)
{
    int status;
    const char *said = output_of(words, &status);
    const char *at = strstr(said, text("%s: %s", file, reason));

    ck_assert_msg(status == 1 && at, "%d: %s", status, said);
}

TEST_EACH(a_constructor_that_crashes_or_exits_is_an_error_that_names_the_file, 2)
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
    const char *const check[] = {"check", "-c", configuration_with(file), NULL};
    const char *const inspect[] = {"inspect", file, NULL};
    const char *const modcheck[] = {"modcheck", file, NULL};

    assert_named(check, file, cases[_i].reason);
    assert_named(inspect, file, cases[_i].reason);
    assert_named(modcheck, file, "has a constructor: early");
}

TEST(check_tells_what_the_linker_would_not_find)
{
    static const char *const edits[][2] = {
        {"static const struct bb_sql add", "void nowhere(void);\n\nstatic const struct bb_sql add"},
        {"int64_t n = ", "nowhere();\n    int64_t n = "}};
    const char *unlinked = hello_build_edited("hello-unlinked", edits, 2);
    const char *const check[] = {"check", "-c", configuration_with(unlinked), NULL};
    int status;
    const char *said = output_of(check, &status);

    ck_assert_int_eq(status, 1);
    ck_assert_msg(strstr(said, "hello.so: cannot be loaded: undefined symbol: nowhere"), "%s",
                  said);
}

/* The linker gives each module its own libraries, whatever other modules in the list have
 * loaded. */
TEST(check_takes_no_symbol_from_the_libraries_of_another_module)
{
    static const char *const edits[][2] = {
        {"static const struct bb_sql add",
         "int magic_version(void);\n\nstatic const struct bb_sql add"},
        {"int64_t n = ", "int64_t n = !magic_version() ? 0 : "}};
    const char *borrower = hello_build_edited("hello-borrower", edits, 2);
    const char *conf = harness_path("tools-check.yaml");
    const char *const check[] = {"check", "-c", conf, NULL};
    int status;

    file_write(conf, text("module_path: \"%s\"\nmodules: [auth, device, chat, health, \"%s\"]\n",
                          harness_modules(false), borrower));
    const char *said = output_of(check, &status);

    ck_assert_int_eq(status, 1);
    ck_assert_msg(strstr(said, "cannot be loaded: undefined symbol: magic_version"), "%s", said);
    ck_assert_msg(!strstr(said, "device"), "%s", said);
}

TEST(inspect_shows_a_module_that_is_not_loaded)
{
    const char *const words[] = {"inspect", hello, NULL};
    const char *const as_json[] = {"inspect", "--json", TEST_WITNESS, NULL};
    const char *const nothing[] = {"inspect", harness_path("tools.yaml"), NULL};
    int status;
    const char *said = output_of(words, &status);

    ck_assert_int_eq(status, 0);
    ck_assert_ptr_nonnull(strstr(said, "hello 1.0.0: module ABI 1."));
    ck_assert_ptr_nonnull(strstr(said, "  method GET, path /api/hello, roles "));
    ck_assert_ptr_nonnull(strstr(said, "  event message.new, kind committed\n"));
    json_t *json = json_loads(output_of(as_json, &status), 0, NULL);

    ck_assert_int_eq(status, 0);
    ck_assert_str_eq(json_string_value(json_object_get(json, "abi")), "1.0");
    ck_assert_uint_eq(json_array_size(json_object_get(json, "routes")), 2);
    json_decref(json);
    ck_assert_ptr_nonnull(
        strstr(output_of(nothing, &status), "is not an ELF file, so not a module"));
    ck_assert_int_eq(status, 1);
}

TEST(modcheck_passes_hello)
{
    const char *const words[] = {"modcheck", hello, NULL};
    const char *const bad[] = {"modcheck", hello, harness_program(false), NULL};
    int status;

    ck_assert_str_eq(output_of(words, &status), text("%s: ok\n", hello));
    ck_assert_int_eq(status, 0);
    ck_assert_ptr_nonnull(strstr(output_of(bad, &status), "exports no data busbar_module"));
    ck_assert_int_eq(status, 1);
}

SUITE(tools, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
