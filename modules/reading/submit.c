/*
 * POST /api/meter-reads/new/:externalId
 *
 * What can be said without the device is said first: all mistakes of the body in one answer.
 */
#include "reading.h"

int reading_device(struct bb_request *rq, int64_t organisation, struct bb_device *device)
{
    const struct reading *reading = rq->state;

    *device = (struct bb_device){.size = sizeof(*device)};
    return reading->devices->find(reading->devices_state, rq, bb_segment(rq, "externalId"),
                                  organisation, device);
}

int reading_submit(struct bb_request *rq)
{
    struct reading_submission submission;
    int64_t organisation = bb_given_int(rq, "organizationId", 0);
    int refused = reading_read(rq, &submission);

    if (!refused)
        refused = reading_device(rq, organisation, &submission.device);
    if (!refused)
        refused = reading_place(rq, &submission);
    if (!refused)
        refused = reading_check(rq, &submission);
    return refused ? refused : reading_store(rq, &submission);
}
