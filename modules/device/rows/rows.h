/* Rows of bulk uploads: devices, many at a time. On the fiber of the call, as the module device. */
#ifndef DEVICE_ROWS_H
#define DEVICE_ROWS_H

#include "modules/device/record/device.h"

/* The service "bulk rows:Devices". */
extern const struct bb_bulk_rows device_rows;

/* Rows of a call with what was read of them. */
struct device_row {
    struct bb_bulk_row *row; /* without problems, or it is passed over */
    bool elsewhere;          /* it names another organisation than the upload's */
    struct device_record record;
};

/* Reads each row by the rules of a registration; what is wrong is its problems. -1:
 * `bb_failed(rq)`. */
int device_rows_read(struct bb_request *rq, const struct bb_bulk_job *job,
                     struct bb_bulk_row *const *rows, size_t count, struct device_row *read);

/* After so many rows of a call: now and then everybody else has a turn. */
void device_rows_pause(struct bb_request *rq, size_t done);

/* rows_store.c: as struct bb_bulk_rows has it. */
int device_rows_store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                      struct bb_bulk_row *const *rows, size_t count);

#endif
