#include "core/store/redis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/redis_url.h"
#include "core/lib/text.h"
#include "core/module/reply.h"
#include "core/store/dial.h"

enum { PROBE_MS = 4 * TIMER_IDLE_MS, AGAIN_MS = 250, CALLS_MAX = 4096 };

/*
 * ---- a link: a socket, with TLS if the URL requires it ----
 *
 * Opening a link blocks, on a helper thread (dial.h). After that, reading and writing do not block.
 */

enum { READ_BYTES = 16384 };

/* Argument of the helper thread. Contains all texts, as the thread may outlive the caller. */
struct redis_target {
    int64_t timeout_ms;
    const char *url, *authorities;
    char texts[];
};

struct redis_link {
    int fd;
    BIO *bio; /* of the socket, or of TLS on the socket */
    redisReader *reader;
    char *out; /* bytes to send */
    size_t out_length;
    int64_t timeout_ms; /* limit for each reply while the link is opened */
};

/* Reads or writes. Returns the number of bytes, or -1 with errno (EAGAIN: wait for the socket). */
static ssize_t link_transfer(struct redis_link *link, bool reads, char *bytes, size_t size)
{
    int most = (int)(size < READ_BYTES ? size : READ_BYTES);

    ERR_clear_error();
    errno = 0;
    int count = reads ? BIO_read(link->bio, bytes, most) : BIO_write(link->bio, bytes, most);

    if (count > 0)
        return count;
    if (BIO_should_retry(link->bio))
        errno = errno == EINTR ? EINTR : EAGAIN;
    else if (!count || !errno)
        errno = count ? EPROTO : ECONNRESET;
    return -1;
}

/* Appends a command to the bytes to send. Returns 0, or -1 if memory ran out. */
static int link_append(struct redis_link *link, int argc, const char *const *argv,
                       const size_t *lengths)
{
    char *command = NULL;
    long long length =
        redisFormatCommandArgv(&command, argc, (const char **)(uintptr_t)argv, lengths);
    char *out = length < 0 ? NULL : realloc(link->out, link->out_length + (size_t)length);

    if (out) {
        link->out = out;
        memcpy(out + link->out_length, command, (size_t)length);
        link->out_length += (size_t)length;
    }
    redisFreeCommand(command);
    return out ? 0 : -1;
}

/* Sends link->out. Returns 0 if all of it was sent, 1 if a rest is left, -1 if sending failed. */
static int link_send(struct redis_link *link)
{
    size_t sent = 0;

    while (sent < link->out_length) {
        ssize_t count = link_transfer(link, false, link->out + sent, link->out_length - sent);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno != EAGAIN)
            return -1;
        if (count < 0)
            break;
        sent += (size_t)count;
    }
    link->out_length -= sent;
    if (link->out_length)
        memmove(link->out, link->out + sent, link->out_length);
    return link->out_length > 0;
}

static void link_close(void *arg)
{
    struct redis_link *link = arg;

    if (!link)
        return;
    BIO_free_all(link->bio);
    if (link->fd >= 0)
        close(link->fd);
    if (link->reader)
        redisReaderFree(link->reader);
    free(link->out);
    free(link);
}

/* ---- opening ---- */

/* Sends a command and waits for its reply. Returns NULL with the reason in `problem` on failure. */
static redisReply *link_call(struct redis_link *link, const char *const *argv,
                             char problem[DIAL_PROBLEM])
{
    char bytes[READ_BYTES];
    void *reply = NULL;
    int argc = 0;
    int64_t until_ms = clock_mono_ms() + link->timeout_ms;

    while (argv[argc])
        argc++;
    errno = ENOMEM;
    bool failed = link_append(link, argc, argv, NULL) || link_send(link);

    while (!failed && !reply) {
        ssize_t count = link_transfer(link, true, bytes, sizeof bytes);

        if (count < 0 && errno == EINTR)
            continue;
        failed = count < 0 || redisReaderFeed(link->reader, bytes, (size_t)count) != REDIS_OK ||
                 redisReaderGetReply(link->reader, &reply) != REDIS_OK;
        if (!failed && !reply && clock_mono_ms() > until_ms) { /* the reply arrives too slowly */
            errno = EAGAIN;
            failed = true;
        }
    }
    if (failed && link->reader->err)
        snprintf(problem, DIAL_PROBLEM, "invalid reply: %s", link->reader->errstr);
    else if (failed)
        snprintf(problem, DIAL_PROBLEM, "%s", // NOLINT: glibc's strerror() has no race
                 errno == EAGAIN ? "no response within the time limit" : strerror(errno));
    return reply;
}

