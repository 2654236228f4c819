/*
 * A module that crashes where a test wants it to: the file $CRASH_ORDER contains "PLACE WAY", and
 * the code in that place removes the file and obeys it. With "always" after them the file stays.
 */
#include <busbar/busbar.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 4096 };

static volatile int sink;

/* Hides the NULL from the compiler. */
static int *volatile nowhere;
static volatile int zero;

__attribute__((noinline)) static int overflow(int depth)
{
    volatile char frame[FRAME];

    frame[0] = (char)depth;
    frame[FRAME - 1] = frame[0];
    return depth > 1 << 20 ? 0 : overflow(depth + 1) + frame[FRAME - 1];
}

static void sleep_on(void)
{
    for (;;) { /* a signal ends a sleep early */
        struct timespec long_time = {.tv_sec = 3600};

        nanosleep(&long_time, NULL);
    }
}

__attribute__((noinline)) static void fall(const char *way)
{
    if (!strcmp(way, "segv"))
        *nowhere = 1;
    else if (!strcmp(way, "abort"))
        abort();
    else if (!strcmp(way, "divide"))
        raise(SIGFPE);
    else if (!strcmp(way, "overflow"))
        sink = overflow(1 + zero);
    else if (!strcmp(way, "sleep"))
        sleep_on();
    else if (!strcmp(way, "loop"))
        while (!zero)
            ;
    else if (!strcmp(way, "exit"))
        exit(0);
    else if (!strcmp(way, "_exit"))
        _exit(0);
}

static void at(const char *place)
{
    const char *path = getenv("CRASH_ORDER");
    FILE *file = path ? fopen(path, "re") : NULL;
    char wanted[32], way[32], more[32];

    if (!file)
        return;
    int words = fscanf(file, "%31s %31s %31s", wanted, way, more);
    fclose(file);
    if (words < 2 || strcmp(wanted, place) != 0)
        return;
    if (words < 3)
        unlink(path);
    fall(way);
}

__attribute__((constructor)) static void begin(void)
{
    at("constructor");
}

static int crash_open(struct bb_host *host, void **state)
{
    (void)host;
    (void)state;
    at("open");
    return 0;
}

static void crash_start(struct bb_host *host, void *state)
{
    (void)host;
    (void)state;
    at("start");
}

static void crash_quiesce(struct bb_host *host, void *state)
{
    (void)host;
    (void)state;
    at("quiesce");
}

static void crash_close(struct bb_host *host, void *state)
{
    (void)host;
    (void)state;
    at("close");
}

static void in_pool(void *arg)
{
    (void)arg;
    at("pool");
}

static int handler(struct bb_request *rq)
{
    struct bb_tx *unit = bb_unit(rq, 1);

    at("handler");
    if (bb_offload(rq, "deep", in_pool, NULL) ||
        bb_emit(rq, unit, "crash.went", json_object(), NULL))
        return bb_failed(rq);
    int done = bb_commit(rq, unit, 201, json_object());

    return done ? done : bb_failed(rq);
}

static int hook(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event, void *state)
{
    (void)rq;
    (void)tx;
    (void)event;
    (void)state;
    at("hook");
    return 0;
}

static void committed(struct bb_request *rq, const struct bb_event *event)
{
    (void)rq;
    (void)event;
    at("committed");
}

static void job(struct bb_request *rq)
{
    (void)rq;
    at("job");
}

static void worker(struct bb_worker_context *context)
{
    struct pollfd wake = {.fd = context->wake_fd, .events = POLLIN};

    while (!bb_stopping(context)) {
        at("worker");
        poll(&wake, 1, 20);
    }
}

static void heard(void *state, const char *payload)
{
    (void)state;
    (void)payload;
    at("channel");
}

static const struct bb_route routes[] = {
    {.method = "POST",
     .path = "/crash",
     .roles = BB_ANYONE,
     .handler = handler,
     .flags = BB_NO_BODY},
};

static const struct bb_event_descriptor events[] = {{"crash.went", 1, {0}, "Something went well."}};

static const struct bb_hook hooks[] = {
    {.event = "crash.went", .kind = BB_WITHIN, .within = hook},
    {.event = "crash.went", .kind = BB_COMMITTED, .committed = committed},
};

static const struct bb_job jobs[] = {{.name = "crash-job", .every_s = 1, .run = job}};
static const struct bb_pool pools[] = {{.name = "deep", .threads = 1, .queue = 8}};
static const struct bb_worker workers[] = {{.name = "extra", .run = worker}};
static const struct bb_channel channels[] = {{.name = "crash_told", .heard = heard}};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("crash", "1.0.0"),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .hooks = BB_TABLE(hooks),
    .jobs = BB_TABLE(jobs),
    .pools = BB_TABLE(pools),
    .workers = BB_TABLE(workers),
    .channels = BB_TABLE(channels),
    .open = crash_open,
    .start = crash_start,
    .quiesce = crash_quiesce,
    .close = crash_close,
};
