/* Checks the ceiling, and overlaps within a request. */
#include "modules/reading/base/reading.h"

/* Formats a number as people write it: whole numbers of up to 15 digits without an exponent. */
#define NUMBER "%.15g"

bool reading_placed(const struct reading_item *item)
{
    return item->begins && item->ends && item->start < item->end;
}

static void over_ceiling(struct bb_request *rq, struct reading_submission *submission,
                         const struct reading_item *item, double ceiling)
{
    const struct bb_device *device = &submission->device;

    reading_clash(rq, submission, READING_OVER, item->index,
                  NUMBER " Wh is more than the plausible ceiling of " NUMBER " Wh: capacity " NUMBER
                         " kW, " NUMBER " hours, yield " NUMBER " kWh/kW a year",
                  item->wh, ceiling, device->capacity_kw,
                  (double)(item->end - item->start) / 3600000, device->yield);
}

static void check_ceilings(struct bb_request *rq, struct reading_submission *submission)
{
    const struct reading *reading = rq->state;
    struct ceiling_device device = {submission->device.capacity_kw, submission->device.yield,
                                    submission->commissioned};

    if (!submission->dated || !(device.capacity_kw > 0))
        return;
    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];

        if (!reading_placed(item) || !item->measured)
            continue;
        double ceiling = ceiling_wh(&reading->settings->rule, &device, item->start, item->end);

        if (item->wh > ceiling)
            over_ceiling(rq, submission, item, ceiling);
    }
    size_t over = submission->mistakes[READING_OVER];

    if (!over || submission->numbers) /* rows.c counts the rows that it removes */
        return;
    bb_metric_add(rq->host, READING_OVER_CEILING, 0, over);
    bb_log(rq, BB_INFO, "%zu readings of device %lld were refused: above the ceiling", over,
           (long long)submission->device.id);
}

/*
 * The readings are sorted by end, so a reading that overlaps any earlier one overlaps the previous
 * one.
 */
static void check_overlaps(struct bb_request *rq, struct reading_submission *submission)
{
    const struct reading_item *before = NULL;

    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];

        if (!reading_placed(item))
            continue;
        if (before && item->start < before->end)
            reading_clash(rq, submission, READING_OVERLAP, item->index, "overlaps reads[%zu]",
                          before->index);
        before = item;
    }
}

void reading_check(struct bb_request *rq, struct reading_submission *submission)
{
    check_ceilings(rq, submission);
    if (!submission->numbers)
        check_overlaps(rq, submission);
}
