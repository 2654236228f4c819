/*
 * A submission into the database, as a unit of two statements for each type in it.
 *
 * The first changes the device's row in reading_device, which locks it until the commit; what other
 * requests stored before is then visible to the second statement, and no other can store meanwhile.
 * The second inserts all readings at once, and looks for overlaps only where the submission begins
 * before the latest end known so far: readings that come in their order cost the same however many
 * are stored.
 */
#include <string.h>

#include "reading.h"

/* $1 device, $2 type, $3 to $6 the latest reading: start, end, Wh, now; $7 the first end. */
static const struct bb_sql touch = {
    "INSERT INTO reading_device AS d (device, type, latest_start, latest_end, latest_wh, latest_at,"
    " known_end, fresh_from, fresh_to) VALUES ($1::bigint, $2::\"char\", reading_time($3::bigint),"
    " reading_time($4::bigint), $5::bigint, reading_time($6::bigint), '-infinity',"
    " reading_time($7::bigint), reading_time($4::bigint))"
    " ON CONFLICT (device, type) DO UPDATE SET known_end = d.latest_end,"
    " latest_start = CASE WHEN excluded.latest_end > d.latest_end THEN excluded.latest_start"
    " ELSE d.latest_start END,"
    " latest_wh = CASE WHEN excluded.latest_end > d.latest_end THEN excluded.latest_wh"
    " ELSE d.latest_wh END,"
    " latest_at = CASE WHEN excluded.latest_end > d.latest_end THEN excluded.latest_at"
    " ELSE d.latest_at END,"
    " latest_end = greatest(d.latest_end, excluded.latest_end),"
    " fresh_from = least(d.fresh_from, excluded.fresh_from),"
    " fresh_to = greatest(d.fresh_to, excluded.fresh_to)",
    BB_SQL_WRITE,
};

/*
 * $1 device, $2 type, $3 to $5 starts, ends and Wh, $6 now, $7 and $8 starts and ends of the spans
 * that they cover. bench/sql/reading.sql has both statements.
 */
static const struct bb_sql store = {
    "WITH stored AS (INSERT INTO reading (device, type, start_at, end_at, wh, created_at)"
    " SELECT $1::bigint, $2::\"char\", reading_time(r.s), reading_time(r.e), r.w,"
    " reading_time($6::bigint)"
    " FROM unnest($3::bigint[], $4::bigint[], $5::bigint[]) AS r (s, e, w))"
    " SELECT busbar_require(CASE WHEN d.known_end <= reading_time(($7::bigint[])[1]) THEN true"
    " ELSE NOT EXISTS (SELECT FROM reading_overlaps($1::bigint, $2::\"char\", $7::bigint[],"
    " $8::bigint[])) END, 409, 'Conflict: the period overlaps a stored reading')"
    " FROM reading_device d WHERE d.device = $1::bigint AND d.type = $2::\"char\"",
    BB_SQL_WRITE,
};

static const struct bb_sql overlaps = {
    "SELECT reading_overlaps($1::bigint, $2::\"char\", $3::bigint[], $4::bigint[])", 0};

/* Readings of one type, as columns. */
struct columns {
    const char *type;
    size_t count, spans;
    int64_t *starts, *ends, *wh, *span_starts, *span_ends;
};

static struct columns columns_of(struct bb_request *rq, const struct reading_item *items,
                                 size_t count)
{
    struct columns c = {.type = items->type == 'H' ? "H" : "D", .count = count};
    int64_t **all[] = {&c.starts, &c.ends, &c.wh, &c.span_starts, &c.span_ends};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        *all[i] = bb_alloc(rq, count * sizeof(int64_t));
    for (size_t i = 0; i < count; i++) {
        c.starts[i] = items[i].start;
        c.ends[i] = items[i].end;
        c.wh[i] = (int64_t)items[i].wh; /* it passed the ceiling */
        if (!i || items[i].start > items[i - 1].end)
            c.span_starts[c.spans++] = items[i].start;
        c.span_ends[c.spans - 1] = items[i].end;
    }
    return c;
}

static int add(struct bb_request *rq, struct bb_tx *unit, const struct bb_device *device,
               const struct reading_item *items, size_t count, int64_t now)
{
    struct columns c = columns_of(rq, items, count);
    size_t last = count - 1;

    if (bb_add(rq, unit, &touch,
               BB_ARGS(bb_i(device->id), bb_t(c.type), bb_i(c.starts[last]), bb_i(c.ends[last]),
                       bb_i(c.wh[last]), bb_i(now), bb_i(c.ends[0]))) < 0)
        return -1;
    if (bb_add(rq, unit, &store,
               BB_ARGS(bb_i(device->id), bb_t(c.type), bb_ints(c.starts, count),
                       bb_ints(c.ends, count), bb_ints(c.wh, count), bb_i(now),
                       bb_ints(c.span_starts, c.spans), bb_ints(c.span_ends, c.spans))) < 0)
        return -1;
    return reading_emit(rq, unit, device, items, count);
}

