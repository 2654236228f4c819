/*
 * The run of an import: hosts store the rows, as any host does; where none begins, this process
 * does it by the same function, beside which hosts may come. Progress is looked up in the database.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "modules/bulk/command/import.h"

enum {
    LOOK_MS = 100,     /* between two looks at the progress */
    STILL_MS = 3000,   /* without any: no host is at work */
    SILENT_MS = 60000, /* of the database */
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

/* A turn of this process's own, beside which others may come. */
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

/* Until it has ended, the database is silent, or somebody interrupts. */
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

/* What it has begun points to `import`. */
static void let_end(struct bb_request *rq, const struct import *import)
{
    while (import->working)
        pause_for(rq, REST_MS);
}

/* The exit status. A job that ended just now is not cancelled any more: that is told. The rows that
 * are left go into a file, but not onto the terminal of somebody who wants an end. */
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
        import_print_failed(rq, import);
    return IMPORT_INTERRUPTED;
}

/* It ended, or was ended by somebody else. The exit status. */
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
        import_print_failed(rq, import);
    return finished && !import->failed ? 0 : IMPORT_FAILED;
}

/* The exit status. */
static int follow(struct bb_request *rq, struct import *import)
{
    watch(rq, import);
    if (!is_confirmed(import))
        return tell_end(rq, import);
    if (bb_superseded(rq->host))
        return cancel(rq, import);
    bb_fail(rq, 503, "The database is silent; once it answers, bulk upload %s goes on",
            import->job.id);
    return IMPORT_FAILED;
}

int import_run(struct bb_request *rq, struct import *import)
{
    struct bulk_job job;

    if (bulk_job_confirm(rq, &import->who, import->job.id, &job))
        return IMPORT_FAILED;
    snprintf(import->status, sizeof(import->status), "%s", job.status);
    int status = follow(rq, import);

    let_end(rq, import);
    return status;
}
