/*
 * Stores submissions with two statements: the first updates the devices' rows in reading_device,
 * and the second inserts the readings.
 *
 * The first statement locks a device's two rows (one for each type of readings) until the commit.
 * So the second sees all readings stored by earlier requests, and no other request stores readings
 * of the device meanwhile. The second searches for overlaps only if the submission begins before
 * the latest known end, so readings in chronological order cost the same however many are stored.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/reading/reading.h"

/* clang-format off */

/*
 * $1 device, $2 now. $3 to $6 are the end of the first new Delta reading, and the start, end and Wh
 * of the last one, or null. $7 to $10 are the same for History readings. Locks the rows in the
 * order of the devices, so that requests cannot deadlock.
 */
enum { TOUCH_DEVICE, TOUCH_NOW, TOUCH_DELTA, TOUCH_HISTORY = 6, TOUCH_VALUES = 10 };
#define TOUCH(keys)                                                                                \
    "INSERT INTO reading_device AS d (device, type, latest_start, latest_end, latest_wh,"          \
    " latest_at, known_end, fresh_from, fresh_to)"                                                 \
    " SELECT k.device, t.type, coalesce(reading_time(t.s), '0001-01-01Z'),"                        \
    " coalesce(reading_time(t.e), '0001-01-01Z'), coalesce(t.wh, 0), reading_time(k.now),"         \
    " '-infinity', reading_time(t.first), reading_time(t.e)"                                       \
    " FROM " keys " k(device, now, d1, d2, d3, d4, h1, h2, h3, h4, i) CROSS JOIN LATERAL"          \
    " (VALUES ('D'::\"char\", k.d1, k.d2, k.d3, k.d4), ('H'::\"char\", k.h1, k.h2, k.h3, k.h4))"   \
    " t (type, first, s, e, wh) ORDER BY k.device, t.type"                                         \
    " ON CONFLICT (device, type) DO UPDATE SET known_end = d.latest_end,"                          \
    " latest_start = CASE WHEN excluded.latest_end > d.latest_end THEN excluded.latest_start"      \
    " ELSE d.latest_start END,"                                                                    \
    " latest_wh = CASE WHEN excluded.latest_end > d.latest_end THEN excluded.latest_wh"            \
    " ELSE d.latest_wh END,"                                                                       \
    " latest_at = CASE WHEN excluded.latest_end > d.latest_end THEN excluded.latest_at"            \
    " ELSE d.latest_at END,"                                                                       \
    " latest_end = greatest(d.latest_end, excluded.latest_end),"                                   \
    " fresh_from = least(d.fresh_from, excluded.fresh_from),"                                      \
    " fresh_to = greatest(d.fresh_to, excluded.fresh_to)"
static const struct bb_keyed touch = {
    {TOUCH("(VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint,"
           " $7::bigint, $8::bigint, $9::bigint, $10::bigint, 1))"),
     BB_SQL_WRITE | BB_SQL_KEYED},
    {TOUCH(BB_KEYS_10("bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint",
                      "bigint", "bigint", "bigint")),
     BB_SQL_WRITE},
};

/*
 * $1 device, $2 type, $3 to $5 starts, ends and Wh, $6 now, $7 and $8 starts and ends of the spans
 * that the readings cover without a gap. Calls reading_overlapping() only if the first span begins
 * before the end of the stored readings, because the calls can take longer than the inserts.
 * bench/sql/reading.sql has a copy of both statements.
 */
enum { STORE_VALUES = 8 };
#define STORE(keys, ordinal)                                                                       \
    "WITH k AS MATERIALIZED (SELECT * FROM " keys                                                  \
    " k(device, type, starts, ends, wh, now, froms, tos, i)), stored AS ("                         \
    "INSERT INTO reading (device, type, start_at, end_at, wh, created_at)"                         \
    " SELECT k.device, k.type::\"char\", reading_time(r.s), reading_time(r.e), r.w,"               \
    " reading_time(k.now) FROM k CROSS JOIN LATERAL"                                               \
    " unnest(k.starts::bigint[], k.ends::bigint[], k.wh::bigint[]) AS r (s, e, w))"                \
    " SELECT busbar_require((SELECT count(*) FROM device_active(ARRAY(SELECT k.device FROM k)))"   \
    " = (SELECT count(DISTINCT k.device) FROM k), 409,"                                            \
    " 'Conflict: the device is Inactive, or was deleted'),"                                        \
    " busbar_require(CASE WHEN (SELECT max(d.known_end) FROM reading_device d"                     \
    " WHERE d.device = k.device) <= reading_time((k.froms::bigint[])[1]) THEN true"                \
    " ELSE NOT EXISTS (SELECT FROM reading_overlapping(k.device, k.froms::bigint[],"               \
    " k.tos::bigint[])) END, 409, 'Conflict: the period overlaps a stored reading')" ordinal       \
    " FROM k"
