/* The program: sets up the process, then runs the command line. */
#include <curl/curl.h>
#include <jansson.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/json.h"
#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/main/cli.h"
#include "core/store/dial.h"
#include "core/store/pg_connect.h"

/*
 * ---- the supervisor ----
 *
 * `busbar serve` consists of two processes: the supervisor, implemented here, and the server
 * process (in messages and docs: the worker). The supervisor loads no module and reads no
 * configuration. It creates the sockets on which server processes listen (core/lib/supervised.h),
 * forwards signals, and restarts the server process when it dies. The sockets stay open during a
 * restart, so connections wait, and none is refused. See docs/operating.md for details.
 */

enum {
    CALM_MS = 1000,      /* a process that served for this time is restarted at once */
    FIRST_DELAY_MS = 50, /* delay after two failures in a row; doubled after each further failure */
    MOST_DELAY_MS = 10000,
    BEAT_MS = 1000 /* interval of keep-alive messages while no server process runs */
};

static struct supervisor {
    char **argv;
    pid_t worker; /* 0: none */
    int file;     /* a file with the content of `shared` */
    struct supervised_file shared;
    sigset_t signals, before; /* handled by the supervisor; the signal mask of server processes */
    bool served;              /* a server process has served */
    bool stopping;            /* this process or the server process was asked to stop */
    bool over;
    int status;
    unsigned failures; /* number of consecutive failures */
    int64_t next_ms;   /* when the next server process starts */
} supervisor;

/* ---- the server process ---- */

static void supervisor_spawn(void)
{
    struct supervised_file *shared = &supervisor.shared;
    pid_t parent = getpid();

    shared->worker = (struct worker_state){.json = shared->worker.json};
    supervised_renew_sockets(shared->sockets);
    supervisor.worker =
        pwrite(supervisor.file, shared, sizeof *shared, 0) == (ssize_t)sizeof *shared ? fork() : -1;
    if (!supervisor.worker) {
        sigset_t mask = supervisor.before;
        char number[16];

        /* blocked until the server process has handlers, because these signals would end it */
        sigaddset(&mask, SIGHUP);
        sigaddset(&mask, SIGUSR1);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with the supervisor, which alone restarts it */
        if (getppid() != parent)
            _exit(1);
        snprintf(number, sizeof number, "%d", supervisor.file);
        setenv(SUPERVISED_VARIABLE, number, 1);
        sigprocmask(SIG_SETMASK, &mask, NULL);
        execv("/proc/self/exe", supervisor.argv);
        execvp(supervisor.argv[0], supervisor.argv);
        perror("busbar: the worker cannot be started");
        _exit(1);
    }
    if (supervisor.worker < 0) {
        supervisor.worker = 0;
        supervisor.next_ms = clock_mono_ms() + BEAT_MS;
    }
}

static void supervisor_worker_ended(int status)
{
    struct supervised_file *shared = &supervisor.shared;
    const struct worker_state *worker = &shared->worker;
    int64_t now = clock_mono_ms(), wait = 0;

    /* reads why the server process ended; if it recorded no reason, `status` has the reason */
    (void)!pread(supervisor.file, &shared->worker, sizeof shared->worker,
                 offsetof(struct supervised_file, worker));
    (void)!pread(supervisor.file, shared->listening_at, sizeof shared->listening_at,
                 offsetof(struct supervised_file, listening_at));
    shared->listening_at[sizeof shared->listening_at - 1] = '\0';
    struct crash_note note = worker->note;

    note.module[sizeof note.module - 1] = note.file[sizeof note.file - 1] =
        note.how[sizeof note.how - 1] = note.report[sizeof note.report - 1] = '\0';
    if (!*note.how && WIFSIGNALED(status))
        snprintf(note.how, sizeof note.how, "SIG%s", sigabbrev_np(WTERMSIG(status)));
    supervisor.worker = 0;
    supervisor.served = supervisor.served || worker->served_ms;
    supervisor.stopping = supervisor.stopping || worker->stopping;
    /* a process that is still starting cannot handle these signals yet, so they end it */
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT))
        supervisor.stopping = true;
    sd_notify("WATCHDOG=1"); /* the next process may take a while to send its first message */
    if (!supervisor.served)
        sd_notify("EXTEND_TIMEOUT_USEC=90000000"); /* the next start may take another 90 s */
    if (supervisor.stopping || (!supervisor.served && !*note.how)) {
        supervisor.over = true;
        supervisor.status = status;
        return;
    }
    if (!*note.how)
        snprintf(note.how, sizeof note.how, "exit status %d", WEXITSTATUS(status));
    if (worker->forgiven)
        history_forgive(&supervisor.shared.history);
    history_add(&supervisor.shared.history, &note, worker->served_ms, now);
    if (worker->served_ms && now - worker->served_ms >= CALM_MS)
        supervisor.failures = 0;
    for (unsigned i = 0; i < supervisor.failures && wait < MOST_DELAY_MS; i++)
        wait = wait ? 2 * wait : FIRST_DELAY_MS;
    if (wait > MOST_DELAY_MS)
        wait = MOST_DELAY_MS;
    supervisor.failures++;
    supervisor.next_ms = now + wait;
    const struct log_pair pairs[] = {{"how", note.how},
                                     {"module", text_some(note.module)},
                                     {"report", text_some(note.report)},
                                     {LOG_NUMBER("delay_ms", wait)}};

    log_level(BB_INFO, worker->json);
    /* not log_line(), which would wait if the reader of standard error hangs */
    log_now(BB_ERROR, "the worker exited and is restarted", pairs, sizeof pairs / sizeof *pairs);
}

