#include "core/lib/crash.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/lib/fiber.h"
#include "core/lib/log.h"
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
    char name[16];                   /* "SIGSEGV"; "": no signal */
    const char *exit;                /* "exit()": called instead of a signal; or NULL */
    const char *reason;              /* why the host ended itself, or NULL */
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
static pid_t owner; /* only this process reports; its child processes do not */

static void crash_keep(char *out, size_t size, const char *text)
{
    size_t length = 0;

    while (text && text[length] && length + 1 < size) {
        out[length] = text[length];
        length++;
    }
    out[length] = '\0';
}

/* ---- text, with async-signal-safe functions only ---- */

struct crash_text {
    int fd; /* -1: keep the text, cut to the size of `bytes` */
    size_t used;
    bool cut; /* a part could not be written */
    char bytes[1024];
};

static void crash_text_flush(struct crash_text *text)
{
    size_t done = 0;

    while (text->fd >= 0 && done < text->used) {
        ssize_t wrote = write(text->fd, text->bytes + done, text->used - done);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            text->cut = true;
            break;
        }
        done += (size_t)wrote;
    }
    text->used = 0;
}

static void crash_put(struct crash_text *text, char c)
{
    if (text->used + 1 == sizeof text->bytes && text->fd >= 0)
        crash_text_flush(text);
    if (text->used + 1 < sizeof text->bytes)
        text->bytes[text->used++] = c;
}

static void crash_put_text(struct crash_text *text, const char *from)
{
    for (; from && *from; from++)
        crash_put(text, *from);
}

static void crash_put_digits(struct crash_text *text, unsigned long long number, unsigned base)
{
    char digits[24];
    size_t count = 0;

    do
        digits[count++] = "0123456789abcdef"[number % base];
    while (number /= base);
    while (count)
        crash_put(text, digits[--count]);
}

/* Appends a text. The format may have only %s (NULL: nothing), %lld and %#lx. */
BB_PRINTF(2, 3) static void crash_text_add(struct crash_text *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    for (; *format; format++) {
        if (*format != '%') {
            crash_put(text, *format);
        } else if (*++format == 's') {
            crash_put_text(text, va_arg(args, const char *));
        } else if (*format == '#') {
            crash_put_text(text, "0x");
            crash_put_digits(text, va_arg(args, unsigned long), 16);
            format += 2;
        } else {
            long long number = va_arg(args, long long);

            crash_put_text(text, number < 0 ? "-" : NULL);
            crash_put_digits(
                text, number < 0 ? -(unsigned long long)number : (unsigned long long)number, 10);
            format += 2;
        }
    }
    va_end(args);
}

/* Returns the text if fd is -1. */
static const char *crash_text_end(struct crash_text *text)
{
    text->bytes[text->used] = '\0';
    return text->bytes;
}

/* ---- finding the code that ran ---- */

static void crash_activity(struct report *of)
{
    struct activity now = activity_now();
    struct crash_snapshot *who = &of->who;
    struct crash_text what = {.fd = -1};

    of->guard = of->address && fiber_guards((const void *)of->address); // NOLINT
    crash_text_add(&what, "%s%s%s%s%s", now.name, now.name && now.method ? ", " : "", now.method,
                   now.method ? " " : "", now.path);
    crash_keep(who->module, sizeof who->module, now.module);
    crash_keep(who->kind, sizeof who->kind, now.kind);
    crash_keep(who->what, sizeof who->what, crash_text_end(&what));
    crash_keep(who->request, sizeof who->request, now.request);
}

/* Returns the address at which the thread was interrupted. */
static uintptr_t crash_interrupted_at(const ucontext_t *context)
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

/* After a call of an address that is not executable: returns the address of the caller. */
static uintptr_t crash_caller_of_nothing(const ucontext_t *context)
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

