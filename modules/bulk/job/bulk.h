/*
 * bulk: files of rows, as a job that is created, checked and then confirmed.
 *
 * An upload is streamed to disk by the host, looked through (scan.c) and cut into parts of whole
 * rows, which lie in the database as they were sent: any host can go on with a job, and nothing is
 * kept on disk. Each part is parsed again where its rows are wanted (batch.c): for the check
 * (check.c), the run (run.c), the log and the failed rows. What rows mean is up to who gives the
 * service "bulk rows:TYPE" (busbar/bulk.h). docs/bulk.md tells the states, and why a kill is
 * harmless.
 *
 * Everything runs on the fiber of its request; what reads files runs in the pool `files`.
 */
#ifndef BULK_H
#define BULK_H

#include <busbar/busbar.h>
#include <stdatomic.h>

#include "modules/bulk/csv/reader.h"

enum {
    BULK_TYPES_MAX = 32,
    BULK_ROWS_DEFAULT = 500, /* of a call, where the type does not say */
    BULK_PART_ROWS = 500,    /* of a part */
    BULK_FILE_MAX = 52428800,
    BULK_ROWS_MAX = 200000,
    BULK_PAGE_MAX = 1000,
    BULK_NAME_BYTES = 1020, /* of a row's name in the log: 255 characters */
    BULK_JOB_BYTES = 4096   /* counted for a job, whatever its file has */
};

#define BULK_POOL "files"

/* What is counted, in the order of the metrics. */
enum bulk_metric { BULK_METRIC_JOBS, BULK_METRIC_ROWS, BULK_METRIC_WAITING };
enum bulk_ended { BULK_FINISHED, BULK_CANCELLED };
enum bulk_outcome { BULK_SUCCEEDED, BULK_FAILED };

struct bulk_type {
    const char *name; /* "Devices" */
    const struct bb_bulk_rows *rows;
    struct bb_host *host; /* of its giver */
    size_t rows_max;
    size_t columns;
    bool together; /* see struct bb_bulk_rows */
};

struct bulk_settings {
    const char *files;        /* directory of those that arrive */
    int64_t jobs_per_account; /* that have not ended */
    int64_t bytes_per_organization;
    int64_t retention_days;
    int64_t unfinished_days; /* of those that were cancelled or never confirmed */
};

/* State of one generation. Types are known from `start` on. */
struct bulk {
    const struct bulk_settings *settings;
    struct bulk_type types[BULK_TYPES_MAX];
    size_t type_count;
    _Atomic int64_t busy_ms; /* when the host last answered requests beside a batch; 0: never */
    atomic_size_t narrow;    /* rows of a batch where one of its rows is refused; 0: one */
    _Atomic int64_t waiting; /* rows of confirmed jobs, when last looked at */
    struct bulk_watchers *watchers;
    struct slots *streams; /* of failed.csv under way */
};

/* A job as it is stored. Texts live as long as the request. */
struct bulk_job {
    const char *id, *email, *type, *file, *status;
    const char *reason; /* why the service cancelled it; NULL */
    int64_t account, role, organisation;
    int64_t rows, doubtful, warned, cursor, single, succeeded, failed;
    const char *created_at, *confirmed_at, *ended_at; /* NULL: not yet */
    /* Of the file, read where rows are: bulk_job_read_header(). Up to 16 KiB as it was sent. */
    const char *separator, *header; /* NULL: not read */
    int64_t bytes;                  /* of a job that is being made, as is */
    bool created;                   /* whether it is stored as such */
};

/*
 * The columns of a job `j` for bulk_job_of(); followed by BULK_JOB_HEADER those for
 * bulk_job_whole(). Statements that read many jobs never read headers.
 */
#define BULK_TIME(column)                                                                          \
    "to_char(" column " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
#define BULK_JOB                                                                                   \
    "j.id, j.email, j.type, j.file, j.status, j.reason, j.account, j.role, j.organisation,"        \
    " j.rows, j.doubtful, j.warned, j.cursor, j.single, j.succeeded, j.failed,"                    \
    " " BULK_TIME("j.created_at") ", " BULK_TIME("j.confirmed_at") ", " BULK_TIME("j.ended_at")
#define BULK_JOB_HEADER ", j.separator, j.header"

/* The condition on a job `j` that the caller sees: its own, an Admin any; $1 to $4 with the id. */
#define BULK_MINE                                                                                  \
    "j.id = $1::uuid AND j.status <> 'arriving' AND ($2::boolean OR (j.account = $3::bigint"       \
    " AND j.organisation = ANY($4::bigint[])))"
