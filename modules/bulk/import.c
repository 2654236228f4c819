/*
 * `busbar bulk import FILE` does the same as an upload over HTTP, from a shell. It stores the file
 * as a job (upload.c), confirms the job, watches it to its end, and prints its failed rows.
 *
 * Anyone who has the database settings counts as the operator. So the job has no account, and acts
 * with the rights of an Admin in the organization that the command names.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules/bulk/bulk.h"

/* Exit statuses other than 0. 130 is the status that shells report after SIGINT. */
enum { IMPORT_FAILED = 1, IMPORT_USAGE = 2, IMPORT_INTERRUPTED = 130 };

enum {
    LOOK_MS = 100,     /* interval between queries of the progress */
    STILL_MS = 3000,   /* after this time without progress, this process stores rows */
    SILENT_MS = 60000, /* after this time without a response of the database, the command ends */
    REST_MS = 20
};

/* The whole file is copied, so that it may be a pipe, and cannot change while it is checked. */
struct input {
    struct bb_host *host;
    const char *from; /* path, or "-" for standard input */
    int copy;         /* descriptor of an unnamed file in memory; -1: not open */
    bool piped;       /* the input is standard input, or not a regular file */
    bool yes;         /* the answer to a question begins with y */
    char path[32];    /* path of `copy`, valid while `copy` is open */
    char why[300];    /* why the input could not be read; "": no error */
};

struct import {
    struct bulk_source source;
    struct bb_principal who;
    struct input input;
    bool bars;                    /* standard error is a terminal */
    char shown[512];              /* the text shown in place, without a newline */
    struct bulk_job job;          /* as created, except that cursor and counts are current */
    char status[16];              /* current status of the job; "": it was deleted */
    int64_t moved_ms, heard_ms;   /* times of the last progress and the last database response */
    bool alone;                   /* no host stores rows, so this process does */
    bool working;                 /* this process is storing a batch */
    struct bulk_failed *failures; /* for printing the rows that are not stored */
    int found;                    /* result of bulk_failed_write() */
};

/* ---- messages: lines on standard error, and on a terminal also a text updated in place ---- */

static void import_show(struct import *import, const char *text)
{
    if (!import->bars || !strcmp(import->shown, text))
        return;
    /* Spaces overwrite the previous text, because control sequences differ by terminal. */
    fprintf(stderr, "\r%*s\r%s", (int)strlen(import->shown), "", text);
    fflush(stderr);
    snprintf(import->shown, sizeof(import->shown), "%s", text);
}

/* Shows "[####......]  40 %  4 of 10 rows, 1 failed", up to the width of the terminal. */
static void import_show_bar(struct import *import)
{
    enum { WIDTH = 80, BAR_MAX = 40, BAR_MIN = 8 };
    int64_t done = bulk_done(&import->job), total = import->job.rows;
    int percent = total > 0 ? (int)(done * 100 / total) : 100;
    struct winsize size;
    size_t width =
        !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1 ? size.ws_col - 1U : WIDTH;
    char words[128], text[256], bar[BAR_MAX + 1] = "";

    snprintf(words, sizeof(words), "%3d %%  %lld of %lld rows, %lld failed", percent,
             (long long)done, (long long)total, (long long)import->job.failed);
    size_t used = strlen(words) + 3; /* brackets and a space */
    size_t cells = width > used + BAR_MAX ? BAR_MAX : width > used ? width - used : 0;

    memset(bar, '.', cells);
    memset(bar, '#', cells * (size_t)percent / 100);
    if (cells < BAR_MIN)
        snprintf(text, width < sizeof(text) ? width + 1 : sizeof(text), "%s", words);
    else
        snprintf(text, sizeof(text), "[%s] %s", bar, words);
    import_show(import, text);
}

__attribute__((format(printf, 2, 3))) static void import_line(struct import *import,
                                                              const char *format, ...)
{
    va_list args;

    import_show(import, "");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
}

static void import_warn(struct bb_request *rq, void *import, const char *text)
{
    (void)rq;
    import_line(import, "busbar: %s", text);
}

/* ---- input: these functions run on a pool's thread, and end soon after an interrupt ---- */

static void input_fail(struct input *input, const char *why)
{
    if (!*input->why)
        snprintf(input->why, sizeof(input->why), "%.200s: %s", input->from, why);
}

