/* Fibers: a frame that is larger than a stack. */
#include <sys/mman.h>
#include <sys/wait.h>

#include "core/lib/fiber.h"
#include "suite.h"

enum { FIBERS = 32, FRAME = 1 << 20, FAULTED = 42, OVERWRITTEN = 43, ALTERNATE = 1 << 16 };

static void park(void *arg)
{
    (void)arg;
    fiber_park();
}

/* Writes a megabyte below its frame first, like a function of a module whose compiler does not
 * probe the stack. */
__attribute__((noinline, no_sanitize_address)) static void write_far(void *arg)
{
    volatile char *here = (volatile char *)__builtin_frame_address(0);

    (void)arg;
    here[-FRAME] = 'x';
}

static void faulted(int number)
{
    (void)number;
    _exit(FAULTED);
}

/* Overflows a stack that lies above many others. */
static _Noreturn void overflow(void)
{
    stack_t alternate = {.ss_sp = malloc(ALTERNATE), .ss_size = ALTERNATE};
    struct sigaction action = {.sa_handler = faulted, .sa_flags = SA_ONSTACK};
    struct fiber *parked[FIBERS], *none;

    if (!alternate.ss_sp || sigaltstack(&alternate, NULL) || sigaction(SIGSEGV, &action, NULL) ||
        sigaction(SIGBUS, &action, NULL))
        _exit(1);
    for (int i = 0; i < FIBERS; i++)
        if (fiber_start(park, NULL, &parked[i]))
            _exit(1);
    if (!fiber_resume(parked[0])) /* the next fiber gets this stack */
        _exit(1);
    fiber_start(write_far, NULL, &none);
    _exit(OVERWRITTEN);
}

TEST(a_stack_frame_larger_than_the_fiber_stack_faults)
{
    int status;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (!child)
        overflow();
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), FAULTED);
}

SUITE(fiber)
