/* The children of the tests themselves: one that hangs looks like a host that hangs. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "suites.h"

enum { THREADS = 3, CHILDREN = 100, SOON_MS = 20000 };
enum { BLOCKS = 4096, LEAST = 128, STEP = 16, SIZES = 64 }; /* bytes */

static atomic_bool over;

/* More at once than an allocator keeps for a thread, so that it takes what all threads share. */
static void *allocate(void *arg)
{
    void *blocks[BLOCKS];

    while (!atomic_load(&over)) {
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[i] = malloc(LEAST + i % SIZES * STEP);
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
    return arg;
}

static const char **many_pairs(void)
{
    const char **pairs = kept(calloc(PROCESS_ENV_MAX, sizeof *pairs));

    for (int i = 0; i + 1 < PROCESS_ENV_MAX; i++)
        pairs[i] = text("BUSBAR_TEST_%d=1", i);
    return pairs;
}

/* A child that allocates waits for ever where another thread held the allocator's lock. */
START_TEST(a_child_starts_while_threads_allocate)
{
    const char *const argv[] = {"true", NULL};
    struct process_spec spec = {
        .argv = argv, .environment = many_pairs(), .log = harness_path("child.out")};
    pthread_t threads[THREADS];
    int status = 0;

    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate, NULL), 0);
    for (int i = 0; i < CHILDREN && !status; i++)
        if (!process_wait(process_start(&spec), SOON_MS, &status))
            status = -1;
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(status, 0);
}

START_TEST(a_child_has_the_environment_that_is_named)
{
    const char *const argv[] = {"sh", "-c", "echo \"$PATH:$HOME:$MORE\"", NULL};
    const char *const environment[] = {"HOME=/nowhere", "MORE=1", NULL};
    const char *log = harness_path("environment.out");

    ck_assert_int_eq(
        process_run(&(struct process_spec){.argv = argv, .environment = environment, .log = log}),
        0);
    ck_assert_str_eq(file_text(log), text("%s:/nowhere:1\n", getenv("PATH")));
}

START_TEST(a_program_that_is_missing_is_told)
{
    const char *const argv[] = {"/nonexistent/program", NULL};
    const char *log = harness_path("missing.out");

    ck_assert_int_eq(process_run(&(struct process_spec){.argv = argv, .log = log}), 127);
    ck_assert_str_eq(file_text(log), "/nonexistent/program cannot be executed\n");
}

Suite *processes_suite(void)
{
    Suite *suite = suite_create("processes");
    TCase *tests = tcase_create("processes");

    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_child_starts_while_threads_allocate);
    tcase_add_test(tests, a_child_has_the_environment_that_is_named);
    tcase_add_test(tests, a_program_that_is_missing_is_told);
    suite_add_tcase(suite, tests);
    return suite;
}
