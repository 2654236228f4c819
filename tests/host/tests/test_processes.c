/* The child processes of the tests: a child that hangs looks like a host that hangs. */
#include "harness.h"

enum { ALLOCATED = 98, SOON_MS = 20000 };

/* A function of AddressSanitizer; NULL in other builds. Both callbacks are called for each block,
 * until an exec. */
__attribute__((weak)) int watch_allocator(
    void (*taken)(const volatile void *, size_t),
    void (*given)(const volatile void *)) __asm__("__sanitizer_install_malloc_and_free_hooks");

static pid_t parent;

static void taken(const volatile void *block, size_t size)
{
    (void)block;
    (void)size;
    if (getpid() != parent)
        _exit(ALLOCATED);
}

static void given(const volatile void *block)
{
    if (block && getpid() != parent)
        _exit(ALLOCATED);
}

static const char **many_pairs(void)
{
    const char **pairs = kept(calloc(PROCESS_ENV_MAX, sizeof *pairs));

    for (int i = 0; i + 1 < PROCESS_ENV_MAX; i++)
        pairs[i] = text("BUSBAR_TEST_%d=1", i);
    return pairs;
}

/*
 * Another thread may hold the allocator's lock when the child is made, and no thread of the child
 * releases it, so a child that allocates may wait forever.
 */
TEST_EACH(a_forked_child_does_not_allocate, 2)
{
    const char *const argv[] = {"true", NULL};
    struct process_spec spec = {.argv = argv,
                                .environment = many_pairs(),
                                .log = harness_path("child.out"),
                                .as_service = _i == 1};
    int status = 0;

    if (!watch_allocator) {
        test_skipped("a build without AddressSanitizer cannot detect who allocates");
        return;
    }
    parent = getpid();
    ck_assert_int_ne(watch_allocator(taken, given), 0);
    ck_assert(process_wait(process_start(&spec), SOON_MS, &status));
    ck_assert_int_eq(status, 0);
}

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
