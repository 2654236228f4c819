/*
 * `busbar bulk import FILE`: does the same as an upload over HTTP, from a shell. The file becomes a
 * job (take.c), the job is confirmed and watched to its end, and its failed rows are printed.
 *
 * Anyone who has the database settings is the operator: the job has no account, and acts with the
 * rights of an Admin in the organization that was named.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "modules/bulk/command/input.h"
#include "modules/bulk/command/terminal.h"
#include "modules/bulk/job/bulk.h"
#include "modules/common/csv.h"

/* Exit statuses other than 0; 130 is what shells report for a process that SIGINT has ended. */
enum { IMPORT_FAILED = 1, IMPORT_USAGE = 2, IMPORT_INTERRUPTED = 130 };

struct import {
    struct bulk_source source;
    struct bb_principal who;
    struct input input;
    struct terminal terminal;
    struct bulk_job job;        /* as it was created */
    int64_t succeeded, failed;  /* current counts of the job */
    char status[16];            /* current status of the job; "": it was deleted */
    int64_t cancelled;          /* bulk_cancelled_behind() */
    int64_t moved_ms, heard_ms; /* last progress; last answer from the database */
    bool alone;                 /* no host stores rows */
    bool working;               /* this process is storing a batch */
};

#define PIPED_NAME "standard-input.csv"

/* ---- the file ---- */

static void warn(struct bb_request *rq, void *arg, const char *text)
{
    (void)rq;
    terminal_line(arg, "busbar: %s", text);
}

static const char *type_names(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    const char *names = "";

    for (size_t i = 0; i < bulk->type_count; i++)
        names = bb_format(rq, "%s%s%s", names, i ? ", " : "", bulk->types[i].name);
    return names;
}

static int usage(struct bb_request *rq, const char *text)
{
    bb_fail_text(rq, 400, text);
    return IMPORT_USAGE;
}

/* Returns 0, or the exit status. */
static int check_home(struct bb_request *rq, int64_t organization)
{
    int known = bulk_organization_known(rq, organization);

    if (known < 0) {
        bb_failed(rq);
        return IMPORT_FAILED;
    }
    return known ? 0 : usage(rq, "--organization: no organization has this id");
}

/*
 * Fills in the sender, the type and the organization. Returns 0, or the exit status. Types are
 * known only after `start`, which is not called for commands.
 */
static int describe(struct bb_request *rq, struct import *import)
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
        .warn = warn,
        .warn_arg = &import->terminal,
        .interruptible = true};
    if (!import->source.type)
        return usage(
            rq, bb_format(rq, "--type: unknown type %.64s; known types: %s", type, type_names(rq)));
    return check_home(rq, import->source.organization);
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Returns 0, or the exit status. */
static int read_file(struct bb_request *rq, struct import *import)
{
    struct input *input = &import->input;

    *input = (struct input){
        .host = rq->host, .from = bb_text(rq, "file"), .most = BULK_FILE_MAX, .fd = -1};
    bb_defer(rq, input_free, input);
    terminal_show(&import->terminal, "reading");
    if (bb_offload(rq, BULK_POOL, input_read, input)) {
        bb_failed(rq);
        return IMPORT_FAILED;
    }
    if (*input->why) {
        bb_fail_text(rq, 400, input->why);
        return IMPORT_FAILED;
    }
    import->source.path = input->path;
    import->source.name = input->piped ? PIPED_NAME : last_name(input->from);
    if (bulk_is_csv(import->source.name))
        return 0;
    bb_fail(rq, 400, "%.200s: must be a .csv file", input->from);
    return IMPORT_FAILED;
}

static int created(struct bb_request *rq, struct bulk_job *job)
{
    job->created = bb_query(rq, &bulk_create, BB_ARGS(BULK_CREATE_ARGS(job))) != NULL;
    return job->created ? 0 : bb_failed(rq);
}

/* Returns 0, or the exit status. */
static int take(struct bb_request *rq, struct import *import)
{
    const struct bulk_job *job = &import->job;

    terminal_show(&import->terminal, "checking");
    if (bulk_take(rq, &import->source, &import->job, created))
        return IMPORT_FAILED;
    if (job->doubtful)
        terminal_line(&import->terminal, "%s: %lld rows, %lld of them fail the check", job->file,
                      (long long)job->rows, (long long)job->doubtful);
    else
        terminal_line(&import->terminal, "%s: %lld rows, all pass the check", job->file,
                      (long long)job->rows);
    return 0;
}

/* ---- the failed rows ---- */

