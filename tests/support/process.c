#include "process.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP_MS 5
#define STEP_MAX_MS 100
#define PAUSE_MAX_MS 200

/* NULL: the tests do not run as root. */
static const struct passwd *service_user(void)
{
    return geteuid() ? NULL : getpwnam("postgres");
}

/*
 * Data for a child, prepared before the fork: other threads may hold the locks of malloc() and of
 * the environment at that moment, and in the child nobody releases them. The child calls only
 * functions that are safe in a signal handler.
 */
struct child {
    const struct process_spec *spec;
    char **environment;        /* ends with NULL; owned by the child, except its texts */
    const struct passwd *user; /* NULL: the user who runs the tests */
    pid_t parent;
};

/* Returns whether both pairs name the same variable. */
static bool same_name(const char *one, const char *other)
{
    size_t length = strcspn(one, "=");

    return !strncmp(one, other, length + 1);
}

/* Adds a pair; replaces an earlier pair of the same variable. */
static void add_pair(char **all, size_t *count, const char *pair)
{
    size_t at = 0;

    while (at < *count && !same_name(pair, all[at]))
        at++;
    all[at] = (char *)(uintptr_t)pair;
    *count += at == *count;
}

static size_t count_of(const char *const *pairs)
{
    size_t count = 0;

    while (pairs && pairs[count])
        count++;
    return count;
}

char **process_environment(const char *const *more)
{
    const char *const *own = (const char *const *)environ;
    size_t count = count_of(own);
    char **all = calloc(count + count_of(more) + 1, sizeof *all);

    if (!all)
        abort();
    memcpy(all, own, count * sizeof *all);
    for (; more && *more; more++)
        add_pair(all, &count, *more);
    return all;
}

static void become(const struct passwd *user)
{
    if (user && (setgroups(0, NULL) || setgid(user->pw_gid) || setuid(user->pw_uid)))
        _exit(126);
}

