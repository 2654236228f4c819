/*
 * Local times that a clock change repeats or skips.
 *
 * A repeated time is resolved by the order of the readings. A start takes the pass that is adjacent
 * to the previous row or to a stored reading, else the first pass; an end takes the first pass
 * after its start. If either pass is possible, or if a time is skipped, the reading is refused: one
 * hour's energy must not be stored for two hours, and a reading that is sent again must not be
 * stored for the next hour.
 */
#include <stdlib.h>

#include "modules/reading/base/reading.h"

/*
 * The stored readings around an instant: one that ends exactly then, and the first one that ends
 * later.
 */
struct around {
    bool touched;
    char type;
    int64_t wh;
    bool next;
    int64_t next_start, next_end;
};

/*
 * The stored readings around the repeated times of a request. One statement reads them for all
 * these times, when the first time needs them.
 */
struct stored {
    struct around (*around)[2]; /* of the passes of a time; NULL: not queried yet */
    size_t *places;             /* by the reading's place in the request */
};

/* A reading with its neighbors in the order of the request. */
struct placing {
    struct reading_submission *submission;
    struct stored *stored;
    struct reading_item *item;
    const struct reading_item *before, *behind; /* NULL: none */
    struct zone_times starts, ends;
};

/* $1 device, $2 instants. Takes a while for more than a few instants. */
#define FEW 50
#define ENDS(condition)                                                                            \
    "(SELECT r.type, r.start_at, r.end_at, r.wh FROM (VALUES ('D'::\"char\"), ('H'::\"char\"))"    \
    " t (type) CROSS JOIN LATERAL (SELECT r.* FROM reading r WHERE r.device = $1::bigint"          \
    " AND r.type = t.type AND r.end_at " condition                                                 \
    " reading_time(x.at) ORDER BY r.end_at LIMIT 1) r ORDER BY r.end_at LIMIT 1)"
/* The formatter breaks texts that are joined with macros. */
/* clang-format off */
#define AROUND                                                                                     \
    "SELECT o.type, o.wh, " READING_MS("n.start_at") ", " READING_MS("n.end_at")                   \
    " FROM unnest($2::bigint[]) WITH ORDINALITY AS x (at, number)"                                 \
    " LEFT JOIN LATERAL " ENDS("=") " o ON true LEFT JOIN LATERAL " ENDS(">") " n ON true"         \
    " ORDER BY x.number"
/* clang-format on */
static const struct bb_sql around_few = {AROUND, 0}, around_many = {AROUND, BB_SQL_LONG};

static struct around around_of(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    const char *type = bb_cell(rq, rows, row, 0);
    struct around around = {.touched = type != NULL, .next = bb_cell(rq, rows, row, 3)};

    if (type) {
        around.type = *type;
        around.wh = bb_cell_int(rq, rows, row, 1);
    }
    if (around.next) {
        around.next_start = bb_cell_int(rq, rows, row, 2);
        around.next_end = bb_cell_int(rq, rows, row, 3);
    }
    return around;
}

static const char *with_offset(struct bb_request *rq, int64_t local, int64_t at)
{
    long long minutes = (local - at) / 60000, size = llabs(minutes);

    return bb_format(rq, "%.19s%c%02lld:%02lld", bb_time_text(rq, local), minutes < 0 ? '-' : '+',
                     size / 60, size % 60);
}

static void note_skipped(struct bb_request *rq, struct reading_submission *submission,
                         const struct reading_item *item, const char *field, int64_t local)
{
    int64_t at = zone_instant(submission->zone, local);

    reading_problem(rq, submission, item->index, field,
                    "is skipped when the clocks of %s are put forward: send it with its offset, "
                    "such as %s",
                    submission->named, with_offset(rq, local, at));
}

static void note_repeated(struct bb_request *rq, struct reading_submission *submission,
                          const struct reading_item *item, const char *field, int64_t local,
                          const struct zone_times *times)
{
    reading_problem(rq, submission, item->index, field,
                    "occurs twice when the clocks of %s are set back: send it with its offset, "
                    "%s or %s",
                    submission->named, with_offset(rq, local, times->at[0]),
                    with_offset(rq, local, times->at[1]));
}

/* Returns the instants at which the clock shows the time. A date is the beginning of its day. */
static struct zone_times times_of(const struct reading_submission *submission,
                                  const struct moment *moment)
{
    if (moment->local && submission->named && !moment->date)
        return zone_times(submission->zone, moment->ms);
    int64_t at = moment->local && submission->named ? zone_instant(submission->zone, moment->ms)
                                                    : moment->ms;

    return (struct zone_times){.count = 1, .at = {at}};
}

