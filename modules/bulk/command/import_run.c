/*
 * The run of an import. Hosts store the rows, as of any job. If no host begins, this process stores
 * them with the same function, and hosts may still join. Progress is read from the database.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "modules/bulk/command/import.h"

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
        import_print_failed(rq, import);
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
        import_print_failed(rq, import);
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
