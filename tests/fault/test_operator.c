/*
 * Operational problems: an address that is in use, a disk for reports that is full, missing or
 * a file, hundreds of reports, kill -9 of the supervisor and during a reload, a stop while a worker
 * is about to be restarted, many SIGHUPs at once, silent clients of the control socket.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "fault/common.h"
#include "fault/crashes.h"
#include "fault/gaps.h"
#include "receive.h"

enum { OLD_REPORTS = 150, KEPT_REPORTS = 100, SUPERVISOR_KIB = 3 * 1024, HUPS = 2000, SILENT = 40 };

/* ---- sockets that are kept open ---- */

/* Writes this port into the configuration. */
static void listen_at(struct host_spec *spec, struct host *host, int port)
{
    spec->port = port;
    file_write(host->conf, host_configuration(spec));
    host->port = port;
}

/* A host with a supervisor, which listens on a separate port. */
static struct host_spec own_port(const char *name, const char *database)
{
    return (struct host_spec){.name = name,
                              .database = database,
                              .port = receiver_none()->at.port,
                              .plain = true,
                              .supervised = true};
}

/* A reload does not use the new address, the next worker does; the change can be undone. */
TEST(a_new_worker_listens_on_the_address_of_the_current_file)
{
    struct host_spec spec = own_port("moved", database_make(the_postgres, "moved"));
    int first = spec.port, second = receiver_none()->at.port;
    struct host *host = host_start(&spec);

    listen_at(&spec, host, second);
    ck_assert_ptr_nonnull(strstr(host_says(host, 1, "reload"), "http.listen"));
    ck_assert(port_accepts(first) && !port_accepts(second));
    for (int i = 0; i < 4; i++) {
        worker_kill(host);
        status_soon(host, "/api/health", NULL, 200);
        ck_assert(!port_accepts(i % 2 ? second : first));
        listen_at(&spec, host, i % 2 ? second : first);
    }
}

/* ---- a file that is refused when a worker crashes ---- */

/* The socket in use conflicts with the wider address, so it must be closed first. */
TEST(a_new_worker_can_listen_on_a_wider_address_of_the_same_port)
{
    struct host_spec spec = own_port("widened", database_make(the_postgres, "widened"));
    struct host *host = host_start(&spec);
    const char *good = text("%s", file_text(host->conf)), *at = strstr(good, "127.0.0.1:");

    ck_assert_ptr_nonnull(at);
    file_write(host->conf, text("%.*s0.0.0.0:%s", (int)(at - good), good, at + 10));
    worker_kill(host);
    status_soon(host, "/api/health", NULL, 200);
    ck_assert_uint_gt(host_logged(host, "address=0.0.0.0:"), 0);
}

/* Another program uses the new address, until it stops. */
TEST(a_worker_retries_an_address_in_use)
{
    struct host_spec other = own_port("moved-other", database_make(the_postgres, "moved_other"));
    struct host_spec spec = own_port("moved-back", other.database);
    struct host *occupant = host_start(&other), *host = host_start(&spec);
    int first = spec.port;

    listen_at(&spec, host, other.port);
    kill(worker_of(host, 0), SIGKILL);
    host_logs(host, 0, "msg=\"cannot listen\"");
    host_logs(host, 0, "how=\"exit status 1\"");
    ck_assert(!port_accepts(first));
    host_stop(occupant);
    status_soon(host, "/api/health", NULL, 200);
}

/* The file is edited, a reload refuses it, and then the worker dies: connections wait until the
 * file is mended. */
TEST(a_worker_killed_with_a_broken_file_restarts_when_it_is_fixed)
{
    struct host_spec spec = own_port("edited", database_make(the_postgres, "edited"));
    struct host *host = host_start(&spec);
    const char *good = file_text(host->conf);

    for (int i = 0; i < 2; i++) {
        struct gaps *gaps = gaps_begin(host);
        size_t before = host_log_size(host);

        file_write(host->conf, i ? "http: [\n" : text("%snothing: {}\n", good));
        host_says(host, 1, "reload");
        kill(worker_of(host, 0), SIGKILL);
        host_logs(host, before, "how=\"exit status 1\"");
        file_write(host->conf, good);
        status_soon(host, "/api/health", NULL, 200);
        gaps_end(gaps, "edited"); /* no connection was refused */
    }
}

