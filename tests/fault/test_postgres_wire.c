/* Faults in the network to PostgreSQL: a connection cut in the response to a COMMIT,
 * slow and half-closed connections, dropped packets, and a name that does not resolve. The suite
 * failover has a list of servers. */
#include <sched.h>

#include "fault/common.h"
#include "fault/proxy.h"
#include "fault/torture.h"

enum {
    CUTS = 20,
    CUT_STEP = 7,
    SLOW_MS = 20,
    DROP_MS = 15000,
    SILENT_MS = 10000,
    SILENT_CUTS = 5,
    SLOW_ANSWER_MS = 1000
};

/* Makes a separate server, and a proxy in front of it for the hosts to use. */
static struct postgres *behind_proxy(const char *name, struct proxy **proxy)
{
    struct postgres *pg = postgres_make(name, true);

    *proxy = proxy_start(NULL, postgres_socket(pg));
    return postgres_at(pg, text("127.0.0.1 port=%d", proxy_port(*proxy)));
}

/* A message that was committed but not acknowledged is there at most once. */
TEST(a_commit_whose_response_is_cut_is_neither_lost_nor_repeated)
{
    struct proxy *proxy;
    struct postgres *pg = behind_proxy("pg-cut", &proxy);
    struct scene *scene = scene_on(pg, "fault_cut");

    scene_begin(scene);
    scene_rush(scene);
    for (int i = 0; i < CUTS; i++) {
        scene_more(scene, 20);
        proxy_set(proxy, PROXY_CUT, i * CUT_STEP);
        WAIT_UNTIL(proxy_hits(proxy) > 0, 5000);
        proxy_set(proxy, PROXY_PASS, 0);
        scene_recovery(scene);
    }
    struct ledger_report report = fault_over(scene);

    expect_only_503(scene);
    ck_assert_msg(report.unsure > 0, "no response to a COMMIT was cut");
}

/* Slow and half-closed connections. */
TEST(a_slow_or_half_closed_database_connection_loses_no_message)
{
    struct proxy *proxy;
    struct postgres *pg = behind_proxy("pg-slow", &proxy);
    struct scene *scene = scene_on(pg, "fault_slow");

    scene_begin(scene);
    scene_more(scene, 20);
    proxy_set(proxy, PROXY_DELAY, SLOW_MS);
    scene_more(scene, 100);
    proxy_set(proxy, PROXY_HALF_CLOSE, 0);
    WAIT_UNTIL(proxy_hits(proxy) > 0, 5000);
    proxy_set(proxy, PROXY_TRICKLE, 2);
    scene_more(scene, 20);
    proxy_set(proxy, PROXY_PASS, 0);
    scene_recovery(scene);
    fault_over(scene);
    expect_only_503(scene);
}

/*
 * The database accepts connections and never responds, until a request was refused because of it;
 * then everything works again. The suite checkout has a connection that falls silent.
 */
TEST(a_frozen_postgresql_blocks_no_request_beyond_the_deadline)
{
    struct postgres *pg = postgres_make("pg-frozen", true);
    struct scene *scene = scene_on(pg, "fault_frozen");
    const struct host *host = scene->hosts[0];

    load_begin(scene);
    long refused = atomic_load(&scene->load.refused);

    postgres_signal_all(pg, SIGSTOP);
    status_soon(host, "/api/health/status", NULL, 503);
    /* requests sent before the fault is known wait until their deadline, later ones do not */
    expect_refused(host, A_READ, scene->admin->token);
    expect_refused_at_once(host, A_READ, scene->admin->token);
    postgres_signal_all(pg, SIGCONT);
    scene_recovery(scene);
    ck_assert_int_gt(atomic_load(&scene->load.refused), refused);
    status_soon(host, "/api/health/status", NULL, 200);
    fault_over(scene);
    expect_only_503(scene);
}

/* ---- in a network namespace that ends with the test ---- */

