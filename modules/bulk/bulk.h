/*
 * bulk: uploads of files with rows. A file becomes a job, which is checked, created and confirmed.
 *
 * The host streams an upload to disk, scans it (scan.c) and cuts it into parts of whole rows, which
 * are stored in the database unchanged (upload.c). So any host can continue a job, and nothing
 * stays on disk. A part is parsed again whenever its rows are needed (rows.c): for the check, the
 * run (run.c), the log and the failed rows (log.c). The module that provides the service "bulk
 * rows:TYPE" (busbar/bulk.h) interprets the rows. docs/reference.md describes the states and why
 * killing a host is harmless.
 *
 * Everything runs on the fiber of its request; functions that read files run in the pool `files`.
 * Functions that return `int` return 0 or the status of the response sent, unless stated otherwise.
 */
#ifndef BULK_H
#define BULK_H

#include <busbar/busbar.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "modules/common/csv.h"
#include "modules/common/scope.h"

enum {
    BULK_TYPES_MAX = 32,
    BULK_PART_ROWS = 500, /* per part */
    BULK_FILE_MAX = 52428800,
    BULK_PAGE_MAX = 1000,
    BULK_ID = 37 /* a job's id with its NUL */
};

#define BULK_POOL "files"

/* Counters, in the order of the metrics. */
enum bulk_metric { BULK_METRIC_JOBS, BULK_METRIC_ROWS, BULK_METRIC_WAITING };
enum bulk_ended { BULK_FINISHED, BULK_CANCELLED };
enum bulk_outcome { BULK_SUCCEEDED, BULK_FAILED };

struct bulk_type {
    const char *name; /* "Devices" */
    const struct bb_bulk_rows *rows;
    struct bb_host *host; /* of the module that provides the type */
    size_t rows_max;
    bool together; /* see struct bb_bulk_rows */
};

struct bulk_settings {
    const char *files;        /* directory for incoming files */
    int64_t jobs_per_account; /* limit of jobs that have not ended */
    int64_t bytes_per_organization;
    int64_t retention_days;
    int64_t unfinished_days; /* for jobs that were cancelled or never confirmed */
};

/* State of one generation. Types are known after `start` has run. */
struct bulk {
    const struct bulk_settings *settings;
    struct bulk_type types[BULK_TYPES_MAX];
    size_t type_count;
    atomic_bool busy;              /* whether the host answered requests during the last run */
    _Atomic int64_t waiting;       /* rows of confirmed jobs at the last query */
    struct slots *exports;         /* failed.csv responses in progress */
    pthread_mutex_t watching;      /* guards the list */
    LIST_HEAD(, watcher) watchers; /* open streams of jobs' progress */
};

/* A stored job. Texts live as long as the request. */
struct bulk_job {
    const char *id, *email, *type, *file, *status;
    const char *reason; /* why the service cancelled the job, or NULL */
    int64_t account, role, organization;
    int64_t rows, doubtful, warned, cursor, single, succeeded, failed;
    bool ended;
    const char *separator, *header; /* up to 16 KiB, as sent; NULL: not read */
    const struct bb_rows *source;   /* result of the statement that read the job */
    size_t source_row;
    int64_t bytes; /* set only while the job is being created */
    bool created;  /* the job was stored in the state `created` */
};

/*
 * The columns of a job `j` for bulk_job_of(). They begin with the columns of bulk_job_fields, in
 * the order of this table. Statements that read many jobs omit the headers.
 */
/* clang-format off */
#define BULK_ENDED "the account that sent it is suspended or deleted"
#define BULK_ROLE_LOST                                                                             \
    "the role of the account that sent it may not upload rows of this type any more"
#define BULK_ORGANIZATION_LOST                                                                     \
    "the account that sent it does not act in this organization any more"