static const struct bb_keyed store = {
    {STORE("(VALUES ($1::bigint, $2::text, $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint,"
           " $7::bigint[], $8::bigint[], 1))", ""),
     BB_SQL_WRITE | BB_SQL_KEYED},
    {STORE(BB_KEYS_8("bigint", "text", "text", "text", "text", "bigint", "text", "text"), ", k.i"),
     BB_SQL_WRITE},
};

/* clang-format on */

/* ---- adding ---- */

/* Returns one column of the values as the text of a PostgreSQL array, or NULL if out of memory. */
static const char *store_array(struct bb_request *rq, const struct bb_value *value, size_t rows,
                               size_t columns)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    for (size_t row = 0; row < rows && out; row++, value += columns) {
        const int64_t *numbers = value->data;

        fputs(row ? "," : "{", out);
        if (value->kind == BB_V_INT)
            fprintf(out, "%" PRId64, value->number);
        else if (value->kind == BB_V_TEXT)
            fputs(value->data, out); /* a letter, which needs no quotes */
        else if (value->kind == BB_V_NULL)
            fputs("NULL", out);
        for (size_t i = 0; i < value->length; i++)
            fprintf(out, "%s%" PRId64, i ? "," : "\"{", numbers[i]);
        fputs(value->length ? "}\"" : "", out);
    }
    if (!out || fputs("}", out) < 0 || fclose(out) != 0) {
        free(text);
        return NULL;
    }
    bb_defer(rq, free, text);
    return text;
}

/* Adds one statement for each row of values or, with `several`, runs one statement for all rows. */
static int store_add_rows(struct bb_request *rq, struct bb_tx *tx, const struct bb_keyed *keyed,
                          const struct bb_value *values, size_t rows, size_t columns, bool several)
{
    struct bb_value arrays[TOUCH_VALUES];

    for (size_t row = 0; row < rows && !several; row++)
        if (bb_add(rq, tx, &keyed->one, values + row * columns, columns) < 0)
            return -1;
    for (size_t i = 0; i < columns && several; i++) {
        arrays[i] = bb_t(store_array(rq, values + i, rows, columns));
        if (!arrays[i].data) {
            bb_no_memory(rq);
            return -1;
        }
    }
    return !several || bb_tx_query(rq, tx, &keyed->many, arrays, columns) ? 0 : -1;
}

