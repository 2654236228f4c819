#include "core/module/sandbox.h"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"

#define MEMORY_MAX ((rlim_t)4 << 30)

enum { OUTPUT_MAX = 64 << 20, PIPE_SIZE = 65536 };

/* The report of the child, in memory shared with its parent, because the child may crash. */
struct shared {
    char file[PATH_MAX];
    bool done;  /* the output is complete */
    int status; /* the result of work() */
};

static struct shared *shared; /* NULL outside of sandbox_run() */

void sandbox_file(const char *path)
{
    if (shared)
        snprintf(shared->file, sizeof shared->file, "%s", path);
}

/* ---- the child ---- */

static _Noreturn void sandbox_run_child(int (*work)(FILE *out, void *arg), void *arg, int result,
                                        int noise, pid_t parent)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
    int empty = open("/dev/null", O_RDONLY);
    int kept = fcntl(result, F_DUPFD, 10), loud = fcntl(noise, F_DUPFD, 10);

    setpgid(0, 0);
    /* leaves open an empty standard input, standard output and error, and descriptor 3 (result) */
    bool placed = empty >= 0 && kept >= 0 && loud >= 0 && dup2(empty, STDIN_FILENO) >= 0 &&
                  dup2(loud, STDOUT_FILENO) >= 0 && dup2(loud, STDERR_FILENO) >= 0 &&
                  dup2(kept, 3) >= 0 && !close_range(4, ~0U, 0);

    /* with a sanitizer's handler, a fault would look like a call of exit() */
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        signal(faults[i], SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);
    /* failures are ignored: this kernel may not allow the user some of these restrictions */
    if (unshare(CLONE_NEWNET))
        (void)unshare(CLONE_NEWUSER | CLONE_NEWNET);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
    if (!BUSBAR_SANITIZED) /* sanitizers reserve terabytes of addresses */
        setrlimit(RLIMIT_AS, &(struct rlimit){MEMORY_MAX, MEMORY_MAX});
    /* RLIMIT_FSIZE prevents copies in a memfd, so modules are loaded from their files. Suppresses
     * the warning about this, which would be misleading here. */
    log_level(BB_ERROR, false);
    FILE *out = placed ? fdopen(3, "w") : NULL;

    if (!out)
        _exit(EXIT_FAILURE);
    shared->status = work(out, arg);
    shared->done = !fflush(out) && !ferror(out);
    fflush(stdout);
    fflush(stderr);
    /* _exit() calls no destructors, and no functions that modules registered with atexit() */
    _exit(EXIT_SUCCESS);
}

/* ---- the parent ---- */

enum { RESULT, NOISE, ENDED, CHILD_FDS };

struct child {
    pid_t pid;
    int fds[CHILD_FDS]; /* two pipes and a pidfd; -1: closed */
    size_t length;      /* length of the result */
    bool late;
};

/* Reads the child's output; kills it after limit_ms or too much output. Returns its wait status. */
static int sandbox_attend(struct child *child, int limit_ms, FILE *result)
{
    static char piece[PIPE_SIZE];
    int64_t until = clock_mono_ms() + limit_ms;
    int status = 0;

    for (bool ended = false; !ended;) {
        int64_t left = until - clock_mono_ms();
        struct pollfd fds[] = {{child->fds[RESULT], POLLIN, 0},
                               {child->fds[NOISE], POLLIN, 0},
                               {child->fds[ENDED], POLLIN, 0}};

        if (left <= 0 || child->length > OUTPUT_MAX) {
            child->late |= left <= 0;
            kill(child->pid, SIGKILL);
            left = 1000;
        }
        ended = poll(fds, CHILD_FDS, (int)left) > 0 && fds[ENDED].revents;
        /* reads each pipe once per iteration, so that a child that never stops writing is still
         * killed in time; after the child's end, one read of PIPE_SIZE bytes empties a pipe */
        for (int i = RESULT; i <= NOISE; i++) {
            ssize_t got = child->fds[i] < 0 ? 0 : read(child->fds[i], piece, sizeof piece);

            if (got > 0) {
                fwrite(piece, 1, (size_t)got, i == RESULT ? result : stderr);
                child->length += i == RESULT ? (size_t)got : 0;
            } else if (child->fds[i] >= 0 && (!got || (errno != EAGAIN && errno != EINTR))) {
                close(child->fds[i]);
                child->fds[i] = -1;
            }
        }
    }
    kill(-child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* Starts the child. Returns 0, or -1 with errno. */
static int sandbox_start(struct child *child, int (*work)(FILE *out, void *arg), void *arg)
{
    int pipes[2][2] = {{-1, -1}, {-1, -1}};
    pid_t parent = getpid();

    fflush(stdout);
    fflush(stderr);
    if (!pipe2(pipes[RESULT], O_CLOEXEC) && !pipe2(pipes[NOISE], O_CLOEXEC))
        child->pid = fork();
    if (!child->pid)
        sandbox_run_child(work, arg, pipes[RESULT][1], pipes[NOISE][1], parent);
    for (int i = RESULT; i <= NOISE; i++) {
        if (pipes[i][1] >= 0)
            close(pipes[i][1]);
        child->fds[i] = pipes[i][0];
    }
    if (child->pid < 0)
        return -1;
    setpgid(child->pid, child->pid);
    child->fds[ENDED] = (int)syscall(SYS_pidfd_open, child->pid, 0);
    if (child->fds[ENDED] >= 0 && !fcntl(child->fds[RESULT], F_SETFL, O_NONBLOCK) &&
        !fcntl(child->fds[NOISE], F_SETFL, O_NONBLOCK))
        return 0;
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    return -1;
}

int sandbox_run(int (*work)(FILE *out, void *arg), void *arg, int limit_ms,
                struct sandbox_output *output, char *why, size_t why_size)
{
    struct child child = {-1, {-1, -1, -1}, 0, false};
    FILE *result = open_memstream(&output->bytes, &output->length);
    void *memory =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int returned = -1;

    shared = memory == MAP_FAILED ? NULL : memory;
    if (!shared || !result || sandbox_start(&child, work, arg)) {
        snprintf(why, why_size, "no child process can be started: %s", strerror(errno));
    } else {
        int status = sandbox_attend(&child, limit_ms, result);

        if (shared->done && !child.late && child.length <= OUTPUT_MAX)
            returned = shared->status;
        if (returned < 0) {
            const char *file = *shared->file ? shared->file : "the child process";

            if (child.length > OUTPUT_MAX)
                snprintf(why, why_size, "%s: its tables are larger than %d bytes", file,
                         OUTPUT_MAX);
            else if (child.late)
                snprintf(why, why_size, "%s: does not return within %d ms", file, limit_ms);
            else if (WIFSIGNALED(status))
                snprintf(why, why_size,
                         "%s: crashes while it is loaded, or its tables point outside of it (%s)",
                         file, strsignal(WTERMSIG(status)));
            else
                snprintf(why, why_size, "%s: ends the process while it is loaded (exit status %d)",
                         file, WEXITSTATUS(status));
        }
    }
    if (result && fclose(result) && returned >= 0) {
        snprintf(why, why_size, "out of memory");
        returned = -1;
    }
    if (returned < 0 && result)
        free(output->bytes);
    for (int i = RESULT; i < CHILD_FDS; i++)
        if (child.fds[i] >= 0)
            close(child.fds[i]);
    if (shared)
        munmap(shared, sizeof *shared);
    shared = NULL;
    return returned;
}