static void crash_add_frame(struct report *of, uintptr_t address)
{
    const struct object *object = mapped_files_find(address);

    if (!address || of->frame_count == FRAMES_MAX)
        return;
    of->frames[of->frame_count++] = (struct frame){.address = address, .object = object};
    if (object && object->module && !of->blamed)
        of->blamed = object;
}

/* Stores the backtrace, at least one frame. May fault if the stack is damaged. */
static void crash_frames(struct report *of)
{
    void *found[FRAMES_MAX + OWN_FRAMES];
    uintptr_t place = crash_interrupted_at(of->context);
    int at = 0;

    of->frame_count = 0;
    of->blamed = NULL;
    crash_add_frame(of, place);
    if (!mapped_files_find(place))
        crash_add_frame(of, crash_caller_of_nothing(of->context));
    int count = backtrace(found, FRAMES_MAX + OWN_FRAMES);

    while (at < count && (uintptr_t)found[at] != place)
        at++;
    for (at = at < count ? at + 1 : 1; at < count;
         at++) /* from 1: no frame of the handler was found */
        crash_add_frame(of, (uintptr_t)found[at]);
}

/* Names the frames; looks up the byte before a return address, which belongs to the call. */
static void crash_names(struct report *of)
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
static const char *crash_module_of(const struct report *of)
{
    return of->blamed ? of->blamed->name : of->who.module;
}

/* ---- the report, as a file, a line, and a note for the supervisor ---- */

/* Appends "function+0x12 (module)". */
static void crash_frame_text(struct crash_text *out, const struct frame *frame)
{
    const char *name = frame->object ? frame->object->name : "unknown";
    uintptr_t base = frame->object ? frame->object->base : 0;

    if (*frame->symbol)
        crash_text_add(out, "%s+%#lx (%s)", frame->symbol, (unsigned long)frame->into, name);
    else
        crash_text_add(out, "%#lx (%s)", frame->address - base, name);
}

static const char *crash_stack_text(struct crash_text *out, const struct report *of)
{
    for (size_t i = 0; i < of->frame_count && i < LINE_FRAMES; i++) {
        crash_text_add(out, "%s", i ? " < " : "");
        crash_frame_text(out, &of->frames[i]);
    }
    return crash_text_end(out);
}

static const char *crash_or_none(const char *text)
{
    return *text ? text : "none";
}

