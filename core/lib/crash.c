#include "core/lib/crash.h"

#include "config.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <poll.h>
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
#include <ucontext.h>
#include <unistd.h>

#include "core/lib/fiber.h"
#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"

enum {
    ANSWER_MS = 500,
    REPORT_MS = 2000,
    OTHERS_MS = 5000,
    REPORTS = 100,
    FRAMES_MAX = 48,
    OWN_FRAMES = 8, /* maximum number of the handler's own frames */
    LINE_FRAMES = 12,
    FRAME_TEXT = 192
};

enum { OBJECT_PATH = 256, OBJECT_BUILD = 65 };

/* A file whose code is mapped. */
struct object {
    uintptr_t base;           /* the offset between addresses in the file and in memory */
    char name[64];            /* the module's name, or the file's */
    char file[OBJECT_PATH];   /* path for reports */
    char open[OBJECT_PATH];   /* path for open(); for a module, a private copy of the file */
    char build[OBJECT_BUILD]; /* build id in hexadecimal, or "" */
    bool module;
};

struct frame {
    uintptr_t address;
    const struct object *object; /* NULL: not in `objects` */
    char symbol[96];             /* "": unknown */
    size_t into;
};

enum { FIELDS = 11 };

struct report {
    uintptr_t address; /* the address that caused the fault */
    bool sent;         /* the signal was sent by a process, not caused by an instruction */
    bool foreign;      /* another process sent the signal, so no module is at fault */
    const ucontext_t *context;
    char name[16];                   /* "SIGSEGV"; "": no signal */
    const char *exit;                /* the function that was called, "exit()"; NULL: a signal */
    const char *reason;              /* set by crash_end(); NULL: it was not called */
    struct crash_snapshot who;       /* what the thread was doing, from activity_now() */
    bool guard;                      /* the address is in the guard below the fiber's stack */
    struct frame frames[FRAMES_MAX]; /* the innermost one is first */
    size_t frame_count;
    const struct object *blamed; /* the innermost module in `frames`, or NULL */
    struct log_pair fields[FIELDS];
    char directory[256];
    struct crash_note note; /* its `report` is the path of the file; "": none */
};

static const int reported[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
static struct report report; /* only one crash of a process is reported */
static atomic_int reporter;  /* id of the thread that reports; 0: none yet */
static sigjmp_buf behind;    /* siglongjmp() to it skips the stage that faulted */
static volatile sig_atomic_t staged;
static atomic_bool installed, agreed;
static pid_t owner; /* only this process reports; its child processes do not */

/* ---- text: vsnprintf() of glibc neither locks nor allocates for the conversions used here ---- */

/* Formats like printf() and writes the text, cut to 1,023 bytes, to `fd`. */
BB_PRINTF(2, 3) static void crash_write(int fd, const char *format, ...)
{
    char text[1024] = "";
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (size_t done = 0, length = strlen(text); done < length;) {
        ssize_t wrote = TEMP_FAILURE_RETRY(write(fd, text + done, length - done));

        if (wrote <= 0)
            return;
        done += (size_t)wrote;
    }
}

/* Returns the text, or `none` if it is NULL or empty. */
static const char *crash_or(const char *text, const char *none)
{
    return text && *text ? text : none;
}

/* ---- the files whose code is mapped ---- */

enum { OBJECTS_MAX = 256 };

static struct object objects[OBJECTS_MAX];
static atomic_size_t object_count;

/* Copies the GNU build id, if there is one, from an ELF note segment, aligned to four bytes. */
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
            text_hex(vendor + name,
                     note->n_descsz < OBJECT_BUILD / 2 ? note->n_descsz : OBJECT_BUILD / 2,
                     object->build);
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

        if (part->p_type == PT_NOTE)
            mapped_find_build(object, (const char *)(info->dlpi_addr + part->p_vaddr), // NOLINT
                              part->p_filesz);
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

/* Returns the object whose file is mapped at the address, or NULL. Async-signal-safe. */
static struct object *mapped_find(uintptr_t address)
{
    size_t count = atomic_load(&object_count);
    struct dl_find_object found;

    if (_dl_find_object((void *)address, &found)) // NOLINT
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (objects[i].base == found.dlfo_link_map->l_addr)
            return &objects[i];
    return NULL;
}

const char *mapped_files_module(const void *address, const char *name, const char *file)
{
    struct object *object = mapped_find((uintptr_t)address);

    if (!object)
        return "";
    snprintf(object->name, sizeof object->name, "%s", name);
    snprintf(object->file, sizeof object->file, "%s", file);
    object->module = true;
    return object->build;
}

/* ---- symbols, for signal handlers ---- */

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

/* Names the frame by the symbol of the function that contains `at`, an address in the file. */
static void mapped_find_symbol(const struct image *image, uintptr_t at, struct frame *frame)
{
    const ElfW(Ehdr) *head = mapped_part_of(image, 0, 1, sizeof *head);

    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_shentsize != sizeof(ElfW(Shdr)))
        return;
    const ElfW(Shdr) *sections =
        mapped_part_of(image, head->e_shoff, head->e_shnum, sizeof(ElfW(Shdr)));
    const ElfW(Shdr) *table = NULL;

    /* the full symbol table, or, if the file is stripped, the table of exported symbols */
    for (size_t i = 0; sections && i < head->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB || (!table && sections[i].sh_type == SHT_DYNSYM))
            table = &sections[i];
    if (!table || table->sh_link >= head->e_shnum)
        return;
    const ElfW(Shdr) *texts = &sections[table->sh_link];
    size_t count = table->sh_size / sizeof(ElfW(Sym));
    const ElfW(Sym) *symbols = mapped_part_of(image, table->sh_offset, count, sizeof *symbols);
    const char *strings = mapped_part_of(image, texts->sh_offset, texts->sh_size, 1);

    for (size_t i = 0; symbols && strings && i < count; i++) {
        const ElfW(Sym) *symbol = &symbols[i];

        if ((symbol->st_info & 15) != STT_FUNC || at < symbol->st_value ||
            at - symbol->st_value >= symbol->st_size || symbol->st_name >= texts->sh_size)
            continue;
        size_t most = texts->sh_size - symbol->st_name;

        most = most < sizeof frame->symbol ? most : sizeof frame->symbol;
        snprintf(frame->symbol, sizeof frame->symbol, "%.*s", (int)most, strings + symbol->st_name);
        frame->into = at - symbol->st_value;
        return;
    }
}