/*
 * Returns a descriptor that the caller closes. A terminal is opened again with O_NONBLOCK, because
 * Ctrl-C discards typed input, possibly between poll() and read(), which would then block.
 * O_NONBLOCK on the inherited descriptor would also affect the shell.
 */
static int input_open(const char *path)
{
    bool standard = !strcmp(path, "-");
    int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    char name[32];

    if (fd < 0 || !isatty(fd))
        return fd;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    int own = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (own < 0)
        return fd;
    close(fd);
    return own;
}

/* Reads available bytes. Returns 0 at the end, or -1 with errno (EINTR after an interrupt). */
static ssize_t input_some(struct bb_host *host, int fd, char *bytes, size_t room)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    while (!bb_superseded(host)) {
        int found = poll(&ready, 1, LOOK_MS);
        ssize_t got = found > 0 ? read(fd, bytes, room) : found;

        if (found && (got >= 0 || (errno != EINTR && errno != EAGAIN)))
            return got;
    }
    errno = EINTR;
    return -1;
}

static void input_read(void *arg)
{
    struct input *input = arg;
    char piece[16384];
    struct stat found;
    size_t all = 0;
    ssize_t got = 1;
    int from = input_open(input->from);

    if (from < 0) {
        input_fail(input, strerror(errno));
        return;
    }
    input->copy = memfd_create("busbar bulk import", MFD_CLOEXEC);
    if (input->copy < 0)
        input_fail(input, strerror(errno));
    snprintf(input->path, sizeof(input->path), "/proc/self/fd/%d", input->copy);
    while (!*input->why && got > 0) {
        got = input_some(input->host, from, piece, sizeof(piece));
        all += got > 0 ? (size_t)got : 0;
        if (all > BULK_FILE_MAX)
            input_fail(input, "is larger than 50 MiB: send it in parts");
        else if (got < 0 && bb_superseded(input->host))
            input_fail(input, "interrupted");
        else if (got < 0 || write(input->copy, piece, (size_t)got) < got)
            input_fail(input, strerror(errno));
    }
    input->piped = !strcmp(input->from, "-") || fstat(from, &found) || !S_ISREG(found.st_mode);
    close(from);
}

static void input_free(void *arg)
{
    struct input *input = arg;

    if (input->copy >= 0)
        close(input->copy);
}

/* Reads a line of standard input, the answer to a question. */
static void input_ask(void *arg)
{
    struct input *input = arg;
    char byte;
    bool first = true;
    int from = input_open("-");

    while (from >= 0 && input_some(input->host, from, &byte, 1) == 1 && byte != '\n') {
        if (first)
            input->yes = byte == 'y' || byte == 'Y';
        first = false;
    }
    if (from >= 0)
        close(from);
}

/* ---- the file becomes a job: these functions return 0, or the exit status ---- */

static int import_refuse(struct bb_request *rq, int status, const char *text)
{
    bb_fail_text(rq, 400, text);
    return status;
}

/* Fills in the sender, the type and the organization. */
static int import_describe(struct bb_request *rq, struct import *import)
{
    struct bulk *bulk = rq->state;
    const char *type = bb_text(rq, "type");

    if (!bulk->type_count)
        bulk_start(rq->host, bulk);
    import->who = (struct bb_principal){
        .size = sizeof(struct bb_principal), .email = "", .role = BB_ROLE_ADMIN};
    import->source = (struct bulk_source){
        .type = bulk_type_named(bulk, type),
        .who = &import->who,
        .organization = json_integer_value(json_object_get(bb_body(rq), "organization")),
        .warn = import_warn,
        .warn_arg = import,
        .command = true};
    if (!import->source.type)
        return import_refuse(rq, IMPORT_USAGE,
                             bb_format(rq, "--type: unknown type %.64s; known types: %s", type,
                                       bulk_type_names(rq)));
    int known = organization_known(rq, import->source.organization);

    if (known < 0) {
        bb_failed(rq);
        return IMPORT_FAILED;
    }
    return known ? 0
                 : import_refuse(rq, IMPORT_USAGE, "--organization: no organization has this id");
}