struct printing {
    struct import *import;
    int64_t behind;
    int found;
};

/*
 * Replaces control characters, so that a file's content cannot control the terminal. A terminal
 * needs no CR at line ends.
 */
static void tame(struct csv *csv)
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

/* Prints one part; the header line precedes the first one. A terminal needs no byte order mark. */
static int print_part(struct bb_request *rq, void *arg)
{
    struct printing *printing = arg;
    const struct bulk_job *job = &printing->import->job;
    struct csv *csv = bb_alloc(rq, sizeof(*csv));
    json_t *header = bb_json_hold(rq, bb_json_read(rq, job->header));

    bb_defer(rq, csv_drop, csv);
    csv->separator = job->separator[0];
    bool terminal = isatty(STDOUT_FILENO);

    if (!printing->behind)
        bulk_failed_header(csv, header, !terminal);
    printing->found =
        bulk_failed_part(rq, job->id, header, printing->import->cancelled, &printing->behind, csv);
    if (csv->failed)
        printing->found = -1;
    if (printing->found > 0 && terminal)
        tame(csv);
    if (printing->found > 0)
        bb_print(rq, "%.*s", (int)csv->length, csv->bytes);
    return 0;
}

/* Prints the rows of the job that failed or were cancelled, as GET …/failed.csv has them. */
static void print_failed(struct bb_request *rq, struct import *import)
{
    struct printing printing = {.import = import, .found = 1};

    while (printing.found > 0)
        bb_scratch(rq, print_part, &printing);
    if (printing.found < 0)
        terminal_line(&import->terminal, "busbar: the failed rows could not be read");
}

/* ---- the run ---- */

/*
 * Hosts store the rows, as of any job. If no host begins, this process stores them with the same
 * function, and hosts may still join. Progress is read from the database.
 */
enum {
    LOOK_MS = 100,     /* between two queries of the progress */
    STILL_MS = 3000,   /* without progress: then no host is at work */
    SILENT_MS = 60000, /* without an answer from the database */
    REST_MS = 20
};

static void work(struct bb_request *rq, void *arg)
{
    (void)arg;
    bulk_run(rq);
}

static void worked(void *arg, bool whole)
{
    struct import *import = arg;

    (void)whole;
    import->working = false;
}

static void take_stand(struct import *import, const struct bulk_job *job, int64_t now)
{
    if (bulk_done(job) != import->succeeded + import->failed)
        import->moved_ms = now;
    import->succeeded = job->succeeded;
    import->failed = job->failed;
    import->cancelled = bulk_cancelled_behind(job);
    snprintf(import->status, sizeof(import->status), "%s", job->status);
}

static int look(struct bb_request *rq, void *arg)
{
    struct import *import = arg;
    struct bulk_job job;
    int found = bulk_job_look(rq, &import->who, import->job.id, &job);
    int64_t now = bb_now_ms(rq->host);

    if (found >= 0)
        import->heard_ms = now;
    if (!found)
        import->status[0] = '\0';
    if (found > 0)
        take_stand(import, &job, now);
    return 0;
}

static int rest(struct bb_request *rq, void *arg)
{
    bb_sleep(rq, *(const int64_t *)arg);
    return 0;
}

static void pause_for(struct bb_request *rq, int64_t ms)
{
    bb_scratch(rq, rest, &ms);
}

/* Stores a batch in this process if no host is at work; hosts may work at the same time. */
static void help(struct bb_request *rq, struct import *import)
{
    if (bb_now_ms(rq->host) - import->moved_ms > STILL_MS)
        import->alone = true;
    if (import->alone && !import->working)
        import->working = !bb_run_then(rq->host, work, worked, import);
}

static bool is_confirmed(const struct import *import)
{
    return !strcmp(import->status, "confirmed");
}

/* Watches the job until it ends, the database stops answering, or the command is interrupted. */
static void watch(struct bb_request *rq, struct import *import)
{
    import->moved_ms = import->heard_ms = bb_now_ms(rq->host);
    while (is_confirmed(import) && !bb_superseded(rq->host) &&
           bb_now_ms(rq->host) - import->heard_ms < SILENT_MS) {
        terminal_bar(&import->terminal, import->succeeded + import->failed, import->job.rows,
                     import->failed);
        help(rq, import);
        pause_for(rq, import->alone ? REST_MS : LOOK_MS);
        bb_scratch(rq, look, import);
    }
}

