#include "core/host/stop.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/host/job.h"
#include "core/host/reload.h"
#include "core/http/http.h"
#include "core/http/stream.h"
#include "core/observe/sd_notify.h"

enum { STOP_MS = 10000, WORKERS_MS = 8000, DRAIN_TICK_MS = 20, REST_S = 5 };

struct stop {
    struct message message; /* first */
    struct timer timer;
    struct loop *loop;
    int64_t until_ms;
};

static _Noreturn void end_now(const char *why, int status)
{
    log_line(BB_WARN, why, NULL);
    log_close();
    _exit(status);
}

/* A reload may hang in a lock of the database, or in a file that is a pipe. */
static void *rest(void *arg)
{
    (void)arg;
    sleep(REST_S);
    end_now("stopped with threads unfinished", 0);
}

void stop_rest(void)
{
    pthread_t thread;

    if (!pthread_create(&thread, NULL, rest, NULL))
        pthread_detach(thread);
    else
        alarm(REST_S); /* by the signal, then, and without a word */
}

/* The first loop ends last, for it takes what others hand on by bb_run() (run.c). */
static bool is_last(const struct loop *loop)
{
    for (unsigned i = 1; !loop->index && i < loop->engine->loop_count; i++) {
        if (!atomic_load(&loop->engine->loops[i].ended))
            return false;
    }
    return true;
}

static void stop_tick(struct timer *timer)
{
    struct stop *stop = BB_CONTAINER_OF(timer, struct stop, timer);
    struct loop *loop = stop->loop;
    bool empty = http_drain(loop->http);

    if (empty && !loop->requests && is_last(loop) && engine_idle(loop->engine) &&
        loop_quiet(loop)) {
        loop->stop = true;
        atomic_store(&loop->ended, true);
        return;
    }
    if (loop->now_ms >= stop->until_ms)
        end_now("stopped with requests unfinished", 1); /* they were cut, so all was not well */
    timer_set(&loop->timers, timer, loop->now_ms + DRAIN_TICK_MS);
}

static void end_jobs(struct loop *loop)
{
    struct generation *generation = engine_generation(loop->engine);

    jobs_end(generation->jobs, loop);
    generation_release(generation);
}

static void stop_begin(struct message *message)
{
    struct stop *stop = (struct stop *)(void *)message;

    end_jobs(stop->loop);
    streams_stop(stop->loop);
    stop->until_ms = stop->loop->now_ms + STOP_MS;
    stop_tick(&stop->timer);
}

struct signals {
    struct watch watch; /* first */
    struct engine *engine;
    struct stop *stops; /* one a loop */
};

static void stop_all(struct signals *signals)
{
    struct engine *engine = signals->engine;

    log_line(BB_INFO, "stopping", NULL);
    sd_notify_stopping();
    engine_stop(engine, engine->loops[0].now_ms + WORKERS_MS);
    for (unsigned i = 0; i < engine->loop_count; i++) {
        struct stop *stop = &signals->stops[i];

        *stop = (struct stop){
            .message.run = stop_begin, .timer.fire = stop_tick, .loop = &engine->loops[i]};
        loop_post(stop->loop, &stop->message);
    }
}

static void signals_ready(struct watch *watch, uint32_t events)
{
    struct signals *signals = (struct signals *)(void *)watch;
    struct signalfd_siginfo info;

    (void)events;
    while (read(watch->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP)
            reloader_ask(signals->engine->reloader, -1);
        else if (!engine_stopping(signals->engine))
            stop_all(signals);
    }
}

void signals_hold_reload(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void signals_block(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

struct signals *signals_new(struct engine *engine, const sigset_t *set)
{
    struct signals *signals = calloc(1, sizeof *signals);
    int fd = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);

    if (signals)
        signals->stops = calloc(engine->loop_count, sizeof *signals->stops);
    if (fd < 0 || !signals || !signals->stops)
        goto failed;
    signals->engine = engine;
    signals->watch = (struct watch){.fd = -1, .ready = signals_ready};
    if (!loop_watch(&engine->loops[0], &signals->watch, fd, EPOLLIN))
        return signals;
failed:
    if (fd >= 0)
        close(fd);
    if (signals)
        free(signals->stops);
    free(signals);
    return NULL;
}

void signals_free(struct signals *signals)
{
    if (!signals)
        return;
    close(signals->watch.fd);
    free(signals->stops);
    free(signals);
}