/* ---- finding the code that ran ---- */

static void crash_activity(struct report *of)
{
    struct activity now = activity_now();
    struct crash_snapshot *who = &of->who;

    of->guard = of->address && fiber_guards((const void *)of->address); // NOLINT
    snprintf(who->what, sizeof who->what, "%s%s%s%s%s", crash_or(now.name, ""),
             now.name && now.method ? ", " : "", crash_or(now.method, ""), now.method ? " " : "",
             crash_or(now.path, ""));
    snprintf(who->module, sizeof who->module, "%s", crash_or(now.module, ""));
    snprintf(who->kind, sizeof who->kind, "%s", crash_or(now.kind, ""));
    snprintf(who->request, sizeof who->request, "%s", crash_or(now.request, ""));
}

/*
 * Returns the address at which the thread was interrupted. If the thread has called an address
 * without code, set `caller` to get the caller's address.
 */
static uintptr_t crash_address(const ucontext_t *context, bool caller)
{
#if defined(__x86_64__)
    const greg_t *registers = context->uc_mcontext.gregs;

    return caller ? *(const uintptr_t *)registers[REG_RSP]
                  : (uintptr_t)registers[REG_RIP]; // NOLINT
#elif defined(__aarch64__)
    return caller ? context->uc_mcontext.regs[30] : context->uc_mcontext.pc;
#else
    (void)context;
    (void)caller;
    return 0;
#endif
}

static void crash_add_frame(struct report *of, uintptr_t address)
{
    const struct object *object = mapped_find(address);

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
    uintptr_t place = crash_address(of->context, false);
    int at = 0;

    of->frame_count = 0;
    of->blamed = NULL;
    crash_add_frame(of, place);
    if (!mapped_find(place))
        crash_add_frame(of, crash_address(of->context, true));
    int count = backtrace(found, FRAMES_MAX + OWN_FRAMES);

    while (at < count && (uintptr_t)found[at] != place)
        at++;
    for (at = at < count ? at + 1 : 1; at < count;
         at++) /* if `place` is not found, skips only this function's frame */
        crash_add_frame(of, (uintptr_t)found[at]);
}

/* Writes "function+0x12 (module)" to `out`, and returns it. */
static const char *crash_frame_text(char out[FRAME_TEXT], const struct frame *frame)
{
    const char *name = frame->object ? frame->object->name : "unknown";
    uintptr_t base = frame->object ? frame->object->base : 0;

    if (*frame->symbol)
        snprintf(out, FRAME_TEXT, "%s+0x%zx (%s)", frame->symbol, frame->into, name);
    else
        snprintf(out, FRAME_TEXT, "0x%" PRIxPTR " (%s)", frame->address - base, name);
    return out;
}

