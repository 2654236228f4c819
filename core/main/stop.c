#include "core/main/stop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/job.h"
#include "core/main/reload.h"
#include "core/main/sd_notify.h"
#include "core/server/http.h"
#include "core/server/stream.h"

enum { STOP_MS = 10000, LATE_MS = 1000, WORKERS_MS = 8000, DRAIN_TICK_MS = 20, REST_S = 5 };

struct stop {
    struct message message; /* first member */
    struct timer timer;
    struct loop *loop;
    int64_t until_ms;
};

static _Noreturn void stop_end_now(const char *why, int status)
{
    log_line(BB_WARN, why, NULL);
    log_close();
    crash_exits();
    _exit(status);
}

/* Ends the process after a time, because a reload may be blocked by a database lock or a pipe. */
static void *stop_rest_main(void *arg)
{
    (void)arg;
    sleep(REST_S);
    stop_end_now("stopped with threads unfinished", 0);
}

void stop_rest(void)
{
    pthread_t thread;

    if (!pthread_create(&thread, NULL, stop_rest_main, NULL)) {
        pthread_detach(thread);
        return;
    }
    signal(SIGALRM, SIG_DFL); /* ignored until now, see guard_process() */
    alarm(REST_S); /* without a thread, the signal ends the process, without a log line */
}

/* The first loop ends last, because during a stop it gets all work of bb_run() (job.c). */
static bool stop_is_last(const struct loop *loop)
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

    if (empty && !loop->requests && stop_is_last(loop) && engine_idle(loop->engine) &&
        loop_quiet(loop)) {
        loop->stop = true;
        atomic_store(&loop->ended, true);
        return;
    }
    /* requests were cut, so the exit status is not 0 */
    if (loop->now_ms >= stop->until_ms)
        stop_end_now("stopped with requests unfinished", 1);
    timer_set(&loop->timers, timer, loop->now_ms + DRAIN_TICK_MS);
}

static void stop_begin(struct message *message)
{
    struct stop *stop = (struct stop *)(void *)message;
    struct generation *generation = engine_generation(stop->loop->engine);

    jobs_end(generation->jobs, stop->loop);
    generation_release(generation);
    streams_stop(stop->loop);
    stop->until_ms = stop->loop->now_ms + STOP_MS;
    stop_tick(&stop->timer);
}

struct signals {
    struct engine *engine;
    struct stop *stops; /* one per loop */
    pthread_t thread;
    bool runs; /* the thread runs */
    int fd, end_fd;
    int64_t until_ms; /* deadline of a stop; 0: not stopping */
};

/* Returns the time left for the loops to end. Ends the process if no time is left. */
static int stop_wait_ms(const struct signals *signals)
{
    int64_t left = signals->until_ms - clock_mono_ms();

    if (!signals->until_ms)
        return -1;
    if (left <= 0)
        stop_end_now("stopped with a blocked event loop", 1);
    return (int)left;
}

static void *signals_main(void *arg)
{
    struct signals *signals = arg;
    struct pollfd fds[] = {{.fd = signals->fd, .events = POLLIN},
                           {.fd = signals->end_fd, .events = POLLIN}};
    struct signalfd_siginfo info;

    thread_name("signals", NULL);
    while (!fds[1].revents) {
        if (poll(fds, 2, stop_wait_ms(signals)) <= 0 || !fds[0].revents)
            continue;
        while (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info) {
            if (info.ssi_signo == SIGUSR1) {
                log_reopen();
            } else if (info.ssi_signo == SIGHUP) {
                reloader_ask(signals->engine->reloader, -1);
            } else if (!engine_stopping(signals->engine)) {
                struct engine *engine = signals->engine;

                log_line(BB_INFO, "stopping", NULL);
                sd_notify_stopping();
                signals->until_ms = clock_mono_ms() + STOP_MS + LATE_MS;
                engine_stop(engine, clock_mono_ms() + WORKERS_MS);
                for (unsigned i = 0; i < engine->loop_count; i++) {
                    struct stop *stop = &signals->stops[i];

                    *stop = (struct stop){.message.run = stop_begin,
                                          .timer.fire = stop_tick,
                                          .loop = &engine->loops[i]};
                    loop_post(stop->loop, &stop->message);
                }
            }
        }
    }
    return NULL;
}

void signals_hold_reload(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void signals_block(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void signals_drop(struct signals *signals)
{
    if (signals->fd >= 0)
        close(signals->fd);
    if (signals->end_fd >= 0)
        close(signals->end_fd);
    free(signals->stops);
    free(signals);
}

struct signals *signals_new(struct engine *engine, const sigset_t *set)
{
    struct signals *signals = calloc(1, sizeof *signals);

    if (!signals)
        return NULL;
    signals->engine = engine;
    signals->stops = calloc(engine->loop_count, sizeof *signals->stops);
    signals->fd = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
    signals->end_fd = eventfd(0, EFD_CLOEXEC);
    if (signals->stops && signals->fd >= 0 && signals->end_fd >= 0)
        return signals;
    signals_drop(signals);
    return NULL;
}

int signals_go(struct signals *signals)
{
    int failed = pthread_create(&signals->thread, NULL, signals_main, signals);

    if (failed)
        log_line(BB_ERROR, "cannot start the signal thread", NULL);
    signals->runs = !failed;
    return failed ? -1 : 0;
}

void signals_free(struct signals *signals)
{
    uint64_t one = 1;

    if (!signals)
        return;
    while (signals->runs && write(signals->end_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    if (signals->runs)
        pthread_join(signals->thread, NULL);
    signals_drop(signals);
}