/* Sends a command that must succeed. Returns 0, or -1 with the reason in `problem`. */
static int link_must(struct redis_link *link, const char *const *argv, char problem[DIAL_PROBLEM])
{
    redisReply *reply = link_call(link, argv, problem);

    if (!reply)
        return -1;
    int status = reply->type == REDIS_REPLY_ERROR ? -1 : 0;

    if (status) /* omits the rest: some servers quote arguments, such as the password */
        snprintf(problem, DIAL_PROBLEM, "%s: %.*s", argv[0], (int)strcspn(reply->str, "\"'`,"),
                 reply->str);
    freeReplyObject(reply);
    return status;
}

/* Starts TLS and verifies the server's certificate. Returns NULL with the reason in `problem`. */
static BIO *link_begin_tls(int fd, const char *host, const char *authorities,
                           char problem[DIAL_PROBLEM])
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    unsigned char address[sizeof(struct in6_addr)];
    bool is_address =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    BIO *bio = NULL;
    SSL *tls = NULL;

    ERR_clear_error();
    bool good = context && SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) &&
                (*authorities ? SSL_CTX_load_verify_locations(context, authorities, NULL)
                              : SSL_CTX_set_default_verify_paths(context));

    if (good) {
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_mode(context,
                         SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        bio = BIO_new_ssl(context, 1);
        good = bio && BIO_get_ssl(bio, &tls) && SSL_set_fd(tls, fd);
    }
    if (good)
        good = is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host)
                          : SSL_set1_host(tls, host) && SSL_set_tlsext_host_name(tls, host);
    if (!good || SSL_connect(tls) != 1) {
        long verified = tls ? SSL_get_verify_result(tls) : X509_V_OK;
        unsigned long error = ERR_get_error();

        snprintf(problem, DIAL_PROBLEM, "TLS: %s",
                 verified != X509_V_OK ? X509_verify_cert_error_string(verified)
                 : error               ? ERR_reason_error_string(error)
                                       : "the handshake failed");
        BIO_free_all(bio);
        bio = NULL;
    }
    SSL_CTX_free(context);
    return bio;
}

/* Connects to the first address that works. Returns the descriptor, or -1 with errno. */
static int link_connect(const struct addrinfo *at, int64_t timeout_ms)
{
    const struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    int fd = -1, error = EADDRNOTAVAIL, one = 1;

    for (; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        /* SO_SNDTIMEO applies to connect(), too */
        if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) &&
            !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) &&
            !connect(fd, at->ai_addr, at->ai_addrlen))
            break;
        error = errno == EINPROGRESS ? ETIMEDOUT : errno;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    if (fd >= 0 && at->ai_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    errno = error;
    return fd;
}

/* Returns a link with blocking I/O, or NULL. If `server` is NULL, uses the URL's Unix socket. */
static struct redis_link *link_new(const struct redis_url *url, const struct redis_server *server,
                                   const struct redis_target *target, char problem[DIAL_PROBLEM])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct redis_link *link = calloc(1, sizeof *link);
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct addrinfo local = {
        .ai_family = AF_UNIX, .ai_addr = (struct sockaddr *)&path, .ai_addrlen = sizeof path};
    struct addrinfo *found = NULL;
    int unknown = 0;

    snprintf(problem, DIAL_PROBLEM, "out of memory");
    if (!link)
        return NULL;
    link->timeout_ms = target->timeout_ms;
    link->reader = redisReaderCreate();
    if (server)
        unknown = getaddrinfo(server->host, server->port, &hints, &found);
    else if (strlen(url->path) < sizeof path.sun_path)
        memcpy(path.sun_path, url->path, strlen(url->path) + 1);
    link->fd = link_connect(server ? found : *path.sun_path ? &local : NULL, target->timeout_ms);
    int error = errno;

    if (found)
        freeaddrinfo(found);
    if (link->fd < 0)
        snprintf(problem, DIAL_PROBLEM, "%s", // NOLINT: glibc's strerror() has no race
                 unknown ? gai_strerror(unknown) : strerror(error));
    /* by default, hiredis frees a large buffer, and asserts that it can allocate another */
    if (link->reader)
        link->reader->maxbuf = 0;
    if (link->fd >= 0)
        link->bio = url->tls && server
                        ? link_begin_tls(link->fd, server->host, target->authorities, problem)
                        : BIO_new_socket(link->fd, BIO_NOCLOSE);
    if (link->reader && link->bio)
        return link;
    link_close(link);
    return NULL;
}

/* Sends AUTH if the URL has a password. Ignores errors of Sentinels, which may have no password. */
static int link_authenticate(struct redis_link *link, const struct redis_url *url, bool sentinel,
                             char problem[DIAL_PROBLEM])
{
    const char *both[] = {"AUTH", url->user, url->password, NULL};
    const char *one[] = {"AUTH", url->password, NULL};

    if (!url->password)
        return 0;
    return link_must(link, url->user ? both : one, problem) && !sentinel ? -1 : 0;
}

