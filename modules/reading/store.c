/*
 * Stores a submission as a unit: one statement, and another for each type in it.
 *
 * The first statement updates the device's rows in reading_device, which locks both until the
 * commit. The next statement then sees all readings stored by earlier requests, and no other
 * request can store readings of either type meanwhile. That statement inserts all readings of a
 * type at once, and searches for overlaps only if the submission begins before the latest known
 * end: readings in chronological order cost the same however many are stored.
 */
#include <stdlib.h>
#include <string.h>

#include "modules/reading/base/reading.h"
#include "modules/reading/rules/unit.h"

/* Raises reading.accepted for items of one type. Returns 0, or -1: `bb_failed(rq)`. */
static int reading_emit(struct bb_request *rq, struct bb_tx *tx, const struct bb_device *device,
                        const struct reading_item *items, size_t count)
{
    struct bb_audience audience = {.size = sizeof(audience), .organization = device->organization};
    int64_t first = items[0].start;
    double wh = 0;

    for (size_t i = 0; i < count; i++) {
        first = items[i].start < first ? items[i].start : first;
        wh += items[i].wh;
    }
    json_t *payload = json_pack(
        "{s:I, s:s?, s:s, s:I, s:s, s:I, s:s, s:s, s:I, s:s}", "deviceId", (json_int_t)device->id,
        "externalId", device->external_id, "uuid", device->uuid, "organizationId",
        (json_int_t)device->organization, "type", unit_type_name(items->type), "count",
        (json_int_t)count, "startDate", bb_time_text(rq, first), "endDate",
        bb_time_text(rq, items[count - 1].end), "value", (json_int_t)wh, "unit", "Wh");

    return payload ? bb_emit(rq, tx, "reading.accepted", payload, &audience) : -1;
}

/*
 * $1 device, $2 now; $3 to $6 for Delta and $7 to $10 for History: the first end, and start, end
 * and Wh of the latest reading; null if there is no reading of the type. A device without readings
 * has a row that ends in the year 1.
 */
#define DEVICES                                                                                    \
    BB_KEYS_10("bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint",     \
               "bigint", "bigint")
#define TOUCH_COLUMNS                                                                              \
    "INSERT INTO reading_device AS d (device, type, latest_start, latest_end, latest_wh,"          \
    " latest_at, known_end, fresh_from, fresh_to)"
#define TOUCH_VALUES                                                                               \
    " t.type, coalesce(reading_time(t.s), '0001-01-01Z'),"                                         \
    " coalesce(reading_time(t.e), '0001-01-01Z'), coalesce(t.wh, 0),"
#define TOUCH_FRESH " '-infinity', reading_time(t.first), reading_time(t.e)"
#define TOUCH_TYPES " t (type, first, s, e, wh)"
#define TOUCH_AGAIN                                                                                \
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

/* Several devices are locked in the order of their ids, as everywhere. */
static const struct bb_keyed touch = {
    {TOUCH_COLUMNS
     " SELECT $1::bigint," TOUCH_VALUES " reading_time($2::bigint)," TOUCH_FRESH
     " FROM (VALUES ('D'::\"char\", $3::bigint, $4::bigint, $5::bigint, $6::bigint),"
     " ('H'::\"char\", $7::bigint, $8::bigint, $9::bigint, $10::bigint))" TOUCH_TYPES TOUCH_AGAIN,
     BB_SQL_WRITE | BB_SQL_KEYED},
    {TOUCH_COLUMNS " SELECT k.device," TOUCH_VALUES " reading_time(k.now)," TOUCH_FRESH
                   " FROM " DEVICES
                   " k(device, now, d1, d2, d3, d4, h1, h2, h3, h4, i) CROSS JOIN LATERAL"
                   " (VALUES ('D'::\"char\", k.d1, k.d2, k.d3, k.d4),"
                   " ('H'::\"char\", k.h1, k.h2, k.h3, k.h4))" TOUCH_TYPES
                   " ORDER BY k.device, t.type" TOUCH_AGAIN,
     BB_SQL_WRITE},
};

/*
 * $1 device, $2 type, $3 to $5 starts, ends and Wh, $6 now, $7 and $8 starts and ends of the spans
 * that the readings cover. bench/sql/reading.sql has both statements.
 */
#define SUBMISSIONS BB_KEYS_8("bigint", "text", "text", "text", "text", "bigint", "text", "text")
#define STORED "INSERT INTO reading (device, type, start_at, end_at, wh, created_at)"
#define INACTIVE "'Conflict: the device is Inactive, or was deleted'"
#define OVERLAPS "'Conflict: the period overlaps a stored reading'"