static void crash_write_file(struct report *of)
{
    struct crash_text out = {.fd = -1};
    char time[TEXT_TIME_SIZE];

    text_time(clock_wall_ms(), time);
    if (*of->directory) {
        /*
         * The name is crash-2026-11-24T00-11-22.123Z-4711.txt, because some file systems do not
         * allow colons.
         */
        struct crash_text path = {.fd = -1};

        crash_text_add(&path, "%s/crash-%s-%lld.txt", of->directory, time, (long long)getpid());
        crash_keep(of->path, sizeof of->path, crash_text_end(&path));
        for (char *at = of->path + strlen(of->directory); *at; at++)
            if (*at == ':')
                *at = '-';
        int fd = open(of->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        if (fd < 0)
            of->path[0] = '\0';
        out.fd = fd;
    }
    if (out.fd < 0)
        return;
    const struct crash_snapshot *who = &of->who;
    const struct object *object;
    char thread[16] = "";

    prctl(PR_GET_NAME, thread, 0, 0, 0);
    crash_text_add(&out, "busbar: %s\ntime: %s\nprocess: %lld, thread %lld called: %s\n",
                   PACKAGE_VERSION, time, (long long)getpid(), (long long)syscall(SYS_gettid),
                   crash_or_none(thread));
    if (of->exit)
        crash_text_add(&out, "exit: %s\n", of->exit);
    crash_text_add(&out, "signal: %lld %s", (long long)of->signal, crash_or_none(of->name));
    if (of->sent)
        crash_text_add(&out, ", sent\n");
    else
        crash_text_add(&out, ", address %#lx\n", of->address);
    crash_text_add(&out, "guard of a fiber: %s\n", of->guard ? "yes: its stack overflowed" : "no");
    if (of->reason)
        crash_text_add(&out, "reason: %s\n", of->reason);
    crash_text_add(&out, "module: %s\nran: %s %s, of module: %s\nrequest: %s\n",
                   crash_or_none(crash_module_of(of)),
                   *who->kind ? who->kind : "nothing of a module", who->what,
                   crash_or_none(who->module), crash_or_none(who->request));
    crash_text_add(&out, "\nbacktrace:\n");
    for (size_t i = 0; i < of->frame_count; i++) {
        const struct frame *frame = &of->frames[i];

        crash_text_add(&out, "%s%lld  %#lx  ", i < 10 ? "   " : "  ", (long long)i, frame->address);
        crash_frame_text(&out, frame);
        if (frame->object)
            crash_text_add(&out, "  %s+%#lx", frame->object->file,
                           frame->address - frame->object->base);
        crash_text_add(&out, "\n");
    }
    crash_text_add(&out, "\nbuild ids:\n");
    for (size_t i = 0; (object = mapped_files_at(i)); i++)
        crash_text_add(&out, "  %s  %s  %s  at %#lx\n", object->name, crash_or_none(object->build),
                       object->file, object->base);
    crash_text_flush(&out);
    if (out.cut && !lseek(out.fd, 0, SEEK_CUR)) { /* nothing could be written */
        unlink(of->path);
        of->path[0] = '\0';
    }
    close(out.fd);
}

static void crash_write_line(struct report *of)
{
    struct crash_text stack = {.fd = -1}, address = {.fd = -1};
    const struct crash_snapshot *who = &of->who;

    crash_text_add(&address, "%#lx", of->address);
    const struct log_pair pairs[] = {
        {"signal", text_some(of->name)},
        {"exit", of->exit},
        {"address", of->sent ? NULL : crash_text_end(&address)},
        {"guard", of->guard ? "the stack of a fiber overflowed" : NULL},
        {"reason", of->reason},
        {"module", text_some(crash_module_of(of))},
        {"ran", text_some(who->kind)},
        {"what", text_some(who->what)},
        {"request", text_some(who->request)},
        {"report", text_some(of->path)},
        {"stack", crash_stack_text(&stack, of)},
    };

    log_now(BB_ERROR, "crashed", pairs, sizeof pairs / sizeof *pairs);
}

/* Leaves a note for the supervisor. For "/usr/lib/hello.so" the file is named "hello". */
static void crash_leave_note(struct report *of)
{
    static struct crash_note note;
    const char *how = of->exit ? of->exit : of->name;
    const char *file = of->blamed ? of->blamed->file : of->who.module;

    if (!of->foreign) {
        crash_keep(note.module, sizeof note.module, crash_module_of(of));
        for (const char *at = file; *at; at++)
            if (*at == '/')
                file = at + 1;
        crash_keep(note.file, sizeof note.file, file);
        for (char *at = note.file; *at; at++)
            if (*at == '.')
                *at = '\0';
    }
    crash_keep(note.how, sizeof note.how, of->reason ? of->reason : how);
    crash_keep(note.report, sizeof note.report, of->path);
    supervised_crashed(&note);
}

/* Writes the report; omits stages that fault. */
static void crash_write_report(void)
{
    static void (*const stages[])(struct report *) = {crash_activity,   crash_frames,
                                                      crash_names,      crash_write_file,
                                                      crash_write_line, crash_leave_note};

    for (volatile size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        staged = 1;
        if (!sigsetjmp(behind, 0))
            stages[i](&report);
        staged = 0;
    }
}

/* ---- the ends of the process ---- */

/* Sleeps for `ms` milliseconds, regardless of signals. */
static void crash_rest(int ms)
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
 * Restores the default action. Sends the signal again, unless an instruction will raise it again.
 */
static void crash_die(int number, const siginfo_t *info)
{
    signal(number, SIG_DFL);
    if (info->si_code <= 0)
        syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), number);
}