/* Waits for the batch in progress, because it points to `import`. */
static void let_end(struct bb_request *rq, const struct import *import)
{
    while (import->working)
        pause_for(rq, REST_MS);
}

/*
 * Returns the exit status. A job that has just ended cannot be cancelled; then its end is reported.
 * The remaining rows are written to a file, but not to the terminal of a person who wants to stop.
 */
static int cancel(struct bb_request *rq, struct import *import)
{
    struct bulk_job *job = bb_alloc(rq, sizeof(*job));

    if (bulk_job_cancel(rq, &import->who, import->job.id, job))
        return IMPORT_INTERRUPTED;
    terminal_line(
        &import->terminal, "cancelled: %lld rows were stored, %lld failed, %lld were cancelled",
        (long long)job->succeeded, (long long)job->failed, (long long)(job->rows - bulk_done(job)));
    import->cancelled = bulk_cancelled_behind(job);
    if (!isatty(STDOUT_FILENO))
        print_failed(rq, import);
    return IMPORT_INTERRUPTED;
}

/*
 * Reports that the job has finished, or that somebody else cancelled or deleted it. Returns the
 * exit status.
 */
static int tell_end(struct bb_request *rq, struct import *import)
{
    bool finished = !strcmp(import->status, "finished");

    terminal_line(&import->terminal, "bulk upload %s %s: %lld rows were stored, %lld failed",
                  import->job.id,
                  finished          ? "has finished"
                  : *import->status ? "was cancelled"
                                    : "is gone",
                  (long long)import->succeeded, (long long)import->failed);
    if (*import->status)
        print_failed(rq, import);
    return finished && !import->failed ? 0 : IMPORT_FAILED;
}

/* Returns the exit status. */
static int follow(struct bb_request *rq, struct import *import)
{
    watch(rq, import);
    if (!is_confirmed(import))
        return tell_end(rq, import);
    if (bb_superseded(rq->host))
        return cancel(rq, import);
    bb_fail(rq, 503, "The database does not respond; bulk upload %s continues when it does",
            import->job.id);
    return IMPORT_FAILED;
}

/* Confirms the job and watches it to its end. Returns the exit status. */
static int run(struct bb_request *rq, struct import *import)
{
    struct bulk_job job;

    if (bulk_job_confirm(rq, &import->who, import->job.id, &job))
        return IMPORT_FAILED;
    snprintf(import->status, sizeof(import->status), "%s", job.status);
    int status = follow(rq, import);

    let_end(rq, import);
    return status;
}

/* ---- whether to continue ---- */

static bool wanted(struct bb_request *rq, const char *option)
{
    return json_is_true(json_object_get(bb_body(rq), option));
}

/* Asks the operator if there is a terminal. */
static bool goes_on(struct bb_request *rq, struct import *import)
{
    struct input_answer answer = {.host = rq->host};

    if (bb_superseded(rq->host) || wanted(rq, "dry-run"))
        return false;
    if (!import->job.doubtful || wanted(rq, "yes") || !import->terminal.bars ||
        !isatty(STDIN_FILENO) || import->input.piped)
        return true;
    terminal_show(&import->terminal, "Store the others? [y/N] ");
    import->terminal.shown[0] = '\0'; /* the newline of the answer has ended that line */
    return !bb_offload(rq, BULK_POOL, input_ask, &answer) && answer.yes && !bb_superseded(rq->host);
}

/* Deletes the job, of which nothing was stored. Returns the exit status. */
static int give_up(struct bb_request *rq, struct import *import)
{
    bool interrupted = bb_superseded(rq->host);

    if (!interrupted && import->job.doubtful)
        print_failed(rq, import);
    if (bulk_job_delete(rq, &import->who, import->job.id))
        return IMPORT_FAILED;
    if (interrupted)
        terminal_line(&import->terminal, "interrupted: nothing was stored");
    if (interrupted)
        return IMPORT_INTERRUPTED;
    return import->job.doubtful ? IMPORT_FAILED : 0;
}

int bulk_command_import(struct bb_request *rq)
{
    struct import *import = bb_alloc(rq, sizeof(*import));

    import->cancelled = INT64_MAX;
    terminal_begin(&import->terminal);
    int status = describe(rq, import);

    if (!status)
        status = read_file(rq, import);
    if (!status)
        status = take(rq, import);
    if (!status)
        status = goes_on(rq, import) ? run(rq, import) : give_up(rq, import);
    terminal_show(&import->terminal, "");
    return status == IMPORT_FAILED && bb_superseded(rq->host) ? IMPORT_INTERRUPTED : status;
}
