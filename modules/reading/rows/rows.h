/*
 * The service "bulk rows:Reads": readings of many devices. The rows of a device that name the same
 * time zone form one submission, like a request. Unlike in a request, a mistake in one row does not
 * affect the others: the row is removed before the next step.
 */
#ifndef READING_ROWS_H
#define READING_ROWS_H

#include "modules/reading/base/reading.h"

enum column { DEVICE, START, END, VALUE, UNIT, TYPE, ZONE, COLUMNS };
extern const struct bb_field rows_columns[COLUMNS];

/* A row being processed. */
struct one {
    struct bb_bulk_row *row;
    const struct bb_device *device;
    const char *zone; /* NULL: none */
    size_t key;       /* index of its key in the list of keys */
    bool two_keys; /* the previous key also belongs to the row and takes precedence: the name as it
                      was sent */
};

struct call {
    const struct bb_bulk_job *job;
    struct bb_tx *tx; /* NULL: only a check */
    struct one *list;
    size_t count;
    size_t over;     /* rows above the ceiling */
    json_t *refused; /* with `tx`: refused rows for reading_refused_store() */
};

/*
 * row_devices.c: fills call->list with the rows whose devices are known and Active, grouped by
 * device, and reports the problems of the other rows. Returns 0, or -1: `bb_failed(rq)`.
 */
int rows_find_devices(struct bb_request *rq, struct call *call, struct bb_bulk_row *const *rows,
                      size_t count);
/* Returns whether two rows belong to the same submission. */
bool rows_together(const struct one *a, const struct one *b);

/* row_device.c: the rows of one submission, `count` entries of `ones`. */
/*
 * Parses the rows. Rows that cannot be parsed are removed from the submission and from `ones`.
 * Returns -1 if out of memory.
 */
int rows_read(struct bb_request *rq, struct call *call, struct reading_submission *submission,
              struct one *ones, size_t count);
/*
 * Reports the mistakes of the rows; the other rows are stored, or claim their periods. Returns 0 or
 * -1: `bb_failed(rq)`.
 */
int rows_conclude(struct bb_request *rq, struct call *call, struct reading_submission *submission,
                  const struct one *ones);
/* Does all steps for the rows of one device. Returns 0 or -1. */
int rows_of_device(struct bb_request *rq, struct call *call, struct one *ones, size_t count);

/* row_crowd.c: does all steps for a call whose devices were found. Returns 0 or -1. */
int rows_of_devices(struct bb_request *rq, struct call *call);

#endif
