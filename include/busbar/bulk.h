/*
 * "bulk rows:TYPE" 1: rows of one type, many at a time. The module `bulk` reads CSV files, has each
 * row checked before anything is stored, and stores them in the background once their sender has
 * confirmed. What a row means, it asks whoever gives this service; a module of a third party that
 * gives "bulk rows:Meters" makes ?type=Meters a type beside those of device and reading.
 *
 *     static const struct bb_service_descriptor services[] = {{"bulk rows:Meters", 1,
 * &meter_rows}};
 *
 * Both functions run on a fiber, as the giver: rq->host and rq->state are its own (bb_call_as()),
 * and so are pools, metrics and events. rq->principal is nobody's business, for there is none when
 * rows are stored: the job says on whose behalf and in which organisation. Rows come in the order
 * of the file, up to `rows_max` at a time, and one call has ended before the next of its job
 * begins; calls for other jobs may be under way on other threads. All memory of a call, what it
 * allocates and what it is given, ends with the call. Keep what burns the processor short between
 * calls that park: a millisecond or two, or put it into a pool.
 *
 * A row that is not valid, or cannot be stored, gets problems: whatever can be known of it, each
 * with the column it is about, in the words that a single request would get. It never disturbs the
 * rows beside it. A problem of the whole call (the database is away, memory) is no problem of a
 * row: -1.
 *
 * Since minor 4.
 */
#ifndef BUSBAR_BULK_H
#define BUSBAR_BULK_H

#include <busbar/sql.h>

#define BB_BULK_ROWS "bulk rows:" /* what names of these services begin with */

enum { BB_BULK_ROWS_MAX = 2000 }; /* of a call */

/* On whose behalf. */
struct bb_bulk_job {
    size_t size;
    const char *id;       /* UUID */
    int64_t organisation; /* in which all rows act, and no other; never 0 */
    int64_t account;      /* of the sender, who may act there; 0: the operator's command */
    const char *email;    /* the sender's, in lower case; "": the operator's command */
    unsigned role;        /* one bit of enum bb_role, as it was at the upload */
    const char *file;     /* name of the file, as the client has it: data */
};

struct bb_bulk_problem {
    struct bb_bulk_problem *next;
    const char *field; /* name of a column; "" where the row as a whole is meant */
    const char *problem;
};

/*
 * What a row takes for itself: no other row of its file may take the same name over a time that
 * overlaps. So check() need not remember the rows of earlier calls: the later one of two that
 * contradict each other gets the problem. Only rows without problems are asked.
 */
struct bb_bulk_claim {
    const char *name;  /* compared by bytes; NULL: nothing. "plant-7", folded where it has to be */
    const char *field; /* the column that the problem is told of */
    int64_t from, until; /* `until` exclusive; both 0: for all time */
};

struct bb_bulk_row {
    size_t size;
    int64_t number;           /* 1 is the first row of data */
    const char *const *cells; /* by the index of `columns`; NULL: empty, or no such column */
    struct bb_bulk_problem
        *problems;              /* bb_bulk_problem() adds; in the order that they were found */
    struct bb_bulk_claim claim; /* set by check() */
    /*
     * The cell of `name_column` as it was sent, if `cells` has it without the apostrophe that
     * exports put before = + - @; NULL: both are the same. If a thing of exactly this name exists,
     * the row means that thing.
     */
    const char *name_as_sent;
    struct bb_bulk_problem *warnings; /* bb_bulk_warn() adds, in check() */
};

struct bb_bulk_rows {
    size_t size;
    const char *help; /* one sentence for the reference */
    unsigned roles;   /* enum bb_role: who may upload such rows */
    size_t rows_max;  /* rows in a call, up to BB_BULK_ROWS_MAX; 0: 500 */
    /*
     * struct bb_field: the columns that are known, by name or alias, in any case; the others are
     * passed over. Names, help and examples make the template. A cell of a column of BB_INT or
     * BB_NUMBER, or of BB_ANY with bounds, in a file that separates by other than commas may have a
     * decimal comma: it is handed over with a point. The other cells are as sent, UTF-8 without
     * NUL, up to 32,768 bytes, except for what spreadsheets need: ="text" is handed over as text,
     * and the apostrophe that exports put before = + - @ is taken off.
     */
    struct bb_table columns;
    size_t name_column; /* whose cell names a row in the log: externalId */
    /*
     * Finds what is wrong with rows, by themselves and with what is stored, and what they claim;
     * stores nothing. On behalf of the upload. 0; or -1: `bb_failed(rq)` answers the upload.
     */
    int (*check)(struct bb_request *rq, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count);
    /*
     * Stores the rows, each one that can be, in the transaction `tx` (bb_tx_query(), bb_emit()),
     * and raises the events that a single request would. A row has problems when it returns, and
     * then nothing of it is stored; or it has none, and is. Rows that check() found fault with
     * come again: what stood against them may be gone, and what did not may be there now. Earlier
     * rows of the call come first where two contradict each other.
     *
     * The caller commits, in the same transaction with the outcome of each row and the job's
     * progress: so a crash stores a row not twice, and leaves none out. The function does not
     * answer.
     *
     * 0; or -1 for a statement that failed: all of the call is undone and called again, later where
     * that helps; else row by row, so that one row which the database refuses stands alone and gets
     * a problem. Take locks in an order of their own (by id), not that of the rows.
     */
    int (*store)(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count);
    /* What becomes of a row may depend on others of its call: calls have as many rows while the
     * host is busy as else. Since minor 9. */
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

/* Adds a problem to a row. Both texts must live as long as the call: bb_format(). */
static inline void bb_bulk_problem(struct bb_request *rq, struct bb_bulk_row *row,
                                   const char *field, const char *problem)
{
    bb_bulk_append(rq, &row->problems, field, problem);
}

/* Adds a warning: the row can be stored, and its sender should look again. Both texts must live as
 * long as the call. */
static inline void bb_bulk_warn(struct bb_request *rq, struct bb_bulk_row *row, const char *field,
                                const char *warning)
{
    bb_bulk_append(rq, &row->warnings, field, warning);
}

#endif