static void crash_on_signal(int number, siginfo_t *info, void *context)
{
    struct crash_text name = {.fd = -1};
    pid_t self = (pid_t)syscall(SYS_gettid);
    int nobody = 0;

    if (getpid() != owner) {
        crash_die(number, info);
        return;
    }
    if (!atomic_compare_exchange_strong(&reporter, &nobody, self)) {
        if (nobody != self)
            crash_rest(OTHERS_MS); /* the other thread reports, and ends the process */
        else if (staged)
            siglongjmp(behind, 1);
        crash_die(number, info);
        return;
    }
    report.signal = number;
    crash_text_add(&name, "SIG%s", sigabbrev_np(number));
    crash_keep(report.name, sizeof report.name, crash_text_end(&name));
    report.address = info->si_code > 0 ? (uintptr_t)info->si_addr : 0;
    report.sent = info->si_code <= 0;
    report.foreign = report.sent && (info->si_code != SI_TKILL || info->si_pid != owner);
    report.context = context;
    crash_write_report();
    crash_die(number, info);
}

void crash_exits(void)
{
    atomic_store(&agreed, true);
}

/* Reports a call of exit() or _exit() like a crash, unless crash_exits() was called. */
static void crash_exited(const char *how)
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
    crash_write_report();
    report.context = NULL;
}

/* exit() calls this handler first; after a report, the handler ends the process without cleanup. */
static void crash_on_exit(int status, void *arg)
{
    (void)arg;
    if (atomic_load(&agreed) || getpid() != owner)
        return;
    crash_exited("exit()");
    syscall(SYS_exit_group, status);
}

#if !THREAD_SANITIZED
/* Reports calls of _exit(), which run no exit handlers. A program may define functions of libc. */
void _exit(int status)
{
    crash_exited("_exit()");
    for (;;)
        syscall(SYS_exit_group, status);
}

void _Exit(int status) __attribute__((alias("_exit")));
#endif

/* ---- inspecting another thread ---- */

static struct report snapshot_report; /* filled by the inspected thread … */
static _Atomic(pthread_t) wanted; /* … which is this one; 0: none, or the response came too late */
static sem_t answered;

static int crash_snapshot_signal(void)
{
    return SIGRTMIN + 4;
}

static void crash_on_snapshot_signal(int number, siginfo_t *info, void *context)
{
    int before = errno;

    (void)number;
    (void)info;
    if (atomic_load(&wanted) != pthread_self())
        return;
    snapshot_report.context = context;
    crash_activity(&snapshot_report);
    crash_frames(&snapshot_report);
    sem_post(&answered);
    errno = before;
}

bool crash_snapshot(pthread_t thread, struct crash_snapshot *snapshot)
{
    struct report *of = &snapshot_report;
    struct crash_text stack = {.fd = -1};
    int failed = -1;

    if (!atomic_load(&installed))
        return false;
    while (!sem_trywait(&answered)) /* a response that came too late */
        ;
    atomic_store(&wanted, thread);
    if (!pthread_kill(thread, crash_snapshot_signal())) {
        int64_t until = clock_mono_ms() + ANSWER_MS;

        do
            failed = semaphore_wait(&answered, until);
        while (failed && errno == EINTR);
    }
    atomic_store(&wanted, 0);
    if (failed)
        return false;
    crash_names(of);
    *snapshot = of->who;
    crash_keep(snapshot->module, sizeof snapshot->module, crash_module_of(of));
    crash_keep(snapshot->stack, sizeof snapshot->stack, crash_stack_text(&stack, of));
    return true;
}

void crash_end(pthread_t thread, const char *reason)
{
    report.reason = reason;
    log_flush(); /* writes earlier lines, which may explain the reason */
    if (atomic_load(&installed) && !pthread_kill(thread, SIGABRT))
        crash_rest(REPORT_MS);
    if (atomic_load(&reporter)) { /* a report hangs, so end without one */
        signal(SIGABRT, SIG_DFL);
        raise(SIGABRT);
        kill(getpid(), SIGKILL);
    }
    abort(); /* the thread does not accept signals, or there is no handler */
}

