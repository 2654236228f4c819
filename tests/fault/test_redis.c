/* Redis dies, comes back empty, hangs, responds late, or refuses writes. Its data may
 * be lost, but no valid request is refused and no invalid one is accepted. */
#include "fault/common.h"
#include "fault/proxy.h"

enum { ROUNDS = 20, LATE_MS = 300, TRIES = 8 };

struct redis_scene {
    pid_t redis;
    const char *socket;
    struct scene *scene;
    const struct host *host;
    const char *out; /* a token that has been logged out */
};

/* Names of databases may not contain hyphens. */
static const char *scene_name(const char *name)
{
    char *database = text("fault_%s", name);

    for (char *at = database; (at = strchr(at, '-')) != NULL;)
        *at = '_';
    return database;
}

/* Starts the scene; the load is running on return. `through`: the socket that the host uses; NULL:
 * Redis's own. */
static struct redis_scene redis_scene(const char *name, const char *through)
{
    struct redis_scene at = {.socket = redis_make(name, &at.redis)};

    at.scene =
        fault_scene(scene_name(name), &(struct host_spec){.redis = through ? through : at.socket});
    at.host = at.scene->hosts[0];
    at.out = admin_of(at.host)->token;
    ck_status(http(at.host, "POST", "/api/auth/logout", at.out, NULL), 200);
    load_begin(at.scene);
    return at;
}

static void expect_right_answers(const struct redis_scene *at, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        ck_error(http(at->host, "GET", "/api/auth/me", at->out, NULL), 401, "Token revoked");
        ck_status(http(at->host, "GET", "/api/auth/me", at->scene->admin->token, NULL), 200);
    }
}

static struct answer *login(const struct host *host, const char *password)
{
    return http(host, "POST", "/api/auth/login", NULL,
                json_pack("{ss ss}", "username", ADMIN_EMAIL, "password", password));
}

static void expect_right_logins(const struct redis_scene *at)
{
    for (int i = 0; i < TRIES; i++) {
        ck_status(login(at->host, ADMIN_PASSWORD), 200);
        ck_error(login(at->host, "wrong-password"), 401, "Unauthorized");
    }
}

static void redis_over(struct redis_scene *at)
{
    status_soon(at->host, "/api/health/status", NULL, 200);
    fault_over(at->scene);
    ck_assert_int_eq(atomic_load(&at->scene->load.refused), 0);
}

TEST(requests_are_served_when_redis_dies)
{
    struct redis_scene at = redis_scene("redis-dead", NULL);

    process_stop(at.redis, SIGKILL, 1000);
    status_soon(at.host, "/api/health/status", NULL, 503);
    scene_more(at.scene, 100);
    unlink(at.socket);
    expect_right_answers(&at, 1);
    ck_status(login(at.host, ADMIN_PASSWORD), 200);
    redis_make("redis-dead", &at.redis);
    status_soon(at.host, "/api/health/status", NULL, 200);
    expect_right_answers(&at, 1);
    redis_over(&at);
}

TEST(requests_are_served_while_redis_is_frozen)
{
    struct redis_scene at = redis_scene("redis-frozen", NULL);

    kill(at.redis, SIGSTOP);
    status_soon(at.host, "/api/health/status", NULL, 503);
    expect_right_answers(&at, ROUNDS);
    ck_status(login(at.host, ADMIN_PASSWORD), 200);
    kill(at.redis, SIGCONT);
    expect_right_answers(&at, ROUNDS);
    redis_over(&at);
}

/* Every response is late, and must not be taken for the response to the next command. */
TEST(late_responses_of_redis_are_discarded)
{
    const char *directory = harness_path("redis-slow.proxy");

    process_service_directory(directory);
    const char *through = text("%s/redis.sock", directory);
    struct proxy *proxy = proxy_start(through, harness_path("redis-slow.run/redis.sock"));
    struct redis_scene at = redis_scene("redis-slow", through);

    proxy_set(proxy, PROXY_DELAY, LATE_MS);
    status_soon(at.host, "/api/health/status", NULL, 503);
    expect_right_logins(&at);
    expect_right_answers(&at, ROUNDS);
    proxy_set(proxy, PROXY_PASS, 0);
    redis_over(&at);
}

/* Redis has no memory left, or is a disconnected replica, which responds to reads with
 * READONLY or MASTERDOWN. */
static void refuse_writes(const char *name, const char *break_it, const char *mend_it)
{
    struct redis_scene at = redis_scene(name, NULL);

    redis_command(at.socket, break_it);
    status_soon(at.host, "/api/health/status", NULL, 503);
    expect_right_logins(&at);
    expect_right_answers(&at, ROUNDS);
    redis_command(at.socket, mend_it);
    redis_over(&at);
}

TEST(a_full_redis_is_treated_as_unavailable)
{
    refuse_writes("redis-full", "config set maxmemory 1", "config set maxmemory 64mb");
}

TEST(a_read_only_redis_is_treated_as_unavailable)
{
    refuse_writes("redis-replica", "replicaof 127.0.0.1 1", "replicaof no one");
}

FAULT_SUITE(redis)