/* The same with the file of a module: everything that does not need the module continues. */
TEST(a_worker_killed_with_a_broken_module_restarts_without_it)
{
    struct crash_bench bench = crash_bench("broken_module", "", "");
    struct host *host = bench.host;
    const char *file = harness_path("broken_module.so");
    const char *conf = file_text(host->conf), *at = strstr(conf, crash_module());
    const struct process_spec copying = {.argv = words("cp %s %s", crash_module(), file),
                                         .log = harness_path("broken_module.out")};

    file_write(host->conf,
               text("%.*s%s%s", (int)(at - conf), conf, file, at + strlen(crash_module())));
    ck_assert_int_eq(process_run(&copying), 0);
    crash_run(&bench, NULL);
    ck_assert_int_eq(truncate(file, 1000), 0);
    host_says(host, 1, "reload");
    worker_kill(host);
    status_soon(host, "/api/health", NULL, 200);
    const char *told = host_says(host, 0, "status");

    ck_assert_msg(strstr(told, "DISABLED: module broken_module, until the next reload: its file is "
                               "refused") != NULL,
                  "%s", told);
    ck_status(http(host, "POST", "/crash", NULL, NULL), 404);
    ck_status(http(host, "GET", A_READ, NULL, NULL), 401);
    ck_assert_int_eq(process_run(&copying), 0);
    host_says(host, 0, "reload");
    ck_status(http(host, "POST", "/crash", NULL, NULL), 201);
}

/* ---- reports ---- */

static int reports_in(const char *directory)
{
    DIR *all = opendir(directory);
    int count = 0;

    ck_assert_msg(all != NULL, "%s cannot be read", directory);
    for (const struct dirent *at; (at = readdir(all));)
        count += !strncmp(at->d_name, "crash-", 6);
    closedir(all);
    return count;
}

static void crash_once(const struct crash_bench *bench)
{
    pid_t worker = worker_of(bench->host, 0);
    size_t before = host_log_size(bench->host);

    file_write(bench->order, "handler segv\n");
    crash_go(bench, "handler");
    worker_of(bench->host, worker);
    crash_line(bench->host, before);
    status_soon(bench->host, "/api/health", NULL, 200);
}

TEST(the_newest_100_crash_reports_are_kept)
{
    struct crash_bench bench = crash_bench("many_reports", "", "");
    const char *other = text("%s/crash-notes.md", bench.state);

    ck_assert_int_eq(mkdir(bench.state, 0700), 0);
    for (int i = 0; i < OLD_REPORTS; i++)
        file_write(text("%s/crash-2020-01-01T00-00-%02d.%03dZ-1.txt", bench.state, i % 60, i), "");
    file_write(other, "an operator's");
    crash_run(&bench, NULL);
    ck_assert_int_eq(reports_in(bench.state), KEPT_REPORTS + 1);
    crash_once(&bench);
    ck_assert_int_eq(reports_in(bench.state), KEPT_REPORTS + 1);
    ck_assert_ptr_nonnull(strstr(crash_report(crash_line(bench.host, 0)), "module: crash"));
    ck_assert_int_eq(access(other, F_OK), 0);
}

/* The log line is written even without a directory. */
static void expect_line_alone(const struct crash_bench *bench)
{
    crash_once(bench);
    const char *line = crash_line(bench->host, 0);

    ck_assert_msg(!strstr(line, " report=") && strstr(line, "module=crash ran=handler"), "%.600s",
                  line);
    host_stop(bench->host);
}

TEST(an_unwritable_directory_of_crash_reports_is_reported_and_tolerated)
{
    struct crash_bench bench = crash_bench("no_reports", "", "");

    file_write(bench.state, "a file");
    crash_run(&bench, NULL);
    host_logs(bench.host, 0, text("warning: crash reports cannot be written to %s", bench.state));
    expect_line_alone(&bench);
}

/* The disk has 4 KiB, all of them used. */
TEST(a_full_disk_prevents_only_the_file_of_a_crash_report)
{
    if (!fault_may("a full disk for reports", CLONE_NEWNS))
        return;
    struct crash_bench bench = crash_bench("full_reports", "", "");
    const char *script = text("mount -t tmpfs -o size=4k,mode=777 tmpfs %s && "
                              "head -c 4096 /dev/zero >%s/all && exec \"$@\"",
                              bench.state, bench.state);

    ck_assert_int_eq(mkdir(bench.state, 0700), 0);
    bench.host->wrapper = word_list("unshare", "--mount", "sh", "-c", script, "sh");
    crash_run(&bench, NULL);
    expect_line_alone(&bench);
}

/* A refused reload changes nothing, not even the directory for reports; a successful one does. */
TEST(crash_reports_go_to_the_directory_of_the_live_settings)
{
    struct crash_bench bench = crash_bench("report_place", "", "");
    struct host *host = crash_run(&bench, NULL);
    const char *good = file_text(host->conf), *at = strstr(good, bench.state);
    const char *other = text("%s.other", bench.state);
    const char *moved = text("%.*s%s%s", (int)(at - good), good, other, at + strlen(bench.state));

    file_write(host->conf, text("%snothing: {}\n", moved));
    host_says(host, 1, "reload");
    ck_assert_int_ne(access(other, F_OK), 0);
    file_write(host->conf, good);
    crash_once(&bench);
    ck_assert_int_eq(reports_in(bench.state), 1);
    file_write(host->conf, moved);
    host_says(host, 0, "reload");
    crash_once(&bench);
    ck_assert_int_eq(reports_in(other), 1);
}

