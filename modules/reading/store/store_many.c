/*
 * Stores readings of several devices, for rows of bulk uploads: the same as store.c for one device,
 * in two statements for all. Devices are locked in the order of their ids.
 */
#include "modules/reading/base/reading.h"

/*
 * $1 devices, $2 type (0: Delta, 1: History), $3 number of readings, $4 the first end, $5 to $7
 * start, end and Wh of the latest reading; $8 now. Each device has a row for both types.
 */
static const struct bb_sql touch_many = {
    "INSERT INTO reading_device AS d (device, type, latest_start, latest_end, latest_wh, latest_at,"
    " known_end, fresh_from, fresh_to)"
    " SELECT t.device, CASE t.type WHEN 0 THEN 'D'::\"char\" ELSE 'H'::\"char\" END,"
    " CASE WHEN t.n > 0 THEN reading_time(t.s) ELSE '0001-01-01Z' END,"
    " CASE WHEN t.n > 0 THEN reading_time(t.e) ELSE '0001-01-01Z' END, t.wh,"
    " reading_time($8::bigint), '-infinity', CASE WHEN t.n > 0 THEN reading_time(t.first) END,"
    " CASE WHEN t.n > 0 THEN reading_time(t.e) END"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
    " $6::bigint[], $7::bigint[]) AS t (device, type, n, first, s, e, wh)"
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
 * $1 devices, $2 types as above, $3 to $5 starts, ends and Wh, $6 now; sorted by device, type and
 * end. Functions are called only for devices with something to find: calling them for every device
 * would take longer than storing the rows.
 */
static const struct bb_sql store_many = {
    "WITH sent AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[],"
    " $4::bigint[], $5::bigint[]) AS r (device, type, s, e, wh)),"
    " stored AS (INSERT INTO reading (device, type, start_at, end_at, wh, created_at)"
    " SELECT r.device, CASE r.type WHEN 0 THEN 'D'::\"char\" ELSE 'H'::\"char\" END,"
    " reading_time(r.s), reading_time(r.e), r.wh, reading_time($6::bigint) FROM sent r)"
    " SELECT busbar_require((SELECT count(*) FROM device_active($1::bigint[]))"
    " = (SELECT count(DISTINCT device) FROM sent), 409,"
    " 'Conflict: the device is Inactive, or was deleted'),"
    " busbar_require(NOT EXISTS (SELECT FROM (SELECT device, min(s) AS first,"
    " array_agg(s) AS starts, array_agg(e) AS ends FROM sent GROUP BY device) p"
    " WHERE CASE WHEN (SELECT max(d.known_end) FROM reading_device d WHERE d.device = p.device)"
    " <= reading_time(p.first) THEN false"
    " ELSE EXISTS (SELECT FROM reading_overlapping(p.device, p.starts, p.ends)) END),"
    " 409, 'Conflict: the period overlaps a stored reading')",
    BB_SQL_WRITE,
};

enum { TOUCHED = 7, STORED = 5 };

/* Columns of numbers, filled row by row. */
struct columns {
    size_t count;
    int64_t *column[TOUCHED];
};

static struct columns columns_new(struct bb_request *rq, size_t columns, size_t rows)
{
    struct columns made = {.count = 0};

    for (size_t i = 0; i < columns; i++)
        made.column[i] = bb_alloc(rq, (rows + 1) * sizeof(int64_t));
    return made;
}

static void put(struct columns *columns, const int64_t *row, size_t count)
{
    for (size_t i = 0; i < count; i++)
        columns->column[i][columns->count] = row[i];
    columns->count++;
}

static int run(struct bb_request *rq, struct bb_tx *tx, const struct bb_sql *sql,
               const struct columns *columns, size_t count, int64_t now)
{
    struct bb_value values[TOUCHED + 1];

    for (size_t i = 0; i < count; i++)
        values[i] = bb_ints(columns->column[i], columns->count);
    values[count] = bb_i(now);
    return bb_tx_query(rq, tx, sql, values, count + 1) ? 0 : -1;
}

/* Adds a row for `count` readings of one type. */
static void put_touch(struct columns *columns, int64_t device, int64_t type,
                      const struct reading_item *items, size_t count)
{
    int64_t row[TOUCHED] = {device, type, (int64_t)count};

    if (count) {
        row[3] = items[0].end;
        row[4] = items[count - 1].start;
        row[5] = items[count - 1].end;
        row[6] = (int64_t)items[count - 1].wh;
    }
    put(columns, row, TOUCHED);
}

static int touch_all(struct bb_request *rq, struct bb_tx *tx,
                     struct reading_submission *const *list, size_t count, int64_t now)
{
    struct columns columns = columns_new(rq, TOUCHED, 2 * count);

    for (size_t i = 0; i < count; i++) {
        const struct reading_submission *one = list[i];
        size_t deltas = reading_deltas(one);

        put_touch(&columns, one->device.id, 0, one->items, deltas);
        put_touch(&columns, one->device.id, 1, one->items + deltas, one->count - deltas);
    }
    return run(rq, tx, &touch_many, &columns, TOUCHED, now);
}

static int store_all(struct bb_request *rq, struct bb_tx *tx,
                     struct reading_submission *const *list, size_t count, int64_t now)
{
    size_t all = 0;

    for (size_t i = 0; i < count; i++)
        all += list[i]->count;
    struct columns columns = columns_new(rq, STORED, all);

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < list[i]->count; j++) {
            const struct reading_item *item = &list[i]->items[j];

            /* The energy has passed the ceiling, so it fits. */
            put(&columns,
                (const int64_t[]){list[i]->device.id, item->type == 'H', item->start, item->end,
                                  (int64_t)item->wh},
                STORED);
        }
    return run(rq, tx, &store_many, &columns, STORED, now);
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
