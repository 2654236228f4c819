/*
 * Killed hosts and workers: every stored delivery is sent. The ledger compares the webhook-ids in
 * the table with the ones that a real receiver counted. The suites webhook_takeover, webhook_expand
 * and webhook_model have several hosts.
 */
#include <poll.h>

#include "fault/common.h"
#include "fault/delivered.h"
#include "fault/gaps.h"

enum {
    MESSAGES = 1000,
    KILLS = 20,
    CALM_MS = 1100, /* a worker that ran this long is restarted at once */
    PAUSE_MS = 20
};

static const struct host_spec both = {.modules = WEBHOOK_MODULES, .more = WEBHOOK_LOCAL};

TEST(a_host_killed_20_times_under_load_loses_no_delivery)
{
    struct scene *scene = scene_make("hook_kill", &both, 1, MESSAGES);
    struct receiver *receiver = receiver_start("kill");

    webhook_make(scene->hosts[0], scene->admin, receiver_url(receiver, "/slow/kill"),
                 "message.new");
    unsigned seed = (unsigned)now_ms();

    fprintf(stderr, "hook_kill: seed %u\n", seed);
    srandom(seed);
    scene_begin(scene);
    for (int i = 0; i < KILLS; i++) {
        scene_wait(scene, i * MESSAGES / KILLS + random() % (MESSAGES / KILLS));
        host_kill(scene->hosts[0]);
        scene_restart(scene, 0);
    }
    scene_finish(scene);
    delivered_all(scene, receiver, "/slow/kill", KILLS);
    scene_expect_ledger(scene);
    scene_end(scene);
}

/* Both hosts find an empty database, and one of them migrates it. */
TEST(two_hosts_that_start_together_migrate_once)
{
    struct host_spec spec = both;
    struct host *hosts[2];

    postgres_run(the_postgres, "CREATE DATABASE fault_migrate");
    for (int i = 0; i < 2; i++) {
        spec.name = text("fault_migrate-%d", i);
        spec.database = "fault_migrate";
        hosts[i] = host_start(&spec);
    }
    database_soon(the_postgres, "fault_migrate",
                  "SELECT (to_regclass('webhook_host') IS NOT NULL)::int");
    webhook_ready("fault_migrate", 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(host_logged(hosts[i], "level=error"), 0);
        host_stop(hosts[i]);
    }
}

/* Clients that keep connecting are never refused, because the supervisor holds the listener. */
TEST(a_repeatedly_killed_worker_loses_no_delivery_and_refuses_no_client)
{
    struct host_spec spec = both;

    spec.supervised = spec.plain = true;
    struct scene *scene = scene_make("worker_kill", &spec, 1, SCENE_ENDLESS);
    struct receiver *receiver = receiver_start("worker");
    int kills = fault_kills();

    scene->load.writers = 4;
    scene->load.seconds = fault_seconds();
    scene->load.pause_ms = PAUSE_MS;
    scene->load.fresh = true; /* libcurl's retry would reach the next worker and post twice */
    webhook_make(scene->hosts[0], scene->admin, receiver_url(receiver, "/worker"), "message.new");
    struct gaps *gaps = gaps_begin(scene->hosts[0]);

    scene_begin(scene);
    for (int i = 0; i < kills; i++) {
        scene_recovery(scene);
        poll(NULL, 0, CALM_MS + (int)(random() % 200));
        scene_rush(scene);
        worker_kill(scene->hosts[0]);
        scene_calm(scene, PAUSE_MS);
    }
    scene_recovery(scene);
    scene_stop(scene);
    fprintf(stderr, "worker_kill: %d kills of a worker\n", kills);
    gaps_end(gaps, "worker_kill");
    delivered_all(scene, receiver, "/worker", (size_t)kills);
    scene_expect_ledger(scene);
    ck_assert_int_gt(atomic_load(&scene->load.cut), 0);
    scene_end(scene);
}

FAULT_SUITE(deliveries)
