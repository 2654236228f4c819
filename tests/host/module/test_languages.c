/*
 * Modules in C++ and in Rust (examples/modules/visits-cpp, visits-rust) in a host: settings,
 * statements and responses, reloads, and exceptions.
 */
#include "client.h"
#include "hello.h"
#include "stage.h"

#define GREETINGS(greeting)                                                                        \
    "visits_cpp:\n  greeting: \"" greeting "\"\n  step: 2\n"                                       \
    "visits_rust:\n  greeting: \"" greeting "\"\n  step: 2\n"

static const char *const paths[] = {"/api/visits-cpp", "/api/visits-rust"};
static struct host_spec spec;
static const char *token;

static void set_up(void)
{
    const char *rustc = access("/usr/bin/rustc", X_OK) ? "RUSTC=rustc" : "RUSTC=/usr/bin/rustc";

    spec = (struct host_spec){.name = "languages",
                              .database = database_make(the_postgres, "languages"),
                              .modules = text("[auth, chat, health, \"%s\", \"%s\"]",
                                              example_build("visits-cpp", "visits_cpp", "CXX=g++"),
                                              example_build("visits-rust", "visits_rust", rustc)),
                              .more = GREETINGS("Hi, {name}.")};
    host = host_start(&spec);
    database_soon(the_postgres, spec.database,
                  "SELECT count(to_regclass('visits_cpp')) * count(to_regclass('visits_rust'))");
    token = admin_of(host)->token;
}

static struct answer *visit(const char *path, const char *name)
{
    return http(host, "POST", path, token, json_pack("{s:s}", "name", name));
}

static void reload(const char *more, int expected, const char *says)
{
    spec.more = more;
    file_write(host->conf, host_configuration(&spec));
    ck_prints(host, expected, says, "reload");
}

TEST(modules_in_cpp_and_rust_serve_requests)
{
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        for (int n = 2; n <= 6; n += 2) {
            struct answer *answer = ck_status(visit(paths[i], "Zo\u00eb"), 200);

            ck_assert_str_eq(answer_text(answer, "text"), "Hi, Zo\u00eb.");
            ck_assert_int_eq(answer_int(answer, "visits"), n);
        }
        ck_error(visit(paths[i], " "), 400, "");
        ck_status(http(host, "POST", paths[i], NULL, json_object()), 401);
    }
}

TEST(modules_in_cpp_and_rust_check_their_settings)
{
    reload("visits_cpp:\n  step: 11\n", 1, "visits_cpp.step");
    reload("visits_rust:\n  step: two\n", 1, "visits_rust.step");
}

/* Repeats the test in several generations, which share the module's code. */
TEST(exceptions_and_panics_of_modules_become_500)
{
    for (int turn = 0; turn < 2; turn++) {
        reload(GREETINGS("no place"), 0, "is live");
        for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
            for (int n = 0; n < 8; n++)
                ck_error(visit(paths[i], "Ada"), 500, "");
        reload(GREETINGS("Again, {name}."), 0, "is live");
        for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
            ck_assert_str_eq(answer_text(ck_status(visit(paths[i], "Ada"), 200), "text"),
                             "Again, Ada.");
    }
    host_logs(host, 0, "a handler threw: basic_string::replace");
    host_logs(host, 0, "a handler panicked");
}

STAGE_SUITE(languages, set_up, 60)
