/*
 * Turns dates as they were sent into instants: time zones, commissioning, Delta readings without a
 * start.
 */
#include <stdlib.h>

#include "modules/reading/base/reading.h"

#define AHEAD_MS INT64_C(300000) /* how much a sender's clock may be fast */

/* Finds the request's zone, in which dates without an offset are local; else the device's. */
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

/* A device is commissioned on a day. Until the zone is known, that day begins at 00:00 UTC. */
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

/* $1 devices, $2 ends */
static const struct bb_sql previous = {
    "SELECT " READING_MS("r.previous") " FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY"
                                       " AS p (device, ends, number) CROSS JOIN LATERAL"
                                       " reading_previous(p.device, ARRAY[p.ends]) r"
                                       " ORDER BY p.number",
    0};

/* Returns where the first reading of a device begins if it does not say so. */
static int64_t earliest(const struct reading_submission *submission, int64_t end)
{
    int64_t bound = end - READING_PERIOD_DAYS * MOMENT_DAY_MS;

    return bound > submission->commissioned_local ? bound : submission->commissioned_local;
}

/* Returns false if an end is unknown, because then nothing can be concluded about the starts. */
static bool has_open(const struct reading_submission *submission)
{
    for (size_t i = 0; i < submission->count; i++)
        if (!submission->items[i].ends)
            return false;
    return submission->open && submission->dated;
}

/*
 * A Delta reading without a start begins at the end of the previous reading, stored or sent, of any
 * type. The ends of stored readings are in the rows from `row` on.
 */
static void fill_starts(struct bb_request *rq, struct reading_submission *submission,
                        const struct bb_rows *rows, size_t row)
{
    struct reading_item *items = submission->items;

    for (size_t i = 0; i < submission->count; i++, row++) {
        if (!items[i].open)
            continue;
        bool stored = bb_cell(rq, rows, row, 0) != NULL;

        items[i].start =
            stored ? bb_cell_int(rq, rows, row, 0) : earliest(submission, items[i].end);
        if (i && (!stored || items[i - 1].end > items[i].start))
            items[i].start = items[i - 1].end;
        items[i].begins = true;
    }
}

static int find_starts(struct bb_request *rq, struct reading_submission *const *list, size_t count)
{
    size_t all = 0, row = 0;

    for (size_t i = 0; i < count; i++)
        all += has_open(list[i]) ? list[i]->count : 0;
    if (!all)
        return 0;
    int64_t *devices = bb_alloc(rq, all * sizeof(*devices));
    int64_t *ends = bb_alloc(rq, all * sizeof(*ends));

    all = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; has_open(list[i]) && j < list[i]->count; j++) {
            devices[all] = list[i]->device.id;
            ends[all++] = list[i]->items[j].end;
        }
    const struct bb_rows *rows =
        bb_query(rq, &previous, BB_ARGS(bb_ints(devices, all), bb_ints(ends, all)));

    if (!rows)
        return bb_failed(rq);
    for (size_t i = 0; i < count; i++)
        if (has_open(list[i])) {
            fill_starts(rq, list[i], rows, row);
            row += list[i]->count;
        }
    return 0;
}

/*
 * Returns the length in ms: the elapsed time, or the difference on the zone's clock if that is
 * less.
 */
static int64_t length(const struct reading_submission *submission, const struct reading_item *item)
{
    int64_t passed = item->end - item->start;

    if (!submission->zone)
        return passed;
    int64_t shown =
        zone_local(submission->zone, item->end) - zone_local(submission->zone, item->start);

    return shown < passed ? shown : passed;
}

/*
 * Notes that a reading without a start ends where it begins, or earlier: at the commissioning, or
 * where the reading before it ends. A logger with a local clock may write a row for the hour that a
 * clock change skips.
 */
static void note_end(struct bb_request *rq, struct reading_submission *submission,
                     const struct reading_item *item)
{
    static const char problem[] =
        "must be later than the end of the reading before it, with which it begins";
    bool forward =
        submission->zone && submission->named && item->sent_end.local &&
        zone_local(submission->zone, item->end) - zone_local(submission->zone, item->end - 1) > 1;

    if (item->end <= submission->commissioned_local)
        reading_problem(rq, submission, item->index, "endDate",
                        "must be later than the device's commissioning on %s",
                        submission->device.commissioned);
    else if (forward)
        reading_problem(rq, submission, item->index, "endDate",
                        "%s; the clocks of %s are put forward then", problem, submission->named);
    else
        reading_problem(rq, submission, item->index, "endDate", "%s", problem);
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
    if (item->start >= item->end && item->open)
        note_end(rq, submission, item);
    else if (item->start >= item->end)
        reading_problem(rq, submission, item->index, "endDate", "must be later than startDate");
    else if (length(submission, item) > READING_PERIOD_DAYS * MOMENT_DAY_MS)
        reading_problem(rq, submission, item->index, "endDate", "must be at most %d days later",
                        READING_PERIOD_DAYS);
}

int reading_date(struct bb_request *rq, struct reading_submission *submission)
{
    int refused = find_zone(rq, submission);

    if (refused)
        return refused;
    read_commissioning(rq, submission);
    if (reading_place_moments(rq, submission))
        return bb_failed(rq);
    sort(submission);
    return 0;
}

int reading_place_dated(struct bb_request *rq, struct reading_submission *const *list, size_t count)
{
    int refused = find_starts(rq, list, count);
    int64_t now = bb_wall_ms(rq->host);

    for (size_t i = 0; i < count && !refused; i++)
        for (size_t j = 0; j < list[i]->count; j++)
            check_period(rq, list[i], &list[i]->items[j], now);
    return refused;
}

int reading_place(struct bb_request *rq, struct reading_submission *submission)
{
    int refused = reading_date(rq, submission);

    return refused ? refused : reading_place_dated(rq, &submission, 1);
}
