/*
 * "bulk rows:TYPE" 1: a service that processes rows of one type, many at a time. The module `bulk`
 * reads CSV files, calls check() for all rows before anything is stored, and calls store() in the
 * background once the sender has confirmed. The provider of this service knows what a row means: a
 * module that provides "bulk rows:Meters" adds type=Meters to the types device and reading.
 *
 *     static const struct bb_service_descriptor services[] = {
 *         {"bulk rows:Meters", 1, &meter_rows}};
 *
 * Both functions run on a fiber on behalf of the providing module (bb_call_as()): rq->host and
 * rq->state are the provider's, whose pools, metrics and events they can use. Do not use
 * rq->principal, which is NULL when rows are stored. The job names the account and the organization
 * on whose behalf the rows are processed. Rows come in the order of the file, up to `rows_max` per
 * call. Calls for the same job never overlap; calls for other jobs may run at the same time on
 * other threads. All memory of a call, allocated or passed to it, is released when the call ends.
 * Use at most a millisecond or two of CPU time between calls that park (request.h), or use a pool.
 *
 * If a row is invalid or cannot be stored, report every problem that you find, with its column, in
 * the same words as for a request with this row only. Such a row never affects other rows. If the
 * whole call fails (database unavailable, out of memory), report no problems and return -1.
 */
#ifndef BUSBAR_BULK_H
#define BUSBAR_BULK_H

#include <busbar/sql.h>

#define BB_BULK_ROWS "bulk rows:" /* the prefix of the names of these services */

enum { BB_BULK_ROWS_MAX = 2000 }; /* limit of rows_max */

/* Describes the upload with the rows, and the account on whose behalf they are processed. */
struct bb_bulk_job {
    size_t size;
    const char *id;       /* UUID */
    int64_t organization; /* the organization of all rows; never 0 */
    int64_t account;      /* the sender's id; 0: a command of the operator sent the rows */
    const char *email;    /* the sender's, in lower case; "": a command of the operator */
    unsigned role;        /* one bit of enum bb_role, as it was at the upload */
    const char *file;     /* file name as the client sent it: data, never a path */
};

struct bb_bulk_problem {
    struct bb_bulk_problem *next;
    const char *field; /* name of a column; "" for the row as a whole */
    const char *problem;
};

/*
 * Reserves a name for a period: if two rows of a file reserve the same name for overlapping
 * periods, the second row gets a problem. So check() can find rows that contradict each other
 * without remembering the rows of earlier calls. Claims of rows with problems are ignored.
 */
struct bb_bulk_claim {
    const char *name;    /* compared by bytes, such as "plant-7"; lower-case it to ignore case.
                          * NULL: no claim */
    const char *field;   /* the column that the second row's problem names */
    int64_t from, until; /* times in any unit, `until` exclusive; both 0: unlimited */
};

struct bb_bulk_row {
    size_t size;
    int64_t number;           /* 1 is the first row of data */
    const char *const *cells; /* in the order of `columns`; NULL: empty, or not in the file */
    /* added by bb_bulk_problem(); in the order in which they were found */
    struct bb_bulk_problem *problems;
    struct bb_bulk_claim claim; /* set by check() */
    /*
     * The cell of `name_column` with the apostrophe that CSV exports put before a leading = + - or
     * @ and that `cells` omits. NULL: the cell had no such apostrophe. If an object has exactly
     * this name, the row refers to that object.
     */
    const char *name_as_sent;
    struct bb_bulk_problem *warnings; /* added by bb_bulk_warn() in check() */
};

struct bb_bulk_rows {
    size_t size;
    const char *help; /* one sentence for the reference */
    unsigned roles;   /* enum bb_role: roles that may upload such rows */
    size_t rows_max;  /* maximum rows per call, up to BB_BULK_ROWS_MAX; 0: 500 */
    /*
     * struct bb_field: the known columns, matched by name or alias in any case; other columns are
     * ignored. The template for clients consists of names and examples. If a file uses a separator
     * other than a comma, cells of BB_INT and BB_NUMBER columns, and of BB_ANY columns with bounds,
     * may have a decimal comma, which the functions get as a point. All other cells are passed as
     * sent, in UTF-8 without NUL and up to 32,768 bytes, with two exceptions for spreadsheets:
     * ="text" is passed as text, and the apostrophe that exports put before = + - @ is removed.
     */
    struct bb_table columns;
    size_t name_column; /* index of the column that names a row in the log, such as externalId */
    /*
     * Reports the problems of the rows, including conflicts with stored data, and sets their
     * claims. Stores nothing. Runs while the file is uploaded. Returns 0, or -1 on failure: then
     * `bb_failed(rq)` answers the upload.
     */
    int (*check)(struct bb_request *rq, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count);
    /*
     * Stores the rows that can be stored, in the transaction `tx` (bb_tx_query(), bb_emit()), and
     * raises the events that a single request would raise. On return a row either has problems and
     * nothing of it is stored, or it has none and is stored. Rows that had problems in check() are
     * passed again, because stored data may have changed since. If two rows of a call contradict
     * each other, the earlier one is stored.
     *
     * The caller commits the rows, their results and the job's progress in one transaction, so a
     * crash neither stores a row twice nor loses one. The function must not answer the request.
     *
     * Returns 0, or -1 if a statement failed. The caller then rolls back. If waiting can help, it
     * repeats the call later; otherwise it passes each row in a separate call, so that only a
     * refused row gets a problem. Take locks in the order of ids, not of rows.
     */
    int (*store)(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count);
    /* True if a row can depend on other rows of its call. If false, the host passes fewer rows per
     * call while it is busy with requests. */
    bool together;
};

static inline void bb_bulk_append(struct bb_request *rq, struct bb_bulk_problem **last,
                                  const char *field, const char *problem)
{
    struct bb_bulk_problem *one = (struct bb_bulk_problem *)bb_alloc(rq, sizeof(*one));

    one->field = field;
    one->problem = problem;
    while (*last)
        last = &(*last)->next;
    *last = one;
}

/* Adds a problem to a row. Both texts must live until check() or store() returns. */
static inline void bb_bulk_problem(struct bb_request *rq, struct bb_bulk_row *row,
                                   const char *field, const char *problem)
{
    bb_bulk_append(rq, &row->problems, field, problem);
}

/* Warns the sender of a row. Both texts must live until check() or store() returns. */
static inline void bb_bulk_warn(struct bb_request *rq, struct bb_bulk_row *row, const char *field,
                                const char *warning)
{
    bb_bulk_append(rq, &row->warnings, field, warning);
}

#endif