static void redirect(const struct process_spec *spec)
{
    int log = open(spec->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int out = spec->output ? open(spec->output, O_WRONLY | O_CREAT | O_TRUNC, 0600) : log;
    int in = open("/dev/null", O_RDONLY);

    if (log < 0 || out < 0 || in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(log, 2) < 0)
        _exit(126);
}

static void close_others(void)
{
    for (int fd = 3; fd < 256; fd++)
        close(fd);
}

/* Ignores errors of write(), because they could not be reported. */
static void say(const char *words)
{
    (void)!write(2, words, strlen(words));
}

static _Noreturn void run_child(const struct child *child)
{
    const struct process_spec *spec = child->spec;
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    redirect(spec);
    close_others();
    become(child->user);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* after setuid(), which clears it */
    if (getppid() != child->parent || (spec->as_service && chdir("/")))
        _exit(126);
    execvpe(spec->argv[0], (char *const *)(uintptr_t)spec->argv, child->environment);
    say(spec->argv[0]);
    say(" cannot be executed\n");
    _exit(127);
}

pid_t process_start(const struct process_spec *spec)
{
    struct child child = {.spec = spec,
                          .environment = process_environment(spec->environment),
                          .user = spec->as_service ? service_user() : NULL,
                          .parent = getpid()};
    pid_t pid = fork();

    if (pid == 0)
        run_child(&child);
    free(child.environment);
    if (pid < 0) /* check's macros need a running test, so use them only on failure */
        ck_abort_msg("fork: %s", strerror(errno));
    return pid;
}

bool process_has_ended(pid_t pid)
{
    FILE *file = fopen(text("/proc/%d/stat", (int)pid), "re");
    char state = 'Z';

    if (!file)
        return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state == 'Z';
}

bool process_wait(pid_t pid, int ms, int *status)
{
    int64_t end = now_ms() + ms;

    for (;;) {
        pid_t ended = waitpid(pid, status, WNOHANG);

        if (ended == pid)
            return true;
        if (ended < 0 &&
            process_has_ended(pid)) { /* the runner's child: its status is unknown here */
            *status = 0;
            return true;
        }
        if (now_ms() >= end)
            return false;
        poll(NULL, 0, STEP_MS);
    }
}

int process_stop(pid_t pid, int signal, int ms)
{
    int status = 0;

    kill(pid, signal);
    if (process_wait(pid, ms * PATIENCE, &status))
        return status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return status;
}

int process_run(const struct process_spec *spec)
{
    int status = 0;
    pid_t pid = process_start(spec);

    if (!process_wait(pid, 60000 * PATIENCE, &status))
        status = process_stop(pid, SIGKILL, 1000);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void test_skipped(const char *reason)
{
    fprintf(stderr, "%s: SKIPPED: %s\n", program_invocation_short_name, reason);
}

char *shared_cases(const char *name)
{
    const char *root = getenv("BUSBAR_SHARED");
    char *path = text("%s/cases/%s", root ? root : "../shared", name);

    if (!access(path, R_OK))
        return path;
    test_skipped(text("there is no %s; set BUSBAR_SHARED", path));
    return NULL;
}

bool process_as_root(const char *const *argv)
{
    static const char *const may[] = {"sudo", "-n", "true", NULL};
    const char *command[16] = {"sudo", "-n"};
    size_t count = geteuid() ? 2 : 0;

    if (count && process_run(&(struct process_spec){.argv = may, .log = "/dev/null"})) {
        test_skipped(text("%s needs root, and sudo without a password", argv[0]));
        return false;
    }
    do
        command[count++] = *argv++;
    while (*argv && count < 15);
    command[count] = NULL;
    ck_assert_int_eq(process_run(&(struct process_spec){.argv = command, .log = "/dev/stderr"}), 0);
    return true;
}

void process_service_directory(const char *path)
{
    const struct passwd *user = service_user();

    ck_assert_msg(!mkdir(path, 0700), "cannot make %s: %s", path, strerror(errno));
    if (user)
        ck_assert_int_eq(chown(path, user->pw_uid, user->pw_gid), 0);
}

int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int repetitions(int few, int many)
{
    return getenv("BUSBAR_TEST_FULL") ? many : few;
}

struct patience patience_of(int ms)
{
    int64_t now = now_ms();

    return (struct patience){now, now + (int64_t)ms * PATIENCE, now};
}

bool patience_pause(struct patience *patience)
{
    int64_t now = now_ms(), step = STEP_MS + (now - patience->began) / 20,
            pause = 2 * (now - patience->checked);

    if (now >= patience->end)
        return false;
    /* Checking may be expensive for the host, so check less often the longer it takes, and wait for
     * twice the time that the check took. */
    step = step < STEP_MAX_MS ? step : STEP_MAX_MS;
    pause = pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS;
    poll(NULL, 0, (int)(step > pause ? step : pause));
    patience->checked = now_ms();
    return true;
}

void *kept(void *memory)
{
    struct keeper {
        struct keeper *next;
        void *memory;
    };
    static struct keeper *all;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct keeper *keeper = malloc(sizeof *keeper);

    if (!memory || !keeper)
        abort();
    keeper->memory = memory;
    pthread_mutex_lock(&lock);
    keeper->next = all;
    all = keeper;
    pthread_mutex_unlock(&lock);
    return memory;
}

char *text_of(const char *format, va_list args)
{
    char *out = NULL;

    if (vasprintf(&out, format, args) < 0)
        abort();
    return kept(out);
}

char *text(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *out = text_of(format, args);

    va_end(args);
    return out;
}

const char *const *words(const char *format, ...)
{
    enum { WORDS_MAX = 64 };
    char **all = kept(calloc(WORDS_MAX, sizeof *all));
    size_t count = 0;
    va_list args;

    va_start(args, format);
    char *rest = text_of(format, args);

    va_end(args);
    while (rest && count < WORDS_MAX - 1)
        all[count++] = strsep(&rest, " ");
    return (const char *const *)all;
}

const char *const *words_of(const char *const *list)
{
    size_t count = count_of(list) + 1;

    return memcpy(kept(calloc(count, sizeof *list)), list, count * sizeof *list);
}

char *text_repeated(const char *part, size_t times)
{
    size_t length = strlen(part);
    char *all = kept(malloc(length * times + 1));

    for (size_t i = 0; i < times; i++)
        memcpy(all + i * length, part, length);
    all[length * times] = '\0';
    return all;
}

size_t text_lines(const char *text)
{
    size_t lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

int64_t process_status(pid_t pid, const char *key)
{
    const char *line = strstr(file_text(text("/proc/%d/status", (int)pid)), key);

    return line ? strtoll(line + strlen(key), NULL, 10) : 0;
}

void process_forget_peak(pid_t pid)
{
    file_write(text("/proc/%d/clear_refs", (int)pid), "5");
}

const char *const process_lean[] = {
    "ASAN_OPTIONS=quarantine_size_mb=0:thread_local_quarantine_size_kb=0:exitcode=99"
    ":detect_stack_use_after_return=0",
    NULL};

bool process_shadowed(void)
{
    return getenv("BUSBAR_TEST_SHADOWED") != NULL;
}

/* Returns the expected size, so that a log of megabytes is not copied while it grows. */
static size_t room_for(int fd)
{
    enum { MORE = 4096 }; /* a log may grow, and files in /proc have no size */
    struct stat about;

    return MORE + (fstat(fd, &about) ? 0 : (size_t)about.st_size);
}

/* Reads to the end or to an error; adds a NUL. */
static char *read_whole(int fd)
{
    size_t room = room_for(fd), length = 0;
    char *content = malloc(room);
    ssize_t got;

    while (content && (got = read(fd, content + length, room - length - 1)) > 0) {
        length += (size_t)got;
        if (length + 1 == room)
            content = realloc(content, room *= 2);
    }
    if (!content)
        abort();
    content[length] = '\0';
    return content;
}

char *file_text(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return kept(strdup(""));
    char *content = read_whole(fd);

    close(fd);
    return kept(content);
}

void file_write(const char *path, const char *content)
{
    FILE *file = fopen(path, "we");

    ck_assert_msg(file != NULL, "cannot write %s", path);
    ck_assert_int_ge(fputs(content, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}
