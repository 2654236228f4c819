/* How a host connects to Redis: with a password, a user, a database's number, TLS, and Sentinels.
 */
#include <sys/socket.h>
#include <sys/stat.h>

#include "exchange.h"
#include "tls.h"

enum { UP_MS = 10000 };

struct redis_server {
    const char *name;
    int port;
    pid_t pid;
};

/* Runs redis-cli and returns what it prints. */
static const char *redis_says(const struct redis_server *server, const char *command)
{
    const char *out = harness_path(text("%s.says", server->name));

    unlink(out);
    (void)process_run(&(struct process_spec){
        .argv = words("redis-cli -p %d %s", server->port, command), .log = out});
    return file_text(out);
}

static bool is_up(const struct redis_server *server)
{
    return strstr(redis_says(server, "ping"), "PONG") ||
           strstr(redis_says(server, "ping"), "NOAUTH");
}

/* Starts Redis on a port of the loopback; `more` are further options. */
static struct redis_server redis_begin(const char *name, const char *more)
{
    struct redis_server server = {.name = name, .port = free_port()};
    const char *directory = harness_path(text("%s.run", name));

    if (access(directory, F_OK))
        process_service_directory(directory);
    server.pid = process_start(&(struct process_spec){
        .argv = words("redis-server --bind 127.0.0.1 --port %d --appendonly no --dir %s %s",
                      server.port, directory, more),
        .log = harness_path(text("%s.log", name)),
        .as_service = true});
    return server;
}

static void set_up(void)
{
    database_make(the_postgres, "redis_servers");
}

static struct host *host_with(const char *name, const char *url, const char *authorities)
{
    return host_start(&(struct host_spec){.name = name,
                                          .database = "redis_servers",
                                          .redis = url,
                                          .redis_ms = 10000,
                                          .redis_authorities = authorities});
}

static bool redis_is_up(const struct host *host)
{
    struct answer *answer = http(host, "GET", "/api/health/status", NULL, NULL);
    const json_t *redis = json_object_get(json_object_get(answer->json, "details"), "redis");

    return !strcmp(json_string_value(json_object_get(redis, "status")), "up");
}

/* A failed login must be counted in that database of that Redis. */
static void expect_counts(struct host *host, const struct redis_server *server, const char *more)
{
    WAIT_UNTIL(redis_is_up(host), UP_MS);
    ask(NULL, 401, NULL,
        "POST /api/auth/login {'username':'nobody@redis.test','password':'wrong'}");
    ck_assert_ptr_nonnull(strstr(redis_says(server, text("%s --scan", more)), "busbar:"));
}

TEST(a_host_logs_in_to_redis_and_chooses_a_database)
{
    struct redis_server redis = redis_begin("redis-password", "--requirepass sesame");

    WAIT_UNTIL(is_up(&redis), UP_MS);
    struct host *host =
        host_with("redis_password_host", text("redis://:sesame@127.0.0.1:%d/5", redis.port), NULL);

    expect_counts(host, &redis, "-a sesame -n 5");
    host_stop(host);
    redis_says(&redis, "-a sesame ACL SETUSER app on >open%sesame ~busbar:* +@all");
    host = host_with("redis_user_host", text("redis://app:open%%25sesame@127.0.0.1:%d", redis.port),
                     NULL);
    expect_counts(host, &redis, "-a sesame -n 0");
    host_stop(host);
    process_stop(redis.pid, SIGTERM, UP_MS);
}

TEST(tls_to_redis_is_verified)
{
    struct tls_pair pair = tls_make("redis-tls", "IP:127.0.0.1", NULL);
    struct tls_pair other = tls_make("redis-other", "IP:127.0.0.1", NULL);
    int port = free_port();

    ck_assert_int_eq(chmod(pair.key, 0644), 0); /* Redis runs as another user */
    struct redis_server redis =
        redis_begin("redis-tls", text("--tls-port %d --tls-cert-file %s --tls-key-file %s"
                                      " --tls-auth-clients no",
                                      port, pair.certificate, pair.key));

    WAIT_UNTIL(is_up(&redis), UP_MS);
    struct host *host =
        host_with("redis_tls_host", text("rediss://127.0.0.1:%d/1", port), pair.certificate);

    expect_counts(host, &redis, "-n 1");
    host_stop(host);
    host = host_with("redis_tls_other", text("rediss://127.0.0.1:%d", port), other.certificate);
    host_logs(host, 0, "reason=\"TLS: self-signed certificate");
    ck_assert(!redis_is_up(host));
    host_stop(host);
    host = host_with("redis_tls_name", text("rediss://localhost:%d", port), pair.certificate);
    host_logs(host, 0, "reason=\"TLS: hostname mismatch");
    host_stop(host);
    process_stop(redis.pid, SIGTERM, UP_MS);
}

static bool is_replica(const struct redis_server *server)
{
    return strstr(redis_says(server, "info replication"), "master_link_status:up") != NULL;
}

static bool knows_replica(const struct redis_server *sentinel)
{
    return strstr(redis_says(sentinel, "sentinel replicas main"), "127.0.0.1:") != NULL;
}