/* How many of the items, from the first, are of one type. */
static size_t same_type(const struct reading_item *items, size_t count)
{
    size_t same = 1;

    while (same < count && items[same].type == items->type)
        same++;
    return same;
}

static int add_all(struct bb_request *rq, struct bb_tx *unit,
                   const struct reading_submission *submission, int64_t now)
{
    const struct reading *reading = rq->state;
    const struct bb_device *device = &submission->device;
    size_t count;

    for (size_t at = 0; at < submission->count; at += count) {
        count = same_type(submission->items + at, submission->count - at);
        if (add(rq, unit, device, submission->items + at, count, now))
            return -1;
    }
    if (!submission->named || device->timezone)
        return 0;
    return reading->devices->name_timezone(reading->devices_state, rq, unit, device->id,
                                           submission->named);
}

/* In the order in which they were sent. NULL: no memory. */
static json_t *answer(struct bb_request *rq, const struct reading_submission *submission,
                      int64_t now)
{
    const struct bb_device *device = &submission->device;
    json_t **sent = bb_alloc(rq, submission->count * sizeof(json_t *));
    json_t *list = json_array();

    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];

        sent[item->index] =
            reading_json(rq, item->type, item->start, item->end, (int64_t)item->wh, now);
    }
    for (size_t i = 0; i < submission->count; i++)
        json_array_append_new(list, sent[i]);
    if (json_array_size(list) < submission->count) {
        json_decref(list);
        return NULL;
    }
    return json_pack("{s:I, s:s?, s:s, s:o}", "deviceId", (json_int_t)device->id, "externalId",
                     device->external_id, "uuid", device->uuid, "reads", list);
}

/* Names the readings that overlap stored ones of their type. */
static int name_overlaps(struct bb_request *rq, struct reading_submission *submission,
                         const struct reading_item *items, size_t count)
{
    struct columns c = columns_of(rq, items, count);
    const struct bb_rows *rows =
        bb_query(rq, &overlaps,
                 BB_ARGS(bb_i(submission->device.id), bb_t(c.type), bb_ints(c.starts, count),
                         bb_ints(c.ends, count)));

    if (!rows)
        return bb_failed(rq);
    for (size_t i = 0; i < bb_count(rq, rows); i++)
        reading_problem(submission, items[bb_cell_int(rq, rows, i, 0) - 1].index, NULL,
                        "overlaps a stored reading");
    return 0;
}

/* The commit failed. If for an overlap, it is looked at again, reading by reading. */
static int refused(struct bb_request *rq, struct reading_submission *submission)
{
    size_t count;

    if (strcmp(bb_sqlstate(rq), "BB409") != 0 && strcmp(bb_sqlstate(rq), "23505") != 0)
        return bb_failed(rq);
    for (size_t at = 0; at < submission->count; at += count) {
        count = same_type(submission->items + at, submission->count - at);
        int failed = name_overlaps(rq, submission, submission->items + at, count);

        if (failed)
            return failed;
    }
    if (!reading_problems(submission))
        return bb_fail(rq, 409, "Conflict: the period overlaps a stored reading");
    return reading_conflict(rq, submission, "Periods of one type may touch, but not overlap");
}

/* Not for a replay: the answer of another request that stored the same. */
static void count_stored(struct bb_request *rq, struct bb_tx *unit, void *arg)
{
    const struct reading_submission *submission = arg;

    (void)unit;
    bb_metric_add(rq->host, READING_ACCEPTED, 0, submission->count);
}

int reading_store(struct bb_request *rq, struct reading_submission *submission)
{
    int64_t now = bb_wall_ms(rq->host);
    struct bb_tx *unit = bb_unit(rq, (uint64_t)submission->device.id);

    if (!unit || add_all(rq, unit, submission, now) < 0)
        return bb_failed(rq);
    json_t *json = answer(rq, submission, now);

    if (!json)
        return bb_fail(rq, 503, "Out of memory");
    bb_after(rq, unit, count_stored, submission);
    int status = bb_commit(rq, unit, 201, json);

    return status ? status : refused(rq, submission);
}
