/*
 * Resolves local times that a clock change repeats or skips.
 *
 * The clock shows a repeated time twice, in two passes. A start is in the pass at which the
 * previous row or a stored reading ends, or else in the first pass. An end is in the first pass
 * after its start. If both passes remain possible, or if the clock skips a time, the reading is
 * refused, because otherwise its energy could be stored for the wrong hour, or twice.
 */
#include <stdlib.h>

#include "modules/reading/reading.h"

/* The stored readings around an instant. */
struct around {
    char type; /* of the reading that ends at the instant; 0: none */
    int64_t wh;
    int64_t next_start, next_end; /* of the first reading that ends later; INT64_MAX: none */
};

/* The stored readings around all times of a request that the clock shows twice. */
struct stored {
    struct around (*around)[2]; /* around both instants of each time; NULL: not queried yet */
    size_t *places;             /* the index in `around` of each element of submission->items */
};

/* A reading with its neighbors in the order of the request, and its times on the zone's clock. */
struct placing {
    struct reading_submission *submission;
    struct stored *stored;
    struct reading_item *item;
    const struct reading_item *before, *behind; /* the neighbors; NULL: none */
    struct zone_times starts, ends;
    bool begins, closes;            /* whether the zone's clock shows the start and the end */
    const struct zone_times *twice; /* `starts` or `ends`, if other readings decide it; or NULL */
};

/* clang-format off */

/* $1 device, $2 instants; around_many is for more than FEW instants */
#define FEW 50
#define ENDS(condition)                                                                            \
    "(SELECT r.type, r.start_at, r.end_at, r.wh FROM (VALUES ('D'::\"char\"), ('H'::\"char\"))"    \
    " t (type) CROSS JOIN LATERAL (SELECT r.* FROM reading r WHERE r.device = $1::bigint"          \
    " AND r.type = t.type AND r.end_at " condition                                                 \
    " reading_time(x.at) ORDER BY r.end_at LIMIT 1) r ORDER BY r.end_at LIMIT 1)"
#define AROUND                                                                                     \
    "SELECT o.type, o.wh, coalesce(" BB_SQL_MS("n.start_at") ", 9223372036854775807),"             \
    " coalesce(" BB_SQL_MS("n.end_at") ", 9223372036854775807)"                                    \
    " FROM unnest($2::bigint[]) WITH ORDINALITY AS x (at, number)"                                 \
    " LEFT JOIN LATERAL " ENDS("=") " o ON true LEFT JOIN LATERAL " ENDS(">") " n ON true"         \
    " ORDER BY x.number"
static const struct bb_sql around_few = {AROUND, 0}, around_many = {AROUND, BB_SQL_LONG};

/* clang-format on */

static const char *local_with_offset(struct bb_request *rq, int64_t local, int64_t at)
{
    long long minutes = (local - at) / 60000, size = llabs(minutes);

    return bb_format(rq, "%.19s%c%02lld:%02lld", bb_time_text(rq, local), minutes < 0 ? '-' : '+',
                     size / 60, size % 60);
}

static void local_note_skipped(struct bb_request *rq, const struct placing *p, const char *field,
                               int64_t local)
{
    reading_problem(rq, p->submission, p->item->index, field,
                    "does not exist in %s, because the clocks skip it: send the time with an "
                    "offset, such as %s",
                    p->submission->named,
                    local_with_offset(rq, local, zone_instant(p->submission->zone, local)));
}

static void local_note_repeated(struct bb_request *rq, const struct placing *p, const char *field,
                                int64_t local, int64_t first, int64_t second)
{
    reading_problem(rq, p->submission, p->item->index, field,
                    "occurs twice when the clocks of %s are set back: send it with its offset, "
                    "%s or %s",
                    p->submission->named, local_with_offset(rq, local, first),
                    local_with_offset(rq, local, second));
}

/* Returns whether a date was sent and its time zone is known. */
static bool local_is_dated(const struct reading_submission *submission, bool sent,
                           const struct bb_moment *moment)
{
    return sent && !(moment->local && submission->named && !submission->zone);
}

