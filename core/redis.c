#include "core/redis.h"

#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/log.h"
#include "core/text.h"

enum { TICK_MS = 50, PROBE_MS = 250, AGAIN_MS = 250, CALLS_MAX = 4096 };

/* A command under way. Replies come in the order of the commands. */
struct call {
    struct call *next;
    struct core_request *rq; /* NULL: given up, or a probe */
    struct redis *redis;
    int64_t sent_ms;
    bool probe;
    bool done;
    const struct bb_redis_reply *reply;
};

struct redis {
    struct watch watch; /* first */
    struct loop *loop;
    struct redis_settings settings;
    redisAsyncContext *context; /* NULL: not connected */
    bool ready;
    struct timer tick;
    int64_t again_ms, probe_ms;
    int64_t latency_ms;
    struct call *calls, *calls_last; /* oldest first */
    size_t call_count;
    bool told; /* that it is away, or takes no writes */
};

static void interest(struct redis *redis, uint32_t add, uint32_t remove)
{
    uint32_t events = (redis->watch.events | add) & ~remove;

    loop_watch(redis->loop, &redis->watch, redis->context ? redis->context->c.fd : -1, events);
}

static void add_read(void *redis)
{
    interest(redis, EPOLLIN, 0);
}

static void del_read(void *redis)
{
    interest(redis, 0, EPOLLIN);
}

static void add_write(void *redis)
{
    interest(redis, EPOLLOUT, 0);
}

static void del_write(void *redis)
{
    interest(redis, 0, EPOLLOUT);
}

/* hiredis lets go of the socket: it closes it next. */
static void cleanup(void *arg)
{
    struct redis *redis = arg;

    loop_watch(redis->loop, &redis->watch, -1, 0);
}

static void away(struct redis *redis, const char *reason)
{
    redis->context = NULL;
    redis->ready = false;
    redis->latency_ms = -1;
    redis->again_ms = redis->loop->now_ms + AGAIN_MS;
    if (redis->told)
        return;
    redis->told = true;
    log_line(BB_WARN, "Redis cannot be reached", "reason", reason, NULL);
}

static void drop(struct redis *redis, const char *reason)
{
    redisAsyncContext *context = redis->context;

    if (!context)
        return;
    away(redis, reason);
    redisAsyncFree(context); /* calls back with NULL for everything under way */
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct redis *redis = context->data;

    if (status != REDIS_OK) {
        away(redis, context->errstr); /* hiredis frees the context */
        return;
    }
    redis->ready = true;
    redis->probe_ms = 0;
}

static void on_disconnect(const redisAsyncContext *context, int status)
{
    struct redis *redis = context->data;

    (void)status;
    if (redis->context == context)
        away(redis, context->errstr);
}

static redisAsyncContext *start_connect(const char *url)
{
    char host[128];
    const char *colon = strrchr(url, ':');

    if (!strncmp(url, "unix:", 5))
        return redisAsyncConnectUnix(url + 5);
    if (!colon || (size_t)(colon - url) >= sizeof host)
        return NULL;
    snprintf(host, sizeof host, "%.*s", (int)(colon - url), url);
    return redisAsyncConnect(host, atoi(colon + 1));
}

static void redis_connect(struct redis *redis)
{
    redisAsyncContext *context = start_connect(redis->settings.url);

    if (!context || context->err) {
        away(redis, context ? context->errstr : "the address is malformed");
        if (context)
            redisAsyncFree(context);
        return;
    }
    redis->context = context;
    context->data = redis;
    context->ev = (typeof(context->ev)){.data = redis,
                                        .addRead = add_read,
                                        .delRead = del_read,
                                        .addWrite = add_write,
                                        .delWrite = del_write,
                                        .cleanup = cleanup};
    redis->again_ms = redis->loop->now_ms + redis->settings.timeout_ms;
    redisAsyncSetConnectCallback(context, on_connect);
    redisAsyncSetDisconnectCallback(context, on_disconnect);
}

