/*
 * GET /api/bulk-upload/:bulkUploadId/failed.csv
 *
 * Sends the rows that failed or were cancelled as they were sent, with a column `errors` appended
 * (failed_rows.c), so that they can be corrected and sent again. The response is a stream of one
 * part's rows at a time, and holds a slot of its account.
 */
#include <stdlib.h>
#include <string.h>

#include "modules/bulk/job/bulk.h"
#include "modules/common/csv.h"
#include "modules/common/pieces.h"
#include "modules/common/slots.h"

#define READY_BYTES (256 * 1024) /* that may wait for the client */

struct failed {
    int64_t account; /* holds a slot for this account */
    char id[37];
    char separator[2];
    char *header;      /* JSON, from the job */
    int64_t cancelled; /* bulk_cancelled_behind() */
    int64_t behind;    /* the last row of the previous part */
};

static void drop(struct bb_host *host, void *arg)
{
    const struct bulk *bulk = host->state;
    struct failed *failed = arg;

    slot_release(bulk->streams, failed->account);
    free(failed->header);
    free(failed);
}

/* ---- sending parts ---- */

static enum pieces_next send_part(struct bb_request *rq, struct pieces *pieces, void *arg)
{
    struct failed *failed = arg;
    struct csv *csv = bb_alloc(rq, sizeof(*csv));

    bb_defer(rq, csv_drop, csv);
    json_t *header = bb_json_hold(rq, bb_json_read(rq, failed->header));

    csv->separator = failed->separator[0];
    int found = bulk_failed_part(rq, failed->id, header, failed->cancelled, &failed->behind, csv);

    if (found <= 0)
        return found ? PIECES_CUT : PIECES_WHOLE;
    return csv->failed || pieces_send(pieces, csv->bytes, csv->length) ? PIECES_CUT : PIECES_MORE;
}

/* ---- starting ---- */

/* Returns NULL if out of memory. */
static struct failed *new_failed(int64_t account, const struct bulk_job *job)
{
    struct failed *failed = calloc(1, sizeof(*failed));
    char *header = strdup(job->header);

    if (!failed || !header) {
        free(failed);
        free(header);
        return NULL;
    }
    failed->account = account;
    failed->header = header;
    failed->cancelled = bulk_cancelled_behind(job);
    memcpy(failed->id, job->id, sizeof(failed->id) - 1);
    failed->separator[0] = job->separator[0];
    return failed;
}

static int begin(struct bb_request *rq, struct failed *failed)
{
    static const struct pieces_source source = {.type = "text/csv; charset=utf-8",
                                                .name = "failed.csv",
                                                .ready = READY_BYTES,
                                                .work = send_part,
                                                .drop = drop};
    struct csv csv = {.separator = failed->separator[0]};
    json_t *header = bb_json_hold(rq, bb_json_read(rq, failed->header));

    bulk_failed_header(&csv, header, true);
    int status =
        pieces_begin(rq, &source, failed, header && !csv.failed ? csv.bytes : NULL, csv.length);

    csv_drop(&csv);
    return status;
}

int bulk_failed_csv(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    struct bulk_job job;
    int refused = bulk_job_find(rq, &job);

    if (!refused)
        refused = bulk_job_read_header(rq, &job);
    if (!refused)
        refused = slot_take(rq, bulk->streams);
    if (refused)
        return refused;
    struct failed *failed = new_failed(rq->principal->account, &job);

    if (failed)
        return begin(rq, failed);
    slot_release(bulk->streams, rq->principal->account);
    return bulk_reply(rq, 503, NULL);
}
