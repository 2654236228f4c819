/* Acceptance: many writers, one conversation, no message lost: on one host, through a kill -9, on
 * two loops, on two hosts. BUSBAR_TEST_MESSAGES sets the number of messages (10,000 for the
 * published figure). */
#include "scene.h"
#include "suite.h"
#include "suites.h"

TEST(twenty_writers_make_one_chain)
{
    struct scene *scene = scene_make("ledger_writers", NULL, 1, scene_messages());

    scene_begin(scene);
    scene_finish(scene);
    struct ledger_report report = scene_expect_ledger(scene);

    ck_assert_int_eq(atomic_load(&scene->load.refused), 0);
    ck_assert_uint_ge(report.acknowledged, (size_t)scene_messages());
    scene_end(scene);
}

/* F14: unacknowledged messages may be stored once; the host is back within 2 s. */
TEST(a_kill_of_the_host_loses_nothing)
{
    long messages = scene_messages();
    struct scene *scene = scene_make("ledger_kill", NULL, 1, messages);

    scene_begin(scene);
    scene_wait(scene, messages / 2);
    host_kill(scene->hosts[0]);
    scene_restart(scene, 0);
    scene_recovery(scene);
    scene_finish(scene);
    scene_expect_ledger(scene);
    ck_assert_int_eq(atomic_load(&scene->load.wrong), 0);
    scene_end(scene);
}

TEST(two_loops_of_a_host_make_one_chain)
{
    struct scene *scene = scene_make("ledger_loops", &(struct host_spec){.http = "  loops: 2\n"}, 1,
                                     scene_messages());

    scene_begin(scene);
    scene_finish(scene);
    scene_expect_ledger(scene);
    ck_assert_int_eq(atomic_load(&scene->load.refused), 0);
    scene_end(scene);
}

/* F32 */
TEST(two_hosts_make_one_chain)
{
    struct scene *scene = scene_make("ledger_hosts", NULL, 2, scene_messages());

    scene_begin(scene);
    scene_finish(scene);
    scene_expect_ledger(scene);
    ck_assert_int_eq(atomic_load(&scene->load.refused), 0);
    scene_end(scene);
}

TEST(a_kill_of_one_of_two_hosts_loses_nothing)
{
    long messages = scene_messages();
    struct scene *scene = scene_make("ledger_hosts_kill", NULL, 2, messages);

    scene_begin(scene);
    scene_wait(scene, messages / 2);
    host_kill(scene->hosts[1]);
    scene_restart(scene, 1);
    scene_finish(scene);
    scene_expect_ledger(scene);
    ck_assert_int_eq(atomic_load(&scene->load.wrong), 0);
    scene_end(scene);
}

SUITE(ledger, .timeout_s = SCENE_SECONDS + 60)