/* Names the frames. Looks up return addresses minus 1, because a function may end with a call. */
static void crash_names(struct report *of)
{
    for (size_t i = 0; i < of->frame_count; i++) {
        struct frame *frame = &of->frames[i];
        int fd = frame->object ? open(frame->object->open, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
        struct stat about;
        void *bytes = MAP_FAILED;

        if (fd < 0)
            continue;
        if (!fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_size > 0)
            bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        if (bytes == MAP_FAILED)
            continue;
        struct image image = {bytes, (size_t)about.st_size};

        mapped_find_symbol(&image, frame->address - (i > 0) - frame->object->base, frame);
        munmap(bytes, image.size);
    }
}

/* Writes the frames as text. Names are missing if crash_names() has faulted on a truncated file. */
static void crash_stack(struct report *of)
{
    char text[FRAME_TEXT], *stack = of->who.stack;
    size_t used = 0;

    *stack = '\0';
    for (size_t i = 0; i < of->frame_count && i < LINE_FRAMES && used < sizeof of->who.stack; i++)
        used += (size_t)snprintf(stack + used, sizeof of->who.stack - used, "%s%s", i ? " < " : "",
                                 crash_frame_text(text, &of->frames[i]));
}

/* Returns the innermost module in the backtrace, or else the recorded module; "": none. */
static const char *crash_module_of(const struct report *of)
{
    return of->blamed ? of->blamed->name : of->who.module;
}

/* ---- the report, as a file, a line, and a note for the supervisor ---- */

static void crash_fields(struct report *of)
{
    static char address[20];
    const struct crash_snapshot *who = &of->who;
    const struct log_pair fields[FIELDS] = {
        {"signal", text_some(of->name)},
        {"exit", of->exit},
        {"address", of->sent ? NULL : address},
        {"guard", of->guard ? "the stack of a fiber overflowed" : NULL},
        {"reason", of->reason},
        {"module", text_some(crash_module_of(of))},
        {"ran", text_some(who->kind)},
        {"what", text_some(who->what)},
        {"request", text_some(who->request)},
        {"stack", who->stack},
        {"report", NULL}, /* only for the log line, if there is a file */
    };

    snprintf(address, sizeof address, "0x%" PRIxPTR, of->address);
    memcpy(of->fields, fields, sizeof fields);
}

static void crash_write_file(struct report *of)
{
    char time[TEXT_TIME_SIZE], thread[16] = "", text[FRAME_TEXT], *path = of->note.report;

    if (!*of->directory)
        return;
    /* Replaces the colons of the time, because some file systems allow none in a name. */
    text_time(clock_wall_ms(), time);
    snprintf(path, sizeof of->note.report, "%s/crash-%s-%d.txt", of->directory, time, getpid());
    for (char *at = path + strlen(of->directory); *at; at++)
        if (*at == ':')
            *at = '-';
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0) {
        *path = '\0';
        return;
    }
    prctl(PR_GET_NAME, thread, 0, 0, 0);
    crash_write(fd, "busbar: %s\ntime: %s\nprocess: %d, thread %d called: %s\n", PACKAGE_VERSION,
                time, getpid(), gettid(), crash_or(thread, "none"));
    for (const struct log_pair *field = of->fields; field < of->fields + FIELDS; field++)
        if (field->value)
            crash_write(fd, "%s: %s\n", field->key, field->value);
    crash_write(fd, "\nbacktrace:\n");
    for (size_t i = 0; i < of->frame_count; i++) {
        const struct frame *frame = &of->frames[i];
        const struct object *object = frame->object;

        crash_write(fd, "%4zu  0x%zx  %s", i, frame->address, crash_frame_text(text, frame));
        if (object)
            crash_write(fd, "  %s+0x%zx", object->file, frame->address - object->base);
        crash_write(fd, "\n");
    }
    crash_write(fd, "\nbuild ids:\n");
    for (const struct object *at = objects; at < objects + atomic_load(&object_count); at++)
        crash_write(fd, "  %s  %s  %s  at 0x%zx\n", at->name, crash_or(at->build, "none"), at->file,
                    at->base);
    if (!lseek(fd, 0, SEEK_CUR)) { /* nothing could be written */
        unlink(path);
        *path = '\0';
    }
    close(fd);
}

static void crash_write_line(struct report *of)
{
    of->fields[FIELDS - 1].value = text_some(of->note.report);
    log_now(BB_ERROR, "crashed", of->fields, FIELDS);
}

