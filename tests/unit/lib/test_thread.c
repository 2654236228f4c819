/* The number of processors that a process may use. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/lib/thread.h"
#include "suite.h"
#include "support/process.h"

enum { PATH = 256 };

/* Writes a file of the group; returns 0 or -1. */
static int group_set(const char *group, const char *name, const char *value)
{
    char path[PATH];

    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *out = fopen(path, "w");

    if (!out)
        return -1;
    int failed = fputs(value, out) < 0;

    return fclose(out) || failed ? -1 : 0;
}

/* In a child process, which joins the group: returns 0 if it then has one processor. */
static int count_in(const char *group)
{
    char own[32];

    snprintf(own, sizeof own, "%d", (int)getpid());
    return group_set(group, "cgroup.procs", own) ? 2 : thread_processors() != 1;
}

TEST(a_cgroup_with_a_quota_has_fewer_processors)
{
    char group[PATH / 2];
    int status;

    if (thread_processors() < 2) {
        test_skipped("this machine has one processor");
        return;
    }
    snprintf(group, sizeof group, "/sys/fs/cgroup/cpu/busbar-%d", (int)getpid());
    bool v1 = !mkdir(group, 0755);

    if (!v1)
        snprintf(group, sizeof group, "/sys/fs/cgroup/busbar-%d", (int)getpid());
    if ((!v1 && mkdir(group, 0755)) ||
        group_set(group, v1 ? "cpu.cfs_quota_us" : "cpu.max", v1 ? "60000" : "60000 100000")) {
        rmdir(group);
        test_skipped("this user cannot make a cgroup with a quota");
        return;
    }
    pid_t child = fork();

    if (child == 0)
        _exit(count_in(group));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(rmdir(group), 0);
    ck_assert_int_eq(status, 0);
}

SUITE(thread, .timeout_s = 60)
