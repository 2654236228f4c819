/*
 * bulk: uploads of files with rows. A file becomes a job: its rows are checked, its sender confirms
 * it, and then its rows are stored.
 *
 * The host streams an upload to disk, scans it (scan.c) and cuts it into parts of whole rows, which
 * are stored in the database unchanged (upload.c). So any host can continue a job, and nothing
 * stays on disk. A part is parsed again (rows.c) to store its rows (run.c) and to show them
 * (log.c). The module that provides the service "bulk rows:TYPE" (busbar/bulk.h) interprets the
 * rows. docs/reference.md describes the states, and why killing a host is harmless.
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
    BULK_PART_ROWS = 500, /* maximum per part */
    BULK_FILE_MAX = 52428800,
    BULK_PAGE_MAX = 1000,
    BULK_ID = 37 /* a job's id with its NUL */
};

#define BULK_POOL "files"

/* The metrics and the values of their labels, in the order of the tables in module.c. */
enum bulk_metric { BULK_METRIC_JOBS, BULK_METRIC_ROWS, BULK_METRIC_WAITING };
enum bulk_ended { BULK_FINISHED, BULK_CANCELLED };
enum bulk_outcome { BULK_SUCCEEDED, BULK_FAILED };

struct bulk_type {
    const char *name; /* such as "Devices" */
    const struct bb_bulk_rows *rows;
    struct bb_host *host; /* of the module that provides the type */
    size_t rows_max;
    bool together; /* rows may depend on each other, so batches stay large if the host is busy */
};

struct bulk_settings {
    const char *files;        /* directory for incoming files */
    int64_t jobs_per_account; /* limit of jobs that have not ended */
    int64_t bytes_per_organization;
    int64_t retention_days;
    int64_t unfinished_days; /* days until a cancelled or unconfirmed job is deleted */
};

/* The module's state; each reload creates another one. bulk_start() fills in the types. */
struct bulk {
    const struct bulk_settings *settings;
    struct bulk_type types[BULK_TYPES_MAX];
    size_t type_count;
    atomic_bool busy;              /* whether requests kept the host busy in the last run */
    _Atomic int64_t waiting;       /* unfinished rows of confirmed jobs at the last query */
    struct slots *exports;         /* failed.csv responses in progress */
    pthread_mutex_t watching;      /* guards `watchers` */
    LIST_HEAD(, watcher) watchers; /* open streams of jobs' progress */
};

/* A stored job. Texts live as long as the request. */
struct bulk_job {
    const char *id, *email, *type, *file, *status;
    const char *reason; /* why the service cancelled the job, or NULL */
    int64_t account, role, organization;
    int64_t rows, doubtful, warned, cursor, single, succeeded, failed;
    bool ended;
    const char *separator, *header; /* header: JSON list of names; NULL: not selected */
    const struct bb_rows *source;   /* result of the statement that read the job */
    size_t source_row;
    int64_t bytes; /* set only while the job is being created */
    bool created;  /* the job was stored in the state `created` */
};

/*
 * BULK_JOB selects the columns of a job `j` for bulk_job_of(). The first columns have the order of
 * bulk_job_fields. Statements that read only a few jobs also select BULK_JOB_HEADER.
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

/* Reads a job from a row. `whole`: the statement also selected BULK_JOB_HEADER. */
struct bulk_job bulk_job_of(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                            bool whole);
/* Looks up a job that `who` may see. Returns 1, 0 if not found, or -1 on failure. */
int bulk_job_look(struct bb_request *rq, const struct bb_principal *who, const char *id,
                  struct bulk_job *job);
/* Returns the job in the path. Ends the request if the caller may not see it. */
struct bulk_job bulk_job_find(struct bb_request *rq);
/* Returns the job as the API shows it. The caller owns the JSON. NULL: out of memory. */
json_t *bulk_job_json(struct bb_request *rq, const struct bulk_job *job);
/* Returns the number of rows that were stored or have failed. */
int64_t bulk_done(const struct bulk_job *job);
/* Raises the event bulk.finished. On failure calls bb_end(). */
void bulk_emit_finished(struct bb_request *rq, struct bb_tx *tx, const struct bulk_job *job);

/* Change a job on behalf of `who`, or send a 404 or 409 if this is not possible. */
int bulk_job_confirm(struct bb_request *rq, const struct bb_principal *who, const char *id,
                     struct bulk_job *job);
int bulk_job_cancel(struct bb_request *rq, const struct bb_principal *who, const char *id,
                    struct bulk_job *job);
int bulk_job_delete(struct bb_request *rq, const struct bb_principal *who, const char *id);
/*
 * Call in the transaction that set the job to `cancelled`. Counts the failed rows, reads the job
 * into *job, which must live until the commit, and raises bulk.finished. On failure calls bb_end().
 */
void bulk_end_cancelled(struct bb_request *rq, struct bb_tx *tx, const char *id,
                        struct bulk_job *job);

/* ---- rows.c: rows of a part. Memory belongs to the request ---- */

