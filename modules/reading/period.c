/* From dates as they were sent to instants: time zones, commissioning, Delta without a start. */
#include <stdlib.h>

#include "reading.h"

#define AHEAD_MS INT64_C(300000) /* by how much the clock of a sender may be fast */

/* That of the request, in which its dates without an offset are local; else the device's. */
static int find_zone(struct bb_request *rq, struct reading_submission *submission)
{
    const char *name = submission->named ? submission->named : submission->device.timezone;

    if (!name)
        return 0;
    if (zones_get(rq, name, &submission->zone))
        return bb_failed(rq);
    submission->misnamed = submission->named && !submission->zone;
    if (submission->misnamed)
        reading_problem(rq, submission, READING_WHOLE, "timezone",
                        "must be a time zone of the IANA list, as Europe/Berlin");
    return 0;
}

/* A device is commissioned on a day; until we know better, at the day's beginning in UTC. */
static void read_commissioning(struct bb_request *rq, struct reading_submission *submission)
{
    const struct bb_device *device = &submission->device;
    struct moment day = {.ms = 0};
    bool dated = device->commissioned && moment_parse(device->commissioned, &day) == 0;

    if (!(device->capacity_kw > 0))
        reading_problem(rq, submission, READING_WHOLE, "capacity",
                        "the device has none yet: set it first, by PATCH");
    if (!dated)
        reading_problem(rq, submission, READING_WHOLE, "commissioningDate",
                        "the device has none yet: set it first, by PATCH");
    submission->dated = dated;
    submission->commissioned = day.ms;
    submission->commissioned_local =
        submission->zone ? zone_instant(submission->zone, day.ms) : day.ms;
}

/* Dates without an offset are UTC, unless the request names a time zone. False: it is not known. */
static bool instant(const struct reading_submission *submission, bool has,
                    const struct moment *moment, int64_t *at)
{
    if (!has || (moment->local && submission->misnamed))
        return false;
    *at = moment->local && submission->named ? zone_instant(submission->zone, moment->ms)
                                             : moment->ms;
    return true;
}

static int by_end(const void *left, const void *right)
{
    const struct reading_item *a = left, *b = right;

    if (a->end == b->end)
        return (a->index > b->index) - (a->index < b->index);
    return a->end < b->end ? -1 : 1;
}

static void sort(struct reading_submission *submission)
{
    struct reading_item *items = submission->items;

    for (size_t i = 1; i < submission->count; i++)
        if (by_end(&items[i - 1], &items[i]) > 0) {
            qsort(items, submission->count, sizeof(*items), by_end);
            return;
        }
}

static const struct bb_sql previous = {
    "SELECT " READING_MS("previous") " FROM reading_previous($1::bigint, $2::bigint[])", 0};

/* Where the first reading of a device begins if it does not say so. */
static int64_t earliest(const struct reading_submission *submission, int64_t end)
{
    int64_t bound = end - READING_PERIOD_DAYS * MOMENT_DAY_MS;

    return bound > submission->commissioned_local ? bound : submission->commissioned_local;
}

/*
 * A Delta reading without a start begins where the one before it ends, stored or sent, of whatever
 * type. Where an end is not known, nothing is concluded from the others.
 */
static int fill_starts(struct bb_request *rq, struct reading_submission *submission)
{
    int64_t *ends = bb_alloc(rq, submission->count * sizeof(*ends));
    struct reading_item *items = submission->items;

    for (size_t i = 0; i < submission->count; i++) {
        if (!items[i].ends || !submission->dated)
            return 0;
        ends[i] = items[i].end;
    }
    const struct bb_rows *rows = bb_query(
        rq, &previous, BB_ARGS(bb_i(submission->device.id), bb_ints(ends, submission->count)));

    if (!rows)
        return bb_failed(rq);
    for (size_t i = 0; i < submission->count; i++) {
        if (!items[i].open)
            continue;
        bool stored = bb_cell(rq, rows, i, 0) != NULL;

        items[i].start = stored ? bb_cell_int(rq, rows, i, 0) : earliest(submission, items[i].end);
        if (i && (!stored || items[i - 1].end > items[i].start))
            items[i].start = items[i - 1].end;
        items[i].begins = true;
    }
    return 0;
}

/* In ms: as time passes, or by the clock of the time zone where that shows less. */
static int64_t length(const struct reading_submission *submission, const struct reading_item *item)
{
    int64_t passed = item->end - item->start;

    if (!submission->zone)
        return passed;
    int64_t shown =
        zone_local(submission->zone, item->end) - zone_local(submission->zone, item->start);

    return shown < passed ? shown : passed;
}

static void check_period(struct bb_request *rq, struct reading_submission *submission,
                         const struct reading_item *item, int64_t now)
{
    int64_t first = submission->commissioned < submission->commissioned_local
                        ? submission->commissioned
                        : submission->commissioned_local;

    if (item->ends && item->end > now + AHEAD_MS)
        reading_problem(rq, submission, item->index, "endDate", "must not be in the future");
    if (item->begins && submission->dated && item->start < first)
        reading_problem(rq, submission, item->index, "startDate",
                        "must not be before the device's commissioning on %s",
                        submission->device.commissioned);
    if (!item->begins || !item->ends)
        return;
    if (item->start >= item->end)
        reading_problem(rq, submission, item->index, "endDate", "must be later than startDate");
    else if (length(submission, item) > READING_PERIOD_DAYS * MOMENT_DAY_MS)
        reading_problem(rq, submission, item->index, "endDate", "must be at most %d days later",
                        READING_PERIOD_DAYS);
}

int reading_place(struct bb_request *rq, struct reading_submission *submission)
{
    struct reading_item *items = submission->items;
    int refused = find_zone(rq, submission);

    if (refused)
        return refused;
    read_commissioning(rq, submission);
    for (size_t i = 0; i < submission->count; i++) {
        struct reading_item *item = &items[i];

        item->ends = instant(submission, item->has_end, &item->sent_end, &item->end);
        item->begins = instant(submission, item->has_start, &item->sent_start, &item->start);
    }
    sort(submission);
    if (submission->open)
        refused = fill_starts(rq, submission);
    if (refused)
        return refused;
    int64_t now = bb_wall_ms(rq->host);

    for (size_t i = 0; i < submission->count; i++)
        check_period(rq, submission, &items[i], now);
    return 0;
}