static int import_take(struct bb_request *rq, struct import *import)
{
    struct input *input = &import->input;
    const struct bulk_job *job = &import->job;

    *input = (struct input){.host = rq->host, .from = bb_text(rq, "file"), .copy = -1};
    bb_defer(rq, input_free, input);
    import_show(import, "reading");
    if (bb_offload(rq, BULK_POOL, input_read, input)) {
        bb_failed(rq);
        return IMPORT_FAILED;
    }
    if (*input->why)
        return import_refuse(rq, IMPORT_FAILED, input->why);
    const char *slash = strrchr(input->from, '/'), *name = slash ? slash + 1 : input->from;

    import->source.path = input->path;
    import->source.name = input->piped ? "standard-input.csv" : name;
    if (!bulk_is_csv(import->source.name))
        return import_refuse(rq, IMPORT_FAILED,
                             bb_format(rq, "%.200s: must be a .csv file", input->from));
    import_show(import, "checking");
    if (bulk_take(rq, &import->source, &import->job))
        return IMPORT_FAILED;
    import_line(import, "%s: %lld rows, %s the check", job->file, (long long)job->rows,
                job->doubtful ? bb_format(rq, "%lld of them fail", (long long)job->doubtful)
                              : "all pass");
    return 0;
}

/* ---- the failed rows ---- */

/*
 * Replaces control characters, so that the content of a file cannot control the terminal. A CR
 * before an LF is removed, because a terminal does not need it.
 */
static void import_tame(struct csv *csv)
{
    char *out = csv->bytes;

    for (size_t i = 0; i < csv->length; i++) {
        unsigned char c = (unsigned char)csv->bytes[i];
        unsigned char next = i + 1 < csv->length ? (unsigned char)csv->bytes[i + 1] : '\0';
        bool pair = c == 0xc2 && next >= 0x80 && next < 0xa0; /* U+0080 to U+009F */

        if (c == '\r' && next == '\n')
            continue;
        *out++ = pair || c == 0x7f || (c < 0x20 && c != '\n' && c != '\t') ? '?' : (char)c;
        i += pair;
    }
    csv->length = (size_t)(out - csv->bytes);
}

/* Prints the failed rows of one part. */
static int import_print_part(struct bb_request *rq, void *arg)
{
    struct import *import = arg;
    struct csv *csv = bb_alloc(rq, sizeof(*csv));

    bb_defer(rq, csv_drop, csv);
    import->found = bulk_failed_write(rq, csv, import->failures);
    if (import->found > 0 && isatty(STDOUT_FILENO))
        import_tame(csv);
    if (import->found > 0)
        bb_print(rq, "%.*s", (int)csv->length, csv->bytes);
    return 0;
}

/*
 * Prints the rows of the job that failed or were cancelled, like GET …/failed.csv. Output to a
 * terminal has no byte order mark.
 */
static void import_print_failed(struct bb_request *rq, struct import *import)
{
    import->job.status = import->status;
    import->failures = bulk_failed_new(&import->job, !isatty(STDOUT_FILENO));
    import->found = import->failures ? 1 : -1;
    if (import->failures)
        bb_defer(rq, free, import->failures);
    while (import->found > 0)
        bb_scratch(rq, import_print_part, import);
    if (import->found < 0)
        import_line(import, "busbar: the failed rows could not be read");
}

/* ---- the run ---- */

static void import_worked(void *arg, bool whole)
{
    struct import *import = arg;

    (void)whole;
    import->working = false;
}

static void import_note(struct import *import, const struct bulk_job *job)
{
    import->job.succeeded = job->succeeded;
    import->job.failed = job->failed;
    import->job.cursor = job->cursor;
    snprintf(import->status, sizeof(import->status), "%s", job->status);
}

/* Waits REST_MS if this process stores rows, or else LOOK_MS. Then reads the job's progress. */
static int import_look(struct bb_request *rq, void *arg)
{
    struct import *import = arg;
    struct bulk_job job;

    bb_sleep(rq, import->alone ? REST_MS : LOOK_MS);
    int found = bulk_job_look(rq, &import->who, import->job.id, &job);

    if (found >= 0)
        import->heard_ms = bb_now_ms(rq->host);
    if (!found)
        import->status[0] = '\0';
    if (found <= 0)
        return 0;
    if (bulk_done(&job) != bulk_done(&import->job))
        import->moved_ms = import->heard_ms;
    import_note(import, &job);
    return 0;
}

/*
 * Cancels the job after an interrupt, or fails if the job has just ended. Prints the rows that were
 * not stored, except to a terminal, whose user does not want to wait for this.
 */
