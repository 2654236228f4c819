/*
 * A batch of a confirmed job, in a transaction of its own: see run.c.
 */
#ifndef BULK_RUN_H
#define BULK_RUN_H

#include "modules/bulk/job/bulk.h"

enum { ID_SIZE = 37 };

/* A turn of the job bulk.run. */
struct bulk_turn {
    const char *types;     /* JSON array of those that are loaded */
    bool small;            /* the batch is: others wait for answers */
    bool idle;             /* no job could be had */
    char id[ID_SIZE];      /* of the batch's job; empty: none */
    size_t count;          /* rows of the batch */
    bool narrowed;         /* it was one of those in which a refused row is looked for */
    int64_t last;          /* its last row */
    int64_t tried;         /* the row of a batch of one; 0: it has more */
    char refused[ID_SIZE]; /* the job of a row that the database refuses */
    int64_t refused_row;
    char sqlstate[8]; /* why the batch failed */
    bool written;     /* the batch was; what fails then is the commit, and what runs before it */
    bool lapsed; /* its sender lost the right to it meanwhile: nothing of the batch is stored */
    char permitted[ID_SIZE]; /* the job whose sender was asked for last, */
    int64_t permitted_ms;    /* and when */
};

/* permit.c: whether the sender of a job may still store its rows, as the accounts are now: 1; 0
 * with *reason; -1: `bb_failed(rq)`. */
int bulk_permitted(struct bb_request *rq, const struct bulk_job *job, const struct bulk_type *type,
                   const char **reason);

/* store.c: one batch of the job whose turn it is, as bb_transaction() calls it. */
int bulk_store_batch(struct bb_request *rq, struct bb_tx *tx, void *turn);
/* Keeps why the last statement or commit failed. */
void bulk_note_why(struct bb_request *rq, struct bulk_turn *turn);

#endif