#define BULK_MINE_ARGS(who, id)                                                                    \
    bb_t(id), bb_b((who)->role == BB_ROLE_ADMIN), bb_i((who)->account),                            \
        bb_ints((who)->organisations, (who)->organisation_count)
/* Who calls, and the job of the path. */
#define BULK_CALLED(rq) (rq)->principal, bb_segment(rq, "bulkUploadId")

/* state.c */
int bulk_open(struct bb_host *host, void **state);
void bulk_close(struct bb_host *host, void *state);
double bulk_rows_waiting(void *state, size_t value);

/* type.c: finds the types that there are. */
void bulk_start(struct bb_host *host, void *state);
/* NULL: no loaded module gives rows of that type. */
const struct bulk_type *bulk_type_named(const struct bulk *bulk, const char *name);

/* job.c */
struct bulk_job bulk_job_of(struct bb_request *rq, const struct bb_rows *rows, size_t row);
/* The same of a statement with BULK_JOB_HEADER. */
struct bulk_job bulk_job_whole(struct bb_request *rq, const struct bb_rows *rows, size_t row);
/* Reads separator and header of a job. 0, or the status of the answer given. */
int bulk_job_read_header(struct bb_request *rq, struct bulk_job *job);
/* A job that `who` sees: 1, 0: there is none, -1: failed. No answer is given. */
int bulk_job_look(struct bb_request *rq, const struct bb_principal *who, const char *id,
                  struct bulk_job *job);
/* The job of the path: 0, or the status of the answer given (404). */
int bulk_job_find(struct bb_request *rq, struct bulk_job *job);
/* As the API shows it; given, NULL: no memory. */
json_t *bulk_job_json(const struct bulk_job *job);
int bulk_reply(struct bb_request *rq, int status, json_t *json);
/* Rows that have an outcome: stored, or failed. */
int64_t bulk_done(const struct bulk_job *job);
/* The row behind which all that have not failed are cancelled; INT64_MAX: the job was not. */
int64_t bulk_cancelled_behind(const struct bulk_job *job);

/* batch.c: rows of a part. Memory is the request's. */
struct bulk_batch {
    const struct bulk_type *type;
    struct bb_bulk_row **rows; /* for the type's functions */
    const char *const **sent;  /* the cells of each row as sent, up to NULL; */
    size_t count;
    const char *why; /* NULL: it was read */
};

/* Where the columns of a file lie in the table of the type; -1: not known. */
struct bulk_columns {
    size_t count;
    int places[READER_COLUMNS_MAX];
    char separator;
};
/* A row of the type's table, and the place of the column with a name or alias; -1: none. */
const struct bb_field *bulk_column(const struct bulk_type *type, size_t index);
int bulk_place_of(const struct bulk_type *type, const char *name);
/* From the job's header, or a name twice: *twice. The request's, NULL without memory (a header that
 * is NULL); type NULL: nothing is known. */
struct bulk_columns *bulk_columns_of(struct bb_request *rq, const struct bulk_type *type,
                                     const json_t *header, char separator, const char **twice);
/* Of a job whose header was read. */
struct bulk_columns *bulk_job_columns(struct bb_request *rq, const struct bulk *bulk,
                                      const struct bulk_job *job);

/*
 * Reads bytes of whole rows, the first of which has this number; rows up to `after` are left out,
 * and at most `most` are read. `type` may be NULL: then no cell is known. The text that was read at
 * the upload is read again, so it fails for want of memory only, which ends the request.
 */
struct bulk_batch *bulk_batch_of(struct bb_request *rq, const struct bulk_type *type,
                                 const struct bulk_columns *columns, const char *bytes,
                                 size_t length, int64_t first, int64_t after, size_t most);
/* The cell that names a row, or NULL. */
const char *bulk_name_of(const struct bulk_type *type, const struct bb_bulk_row *row);
/* The same as the log shows it: up to BULK_NAME_BYTES of it. */
const char *bulk_name_shown(struct bb_request *rq, const struct bulk_type *type,
                            const struct bb_bulk_row *row);
/* [{number, name, problems}] of the rows with problems, or with warnings, as text; *count of them.
 */
const char *bulk_findings_json(struct bb_request *rq, const struct bulk_batch *batch,
                               int64_t *count);
const char *bulk_warnings_json(struct bb_request *rq, const struct bulk_batch *batch,
                               int64_t *count);

/* A file on its way in, whoever sends it. */
struct bulk_source {
    const struct bulk_type *type;
    const char *path, *name; /* where it lies, and what its sender calls it */
    const struct bb_principal *who;
    int64_t organisation;
    void (*warn)(struct bb_request *rq, void *arg, const char *text);
    void *warn_arg;
    bool interruptible; /* bb_superseded() ends the check */
};