/* Asks one Sentinel for the master. Returns 0, or -1 with the reason in `problem`. */
static int link_ask(const struct redis_url *url, const struct redis_server *sentinel,
                    const struct redis_target *target, struct arena *arena,
                    struct redis_server *master, char problem[DIAL_PROBLEM])
{
    const char *ask[] = {"SENTINEL", "get-master-addr-by-name", url->master, NULL};
    struct redis_link *link = link_new(url, sentinel, target, problem);
    redisReply *reply = NULL;

    if (link && !link_authenticate(link, url, true, problem))
        reply = link_call(link, ask, problem);
    link_close(link);
    if (!reply)
        return -1;
    *master = (struct redis_server){0};
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->str &&
        reply->element[1]->str) {
        master->host = arena_text(arena, reply->element[0]->str, (size_t)reply->element[0]->len);
        master->port = arena_text(arena, reply->element[1]->str, (size_t)reply->element[1]->len);
    } else {
        snprintf(problem, DIAL_PROBLEM, "a Sentinel does not know the master \"%s\"", url->master);
    }
    freeReplyObject(reply);
    return master->host && master->port ? 0 : -1;
}

/*
 * Opens a link to `server`, or, if it is NULL, to the Unix socket in the URL. Authenticates, and
 * chooses the database. If the server was named by Sentinels, checks that it is the master.
 */
static struct redis_link *link_to(const struct redis_url *url, const struct redis_server *server,
                                  const struct redis_target *target, char problem[DIAL_PROBLEM])
{
    char number[16];
    const char *choose[] = {"SELECT", number, NULL};
    const char *ask[] = {"ROLE", NULL};
    struct redis_link *link = link_new(url, server, target, problem);
    bool good = link && !link_authenticate(link, url, false, problem);

    snprintf(number, sizeof number, "%u", url->database);
    if (good && url->database)
        good = !link_must(link, choose, problem);
    if (good && url->master) {
        redisReply *role = link_call(link, ask, problem);

        good = role && role->type == REDIS_REPLY_ARRAY && role->elements && role->element[0]->str &&
               !strcmp(role->element[0]->str, "master");
        if (role && !good)
            snprintf(problem, DIAL_PROBLEM, "the Sentinels name a server that is not a master");
        freeReplyObject(role);
    }
    if (good)
        return link;
    link_close(link);
    return NULL;
}

/*
 * Opens a link to a server that accepts commands: finds the master by Sentinels, authenticates, and
 * chooses the database. `to` is a struct redis_target. Returns NULL with the reason in `problem`.
 */
static void *link_open(const void *to, bool again, char problem[DIAL_PROBLEM])
{
    const struct redis_target *target = to;
    struct arena *arena = arena_new();
    struct redis_link *link = NULL;
    struct redis_server master;
    struct redis_url url;

    (void)again;
    snprintf(problem, DIAL_PROBLEM, "out of memory");
    if (arena && !redis_url_parse(target->url, arena, &url)) {
        for (size_t i = 0; !link && url.master && i < url.count; i++) {
            if (!link_ask(&url, &url.servers[i], target, arena, &master, problem))
                link = link_to(&url, &master, target, problem);
        }
        if (!url.master)
            link = link_to(&url, url.path ? NULL : &url.servers[0], target, problem);
    }
    arena_free(arena);
    if (link && fcntl(link->fd, F_SETFL, O_NONBLOCK)) {
        link_close(link);
        link = NULL;
    }
    return link;
}

/* ---- the connection of a loop ---- */

/* A command in progress. Replies arrive in the order of the commands. */
struct call {
    STAILQ_ENTRY(call) next;
    struct core_request *rq; /* NULL: a probe, or the caller no longer waits */
    int64_t sent_ms;
    bool probe;
    bool done;
    const struct bb_redis_reply *reply;
};

struct redis {
    struct watch watch; /* first, because redis_ready() casts it to struct redis */
    struct loop *loop;
    struct redis_link *link; /* NULL while not connected */
    struct dial *dial;       /* NULL unless an attempt to connect is in progress */
    struct timer tick;
    int64_t again_ms, probe_ms;
    _Atomic int64_t latency_ms;
    STAILQ_HEAD(, call) calls; /* oldest first */
    size_t call_count;
    bool by_sentinel, demoted; /* demoted: the server became a replica, so ask the Sentinels */
    bool down_logged;          /* the log has reported that Redis is down or refuses writes */
};

/* Sets the timer to the next timeout of a call, the next probe, or the next attempt to connect. */
static void redis_wake_in_time(struct redis *redis)
{
    int64_t at_ms = redis->link ? redis->probe_ms : redis->again_ms;
    const struct call *oldest = STAILQ_FIRST(&redis->calls);

    if (oldest && oldest->sent_ms + redis->loop->host->redis.timeout < at_ms)
        at_ms = oldest->sent_ms + redis->loop->host->redis.timeout + 1;
    timer_set(&redis->loop->timers, &redis->tick, at_ms);
}

