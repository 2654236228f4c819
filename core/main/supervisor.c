#include "core/main/supervisor.h"
#include "core/lib/guard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/lib/channel.h"
#include "core/lib/descriptor_store.h"
#include "core/lib/log.h"
#include "core/lib/service_manager.h"
#include "core/lib/text.h"

enum {
    CALM_MS = 1000,      /* a worker that served for this time is restarted at once */
    FIRST_DELAY_MS = 50, /* before the second start in a row; doubled for each further start */
    MOST_DELAY_MS = 10000,
    BEAT_MS = 1000 /* interval of keep-alive messages while there is no worker */
};

struct supervisor {
    char **argv;
    pid_t worker; /* 0: none */
    int channel, signals;
    sigset_t before; /* the signal mask for the worker */
    struct stored_descriptors kept[KEPT_MAX];
    struct start_packet start;
    struct crash_note note; /* from the worker; how "": none */
    bool ready, served;     /* this worker; any worker */
    bool stopping;          /* requested, or the worker stops by itself */
    bool over;
    int status;
    unsigned failures; /* number in a row */
    int64_t ready_ms, next_ms;
};

/* ---- the command line -------------------------------------------------------------------------
 */

static bool names_file(const char *arg)
{
    return !strcmp(arg, "-c") || !strcmp(arg, "--config") || !strcmp(arg, "--env-file");
}

/* Whether this is `serve` with only options for files; the command line code handles the rest. */
static bool wanted(int argc, char **argv)
{
    bool serve = false;

    for (int i = 1; i < argc; i++) {
        if (names_file(argv[i]))
            i++;
        else if (!serve && !strcmp(argv[i], "serve"))
            serve = true;
        else if (strncmp(argv[i], "--config=", 9) != 0 && strncmp(argv[i], "--env-file=", 11) != 0)
            return false;
    }
    return serve && !getenv(CHANNEL_VARIABLE);
}

/* ---- the worker -------------------------------------------------------------------------------
 */

static _Noreturn void become_worker(const struct supervisor *supervisor, int channel, pid_t parent)
{
    sigset_t mask = supervisor->before;
    char number[16];

    sigaddset(&mask, SIGHUP); /* pending until the worker handles them, because both would end it
                               * before */
    sigaddset(&mask, SIGUSR1);

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* without a supervisor, nothing would restart the worker */
    if (getppid() != parent)
        _exit(1);
    int own = dup(channel); /* without close-on-exec */

    snprintf(number, sizeof number, "%d", own);
    setenv(CHANNEL_VARIABLE, number, 1);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    execv("/proc/self/exe", supervisor->argv);
    execvp(supervisor->argv[0], supervisor->argv);
    perror("busbar: the worker cannot be started");
    _exit(1);
}

static void hand_down(const struct supervisor *supervisor)
{
    struct packet packet = {.kind = PACKET_KEEP};

    for (size_t i = 0; i < KEPT_MAX; i++) {
        const struct stored_descriptors *kept = &supervisor->kept[i];

        if (!*kept->key)
            continue;
        memcpy(packet.text, kept->key, sizeof packet.text);
        (void)channel_send(supervisor->channel, &packet, sizeof packet, kept->fds, kept->count);
    }
    (void)channel_send(supervisor->channel, &supervisor->start, sizeof supervisor->start, NULL, 0);
}

static void spawn(struct supervisor *supervisor)
{
    pid_t parent = getpid();
    int ends[2];

    supervisor->ready = false;
    supervisor->note = (struct crash_note){.module = ""};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
        supervisor->next_ms = clock_mono_ms() + BEAT_MS;
        return;
    }
    supervisor->worker = fork();
    if (!supervisor->worker)
        become_worker(supervisor, ends[1], parent);
    close(ends[1]);
    if (supervisor->worker < 0) {
        supervisor->worker = 0;
        supervisor->next_ms = clock_mono_ms() + BEAT_MS;
        close(ends[0]);
        return;
    }
    supervisor->channel = ends[0];
    hand_down(supervisor);
}

/*
 * ---- messages of the worker
 * -----------------------------------------------------------------------
 */

static void pass_on(struct supervisor *supervisor, const char *text)
{
    char longer[CHANNEL_TEXT + 32];

    if (!strcmp(text, "READY=1")) {
        if (!supervisor->ready)
            supervisor->ready_ms = clock_mono_ms();
        supervisor->ready = supervisor->served = true;
        snprintf(longer, sizeof longer, "%s\nMAINPID=%ld", text, (long)getpid());
        text = longer;
    } else if (!strcmp(text, "STOPPING=1")) {
        supervisor->stopping = true;
    }
    service_manager_tell(text);
}

