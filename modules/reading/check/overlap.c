/* Finds readings of a request that overlap stored readings of any type. */
#include <inttypes.h>

#include "modules/reading/base/reading.h"
#include "modules/reading/rules/unit.h"

/*
 * $1 devices, $2 and $3 starts and ends. Returns for each period the first stored reading that it
 * overlaps. Periods after all stored readings of their device, the usual case, are not searched.
 */
#define BEHIND(type)                                                                               \
    "(SELECT r.type, r.start_at, r.end_at, r.wh FROM reading r WHERE r.device = p.device"          \
    " AND r.type = '" type "' AND r.end_at > reading_time(p.first) ORDER BY r.end_at LIMIT 1)"
static const struct bb_sql overlaps = {
    "SELECT p.number, o.type, " READING_MS("o.start_at") ", " READING_MS(
        "o.end_at") ", o.wh"
                    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY"
                    " AS p (device, first, last, number)"
                    " CROSS JOIN LATERAL (SELECT max(d.latest_end) AS latest FROM reading_device d"
                    " WHERE d.device = p.device) k"
                    " CROSS JOIN LATERAL (SELECT b.* FROM (" BEHIND("D") " UNION ALL " BEHIND(
                        "H") ") b WHERE b.start_at < reading_time(p.last)"
                             " AND k.latest > reading_time(p.first) ORDER BY b.end_at LIMIT 1) o",
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
                  same ? "which is the same reading, sent again" : "which is a different reading");
}

/* A period that is searched, and its submission. */
struct sought {
    struct reading_submission *submission;
    const struct reading_item *item;
};

struct search {
    size_t count;
    int64_t *devices, *starts, *ends;
    struct sought *sought;
};

static void search_make(struct bb_request *rq, struct search *search,
                        struct reading_submission *const *list, size_t count)
{
    size_t all = 1;

    for (size_t i = 0; i < count; i++)
        all += list[i]->count;
    *search = (struct search){.devices = bb_alloc(rq, all * sizeof(int64_t)),
                              .starts = bb_alloc(rq, all * sizeof(int64_t)),
                              .ends = bb_alloc(rq, all * sizeof(int64_t)),
                              .sought = bb_alloc(rq, all * sizeof(struct sought))};
}

static void search_add(struct search *search, struct reading_submission *submission)
{
    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];

        if (!reading_placed(item))
            continue;
        search->devices[search->count] = submission->device.id;
        search->starts[search->count] = item->start;
        search->ends[search->count] = item->end;
        search->sought[search->count++] = (struct sought){submission, item};
    }
}

int reading_find_all_overlaps(struct bb_request *rq, struct reading_submission *const *list,
                              size_t count)
{
    struct search search;

    search_make(rq, &search, list, count);
    for (size_t i = 0; i < count; i++)
        search_add(&search, list[i]);
    const struct bb_rows *rows =
        bb_query(rq, &overlaps,
                 BB_ARGS(bb_ints(search.devices, search.count),
                         bb_ints(search.starts, search.count), bb_ints(search.ends, search.count)));

    if (!rows)
        return bb_failed(rq);
    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        const struct sought *one = &search.sought[bb_cell_int(rq, rows, row, NUMBER) - 1];

        note(rq, one->submission, one->item, rows, row);
    }
    return 0;
}

int reading_find_overlaps(struct bb_request *rq, struct reading_submission *submission)
{
    return reading_find_all_overlaps(rq, &submission, 1);
}
