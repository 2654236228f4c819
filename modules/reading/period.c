/*
 * Computes the instants of the dates that were sent. A Delta reading without a start begins at the
 * end of the previous reading, or at the commissioning of its device.
 */
#include <stdlib.h>

#include "modules/reading/reading.h"

#define AHEAD_MS INT64_C(300000) /* how far the clock of a sender may be ahead */

/* ---- each submission ---- */

static int period_by_end(const void *left, const void *right)
{
    const struct reading_item *a = left, *b = right;

    if (a->end == b->end)
        return (a->index > b->index) - (a->index < b->index);
    return a->end < b->end ? -1 : 1;
}

/*
 * Times without an offset are in the time zone that the request names, or else in UTC. The day of
 * the commissioning and the length of periods are in the request's zone, or else in the device's
 * zone, or else in UTC.
 */
int reading_date(struct bb_request *rq, struct reading_submission *submission)
{
    static const char missing[] = "is missing in the device: set it first, by PATCH";
    const struct reading *reading = rq->state;
    const struct bb_device *device = &submission->device;
    const char *zone = submission->named ? submission->named : device->timezone;
    struct bb_moment day = {.ms = 0};
    struct reading_item *items = submission->items;
    bool sorted = true;

    submission->zone = zone ? zones_find(&reading->zones, zone) : NULL;
    if (submission->named && !submission->zone)
        reading_problem(rq, submission, READING_WHOLE, "timezone",
                        "must be a time zone of the IANA list, such as Europe/Berlin");
    submission->dated = device->commissioned && bb_moment_parse(device->commissioned, &day) == 0;
    if (!(device->capacity_kw > 0))
        reading_problem(rq, submission, READING_WHOLE, "capacity", missing);
    if (!submission->dated)
        reading_problem(rq, submission, READING_WHOLE, "commissioningDate", missing);
    submission->commissioned = day.ms;
    submission->commissioned_local =
        submission->zone ? zone_instant(submission->zone, day.ms) : day.ms;
    if (reading_place_moments(rq, submission))
        return bb_failed(rq);
    for (size_t i = 1; i < submission->count; i++)
        sorted = sorted && period_by_end(&items[i - 1], &items[i]) < 0;
    if (!sorted)
        qsort(items, submission->count, sizeof(*items), period_by_end);
    return 0;
}

/* ---- starts ---- */

/* $1 devices, $2 ends */
static const struct bb_sql previous = {
    "SELECT " BB_SQL_MS("r.previous") " FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY"
                                      " AS p (device, ends, number) CROSS JOIN LATERAL"
                                      " reading_previous(p.device, ARRAY[p.ends]) r"
                                      " ORDER BY p.number",
    0};

/*
 * A Delta reading without a start begins at the end of the previous reading of any type, which is
 * stored or in the same request. The first reading of a device begins at the commissioning, or
 * READING_PERIOD_DAYS before its end if this is later. With an unknown end, no start is computed.
 */
static int period_find_starts(struct bb_request *rq, struct reading_submission *const *list,
                              size_t count)
{
    size_t all = 0, found = 0, row = 0;

    for (size_t i = 0; i < count; i++)
        all += list[i]->count;
    int64_t *devices = bb_alloc(rq, (all + 1) * sizeof(*devices));
    int64_t *ends = bb_alloc(rq, (all + 1) * sizeof(*ends));
    bool *sought = bb_alloc(rq, count * sizeof(*sought));

    for (size_t i = 0; i < count; i++) {
        sought[i] = list[i]->open && list[i]->dated;
        for (size_t j = 0; j < list[i]->count && sought[i]; j++)
            sought[i] = list[i]->items[j].ends;
        for (size_t j = 0; j < list[i]->count && sought[i]; j++) {
            devices[found] = list[i]->device.id;
            ends[found++] = list[i]->items[j].end;
        }
    }
    if (!found)
        return 0;
    const struct bb_rows *rows =
        bb_query(rq, &previous, BB_ARGS(bb_ints(devices, found), bb_ints(ends, found)));

    if (!rows)
        return bb_failed(rq);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < list[i]->count && sought[i]; j++, row++) {
            struct reading_item *item = &list[i]->items[j];
            bool stored = bb_cell(rq, rows, row, 0) != NULL;

            if (!item->open)
                continue;
            item->start = item->end - READING_PERIOD_DAYS * BB_DAY_MS;
            if (item->start < list[i]->commissioned_local)
                item->start = list[i]->commissioned_local;
            if (stored)
                item->start = bb_cell_int(rq, rows, row, 0);
            if (j && (!stored || item[-1].end > item->start))
                item->start = item[-1].end;
            item->begins = true;
        }
    return 0;
}

/* ---- checks ---- */

/*
 * Notes the mistakes of a period. A reading without a start begins at the commissioning or at the
 * end of the previous reading, so it may end before it begins, for example if a logger with a local
 * clock writes a row for an hour that a clock change skips.
 */
static void period_check(struct bb_request *rq, struct reading_submission *submission,
                         const struct reading_item *item, int64_t now)
{
    static const char before[] =
        "must be later than the end of the previous reading, at which this reading begins";
    const struct zone *zone = submission->zone;
    const char *commissioned = submission->device.commissioned;
    int64_t first = submission->commissioned < submission->commissioned_local
                        ? submission->commissioned
                        : submission->commissioned_local;
    size_t index = item->index;

    if (item->ends && item->end > now + AHEAD_MS)
        reading_problem(rq, submission, index, "endDate", "must not be in the future");
    if (item->begins && submission->dated && item->start < first)
        reading_problem(rq, submission, index, "startDate",
                        "must not be before the device's commissioning on %s", commissioned);
    if (!item->begins || !item->ends)
        return;
    if (item->start < item->end) {
        int64_t passed = item->end - item->start;
        int64_t shown = zone ? zone_local(zone, item->end) - zone_local(zone, item->start) : passed;

        /* compares the shorter of the elapsed time and the difference on the zone's clock */
        if ((shown < passed ? shown : passed) > READING_PERIOD_DAYS * BB_DAY_MS)
            reading_problem(rq, submission, index, "endDate",
                            "must be at most %d days after startDate", READING_PERIOD_DAYS);
    } else if (!item->open) {
        reading_problem(rq, submission, index, "endDate", "must be later than startDate");
    } else if (item->end <= submission->commissioned_local) {
        reading_problem(rq, submission, index, "endDate",
                        "must be later than the device's commissioning on %s", commissioned);
    } else if (zone && submission->named && item->sent_end.local &&
               zone_local(zone, item->end) - zone_local(zone, item->end - 1) > 1) {
        reading_problem(rq, submission, index, "endDate",
                        "%s; the clocks of %s are put forward then", before, submission->named);
    } else {
        reading_problem(rq, submission, index, "endDate", "%s", before);
    }
}

int reading_place(struct bb_request *rq, struct reading_submission *const *list, size_t count)
{
    int refused = period_find_starts(rq, list, count);
    int64_t now = bb_wall_ms(rq->host);

    for (size_t i = 0; i < count && !refused; i++)
        for (size_t j = 0; j < list[i]->count; j++)
            period_check(rq, list[i], &list[i]->items[j], now);
    return refused;
}
