#include "core/lib/crash.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/lib/activity.h"
#include "core/lib/condition.h"
#include "core/lib/log.h"
#include "core/lib/mapped_files.h"
#include "core/lib/signal_text.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/lib/version.h"

enum {
    ANSWER_MS = 500,
    REPORT_MS = 2000,
    OTHERS_MS = 5000,
    REPORTS = 100,
    FRAMES_MAX = 48,
    OWN_FRAMES = 8, /* maximum number of the handler's own frames */
    LINE_FRAMES = 12
};

struct frame {
    uintptr_t address;
    const struct object *object; /* NULL: no known file */
    char symbol[96];             /* "": unknown */
    size_t into;
};

struct report {
    int signal;
    uintptr_t address; /* the address that caused the fault */
    bool sent;         /* sent by a process, not raised by an instruction */
    bool foreign;      /* sent by another process: no module is at fault */
    const ucontext_t *context;
    const char *exit;                /* "exit()": called instead of a signal; or NULL */
    const char *reason;              /* why the host ended itself; NULL: it did not */
    struct crash_snapshot who;       /* without the stack */
    bool guard;                      /* the address is in the guard below the fiber's stack */
    struct frame frames[FRAMES_MAX]; /* the innermost one is first */
    size_t frame_count;
    const struct object *blamed; /* the innermost module, or NULL */
    char directory[256];
    char path[HISTORY_REPORT]; /* of the file; "": none */
};

