/* Calls a type's functions with the state of the module that provides them. */
#include "modules/bulk/job/bulk.h"

struct call {
    const struct bulk_type *type;
    struct bb_bulk_row **rows;
    size_t count;
    struct bb_bulk_job job;
    struct bb_tx *tx;
};

static int call(struct bb_request *rq, void *arg)
{
    struct call *called = arg;
    const struct bb_bulk_rows *rows = called->type->rows;

    if (called->tx)
        return rows->store(rq, called->tx, &called->job, called->rows, called->count);
    return rows->check(rq, &called->job, called->rows, called->count);
}

int bulk_call(struct bb_request *rq, struct bb_tx *tx, const struct bulk_batch *batch,
              const struct bulk_job *job)
{
    struct call called = {.type = batch->type, .job = bulk_job_public(job), .tx = tx};
    struct bb_bulk_row **whole = bb_alloc(rq, (batch->count + 1) * sizeof(struct bb_bulk_row *));
    size_t count = 0, most = batch->type->rows_max;

    for (size_t i = 0; i < batch->count; i++)
        if (!batch->rows[i]->problems)
            whole[count++] = batch->rows[i];
    for (size_t from = 0; from < count; from += most) {
        called.rows = whole + from;
        called.count = count - from < most ? count - from : most;
        if (bb_call_as(rq, batch->type->host, call, &called))
            return -1;
    }
    return 0;
}