/* The supervisor logs in the same format as the worker, also after a reload. */
TEST(a_reload_changes_the_log_format_of_the_supervisor)
{
    struct host_spec spec = own_port("reload_format", database_make(the_postgres, "reload_format"));
    struct host *host = host_start(&spec);

    spec.log = "  format: json\n";
    listen_at(&spec, host, spec.port);
    host_says(host, 0, "reload");
    worker_kill(host);
    host_logs(host, 0, "\"msg\":\"the worker exited and is restarted\"");
    status_soon(host, "/api/health", NULL, 200);
}

/* ---- kill -9 and signals ---- */

static int kib_of_its_own(pid_t pid)
{
    const char *file = file_text(text("/proc/%d/smaps_rollup", (int)pid));
    const char *clean = strstr(file, "Private_Clean:"), *dirty = strstr(file, "Private_Dirty:");

    ck_assert(clean && dirty);
    return (int)(strtol(clean + 14, NULL, 10) + strtol(dirty + 14, NULL, 10));
}

TEST(a_supervisor_is_small_and_its_worker_ends_with_it)
{
    struct host *host = host_start(&(struct host_spec){
        .name = "top_killed", .keep_port = true, .plain = true, .supervised = true});
    pid_t worker = worker_of(host, 0);
    int kib = kib_of_its_own(host->pid), port = host->port;

    fprintf(stderr, "top_killed: the supervisor has %d KiB of private memory\n", kib);
    ck_assert_int_le(kib, SUPERVISOR_KIB);
    host_kill(host);
    ck_assert(host_run(host));
    ck_assert_int_eq(host->port, port);
    ck_assert_int_ne(worker_of(host, 0), worker);
    status_soon(host, "/api/health", NULL, 200);
}

/* The module's `open` hangs in the reload when the worker is killed. */
TEST(a_worker_killed_during_a_reload_restarts_with_the_new_file)
{
    struct crash_bench bench = crash_bench("reload_killed", "", "");
    struct host *host = crash_run(&bench, NULL);
    const char *socket = harness_path(text("%s.control", host->name));
    const char *const argv[] = {harness_program(true), "-c", host->conf, "reload", NULL};
    const char *const environment[] = {text("BUSBAR_CONTROL=%s", socket), NULL};
    const char *out = harness_path("reload_killed.out");
    int status = 0;

    file_write(bench.order, "open sleep\n");
    pid_t reload =
        process_start(&(struct process_spec){.argv = argv, .environment = environment, .log = out});

    status_soon(host, "/api/health", NULL, 200);
    WAIT_UNTIL(access(bench.order, F_OK) != 0, BACK_MS); /* the module removes the order */
    worker_kill(host);
    ck_assert(process_wait(reload, BACK_MS * PATIENCE, &status));
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "wait status %d", status);
    status_soon(host, "/api/health", NULL, 200);
    host_says(host, 0, "reload");
}

/* The worker crashes at once each time; between two workers no process can receive the signal. */
TEST(a_stop_signal_between_two_workers_stops_the_host)
{
    struct crash_bench bench = crash_bench("stop_between", "", "  quarantine: false\n");
    struct host *host = crash_run(&bench, NULL);

    file_write(bench.order, "open segv always\n");
    worker_kill(host);
    host_logs(host, 0, "delay_ms=6400");
    int status = process_stop(host->pid, SIGTERM, STOP_MS);

    host->pid = 0;
    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "wait status %d", status);
}

TEST(many_parallel_reloads_do_not_stop_the_host)
{
    struct host *host =
        host_start(&(struct host_spec){.name = "hups", .plain = true, .supervised = true});
    struct gaps *gaps = gaps_begin(host);
    pid_t worker = worker_of(host, 0);
    int status;

    for (int i = 0; i < HUPS; i++) {
        ck_assert_int_eq(kill(host->pid, SIGHUP), 0);
        poll(NULL, 0, i % 4 == 0);
    }
    gaps_end(gaps, "hups");
    const char *said = host_ask(host, "reload", &status);

    ck_assert_msg(status == 0 || strstr(said, "generations exist"), "%s", said);
    ck_assert_int_eq(worker_of(host, 0), worker);
}

/* ---- the control socket ---- */

static int control_open(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    strncpy(to.sun_path, path, sizeof to.sun_path - 1);
    ck_assert_msg(!connect(fd, (struct sockaddr *)&to, sizeof to) || errno == EAGAIN, "%s: %s",
                  path, strerror(errno));
    return fd;
}

/* The clients send nothing, or part of a word, and stay connected. */
TEST(silent_clients_do_not_block_the_control_socket)
{
    struct host *host = host_start(&(struct host_spec){.name = "silent", .plain = true});
    const char *path = harness_path("silent.control");
    int fds[SILENT];

    for (int i = 0; i < SILENT; i++) {
        fds[i] = control_open(path);
        (void)send(fds[i], "stat", (size_t)(i % 5), MSG_NOSIGNAL);
    }
    host_says(host, 0, "status");
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
}

FAULT_SUITE(operator)