/* Copies a reply into the arena. Lists below the second level become empty. -1: out of memory. */
static int redis_copy_reply(struct arena *arena, const redisReply *from, struct bb_redis_reply *to,
                            int depth)
{
    static const enum bb_redis_type types[] = {
        [REDIS_REPLY_INTEGER] = BB_REDIS_INT, [REDIS_REPLY_STRING] = BB_REDIS_TEXT,
        [REDIS_REPLY_STATUS] = BB_REDIS_TEXT, [REDIS_REPLY_ARRAY] = BB_REDIS_LIST,
        [REDIS_REPLY_ERROR] = BB_REDIS_ERROR,
    };
    bool known = (size_t)from->type < sizeof types / sizeof *types;

    *to = (struct bb_redis_reply){.type = known ? types[from->type] : BB_REDIS_NIL,
                                  .integer = from->integer};
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
    struct call *call = STAILQ_FIRST(&redis->calls);

    STAILQ_REMOVE_HEAD(&redis->calls, next);
    redis->call_count--;
    call->done = true;
    if (!call->rq) {
        if (call->probe && reply) { /* the probe is a SET, because Redis must accept writes */
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
    link_close(link);
    while (!STAILQ_EMPTY(&redis->calls))
        redis_answer(redis, NULL);
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

/*
 * Reads up to 16 KiB of arrived bytes, and completes the calls whose replies are complete. epoll
 * reports further bytes again, so a server that never stops sending does not block the loop.
 */
static void redis_receive(struct redis *redis)
{
    char reason[128], bytes[READ_BYTES];
    bool closed = false;

    do {
        ssize_t count = link_transfer(redis->link, true, bytes, sizeof bytes);

        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        closed =
            count < 0 || redisReaderFeed(redis->link->reader, bytes, (size_t)count) != REDIS_OK;
    } while (!closed && BIO_pending(redis->link->bio));
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
        if (!STAILQ_EMPTY(&redis->calls))
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

/* Sends the waiting commands, as many as the socket takes. Returns 0, or -1 on failure. */
static int redis_send_gathered(struct redis *redis)
{
    int left = link_send(redis->link);

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

/* Sends a command. Returns NULL if it cannot be sent; then the connection may be closed. */
static struct call *redis_send_call(struct redis *redis, struct core_request *rq, int argc,
                                    const char *const *argv, const size_t *lengths)
{
    struct call *call = calloc(1, sizeof *call);

    if (!call)
        return NULL;
    *call = (struct call){.rq = rq, .sent_ms = clock_mono_ms()};
    if (link_append(redis->link, argc, argv, lengths) || redis_send_gathered(redis)) {
        free(call);
        redis_drop(redis, "cannot send command");
        return NULL;
    }
    STAILQ_INSERT_TAIL(&redis->calls, call, next);
    redis->call_count++;
    if (STAILQ_FIRST(&redis->calls) == call)
        redis_wake_in_time(redis);
    return call;
}

static void redis_on_tick(struct timer *timer)
{
    static const struct dial_kind kind = {link_open, link_close, 0, false};
    static const char *const set[] = {"SET", "busbar:probe", "1", "PX", "1000"};
    struct redis *redis = BB_CONTAINER_OF(timer, struct redis, tick);
    int64_t now = redis->loop->now_ms;

    const struct call *oldest = STAILQ_FIRST(&redis->calls);

    if (oldest && oldest->sent_ms + redis->loop->host->redis.timeout < now) {
        size_t count = redis->call_count;

        redis_receive(redis); /* the reply may have arrived while the loop was busy */
        if (redis->call_count == count)
            redis_drop(redis, "no response within the time limit");
    }
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
    const struct host_settings *host = redis->loop->host;
    size_t url = strlen(host->redis.url) + 1, authorities = strlen(host->redis.authorities) + 1;
    struct redis_target *to = malloc(sizeof *to + url + authorities);

    if (to) {
        to->timeout_ms = host->redis.timeout;
        to->url = memcpy(to->texts, host->redis.url, url);
        to->authorities = memcpy(to->texts + url, host->redis.authorities, authorities);
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
        call->rq = NULL; /* redis_answer() will free the call */
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

struct redis *redis_new(struct loop *loop)
{
    struct redis *redis = calloc(1, sizeof *redis);

    if (!redis)
        return NULL;
    STAILQ_INIT(&redis->calls);
    redis->watch = (struct watch){.fd = -1, .ready = redis_ready};
    redis->loop = loop;
    redis->by_sentinel = strstr(loop->host->redis.url, "+sentinel://") != NULL;
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
