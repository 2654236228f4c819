#include "core/store/redis.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/module/module_error.h"

enum {
    LOOK_MS = 50, /* interval while a name is being looked up */
    PROBE_MS = 2 * TIMER_IDLE_MS,
    AGAIN_MS = 250,
    CALLS_MAX = 4096
};

/* A command in progress. Replies arrive in the order of the commands. */
struct call {
    struct call *next;
    struct core_request *rq; /* NULL: abandoned, or a probe */
    int64_t sent_ms;
    bool probe;
    bool done;
    const struct bb_redis_reply *reply;
};

struct redis {
    struct watch watch; /* first member */
    struct loop *loop;
    struct redis_settings settings;
    redisContext *context; /* NULL: not connected */
    bool ready;            /* the connection is established */
    unsigned turn;         /* selects an address: the next one if one cannot be reached */
    struct timer tick;
    int64_t again_ms, probe_ms;
    int64_t latency_ms;
    struct call *calls, *calls_last; /* oldest first */
    size_t call_count;
    bool told; /* logged that it is down or refuses writes, and no write has succeeded since */
};

static void wake_at(struct redis *redis, int64_t at_ms)
{
    timer_set(&redis->loop->timers, &redis->tick, at_ms);
}

/* Sets the timer for the next call, connection or probe. */
static void wake_in_time(struct redis *redis)
{
    int64_t at_ms = redis->context && redis->ready ? redis->probe_ms : redis->again_ms;

    if (redis->calls && redis->calls->sent_ms + redis->settings.timeout_ms < at_ms)
        at_ms = redis->calls->sent_ms + redis->settings.timeout_ms + 1;
    wake_at(redis, at_ms);
}

static void away(struct redis *redis, const char *reason)
{
    redis->context = NULL;
    redis->turn = redis->ready ? 0 : redis->turn + 1;
    redis->ready = false;
    redis->latency_ms = -1;
    redis->again_ms = redis->loop->now_ms + AGAIN_MS;
    wake_in_time(redis);
    if (redis->told)
        return;
    redis->told = true;
    log_line(BB_WARN, "Redis cannot be reached", "reason", reason, NULL);
}

static void answer(struct redis *redis, const redisReply *reply);

/* Closes the connection; waiting calls get no answer. */
static void drop(struct redis *redis, const char *reason)
{
    redisContext *context = redis->context;

    if (!context)
        return;
    loop_watch(redis->loop, &redis->watch, -1, 0);
    away(redis, reason);
    redisFree(context);
    while (redis->calls)
        answer(redis, NULL);
}

static redisContext *context_of(int fd)
{
    redisContext *context = redisConnectFd(fd);

    if (!context)
        return NULL;
    context->flags &= ~REDIS_BLOCK;
    context->reader->maxbuf = 0; /* otherwise it frees a large buffer, and asserts that it can
                                  * allocate another */
    return context;
}

static void redis_connect(struct redis *redis)
{
    int fd = redis_socket(&redis->settings, redis->turn);

    if (fd < 0 && errno == EALREADY) { /* its name is being looked up */
        wake_at(redis, redis->loop->now_ms + LOOK_MS);
        return;
    }
    redisContext *context = fd >= 0 ? context_of(fd) : NULL;

    if (!context || loop_watch(redis->loop, &redis->watch, fd, EPOLLOUT)) {
        away(redis, strerror(errno));
        if (context)
            redisFree(context); /* closes it */
        else if (fd >= 0)
            close(fd);
        return;
    }
    redis->context = context;
    redis->again_ms = redis->loop->now_ms + redis->settings.timeout_ms;
    wake_in_time(redis);
}

static void connected(struct redis *redis)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (getsockopt(redis->context->fd, SOL_SOCKET, SO_ERROR, &error, &size))
        error = errno;
    if (error) {
        drop(redis, strerror(error));
        return;
    }
    loop_watch(redis->loop, &redis->watch, redis->context->fd, EPOLLIN);
    redis->ready = true;
    redis->probe_ms = 0;
    wake_in_time(redis);
}

