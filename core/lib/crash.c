#include "core/lib/crash.h"

#include <errno.h>
#include <execinfo.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/lib/condition.h"
#include "core/lib/log.h"
#include "core/lib/report.h"
#include "core/lib/reports.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"

enum { ANSWER_MS = 500, REPORT_MS = 2000, OTHERS_MS = 5000 };

static const int reported[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
static struct report report; /* there can be only one crash */
static atomic_int reporter;  /* id of the thread that reports; 0: none yet */
static sigjmp_buf behind;    /* continues after the stage that faulted */
static volatile sig_atomic_t staged;
static atomic_bool installed;
static pid_t owner; /* its child processes may end in any way */

/* Runs a part of the report; if it faults, the part is omitted. */
static void stage(void (*part)(struct report *))
{
    staged = 1;
    if (!sigsetjmp(behind, 0))
        part(&report);
    staged = 0;
}

/*
 * Restores the default action. A signal that was sent is sent again; one that was raised will be
 * raised again.
 */
static void die(int number, const siginfo_t *info)
{
    signal(number, SIG_DFL);
    if (info->si_code <= 0)
        syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), number);
}

static void write_report(void)
{
    stage(report_who);
    stage(report_stack);
    stage(report_names);
    stage(report_file);
    stage(report_line);
    stage(report_tell);
}

/* Sleeps for `ms` milliseconds, regardless of signals. */
static void rest(int ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static void on_crash(int number, siginfo_t *info, void *context)
{
    pid_t self = (pid_t)syscall(SYS_gettid);
    int nobody = 0;

    if (getpid() != owner) {
        die(number, info);
        return;
    }
    if (!atomic_compare_exchange_strong(&reporter, &nobody, self)) {
        if (nobody != self)
            rest(OTHERS_MS); /* the other thread's crash ends the process, unless its report
                              * hangs */
        else if (staged)
            siglongjmp(behind, 1);
        die(number, info);
        return;
    }
    report.signal = number;
    report.address = info->si_code > 0 ? (uintptr_t)info->si_addr : 0;
    report.sent = info->si_code <= 0;
    report.foreign = report.sent && (info->si_code != SI_TKILL || info->si_pid != owner);
    report.context = context;
    write_report();
    die(number, info);
}

/*
 * ---- unexpected exits --------------------------------------------------------------------------
 */

static atomic_bool agreed;

void crash_exits(void)
{
    atomic_store(&agreed, true);
}

void crash_exited(const char *how)
{
    pid_t self = (pid_t)syscall(SYS_gettid);
    int nobody = 0;
    ucontext_t here;

    if (!atomic_load(&installed) || atomic_load(&agreed) || getpid() != owner ||
        getcontext(&here) || !atomic_compare_exchange_strong(&reporter, &nobody, self))
        return;
    report.sent = true;
    report.exit = how;
    report.context = &here;
    write_report();
    report.context = NULL;
}

/*
 * ---- inspecting another thread -----------------------------------------------------------------
 */

static struct report snapshot_report; /* filled by the inspected thread … */
static _Atomic(pthread_t) wanted; /* … which is this one; 0: none, or the response came too late */
static sem_t answered;

static int snapshot_signal(void)
{
    return SIGRTMIN + 4;
}

static void on_snapshot_signal(int number, siginfo_t *info, void *context)
{
    int before = errno;

    (void)number;
    (void)info;
    if (atomic_load(&wanted) != pthread_self())
        return;
    snapshot_report.context = context;
    report_who(&snapshot_report);
    report_stack(&snapshot_report);
    sem_post(&answered);
    errno = before;
}

static bool wait_for_answer(void)
{
    int64_t until = clock_mono_ms() + ANSWER_MS;
    int failed;

    do
        failed = semaphore_wait(&answered, until);
    while (failed && errno == EINTR);
    return !failed;
}

bool crash_snapshot(pthread_t thread, struct crash_snapshot *snapshot)
{
    if (!atomic_load(&installed))
        return false;
    while (!sem_trywait(&answered)) /* a response that came too late */
        ;
    atomic_store(&wanted, thread);
    bool known = !pthread_kill(thread, snapshot_signal()) && wait_for_answer();

    atomic_store(&wanted, 0);
    if (!known)
        return false;
    report_names(&snapshot_report);
    report_snapshot(&snapshot_report, snapshot);
    return true;
}

void crash_end(pthread_t thread, const char *reason)
{
    report.reason = reason;
    log_flush(); /* the lines that explain why */
    if (atomic_load(&installed) && !pthread_kill(thread, SIGABRT))
        rest(REPORT_MS);
    if (atomic_load(&reporter)) { /* a report hangs, so end without one */
        signal(SIGABRT, SIG_DFL);
        raise(SIGABRT);
        kill(getpid(), SIGKILL);
    }
    abort(); /* it does not accept signals, or there is no handler for the signal */
}

/*
 * ---- setup ------------------------------------------------------------------------------------
 */

/* exit() runs this handler first, before anything is cleaned up; then nothing is cleaned up. */
static void on_exit_of(int status, void *arg)
{
    (void)arg;
    if (atomic_load(&agreed) || getpid() != owner)
        return;
    crash_exited("exit()");
    syscall(SYS_exit_group, status);
}

static void handle_by(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler,
                               .sa_flags = flags | SA_SIGINFO | SA_ONSTACK};

    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void crash_install(void)
{
    void *frames[4];

    if (THREAD_SANITIZED || atomic_load(&installed) || sem_init(&answered, 0, 0))
        return;
    mapped_files_snapshot();
    backtrace(frames, 4); /* loads libgcc, which allocates what it needs */
    thread_alternate_stack();
    for (size_t i = 0; i < sizeof reported / sizeof *reported; i++)
        handle_by(reported[i], on_crash, SA_NODEFER);
    handle_by(snapshot_signal(), on_snapshot_signal, SA_RESTART);
    owner = getpid();
    on_exit(on_exit_of, NULL);
    atomic_store(&installed, true);
}

int crash_directory(const char *path)
{
    if (!atomic_load(&installed))
        return 0;
    snprintf(report.directory, sizeof report.directory, "%s", path ? path : "");
    return *report.directory ? reports_open(report.directory) : 0;
}
