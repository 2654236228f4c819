/* Many writers, one conversation, no message lost: on one host, through a kill -9, on
 * two loops, on two hosts. BUSBAR_TEST_MESSAGES sets the number of messages (10,000 for the
 * published figure). */
#include "scene.h"

#define PATIENT "  deadline: 60000\n"

/* Unacknowledged messages may be stored once if a host is killed. */
static const struct {
    const char *name, *http;
    int hosts;
    bool kill; /* the last host, in the middle */
} scenes[] = {
    {"ledger_writers", PATIENT, 1, false},
    {"ledger_kill", PATIENT, 1, true},
    {"ledger_loops", PATIENT "  loops: 2\n", 1, false},
    {"ledger_hosts", PATIENT, 2, false},
    {"ledger_hosts_kill", PATIENT, 2, true},
};

TEST_EACH(twenty_parallel_writers_lose_no_message_of_a_chain, sizeof scenes / sizeof *scenes)
{
    long messages = scene_messages();
    int hosts = scenes[_i].hosts;
    struct scene *scene = scene_make(
        scenes[_i].name,
        &(struct host_spec){.http = scenes[_i].http, .db = "  statement_timeout: 60000\n"}, hosts,
        messages);

    scene_begin(scene);
    if (scenes[_i].kill) {
        scene_wait(scene, messages / 2);
        host_kill(scene->hosts[hosts - 1]);
        scene_restart(scene, hosts - 1);
    }
    scene_finish(scene);
    struct ledger_report report = scene_expect_ledger(scene);

    ck_assert_uint_ge(report.acknowledged, (size_t)messages);
    ck_assert_int_eq(atomic_load(&scene->load.wrong), 0);
    ck_assert(scenes[_i].kill || atomic_load(&scene->load.refused) == 0);
    scene_end(scene);
}

SUITE(ledger, .timeout_s = SCENE_SECONDS + 60)
