#include "core/main/hang.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/control.h"
#include "core/main/serve.h"

enum {
    CHECK_MS = 1000,
    BLOCKED_MS = 1000,
    DOOR_MS = 100, /* maximum wait for a client between two checks while all loops are blocked */
    CLIENT_MS = 200,
    CLIENTS_MS = 500, /* time for all clients together, so that they do not delay the next check */
    CLIENTS = 64,
    HEAD_BYTES = 8192
};

static struct {
    pthread_t thread;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t news;
    bool runs, stop;
    struct engine *engine; /* NULL until hang_watch_loops() */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- answering clients while all loops are blocked ---- */

/* Escapes a text for a JSON string; cuts it if it does not fit. This thread allocates no memory. */
static void hang_escape(const char *text, char *out, size_t size)
{
    size_t length = strlen(text), used = 0, bytes;

    for (; length && used + 5 < size; text += bytes, length -= bytes) {
        int32_t c = text_code_point(text, length, &bytes);

        if (c < ' ' || c == 0x7f) { /* control characters, and bytes that are not UTF-8 */
            out[used++] = '?';
            continue;
        }
        if (c == '"' || c == '\\')
            out[used++] = '\\';
        memcpy(out + used, text, bytes);
        used += bytes;
    }
    out[used] = '\0';
}

void hang_answer(const struct listeners *listeners, int ms, const char *reason)
{
    struct pollfd fds[LISTENERS_MAX];

    for (size_t i = 0; i < listeners->count; i++)
        fds[i] = (struct pollfd){.fd = listeners->fds[i], .events = POLLIN};
    if (poll(fds, (nfds_t)listeners->count, ms) <= 0)
        return;
    int64_t until = clock_mono_ms() + CLIENTS_MS;

    for (int taken = 0; taken < CLIENTS && clock_mono_ms() < until; taken++) {
        int fd = -1;

        for (size_t i = 0; i < listeners->count && fd < 0; i++)
            fd = accept4(listeners->fds[i], NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return;
        char body[768], text[1280], id[TEXT_UUID_SIZE], message[512], head[HEAD_BYTES];
        int64_t head_ms = clock_mono_ms() + CLIENT_MS;

        hang_escape(reason, message, sizeof message);
        text_uuid7(id);
        snprintf(body, sizeof body,
                 "{\"statusCode\":503,\"message\":\"%s\",\"error\":\"Service Unavailable\","
                 "\"requestId\":\"%s\"}",
                 message, id);
        int length =
            snprintf(text, sizeof text,
                     "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                     "X-Request-Id: %s\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: "
                     "%zu\r\n\r\n%s",
                     id, strlen(body), body);

        /* reads the head: closing a connection with unread data would lose the response */
        control_read(fd, head, sizeof head, "\r\n\r\n", head_ms < until ? head_ms : until);
        (void)send(fd, text, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
        shutdown(fd, SHUT_WR);
        close(fd);
    }
}

/* ---- checking the loops ---- */

static void hang_check_loop(struct engine *engine, struct loop *loop, int64_t passed_ms)
{
    struct loop_seen *seen = &loop->seen;
    int64_t iteration_ms = atomic_load_explicit(&loop->iteration_ms, memory_order_relaxed);
    int64_t limit_ms = atomic_load(&lifecycle_limit_ms);
    static char reason[96];

    if (!iteration_ms || iteration_ms != seen->iteration_ms) {
        if (seen->logged)
            log_line(BB_WARN, "event loop resumed", LOG_NUMBER("loop", loop->index),
                     LOG_NUMBER("ms", seen->blocked_ms), NULL);
        *seen = (struct loop_seen){.iteration_ms = iteration_ms};
        atomic_store(&loop->stands_ms, 0);
        return;
    }
    seen->blocked_ms += passed_ms;
    if (seen->blocked_ms < BLOCKED_MS)
        return;
    if (!seen->logged) {
        static struct crash_snapshot snapshot;

        memset(&snapshot, 0, sizeof snapshot);
        bool known = crash_snapshot(loop->thread, &snapshot);

        log_line(BB_ERROR, "event loop blocked", LOG_NUMBER("loop", loop->index),
                 LOG_NUMBER("ms", seen->blocked_ms), "module", text_some(snapshot.module), "ran",
                 text_some(snapshot.kind), "what", text_some(snapshot.what), "request",
                 text_some(snapshot.request), "stack", known ? snapshot.stack : NULL, NULL);
        pthread_mutex_lock(&engine->lock);
        snprintf(engine->standstill, sizeof engine->standstill, "An event loop is blocked%s%s%s%s",
                 *snapshot.module ? " in module " : "", snapshot.module, *snapshot.what ? ", " : "",
                 snapshot.what);
        pthread_mutex_unlock(&engine->lock);
        atomic_fetch_add(&engine->stalls, 1);
    }
    seen->logged = true;
    atomic_store(&loop->stands_ms, seen->blocked_ms);
    if (!limit_ms || seen->blocked_ms < limit_ms)
        return;
    snprintf(reason, sizeof reason, "event loop blocked for %" PRId64 " ms (host.stall_timeout)",
             seen->blocked_ms);
    crash_end(loop->thread, reason);
}

/* ---- the thread ---- */

/* Waits `ms` milliseconds, or until the thread must end. Returns false if it must end. */
static bool hang_wait_for_next(int64_t ms, struct engine **engine)
{
    BB_LOCKED(&watch.lock);
    if (!watch.stop && ms)
        condition_wait(&watch.news, &watch.lock, clock_mono_ms() + ms);
    *engine = watch.engine;
    return !watch.stop;
}

static void *watch_main(void *arg)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    long meant = pid ? strtol(pid, NULL, 10) : (long)getpid();
    bool ours = meant == (long)getpid() || (supervised() && meant == (long)getppid());
    int64_t timeout_ms = usec && ours ? strtoll(usec, NULL, 10) / 1000 : 0; /* 0: no watchdog */
    int64_t checked_ms = clock_mono_ms();
    int64_t check_ms = timeout_ms && timeout_ms < 3 * CHECK_MS ? timeout_ms / 3 : CHECK_MS;
    struct engine *engine = NULL;
    bool all = false;

    (void)arg;
    thread_name("hang", NULL);
    while (hang_wait_for_next(all ? 0 : check_ms, &engine)) {
        if (all)
            hang_answer(&engine->listeners, DOOR_MS,
                        engine->standstill); /* no lock: only this thread writes it */
        int64_t now = clock_mono_ms(), passed_ms = now - checked_ms;

        checked_ms = now;
        if (passed_ms > 2 * CHECK_MS)
            passed_ms = 0; /* a process that was suspended does not hang */
        lifecycle_calls_check(passed_ms);
        unsigned blocked = 0;

        for (unsigned i = 0; engine && i < engine->loop_count; i++) {
            hang_check_loop(engine, &engine->loops[i], passed_ms);
            blocked += engine->loops[i].seen.logged;
        }
        all = engine && blocked == engine->loop_count;
        if (timeout_ms && !blocked)
            sd_notify("WATCHDOG=1");
    }
    return NULL;
}

int hang_watch_begin(void)
{
    sigset_t before, set;

    pthread_cond_init(&watch.news, NULL);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    signals_block(&set); /* the new thread inherits the mask; another thread handles signals */
    int failed = pthread_create(&watch.thread, NULL, watch_main, NULL);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    watch.runs = !failed;
    if (failed)
        log_line(BB_ERROR, "cannot start the stall watchdog thread", NULL);
    return failed ? -1 : 0;
}

void hang_watch_loops(struct engine *engine)
{
    BB_LOCKED(&watch.lock);
    watch.engine = engine;
}

void hang_watch_end(void)
{
    if (!watch.runs)
        return;
    pthread_mutex_lock(&watch.lock);
    watch.stop = true;
    pthread_cond_signal(&watch.news);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    watch.runs = false;
}