/* Returns the instants at which the clock shows the time. A date means the beginning of its day. */
static struct zone_times local_times(const struct reading_submission *submission,
                                     const struct bb_moment *moment)
{
    bool local = moment->local && submission->named;

    if (local && !moment->date)
        return zone_times(submission->zone, moment->ms);
    return (struct zone_times){
        .count = 1, .at = {local ? zone_instant(submission->zone, moment->ms) : moment->ms}};
}

/* Sets the members of `p` that follow from the dates sent: starts, ends, begins, closes, twice. */
static void local_read_clock(struct placing *p)
{
    const struct reading_submission *submission = p->submission;
    const struct reading_item *item = p->item;

    if (local_is_dated(submission, item->has_start, &item->sent_start)) {
        p->starts = local_times(submission, &item->sent_start);
        p->begins = p->starts.count > 0;
    }
    if (local_is_dated(submission, item->has_end, &item->sent_end)) {
        p->ends = local_times(submission, &item->sent_end);
        p->closes = p->ends.count || p->ends.closes;
    }
    if (p->begins && p->closes && p->starts.count == 2)
        p->twice = &p->starts;
    else if (p->closes && item->open && p->ends.count == 2)
        p->twice = &p->ends;
}

/* Returns the stored readings around both instants of p->twice, or NULL if the query failed. */
static const struct around *local_look(struct bb_request *rq, const struct placing *p)
{
    struct stored *stored = p->stored;
    const struct reading_submission *submission = p->submission;
    size_t count = 0;

    if (stored->around)
        return stored->around[stored->places[p->item - submission->items]];
    int64_t *at = bb_alloc(rq, 2 * submission->count * sizeof(*at));

    stored->places = bb_alloc(rq, submission->count * sizeof(*stored->places));
    for (size_t i = 0; i < submission->count; i++) {
        struct placing other = {.submission = p->submission, .item = &submission->items[i]};

        local_read_clock(&other);
        stored->places[i] = count / 2;
        for (size_t pass = 0; other.twice && pass < 2; pass++)
            at[count++] = other.twice->at[pass];
    }
    const struct bb_rows *rows = bb_query(rq, count > FEW ? &around_many : &around_few,
                                          BB_ARGS(bb_i(submission->device.id), bb_ints(at, count)));

    if (!rows)
        return NULL;
    stored->around = bb_alloc(rq, count / 2 * sizeof(*stored->around));
    for (size_t i = 0; i < count; i++) {
        const char *type = bb_cell(rq, rows, i, 0);

        stored->around[i / 2][i % 2] = (struct around){
            .type = type ? *type : '\0',
            .wh = bb_cell_int(rq, rows, i, 1),
            .next_start = bb_cell_int(rq, rows, i, 2),
            .next_end = bb_cell_int(rq, rows, i, 3),
        };
    }
    return stored->around[stored->places[p->item - submission->items]];
}

/*
 * Returns whether an end is after `start`. Sets *end to the first such end, or else the last one.
 */
static bool local_end_after(const struct zone_times *ends, int64_t start, int64_t *end)
{
    if (!ends->count && ends->closes && ends->change > start) {
        *end = ends->change;
        return true;
    }
    for (int i = 0; i < ends->count; i++) {
        *end = ends->at[i];
        if (*end > start)
            return true;
    }
    return false;
}

/*
 * Resolves a start that the clock shows twice, and the reading's end. If both times are possible,
 * chooses the time at which the previous row ends, or else at which a stored reading ends. If
 * stored readings end at both times, chooses the time that no stored reading follows. If no stored
 * reading follows either time, notes a mistake. Returns 0, or -1 if a query failed.
 */
