/* Commands to Redis while the loop is busy: only a server that is too slow loses its connection. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/store/redis.h"
#include "pg_stage.h"
#include "suite.h"

enum { LONG_MS = 60000 };

static struct host_settings host;
static struct watch listener, server;
static char directory[] = "/tmp/busbar-redis-XXXXXX";
static struct sockaddr_un place = {.sun_family = AF_UNIX};
static struct stage_call call;

/* Responds to the commands that have arrived, whose arguments contain no asterisk, until the host
 * closes. */
static void respond(struct watch *watch, uint32_t events)
{
    char bytes[4096];
    ssize_t count = recv(watch->fd, bytes, sizeof bytes, 0);

    (void)events;
    for (ssize_t i = 0; i < count; i++)
        if (bytes[i] == '*' && send(watch->fd, "+OK\r\n", 5, MSG_NOSIGNAL) < 0)
            return;
}

static void take_client(struct watch *watch, uint32_t events)
{
    (void)events;
    ck_assert_int_eq(loop_watch(&stage_loop, &server, accept(watch->fd, NULL, NULL), EPOLLIN), 0);
}

static bool is_up(void)
{
    return redis_latency_ms(stage_loop.redis) >= 0;
}

static void set_up(void)
{
    static char url[sizeof place.sun_path + sizeof "unix:"];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    stage_set_up();
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(place.sun_path, sizeof place.sun_path, "%s/socket", directory);
    snprintf(url, sizeof url, "unix:%s", place.sun_path);
    host = (struct host_settings){.redis = {url, "", LONG_MS}};
    listener = (struct watch){.fd = -1, .ready = take_client};
    server = (struct watch){.fd = -1, .ready = respond};
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&place, sizeof place), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(loop_watch(&stage_loop, &listener, fd, EPOLLIN), 0);
    stage_loop.host = &host;
    stage_loop.redis = redis_new(&stage_loop);
    stage_until(is_up);
}

static void tear_down(void)
{
    redis_free(stage_loop.redis);
    close(server.fd);
    close(listener.fd);
    unlink(place.sun_path);
    rmdir(directory);
    stage_tear_down();
}

static void get(struct core_request *rq, struct stage_call *of)
{
    static const char *const words[] = {"GET", "key"};
    const struct bb_redis_reply *reply = api_redis(&rq->pub, 2, words, NULL);

    snprintf(of->text, sizeof of->text, "%s", reply ? reply->text : "no reply");
}

/* The request is asked at the end of an iteration that took longer than the timeout. */
static bool is_asked_late(void)
{
    if (!call.work) {
        call.work = get;
        stage_loop.now_ms -= 2 * LONG_MS;
        stage_ask(&call);
    }
    return call.ended;
}

/* The reply arrives in time, but the iteration goes on until the time is over. */
static bool is_read_late(void)
{
    if (!call.work) {
        call.work = get;
        host.redis.timeout = 1;
        stage_ask(&call);
        int64_t asked_ms = clock_mono_ms();

        respond(&server, 0);
        while (clock_mono_ms() <= asked_ms + host.redis.timeout)
            ;
    }
    return call.ended;
}

static bool (*const late[])(void) = {is_asked_late, is_read_late};

TEST_EACH(a_busy_loop_does_not_lose_the_reply_of_redis, sizeof late / sizeof *late)
{
    stage_until(late[_i]);
    ck_assert_str_eq(call.text, "OK");
}

SUITE(redis_calls, .before_each = set_up, .after_each = tear_down, .timeout_s = STAGE_SECONDS)