static const struct bb_keyed store = {
    {"WITH stored AS (" STORED
     " SELECT $1::bigint, $2::\"char\", reading_time(r.s), reading_time(r.e), r.w,"
     " reading_time($6::bigint)"
     " FROM unnest($3::bigint[], $4::bigint[], $5::bigint[]) AS r (s, e, w))"
     " SELECT busbar_require(coalesce(device_status($1::bigint), '') = 'Active', 409, " INACTIVE
     "), busbar_require(CASE WHEN max(d.known_end) <= reading_time(($7::bigint[])[1]) THEN true"
     " ELSE NOT EXISTS (SELECT FROM reading_overlapping($1::bigint, $7::bigint[], $8::bigint[]))"
     " END, 409, " OVERLAPS ") FROM reading_device d WHERE d.device = $1::bigint",
     BB_SQL_WRITE | BB_SQL_KEYED},
    {"WITH k AS MATERIALIZED (SELECT * FROM " SUBMISSIONS
     " k(device, type, starts, ends, wh, now, froms, tos, i)), stored AS (" STORED
     " SELECT k.device, k.type::\"char\", reading_time(r.s), reading_time(r.e), r.w,"
     " reading_time(k.now) FROM k CROSS JOIN LATERAL"
     " unnest(k.starts::bigint[], k.ends::bigint[], k.wh::bigint[]) AS r (s, e, w))"
     " SELECT busbar_require(coalesce(device_status(k.device), '') = 'Active', 409, " INACTIVE
     "), busbar_require(CASE WHEN (SELECT max(d.known_end) FROM reading_device d"
     " WHERE d.device = k.device) <= reading_time((k.froms::bigint[])[1]) THEN true"
     " ELSE NOT EXISTS (SELECT FROM reading_overlapping(k.device, k.froms::bigint[],"
     " k.tos::bigint[])) END, 409, " OVERLAPS "), k.i FROM k",
     BB_SQL_WRITE},
};

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
        c.wh[i] = (int64_t)items[i].wh; /* it has passed the ceiling, so it fits */
        if (!i || items[i].start > items[i - 1].end)
            c.span_starts[c.spans++] = items[i].start;
        c.span_ends[c.spans - 1] = items[i].end;
    }
    return c;
}