/* Returns the time of a reading that the clock shows twice, so that stored readings decide between
 * the passes; NULL if there is none. */
static const struct zone_times *repeated(const struct placing *p)
{
    const struct reading_item *item = p->item;
    bool begins = item->has_start && p->starts.count;
    bool closes = item->has_end && (p->ends.count || p->ends.closes);

    if (begins && closes && p->starts.count == 2)
        return &p->starts;
    return closes && item->open && p->ends.count == 2 ? &p->ends : NULL;
}

/* Sets the times of the reading as the clock of the zone shows them. */
static void take_times(struct placing *p)
{
    const struct reading_submission *submission = p->submission;
    const struct reading_item *item = p->item;

    if (item->has_start && !(item->sent_start.local && submission->misnamed))
        p->starts = times_of(submission, &item->sent_start);
    if (item->has_end && !(item->sent_end.local && submission->misnamed))
        p->ends = times_of(submission, &item->sent_end);
}

/* Returns both passes of all repeated times of the request, and their number in *count. */
static const int64_t *passes(struct bb_request *rq, const struct placing *p, size_t *count)
{
    const struct reading_submission *submission = p->submission;
    int64_t *at = bb_alloc(rq, 2 * submission->count * sizeof(*at));

    *count = 0;
    for (size_t i = 0; i < submission->count; i++) {
        struct placing other = {.submission = p->submission, .item = &submission->items[i]};

        take_times(&other);
        const struct zone_times *times = repeated(&other);

        p->stored->places[i] = *count / 2;
        for (size_t pass = 0; times && pass < 2; pass++)
            at[(*count)++] = times->at[pass];
    }
    return at;
}

/* Returns the stored readings around both passes of a repeated time; NULL: `bb_failed(rq)`. */
static const struct around *look(struct bb_request *rq, const struct placing *p)
{
    struct stored *stored = p->stored;
    const struct reading_submission *submission = p->submission;

    if (!stored->around) {
        size_t count;

        stored->places = bb_alloc(rq, submission->count * sizeof(*stored->places));
        const int64_t *at = passes(rq, p, &count);
        const struct bb_rows *rows =
            bb_query(rq, count > FEW ? &around_many : &around_few,
                     BB_ARGS(bb_i(submission->device.id), bb_ints(at, count)));

        if (!rows)
            return NULL;
        stored->around = bb_alloc(rq, count / 2 * sizeof(*stored->around));
        for (size_t i = 0; i < count; i++)
            stored->around[i / 2][i % 2] = around_of(rq, rows, i);
    }
    return stored->around[stored->places[p->item - submission->items]];
}

/*
 * Finds the first possible end after a start. Returns false if there is none; then *end is the last
 * one.
 */
static bool end_after(const struct zone_times *ends, int64_t start, int64_t *end)
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

static bool is_free(const struct around *around, int64_t end)
{
    return !around->next || around->next_start >= end;
}

/*
 * Finds the pass of a repeated start that is adjacent to the previous row, else to a stored
 * reading; if both passes are adjacent to stored readings, the free one. *pass is -1 if it may be
 * either.
 */
static int pass_of_start(struct bb_request *rq, const struct placing *p, const int64_t end[2],
                         int *pass)
{
    const struct zone_times *starts = &p->starts;

    for (int i = 0; i < 2; i++)
        if (p->before && p->before->ends && p->before->end == starts->at[i]) {
            *pass = i;
            return 0;
        }
    p->item->unsure = p->submission->provisional;
    const struct around *around = look(rq, p);

    if (!around)
        return -1;
    *pass = around[1].touched;
    if (around[0].touched && around[1].touched && is_free(&around[0], end[0]))
        *pass = is_free(&around[1], end[1]) ? -1 : 0;
    return 0;
}

/* Returns whether the clock was set back between this reading and the next one of the request. */
static bool clock_goes_back(const struct placing *p)
{
    return p->behind && p->behind->has_start && p->behind->sent_start.local &&
           p->behind->sent_start.ms < p->item->sent_end.ms;
}

