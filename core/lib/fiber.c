#include "core/lib/fiber.h"

#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#if BUSBAR_ASAN
#include <sanitizer/common_interface_defs.h>
enum { FIBER_STACK = 512 * 1024 }; /* redzones make stack frames several times larger */
#else
enum { FIBER_STACK = 64 * 1024 };
#endif
#if BUSBAR_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/*
 * The guard: addresses below each stack that are not accessible, so that a stack overflow faults.
 * Code without -fstack-clash-protection can jump over the guard with a larger stack frame.
 */
enum { GUARD = 1024 * 1024, FIBER_MAP = GUARD + FIBER_STACK };

enum { FIBER_KEPT = 256 }; /* maximum number of unused stacks of a thread */

/* Boost.Context's C functions (libboost-context has no C header). */
struct transfer {
    void *context;
    void *data;
};
extern struct transfer jump_fcontext(void *to, void *data);
extern void *make_fcontext(void *top, size_t size, void (*entry)(struct transfer));

struct fiber {
    struct fiber *next; /* in the list of unused fibers */
    void *map;          /* the guard, followed by the stack; this struct is at the stack's top */
    void *context;
    void (*entry)(void *);
    void *arg;
    bool ended;
#if BUSBAR_ASAN
    void *fake_stack;
    const void *loop_bottom;
    size_t loop_size;
#endif
#if BUSBAR_TSAN
    void *tsan;
    void *tsan_loop;
#endif
};

static _Thread_local struct fiber *running, *idle;
static _Thread_local unsigned idle_count;
static _Thread_local void *loop_context;

static void stack_free(struct fiber *fiber)
{
#if BUSBAR_TSAN
    __tsan_destroy_fiber(fiber->tsan);
#endif
    munmap(fiber->map, FIBER_MAP);
}

void fiber_thread_end(void)
{
    while (idle) {
        struct fiber *fiber = idle;

        idle = fiber->next;
        stack_free(fiber);
    }
    idle_count = 0;
}

static struct fiber *stack_new(void)
{
    char *map = mmap(NULL, FIBER_MAP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    if (map == MAP_FAILED)
        return NULL;
    if (mprotect(map + GUARD, FIBER_STACK, PROT_READ | PROT_WRITE)) {
        munmap(map, FIBER_MAP);
        return NULL;
    }
    struct fiber *fiber = (struct fiber *)(void *)(map + FIBER_MAP - sizeof(struct fiber));
    *fiber = (struct fiber){.map = map};
#if BUSBAR_TSAN
    fiber->tsan = __tsan_create_fiber(0);
#endif
    return fiber;
}

static void fiber_give(struct fiber *fiber)
{
    if (idle_count >= FIBER_KEPT) {
        stack_free(fiber);
        return;
    }
    fiber->next = idle;
    idle = fiber;
    idle_count++;
}

/* Switches from the fiber to the loop. */
static void fiber_leave(struct fiber *fiber)
{
    (void)fiber; /* only sanitizers use it */
#if BUSBAR_ASAN
    __sanitizer_start_switch_fiber(fiber->ended ? NULL : &fiber->fake_stack, fiber->loop_bottom,
                                   fiber->loop_size);
#endif
#if BUSBAR_TSAN
    __tsan_switch_to_fiber(fiber->tsan_loop, 0);
#endif
    struct transfer back = jump_fcontext(loop_context, NULL);
#if BUSBAR_ASAN
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &fiber->loop_bottom, &fiber->loop_size);
#endif
    loop_context = back.context;
}

static void fiber_main(struct transfer from)
{
    struct fiber *fiber = from.data;

    loop_context = from.context;
#if BUSBAR_ASAN
    __sanitizer_finish_switch_fiber(NULL, &fiber->loop_bottom, &fiber->loop_size);
#endif
    fiber->entry(fiber->arg);
    fiber_exit();
}

/* Switches from the loop to the fiber, until it parks or ends. */
static void fiber_enter(struct fiber *fiber)
{
    running = fiber;
#if BUSBAR_ASAN
    void *fake_stack = NULL;
    __sanitizer_start_switch_fiber(&fake_stack, (char *)fiber->map + GUARD, FIBER_STACK);
#endif
#if BUSBAR_TSAN
    fiber->tsan_loop = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->tsan, 0);
#endif
    struct transfer back = jump_fcontext(fiber->context, fiber);
#if BUSBAR_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
#endif
    fiber->context = back.context;
    running = NULL;
}

int fiber_start(void (*entry)(void *), void *arg, struct fiber **parked)
{
    struct fiber *fiber = idle;

    *parked = NULL;
    if (fiber) {
        idle = fiber->next;
        idle_count--;
    } else if (!(fiber = stack_new())) {
        return -1;
    }
    fiber->entry = entry;
    fiber->arg = arg;
    fiber->ended = false;
    uintptr_t top = (uintptr_t)fiber & ~(uintptr_t)63;
    fiber->context = make_fcontext((void *)top, FIBER_STACK - 1024, fiber_main); // NOLINT
    fiber_enter(fiber);
    if (fiber->ended)
        fiber_give(fiber);
    else
        *parked = fiber;
    return 0;
}

bool fiber_resume(struct fiber *fiber)
{
    fiber_enter(fiber);
    if (!fiber->ended)
        return false;
    fiber_give(fiber);
    return true;
}

void fiber_park(void)
{
    fiber_leave(running);
}

void fiber_exit(void)
{
    running->ended = true;
    fiber_leave(running);
    abort();
}

bool fiber_guards(const void *address)
{
    const char *at = address, *bottom = running ? running->map : NULL;

    return bottom && at >= bottom && at < bottom + GUARD;
}