static void receive(struct redis *redis)
{
    if (redisBufferRead(redis->context) != REDIS_OK) {
        drop(redis, redis->context->errstr);
        return;
    }
    for (;;) {
        void *reply = NULL;

        if (redisGetReplyFromReader(redis->context, &reply) != REDIS_OK) {
            drop(redis, redis->context->errstr);
            return;
        }
        if (!reply)
            break;
        if (redis->calls)
            answer(redis, reply);
        freeReplyObject(reply);
    }
    wake_in_time(redis);
}

/*
 * Sends the buffered commands; -1: the connection is unusable. If memory runs out for the next
 * buffer, hiredis has none, and would dereference it if it were asked for the remaining length.
 */
static int send_gathered(struct redis *redis)
{
    redisContext *context = redis->context;

    if (redisBufferWrite(context, NULL) != REDIS_OK || !context->obuf)
        return -1;
    uint32_t events = sdslen(context->obuf) ? EPOLLIN | EPOLLOUT : EPOLLIN;
    return loop_watch(redis->loop, &redis->watch, context->fd, events);
}

static void redis_ready(struct watch *watch, uint32_t events)
{
    struct redis *redis = (struct redis *)(void *)watch;

    if (!redis->ready) {
        connected(redis);
        return;
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive(redis);
    if (redis->context && events & EPOLLOUT && send_gathered(redis))
        drop(redis, "cannot send command");
}

static enum bb_redis_type type_of(const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        return BB_REDIS_INT;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        return BB_REDIS_TEXT;
    case REDIS_REPLY_ARRAY:
        return BB_REDIS_LIST;
    case REDIS_REPLY_ERROR:
        return BB_REDIS_ERROR;
    default:
        return BB_REDIS_NIL;
    }
}

/* Copies a reply into the arena; -1: out of memory. Nested lists are not needed, and are cut. */
static int copy_reply(struct arena *arena, const redisReply *from, struct bb_redis_reply *to,
                      int depth)
{
    *to = (struct bb_redis_reply){.type = type_of(from), .integer = from->integer};
    if (from->str) {
        to->text = arena_text(arena, from->str, (size_t)from->len);
        to->length = (size_t)from->len;
        return to->text ? 0 : -1;
    }
    if (from->type != REDIS_REPLY_ARRAY || depth > 1)
        return 0;
    struct bb_redis_reply *items = arena_alloc(arena, (from->elements + 1) * sizeof *items);
    if (!items)
        return -1;
    to->items = items;
    to->count = from->elements;
    for (size_t i = 0; i < from->elements; i++) {
        if (copy_reply(arena, from->element[i], &items[i], depth + 1))
            return -1;
    }
    return 0;
}

/* Redis counts as up if it accepts writes, because it is useless otherwise. */
static void judge(struct redis *redis, const redisReply *reply, int64_t sent_ms)
{
    bool good = reply->type == REDIS_REPLY_STATUS;

    redis->latency_ms = good ? clock_mono_ms() - sent_ms : -1;
    if (good == !redis->told)
        return;
    redis->told = !good;
    if (good)
        log_line(BB_WARN, "Redis is back", NULL);
    else
        log_line(BB_WARN, "Redis takes no writes", "reason", reply->str, NULL);
}

/* Completes the oldest call; NULL: there will be no answer. */
static void answer(struct redis *redis, const redisReply *reply)
{
    struct call *call = redis->calls;

    redis->calls = call->next;
    redis->call_count--;
    call->done = true;
    if (!call->rq) {
        if (call->probe && reply)
            judge(redis, reply, call->sent_ms);
        free(call);
        return;
    }
    struct bb_redis_reply *copy = reply ? arena_alloc(call->rq->arena, sizeof *copy) : NULL;
    if (copy && !copy_reply(call->rq->arena, reply, copy, 0) && copy->type != BB_REDIS_ERROR)
        call->reply = copy;
    request_wake(call->rq);
}

