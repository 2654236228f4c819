/* A log that cannot be written, and too few file descriptors. */
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fault/common.h"
#include "receive.h"
#include "wire.h"

enum { LINES = 300, LINE_BYTES = 3500, DESCRIPTORS = 128, CLIENTS = 500, IDLE_MS = 2000 };

#define GET_HEALTH "GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n"

/* ---- the log ---- */

/* Copies the bytes from the pipe to the host's log until `stop` is set. */
struct reader {
    const char *pipe, *log;
    pthread_t thread;
    atomic_bool stopped, over;
    int fd;
};

static void *read_log(void *arg)
{
    struct reader *reader = arg;
    FILE *log = fopen(reader->log, "ae");
    char bytes[4096];

    while (!atomic_load(&reader->over)) {
        struct pollfd polled = {.fd = reader->fd, .events = POLLIN};

        if (atomic_load(&reader->stopped) || poll(&polled, 1, 10) <= 0) {
            poll(NULL, 0, 1);
            continue;
        }
        ssize_t got = read(reader->fd, bytes, sizeof bytes);

        if (got > 0)
            fwrite(bytes, (size_t)got, 1, log);
        fflush(log);
    }
    fclose(log);
    return NULL;
}

static struct reader *reader_start(const char *name)
{
    struct reader *reader = kept(calloc(1, sizeof *reader));

    reader->pipe = harness_path(text("%s.pipe", name));
    reader->log = harness_path(text("host-%s-0.log", name));
    ck_assert_int_eq(mkfifo(reader->pipe, 0600), 0);
    reader->fd = open(reader->pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(reader->fd, 0);
    ck_assert_int_eq(pthread_create(&reader->thread, NULL, read_log, reader), 0);
    return reader;
}

static struct scene *scene_with_pipe(const char *name, const struct reader *reader)
{
    const char *script = text("exec \"$@\" >%s 2>&1", reader->pipe);

    return fault_scene(name, &(struct host_spec){.wrapper = word_list("sh", "-c", script, "sh")});
}

/* Makes the host log more than three times as much as its buffer and the pipe hold together. */
static void log_much(struct scene *scene)
{
    const char *path = text("/api/%0*d", LINE_BYTES, 0);

    for (int i = 0; i < LINES; i++)
        ck_status(http(scene->hosts[0], "GET", path, NULL, NULL), 404);
    scene_more(scene, 100);
}

TEST(a_log_pipe_that_is_not_read_blocks_no_request_and_is_reported)
{
    struct reader *reader = reader_start("fault_unread");
    struct scene *scene = scene_with_pipe("fault_unread", reader);

    load_begin(scene);
    atomic_store(&reader->stopped, true);
    log_much(scene);
    atomic_store(&reader->stopped, false);
    host_logs(scene->hosts[0], 0, "log lines dropped");
    fault_over(scene);
    ck_assert_int_eq(atomic_load(&scene->load.refused), 0);
    atomic_store(&reader->over, true);
    pthread_join(reader->thread, NULL);
}

TEST(a_log_pipe_whose_reader_ended_blocks_no_request)
{
    struct reader *reader = reader_start("fault_gone");
    struct scene *scene = scene_with_pipe("fault_gone", reader);

    load_begin(scene);
    atomic_store(&reader->over, true);
    pthread_join(reader->thread, NULL);
    close(reader->fd);
    log_much(scene);
    fault_over(scene);
    ck_assert_int_eq(atomic_load(&scene->load.refused), 0);
}

/* The host cannot log its port, so the test chooses one. */
TEST(a_log_on_a_full_disk_blocks_no_request)
{
    int port = receiver_none()->at.port;
    struct host *host = host_prepare(&(struct host_spec){.name = "fault-devfull", .port = port});
    const char *argv[] = {harness_program(false), "-c", host->conf, "serve",
                          "--no-supervisor",      NULL};

    host->port = port;
    host->pid = process_start(&(struct process_spec){.argv = argv, .log = "/dev/full"});
    status_soon(host, "/api/health", NULL, 200);
    status_soon(host, "/api/health/status", NULL, 200);
    struct watch *watch = watch_begin(host);
    int64_t end = now_ms() + IDLE_MS;

    while (now_ms() < end)
        ck_status(http(host, "GET", "/api/auth/me", NULL, NULL), 401);
    watch_end(watch, "fault_devfull");
}

/* ---- descriptors ---- */

/* Connects like `busbar status`; the connection waits in the queue while the host has no descriptor
 * for it. */
static int wait_at_the_control_socket(const struct host *host)
{
    int fd = socket_connect(harness_path(text("%s.control", host->name)));

    ck_assert_int_ge(fd, 0);
    return fd;
}

TEST(a_host_out_of_file_descriptors_does_not_spin_and_recovers)
{
    struct scene *scene = scene_make("fault_descriptors", NULL, 1, SCENE_ENDLESS);
    struct host *host = scene->hosts[0];
    struct rlimit before, tight;
    struct wire *wires[CLIENTS];

    wires[0] = wire_open(host); /* accepted before another loop can take the last descriptors */
    wire_say(wires[0], GET_HEALTH);
    ck_assert_int_eq(wire_read_for(wires[0], GET_HEALTH, 10000)->status, 200);
    ck_assert_int_eq(prlimit(host->pid, RLIMIT_NOFILE, NULL, &before), 0);
    tight = before;
    tight.rlim_cur = DESCRIPTORS;
    ck_assert_int_eq(prlimit(host->pid, RLIMIT_NOFILE, &tight, NULL), 0);
    for (int i = 1; i < CLIENTS; i++)
        wires[i] = wire_open(host);
    host_logs(host, 0, "connections cannot be accepted");
    int control = wait_at_the_control_socket(host);
    WAIT_UNTIL(process_sleeps(host->pid), 5000);
    wire_say(wires[0], GET_HEALTH); /* accepted connections are served */
    ck_assert_int_eq(wire_read_for(wires[0], GET_HEALTH, 10000)->status, 200);
    for (int i = 0; i < CLIENTS; i++)
        wire_close(wires[i], false);
    close(control);
    WAIT_UNTIL(wire_is_served(host), BACK_MS);
    scene->watch = watch_begin(host); /* before, the host would not sleep */
    scene_begin(scene);               /* still within this limit */
    scene_more(scene, 200);
    fault_over(scene);
}

FAULT_SUITE(resources)
