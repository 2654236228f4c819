/* The child processes of the tests: a child that hangs looks like a host that hangs. */
#include "harness.h"

TEST(a_child_has_the_given_environment)
{
    const char *const argv[] = {"sh", "-c", "echo \"$PATH:$HOME:$MORE\"", NULL};
    const char *const environment[] = {"HOME=/nowhere", "MORE=1", NULL};
    const char *log = harness_path("environment.out");

    ck_assert_int_eq(
        process_run(&(struct process_spec){.argv = argv, .environment = environment, .log = log}),
        0);
    ck_assert_str_eq(file_text(log), text("%s:/nowhere:1\n", getenv("PATH")));
}

TEST(a_missing_program_is_reported)
{
    const char *const argv[] = {"/nonexistent/program", NULL};
    const char *log = harness_path("missing.out");

    ck_assert_int_eq(process_run(&(struct process_spec){.argv = argv, .log = log}), 127);
    ck_assert_str_eq(file_text(log), "/nonexistent/program cannot be executed\n");
}

SUITE(processes)
