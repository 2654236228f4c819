/*
 * The service "bulk rows:Reads": readings of many devices. The rows of a device that name the same
 * time zone are one submission, as a request would bring it, but that what is wrong with one row is
 * no matter of the others: it is taken out before the next step looks at them.
 */
#ifndef READING_ROWS_H
#define READING_ROWS_H

#include "modules/reading/base/reading.h"

enum column { DEVICE, START, END, VALUE, UNIT, TYPE, ZONE, COLUMNS };
extern const struct bb_field rows_columns[COLUMNS];

/* A row on its way. */
struct one {
    struct bb_bulk_row *row;
    const struct bb_device *device;
    const char *zone; /* NULL: none */
    size_t key;       /* which of the keys that are looked up */
    bool two_keys;    /* the one before it, too: the name as it was sent, which comes first */
};

struct call {
    const struct bb_bulk_job *job;
    struct bb_tx *tx; /* NULL: a check */
    struct one *list;
    size_t count;
    size_t over;     /* rows that were above the ceiling */
    json_t *refused; /* of `tx`: what reading_refused_store() keeps of them */
};

/*
 * row_devices.c: call->list gets the rows whose devices are known and Active, those of a device
 * behind each other; what is wrong with the others is told. 0, or -1: `bb_failed(rq)`.
 */
int rows_find_devices(struct bb_request *rq, struct call *call, struct bb_bulk_row *const *rows,
                      size_t count);
/* Whether two rows go into the same submission. */
bool rows_together(const struct one *a, const struct one *b);

/* row_device.c: those of a submission, which are `count` of `ones`. */
/* Those that can be read by themselves are left, and their rows in `ones`. -1: no memory. */
int rows_read(struct bb_request *rq, struct call *call, struct reading_submission *submission,
              struct one *ones, size_t count);
/* What was found wrong with rows is theirs, and the others are stored or claim their periods. 0 or
 * -1: `bb_failed(rq)`. */
int rows_conclude(struct bb_request *rq, struct call *call, struct reading_submission *submission,
                  const struct one *ones);
/* All of it, for rows of one device. 0 or -1. */
int rows_of_device(struct bb_request *rq, struct call *call, struct one *ones, size_t count);

/* row_crowd.c: all rows of a call that has found its devices. 0 or -1. */
int rows_of_devices(struct bb_request *rq, struct call *call);

#endif