/* Leaves a note for the supervisor. For "/usr/lib/hello.so" the note contains "hello". */
static void crash_leave_note(struct report *of)
{
    struct crash_note *note = &of->note;
    const char *how = of->reason ? of->reason : crash_or(of->exit, of->name);
    const char *file = of->blamed ? of->blamed->file : of->who.module;

    if (!of->foreign) {
        const char *slash = strrchr(file, '/');

        file = slash ? slash + 1 : file;
        snprintf(note->module, sizeof note->module, "%s", crash_module_of(of));
        snprintf(note->file, sizeof note->file, "%.*s", (int)strcspn(file, "."), file);
    }
    snprintf(note->how, sizeof note->how, "%s", how);
    supervised_crashed(note);
}

/* Writes the report; omits stages that fault. */
static void crash_write_report(void)
{
    static void (*const stages[])(struct report *) = {
        crash_activity, crash_frames,     crash_names,      crash_stack,
        crash_fields,   crash_write_file, crash_write_line, crash_leave_note};

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
    int64_t until = clock_mono_ms() + ms;

    for (int64_t left = ms; left > 0; left = until - clock_mono_ms())
        poll(NULL, 0, (int)left);
}

/* Makes the signal end the process. A fault recurs on return; a sent signal is sent again. */
static void crash_die(int number, const siginfo_t *info)
{
    signal(number, SIG_DFL);
    if (info->si_code <= 0)
        tgkill(getpid(), gettid(), number);
}

static void crash_on_signal(int number, siginfo_t *info, void *context)
{
    pid_t self = gettid();
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
    snprintf(report.name, sizeof report.name, "SIG%s", sigabbrev_np(number));
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
    pid_t self = gettid();
    int nobody = 0;
    ucontext_t here;

    if (!atomic_load(&installed) || atomic_load(&agreed) || getpid() != owner || getcontext(&here))
        return;
    if (!atomic_compare_exchange_strong(&reporter, &nobody, self)) {
        if (nobody != self)
            crash_rest(OTHERS_MS); /* the other thread reports, and ends the process */
        return;
    }
    report.sent = true;
    report.exit = how;
    report.context = &here;
    crash_write_report();
    report.context = NULL;
}

/* exit() calls this. Unless crash_exits() was called, reports the exit and ends the process. */
static void crash_on_exit(int status, void *arg)
{
    (void)arg;
    if (atomic_load(&agreed) || getpid() != owner)
        return;
    crash_exited("exit()");
    syscall(SYS_exit_group, status);
}

#if !BUSBAR_SANITIZED
/* Replaces _exit() of libc, which runs no exit handlers, to report its calls. */
void _exit(int status)
{
    crash_exited("_exit()");
    for (;;)
        syscall(SYS_exit_group, status);
}

void _Exit(int status) __attribute__((alias("_exit")));
#endif

/* ---- inspecting another thread ---- */

static struct report snapshot_report; /* filled by the thread `wanted` */
static _Atomic(pthread_t) wanted;     /* crash_snapshot() waits for this thread; 0: none */
static sem_t answered;

#define SNAPSHOT_SIGNAL (SIGRTMIN + 4)

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
    int failed = -1;

    if (!atomic_load(&installed))
        return false;
    while (!sem_trywait(&answered)) /* discards late responses to earlier calls */
        ;
    atomic_store(&wanted, thread);
    if (!pthread_kill(thread, SNAPSHOT_SIGNAL)) {
        int64_t until = clock_mono_ms() + ANSWER_MS;

        do
            failed = semaphore_wait(&answered, until);
        while (failed && errno == EINTR);
    }
    atomic_store(&wanted, 0);
    if (failed)
        return false;
    crash_names(of);
    crash_stack(of);
    *snapshot = of->who;
    snprintf(snapshot->module, sizeof snapshot->module, "%.63s", crash_module_of(of));
    return true;
}

void crash_end(pthread_t thread, const char *reason)
{
    report.reason = reason;
    log_flush(); /* writes earlier lines, which may explain the reason */
    if (atomic_load(&installed) && !pthread_kill(thread, SIGABRT))
        crash_rest(REPORT_MS);
    if (atomic_load(&reporter)) { /* the report hangs, so end without it */
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

    sigaction(number, &action, NULL);
}

void crash_install(void)
{
    void *frames[4];

    if (sem_init(&answered, 0, 0))
        return;
    mapped_files_snapshot();
    backtrace(frames, 4); /* the first call loads libgcc, which a signal handler must not do */
    thread_alternate_stack();
    for (size_t i = 0; i < sizeof reported / sizeof *reported; i++)
        crash_handle_by(reported[i], crash_on_signal, SA_NODEFER);
    crash_handle_by(SNAPSHOT_SIGNAL, crash_on_snapshot_signal, SA_RESTART);
    owner = getpid();
    on_exit(crash_on_exit, NULL);
    atomic_store(&installed, true);
}

/* Returns whether the file is a report. The names of reports sort by time. */
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
