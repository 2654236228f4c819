/* The child processes that tests start. Here, because this program has AddressSanitizer. */
#include <unistd.h>

#include "suite.h"
#include "support/process.h"

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
    struct process_spec spec = {
        .argv = argv, .environment = many_pairs(), .log = "/dev/null", .as_service = _i == 1};
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

SUITE(children)
