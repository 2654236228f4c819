/* A real HAProxy with the sample configuration in front of two hosts with one database: a rolling
 * restart fails no request, and the loss of a host loses no data. */
#include <sys/socket.h>
#include <sys/un.h>

#include "receive.h"
#include "scene.h"

enum { SEEN_MS = 10000, BUSY_MS = 700, CHECK_MS = 2000, ROUNDS_MAX = 10 };

struct cluster {
    struct scene *scene;
    struct host front; /* HAProxy, for http() */
    const char *socket;
};

/* Returns HAProxy's response to a command on its socket. */
static const char *haproxy_say(const struct cluster *cluster, const char *command)
{
    int fd = socket_connect(cluster->socket);
    char *answer = kept(calloc(1, 65536));
    size_t used = 0;
    ssize_t got = 1;

    if (fd >= 0 && write(fd, command, strlen(command)) > 0) {
        while (got > 0 && used < 65535) {
            got = read(fd, answer + used, 65535 - used);
            used += got > 0 ? (size_t)got : 0;
        }
    }
    close(fd);
    return answer;
}

/* Returns a column of "show stat" and the text after it; NULL: it is not there. */
static const char *stat_of(const struct cluster *cluster, int host, int number)
{
    const char *line = strstr(haproxy_say(cluster, "show stat\n"), text("hosts,host%d,", host + 1));

    for (int column = 1; line && column < number; column++) {
        line = strchr(line, ',');
        line = line ? line + 1 : NULL;
    }
    return line;
}

/* Column 18 is the status of the server. */
static bool is_up(const struct cluster *cluster, int host)
{
    const char *status = stat_of(cluster, host, 18);

    return status && !strncmp(status, "UP,", 3);
}

/* Column 23 says how often HAProxy has stopped using the server. */
static long downs_of(const struct cluster *cluster, int host)
{
    const char *downs = stat_of(cluster, host, 23);

    ck_assert_ptr_nonnull(downs);
    return strtol(downs, NULL, 10);
}

static bool both_up(const struct cluster *cluster)
{
    return is_up(cluster, 0) && is_up(cluster, 1);
}

static void wait_both(struct cluster *cluster)
{
    WAIT_UNTIL_MSG(both_up(cluster), SEEN_MS, "HAProxy does not see both hosts:\n%s",
                   haproxy_say(cluster, "show stat\n"));
}

static void haproxy_start(struct cluster *cluster, const char *name)
{
    const char *environment[] = {text("BUSBAR_FRONT=127.0.0.1:%d", cluster->front.port),
                                 text("BUSBAR_HOST1=127.0.0.1:%d", cluster->scene->hosts[0]->port),
                                 text("BUSBAR_HOST2=127.0.0.1:%d", cluster->scene->hosts[1]->port),
                                 text("BUSBAR_HAPROXY_SOCKET=%s", cluster->socket), NULL};
    const char *argv[] = {"haproxy", "-db", "-f", TEST_CONF "/haproxy.cfg", NULL};

    cluster->front.pid = process_start(&(struct process_spec){
        .argv = argv, .environment = environment, .log = harness_path(text("%s.haproxy", name))});
    wait_both(cluster);
}

/* Makes a cluster. Restarted hosts keep their ports; the load goes through HAProxy. */
static struct cluster *cluster_make_on(const char *name, struct postgres *pg)
{
    struct cluster *cluster = kept(calloc(1, sizeof *cluster));
    struct host_spec spec = {
        .pg = pg, .modules = WEBHOOK_MODULES, .more = WEBHOOK_LOCAL, .keep_port = true};
    struct scene *scene = scene_make(name, &spec, SCENE_HOSTS, SCENE_ENDLESS);

    cluster->scene = scene;
    cluster->front.port = receiver_none()->at.port;
    cluster->socket = harness_path(text("%s.sock", name));
    haproxy_start(cluster, name);
    atomic_store(&scene->ports[0], cluster->front.port);
    scene->load.hosts = 1;
    return cluster;
}

static struct cluster *cluster_make(const char *name)
{
    return cluster_make_on(name, NULL);
}

static void cluster_end(struct cluster *cluster)
{
    scene_end(cluster->scene);
    process_stop(cluster->front.pid, SIGTERM, 5000);
}

/*
 * Restarts each host. Returns whether no request failed; if one did, HAProxy must have stopped
 * using the other host, too, because its check was late on a busy machine.
 */
static bool restart_each(const char *name)
{
    struct cluster *cluster = cluster_make(name);
    struct scene *scene = cluster->scene;
    bool disturbed = false;

    scene_begin(scene);
    for (int i = 0; i < repetitions(1, 2) * 2; i++) {
        int stays = (i + 1) % 2;
        long downs = downs_of(cluster, stays);

        scene_rush(scene);
        host_stop(scene->hosts[i % 2]);
        scene_more(scene, 100);
        scene_calm(scene, SCENE_PAUSE_MS);
        ck_assert(host_run(scene->hosts[i % 2]));
        wait_both(cluster);
        disturbed = disturbed || downs_of(cluster, stays) != downs;
    }
    scene_stop(scene);
    struct ledger_report report = scene_expect_ledger(scene);
    long refused = atomic_load(&scene->load.refused);

    cluster_end(cluster);
    ck_assert_msg(disturbed || (!refused && !report.unsure), "%ld refused, %zu unsure", refused,
                  report.unsure);
    return !refused && !report.unsure;
}

