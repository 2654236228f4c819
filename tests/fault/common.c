#include "fault/common.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TIMEOUT_S = 180,
    KILL_S = 3,
    CHILDREN_MAX = 256,
    REFUSALS = 8,
    AT_ONCE_MS = 1000 /* far below the deadline */
};

int fault_kills(void)
{
    const char *given = getenv("BUSBAR_TEST_KILLS");

    return given ? (int)strtol(given, NULL, 10) : 8;
}

int fault_seconds(void)
{
    return TIMEOUT_S + KILL_S * fault_kills();
}

/* ---- responses ---- */

struct wanted {
    const struct host *host;
    const char *path, *token;
    long status;
};

static bool has_status(void *arg)
{
    const struct wanted *wanted = arg;

    return http(wanted->host, "GET", wanted->path, wanted->token, NULL)->status == wanted->status;
}

bool soon(const struct host *host, const char *path, const char *token, long status)
{
    return wait_until(has_status, &(struct wanted){host, path, token, status}, BACK_MS);
}

void expect_soon(const struct host *host, const char *path, const char *token, long status)
{
    ck_assert_msg(soon(host, path, token, status), "%s does not answer %ld", path, status);
}

static void expect_refused_within(const struct host *host, const char *path, const char *token,
                                  int ms)
{
    struct answer *refused = ck_error(http(host, "GET", path, token, NULL), 503, "");

    ck_assert_ptr_nonnull(answer_header(refused, "Retry-After"));
    ck_assert_msg(refused->seconds * 1000 <= ms, "%s: %.0f ms", path, refused->seconds * 1000);
}

void expect_refused(const struct host *host, const char *path, const char *token)
{
    expect_refused_within(host, path, token, DEADLINE_MS + 500);
}

void expect_refused_at_once(const struct host *host, const char *path, const char *token)
{
    for (int i = 0; i < REFUSALS; i++)
        expect_refused_within(host, path, token, AT_ONCE_MS);
}

/* ---- the load ---- */

struct scene *scene_on(struct postgres *pg, const char *name)
{
    return scene_make(name, &(struct host_spec){.pg = pg}, 1, ENOUGH);
}

void load_stop(struct scene *scene)
{
    atomic_store(&scene->load.acknowledged, ENOUGH);
    pthread_join(scene->thread, NULL);
    ck_assert_int_eq(scene->outcome, 0);
}

void load_more(struct scene *scene, long messages)
{
    scene_wait(scene, atomic_load(&scene->load.acknowledged) + messages);
}

void expect_only_503(const struct scene *scene)
{
    ck_assert_int_eq(atomic_load(&scene->load.wrong), 0);
    ck_assert_int_eq(atomic_load(&scene->load.bare), 0);
    ck_assert_int_eq(atomic_load(&scene->load.cut), 0);
    ck_assert_int_lt(atomic_load(&scene->load.slowest_ms),
                     DEADLINE_MS + 60000); /* a longer time is a hang */
}

struct ledger_report fault_over(struct scene *scene, struct watch *watch, const char *name)
{
    load_stop(scene);
    /* long reads use a separate connection, which is made again at its own time */
    expect_soon(scene->hosts[0], text("/api/chat/chain/%s", scene->head), scene->admin->token, 200);
    if (watch)
        watch_end(watch, name);
    struct ledger_report report = scene_expect_ledger(scene);

    scene_end(scene);
    return report;
}

/* ---- PostgreSQL ---- */

static pid_t parent_of(pid_t pid)
{
    const char *stat = file_text(text("/proc/%d/stat", (int)pid));
    const char *after = strrchr(stat, ')');

    return after && strlen(after) > 4 ? (pid_t)strtol(after + 4, NULL, 10) : 0;
}

struct children {
    pid_t pids[CHILDREN_MAX];
    int count;
};

static struct children children_of(const struct postgres *pg)
{
    struct children children = {.count = 0};
    DIR *processes = opendir("/proc");
    const struct dirent *entry;

    ck_assert_ptr_nonnull(processes);
    while ((entry = readdir(processes)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid > 0 && parent_of(pid) == pg->pid && children.count < CHILDREN_MAX)
            children.pids[children.count++] = pid;
    }
    closedir(processes);
    return children;
}

/* A zombie holds no resources. */
static bool are_gone(void *arg)
{
    const struct children *children = arg;

    for (int i = 0; i < children->count; i++) {
        const char *stat = file_text(text("/proc/%d/stat", (int)children->pids[i]));
        const char *after = strrchr(stat, ')');

        if (after && strlen(after) > 2 && after[2] != 'Z')
            return false;
    }
    return true;
}

void postgres_end(struct postgres *pg, int signal)
{
    struct children children = children_of(pg);

    postgres_stop(pg, signal);
    ck_assert(wait_until(are_gone, &children, 10000));
}

/* SIGSTOP goes to the postmaster first and SIGCONT last, so that it starts no child in between. */
void postgres_signal_all(const struct postgres *pg, int signal)
{
    if (signal == SIGSTOP)
        kill(pg->pid, signal);
    struct children children = children_of(pg);

    for (int i = 0; i < children.count; i++)
        kill(children.pids[i], signal);
    if (signal != SIGSTOP)
        kill(pg->pid, signal);
}

struct postgres *postgres_at(const struct postgres *pg, const char *address)
{
    struct postgres *seen = kept(calloc(1, sizeof *seen));

    *seen = *pg;
    seen->sockets = text("%s", address);
    return seen;
}

const char *postgres_socket(const struct postgres *pg)
{
    return text("%s/.s.PGSQL.5432", pg->sockets);
}

/* ---- processes ---- */

unsigned long cpu_ticks(pid_t pid)
{
    const char *stat = strrchr(file_text(text("/proc/%d/stat", (int)pid)), ')');
    unsigned long user_ticks = 0, system_ticks = 0;

    ck_assert_ptr_nonnull(stat);
    ck_assert_int_eq(sscanf(stat, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user_ticks, &system_ticks),
                     2);
    return user_ticks + system_ticks;
}

int open_descriptors(pid_t pid)
{
    DIR *entries = opendir(text("/proc/%d/fd", (int)pid));
    int count = 0;

    ck_assert_ptr_nonnull(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count - 2;
}

bool fault_may(const char *fault, int namespaces)
{
    int status = 0;
    pid_t child = fork();

    if (!child)
        _exit(unshare(namespaces) ? 1 : 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (status)
        test_skipped(text("%s needs namespaces, which this user may not make", fault));
    return !status;
}
