/*
 * wave: a module for the tests of reloads. It is built as versions 1 to 3 (WAVE), which replace
 * each other while the host runs; it logs its life cycle, and has one of everything that must
 * follow a reload: a route, a setting, a pool, a worker, a job, a channel, a schema step.
 */
#include <fcntl.h>
#include <unistd.h>

#include <busbar/busbar.h>

#define QUOTED(number) #number
#define TEXT_OF(number) QUOTED(number)
#define NAME "wave " TEXT_OF(WAVE)

static const char schema[] = "-- step 1: a table\n"
                             "CREATE TABLE wave (n int);\n"
#if WAVE == 2
                             "-- step 2: a column more\n"
                             "ALTER TABLE wave ADD COLUMN m int;\n"
#elif WAVE == 3
                             "-- step 2: a column of no type\n"
                             "ALTER TABLE wave ADD COLUMN m wavelength;\n"
#endif
    ;

static const struct bb_field settings[] = {
    {.name = "greeting", .type = BB_TEXT, .fallback = "hello", .max = 64},
    {.name = "fail", .type = BB_BOOL, .fallback = "false", .help = "Opening fails."},
    {.name = "slowly",
     .type = BB_INT,
     .max = 5000,
     .fallback = "0",
     .help = "Milliseconds to open."},
    {.name = "tick",
     .type = BB_INT,
     .max = 60000,
     .fallback = "0",
     .help = "Milliseconds of a job."},
    {.name = "gate",
     .type = BB_TEXT,
     .fallback = "",
     .max = 200,
     .help = "Requests to /api/wave/hold end when this file has a byte."},
    {.name = "depth", .type = BB_INT, .flags = BB_RESTART, .max = 9, .fallback = "1"},
};

static void say(struct bb_host *host, const char *what)
{
    bb_host_log(host, BB_INFO, NAME " %s (%s)", what, bb_setting_text(host, "greeting"));
}

static int greet(struct bb_request *rq)
{
    return bb_reply(rq, 200,
                    json_pack("{s:i, s:s}", "version", WAVE, "greeting",
                              bb_setting_text(rq->host, "greeting")));
}

static void sleep_ms(void *ms)
{
    usleep(*(const unsigned *)ms * 1000);
}

/* Keeps its generation alive for `ms` milliseconds, in a thread of the pool. */
static int nap(struct bb_request *rq)
{
    unsigned ms = (unsigned)bb_arg_int(rq, "ms", 0);

    if (bb_offload(rq, "nap", sleep_ms, &ms))
        return bb_failed(rq);
    return greet(rq);
}

static void read_byte(void *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char byte;

    while (fd >= 0 && read(fd, &byte, 1) != 1)
        usleep(1000);
    if (fd >= 0)
        close(fd);
}

/* Holds a thread of the pool until the test lets it go. */
static int hold(struct bb_request *rq)
{
    if (bb_offload(rq, "nap", read_byte, (char *)(uintptr_t)bb_setting_text(rq->host, "gate")))
        return bb_failed(rq);
    return greet(rq);
}

static void run_late(struct bb_request *rq, void *arg)
{
    (void)arg;
    say(rq->host, "ran late");
}

/* Sleeps, and then schedules a function on every loop. */
static int hand_on(struct bb_request *rq)
{
    unsigned ms = (unsigned)bb_arg_int(rq, "ms", 0);

    say(rq->host, "naps");
    if (bb_offload(rq, "nap", sleep_ms, &ms))
        return bb_failed(rq);
    for (int i = 0; i < 8; i++) {
        if (bb_run(rq->host, run_late, NULL))
            return bb_fail(rq, 503, "No memory");
    }
    return greet(rq);
}

/* Waits in PostgreSQL, so that the host can end the wait at the deadline. */
static int doze(struct bb_request *rq)
{
    static const struct bb_sql sleep = {"SELECT pg_sleep($1::float8 / 1000)", BB_SQL_LONG};

    if (!bb_query(rq, &sleep, BB_ARGS(bb_i(bb_arg_int(rq, "ms", 0)))))
        return bb_failed(rq);
    return greet(rq);
}