/* The columns of a file. places[i] is the index of column i in the type's table; -1: unknown. */
struct bulk_columns {
    const struct bulk_type *type; /* NULL: all columns are unknown */
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

/* Returns the index of the column with this name or alias in the type's table; -1: none. */
int bulk_place_of(const struct bulk_type *type, const char *name);
struct bulk_columns *bulk_columns_of(struct bb_request *rq, const struct bulk_type *type,
                                     const json_t *header, char separator);
/* Returns the columns of a job that was read with its header. */
struct bulk_columns *bulk_job_columns(struct bb_request *rq, const struct bulk_job *job);
/*
 * Parses `bytes`, the rows of a part followed by a NUL; `first` is the number of the first row.
 * Returns up to `most` rows with numbers above `after`. If memory runs out, ends the request.
 */
struct bulk_batch *bulk_batch_of(struct bb_request *rq, const struct bulk_columns *columns,
                                 const char *bytes, int64_t first, int64_t after, size_t most);
/* Returns the cell that names a row in the log, cut to 1,020 bytes; NULL: no such cell. */
const char *bulk_name_of(struct bb_request *rq, const struct bulk_type *type,
                         const struct bb_bulk_row *row);
/* Returns [{number, name, problems}] as JSON for the *count rows with problems (or warnings). */
const char *bulk_findings_json(struct bb_request *rq, const struct bulk_batch *batch, bool warnings,
                               int64_t *count);
/*
 * Passes all rows that have no problems yet to the type's `store`, or to `check` if `tx` is NULL,
 * up to `rows_max` rows per call. Returns 0, or -1 on failure.
 */
int bulk_call(struct bb_request *rq, struct bb_tx *tx, const struct bulk_batch *batch,
              const struct bulk_job *job);

/* Selects the first part that has rows of the kind `rows` with numbers above `after`. */
struct bulk_sought {
    int64_t after, until; /* row numbers; a part that begins after `until` is not selected */
    enum { BULK_ALL_ROWS, BULK_GOOD_ROWS, BULK_LOST_ROWS } rows;
    int64_t lost; /* for BULK_LOST_ROWS, which are the failed rows and all rows after this number */
    size_t most;  /* maximum number of rows to parse; 0: all rows of the part */
};

/* The part that bulk_part_next() has selected. */
struct bulk_part {
    int64_t last;                /* number of the last row in `batch` */
    size_t bytes;                /* of the whole part */
    json_t *findings, *warnings; /* JSON objects: problems by row number */
    struct bulk_batch *batch;    /* NULL: no part was found */
};

int bulk_part_next(struct bb_request *rq, const struct bulk_columns *columns, const char *id,
                   const struct bulk_sought *sought, struct bulk_part *part);
/* Returns the row's problems from `findings` or `warnings` of a part, borrowed, or NULL. */
json_t *bulk_found(const json_t *findings, const struct bb_bulk_row *row);

/*
 * Writes the failed and cancelled rows of a job as CSV, with an added column `errors`.
 * bulk_failed_new() returns the state, or NULL if out of memory; free it with free(). `mark`: begin
 * with a byte order mark. Each call of bulk_failed_write() appends the rows of one part, the first
 * call also the header line. It returns 1, 0 if no part was left, or -1 on failure.
 */
struct bulk_failed;
struct bulk_failed *bulk_failed_new(const struct bulk_job *job, bool mark);
int bulk_failed_write(struct bb_request *rq, struct csv *csv, void *failed);

/* ---- upload.c: from a file to a job ---- */

/* An incoming file, from a request or a command. */
struct bulk_source {
    const struct bulk_type *type;
    const char *path, *name; /* path on this host; name that the sender gave the file */
    const struct bb_principal *who;
    int64_t organization;
    void (*warn)(struct bb_request *rq, void *arg, const char *text);
    void *warn_arg;
    bool command; /* from `busbar bulk import`, which SIGINT stops, and which sends no response */
};

bool bulk_is_csv(const char *name); /* whether the extension is .csv */
/*
 * Scans a file, checks its rows and stores its parts as a job, which becomes visible at the end.
 * Returns the status of the response, or 0 for the command. Sets job->created after the commit; a
 * job that did not become visible is deleted. (The status may be the stored response of another
 * request with the same Idempotency-Key.)
 */
int bulk_take(struct bb_request *rq, const struct bulk_source *source, struct bulk_job *job);

/* ---- jobs, handlers and the command ---- */

void bulk_run(struct bb_request *rq);
void bulk_begin_run(struct bb_request *rq, void *unused); /* calls bulk_run(); for bb_run() */
void bulk_watch(struct bb_request *rq);
void bulk_sweep(struct bb_request *rq);
void bulk_tidy(struct bb_request *rq);
bb_handler bulk_upload, bulk_confirm, bulk_cancel, bulk_delete, bulk_list, bulk_log,
    bulk_failed_csv, bulk_template, bulk_stream, bulk_command_import;

#endif
