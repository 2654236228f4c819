#include "harness.h"

#include <sys/stat.h>

#include "reference.h"
#include "secrets.h"

static char *directory, *program, *modules;
static pid_t redis_pid;

struct postgres *the_postgres;
const char *the_redis;

char *harness_path(const char *name)
{
    return text("%s/%s", directory, name);
}

static char *plain_path(const char *name)
{
    const char *root = getenv("BUSBAR_PLAIN");

    ck_assert_msg(root != NULL, "BUSBAR_PLAIN does not say where busbar without sanitizers is");
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

/* Test modules are in the directory of this program. */
char *harness_test_module(const char *name)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    ck_assert_int_gt(length, 0);
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    *strrchr(self, '/') = '\0'; /* the program is in tests/support */
    return text("%s/modules/%s.so", self, name);
}

/* The path is short because sockets are in the directory; it can be entered because PostgreSQL runs
 * as another user. */
static void make_directory(void)
{
    char name[] = "/tmp/busbar-test.XXXXXX";

    ck_assert_ptr_nonnull(mkdtemp(name));
    ck_assert_int_eq(chmod(name, 0711), 0);
    directory = text("%s", name);
}

void harness_open(const char *root)
{
    make_directory();
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
    if (keep) {
        fprintf(stderr, "integration: logs and data are in %s\n", directory);
        return;
    }
    process_run(&(struct process_spec){.argv = words("rm -rf %s", directory), .log = "/dev/null"});
}
