/* Rows of many devices share their statements. */
#include <string.h>

#include "modules/reading/rows/rows.h"

/* Submissions of different devices that share their statements, sorted by device id. */
struct crowd {
    struct reading_submission **list;
    struct one **ones;
    size_t count;
};

/*
 * Concludes the submissions from index `first` up to one that must be checked again, and stores
 * them. *count is the number of submissions concluded.
 */
static int conclude_some(struct bb_request *rq, struct call *call, struct crowd *crowd,
                         size_t first, size_t *count)
{
    size_t stored = 0;

    for (*count = 0; first + *count < crowd->count; ++*count) {
        struct reading_submission *one = crowd->list[first + *count];

        if (one->open && reading_wrong(one))
            break;
        if (rows_conclude(rq, call, one, crowd->ones[first + *count]))
            return -1;
        if (one->count)
            crowd->list[first + stored++] = one;
    }
    return call->tx && stored
               ? reading_add_many(rq, call->tx, crowd->list + first, stored, bb_wall_ms(rq->host))
               : 0;
}

/*
 * If a mistake may change where Delta readings without a start begin, the rows of the device are
 * checked separately, in their turn, because locks are taken in the order of ids.
 */
static int conclude_all(struct bb_request *rq, struct call *call, struct crowd *crowd)
{
    for (size_t at = 0, count; at < crowd->count; at += count + 1) {
        if (conclude_some(rq, call, crowd, at, &count))
            return -1;
        if (at + count < crowd->count &&
            rows_of_device(rq, call, crowd->ones[at + count], crowd->list[at + count]->count))
            return -1;
    }
    return 0;
}

static int finish_crowd(struct bb_request *rq, struct call *call, struct crowd *crowd)
{
    if (!crowd->count)
        return 0;
    if (reading_place_dated(rq, crowd->list, crowd->count))
        return -1;
    for (size_t i = 0; i < crowd->count; i++)
        reading_check(rq, crowd->list[i]);
    if (reading_find_all_overlaps(rq, crowd->list, crowd->count))
        return -1;
    for (size_t i = 0; i < crowd->count; i++)
        reading_check_rows(rq, crowd->list[i]);
    if (conclude_all(rq, call, crowd))
        return -1;
    crowd->count = 0;
    return 0;
}

/*
 * Adds the rows of a device and time zone. If the crowd already has the device, they are handled
 * separately.
 */
static int take_group(struct bb_request *rq, struct call *call, struct crowd *crowd,
                      struct one *ones, size_t count)
{
    struct reading_submission *submission = bb_alloc(rq, sizeof(*submission));
    int64_t last = crowd->count ? crowd->list[crowd->count - 1]->device.id : -1;

    if (rows_read(rq, call, submission, ones, count)) {
        bb_fail(rq, 503, "Out of memory");
        return -1;
    }
    if (!submission->count)
        return 0;
    if (last == submission->device.id)
        return finish_crowd(rq, call, crowd) ? -1
                                             : rows_of_device(rq, call, ones, submission->count);
    if (reading_date(rq, submission))
        return -1;
    crowd->list[crowd->count] = submission;
    crowd->ones[crowd->count++] = ones;
    return 0;
}

int rows_of_devices(struct bb_request *rq, struct call *call)
{
    struct crowd crowd = {
        .list = bb_alloc(rq, (call->count + 1) * sizeof(struct reading_submission *)),
        .ones = bb_alloc(rq, (call->count + 1) * sizeof(struct one *)),
    };

    for (size_t from = 0, to; from < call->count; from = to) {
        for (to = from + 1; to < call->count && rows_together(&call->list[from], &call->list[to]);)
            to++;
        if (take_group(rq, call, &crowd, &call->list[from], to - from))
            return -1;
    }
    return finish_crowd(rq, call, &crowd);
}