static int by_type_and_end(const void *left, const void *right)
{
    const struct reading_item *a = left, *b = right;

    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/*
 * The values of touch for readings of one type: the first end, and the latest reading; nulls if
 * there are none.
 */
static void latest_of(const struct reading_item *items, size_t count, struct bb_value values[4])
{
    for (size_t i = 0; i < 4; i++)
        values[i] = bb_null();
    if (!count)
        return;
    values[0] = bb_i(items[0].end);
    values[1] = bb_i(items[count - 1].start);
    values[2] = bb_i(items[count - 1].end);
    values[3] = bb_i((int64_t)items[count - 1].wh);
}

/* The first `deltas` readings are Delta readings. */
static int add_touch(struct bb_request *rq, struct bb_tx *unit,
                     const struct reading_submission *submission, size_t deltas, int64_t now)
{
    struct bb_value values[10] = {bb_i(submission->device.id), bb_i(now)};

    latest_of(submission->items, deltas, &values[2]);
    latest_of(submission->items + deltas, submission->count - deltas, &values[6]);
    return bb_add(rq, unit, &touch.one, values, sizeof(values) / sizeof(values[0])) < 0 ? -1 : 0;
}

/* Adds all readings of one type. */
static int add(struct bb_request *rq, struct bb_tx *unit, const struct bb_device *device,
               const struct reading_item *items, size_t count, int64_t now)
{
    struct columns c = columns_of(rq, items, count);

    return bb_add(rq, unit, &store.one,
                  BB_ARGS(bb_i(device->id), bb_t(c.type), bb_ints(c.starts, count),
                          bb_ints(c.ends, count), bb_ints(c.wh, count), bb_i(now),
                          bb_ints(c.span_starts, c.spans), bb_ints(c.span_ends, c.spans))) < 0
               ? -1
               : 0;
}

/* Returns the number of Delta readings, which come first. */
static size_t reading_deltas(const struct reading_submission *submission)
{
    size_t count = 0;

    while (count < submission->count && submission->items[count].type == 'D')
        count++;
    return count;
}

/* Raises the events, and sets the device's time zone if it has none. */
static int reading_tell(struct bb_request *rq, struct bb_tx *tx,
                        const struct reading_submission *submission)
{
    const struct reading *reading = rq->state;
    const struct bb_device *device = &submission->device;
    size_t deltas = reading_deltas(submission), histories = submission->count - deltas;

    if (deltas && reading_emit(rq, tx, device, submission->items, deltas))
        return -1;
    if (histories && reading_emit(rq, tx, device, submission->items + deltas, histories))
        return -1;
    if (!submission->named || device->timezone)
        return 0;
    return reading->devices->name_timezone(reading->devices_state, rq, tx, device->id,
                                           submission->named);
}

/* Sorts by type, Delta first, and by end. */
static void reading_sort(struct reading_submission *submission)
{
    qsort(submission->items, submission->count, sizeof(*submission->items), by_type_and_end);
}

int reading_add(struct bb_request *rq, struct bb_tx *tx, struct reading_submission *submission,
                int64_t now)
{
    const struct bb_device *device = &submission->device;
    size_t deltas, histories;

    reading_sort(submission);
    deltas = reading_deltas(submission);
    histories = submission->count - deltas;
    if (add_touch(rq, tx, submission, deltas, now))
        return -1;
    if (deltas && add(rq, tx, device, submission->items, deltas, now))
        return -1;
    if (histories && add(rq, tx, device, submission->items + deltas, histories, now))
        return -1;
    return reading_tell(rq, tx, submission) < 0 ? -1 : 0;
}

/* Returns the readings in the order in which they were sent. NULL: out of memory. */
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

/* Finds out whether the device is Inactive or deleted. */
static int reading_find_idle(struct bb_request *rq, const struct bb_device *device)
{
    static const struct bb_sql look = {"SELECT device_status($1::bigint)", 0};
    const struct bb_rows *rows = bb_query(rq, &look, BB_ARGS(bb_i(device->id)));
    const char *status = rows ? bb_cell(rq, rows, 0, 0) : NULL;

    if (!rows)
        return bb_failed(rq);
    if (!status)
        return bb_fail(rq, 404, "Device not found");
    return strcmp(status, "Active") != 0 ? bb_fail(rq, 409, "Conflict: the device is %s", status)
                                         : 0;
}

/* The commit failed. If an overlap is the reason, each reading is checked again. */
static int refused(struct bb_request *rq, struct reading_submission *submission)
{
    if (strcmp(bb_sqlstate(rq), "BB409") != 0 && strcmp(bb_sqlstate(rq), "23505") != 0)
        return bb_failed(rq);
    int failed = reading_find_idle(rq, &submission->device);

    if (!failed)
        failed = reading_find_overlaps(rq, submission);
    if (failed)
        return failed;
    if (!reading_wrong(submission))
        return bb_fail(rq, 409, "Conflict: the period overlaps a stored reading");
    return reading_refuse(rq, submission);
}

/* Not called for a replay, which is the stored response of another request. */
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

    if (!unit || reading_add(rq, unit, submission, now))
        return bb_failed(rq);
    json_t *json = answer(rq, submission, now);

    if (!json)
        return bb_fail(rq, 503, "Out of memory");
    bb_after(rq, unit, count_stored, submission);
    int status = bb_commit(rq, unit, 201, json);

    return status ? status : refused(rq, submission);
}

/*
 * ---- readings of several devices, for rows of bulk uploads: two statements for all. Devices are
 * locked in the order of their ids. ----
 */

/*
 * $1 devices, $2 type (0: Delta, 1: History), $3 number of readings, $4 the first end, $5 to $7
 * start, end and Wh of the latest reading; $8 now. Each device has a row for both types.
 */
static const struct bb_sql touch_many = {
    TOUCH_COLUMNS
    " SELECT t.device, CASE t.type WHEN 0 THEN 'D'::\"char\" ELSE 'H'::\"char\" END,"
    " CASE WHEN t.n > 0 THEN reading_time(t.s) ELSE '0001-01-01Z' END,"
    " CASE WHEN t.n > 0 THEN reading_time(t.e) ELSE '0001-01-01Z' END, t.wh,"
    " reading_time($8::bigint), '-infinity', CASE WHEN t.n > 0 THEN reading_time(t.first) END,"
    " CASE WHEN t.n > 0 THEN reading_time(t.e) END"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
    " $6::bigint[], $7::bigint[]) AS t (device, type, n, first, s, e, wh)" TOUCH_AGAIN,
    BB_SQL_WRITE,
};

/*
 * $1 devices, $2 types as above, $3 to $5 starts, ends and Wh, $6 now; sorted by device, type and
 * end. Functions are called only for devices with something to find: calling them for every device
 * would take longer than storing the rows.
 */
