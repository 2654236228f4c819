/* Stores one batch of a confirmed job in a separate transaction; see run.c. */
#ifndef BULK_RUN_H
#define BULK_RUN_H

#include "modules/bulk/job/bulk.h"

enum { ID_SIZE = 37 };

/* One run of the job bulk.run. */
struct bulk_turn {
    const char *types;     /* JSON array of the loaded types */
    bool small;            /* small batches, because requests are waiting */
    bool idle;             /* there was no job to run */
    char id[ID_SIZE];      /* job of the batch; empty: none */
    size_t count;          /* rows of the batch */
    bool narrowed;         /* the batch was smaller because a refused row is searched */
    int64_t last;          /* last row of the batch */
    int64_t tried;         /* row of a batch with one row; 0: it had more */
    char refused[ID_SIZE]; /* job of a row that the database refuses */
    int64_t refused_row;
    char sqlstate[8]; /* why the batch failed */
    bool written; /* the batch was written; a later failure is due to the commit or its checks */
    bool lapsed;  /* the sender lost permission meanwhile: nothing of the batch is stored */
    char permitted[ID_SIZE]; /* the job whose sender was last checked, */
    int64_t permitted_ms;    /* and when */
};

/*
 * Checks whether the sender of a job may store its rows now; the sender may have been suspended, or
 * may have lost the role or organization. Returns 1; 0 with *reason; or -1: `bb_failed(rq)`.
 */
int bulk_permitted(struct bb_request *rq, const struct bulk_job *job, const struct bulk_type *type,
                   const char **reason);

/* store.c: stores one batch of the next job; a callback of bb_transaction(). */
int bulk_store_batch(struct bb_request *rq, struct bb_tx *tx, void *turn);
/* Records why the last statement or commit failed. */
void bulk_note_why(struct bb_request *rq, struct bulk_turn *turn);

#endif