static void tool(const char *command)
{
    const char *log = harness_path("fault-tools.log");
    const char *argv[] = {"sh", "-c", command, NULL};

    ck_assert_msg(process_run(&(struct process_spec){.argv = argv, .log = log}) == 0,
                  "this fault needs root, iproute2 and iptables; failed: %s\n%s", command,
                  file_text(log));
}

TEST(dropped_packets_block_no_connection_for_long)
{
    if (!fault_may("a network that drops packets", CLONE_NEWNET))
        return;
    ck_assert_msg(unshare(CLONE_NEWNET) == 0,
                  "this fault needs a network namespace, and root for it");
    tool("ip link set lo up");
    struct postgres *pg = postgres_make("pg-drop", true);
    struct proxy *proxy = proxy_start(NULL, postgres_socket(pg));
    int port = proxy_port(proxy);
    struct scene *scene = scene_on(postgres_at(pg, text("127.0.0.1 port=%d", port)), "fault_drop");

    load_begin(scene);
    int64_t began = now_ms();

    tool(text("iptables-legacy -A INPUT -p tcp --dport %d -j DROP &&"
              " iptables-legacy -A INPUT -p tcp --sport %d -j DROP",
              port, port));
    status_soon(scene->hosts[0], "/api/health/status", NULL, 503);
    expect_refused_until(scene->hosts[0], scene->admin->token, began + DROP_MS);
    ck_assert_uint_gt(host_logged(scene->hosts[0], "connection to PostgreSQL lost"), 0);
    tool("iptables-legacy -F INPUT");
    scene_recovery(scene);
    fault_over(scene);
    expect_only_503(scene);
}

/* Names are resolved for each connection, so a silent name server may be the first problem. */
TEST(a_silent_name_server_delays_no_request)
{
    struct rack rack = rack_make("names");
    struct postgres *pg = postgres_make("pg-names", true);
    struct proxy *proxy = proxy_start(NULL, postgres_socket(pg));
    struct host_spec spec = {.pg = postgres_at(pg, text("localhost port=%d", proxy_port(proxy))),
                             .plain = true,
                             .environment = rack.environment};
    struct scene *scene = fault_scene("fault_names", &spec);

    scene_begin(scene);
    scene_more(scene, 20);
    atomic_store(&rack.numbers->lookup_ms, SILENT_MS);
    for (int i = 0; i < SILENT_CUTS || !atomic_load(&rack.numbers->failed); i++) {
        proxy_set(proxy, PROXY_CUT, 1);
        WAIT_UNTIL(proxy_hits(proxy) > 0, 5000);
        proxy_set(proxy, PROXY_PASS, 0);
        scene_recovery(scene);
        scene_more(scene, 20);
    }
    fault_over(scene);
    expect_only_503(scene);
}

/* A command has only one chance, so it waits where a request would be refused. */
TEST(commands_wait_for_a_slow_name_server)
{
    struct rack rack = rack_make("slow-names");
    struct postgres *pg = postgres_make("pg-slow-names", true);
    struct proxy *proxy = proxy_start(NULL, postgres_socket(pg));
    struct host *host = host_prepare(
        &(struct host_spec){.name = "slow-names",
                            .pg = postgres_at(pg, text("localhost port=%d", proxy_port(proxy))),
                            .database = database_make(pg, "slow_names"),
                            .modules = "[auth]",
                            .plain = true});
    const char *const environment[] = {rack.environment[0], rack.environment[1],
                                       "BUSBAR_PASSWORD=" ADMIN_PASSWORD, NULL};
    static const char *const add[] = {
        "user", "add", "--role", "Admin", "--email", "slow@example.com", NULL};

    atomic_store(&rack.numbers->answer_ms, SLOW_ANSWER_MS);
    ck_assert_msg(!host_command(host, environment, add), "%s", file_text(host->log));
}

FAULT_SUITE(postgres_wire)