/* ---- setup ---- */

static void crash_handle_by(int number, void (*handler)(int, siginfo_t *, void *), int flags)
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
    backtrace(frames, 4); /* loads libgcc, which allocates its memory now */
    thread_alternate_stack();
    for (size_t i = 0; i < sizeof reported / sizeof *reported; i++)
        crash_handle_by(reported[i], crash_on_signal, SA_NODEFER);
    crash_handle_by(crash_snapshot_signal(), crash_on_snapshot_signal, SA_RESTART);
    owner = getpid();
    on_exit(crash_on_exit, NULL);
    atomic_store(&installed, true);
}

/* Sorted by name, the oldest report is first. */
static int crash_is_report(const struct dirent *entry)
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
    int count = scandir(report.directory, &found, crash_is_report, alphasort);

    for (int i = 0; i < count; i++) {
        if (i < count - REPORTS && snprintf(old, sizeof old, "%s/%s", report.directory,
                                            found[i]->d_name) < (int)sizeof old)
            unlink(old);
        free(found[i]);
    }
    free(found);
    return 0;
}

enum { OBJECTS_MAX = 256 };

static struct object objects[OBJECTS_MAX];
static atomic_size_t object_count;

/* Finds the build id in the notes, which are aligned to four bytes. */
static void mapped_find_build(struct object *object, const char *notes, size_t size)
{
    size_t at = 0;

    while (at + sizeof(ElfW(Nhdr)) <= size) {
        const ElfW(Nhdr) *note = (const void *)(notes + at);
        size_t name = (note->n_namesz + 3U) & ~3U, text = (note->n_descsz + 3U) & ~3U;

        if (name > size || text > size || at + sizeof *note + name + text > size)
            return;
        const char *vendor = notes + at + sizeof *note;
        if (note->n_type == NT_GNU_BUILD_ID && name == 4 && !memcmp(vendor, "GNU", 4))
            for (size_t i = 0; i < note->n_descsz && 2 * i + 2 < OBJECT_BUILD; i++)
                snprintf(object->build + 2 * i, 3, "%02x", (unsigned char)vendor[name + i]);
        at += sizeof *note + name + text;
    }
}

static int mapped_add(struct dl_phdr_info *info, size_t size, void *arg)
{
    size_t count = atomic_load(&object_count);
    const char *path = info->dlpi_name;
    char own[OBJECT_PATH];

    (void)size;
    (void)arg;
    for (size_t i = 0; i < count; i++)
        if (objects[i].base == info->dlpi_addr)
            return 0;
    if (count == OBJECTS_MAX)
        return 0;
    struct object *object = &objects[count];

    *object = (struct object){.base = info->dlpi_addr};
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;

        if (part->p_type == PT_NOTE)
            mapped_find_build(object, (const char *)from, part->p_filesz); // NOLINT
        if (part->p_type != PT_LOAD)
            continue;
        if (!object->to || from < object->from)
            object->from = from;
        if (to > object->to)
            object->to = to;
    }
    ssize_t length = *path ? 0 : readlink("/proc/self/exe", own, sizeof own - 1);

    if (length > 0)
        own[length] = '\0';
    const char *file = length > 0 ? own : path;
    const char *slash = strrchr(file, '/');

    snprintf(object->open, sizeof object->open, "%s", *path ? path : "/proc/self/exe");
    snprintf(object->file, sizeof object->file, "%s", file);
    snprintf(object->name, sizeof object->name, "%.63s", slash ? slash + 1 : file);
    atomic_store(&object_count, count + 1);
    return 0;
}

void mapped_files_snapshot(void)
{
    dl_iterate_phdr(mapped_add, NULL);
}

