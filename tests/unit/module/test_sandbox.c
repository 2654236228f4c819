/* The child process in which modules' files are loaded to look at them. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "core/module/sandbox.h"
#include "suite.h"

enum { LONG_MS = 60000, SHORT_MS = 5000 };

static struct sandbox_output output;
static char why[512];

static int run(int (*work)(FILE *out, void *arg), void *arg, int limit_ms)
{
    return sandbox_run(work, arg, limit_ms, &output, why, sizeof why);
}

static int write_and_return_one(FILE *out, void *arg)
{
    fprintf(out, "of %s", (const char *)arg);
    puts("not a part of the output");
    return 1;
}

TEST(the_sandbox_returns_output_and_status)
{
    char name[] = "the child";

    ck_assert_int_eq(run(write_and_return_one, name, LONG_MS), 1);
    ck_assert_str_eq(output.bytes, "of the child");
    ck_assert_uint_eq(output.length, strlen(output.bytes));
    free(output.bytes);
}

static int crash(FILE *out, void *arg)
{
    (void)arg;
    sandbox_file("first.so");
    sandbox_file("second.so");
    fputs("lost", out);
    __builtin_trap();
}

static int end_process(FILE *out, void *arg)
{
    (void)out;
    (void)arg;
    sandbox_file("second.so");
    exit(0);
}

static int hang(FILE *out, void *arg)
{
    (void)out;
    (void)arg;
    sandbox_file("second.so");
    while (pause()) {
    }
    return 0;
}

static int write_much(FILE *out, void *arg)
{
    static const char piece[65536];

    (void)arg;
    sandbox_file("second.so");
    while (fwrite(piece, 1, sizeof piece, out)) {
    }
    return 0;
}

static int print_forever(FILE *out, void *arg)
{
    (void)out;
    (void)arg;
    sandbox_file("second.so");
    while (putchar('\n') != EOF) {
    }
    return 0;
}

TEST_EACH(a_sandboxed_call_that_does_not_return_is_an_error_with_the_file, 5)
{
    static const struct {
        int (*work)(FILE *out, void *arg);
        int limit_ms;
        const char *reason;
    } cases[] = {
        {crash, LONG_MS, "second.so: crashes while it is loaded"},
        {end_process, LONG_MS, "second.so: ends the process while it is loaded (exit status 0)"},
        {hang, SHORT_MS, "second.so: does not return within 5000 ms"},
        {print_forever, SHORT_MS, "second.so: does not return within 5000 ms"},
        {write_much, LONG_MS, "second.so: its tables are larger than"},
    };

    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); /* the children write much to it */
    ck_assert_int_eq(run(cases[_i].work, NULL, cases[_i].limit_ms), -1);
    ck_assert_msg(!strncmp(why, cases[_i].reason, strlen(cases[_i].reason)), "%s", why);
}

static int leave_process(FILE *out, void *arg)
{
    pid_t pid = fork();

    (void)arg;
    if (!pid)
        for (;;)
            pause();
    fprintf(out, "%ld", (long)pid);
    return 0;
}

TEST(processes_started_in_the_sandbox_are_killed)
{
    ck_assert_int_eq(run(leave_process, NULL, LONG_MS), 0);
    pid_t pid = (pid_t)strtol(output.bytes, NULL, 10);

    free(output.bytes);
    ck_assert_int_gt(pid, 0);
    for (int i = 0; i < 30000 && !kill(pid, 0); i++) {
        char path[64], state[256] = "";

        /* It may remain as a zombie of the process that has adopted it. */
        snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
        FILE *stat = fopen(path, "r");

        if (stat && fgets(state, sizeof state, stat) && strstr(state, ") Z")) {
            fclose(stat);
            return;
        }
        if (stat)
            fclose(stat);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    ck_assert_int_eq(kill(pid, 0), -1);
}

static int write_file(FILE *out, void *arg)
{
    int fd = open(arg, O_WRONLY | O_CLOEXEC);

    (void)out;
    return write(fd, "x", 1) == 1 ? 1 : 0;
}

TEST(the_sandbox_cannot_write_files)
{
    char path[] = "/tmp/busbar-sandbox-XXXXXX";
    int fd = mkstemp(path);
    struct stat info;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(run(write_file, path, LONG_MS), 0);
    free(output.bytes);
    ck_assert_int_eq(fstat(fd, &info), 0);
    ck_assert_int_eq(info.st_size, 0);
    close(fd);
    unlink(path);
}

/* Whether this machine lets the user have a private network. */
static bool network_can_be_private(void)
{
    int status = 1;
    pid_t pid = fork();

    if (!pid)
        _exit(unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET));
    waitpid(pid, &status, 0);
    return !status;
}

static int connect_to(FILE *out, void *arg)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)out;
    return connect(fd, arg, sizeof(struct sockaddr_in)) ? 0 : 1;
}

TEST(the_sandbox_has_no_network)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    ck_assert_int_eq(run(connect_to, &address, LONG_MS), network_can_be_private() ? 0 : 1);
    free(output.bytes);
    close(fd);
}

static int count_descriptors(FILE *out, void *arg)
{
    int count = 0;

    (void)out;
    (void)arg;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(the_sandbox_inherits_no_descriptors)
{
    int fd = open("/dev/null", O_RDONLY);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(run(count_descriptors, NULL, LONG_MS), 4);
    free(output.bytes);
    close(fd);
}

SUITE(sandbox, .timeout_s = 120)