/* Waits there for the test's advisory lock. */
static int wait_for_lock(struct bb_request *rq)
{
    static const struct bb_sql lock = {"SELECT pg_advisory_xact_lock_shared($1::bigint)",
                                       BB_SQL_LONG};

    if (!bb_query(rq, &lock, BB_ARGS(bb_i(bb_arg_int(rq, "ms", 0)))))
        return bb_failed(rq);
    return greet(rq);
}

static void tick(struct bb_request *rq)
{
    say(rq->host, "ticks");
    bb_sleep(rq, bb_setting_int(rq->host, "tick"));
}

static void rest_and_run(struct bb_request *rq, void *arg)
{
    bb_sleep(rq, 200);
    run_late(rq, arg);
}

/* A command that schedules a function and returns. */
static int command(struct bb_request *rq)
{
    return bb_run(rq->host, rest_and_run, NULL) ? 1 : 0;
}

static void surf(struct bb_worker_context *context)
{
    uint64_t count;

    say(context->host, "surfs");
    while (!bb_stopping(context))
        if (read(context->wake_fd, &count, sizeof(count)) < 0)
            usleep(1000);
    say(context->host, "leaves the water");
}

static void heard(void *state, const char *payload)
{
    say(state, payload ? payload : "was deaf");
}

static int open_wave(struct bb_host *host, void **state)
{
    if (bb_setting_int(host, "fail"))
        return bb_open_fail(host, "the sea is too rough");
    *state = host;
    say(host, "opens");
    usleep((unsigned)bb_setting_int(host, "slowly") * 1000);
    return 0;
}

static void start(struct bb_host *host, void *state)
{
    (void)state;
    say(host, "starts");
}

static void part(struct bb_request *rq, void *arg)
{
    (void)arg;
    say(rq->host, "parts");
}

static void quiesce(struct bb_host *host, void *state)
{
    (void)state;
    say(host, bb_superseded(host) ? "is superseded" : "stops");
    bb_wake(host, "surf");
    if (bb_run(host, part, NULL))
        say(host, "cannot part");
}

static void close_wave(struct bb_host *host, void *state)
{
    (void)state;
    say(host, "closes");
    bb_wake(host, "surf");
    if (!bb_run(host, part, NULL))
        say(host, "parts too late");
}

static const struct bb_field ms_query[] = {{.name = "ms", .type = BB_INT, .max = 60000}};

#define ROUTE(of, at, does, ...)                                                                   \
    {                                                                                              \
        .method = (of), .path = "/api/wave" at, .roles = BB_ANYONE, .handler = (does), __VA_ARGS__ \
    }

static const struct bb_route routes[] = {
    ROUTE("GET", "", greet, .flags = 0),
    ROUTE("GET", "/nap", nap, .query = BB_TABLE(ms_query), .deadline_ms = 60000),
    ROUTE("GET", "/hold", hold, .deadline_ms = 60000),
    ROUTE("GET", "/lock", wait_for_lock, .query = BB_TABLE(ms_query), .deadline_ms = 60000),
    ROUTE("GET", "/doze", doze, .query = BB_TABLE(ms_query), .deadline_ms = 60000),
    ROUTE("GET", "/late", hand_on, .query = BB_TABLE(ms_query), .deadline_ms = 60000),
};
static const struct bb_channel channels[] = {{.name = "wave", .heard = heard}};
static const struct bb_job jobs[] = {{.name = "wave.tick", .every_s = 1, .run = tick}};
static const struct bb_pool pools[] = {{.name = "nap", .threads = 4, .queue = 64}};
static const struct bb_command commands[] = {{.name = "wave", .run = command}};
static const struct bb_worker workers[] = {{.name = "surf", .run = surf}};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("wave", TEXT_OF(WAVE) ".0.0"),
    .schema = schema,
    .settings = BB_TABLE(settings),
    .routes = BB_TABLE(routes),
    .channels = BB_TABLE(channels),
    .jobs = BB_TABLE(jobs),
    .pools = BB_TABLE(pools),
    .commands = BB_TABLE(commands),
    .workers = BB_TABLE(workers),
    .open = open_wave,
    .start = start,
    .quiesce = quiesce,
    .close = close_wave,
};