/* Resolves a start that occurs twice, and its end. Returns 0, or -1: `bb_failed(rq)`. */
static int place_repeated_start(struct bb_request *rq, const struct placing *p)
{
    struct reading_item *item = p->item;
    const struct zone_times *starts = &p->starts, *ends = &p->ends;
    int64_t end[2];
    bool fits[2];
    int pass;

    for (int i = 0; i < 2; i++)
        fits[i] = end_after(ends, starts->at[i], &end[i]);
    bool closes = ends->closes && ends->change > starts->at[0];

    if (closes)
        end[0] = ends->change;
    pass = fits[0] ? 0 : 1;
    if (fits[0] && fits[1] && pass_of_start(rq, p, end, &pass))
        return -1;
    if (item->unsure) { /* rows of another part of the file decide: claim only the certain part */
        pass = 1;
    } else if (pass < 0) {
        note_repeated(rq, p->submission, item, "startDate", item->sent_start.ms, starts);
        return 0;
    }
    if (pass == 0 && closes && !clock_goes_back(p)) {
        const struct zone_times either = {.at = {ends->change, ends->at[0]}};

        note_repeated(rq, p->submission, item, "endDate", item->sent_end.ms, &either);
        return 0;
    }
    item->start = starts->at[pass];
    item->end = end[pass];
    item->begins = item->ends = true;
    return 0;
}

/*
 * Resolves the end of a Delta reading without a start, if the end occurs twice. Returns 0, or -1:
 * `bb_failed(rq)`.
 */
static int place_repeated_end(struct bb_request *rq, const struct placing *p)
{
    struct reading_item *item = p->item;
    const struct zone_times *ends = &p->ends;
    bool second;

    if (p->before && p->before->ends && p->before->end < ends->at[1]) {
        second = p->before->end >= ends->at[0];
    } else {
        const struct around *around = look(rq, p);

        if (!around)
            return -1;
        bool later = around[0].next && around[0].next_end < ends->at[1];

        second = around[0].touched || later;
        item->unsure = p->submission->provisional && !second;
        /* It may be the same reading again, or the reading of the next hour. */
        if (around[0].touched && !later && !around[1].touched && around[0].type == 'D' &&
            item->measured && item->wh > 0 && (int64_t)item->wh == around[0].wh) {
            note_repeated(rq, p->submission, item, "endDate", item->sent_end.ms, ends);
            return 0;
        }
    }
    item->end = ends->at[second];
    item->ends = true;
    return 0;
}

static int place(struct bb_request *rq, struct placing *p)
{
    struct reading_submission *submission = p->submission;
    struct reading_item *item = p->item;
    bool begins = item->has_start && !(item->sent_start.local && submission->misnamed);
    bool closes = item->has_end && !(item->sent_end.local && submission->misnamed);

    take_times(p);
    if (begins && !p->starts.count)
        note_skipped(rq, submission, item, "startDate", item->sent_start.ms);
    if (closes && !p->ends.count && !p->ends.closes)
        note_skipped(rq, submission, item, "endDate", item->sent_end.ms);
    begins = begins && p->starts.count;
    closes = closes && (p->ends.count || p->ends.closes);
    if (begins && closes && p->starts.count == 2)
        return place_repeated_start(rq, p);
    if (closes && item->open && p->ends.count == 2)
        return place_repeated_end(rq, p);
    item->begins = begins;
    item->ends = closes;
    item->start = p->starts.at[0];
    item->end = p->ends.count ? p->ends.at[0] : p->ends.change;
    if (begins && closes)
        (void)end_after(&p->ends, item->start, &item->end);
    return 0;
}

/* Returns whether the latest reading was sent first. */
static bool backwards(const struct reading_submission *submission)
{
    size_t rising = 0, falling = 0;

    for (size_t i = 1; i < submission->count; i++) {
        int64_t before = submission->items[i - 1].sent_end.ms;

        rising += submission->items[i].sent_end.ms > before;
        falling += submission->items[i].sent_end.ms < before;
    }
    return falling > rising;
}

int reading_place_moments(struct bb_request *rq, struct reading_submission *submission)
{
    struct reading_item *items = submission->items;
    size_t count = submission->count;
    bool turned = backwards(submission);
    struct stored stored = {NULL, NULL};

    for (size_t i = 0; i < count; i++) {
        size_t at = turned ? count - 1 - i : i;
        struct placing placing = {
            .submission = submission,
            .stored = &stored,
            .item = &items[at],
            .before = i ? &items[turned ? at + 1 : at - 1] : NULL,
            .behind = i + 1 < count ? &items[turned ? at - 1 : at + 1] : NULL,
        };

        if (place(rq, &placing))
            return -1;
    }
    return 0;
}
