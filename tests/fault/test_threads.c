/* Threads that cannot be created, or whose priority cannot be lowered, at a start and a reload. */
#include "fault/common.h"
#include "fault/group.h"
#include "fault/torture.h"

enum { THREADS_MAX = 12 };

#define ALL_MODULES "[auth, chat, health, webhook]"

TEST(a_failed_thread_creation_ends_the_start_or_is_tolerated)
{
    struct rack rack = rack_make("threads");
    struct host *host = host_prepare(&(struct host_spec){.name = "threads",
                                                         .http = "  loops: 3\n",
                                                         .modules = ALL_MODULES,
                                                         .plain = true,
                                                         .environment = rack.environment});
    int borne = 0;

    for (int n = 1; n <= THREADS_MAX; n++)
        borne += rack_start(host, &rack.numbers->threads, n);
    fprintf(stderr, "fault_threads: %ld failures, of which the host survived %d\n",
            atomic_load(&rack.numbers->failed), borne);
    ck_assert_int_gt(atomic_load(&rack.numbers->failed), 4);
    ck_assert(host_run(host));
    status_soon(host, "/api/auth/me", NULL, 401);
}

/* The pool that hashes passwords runs at a lower priority if the system permits it. */
TEST(a_thread_that_cannot_lower_its_priority_warns_and_works)
{
    struct rack rack = rack_make("priority");

    atomic_store(&rack.numbers->priorities, 1);
    struct host *host = host_start(
        &(struct host_spec){.name = "priority", .plain = true, .environment = rack.environment});

    host_logs(host, 0, "cannot set the scheduling of a thread");
    ck_assert_int_eq(atomic_load(&rack.numbers->priorities), 0);
    ck_status(http(host, "POST", "/api/auth/login", NULL,
                   json_pack("{ss ss}", "username", ADMIN_EMAIL, "password", ADMIN_PASSWORD)),
              200);
}

/* Loops and pools of the live generation continue; a new generation gets none. */
TEST(a_reload_that_cannot_create_threads_is_refused_without_harm)
{
    struct group *group = group_make("pids");

    if (!group)
        return;
    struct scene *scene =
        fault_scene("fault_reload", &(struct host_spec){.plain = true, .wrapper = group->wrapper});

    load_begin(scene);
    group_limit(group, 1);
    ck_assert_ptr_nonnull(strstr(host_says(scene->hosts[0], 1, "reload"), "refused"));
    scene_more(scene, 100);
    ck_status(http(scene->hosts[0], "POST", "/api/auth/login", NULL,
                   json_pack("{ss ss}", "username", ADMIN_EMAIL, "password", ADMIN_PASSWORD)),
              200);
    group_limit(group, -1);
    host_says(scene->hosts[0], 0, "reload");
    scene_more(scene, 100);
    fault_over(scene);
    ck_assert_int_eq(atomic_load(&scene->load.refused), 0);
    group_end(group);
}

FAULT_SUITE(threads)
