#include "fault/common.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { TIMEOUT_S = 180, KILL_S = 3, CHILDREN_MAX = 256, REFUSALS = 8, LOOKS = 20, LOOK_MS = 5 };

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

void expect_refused(const struct host *host, const char *path, const char *token)
{
    ck_error(http(host, "GET", path, token, NULL), 503, "");
}

void expect_refused_until(const struct host *host, const char *token, int64_t end_ms)
{
    while (now_ms() < end_ms) {
        expect_refused(host, A_READ, token);
        poll(NULL, 0, 50); /* the pace of the requests */
    }
}

void expect_refused_at_once(const struct host *host, const char *path, const char *token)
{
    for (int i = 0; i < REFUSALS; i++)
        ck_error(http(host, "GET", path, token, NULL), 503,
                 "A dependency of the service is not available");
}

/* ---- the load ---- */

struct scene *fault_scene(const char *name, const struct host_spec *spec)
{
    struct scene *scene = scene_make(name, spec, 1, SCENE_ENDLESS);

    scene->watch = watch_begin(scene->hosts[0]);
    return scene;
}

struct scene *scene_on(struct postgres *pg, const char *name)
{
    return fault_scene(name, &(struct host_spec){.pg = pg});
}

void load_begin(struct scene *scene)
{
    scene_begin(scene);
    scene_wait(scene, 100);
}

void expect_only_503(const struct scene *scene)
{
    ck_assert_int_eq(atomic_load(&scene->load.bare), 0);
    ck_assert_int_eq(atomic_load(&scene->load.cut), 0);
}

struct ledger_report fault_over(struct scene *scene)
{
    scene_stop(scene);
    /* long reads use a separate connection, which is made again at its own time */
    status_soon(scene->hosts[0], text("/api/chat/chain/%s", scene->head), scene->admin->token, 200);
    if (scene->watch)
        watch_end(scene->watch, scene->database);
    struct ledger_report report = scene_expect_ledger(scene);

    scene_end(scene);
    ck_assert_int_eq(atomic_load(&scene->load.wrong), 0);
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

static bool are_gone(const struct children *children)
{
    int i = 0;

    while (i < children->count && process_has_ended(children->pids[i]))
        i++;
    return i == children->count;
}

void postgres_end(struct postgres *pg, int signal)
{
    struct children children = children_of(pg);

    postgres_stop(pg, signal);
    WAIT_UNTIL(are_gone(&children), 10000);
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

/* ---- disks ---- */

void disk_make(const char *directory, int mib, const struct postgres *pg)
{
    struct stat about;

    if (pg)
        process_service_directory(directory);
    else
        ck_assert_int_eq(mkdir(directory, 0700), 0);
    ck_assert_int_eq(stat(pg ? pg->data : directory, &about), 0);
    ck_assert_msg(unshare(CLONE_NEWNS) == 0 &&
                      mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                      mount("tmpfs", directory, "tmpfs", 0, text("size=%dm,mode=700", mib)) == 0,
                  "this fault needs a tmpfs, and root for it");
    ck_assert_int_eq(chown(directory, about.st_uid, about.st_gid), 0);
}

const char *disk_fill(const char *directory)
{
    const char *path = text("%s/filler", directory);
    FILE *file = fopen(path, "we");
    char block[4096] = {0};

    ck_assert_ptr_nonnull(file);
    while (fwrite(block, sizeof block, 1, file) == 1)
        ;
    fclose(file);
    return path;
}

void postgres_on_disk(struct postgres *pg, const char *directory, int mib)
{
    disk_make(directory, mib, pg);
    postgres_end(pg, SIGINT); /* restart it so that it sees the mount */
    postgres_start(pg);
    postgres_run(pg, text("CREATE TABLESPACE small LOCATION '%s'", directory));
    postgres_run(pg, "ALTER DATABASE template_busbar SET TABLESPACE small");
}

/* ---- processes ---- */

bool process_sleeps(pid_t pid)
{
    for (int looks = 0; looks < LOOKS; looks++) {
        const char *tasks = text("/proc/%d/task", (int)pid);
        DIR *threads = opendir(tasks);
        bool asleep = true;

        ck_assert_ptr_nonnull(threads);
        for (struct dirent *thread = readdir(threads); thread; thread = readdir(threads)) {
            if (thread->d_name[0] == '.')
                continue;
            const char *state = strrchr(file_text(text("%s/%s/stat", tasks, thread->d_name)), ')');

            asleep = asleep && state && state[1] && state[2] == 'S';
        }
        closedir(threads);
        if (!asleep)
            return false;
        poll(NULL, 0, LOOK_MS);
    }
    return true;
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
