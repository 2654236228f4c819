#include "harness.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "reference.h"
#include "secrets.h"

static char *directory, *shared, *program, *modules;
static pid_t redis_pid;

struct postgres *the_postgres;
const char *the_redis;

char *harness_path(const char *name)
{
    return text("%s/%s", directory, name);
}

char *harness_shared_path(const char *name)
{
    return text("%s/%s", shared, name);
}

static char *plain_path(const char *name)
{
    const char *root = getenv("BUSBAR_PLAIN");

    ck_assert_msg(root != NULL, "BUSBAR_PLAIN (a build without sanitizers) is not set");
    return text("%s/%s", root, name);
}

const char *harness_program(bool plain)
{
    return plain ? plain_path("bin/busbar") : program;
}

const char *harness_modules(bool plain)
{
    return plain ? plain_path("lib/busbar/modules") : modules;
}

char *harness_test_module(const char *name)
{
    return text("%s/../tests/modules/%s.so", getenv("BUSBAR_ROOT"), name);
}

/* Returns true if a file system in memory has space for a run. Every database of a suite is a copy
 * of more than a thousand files, and on some disks most of the processor time of a run is spent to
 * create and to remove them. */
static bool memory_has_space(const char *path)
{
    struct statvfs about;

    return !statvfs(path, &about) && !(about.f_flag & ST_NOEXEC) &&
           (uint64_t)about.f_bavail * about.f_frsize >= UINT64_C(6) << 30;
}

/* The path is short because sockets are in the directory; it can be entered because PostgreSQL runs
 * as another user. The lock shows ./test that the run has not ended. */
static char *make_directory(void)
{
    char *made = text("%s/busbar-test.XXXXXX", memory_has_space("/dev/shm") ? "/dev/shm" : "/tmp");
    /* without assertions, because no test runs yet */
    if (!mkdtemp(made) || chmod(made, 0711) ||
        flock(open(made, O_RDONLY | O_DIRECTORY | O_CLOEXEC), LOCK_SH)) {
        perror("integration: no directory for the run");
        abort();
    }
    return made;
}

static void end_directory(const char *path, bool keep)
{
    if (keep) {
        /* without assertions, because no test runs any more */
        close(open(text("%s/kept", path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        fprintf(stderr, "integration: logs and data are in %s\n", path);
        return;
    }
    process_run(&(struct process_spec){.argv = words("rm -rf %s", path), .log = "/dev/null"});
}

void harness_share(void)
{
    shared = make_directory();
}

void harness_unshare(bool keep)
{
    end_directory(shared, keep);
}

void harness_open(const char *root)
{
    directory = make_directory();
    program = text("%s/bin/busbar", root);
    modules = text("%s/lib/busbar/modules", root);
    ck_assert_msg(!access(program, X_OK), "there is no program %s", program);
    secrets_open(harness_path("secrets"));
    secrets_add(ADMIN_PASSWORD);
    the_redis = redis_make("redis", &redis_pid);
    the_postgres = postgres_make("pg", getenv("BUSBAR_TEST_FSYNC") != NULL);
    reference_open();
}

void harness_close(bool keep)
{
    if (the_postgres)
        postgres_stop(the_postgres, SIGINT);
    if (redis_pid)
        process_stop(redis_pid, SIGTERM, 5000);
    end_directory(directory, keep);
}