static const int reported[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
static struct report report; /* there can be only one crash */
static atomic_int reporter;  /* id of the thread that reports; 0: none yet */
static sigjmp_buf behind;    /* continues after the stage that faulted */
static volatile sig_atomic_t staged;
static atomic_bool installed, agreed;
static pid_t owner; /* its child processes may end in any way */

static void keep(char *out, size_t size, const char *text)
{
    size_t length = 0;

    while (text && text[length] && length + 1 < size) {
        out[length] = text[length];
        length++;
    }
    out[length] = '\0';
}

static const char *some(const char *text)
{
    return *text ? text : NULL;
}

/* ---- finding out what ran ---- */

static void find_activity(struct report *of)
{
    struct activity now = activity_now();
    struct crash_snapshot *who = &of->who;
    struct signal_text what = {.fd = -1};

    of->guard = of->address && activity_guards((const void *)of->address); // NOLINT
    signal_text_add(&what, "%s%s%s%s%s", now.name, now.name && now.method ? ", " : "", now.method,
                    now.method ? " " : "", now.path);
    keep(who->module, sizeof who->module, now.module);
    keep(who->kind, sizeof who->kind, now.kind);
    keep(who->what, sizeof who->what, signal_text_end(&what));
    keep(who->request, sizeof who->request, now.request);
}

/* Where the thread was interrupted. */
static uintptr_t interrupted_at(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

/* If that address is not executable, the caller's address is where a call has stored it. */
static uintptr_t caller_of_nothing(const ucontext_t *context)
{
#if defined(__x86_64__)
    return *(const uintptr_t *)context->uc_mcontext.gregs[REG_RSP]; // NOLINT
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.regs[30];
#else
    (void)context;
    return 0;
#endif
}

static void add_frame(struct report *of, uintptr_t address)
{
    const struct object *object = mapped_files_find(address);

    if (!address || of->frame_count == FRAMES_MAX)
        return;
    of->frames[of->frame_count++] = (struct frame){.address = address, .object = object};
    if (object && object->module && !of->blamed)
        of->blamed = object;
}

/* At least one frame; may fault if the stack is damaged. */
static void find_frames(struct report *of)
{
    void *found[FRAMES_MAX + OWN_FRAMES];
    uintptr_t place = interrupted_at(of->context);
    int at = 0;

    of->frame_count = 0;
    of->blamed = NULL;
    add_frame(of, place);
    if (!mapped_files_find(place))
        add_frame(of, caller_of_nothing(of->context));
    int count = backtrace(found, FRAMES_MAX + OWN_FRAMES);

    while (at < count && (uintptr_t)found[at] != place)
        at++;
    for (at = at < count ? at + 1 : 1; at < count; at++) /* from here: no handler frame was found */
        add_frame(of, (uintptr_t)found[at]);
}

/* A return address follows the call, which may have been the last instruction of the function. */
static void find_names(struct report *of)
{
    for (size_t i = 0; i < of->frame_count; i++) {
        struct frame *frame = &of->frames[i];

        if (frame->object &&
            !mapped_files_symbol(frame->object, frame->address - (i > 0), frame->symbol,
                                 sizeof frame->symbol, &frame->into))
            frame->symbol[0] = '\0';
    }
}

/* Returns the module of the innermost code, or else the recorded one; "": none. */
static const char *module_of(const struct report *of)
{
    return of->blamed ? of->blamed->name : of->who.module;
}

/* ---- the report, as a file, a line, and a note for the supervisor ---- */

static const char *signal_name(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGABRT:
        return "SIGABRT";
    case SIGFPE:
        return "SIGFPE";
    case SIGILL:
        return "SIGILL";
    default:
        return "none";
    }
}

/* Appends "function+0x12 (module)". */
static void frame_text(struct signal_text *out, const struct frame *frame)
{
    const char *name = frame->object ? frame->object->name : "unknown";
    uintptr_t base = frame->object ? frame->object->base : 0;

    if (*frame->symbol)
        signal_text_add(out, "%s+%#lx (%s)", frame->symbol, (unsigned long)frame->into, name);
    else
        signal_text_add(out, "%#lx (%s)", frame->address - base, name);
}

static const char *stack_text(struct signal_text *out, const struct report *of)
{
    for (size_t i = 0; i < of->frame_count && i < LINE_FRAMES; i++) {
        signal_text_add(out, "%s", i ? " < " : "");
        frame_text(out, &of->frames[i]);
    }
    return signal_text_end(out);
}

/* crash-2026-11-24T00-11-22.123Z-4711.txt, because some file systems do not allow colons. */
static int open_file(struct report *of, const char *time)
{
    struct signal_text path = {.fd = -1};

    signal_text_add(&path, "%s/crash-%s-%lld.txt", of->directory, time, (long long)getpid());
    keep(of->path, sizeof of->path, signal_text_end(&path));
    for (char *at = of->path + strlen(of->directory); *at; at++)
        if (*at == ':')
            *at = '-';
    int fd = open(of->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        of->path[0] = '\0';
    return fd;
}

static const char *or_none(const char *text)
{
    return *text ? text : "none";
}

static void write_head(struct signal_text *out, const struct report *of, const char *time)
{
    const struct crash_snapshot *who = &of->who;
    char thread[16] = "";

    prctl(PR_GET_NAME, thread, 0, 0, 0);
    signal_text_add(out, "busbar: %s\ntime: %s\nprocess: %lld, thread %lld called: %s\n",
                    PACKAGE_VERSION, time, (long long)getpid(), (long long)syscall(SYS_gettid),
                    or_none(thread));
    if (of->exit)
        signal_text_add(out, "exit: %s\n", of->exit);
    signal_text_add(out, "signal: %lld %s", (long long)of->signal, signal_name(of->signal));
    if (of->sent)
        signal_text_add(out, ", sent\n");
    else
        signal_text_add(out, ", address %#lx\n", of->address);
    signal_text_add(out, "guard of a fiber: %s\n", of->guard ? "yes: its stack overflowed" : "no");
    if (of->reason)
        signal_text_add(out, "reason: %s\n", of->reason);
    signal_text_add(out, "module: %s\nran: %s %s, of module: %s\nrequest: %s\n",
                    or_none(module_of(of)), *who->kind ? who->kind : "nothing of a module",
                    who->what, or_none(who->module), or_none(who->request));
}

static void write_places(struct signal_text *out, const struct report *of)
{
    const struct object *object;

    signal_text_add(out, "\nbacktrace:\n");
    for (size_t i = 0; i < of->frame_count; i++) {
        const struct frame *frame = &of->frames[i];

        signal_text_add(out, "%s%lld  %#lx  ", i < 10 ? "   " : "  ", (long long)i, frame->address);
        frame_text(out, frame);
        if (frame->object)
            signal_text_add(out, "  %s+%#lx", frame->object->file,
                            frame->address - frame->object->base);
        signal_text_add(out, "\n");
    }
    signal_text_add(out, "\nbuild ids:\n");
    for (size_t i = 0; (object = mapped_files_at(i)); i++)
        signal_text_add(out, "  %s  %s  %s  at %#lx\n", object->name, or_none(object->build),
                        object->file, object->base);
}

static void write_file(struct report *of)
{
    struct signal_text out = {.fd = -1};
    char time[TEXT_TIME_SIZE];

    text_time(clock_wall_ms(), time);
    if (*of->directory)
        out.fd = open_file(of, time);
    if (out.fd < 0)
        return;
    write_head(&out, of, time);
    write_places(&out, of);
    signal_text_flush(&out);
    if (out.cut && !lseek(out.fd, 0, SEEK_CUR)) { /* nothing could be written */
        unlink(of->path);
        of->path[0] = '\0';
    }
    close(out.fd);
}

static void write_line(struct report *of)
{
    struct signal_text stack = {.fd = -1}, address = {.fd = -1};
    const struct crash_snapshot *who = &of->who;

    signal_text_add(&address, "%#lx", of->address);
    const struct log_pair pairs[] = {
        {"signal", of->exit ? NULL : signal_name(of->signal)},
        {"exit", of->exit},
        {"address", of->sent ? NULL : signal_text_end(&address)},
        {"guard", of->guard ? "the stack of a fiber overflowed" : NULL},
        {"reason", of->reason},
        {"module", some(module_of(of))},
        {"ran", some(who->kind)},
        {"what", some(who->what)},
        {"request", some(who->request)},
        {"report", some(of->path)},
        {"stack", stack_text(&stack, of)},
    };

    log_now(BB_ERROR, "crashed", pairs, sizeof pairs / sizeof *pairs);
}

/* The file of the module is named as in the list of modules: "hello" for "/usr/lib/hello.so". */
static void leave_note(struct report *of)
{
    static struct crash_note note;
    const char *how = of->exit ? of->exit : signal_name(of->signal);
    const char *file = of->blamed ? of->blamed->file : of->who.module;

    if (!of->foreign) {
        keep(note.module, sizeof note.module, module_of(of));
        for (const char *at = file; *at; at++)
            if (*at == '/')
                file = at + 1;
        keep(note.file, sizeof note.file, file);
        for (char *at = note.file; *at; at++)
            if (*at == '.')
                *at = '\0';
    }
    keep(note.how, sizeof note.how, of->reason ? of->reason : how);
    keep(note.report, sizeof note.report, of->path);
    supervised_crashed(&note);
}

/* A stage that faults is omitted. */
static void write_report(void)
{
    static void (*const stages[])(struct report *) = {find_activity, find_frames, find_names,
                                                      write_file,    write_line,  leave_note};

    for (volatile size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        staged = 1;
        if (!sigsetjmp(behind, 0))
            stages[i](&report);
        staged = 0;
    }
}

/* ---- the ends of the process ---- */

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

void crash_exits(void)
{
    atomic_store(&agreed, true);
}

/* Reports a call of exit() or _exit() like a crash, unless crash_exits() was called. */
static void exited(const char *how)
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

/* exit() runs this handler first, before anything is cleaned up; then nothing is cleaned up. */
static void on_exit_of(int status, void *arg)
{
    (void)arg;
    if (atomic_load(&agreed) || getpid() != owner)
        return;
    exited("exit()");
    syscall(SYS_exit_group, status);
}

#if !THREAD_SANITIZED
/*
 * Bypasses exit() and its handlers: the dynamic linker lets a program define _exit(), as it may
 * define malloc().
 */
void _exit(int status)
{
    exited("_exit()");
    for (;;)
        syscall(SYS_exit_group, status);
}

void _Exit(int status) __attribute__((alias("_exit")));
#endif

/* ---- inspecting another thread ---- */

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
    find_activity(&snapshot_report);
    find_frames(&snapshot_report);
    sem_post(&answered);
    errno = before;
}

bool crash_snapshot(pthread_t thread, struct crash_snapshot *snapshot)
{
    struct report *of = &snapshot_report;
    struct signal_text stack = {.fd = -1};
    int failed = -1;

    if (!atomic_load(&installed))
        return false;
    while (!sem_trywait(&answered)) /* a response that came too late */
        ;
    atomic_store(&wanted, thread);
    if (!pthread_kill(thread, snapshot_signal())) {
        int64_t until = clock_mono_ms() + ANSWER_MS;

        do
            failed = semaphore_wait(&answered, until);
        while (failed && errno == EINTR);
    }
    atomic_store(&wanted, 0);
    if (failed)
        return false;
    find_names(of);
    *snapshot = of->who;
    keep(snapshot->module, sizeof snapshot->module, module_of(of));
    keep(snapshot->stack, sizeof snapshot->stack, stack_text(&stack, of));
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

/* ---- setup ---- */

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

/* Sorted by name, the oldest report is first. */
static int is_report(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);

    return length > 10 && !strncmp(entry->d_name, "crash-2", 7) &&
           !strcmp(entry->d_name + length - 4, ".txt");
}

int crash_directory(const char *path)
{
    struct dirent **found = NULL;
    char old[512];

    if (!atomic_load(&installed))
        return 0;
    snprintf(report.directory, sizeof report.directory, "%s", path ? path : "");
    if (!*report.directory)
        return 0;
    if ((mkdir(report.directory, 0700) && errno != EEXIST) || access(report.directory, W_OK | X_OK))
        return -1;
    int count = scandir(report.directory, &found, is_report, alphasort);

    for (int i = 0; i < count; i++) {
        if (i < count - REPORTS && snprintf(old, sizeof old, "%s/%s", report.directory,
                                            found[i]->d_name) < (int)sizeof old)
            unlink(old);
        free(found[i]);
    }
    free(found);
    return 0;
}
