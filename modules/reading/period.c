/* From dates as they were sent to instants: time zones, commissioning, Delta without a start. */
#include <stdlib.h>

#include "reading.h"

static int find_zone(struct bb_request *rq, struct reading_submission *submission)
{
    const char *name = submission->named ? submission->named : submission->device.timezone;

    if (!name)
        return 0;
    if (zones_get(rq, name, &submission->zone))
        return bb_failed(rq);
    if (!submission->zone)
        return bb_invalid(rq, "timezone",
                          "must be a time zone of the IANA list, as Europe/Berlin%s",
                          submission->named ? "" : "; the device has another: set it, by PATCH");
    return 0;
}

/* A device is commissioned on a day; until we know better, at the day's beginning in UTC. */
static int read_commissioning(struct bb_request *rq, struct reading_submission *submission)
{
    const struct bb_device *device = &submission->device;
    struct moment day;

    if (!(device->capacity_kw > 0))
        return bb_invalid(rq, "capacity", "the device has none yet: set it first, by PATCH");
    if (!device->commissioned || moment_parse(device->commissioned, &day))
        return bb_invalid(rq, "commissioningDate",
                          "the device has none yet: set it first, by PATCH");
    submission->commissioned = day.ms;
    submission->commissioned_local =
        submission->zone ? zone_instant(submission->zone, day.ms) : day.ms;
    return 0;
}

static int64_t instant(struct reading_submission *submission, const struct moment *moment,
                       const char *name, size_t index)
{
    if (!moment->local)
        return moment->ms;
    if (submission->zone)
        return zone_instant(submission->zone, moment->ms);
    if (!moment->date)
        reading_problem(submission, index, name, "needs an offset or Z, or a timezone beside it");
    return moment->ms;
}

static int by_type_and_end(const void *left, const void *right)
{
    const struct reading_item *a = left, *b = right;

    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static void sort(struct reading_submission *submission)
{
    struct reading_item *items = submission->items;

    for (size_t i = 1; i < submission->count; i++)
        if (by_type_and_end(&items[i - 1], &items[i]) > 0) {
            qsort(items, submission->count, sizeof(*items), by_type_and_end);
            return;
        }
}

static const struct bb_sql previous = {
    "SELECT " READING_MS("previous") " FROM reading_previous($1::bigint, $2::bigint[])", 0};

/* A Delta reading without a start begins where the one before it ends, stored or sent. */
static int fill_starts(struct bb_request *rq, struct reading_submission *submission)
{
    int64_t *ends = bb_alloc(rq, submission->count * sizeof(*ends));
    struct reading_item *items = submission->items;

    for (size_t i = 0; i < submission->count; i++)
        ends[i] = items[i].end;
    const struct bb_rows *rows = bb_query(
        rq, &previous, BB_ARGS(bb_i(submission->device.id), bb_ints(ends, submission->count)));

    if (!rows)
        return bb_failed(rq);
    for (size_t i = 0; i < submission->count; i++) {
        if (items[i].has_start)
            continue;
        bool stored = bb_cell(rq, rows, i, 0) != NULL;

        items[i].start = stored ? bb_cell_int(rq, rows, i, 0) : submission->commissioned_local;
        if (i && items[i - 1].type == 'D' && items[i - 1].end > items[i].start)
            items[i].start = items[i - 1].end;
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

static void check_period(struct reading_submission *submission, const struct reading_item *item,
                         int64_t now)
{
    int64_t earliest = submission->commissioned < submission->commissioned_local
                           ? submission->commissioned
                           : submission->commissioned_local;

    if (item->start >= item->end)
        reading_problem(submission, item->index, "endDate", "must be later than startDate");
    else if (item->end > now)
        reading_problem(submission, item->index, "endDate", "must not be in the future");
    else if (item->start < earliest)
        reading_problem(submission, item->index, "startDate",
                        "must not be before the device's commissioning on %s",
                        submission->device.commissioned);
    else if (length(submission, item) > READING_PERIOD_DAYS * MOMENT_DAY_MS)
        reading_problem(submission, item->index, "endDate", "must be at most %d days later",
                        READING_PERIOD_DAYS);
}

int reading_place(struct bb_request *rq, struct reading_submission *submission)
{
    struct reading_item *items = submission->items;
    int refused = find_zone(rq, submission);

    if (!refused)
        refused = read_commissioning(rq, submission);
    if (refused)
        return refused;
    for (size_t i = 0; i < submission->count; i++) {
        items[i].end = instant(submission, &items[i].sent_end, "endDate", items[i].index);
        if (items[i].has_start)
            items[i].start = instant(submission, &items[i].sent_start, "startDate", items[i].index);
    }
    sort(submission);
    if (submission->open)
        refused = fill_starts(rq, submission);
    if (refused)
        return refused;
    int64_t now = bb_wall_ms(rq->host);

    for (size_t i = 0; i < submission->count; i++)
        check_period(submission, &items[i], now);
    return reading_problems(submission) ? reading_refuse(rq, submission) : 0;
}