void mapped_files_module(const void *address, const char *name, const char *file)
{
    struct object *object = (struct object *)(uintptr_t)mapped_files_find((uintptr_t)address);

    if (!object)
        return;
    snprintf(object->name, sizeof object->name, "%s", name);
    snprintf(object->file, sizeof object->file, "%s", file);
    object->module = true;
}

const struct object *mapped_files_at(size_t index)
{
    return index < atomic_load(&object_count) ? &objects[index] : NULL;
}

const struct object *mapped_files_find(uintptr_t address)
{
    size_t count = atomic_load(&object_count);

    for (size_t i = 0; i < count; i++)
        if (address >= objects[i].from && address < objects[i].to)
            return &objects[i];
    return NULL;
}

/* ---- symbols, with async-signal-safe calls only ---- */

struct image {
    const char *bytes;
    size_t size;
};

/* Returns `count` objects of `each` bytes at an offset; NULL if the file does not contain them. */
static const void *mapped_part_of(const struct image *image, uint64_t offset, uint64_t count,
                                  size_t each)
{
    if (offset > image->size || count > (image->size - offset) / each)
        return NULL;
    return image->bytes + offset;
}

/* Returns the full symbol table, or, if the file is stripped, the table of exported symbols. */
static const ElfW(Shdr) * find_table(const ElfW(Shdr) * sections, size_t count)
{
    const ElfW(Shdr) *found = NULL;

    for (size_t i = 0; i < count; i++) {
        if (sections[i].sh_type == SHT_SYMTAB)
            return &sections[i];
        if (sections[i].sh_type == SHT_DYNSYM)
            found = &sections[i];
    }
    return found;
}

static bool mapped_find_symbol(const struct image *image, const ElfW(Shdr) * table,
                               const ElfW(Shdr) * texts, uintptr_t at, char *name, size_t size,
                               size_t *into)
{
    size_t count = table->sh_size / sizeof(ElfW(Sym));
    const ElfW(Sym) *symbols = mapped_part_of(image, table->sh_offset, count, sizeof *symbols);
    const char *strings = mapped_part_of(image, texts->sh_offset, texts->sh_size, 1);

    for (size_t i = 0; symbols && strings && i < count; i++) {
        const ElfW(Sym) *symbol = &symbols[i];

        if ((symbol->st_info & 15) != STT_FUNC || at < symbol->st_value ||
            at - symbol->st_value >= symbol->st_size || symbol->st_name >= texts->sh_size)
            continue;
        const char *from = strings + symbol->st_name;
        size_t length = 0, most = texts->sh_size - symbol->st_name;

        for (; length + 1 < size && length < most && from[length]; length++)
            name[length] = from[length];
        name[length] = '\0';
        *into = at - symbol->st_value;
        return true;
    }
    return false;
}

static bool mapped_read_image(const struct image *image, uintptr_t at, char *name, size_t size,
                              size_t *into)
{
    const ElfW(Ehdr) *head = mapped_part_of(image, 0, 1, sizeof *head);

    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_shentsize != sizeof(ElfW(Shdr)))
        return false;
    const ElfW(Shdr) *sections =
        mapped_part_of(image, head->e_shoff, head->e_shnum, sizeof(ElfW(Shdr)));
    const ElfW(Shdr) *table = sections ? find_table(sections, head->e_shnum) : NULL;

    if (!table || table->sh_link >= head->e_shnum)
        return false;
    return mapped_find_symbol(image, table, &sections[table->sh_link], at, name, size, into);
}

bool mapped_files_symbol(const struct object *object, uintptr_t address, char *name, size_t size,
                         size_t *into)
{
    int fd = open(object->open, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    void *bytes = MAP_FAILED;

    if (fd < 0)
        return false;
    if (!fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_size > 0)
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return false;
    struct image image = {bytes, (size_t)about.st_size};
    bool found = mapped_read_image(&image, address - object->base, name, size, into);

    munmap(bytes, image.size);
    return found;
}