/*
 * take.c: looks a file through, checks its rows and stores its parts as a job that nobody sees yet;
 * finish() makes it one that is created, by bulk_create, sets job->created, and returns the status
 * of its answer, or 0. Returns the status of finish(), or of the answer to a file that is refused.
 * Unless job->created is set nothing of it stays, whatever the answer: a request with the same
 * Idempotency-Key may have been faster.
 */
bool bulk_is_csv(const char *name); /* by its end */
/* Whether there is such an organisation: 1 (also where no module knows), 0, or -1: failed. */
int bulk_organisation_known(struct bb_request *rq, int64_t organisation);
extern const struct bb_sql bulk_create; /* BULK_CREATE_ARGS */
#define BULK_CREATE_ARGS(job)                                                                      \
    bb_t((job)->id), bb_i((job)->doubtful), bb_i((job)->warned), bb_i((job)->bytes)
/* The message for an organization that has no room for more. */
const char *bulk_over_quota(struct bb_request *rq);
int bulk_take(struct bb_request *rq, const struct bulk_source *source, struct bulk_job *job,
              int (*finish)(struct bb_request *rq, struct bulk_job *job));

/* check.c: checks and stores the parts of the file, of an upload; job->bytes grows, up to `left`.
 * 0, or the status of the answer given. */
struct scan;
int bulk_check_parts(struct bb_request *rq, const struct bulk_source *source, struct bulk_job *job,
                     const struct bulk_columns *columns, const struct scan *scan, int64_t left);

/* change.c: what becomes of a job by the word of `who`. 0 with *job (which may be NULL of
 * bulk_job_delete()), or the status of the answer given. */
int bulk_job_confirm(struct bb_request *rq, const struct bb_principal *who, const char *id,
                     struct bulk_job *job);
int bulk_job_cancel(struct bb_request *rq, const struct bb_principal *who, const char *id,
                    struct bulk_job *job);
int bulk_job_delete(struct bb_request *rq, const struct bb_principal *who, const char *id);
/* In the transaction that made it cancelled: counts its rows, and raises the event. 0 with *job,
 * which must live until the commit, or -1: `bb_failed(rq)`. */
int bulk_end_cancelled(struct bb_request *rq, struct bb_tx *tx, const char *id,
                       struct bulk_job *job);

/* failed_rows.c: the rows of a job that failed or were cancelled as CSV. `mark`: with a byte order
 * mark. */
struct csv;
void bulk_failed_header(struct csv *csv, const json_t *header, bool mark);
/* Those of the next part behind the row *behind, which moves on: 1, 0: none is left, -1: failed.
 * `cancelled`: bulk_cancelled_behind(); csv->separator is the job's. */
int bulk_failed_part(struct bb_request *rq, const char *id, const json_t *header, int64_t cancelled,
                     int64_t *behind, struct csv *csv);

/* What the type's functions are told of a job. */
struct bb_bulk_job bulk_job_public(const struct bulk_job *job);

/* call.c: calls check or store (tx not NULL) of the type for all rows that have no problems, so
 * many at a time as the type wants. 0 or -1: `bb_failed(rq)`. */
int bulk_call(struct bb_request *rq, struct bb_tx *tx, const struct bulk_batch *batch,
              const struct bulk_job *job);

/* run.c */
void bulk_run(struct bb_request *rq);
/* event.c: bulk.finished; 0 or -1. */
int bulk_emit_finished(struct bb_request *rq, struct bb_tx *tx, const struct bulk_job *job,
                       const char *status);

/* watch.c: who listens to the progress of jobs. 0, or -1: no memory. */
int bulk_watchers_open(struct bulk *bulk);
void bulk_watchers_close(struct bulk *bulk);
void bulk_tell(struct bb_request *rq);

/* sweep.c */
void bulk_sweep(struct bb_request *rq);
void bulk_tidy(struct bb_request *rq);

/* The handlers, a file each. */
int bulk_upload(struct bb_request *rq);
int bulk_confirm(struct bb_request *rq);
int bulk_cancel(struct bb_request *rq);
int bulk_delete(struct bb_request *rq);
int bulk_list(struct bb_request *rq);
int bulk_log(struct bb_request *rq);
int bulk_failed_csv(struct bb_request *rq);
int bulk_template(struct bb_request *rq);
int bulk_stream(struct bb_request *rq);

/* import.c: the command `bulk import`. */
int bulk_command_import(struct bb_request *rq);

#endif