static void redis_ready(struct watch *watch, uint32_t events)
{
    struct redis *redis = (struct redis *)(void *)watch;

    if (redis->context && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        redisAsyncHandleRead(redis->context);
    if (redis->context && events & EPOLLOUT)
        redisAsyncHandleWrite(redis->context);
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

/* Copies into the arena; -1: out of memory. Lists of lists are not needed, and are cut. */
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

static void call_take(struct redis *redis, struct call *call)
{
    struct call *before = NULL;

    for (struct call *at = redis->calls; at != call; at = at->next)
        before = at;
    if (before)
        before->next = call->next;
    else
        redis->calls = call->next;
    if (redis->calls_last == call)
        redis->calls_last = before;
    redis->call_count--;
}

/* It is up when it takes writes, for without them it is of no use. */
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

static void on_reply(redisAsyncContext *context, void *data, void *privdata)
{
    struct call *call = privdata;
    struct redis *redis = call->redis;
    const redisReply *reply = data;

    (void)context;
    call_take(redis, call);
    call->done = true;
    if (!call->rq) {
        if (call->probe && reply && redis->context)
            judge(redis, reply, call->sent_ms);
        free(call);
        return;
    }
    struct bb_redis_reply *copy = reply ? arena_alloc(call->rq->arena, sizeof *copy) : NULL;
    if (copy && !copy_reply(call->rq->arena, reply, copy, 0) && copy->type != BB_REDIS_ERROR)
        call->reply = copy;
    request_wake(call->rq);
}

/* Without memory hiredis may send a command and not know it: its answer would end the process. */
static struct call *send_call(struct redis *redis, struct core_request *rq, int argc,
                              const char *const *argv, const size_t *lengths)
{
    struct call *call = calloc(1, sizeof *call);

    if (!call)
        return NULL;
    *call = (struct call){.rq = rq, .redis = redis, .sent_ms = redis->loop->now_ms};
    const redisCallback *last = redis->context->replies.tail;
    int failed = redisAsyncCommandArgv(redis->context, on_reply, call, argc,
                                       (const char **)(uintptr_t)argv, lengths);

    if (failed || redis->context->replies.tail == last) {
        free(call);
        drop(redis, "out of memory");
        return NULL;
    }
    if (redis->calls_last)
        redis->calls_last->next = call;
    else
        redis->calls = call;
    redis->calls_last = call;
    redis->call_count++;
    return call;
}

/* A PING would be answered by a Redis that is full, or a replica that takes no writes. */
static void send_probe(struct redis *redis)
{
    static const char *const set[] = {"SET", "busbar:probe", "1", "PX", "1000"};

    struct call *call = send_call(redis, NULL, sizeof set / sizeof *set, set, NULL);

    if (call)
        call->probe = true;
    redis->probe_ms = redis->loop->now_ms + PROBE_MS;
}

static void on_tick(struct timer *timer)
{
    struct redis *redis = (struct redis *)(void *)((char *)timer - offsetof(struct redis, tick));
    int64_t now = redis->loop->now_ms;

    if (redis->calls && redis->calls->sent_ms + redis->settings.timeout_ms < now)
        drop(redis, "no answer within the time limit");
    else if (redis->context && !redis->ready && redis->again_ms <= now)
        drop(redis, "no connection within the time limit");
    if (!redis->context && redis->again_ms <= now)
        redis_connect(redis);
    else if (redis->ready && redis->probe_ms <= now)
        send_probe(redis);
    timer_set(&redis->loop->timers, timer, now + TICK_MS);
}

const struct bb_redis_reply *api_redis(struct bb_request *pub, int argc, const char *const *argv,
                                       const size_t *lengths)
{
    struct core_request *rq = request_of(pub);
    struct redis *redis = rq->loop->redis;

    if (!redis || !redis->ready || redis->call_count >= CALLS_MAX)
        return NULL;
    struct call *call = send_call(redis, rq, argc, argv, lengths);
    if (!call)
        return NULL;
    if (request_wait(rq, &call->done)) {
        call->rq = NULL; /* freed when its answer comes */
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
