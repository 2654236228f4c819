/* Generations that are added to the engine while the host is stopping. */
#include <poll.h>

#include "core/lib/text.h"
#include "core/module/engine.h"
#include "core/module/pool.h"
#include "suite.h"

static void work(struct bb_worker_context *context)
{
    struct pollfd woken = {.fd = context->wake_fd, .events = POLLIN};

    while (!api_stopping(context))
        poll(&woken, 1, -1);
}

static const struct bb_worker rows[] = {{.name = "work", .run = work}};
static const struct bb_module descriptor = {.name = "alive", .workers = BB_TABLE(rows)};

/* This is the case if a stop begins during a reload. */
TEST(a_stop_also_reaches_the_workers_of_a_later_generation)
{
    struct engine engine = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct core_module module = {.descriptor = &descriptor};
    struct generation generation = {.module_count = 1, .modules = &module};

    module.handle.host.module = &descriptor;
    module.handle.generation = &generation;
    atomic_store(&generation.holders, 1);
    generation.workers = workers_new(&generation);
    ck_assert_ptr_nonnull(generation.workers);
    engine_stop(&engine, clock_mono_ms());
    engine_add(&engine, &generation);
    workers_go(generation.workers);
    while (workers_running(generation.workers)) /* ends at the time limit of the suite otherwise */
        poll(NULL, 0, 1);
    workers_free(generation.workers);
    ck_assert_uint_eq(atomic_load(&generation.holders), 1);
}

SUITE(engine_alive)
