#include "core/store/redis.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/module/module_error.h"
#include "core/store/dial.h"
#include "core/store/redis_link.h"

enum { PROBE_MS = 4 * TIMER_IDLE_MS, AGAIN_MS = 250, CALLS_MAX = 4096 };

/* A command in progress. Replies arrive in the order of the commands. */
struct call {
    struct call *next;
    struct core_request *rq; /* NULL: abandoned, or a probe */
    int64_t sent_ms;
    bool probe;
    bool done;
    const struct bb_redis_reply *reply;
};

/* The argument of the thread that connects: a copy, because the thread may outlive the caller. */
struct redis_target {
    int64_t timeout_ms;
    size_t authorities; /* index in `texts` of the second text; the first is the URL */
    char texts[];
};

struct redis {
    struct watch watch; /* first member */
    struct loop *loop;
    struct redis_settings settings;
    struct redis_link *link; /* NULL: not connected */
    struct dial *dial;       /* NULL: not connecting */
    struct timer tick;
    int64_t again_ms, probe_ms;
    _Atomic int64_t latency_ms;
    struct call *calls, *calls_last; /* oldest first */
    size_t call_count;
    bool by_sentinel, demoted; /* a replica: ask the Sentinels again */
    bool down_logged; /* logged that it is down or refuses writes; no write has succeeded since */
};

/* Sets the timer for the next call, connection or probe. */
static void redis_wake_in_time(struct redis *redis)
{
    int64_t at_ms = redis->link ? redis->probe_ms : redis->again_ms;

    if (redis->calls && redis->calls->sent_ms + redis->settings.timeout_ms < at_ms)
        at_ms = redis->calls->sent_ms + redis->settings.timeout_ms + 1;
    timer_set(&redis->loop->timers, &redis->tick, at_ms);
}

static enum bb_redis_type redis_type_of(const redisReply *reply)
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

/* Copies a reply into the arena, without lists in lists. Returns 0, or -1 if out of memory. */
static int redis_copy_reply(struct arena *arena, const redisReply *from, struct bb_redis_reply *to,
                            int depth)
{
    *to = (struct bb_redis_reply){.type = redis_type_of(from), .integer = from->integer};
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
        if (redis_copy_reply(arena, from->element[i], &items[i], depth + 1))
            return -1;
    }
    return 0;
}

/* Completes the oldest call with a reply; NULL: no reply will come. */
static void redis_answer(struct redis *redis, const redisReply *reply)
{
    struct call *call = redis->calls;

    redis->calls = call->next;
    redis->call_count--;
    call->done = true;
    if (!call->rq) {
        if (call->probe && reply) { /* of a write: Redis is useless if it refuses writes */
            bool good = reply->type == REDIS_REPLY_STATUS;
            const char *why = reply->str ? reply->str : "unexpected reply to SET";

            redis->demoted = redis->by_sentinel && !good && !strncmp(why, "READONLY", 8);
            redis->latency_ms = good ? clock_mono_ms() - call->sent_ms : -1;
            if (good && redis->down_logged)
                log_line(BB_WARN, "Redis responds again", NULL);
            else if (!good && !redis->down_logged)
                log_line(BB_WARN, "Redis refuses writes", "reason", why, NULL);
            redis->down_logged = !good;
        }
        free(call);
        return;
    }
    struct bb_redis_reply *copy = reply ? arena_alloc(call->rq->arena, sizeof *copy) : NULL;
    if (copy && !redis_copy_reply(call->rq->arena, reply, copy, 0) && copy->type != BB_REDIS_ERROR)
        call->reply = copy;
    request_wake(call->rq);
}

/* Closes the connection, or cancels connecting; waiting calls get no reply. */
static void redis_drop(struct redis *redis, const char *reason)
{
    struct redis_link *link = redis->link;

    loop_watch(redis->loop, &redis->watch, -1, 0);
    dial_free(redis->dial);
    redis->dial = NULL;
    redis->link = NULL;
    redis->latency_ms = -1;
    redis->again_ms = redis->loop->now_ms + AGAIN_MS;
    redis_wake_in_time(redis);
    if (!redis->down_logged)
        log_line(BB_WARN, "Redis cannot be reached", "reason", reason, NULL);
    redis->down_logged = true;
    redis_link_close(link);
    while (redis->calls)
        redis_answer(redis, NULL);
}

/* ---- connecting, on a helper thread ------------------------------- */

static void *redis_dial_connect(const void *to, bool again, char problem[DIAL_PROBLEM])
{
    const struct redis_target *target = to;

    (void)again;
    return redis_link_open(
        &(struct redis_link_options){.url = target->texts,
                                     .authorities = target->texts + target->authorities,
                                     .timeout_ms = target->timeout_ms},
        problem);
}

static void redis_dial_close(void *link)
{
    redis_link_close(link);
}

/* Called when the attempt to connect has ended. */
static void redis_connected(void *arg, void *link, const char *problem)
{
    struct redis *redis = arg;

    redis->dial = NULL;
    redis->link = link;
    redis->demoted = false;
    redis->probe_ms = 0;
    if (!link)
        redis_drop(redis, problem);
    else if (loop_watch(redis->loop, &redis->watch, redis->link->fd, EPOLLIN))
        redis_drop(redis, strerror(errno));
    else
        redis_wake_in_time(redis);
}

