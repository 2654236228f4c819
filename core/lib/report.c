#include "core/lib/report.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/lib/activity.h"
#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/version.h"

static void keep(char *out, size_t size, const char *text)
{
    size_t length = 0;

    while (text && text[length] && length + 1 < size) {
        out[length] = text[length];
        length++;
    }
    out[length] = '\0';
}

void report_who(struct report *report)
{
    struct activity now = activity_now();
    struct crash_snapshot *who = &report->who;
    struct signal_text what = {.fd = -1};

    report->guard = report->address && activity_guards((const void *)report->address); // NOLINT
    signal_text_text(&what, now.name);
    signal_text_text(&what, now.name && now.method ? ", " : NULL);
    signal_text_text(&what, now.method);
    signal_text_text(&what, now.method ? " " : NULL);
    signal_text_text(&what, now.path);
    keep(who->module, sizeof who->module, now.module);
    keep(who->kind, sizeof who->kind, now.kind);
    keep(who->what, sizeof who->what, signal_text_end(&what));
    keep(who->request, sizeof who->request, now.request);
}

void report_stack(struct report *report)
{
    frames_collect(&report->frames, report->context);
    report->blamed = frames_module(&report->frames);
}

void report_names(struct report *report)
{
    frames_name(&report->frames);
}

const char *report_module(const struct report *report)
{
    return report->blamed ? report->blamed->name : report->who.module;
}

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

/* ---- the file ---------------------------------------------------------------------------------
 */

