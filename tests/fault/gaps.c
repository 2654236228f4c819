#include "fault/gaps.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MS = 5000, WORKER_MS = 5000 };

struct gaps {
    pthread_t thread;
    int port;
    atomic_bool stop;
    long asked, refused, cut;
    _Atomic int64_t longest_ms; /* since the last gaps_longest() */
    int64_t last_ms;
};

static const char ask[] = "GET /api/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

static int reach(struct gaps *gaps)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)gaps->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (!connect(fd, (struct sockaddr *)&to, sizeof to))
        return fd;
    gaps->refused++;
    close(fd);
    return -1;
}

/* Returns whether there was a response with status 200. */
static bool ask_once(struct gaps *gaps)
{
    char head[64] = "";
    int fd = reach(gaps);
    bool well = fd >= 0 && send(fd, ask, sizeof ask - 1, MSG_NOSIGNAL) == (ssize_t)sizeof ask - 1 &&
                poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, ANSWER_MS) > 0 &&
                recv(fd, head, sizeof head - 1, 0) > 12 && !strncmp(head, "HTTP/1.1 200", 12);

    if (fd >= 0)
        close(fd);
    gaps->asked++;
    gaps->cut += !well;
    return well;
}

static void *gaps_main(void *arg)
{
    struct gaps *gaps = arg;

    gaps->last_ms = now_ms();
    while (!atomic_load(&gaps->stop)) {
        if (ask_once(gaps)) {
            int64_t now = now_ms(), longest = atomic_load(&gaps->longest_ms);

            while (now - gaps->last_ms > longest &&
                   !atomic_compare_exchange_weak(&gaps->longest_ms, &longest, now - gaps->last_ms))
                ;
            gaps->last_ms = now;
        }
        poll(NULL, 0, 2);
    }
    return NULL;
}

struct gaps *gaps_begin(const struct host *host)
{
    struct gaps *gaps = kept(calloc(1, sizeof *gaps));

    gaps->port = host->port;
    ck_assert_int_eq(pthread_create(&gaps->thread, NULL, gaps_main, gaps), 0);
    return gaps;
}

int64_t gaps_longest(struct gaps *gaps)
{
    return atomic_exchange(&gaps->longest_ms, 0);
}

int64_t gaps_end(struct gaps *gaps, const char *name)
{
    atomic_store(&gaps->stop, true);
    pthread_join(gaps->thread, NULL);
    fprintf(stderr, "%s: %ld asked, %ld without an answer, %ld refused, longest gap %jd ms\n", name,
            gaps->asked, gaps->cut, gaps->refused, (intmax_t)atomic_load(&gaps->longest_ms));
    ck_assert_int_eq(gaps->refused, 0);
    return atomic_load(&gaps->longest_ms);
}

struct wanted_worker {
    const struct host *host;
    pid_t before, found;
};

static bool is_there(void *arg)
{
    struct wanted_worker *wanted = arg;
    int pid = (int)wanted->host->pid;
    const char *children = file_text(text("/proc/%d/task/%d/children", pid, pid));

    wanted->found = (pid_t)strtol(children, NULL, 10);
    return wanted->found && wanted->found != wanted->before;
}

pid_t worker_of(const struct host *host, pid_t before)
{
    struct wanted_worker wanted = {host, before, 0};

    ck_assert_msg(wait_until(is_there, &wanted, WORKER_MS), "there is no worker");
    return wanted.found;
}