static int local_place_start(struct bb_request *rq, const struct placing *p)
{
    struct reading_item *item = p->item;
    const struct zone_times *starts = &p->starts, *ends = &p->ends;
    const struct reading_item *before = p->before && p->before->ends ? p->before : NULL;
    const struct reading_item *behind = p->behind;
    bool closes = ends->closes && ends->change > starts->at[0], fits[2];
    bool either = false; /* both passes remain possible */
    int64_t end[2];
    int pass;

    for (int i = 0; i < 2; i++)
        fits[i] = local_end_after(ends, starts->at[i], &end[i]);
    if (closes)
        end[0] = ends->change;
    pass = fits[0] ? 0 : 1;
    if (fits[0] && fits[1] && before && before->end == starts->at[1]) {
        pass = 1;
    } else if (fits[0] && fits[1] && !(before && before->end == starts->at[0])) {
        const struct around *around = local_look(rq, p);

        if (!around)
            return -1;
        item->unsure = p->submission->provisional;
        pass = around[1].type != '\0';
        if (around[0].type && around[1].type && around[0].next_start >= end[0]) {
            pass = 0;
            either = around[1].next_start >= end[1];
        }
    }
    if (item->unsure) { /* rows that are not stored yet may decide otherwise */
        pass = 1;
    } else if (either) {
        local_note_repeated(rq, p, "startDate", item->sent_start.ms, starts->at[0], starts->at[1]);
        return 0;
    }
    /* The reading ends at the clock change only if the next row starts at an earlier local time. */
    if (pass == 0 && closes &&
        !(behind && behind->has_start && behind->sent_start.local &&
          behind->sent_start.ms < item->sent_end.ms)) {
        local_note_repeated(rq, p, "endDate", item->sent_end.ms, ends->change, ends->at[0]);
        return 0;
    }
    item->start = starts->at[pass];
    item->end = end[pass];
    item->begins = item->ends = true;
    return 0;
}

/*
 * Sets the end of a Delta reading without a start, if the clock shows the end's local time twice.
 * Returns 0, or -1 if a query failed.
 */
static int local_place_end(struct bb_request *rq, const struct placing *p)
{
    struct reading_item *item = p->item;
    const int64_t *at = p->ends.at;
    bool second;

    if (p->before && p->before->ends && p->before->end < at[1]) {
        second = p->before->end >= at[0];
    } else {
        const struct around *around = local_look(rq, p);

        if (!around)
            return -1;
        bool later = around[0].next_end < at[1];

        second = around[0].type || later;
        item->unsure = p->submission->provisional && !second;
        /* The row may be the same reading again, or the reading of the next hour. */
        if (!later && !around[1].type && around[0].type == 'D' && item->wh > 0 &&
            reading_has_energy(item, around[0].wh)) {
            local_note_repeated(rq, p, "endDate", item->sent_end.ms, at[0], at[1]);
            return 0;
        }
    }
    item->end = at[second];
    item->ends = true;
    return 0;
}

int reading_place_moments(struct bb_request *rq, struct reading_submission *submission)
{
    struct reading_item *items = submission->items;
    size_t count = submission->count, rising = 0, falling = 0;
    struct stored stored = {NULL, NULL};

    for (size_t i = 1; i < count; i++) {
        rising += items[i].sent_end.ms > items[i - 1].sent_end.ms;
        falling += items[i].sent_end.ms < items[i - 1].sent_end.ms;
    }
    bool turned = falling > rising; /* the items are in descending order */

    for (size_t i = 0; i < count; i++) {
        size_t at = turned ? count - 1 - i : i;
        struct reading_item *item = &items[at];
        struct placing p = {
            .submission = submission,
            .stored = &stored,
            .item = item,
            .before = i ? &items[turned ? at + 1 : at - 1] : NULL,
            .behind = i + 1 < count ? &items[turned ? at - 1 : at + 1] : NULL,
        };

        local_read_clock(&p);
        if (!p.begins && local_is_dated(submission, item->has_start, &item->sent_start))
            local_note_skipped(rq, &p, "startDate", item->sent_start.ms);
        if (!p.closes && local_is_dated(submission, item->has_end, &item->sent_end))
            local_note_skipped(rq, &p, "endDate", item->sent_end.ms);
        if (p.twice) {
            if (p.twice == &p.starts ? local_place_start(rq, &p) : local_place_end(rq, &p))
                return -1;
            continue;
        }
        item->begins = p.begins;
        item->ends = p.closes;
        item->start = p.starts.at[0];
        item->end = p.ends.count ? p.ends.at[0] : p.ends.change;
        if (p.begins && p.closes)
            (void)local_end_after(&p.ends, item->start, &item->end);
    }
    return 0;
}