#define BULK_JOB                                                                                   \
    "j.id, j.status, j.reason, CASE j.reason WHEN '" BULK_ENDED "' THEN 'account_ended'"           \
    " WHEN '" BULK_ROLE_LOST "' THEN 'role_lost' WHEN '" BULK_ORGANIZATION_LOST "'"                \
    " THEN 'organization_lost' END, j.type, j.file, j.organisation, json_build_object('passed',"   \
    " j.rows - j.doubtful, 'failed', j.doubtful, 'warned', j.warned), json_build_object('done',"   \
    " j.succeeded + j.failed, 'total', j.rows, 'succeeded', j.succeeded, 'failed', j.failed), "    \
    BB_SQL_MS("j.created_at") ", " BB_SQL_MS("j.confirmed_at") ", " BB_SQL_MS("j.ended_at")        \
    ", j.rows, j.email, j.account, j.role, j.doubtful, j.cursor, j.single, j.succeeded, j.failed"
#define BULK_JOB_HEADER ", j.separator, j.header"
/* clang-format on */
enum { BULK_JOB_MEMBERS = 13, BULK_JOB_PROGRESS = 8 };
/* module.c: the members of a job and of a row in the API */
extern const struct bb_field bulk_job_fields[13], bulk_row_fields[5];

/* ---- module.c: the types that loaded modules provide ---- */

/* Adds the types. Commands must call this, because the host does not call `start` for them. */
void bulk_start(struct bb_host *host, void *state);
/* Returns NULL if no loaded module provides the type. */
const struct bulk_type *bulk_type_named(const struct bulk *bulk, const char *name);
const char *bulk_type_names(struct bb_request *rq);

/* ---- job.c: a job in the database and in the API ---- */

/* Reads a job from a row. With `whole`, the statement has BULK_JOB_HEADER, too. */
struct bulk_job bulk_job_of(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                            bool whole);
/* Looks up a job that `who` may see. Returns 1, 0 if not found, or -1 on failure. */
int bulk_job_look(struct bb_request *rq, const struct bb_principal *who, const char *id,
                  struct bulk_job *job);
/* Returns the job in the path. Ends the request if the caller may not see it. */
struct bulk_job bulk_job_find(struct bb_request *rq);
/* Returns the JSON of the API, owned by the caller; NULL: out of memory. */
json_t *bulk_job_json(struct bb_request *rq, const struct bulk_job *job);
/* Returns the number of rows that were stored or have failed. */
int64_t bulk_done(const struct bulk_job *job);
/* Raises the event bulk.finished. On failure calls bb_end(). */
void bulk_emit_finished(struct bb_request *rq, struct bb_tx *tx, const struct bulk_job *job);

/* Change a job at the request of `who`. */
int bulk_job_confirm(struct bb_request *rq, const struct bb_principal *who, const char *id,
                     struct bulk_job *job);
int bulk_job_cancel(struct bb_request *rq, const struct bb_principal *who, const char *id,
                    struct bulk_job *job);
int bulk_job_delete(struct bb_request *rq, const struct bb_principal *who, const char *id);
/*
 * Call in the transaction that cancelled the job: counts its rows and raises the event. On failure
 * calls bb_end(). Sets *job, which must live until the commit.
 */
void bulk_end_cancelled(struct bb_request *rq, struct bb_tx *tx, const char *id,
                        struct bulk_job *job);

/* ---- rows.c: rows of a part. Memory belongs to the request ---- */

/* The columns of a file, each as its index in the type's table; -1: not in the table. */
struct bulk_columns {
    const struct bulk_type *type; /* NULL: no column is known */
    char separator;
    size_t count;
    int places[];
};

struct bulk_batch {
    const struct bulk_type *type;
    struct bb_bulk_row **rows; /* for the type's functions */
    const char *const **sent;  /* the cells of each row as sent, ending with NULL */
    size_t count;
};

/* Returns the index of a column in the type's table, by its name or alias; -1: none. */
int bulk_place_of(const struct bulk_type *type, const char *name);
struct bulk_columns *bulk_columns_of(struct bb_request *rq, const struct bulk_type *type,
                                     const json_t *header, char separator);
/* Returns the columns of a job whose header was read. */
struct bulk_columns *bulk_job_columns(struct bb_request *rq, const struct bulk_job *job);
/*
 * Parses bytes of whole rows, which the upload has already parsed. `first` is the number of the
 * first row. Skips rows up to `after`; reads at most `most`. Out of memory: ends the request.
 */
