/*
 * Finds readings that exceed the ceiling, or overlap readings of the same request, other rows of a
 * bulk upload, or stored readings of any type.
 */
#include <inttypes.h>
#include <math.h>

#include "modules/reading/reading.h"

/* Formats a number as people write it: whole numbers of up to 15 digits without an exponent. */
#define FIGURE "%.15g"

/* Readings are sorted by end, so it suffices to compare each reading with the previous one. */
void reading_check(struct bb_request *rq, struct reading_submission *submission)
{
    const struct reading *reading = rq->state;
    const struct bb_device *own = &submission->device;
    struct ceiling_device device = {own->capacity_kw, own->yield, submission->commissioned};
    const struct reading_item *before = NULL;

    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];

        if (!reading_placed(item))
            continue;
        int64_t ms = item->end - item->start;
        double ceiling = submission->dated && device.capacity_kw > 0 && item->measured
                             ? ceiling_wh(&reading->settings->rule, &device, item->start, item->end)
                             : INFINITY;

        if (item->measured && item->wh > ceiling)
            reading_note(rq, submission, READING_OVER, item->index, NULL,
                         FIGURE " Wh is more than the plausible ceiling of " FIGURE
                                " Wh: capacity " FIGURE " kW, " FIGURE " %s, yield " FIGURE
                                " kWh/kW a year",
                         item->wh, ceiling, own->capacity_kw, (double)ms / 3600000,
                         ms == 3600000 ? "hour" : "hours", own->yield);
        if (before && item->start < before->end && !submission->numbers)
            reading_note(rq, submission, READING_OVERLAP, item->index, NULL, "overlaps reads[%zu]",
                         before->index);
        before = item;
    }
    size_t over = submission->mistakes[READING_OVER];

    if (!over || submission->numbers) /* rows.c counts the rows that it removes */
        return;
    bb_metric_add(rq->host, READING_OVER_CEILING, 0, over);
    bb_log(rq, BB_INFO, "%zu readings of device %lld were refused: above the ceiling", over,
           (long long)own->id);
}

/* ---- rows of a bulk upload ---- */

/* Accepted readings do not overlap, so a row is compared only with its accepted neighbors. */
void reading_check_rows(struct bb_request *rq, struct reading_submission *submission)
{
    const struct reading_item *items = submission->items;
    size_t count = submission->count;

    if (submission->notes[count])
        return;
    /* the position in `items` of each row, by the row's index */
    size_t *places = bb_alloc(rq, count * sizeof(*places));
    bool *taken = bb_alloc(rq, count * sizeof(*taken)); /* whether each of `items` is accepted */
    size_t end = 0; /* the position after the last accepted item */

    for (size_t i = 0; i < count; i++)
        places[items[i].index] = i;
    for (size_t index = 0; index < count; index++) {
        size_t place = places[index], before = place, behind = place + 1;
        const struct reading_item *item = &items[place], *other = NULL;

        if (!reading_placed(item) || submission->notes[index])
            continue;
        while (before > 0 && !taken[before - 1])
            before--;
        while (behind < end && !taken[behind])
            behind++;
        if (before > 0 && item->start < items[before - 1].end)
            other = &items[before - 1];
        else if (behind < end && items[behind].start < item->end)
            other = &items[behind];
        if (other)
            reading_note(rq, submission, READING_OVERLAP, index, NULL, "overlaps row %lld",
                         (long long)submission->numbers[other->index]);
        taken[place] = !other;
        if (!other && place >= end)
            end = place + 1;
    }
}

/* ---- stored readings ---- */

/* clang-format off */

/*
 * $1 devices, $2 and $3 starts and ends; the periods of a device are adjacent. Returns the first
 * stored reading that each period overlaps. Skips devices whose readings end before the periods.
 */
static const struct bb_sql overlaps = {
    "SELECT p.before + o.number, o.type, " BB_SQL_MS("o.start_at") ", " BB_SQL_MS("o.end_at")
    ", o.wh FROM (SELECT device, min(number) - 1 AS before, min(first) AS earliest,"
    " array_agg(first ORDER BY number) AS firsts,"
    " array_agg(last ORDER BY number) AS lasts FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])"
    " WITH ORDINALITY AS u (device, first, last, number) GROUP BY device) p"
    " CROSS JOIN LATERAL reading_overlapping(p.device, p.firsts, p.lasts) o"
    " WHERE (SELECT max(d.latest_end) FROM reading_device d WHERE d.device = p.device)"
    " > reading_time(p.earliest)",
    0};
enum column { NUMBER, TYPE, START, END, WH };

/* clang-format on */

int reading_find_overlaps(struct bb_request *rq, struct reading_submission *const *list,
                          size_t count)
{
    size_t all = 1, found = 0;

    for (size_t i = 0; i < count; i++)
        all += list[i]->count;
    int64_t *devices = bb_alloc(rq, all * sizeof(*devices));
    int64_t *starts = bb_alloc(rq, all * sizeof(*starts));
    int64_t *ends = bb_alloc(rq, all * sizeof(*ends));
    struct sought {
        struct reading_submission *submission;
        const struct reading_item *item;
    } *sought = bb_alloc(rq, all * sizeof(*sought));

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < list[i]->count; j++) {
            const struct reading_item *item = &list[i]->items[j];

            if (!reading_placed(item))
                continue;
            devices[found] = list[i]->device.id;
            starts[found] = item->start;
            ends[found] = item->end;
            sought[found++] = (struct sought){list[i], item};
        }
    const struct bb_rows *rows =
        bb_query(rq, &overlaps,
                 BB_ARGS(bb_ints(devices, found), bb_ints(starts, found), bb_ints(ends, found)));

    if (!rows)
        return bb_failed(rq);
    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        const struct sought *one = &sought[bb_cell_int(rq, rows, row, NUMBER) - 1];
        const struct reading_item *item = one->item;
        char type = bb_cell(rq, rows, row, TYPE)[0];
        int64_t start = bb_cell_int(rq, rows, row, START), end = bb_cell_int(rq, rows, row, END);
        int64_t wh = bb_cell_int(rq, rows, row, WH);
        bool same = item->type == type && item->start == start && item->end == end &&
                    reading_has_energy(item, wh);

        reading_note(rq, one->submission, READING_OVERLAP, item->index, NULL,
                     "overlaps the stored %s reading of %" PRId64 " Wh from %s to %s, %s",
                     unit_type_name(type), wh, bb_time_text(rq, start), bb_time_text(rq, end),
                     same ? "which is the same reading, sent again"
                          : "which is a different reading");
    }
    return 0;
}