static const struct bb_sql store_many = {
    "WITH sent AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[],"
    " $4::bigint[], $5::bigint[]) AS r (device, type, s, e, wh)),"
    " stored AS (" STORED
    " SELECT r.device, CASE r.type WHEN 0 THEN 'D'::\"char\" ELSE 'H'::\"char\" END,"
    " reading_time(r.s), reading_time(r.e), r.wh, reading_time($6::bigint) FROM sent r)"
    " SELECT busbar_require((SELECT count(*) FROM device_active($1::bigint[]))"
    " = (SELECT count(DISTINCT device) FROM sent), 409, " INACTIVE
    "), busbar_require(NOT EXISTS (SELECT FROM (SELECT device, min(s) AS first,"
    " array_agg(s) AS starts, array_agg(e) AS ends FROM sent GROUP BY device) p"
    " WHERE CASE WHEN (SELECT max(d.known_end) FROM reading_device d WHERE d.device = p.device)"
    " <= reading_time(p.first) THEN false"
    " ELSE EXISTS (SELECT FROM reading_overlapping(p.device, p.starts, p.ends)) END),"
    " 409, " OVERLAPS ")",
    BB_SQL_WRITE,
};

enum { TOUCH_MANY = 7, STORE_MANY = 5 }; /* columns */

/* Columns of numbers, filled row by row. */
struct table {
    size_t count;
    int64_t *column[TOUCH_MANY];
};

static struct table table_new(struct bb_request *rq, size_t columns, size_t rows)
{
    struct table made = {.count = 0};

    for (size_t i = 0; i < columns; i++)
        made.column[i] = bb_alloc(rq, (rows + 1) * sizeof(int64_t));
    return made;
}

static void put(struct table *table, const int64_t *row, size_t count)
{
    for (size_t i = 0; i < count; i++)
        table->column[i][table->count] = row[i];
    table->count++;
}

static int run(struct bb_request *rq, struct bb_tx *tx, const struct bb_sql *sql,
               const struct table *table, size_t count, int64_t now)
{
    struct bb_value values[TOUCH_MANY + 1];

    for (size_t i = 0; i < count; i++)
        values[i] = bb_ints(table->column[i], table->count);
    values[count] = bb_i(now);
    return bb_tx_query(rq, tx, sql, values, count + 1) ? 0 : -1;
}

/* Adds a row for `count` readings of one type. */
static void put_touch(struct table *table, int64_t device, int64_t type,
                      const struct reading_item *items, size_t count)
{
    int64_t row[TOUCH_MANY] = {device, type, (int64_t)count};

    if (count) {
        row[3] = items[0].end;
        row[4] = items[count - 1].start;
        row[5] = items[count - 1].end;
        row[6] = (int64_t)items[count - 1].wh;
    }
    put(table, row, TOUCH_MANY);
}

static int touch_all(struct bb_request *rq, struct bb_tx *tx,
                     struct reading_submission *const *list, size_t count, int64_t now)
{
    struct table table = table_new(rq, TOUCH_MANY, 2 * count);

    for (size_t i = 0; i < count; i++) {
        const struct reading_submission *one = list[i];
        size_t deltas = reading_deltas(one);

        put_touch(&table, one->device.id, 0, one->items, deltas);
        put_touch(&table, one->device.id, 1, one->items + deltas, one->count - deltas);
    }
    return run(rq, tx, &touch_many, &table, TOUCH_MANY, now);
}

static int store_all(struct bb_request *rq, struct bb_tx *tx,
                     struct reading_submission *const *list, size_t count, int64_t now)
{
    size_t all = 0;

    for (size_t i = 0; i < count; i++)
        all += list[i]->count;
    struct table table = table_new(rq, STORE_MANY, all);

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < list[i]->count; j++) {
            const struct reading_item *item = &list[i]->items[j];

            /* The energy has passed the ceiling, so it fits. */
            put(&table,
                (const int64_t[]){list[i]->device.id, item->type == 'H', item->start, item->end,
                                  (int64_t)item->wh},
                STORE_MANY);
        }
    return run(rq, tx, &store_many, &table, STORE_MANY, now);
}

int reading_add_many(struct bb_request *rq, struct bb_tx *tx,
                     struct reading_submission *const *list, size_t count, int64_t now)
{
    for (size_t i = 0; i < count; i++)
        reading_sort(list[i]);
    if (!count)
        return 0;
    if (touch_all(rq, tx, list, count, now) || store_all(rq, tx, list, count, now))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (reading_tell(rq, tx, list[i]) < 0)
            return -1;
    return 0;
}