struct bulk_batch *bulk_batch_of(struct bb_request *rq, const struct bulk_columns *columns,
                                 const char *bytes, int64_t first, int64_t after, size_t most);
/* Returns the cell that names a row in the log, or NULL. */
const char *bulk_name_of(struct bb_request *rq, const struct bulk_type *type,
                         const struct bb_bulk_row *row);
/* Returns [{number, name, problems}] of rows with problems (or warnings, with `warnings`). */
const char *bulk_findings_json(struct bb_request *rq, const struct bulk_batch *batch, bool warnings,
                               int64_t *count);
/*
 * Calls the type's `check`, or `store` if tx is not NULL, with all rows without problems, in groups
 * of the size that the type requests. Returns 0 or -1: `bb_failed(rq)`.
 */
int bulk_call(struct bb_request *rq, struct bb_tx *tx, const struct bulk_batch *batch,
              const struct bulk_job *job);

/* Selects the next part to read: the first one after `after` with rows of the kind `rows`. */
struct bulk_sought {
    int64_t after, until; /* the last row seen; the part begins at or before `until` */
    enum { BULK_ALL_ROWS, BULK_GOOD_ROWS, BULK_LOST_ROWS } rows;
    int64_t lost; /* with BULK_LOST_ROWS: rows after this one were cancelled */
    size_t most;  /* rows of a part; 0: all */
};

/* A stored part, with its first `most` rows after `after`. */
struct bulk_part {
    int64_t last; /* the last of these rows */
    size_t bytes;
    json_t *findings, *warnings; /* by the numbers of the rows */
    struct bulk_batch *batch;    /* NULL: there is no such part */
};

int bulk_part_next(struct bb_request *rq, const struct bulk_columns *columns, const char *id,
                   const struct bulk_sought *sought, struct bulk_part *part);
/* Returns the findings or warnings of a row, borrowed, or NULL. */
json_t *bulk_found(const json_t *findings, const struct bb_bulk_row *row);

/*
 * The rows of a job that are not stored, as CSV: as they were sent, with a column `errors` added,
 * including the cancelled rows of a cancelled job. Free the result of bulk_failed_new() with
 * free(); NULL: out of memory. `mark`: with a byte order mark. bulk_failed_write() writes the
 * header line and the rows of the next part. It returns 1, 0 if no part is left, or -1 on failure.
 */
struct bulk_failed;
struct bulk_failed *bulk_failed_new(const struct bulk_job *job, bool mark);
int bulk_failed_write(struct bb_request *rq, struct csv *csv, void *failed);

/* ---- upload.c: from a file to a job ---- */

/* An incoming file, from a request or a command. */
struct bulk_source {
    const struct bulk_type *type;
    const char *path, *name; /* its location, and its name at the sender */
    const struct bb_principal *who;
    int64_t organization;
    void (*warn)(struct bb_request *rq, void *arg, const char *text);
    void *warn_arg;
    bool command; /* the command's: an interrupt ends the check, and success sends no response */
};

bool bulk_is_csv(const char *name); /* by its extension */
/*
 * Scans a file, checks its rows and stores its parts as a job, which becomes visible at the end.
 * Returns the status of the response, or 0 for the command. Everything is deleted again unless
 * job->created is set. The status does not show this: it may be the stored response of another
 * request with the same Idempotency-Key.
 */
int bulk_take(struct bb_request *rq, const struct bulk_source *source, struct bulk_job *job);

/* ---- jobs, handlers and the command ---- */

void bulk_run(struct bb_request *rq);
void bulk_begin_run(struct bb_request *rq, void *unused); /* bulk_run(), for bb_run() */
void bulk_watch(struct bb_request *rq);
void bulk_sweep(struct bb_request *rq);
void bulk_tidy(struct bb_request *rq);
bb_handler bulk_upload, bulk_confirm, bulk_cancel, bulk_delete, bulk_list, bulk_log,
    bulk_failed_csv, bulk_template, bulk_stream, bulk_command_import;

#endif
