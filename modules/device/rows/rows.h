/*
 * Rows of bulk uploads: many devices at a time. Runs on the fiber of the call, with the state of
 * the device module.
 */
#ifndef DEVICE_ROWS_H
#define DEVICE_ROWS_H

#include "modules/device/record/device.h"

/* The service "bulk rows:Devices". */
extern const struct bb_bulk_rows device_rows;

/* A row of a call, together with the device read from it. */
struct device_row {
    struct bb_bulk_row *row; /* rows with problems are skipped */
    bool elsewhere;          /* names another organization than the upload does */
    struct device_record record;
};

/*
 * Reads each row by the rules of a registration and adds errors to the row's problems. Returns -1
 * on failure: `return bb_failed(rq)`.
 */
int device_rows_read(struct bb_request *rq, const struct bb_bulk_job *job,
                     struct bb_bulk_row *const *rows, size_t count, struct device_row *read);

/* Call after each `done` rows of a call: lets other fibers of the loop run now and then. */
void device_rows_pause(struct bb_request *rq, size_t done);

/* rows_store.c: see struct bb_bulk_rows. */
int device_rows_store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                      struct bb_bulk_row *const *rows, size_t count);

#endif
