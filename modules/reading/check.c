/* The ceiling, and readings of one request that overlap. */
#include "reading.h"

static const char *const ceiling_hint =
    "Check the capacity of the device, which is in kW, the dates, and the unit of the value";
static const char *const overlap_hint = "Periods of one type may touch, but not overlap";

/* A number as people write it: whole ones without an exponent up to 15 digits. */
#define NUMBER "%.15g"

static void over_ceiling(struct reading_submission *submission, const struct reading_item *item,
                         double ceiling)
{
    const struct bb_device *device = &submission->device;

    reading_problem(submission, item->index, NULL,
                    NUMBER " Wh is more than the plausible ceiling of " NUMBER
                           " Wh: capacity " NUMBER " kW, " NUMBER " hours, yield " NUMBER
                           " kWh/kW a year",
                    item->wh, ceiling, device->capacity_kw,
                    (double)(item->end - item->start) / 3600000, device->yield);
}

static int check_ceilings(struct bb_request *rq, struct reading_submission *submission)
{
    const struct reading *reading = rq->state;
    struct ceiling_device device = {submission->device.capacity_kw, submission->device.yield,
                                    submission->commissioned};

    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];
        double ceiling = ceiling_wh(&reading->rule, &device, item->start, item->end);

        if (item->wh > ceiling)
            over_ceiling(submission, item, ceiling);
    }
    if (!reading_problems(submission))
        return 0;
    bb_metric_add(rq->host, READING_OVER_CEILING, 0, reading_problems(submission));
    bb_log(rq, BB_INFO, "%zu readings of device %lld were refused: above the ceiling",
           reading_problems(submission), (long long)submission->device.id);
    return reading_conflict(rq, submission, ceiling_hint);
}

/* In the order by end, whatever overlaps any reading before it overlaps the one before it. */
static int check_overlaps(struct bb_request *rq, struct reading_submission *submission)
{
    const struct reading_item *items = submission->items;

    for (size_t i = 1; i < submission->count; i++)
        if (items[i].type == items[i - 1].type && items[i].start < items[i - 1].end)
            reading_problem(submission, items[i].index, NULL, "overlaps reads[%zu]",
                            items[i - 1].index);
    return reading_problems(submission) ? reading_conflict(rq, submission, overlap_hint) : 0;
}

int reading_check(struct bb_request *rq, struct reading_submission *submission)
{
    int refused = check_ceilings(rq, submission);

    return refused ? refused : check_overlaps(rq, submission);
}