static int gather(redisContext *context, int argc, const char *const *argv, const size_t *lengths)
{
    char *command = NULL;
    long long length =
        redisFormatCommandArgv(&command, argc, (const char **)(uintptr_t)argv, lengths);

    if (length < 0)
        return -1;
    int status = redisAppendFormattedCommand(context, command, (size_t)length);
    redisFreeCommand(command);
    return status == REDIS_OK ? 0 : -1;
}

/* NULL: it was not sent; the connection may be gone. */
static struct call *send_call(struct redis *redis, struct core_request *rq, int argc,
                              const char *const *argv, const size_t *lengths)
{
    struct call *call = calloc(1, sizeof *call);

    if (!call)
        return NULL;
    *call = (struct call){.rq = rq, .sent_ms = redis->loop->now_ms};
    if (gather(redis->context, argc, argv, lengths) || send_gathered(redis)) {
        free(call);
        drop(redis, "cannot send command");
        return NULL;
    }
    if (redis->calls)
        redis->calls_last->next = call;
    else
        redis->calls = call;
    redis->calls_last = call;
    redis->call_count++;
    if (redis->calls == call)
        wake_in_time(redis);
    return call;
}

/*
 * The probe is a write, because a Redis without free memory, or a read-only replica, would answer a
 * PING.
 */
static void send_probe(struct redis *redis)
{
    static const char *const set[] = {"SET", "busbar:probe", "1", "PX", "1000"};

    struct call *call = send_call(redis, NULL, sizeof set / sizeof *set, set, NULL);

    if (call)
        call->probe = true;
}

static void on_tick(struct timer *timer)
{
    struct redis *redis = BB_CONTAINER_OF(timer, struct redis, tick);
    int64_t now = redis->loop->now_ms;

    if (redis->calls && redis->calls->sent_ms + redis->settings.timeout_ms < now)
        drop(redis, "no answer within the time limit");
    else if (redis->context && !redis->ready && redis->again_ms <= now)
        drop(redis, "no connection within the time limit");
    if (!redis->context && redis->again_ms <= now) {
        redis_connect(redis);
        return; /* which has set the timer */
    }
    if (redis->context && redis->ready && redis->probe_ms <= now) {
        redis->probe_ms = timer_beat(now, PROBE_MS);
        send_probe(redis);
    }
    wake_in_time(redis);
}

const struct bb_redis_reply *api_redis(struct bb_request *pub, int argc, const char *const *argv,
                                       const size_t *lengths)
{
    struct core_request *rq = request_of(pub);
    struct redis *redis = rq->loop->redis;

    if (module_error_waits(rq, "bb_redis()"))
        return NULL;
    if (!redis || !redis->ready || redis->told || redis->call_count >= CALLS_MAX)
        return NULL;
    struct call *call = send_call(redis, rq, argc, argv, lengths);
    if (!call)
        return NULL;
    if (request_wait(rq, &call->done)) {
        call->rq = NULL; /* freed when its answer arrives */
        return NULL;
    }
    const struct bb_redis_reply *reply = call->reply;
    free(call);
    return reply;
}

int64_t redis_latency_ms(const struct redis *redis)
{
    return redis->latency_ms;
}

struct redis *redis_new(struct loop *loop, const struct redis_settings *settings)
{
    struct redis *redis = calloc(1, sizeof *redis);

    if (!redis)
        return NULL;
    redis->watch = (struct watch){.fd = -1, .ready = redis_ready};
    redis->loop = loop;
    redis->settings = *settings;
    redis->latency_ms = -1;
    redis->tick.fire = on_tick;
    on_tick(&redis->tick);
    return redis;
}

void redis_free(struct redis *redis)
{
    redis->told = true;
    drop(redis, "");
    timer_clear(&redis->loop->timers, &redis->tick);
    free(redis);
}