/* crash-2026-11-24T00-11-22.123Z-4711.txt, because some file systems do not allow colons. */
static int open_file(struct report *report, const char *time)
{
    struct signal_text path = {.fd = -1};

    signal_text_text(&path, report->directory);
    signal_text_text(&path, "/crash-");
    signal_text_text(&path, time);
    signal_text_text(&path, "-");
    signal_text_number(&path, getpid());
    signal_text_text(&path, ".txt");
    keep(report->path, sizeof report->path, signal_text_end(&path));
    for (char *at = report->path + strlen(report->directory); *at; at++)
        if (*at == ':')
            *at = '-';
    int fd = open(report->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        report->path[0] = '\0';
    return fd;
}

static void pair(struct signal_text *out, const char *key, const char *value)
{
    signal_text_text(out, key);
    signal_text_text(out, ": ");
    signal_text_text(out, value && *value ? value : "none");
    signal_text_text(out, "\n");
}

static void write_head(struct signal_text *out, const struct report *report, const char *time)
{
    char thread[16] = "";

    prctl(PR_GET_NAME, thread, 0, 0, 0);
    pair(out, "busbar", PACKAGE_VERSION);
    pair(out, "time", time);
    signal_text_text(out, "process: ");
    signal_text_number(out, getpid());
    signal_text_text(out, ", thread ");
    signal_text_number(out, syscall(SYS_gettid));
    pair(out, " called", thread);
    if (report->exit)
        pair(out, "exit", report->exit);
    signal_text_text(out, "signal: ");
    signal_text_number(out, report->signal);
    signal_text_text(out, " ");
    signal_text_text(out, signal_name(report->signal));
    signal_text_text(out, report->sent ? ", sent\n" : ", address ");
    if (!report->sent) {
        signal_text_hex(out, report->address);
        signal_text_text(out, "\n");
    }
    pair(out, "guard of a fiber", report->guard ? "yes: its stack overflowed" : "no");
    if (report->reason)
        pair(out, "reason", report->reason);
}

static void write_who(struct signal_text *out, const struct report *report)
{
    const struct crash_snapshot *who = &report->who;

    pair(out, "module", report_module(report));
    signal_text_text(out, "ran: ");
    signal_text_text(out, *who->kind ? who->kind : "nothing of a module");
    signal_text_text(out, " ");
    signal_text_text(out, who->what);
    pair(out, ", of module", who->module);
    pair(out, "request", who->request);
}

static void write_stack(struct signal_text *out, const struct report *report)
{
    signal_text_text(out, "\nbacktrace:\n");
    for (size_t i = 0; i < report->frames.count; i++) {
        const struct frame *frame = &report->frames.list[i];

        signal_text_text(out, i < 10 ? "   " : "  ");
        signal_text_number(out, (int64_t)i);
        signal_text_text(out, "  ");
        signal_text_hex(out, frame->address);
        signal_text_text(out, "  ");
        frame_words(out, frame);
        if (frame->object) {
            signal_text_text(out, "  ");
            signal_text_text(out, frame->object->file);
            signal_text_text(out, "+");
            signal_text_hex(out, frame->address - frame->object->base);
        }
        signal_text_text(out, "\n");
    }
}

static void write_objects(struct signal_text *out)
{
    const struct object *object;

    signal_text_text(out, "\nbuild ids:\n");
    for (size_t i = 0; (object = mapped_files_at(i)); i++) {
        signal_text_text(out, "  ");
        signal_text_text(out, object->name);
        signal_text_text(out, "  ");
        signal_text_text(out, *object->build ? object->build : "none");
        signal_text_text(out, "  ");
        signal_text_text(out, object->file);
        signal_text_text(out, "  at ");
        signal_text_hex(out, object->base);
        signal_text_text(out, "\n");
    }
}

void report_file(struct report *report)
{
    struct signal_text out = {.fd = -1};
    char time[TEXT_TIME_SIZE];

    text_time(clock_wall_ms(), time);
    if (*report->directory)
        out.fd = open_file(report, time);
    if (out.fd < 0)
        return;
    write_head(&out, report, time);
    write_who(&out, report);
    write_stack(&out, report);
    write_objects(&out);
    signal_text_flush(&out);
    if (out.cut && !lseek(out.fd, 0, SEEK_CUR)) { /* nothing could be written */
        unlink(report->path);
        report->path[0] = '\0';
    }
    close(out.fd);
}

/* ---- the line ---------------------------------------------------------------------------------
 */

enum { LINE_FRAMES = 12 };

static const char *stack_words(struct signal_text *words, const struct frames *frames)
{
    for (size_t i = 0; i < frames->count && i < LINE_FRAMES; i++) {
        signal_text_text(words, i ? " < " : NULL);
        frame_words(words, &frames->list[i]);
    }
    return signal_text_end(words);
}

static const char *some(const char *text)
{
    return *text ? text : NULL;
}

void report_line(struct report *report)
{
    struct signal_text stack = {.fd = -1}, address = {.fd = -1};
    const struct crash_snapshot *who = &report->who;

    signal_text_hex(&address, report->address);
    const struct log_pair pairs[] = {
        {"signal", report->exit ? NULL : signal_name(report->signal)},
        {"exit", report->exit},
        {"address", report->sent ? NULL : signal_text_end(&address)},
        {"guard", report->guard ? "the stack of a fiber overflowed" : NULL},
        {"reason", report->reason},
        {"module", some(report_module(report))},
        {"ran", some(who->kind)},
        {"what", some(who->what)},
        {"request", some(who->request)},
        {"report", some(report->path)},
        {"stack", stack_words(&stack, &report->frames)},
    };

    log_now(BB_ERROR, "crashed", pairs, sizeof pairs / sizeof *pairs);
}

/* Extracts "hello" from "/usr/lib/hello.so": the name used in the list of modules. */
static void keep_file(char *out, size_t size, const char *path)
{
    const char *name = path;

    for (const char *at = path; *at; at++)
        if (*at == '/')
            name = at + 1;
    keep(out, size, name);
    for (char *at = out; *at; at++)
        if (*at == '.')
            *at = '\0';
}

void report_tell(struct report *report)
{
    static struct crash_note note;
    const char *how = report->exit ? report->exit : signal_name(report->signal);

    if (!report->foreign) {
        keep(note.module, sizeof note.module, report_module(report));
        keep_file(note.file, sizeof note.file,
                  report->blamed ? report->blamed->file : report->who.module);
    }
    keep(note.how, sizeof note.how, report->reason ? report->reason : how);
    keep(note.report, sizeof note.report, report->path);
    note.reloading = !report->foreign && activity_reloads();
    supervised_crashed(&note);
}

void report_snapshot(struct report *report, struct crash_snapshot *snapshot)
{
    struct signal_text stack = {.fd = -1};

    *snapshot = report->who;
    keep(snapshot->module, sizeof snapshot->module, report_module(report));
    keep(snapshot->stack, sizeof snapshot->stack, stack_words(&stack, &report->frames));
}