static int store_by_type_and_end(const void *left, const void *right)
{
    const struct reading_item *a = left, *b = right;

    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/*
 * Sets the values of two statements (`touched` and `stored`) for readings of one type, sorted by
 * end. Returns the payload of the event, which lives as long as the request.
 */
static json_t *store_set_values(struct bb_request *rq, const struct bb_device *device,
                                const struct reading_item *items, size_t count,
                                struct bb_value *touched, struct bb_value *stored)
{
    const struct reading_item *last = &items[count - 1];
    int64_t first = items->start;
    double wh = 0;
    size_t spans = 0;
    int64_t *columns[5]; /* the readings' starts, ends and Wh; the spans' starts and ends */

    for (size_t i = 0; i < 5; i++)
        columns[i] = bb_alloc(rq, count * sizeof(int64_t));
    for (size_t i = 0; i < count; i++) {
        columns[0][i] = items[i].start;
        columns[1][i] = items[i].end;
        columns[2][i] = (int64_t)items[i].wh; /* fits, because it is at most the ceiling */
        if (!i || items[i].start > items[i - 1].end)
            columns[3][spans++] = items[i].start;
        columns[4][spans - 1] = items[i].end;
        first = items[i].start < first ? items[i].start : first;
        wh += items[i].wh;
    }
    touched += items->type == 'H' ? TOUCH_HISTORY : TOUCH_DELTA;
    touched[0] = bb_i(items->end);
    touched[1] = bb_i(last->start);
    touched[2] = bb_i(last->end);
    touched[3] = bb_i((int64_t)last->wh);
    stored[1] = bb_t(items->type == 'H' ? "H" : "D");
    for (size_t i = 0; i < 3; i++)
        stored[2 + i] = bb_ints(columns[i], count);
    stored[6] = bb_ints(columns[3], spans);
    stored[7] = bb_ints(columns[4], spans);
    return bb_hold(rq,
                   json_pack("{s:I, s:s?, s:s, s:I, s:s, s:I, s:s, s:s, s:I, s:s}", "deviceId",
                             (json_int_t)device->id, "externalId", device->external_id, "uuid",
                             device->uuid, "organizationId", (json_int_t)device->organization,
                             "type", unit_type_name(items->type), "count", (json_int_t)count,
                             "startDate", bb_time_text(rq, first), "endDate",
                             bb_time_text(rq, last->end), "value", (json_int_t)wh, "unit", "Wh"));
}

/* Adds the stored readings to the metric, after the commit. */
static void store_count(struct bb_request *rq, struct bb_tx *unit, void *arg)
{
    const struct reading_submission *submission = arg;

    (void)unit;
    bb_metric_add(rq->host, READING_ACCEPTED, 0, submission->count);
}

int reading_add(struct bb_request *rq, struct bb_tx *tx, struct reading_submission *const *list,
                size_t count, int64_t now)
{
    const struct reading *reading = rq->state;
    struct bb_value *touched = bb_alloc(rq, count * TOUCH_VALUES * sizeof(*touched)); /* all null */
    struct bb_value *stored = bb_alloc(rq, 2 * count * STORE_VALUES * sizeof(*stored));
    json_t *(*payloads)[2] = bb_alloc(rq, count * sizeof(*payloads)); /* for each device and type */
    size_t rows = 0;

    for (size_t i = 0; i < count; i++) {
        const struct reading_submission *one = list[i];
        struct bb_value *row = touched + i * TOUCH_VALUES;

        qsort(one->items, one->count, sizeof(*one->items), store_by_type_and_end);
        row[TOUCH_DEVICE] = bb_i(one->device.id);
        row[TOUCH_NOW] = bb_i(now);
        for (size_t at = 0, same, type = 0; at < one->count; at += same, type++) {
            struct bb_value *values = stored + rows++ * STORE_VALUES;

            for (same = 1; at + same < one->count; same++)
                if (one->items[at + same].type != one->items[at].type)
                    break;
            values[0] = bb_i(one->device.id);
            values[5] = bb_i(now);
            payloads[i][type] =
                store_set_values(rq, &one->device, one->items + at, same, row, values);
        }
    }
    if (store_add_rows(rq, tx, &touch, touched, count, TOUCH_VALUES, count > 1) ||
        store_add_rows(rq, tx, &store, stored, rows, STORE_VALUES, count > 1))
        return -1;
    for (size_t i = 0; i < count; i++) {
        const struct reading_submission *one = list[i];
        const struct bb_device *device = &one->device;
        struct bb_audience audience = {.size = sizeof(audience),
                                       .organization = device->organization};

        for (size_t type = 0; type < 2 && payloads[i][type]; type++)
            if (bb_emit(rq, tx, "reading.accepted", json_incref(payloads[i][type]), &audience))
                return -1;
        if (one->named && !device->timezone &&
            reading->devices->name_timezone(reading->devices_state, rq, tx, device->id,
                                            one->named) < 0)
            return -1;
        bb_after(rq, tx, store_count, list[i]);
    }
    return 0;
}

/* ---- a request ---- */

int reading_store(struct bb_request *rq, struct reading_submission *submission)
{
    static const struct bb_sql look = {"SELECT device_status($1::bigint)", 0};
    int64_t now = bb_wall_ms(rq->host);
    const struct bb_device *device = &submission->device;
    struct bb_tx *unit = bb_unit(rq, (uint64_t)device->id);

    if (!unit || reading_add(rq, unit, &submission, 1, now))
        return bb_failed(rq);
    /* the readings in the order in which they were sent */
    const struct reading_item **sent = bb_alloc(rq, submission->count * sizeof(*sent));
    json_t *list = json_array();

    for (size_t i = 0; i < submission->count; i++)
        sent[submission->items[i].index] = &submission->items[i];
    for (size_t i = 0; i < submission->count && list; i++)
        list = bb_append(list, reading_json(rq, sent[i]->type, sent[i]->start, sent[i]->end,
                                            (int64_t)sent[i]->wh, now));
    int status = bb_commit(rq, unit, 201,
                           json_pack("{s:I, s:s?, s:s, s:o}", "deviceId", (json_int_t)device->id,
                                     "externalId", device->external_id, "uuid", device->uuid,
                                     "reads", list));

    if (status)
        return status;
    /* The commit failed. If the reason may be an overlap, find the readings that overlap. */
    if (strcmp(bb_sqlstate(rq), "BB409") != 0 && strcmp(bb_sqlstate(rq), "23505") != 0)
        return bb_failed(rq);
    const struct bb_rows *rows = bb_query_or_end(rq, &look, BB_ARGS(bb_i(device->id)));
    const char *state = bb_cell(rq, rows, 0, 0);

    if (!state)
        return bb_fail(rq, 404, "Device not found");
    if (strcmp(state, "Active") != 0)
        return bb_fail(rq, 409, "Conflict: the device is %s", state);
    status = reading_find_overlaps(rq, &submission, 1);
    if (status)
        return status;
    if (!submission->wrong)
        return bb_fail(rq, 409, "Conflict: the period overlaps a stored reading");
    return reading_refuse(rq, submission);
}
