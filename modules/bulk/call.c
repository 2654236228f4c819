/* Calls of the functions that a type gives, as the module that gives it. */
#include "bulk.h"

struct call {
    const struct bulk_batch *batch;
    struct bb_bulk_job job;
    struct bb_tx *tx;
};

static int call(struct bb_request *rq, void *arg)
{
    struct call *called = arg;
    const struct bulk_batch *batch = called->batch;
    const struct bb_bulk_rows *rows = batch->type->rows;

    struct bb_bulk_row **whole = bb_alloc(rq, (batch->count + 1) * sizeof(struct bb_bulk_row *));
    size_t count = 0;

    for (size_t i = 0; i < batch->count; i++)
        if (!batch->rows[i]->problems)
            whole[count++] = batch->rows[i];
    if (!count)
        return 0;
    if (called->tx)
        return rows->store(rq, called->tx, &called->job, whole, count);
    return rows->check(rq, &called->job, whole, count);
}

int bulk_call(struct bb_request *rq, struct bb_tx *tx, const struct bulk_batch *batch,
              const struct bulk_job *job)
{
    struct call called = {.batch = batch, .job = bulk_face(job), .tx = tx};

    return bb_call_as(rq, batch->type->host, call, &called);
}