/* The first Sentinel of the URL does not respond. */
TEST(the_host_follows_the_master_that_sentinels_name)
{
    struct redis_server servers[2] = {redis_begin("redis-one", "--loglevel notice"), {0}}, sentinel;

    WAIT_UNTIL(is_up(&servers[0]), UP_MS);
    servers[1] = redis_begin("redis-two", text("--replicaof 127.0.0.1 %d", servers[0].port));
    WAIT_UNTIL(is_replica(&servers[1]), UP_MS);
    const char *conf = harness_path("sentinel.run/sentinel.conf");

    process_service_directory(harness_path("sentinel.run"));
    file_write(conf, text("sentinel monitor main 127.0.0.1 %d 1\n"
                          "sentinel down-after-milliseconds main 60000\n",
                          servers[0].port));
    ck_assert_int_eq(chmod(conf, 0666), 0);
    sentinel = (struct redis_server){.name = "sentinel", .port = free_port()};
    sentinel.pid = process_start(&(struct process_spec){
        .argv = words("redis-server %s --sentinel --bind 127.0.0.1 --port %d", conf, sentinel.port),
        .log = harness_path("sentinel.log"),
        .as_service = true});
    WAIT_UNTIL(knows_replica(&sentinel), UP_MS);
    struct host *host = host_with(
        "sentinel_host",
        text("redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/main/2", free_port(), sentinel.port),
        NULL);

    expect_counts(host, &servers[0], "-n 2");
    redis_says(&servers[0], text("replicaof 127.0.0.1 %d", servers[1].port));
    host_logs(host, 0, "msg=\"Redis refuses writes\" reason=\"READONLY");
    redis_says(&servers[0], "replicaof no one");
    expect_counts(host, &servers[0], "-n 2");
    WAIT_UNTIL(is_replica(&servers[1]), UP_MS);
    redis_says(&sentinel, "sentinel failover main");
    WAIT_UNTIL(is_replica(&servers[0]), UP_MS);
    expect_counts(host, &servers[1], "-n 2");
    host_stop(host);
    process_stop(sentinel.pid, SIGTERM, UP_MS);
    process_stop(servers[0].pid, SIGTERM, UP_MS);
    process_stop(servers[1].pid, SIGTERM, UP_MS);
}

/* ---- servers with invalid replies ---- */

/* Sends the reply that follows a word of `replies` to commands with this word, +OK to others. */
struct liar {
    const char *replies[8]; /* word, reply, word, reply … NULL */
    bool drips;             /* sends single bytes of a reply that never ends */
};

static void liar_answer(void *arg, int fd)
{
    const struct liar *liar = arg;
    char command[4096];
    ssize_t count;

    while ((count = recv(fd, command, sizeof command - 1, 0)) > 0) {
        const char *reply = "+OK\r\n";

        command[count] = '\0';
        for (size_t i = 0; liar->replies[i]; i += 2)
            if (strstr(command, liar->replies[i]))
                reply = liar->replies[i + 1];
        while (liar->drips && send(fd, "+", 1, MSG_NOSIGNAL) == 1)
            usleep(20000);
        if (send(fd, reply, strlen(reply), MSG_NOSIGNAL) < 0)
            break;
    }
    close(fd);
}

/* Starts a host that must log the text. */
static struct host *host_that_logs(const char *logged, const char *name, const char *url)
{
    struct host *host = host_with(name, url, NULL);

    host_logs(host, 0, logged);
    return host;
}

TEST(a_master_that_answers_no_status_to_a_write_is_not_used)
{
    static struct liar liar = {
        .replies = {"ROLE", "*1\r\n$6\r\nmaster\r\n", "SET", ":1\r\n", "SENTINEL", NULL}};
    int port = port_serve(liar_answer, &liar);

    liar.replies[5] = text("*2\r\n$9\r\n127.0.0.1\r\n$5\r\n%05d\r\n", port);
    ck_assert(!redis_is_up(
        host_that_logs("msg=\"Redis refuses writes\" reason=\"unexpected reply to SET\"",
                       "redis_liar", text("redis+sentinel://127.0.0.1:%d/main", port))));
}

TEST(a_password_that_redis_quotes_in_an_error_is_not_logged)
{
    static struct liar liar = {
        .replies = {"AUTH", "-ERR unknown command 'AUTH', with args beginning with: 'barley'\r\n"}};
    struct host *host =
        host_that_logs("reason=\"AUTH: ERR unknown command ", "redis_quotes",
                       text("redis://:barley@127.0.0.1:%d", port_serve(liar_answer, &liar)));

    ck_assert_uint_eq(host_logged(host, "barley"), 0);
}

TEST(a_sentinel_that_sends_garbage_is_named_in_the_log)
{
    static struct liar liar = {.replies = {"SENTINEL", "HTTP/1.1 400 Bad Request\r\n\r\n"}};

    host_that_logs("reason=\"invalid reply: Protocol error", "redis_garbage",
                   text("redis+sentinel://127.0.0.1:%d/main", port_serve(liar_answer, &liar)));
}

TEST(a_sentinel_that_sends_single_bytes_of_a_reply_is_given_up)
{
    static struct liar liar = {.drips = true};
    struct host *host = host_start(&(struct host_spec){
        .name = "redis_drips",
        .database = "redis_servers",
        .redis = text("redis+sentinel://127.0.0.1:%d/main", port_serve(liar_answer, &liar))});

    host_logs(host, 0, "reason=\"no response within the time limit\"");
}

SUITE(redis_servers, .timeout_s = 120, .before_all = set_up)
