#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "fault/common.h"
#include "fault/torture.h"

struct rack rack_make(const char *name)
{
    const char *path = harness_path(text("%s.torture", name));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, sizeof(struct torture)), 0);
    void *map = mmap(NULL, sizeof(struct torture), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    ck_assert(map != MAP_FAILED);
    close(fd);
    return (struct rack){map,
                         word_list(text(TORTURE_FILE "=%s", path), "LD_PRELOAD=" TEST_TORTURE)};
}

struct host_spec rack_spec(const char *name, const struct rack *rack)
{
    return (struct host_spec){.name = name, .plain = true, .environment = rack->environment};
}

bool rack_arm(const struct rack *rack, long n)
{
    return atomic_exchange(&rack->numbers->allocations, n) == 0;
}

bool rack_failed(const struct rack *rack, int ms)
{
    WAIT_FOR(atomic_load(&rack->numbers->allocations) == 0, ms);
    return atomic_load(&rack->numbers->allocations) == 0;
}

void expect_running(const struct host *host)
{
    int status = 0;

    ck_assert_msg(!process_wait(host->pid, 0, &status), "%s ended: %x", host->name,
                  (unsigned)status);
}

bool rack_start(struct host *host, atomic_long *counter, long n)
{
    atomic_store(counter, n);
    bool up = host_run(host);
    bool failed = atomic_load(counter) == 0;

    atomic_store(counter, 0);
    if (!up) {
        ck_assert_msg(WIFEXITED(host->status) && WEXITSTATUS(host->status) != 0,
                      "call %ld: wait status %d, see %s", n, host->status, host->log);
        return false;
    }
    status_soon(host, "/api/health", NULL, 200);
    host_stop(host);
    return failed;
}