TEST(a_rolling_restart_behind_haproxy_fails_no_request)
{
    int round = 1;

    for (; !restart_each(text("cluster_roll%d", round)); round++)
        ck_assert_int_lt(round, ROUNDS_MAX);
}

TEST(a_killed_host_behind_haproxy_loses_no_message)
{
    struct cluster *cluster = cluster_make("cluster_kill");
    struct scene *scene = cluster->scene;

    scene->load.fresh = true;
    scene_begin(scene);
    scene_rush(scene);
    host_kill(scene->hosts[1]);
    scene_recovery(scene);
    scene_more(scene, 100);
    scene_calm(scene, SCENE_PAUSE_MS);
    ck_assert(host_run(scene->hosts[1]));
    wait_both(cluster);
    scene_more(scene, 100);
    scene_stop(scene);
    scene_expect_ledger(scene);
    cluster_end(cluster);
}

/* Returns how many milliseconds HAProxy waited for a check that timed out; -1: none did. */
static long given_up_after(const struct cluster *cluster)
{
    static const char mark[] = ",L7TOUT,,";
    const char *check = strstr(haproxy_say(cluster, "show stat\n"), mark);

    return check ? strtol(check + strlen(mark), NULL, 10) : -1;
}

/*
 * Simulates a machine that is too busy to answer a check within the interval. If this test itself
 * has to wait for 2 s, HAProxy may give up a check, but not earlier.
 */
TEST(haproxy_keeps_hosts_whose_checks_are_late)
{
    struct cluster *cluster = cluster_make("cluster_busy");
    struct scene *scene = cluster->scene;

    scene_begin(scene);
    scene_more(scene, 100);
    for (int i = 0; i < SCENE_HOSTS; i++)
        ck_assert_int_eq(kill(scene->hosts[i]->pid, SIGSTOP), 0);
    bool down = false;

    WAIT_FOR(down = !both_up(cluster), BUSY_MS);
    long after = given_up_after(cluster);

    for (int i = 0; i < SCENE_HOSTS; i++)
        ck_assert_int_eq(kill(scene->hosts[i]->pid, SIGCONT), 0);
    ck_assert_msg(!down || after >= CHECK_MS, "HAProxy stopped using a host after %ld ms", after);
    scene_more(scene, 100);
    scene_stop(scene);
    scene_expect_ledger(scene);
    cluster_end(cluster);
}

/* Sends 20 requests. Returns whether all were successful; if one was not, HAProxy must have stopped
 * using the first host, because its check was late on a busy machine. */
static bool is_served(const struct cluster *cluster, const char *token)
{
    WAIT_UNTIL(is_up(cluster, 0), SEEN_MS);
    for (int i = 0; i < 20; i++) {
        bool up = is_up(cluster, 0);
        long downs = downs_of(cluster, 0);
        struct answer *answer = http(&cluster->front, "GET", "/api/auth/me", token, NULL);

        if (answer->status != 200) {
            ck_assert_msg(!up || downs_of(cluster, 0) != downs, "%ld %s", answer->status,
                          answer->body);
            return false;
        }
    }
    return true;
}

/* First one host has no database, then neither. */
TEST(haproxy_prefers_ready_hosts_and_otherwise_uses_live_ones)
{
    struct postgres *pg = postgres_make("cluster-ready", false);
    struct cluster *cluster = cluster_make_on("cluster_ready", pg);
    struct host *second = cluster->scene->hosts[1];
    const char *token = cluster->scene->admin->token;
    const char *conf = file_text(second->conf), *name = strstr(conf, "dbname=cluster_ready");

    host_stop(second);
    ck_assert_ptr_nonnull(name);
    file_write(second->conf, text("%.*sdbname=nowhere%s", (int)(name - conf), conf,
                                  name + strlen("dbname=cluster_ready")));
    ck_assert(host_run(second));
    WAIT_FOR(is_up(cluster, 1), BUSY_MS);
    ck_assert(!is_up(cluster, 1));
    int round = 1;

    for (; !is_served(cluster, token); round++)
        ck_assert_int_lt(round, ROUNDS_MAX);
    postgres_stop(pg, SIGINT);
    WAIT_UNTIL(!is_up(cluster, 0) && !is_up(cluster, 1), SEEN_MS);
    ck_error(http(&cluster->front, "GET", "/api/auth/me", token, NULL), 503, "");
    cluster_end(cluster);
}

static int check(const char *const *environment)
{
    const char *argv[] = {harness_program(false), "-c", TEST_CONF "/cluster.yaml", "check", NULL};
    const char *log = harness_path("cluster-check.log");
    int status =
        process_run(&(struct process_spec){.argv = argv, .environment = environment, .log = log});

    fprintf(stderr, "%s", status ? file_text(log) : "");
    return status;
}

TEST(the_sample_configuration_is_valid)
{
    static const char *const environment[] = {
        "BUSBAR_LISTEN=127.0.0.1:8081",
        "BUSBAR_DATABASE=dbname=busbar",
        "BUSBAR_REDIS=127.0.0.1:6379",
        "BUSBAR_S3_ENDPOINT=https://s3.example.org",
        "BUSBAR_S3_REGION=eu-central-1",
        "BUSBAR_S3_BUCKET=documents",
        "BUSBAR_S3_ACCESS_KEY=an-id",
        "BUSBAR_S3_SECRET_KEY=a-secret",
        "BUSBAR_SECRET_KEY=0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0",
        NULL};

    ck_assert_int_eq(check(environment), 0);
}

SUITE(cluster, .timeout_s = 120)
