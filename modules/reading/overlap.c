/* Readings of a request that overlap stored ones, of whatever type. */
#include <inttypes.h>

#include "reading.h"
#include "unit.h"

static const struct bb_sql overlaps = {
    "SELECT number, type, " READING_MS("start_at") ", " READING_MS(
        "end_at") ", wh"
                  " FROM reading_overlapping($1::bigint, $2::bigint[], $3::bigint[])",
    0};

enum column { NUMBER, TYPE, START, END, WH };

static void note(struct bb_request *rq, struct reading_submission *submission,
                 const struct reading_item *item, const struct bb_rows *rows, size_t row)
{
    char type = bb_cell(rq, rows, row, TYPE)[0];
    int64_t start = bb_cell_int(rq, rows, row, START), end = bb_cell_int(rq, rows, row, END);
    int64_t wh = bb_cell_int(rq, rows, row, WH);
    bool same = item->type == type && item->start == start && item->end == end && item->measured &&
                item->wh >= (double)wh && item->wh <= (double)wh;

    reading_clash(rq, submission, READING_OVERLAP, item->index,
                  "overlaps the stored %s reading of %" PRId64 " Wh from %s to %s, %s",
                  unit_type_name(type), wh, bb_time_text(rq, start), bb_time_text(rq, end),
                  same ? "which is the same one: it was sent again" : "which is another one");
}

int reading_find_overlaps(struct bb_request *rq, struct reading_submission *submission)
{
    size_t count = 0;
    int64_t *starts = bb_alloc(rq, (submission->count + 1) * sizeof(*starts));
    int64_t *ends = bb_alloc(rq, (submission->count + 1) * sizeof(*ends));
    const struct reading_item **placed =
        bb_alloc(rq, (submission->count + 1) * sizeof(struct reading_item *));

    for (size_t i = 0; i < submission->count; i++) {
        if (!reading_placed(&submission->items[i]))
            continue;
        placed[count] = &submission->items[i];
        starts[count] = submission->items[i].start;
        ends[count++] = submission->items[i].end;
    }
    const struct bb_rows *rows = bb_query(
        rq, &overlaps,
        BB_ARGS(bb_i(submission->device.id), bb_ints(starts, count), bb_ints(ends, count)));

    if (!rows)
        return bb_failed(rq);
    for (size_t row = 0; row < bb_count(rq, rows); row++)
        note(rq, submission, placed[bb_cell_int(rq, rows, row, NUMBER) - 1], rows, row);
    return 0;
}