/* ---- signals, and the main loop ---- */

static void supervisor_on_signal(int number)
{
    int status;
    pid_t pid;

    while (number == SIGCHLD && (pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == supervisor.worker)
            supervisor_worker_ended(status);
    if (number == SIGCHLD)
        return;
    if (number == SIGTERM || number == SIGINT)
        supervisor.stopping = true;
    if (supervisor.worker)
        kill(supervisor.worker, number);
    else if (supervisor.stopping)
        supervisor.over = true;
}

/*
 * Runs the supervisor if the command is `serve`. Returns true if this process was the supervisor
 * and has finished, with the exit status in *status. Returns false if this process must continue:
 * as the server process, another command, or `serve --no-supervisor`.
 */
static bool supervisor_run(int argc, char **argv, int *status)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD};
    bool serve = false;

    /* only `serve` without other options is supervised; else cli_main() runs the command */
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];

        if (!strcmp(arg, "-c") || !strcmp(arg, "--config") || !strcmp(arg, "--env-file"))
            i++;
        else if (!serve && !strcmp(arg, "serve"))
            serve = true;
        else if (strncmp(arg, "--config=", 9) != 0 && strncmp(arg, "--env-file=", 11) != 0)
            return false;
    }
    if (!serve || getenv(SUPERVISED_VARIABLE))
        return false;
    supervisor.argv = argv;
    supervisor.file = memfd_create("supervisor", 0); /* inherited by server processes */
    for (size_t i = 0; i < 2 * SUPERVISED_SOCKETS; i++)
        supervisor.shared.sockets[i] = -1;
    signal(SIGPIPE, SIG_IGN); /* a write to the log must not end the process if its reader exited */
    /* if the parent process has set SIG_IGN, waitpid() would not return server processes */
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&supervisor.signals);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&supervisor.signals, numbers[i]);
    sigprocmask(SIG_BLOCK, &supervisor.signals, &supervisor.before);
    prctl(PR_SET_NAME, "busbar-super");
    guard_process();
    if (supervisor.file < 0) {
        perror("busbar: the supervisor cannot make a file in memory");
        *status = 1;
        return true;
    }
    while (!supervisor.over) {
        int64_t now = clock_mono_ms(), left;
        struct timespec beat = {.tv_sec = BEAT_MS / 1000};

        if (!supervisor.worker && now >= supervisor.next_ms)
            supervisor_spawn();
        left = supervisor.next_ms - now;
        if (!supervisor.worker) {
            sd_notify("WATCHDOG=1");
            if (left < BEAT_MS)
                beat = (struct timespec){.tv_nsec = (left < 1 ? 1 : left) * 1000000};
        }
        int number = sigtimedwait(&supervisor.signals, NULL, supervisor.worker ? NULL : &beat);

        if (number > 0)
            supervisor_on_signal(number);
    }
    *status = WEXITSTATUS(supervisor.status);
    if (!WIFSIGNALED(supervisor.status))
        return true;
    /* ends in the same way as the server process */
    int number = WTERMSIG(supervisor.status);
    sigset_t set;

    prctl(PR_SET_DUMPABLE, 0); /* the server process has already dumped core */
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    *status = 128 + number;
    return true;
}

/* ---- the program ---- */

/* malloc() maps larger blocks separately, so that argon2's memory is returned when it is freed. */
#define MAP_FROM (256 * 1024)

int main(int argc, char **argv)
{
    int status = CLI_DONE;

    guard_environment();
    if (supervisor_run(argc, argv, &status)) /* before memory is allocated */
        return status;
    supervised_begin();
    umask(077);
    pg_clean_environment();
    signal(SIGPIPE, SIG_IGN); /* libraries write to sockets without suppressing the signal */
    signal(SIGXFSZ,
           SIG_IGN); /* makes a write to a file at its size limit fail, as on a full disk */
    mallopt(M_MMAP_THRESHOLD, MAP_FROM);
    json_watch_memory();
    json_object_seed(0);
    /* Prevents OpenSSL's cleanup at exit, because other threads may still use OpenSSL then. */
    if (!OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) ||
        curl_global_init(CURL_GLOBAL_DEFAULT)) {
        fputs("busbar: OpenSSL or libcurl cannot be initialized\n", stderr);
        return CLI_FAILED;
    }
    status = cli_main(argc, argv);
    crash_exits();
    if (fflush(stdout) || ferror(stdout))
        status = CLI_FAILED;
    if (dial_busy())
        _exit(status);
    curl_global_cleanup();
    return status;
}
