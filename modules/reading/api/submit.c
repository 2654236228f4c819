/*
 * POST /api/meter-reads/new/:externalId
 *
 * All mistakes of all readings are collected before the response is sent.
 */
#include "modules/reading/base/reading.h"

int reading_device(struct bb_request *rq, int64_t organization, struct bb_device *device)
{
    const struct reading *reading = rq->state;

    *device = (struct bb_device){.size = sizeof(*device)};
    return reading->devices->find(reading->devices_state, rq, bb_segment(rq, "externalId"),
                                  organization, device);
}

/*
 * Overlaps with stored readings are usually found while storing. Since nothing is stored after a
 * mistake, they are searched here.
 */
static int refuse(struct bb_request *rq, struct reading_submission *submission)
{
    int failed = reading_find_overlaps(rq, submission);

    return failed ? failed : reading_refuse(rq, submission);
}

int reading_submit(struct bb_request *rq)
{
    struct reading_submission submission;

    reading_read(rq, &submission);
    int refused = reading_device(rq, bb_given_int(rq, "organizationId", 0), &submission.device);

    if (!refused)
        refused = reading_place(rq, &submission);
    if (refused)
        return refused;
    reading_check(rq, &submission);
    return reading_wrong(&submission) ? refuse(rq, &submission) : reading_store(rq, &submission);
}