/* ---- commands ----------------------------------------------------- */

static void redis_receive(struct redis *redis)
{
    char reason[128];
    int closed = redis_link_receive(redis->link);

    if (closed)
        snprintf(reason, sizeof reason, "%s", // NOLINT: glibc's strerror() has no race
                 redis->link->reader->err ? redis->link->reader->errstr : strerror(errno));
    while (redis->link) {
        void *reply = NULL;

        if (redisReaderGetReply(redis->link->reader, &reply) != REDIS_OK) {
            redis_drop(redis, "invalid reply");
            return;
        }
        if (!reply)
            break;
        if (redis->calls)
            redis_answer(redis, reply);
        freeReplyObject(reply);
    }
    if (redis->link && closed)
        redis_drop(redis, reason);
    else if (redis->link && redis->demoted)
        redis_drop(redis, "the server is no longer the master");
    else
        redis_wake_in_time(redis);
}

/* Sends the commands to send; -1: the connection is unusable. */
static int redis_send_gathered(struct redis *redis)
{
    int left = redis_link_send(redis->link);

    return left < 0 ? -1
                    : loop_watch(redis->loop, &redis->watch, redis->link->fd,
                                 left ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void redis_ready(struct watch *watch, uint32_t events)
{
    struct redis *redis = (struct redis *)(void *)watch;

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        redis_receive(redis);
    if (redis->link && events & EPOLLOUT && redis_send_gathered(redis))
        redis_drop(redis, "cannot send command");
}

/* Sends a command. NULL: it was not sent, and the connection may be closed. */
static struct call *redis_send_call(struct redis *redis, struct core_request *rq, int argc,
                                    const char *const *argv, const size_t *lengths)
{
    struct call *call = calloc(1, sizeof *call);

    if (!call)
        return NULL;
    *call = (struct call){.rq = rq, .sent_ms = redis->loop->now_ms};
    if (redis_link_append(redis->link, argc, argv, lengths) || redis_send_gathered(redis)) {
        free(call);
        redis_drop(redis, "cannot send command");
        return NULL;
    }
    if (redis->calls)
        redis->calls_last->next = call;
    else
        redis->calls = call;
    redis->calls_last = call;
    redis->call_count++;
    if (redis->calls == call)
        redis_wake_in_time(redis);
    return call;
}

static void redis_on_tick(struct timer *timer)
{
    static const struct dial_kind kind = {redis_dial_connect, redis_dial_close, 0};
    static const char *const set[] = {"SET", "busbar:probe", "1", "PX", "1000"};
    struct redis *redis = BB_CONTAINER_OF(timer, struct redis, tick);
    int64_t now = redis->loop->now_ms;

    if (redis->calls && redis->calls->sent_ms + redis->settings.timeout_ms < now)
        redis_drop(redis, "no response within the time limit");
    if (redis->link && redis->probe_ms <= now) {
        redis->probe_ms = timer_beat(now, PROBE_MS);
        /* a write, because a Redis that refuses writes still answers a PING */
        struct call *call = redis_send_call(redis, NULL, sizeof set / sizeof *set, set, NULL);

        if (call)
            call->probe = true;
    }
    if (redis->link || redis->again_ms > now) {
        redis_wake_in_time(redis);
        return;
    }
    if (redis->dial)
        return;
    size_t url = strlen(redis->settings.url) + 1;
    size_t authorities = strlen(redis->settings.authorities) + 1;
    struct redis_target *to = malloc(sizeof *to + url + authorities);

    if (to) {
        *to = (struct redis_target){.timeout_ms = redis->settings.timeout_ms, .authorities = url};
        memcpy(to->texts, redis->settings.url, url);
        memcpy(to->texts + url, redis->settings.authorities, authorities);
        redis->dial = dial_new(redis->loop, &kind, to, redis_connected, redis);
    }
    if (redis->dial)
        return;
    redis->again_ms = now + AGAIN_MS;
    redis_wake_in_time(redis);
}

const struct bb_redis_reply *api_redis(struct bb_request *pub, int argc, const char *const *argv,
                                       const size_t *lengths)
{
    struct core_request *rq = request_of(pub);
    struct redis *redis = rq->loop->redis;

    if (module_error_waits(rq, "bb_redis()"))
        return NULL;
    if (!redis || !redis->link || redis->down_logged || redis->call_count >= CALLS_MAX)
        return NULL;
    struct call *call = redis_send_call(redis, rq, argc, argv, lengths);
    if (!call)
        return NULL;
    if (request_wait(rq, &call->done)) {
        call->rq = NULL; /* freed when its reply arrives */
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
    redis->by_sentinel = strstr(settings->url, "+sentinel://") != NULL;
    redis->latency_ms = -1;
    redis->tick.fire = redis_on_tick;
    redis_on_tick(&redis->tick);
    return redis;
}

void redis_free(struct redis *redis)
{
    redis->down_logged = true;
    redis_drop(redis, "");
    timer_clear(&redis->loop->timers, &redis->tick);
    free(redis);
}