static void import_cancel(struct bb_request *rq, struct import *import)
{
    struct bulk_job *job = bb_alloc(rq, sizeof(*job));

    if (bulk_job_cancel(rq, &import->who, import->job.id, job))
        return;
    import_note(import, job);
    import_line(import, "cancelled: %lld rows were stored, %lld failed, %lld were cancelled",
                (long long)job->succeeded, (long long)job->failed,
                (long long)(job->rows - bulk_done(job)));
    if (!isatty(STDOUT_FILENO))
        import_print_failed(rq, import);
}

/*
 * Confirms the job, and watches it until it ends, the database stops responding, or the command is
 * interrupted. Running hosts store the rows, so the progress is read from the database. If there is
 * no progress for STILL_MS, this process stores rows, too. Returns the exit status.
 */
static int import_run(struct bb_request *rq, struct import *import)
{
    struct bulk_job job;
    int status = IMPORT_FAILED;

    if (bulk_job_confirm(rq, &import->who, import->job.id, &job))
        return IMPORT_FAILED;
    import_note(import, &job);
    import->moved_ms = import->heard_ms = bb_now_ms(rq->host);
    while (!strcmp(import->status, "confirmed") && !bb_superseded(rq->host) &&
           bb_now_ms(rq->host) - import->heard_ms < SILENT_MS) {
        import_show_bar(import);
        if (bb_now_ms(rq->host) - import->moved_ms > STILL_MS)
            import->alone = true;
        if (import->alone && !import->working)
            import->working = !bb_run_then(rq->host, bulk_begin_run, import_worked, import);
        bb_scratch(rq, import_look, import);
    }
    if (strcmp(import->status, "confirmed") != 0) {
        /* The job has finished, or another client has cancelled or deleted it. */
        bool finished = !strcmp(import->status, "finished");

        import_line(import, "bulk upload %s %s: %lld rows were stored, %lld failed", import->job.id,
                    finished          ? "has finished"
                    : *import->status ? "was cancelled"
                                      : "is gone",
                    (long long)import->job.succeeded, (long long)import->job.failed);
        if (*import->status)
            import_print_failed(rq, import);
        status = finished && !import->job.failed ? 0 : IMPORT_FAILED;
    } else if (bb_superseded(rq->host)) {
        import_cancel(rq, import);
        status = IMPORT_INTERRUPTED;
    } else {
        bb_fail(rq, 503, "The database does not respond; bulk upload %s continues when it does",
                import->job.id);
    }
    while (import->working) /* the batch in progress points to `import` */
        bb_scratch(rq, import_look, import);
    return status;
}

/* ---- whether to continue ---- */

static bool import_wants(struct bb_request *rq, const char *option)
{
    return json_is_true(json_object_get(bb_body(rq), option));
}

/* Returns whether to store the valid rows. If some are invalid, asks the operator on a terminal. */
static bool import_goes_on(struct bb_request *rq, struct import *import)
{
    struct input *input = &import->input;

    if (bb_superseded(rq->host) || import_wants(rq, "dry-run"))
        return false;
    if (!import->job.doubtful || import_wants(rq, "yes") || !import->bars ||
        !isatty(STDIN_FILENO) || input->piped)
        return true;
    import_show(import, "Store the others? [y/N] ");
    import->shown[0] = '\0'; /* the reply ends with Enter, which ends this line */
    return !bb_offload(rq, BULK_POOL, input_ask, input) && input->yes && !bb_superseded(rq->host);
}

/* Deletes the job; none of its rows was stored. Returns the exit status. */
static int import_give_up(struct bb_request *rq, struct import *import)
{
    bool interrupted = bb_superseded(rq->host);

    if (!interrupted && import->job.doubtful)
        import_print_failed(rq, import);
    if (bulk_job_delete(rq, &import->who, import->job.id))
        return IMPORT_FAILED;
    if (interrupted)
        import_line(import, "interrupted: nothing was stored");
    return interrupted ? IMPORT_INTERRUPTED : import->job.doubtful ? IMPORT_FAILED : 0;
}

int bulk_command_import(struct bb_request *rq)
{
    struct import *import = bb_alloc(rq, sizeof(*import));

    import->bars = isatty(STDERR_FILENO);
    int status = import_describe(rq, import);

    if (!status)
        status = import_take(rq, import);
    if (!status)
        status = import_goes_on(rq, import) ? import_run(rq, import) : import_give_up(rq, import);
    import_show(import, "");
    return status == IMPORT_FAILED && bb_superseded(rq->host) ? IMPORT_INTERRUPTED : status;
}
