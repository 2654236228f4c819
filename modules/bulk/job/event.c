/* The event bulk.finished. */
#include <busbar/event.h>

#include "modules/bulk/job/bulk.h"

int bulk_emit_finished(struct bb_request *rq, struct bb_tx *tx, const struct bulk_job *job,
                       const char *status)
{
    struct bb_audience audience = {.size = sizeof(audience), .organisation = job->organisation};
    json_t *payload = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "bulkUploadId", job->id, "type", job->type,
        "fileName", job->file, "status", status, "organizationId", (json_int_t)job->organisation,
        "rows", (json_int_t)job->rows, "succeeded", (json_int_t)job->succeeded, "failed",
        (json_int_t)job->failed, "cancelled", (json_int_t)(job->rows - bulk_done(job)));

    return bb_emit(rq, tx, "bulk.finished", payload, &audience);
}