static void take(struct supervisor *supervisor, const struct packet *packet, const int *fds,
                 size_t count)
{
    if (packet->kind == PACKET_KEEP) {
        descriptor_store_add(supervisor->kept, packet->text, fds, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    if (packet->kind == PACKET_NOTIFY)
        pass_on(supervisor, packet->text);
    else if (packet->kind == PACKET_CRASH)
        supervisor->note = packet->note;
    else if (packet->kind == PACKET_FORGIVE)
        history_forgive(&supervisor->start.history);
    else if (packet->kind == PACKET_LOG)
        log_level(BB_INFO, !strcmp(packet->text, "json"));
}

static void listen_to_worker(struct supervisor *supervisor)
{
    struct packet packet;
    int fds[CHANNEL_FILES];
    size_t count;
    long got;

    while ((got = channel_receive(supervisor->channel, &packet, sizeof packet, fds, &count,
                                  MSG_DONTWAIT)) > 0)
        if (got == (long)sizeof packet)
            take(supervisor, &packet, fds, count);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    close(supervisor->channel);
    supervisor->channel = -1;
}

/*
 * ---- the end of the worker
 * ------------------------------------------------------------------------
 */

static int64_t delay_ms(unsigned failures)
{
    int64_t delay = 0;

    for (unsigned i = 0; i < failures && delay < MOST_DELAY_MS; i++)
        delay = delay ? 2 * delay : FIRST_DELAY_MS;
    return delay < MOST_DELAY_MS ? delay : MOST_DELAY_MS;
}

/* Fills in what the worker did not report, because it was killed or ended without a message. */
static void complete(struct crash_note *note, int status)
{
    if (*note->how)
        return;
    if (WIFSIGNALED(status))
        snprintf(note->how, sizeof note->how, "SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(note->how, sizeof note->how, "exit status %d", WEXITSTATUS(status));
}

static const char *some(const char *text)
{
    return *text ? text : NULL;
}

/* If the reader of the log hangs, the worker must be restarted anyway. */
static void tell(const struct supervisor *supervisor, int64_t wait_ms)
{
    const struct crash_note *note = &supervisor->note;
    char ms[24];

    snprintf(ms, sizeof ms, "%lld", (long long)wait_ms);
    const struct log_pair pairs[] = {{"how", note->how},
                                     {"module", some(note->module)},
                                     {"report", some(note->report)},
                                     {"delay_ms", ms}};

    log_now(BB_ERROR, "the worker exited and is restarted", pairs, sizeof pairs / sizeof *pairs);
}

static void ended(struct supervisor *supervisor, int status)
{
    int64_t now = clock_mono_ms();

    supervisor->worker = 0;
    service_manager_tell("WATCHDOG=1"); /* the next worker's first message may take a while */
    if (!supervisor->served)
        service_manager_tell(
            "EXTEND_TIMEOUT_USEC=90000000"); /* and so may a start that is tried again */
    if (supervisor->channel >= 0)
        listen_to_worker(supervisor);
    if (supervisor->channel >= 0)
        close(supervisor->channel);
    supervisor->channel = -1;
    if (supervisor->stopping ||
        (!supervisor->served && WIFEXITED(status) && !*supervisor->note.how)) {
        supervisor->over = true;
        supervisor->status = status;
        return;
    }
    complete(&supervisor->note, status);
    history_add(&supervisor->start.history, &supervisor->note, supervisor->ready, now);
    if (supervisor->ready && now - supervisor->ready_ms >= CALM_MS)
        supervisor->failures = 0;
    int64_t wait = delay_ms(supervisor->failures++);

    supervisor->next_ms = now + wait;
    tell(supervisor, wait);
}

/* ---- signals ----------------------------------------------------------------------------------
 */

static void reap(struct supervisor *supervisor)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == supervisor->worker)
            ended(supervisor, status);
}

static void on_signal(struct supervisor *supervisor, int number)
{
    if (number == SIGCHLD) {
        reap(supervisor);
        return;
    }
    if (number == SIGTERM || number == SIGINT)
        supervisor->stopping = true;
    if (supervisor->worker)
        kill(supervisor->worker, number);
    else if (supervisor->stopping)
        supervisor->over = true;
}

static void take_signals(struct supervisor *supervisor)
{
    struct signalfd_siginfo info;

    while (read(supervisor->signals, &info, sizeof info) == (ssize_t)sizeof info)
        on_signal(supervisor, (int)info.ssi_signo);
}

static int watch_signals(struct supervisor *supervisor)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD};
    sigset_t set;

    signal(SIGPIPE, SIG_IGN); /* the reader of the log may have gone */
    signal(SIGCHLD, SIG_DFL); /* if ignored, it would not report the end of the worker */
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&set, numbers[i]);
    sigprocmask(SIG_BLOCK, &set, &supervisor->before);
    supervisor->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return supervisor->signals < 0 ? -1 : 0;
}

/*
 * ---- the main loop -----------------------------------------------------------------------------
 */

/* Starts a worker when it is time. Returns the time until then; -1: a worker is running. */
static int next_step(struct supervisor *supervisor)
{
    int64_t now = clock_mono_ms();

    if (!supervisor->worker && now >= supervisor->next_ms)
        spawn(supervisor);
    if (supervisor->worker)
        return -1;
    service_manager_tell("WATCHDOG=1");
    int64_t left = supervisor->next_ms - now;

    return left > BEAT_MS ? BEAT_MS : left < 1 ? 1 : (int)left;
}

static void supervise(struct supervisor *supervisor)
{
    while (!supervisor->over) {
        int wait = next_step(supervisor);
        struct pollfd fds[] = {{.fd = supervisor->signals, .events = POLLIN},
                               {.fd = supervisor->channel, .events = POLLIN}};

        if (poll(fds, 2, wait) <= 0)
            continue;
        if (fds[1].revents)
            listen_to_worker(supervisor);
        if (fds[0].revents)
            take_signals(supervisor);
    }
}

/* Ends in the same way as the worker. */
static int end_like(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    int number = WTERMSIG(status);
    sigset_t set;

    prctl(PR_SET_DUMPABLE, 0); /* the worker has already dumped core */
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    return 128 + number;
}

bool supervisor_run(int argc, char **argv, int *status)
{
    static struct supervisor supervisor = {
        .channel = -1, .signals = -1, .start.kind = PACKET_START};

    if (!wanted(argc, argv))
        return false;
    supervisor.argv = argv;
    if (watch_signals(&supervisor)) {
        perror("busbar: the supervisor cannot watch signals");
        *status = 1;
        return true;
    }
    prctl(PR_SET_NAME, "busbar-super");
    guard_process();
    supervise(&supervisor);
    *status = end_like(supervisor.status);
    return true;
}
