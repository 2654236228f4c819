/*
 * A plant that two organizations have registered, so that its energy would be certified twice. The
 * database records such pairs however a device is added or changed (schema.sql, step 6). This file
 * warns the caller, and GET /api/admin/device-duplicates lists the pairs that still look alike,
 * newest first.
 *
 * Two devices that are added or changed at the same instant do not see each other. So the job
 * device.duplicates checks the devices of the last 20 minutes again; every device is covered by two
 * runs. A cursor is the id of the last pair seen.
 */
#include "modules/device/record/device.h"

enum { PAGE = 100, AGAIN = 1000 };

#define NEAR "(a.capacity = b.capacity AND m.metres <= 50)"
#define SAME "(a.serial_number = b.serial_number)"

/* $1 organization, $2 serialNumber, $3 capacity, $4 latitude, $5 longitude */
static const struct bb_sql find = {
    "SELECT EXISTS (SELECT FROM device_like($1::bigint, $2, NULL, NULL, NULL))::int,"
    " EXISTS (SELECT FROM device_like($1::bigint, NULL, $3::float8, $4, $5))::int",
    0};

/* Pairs before id $1, at most $2; two rows per pair. */
static const struct bb_sql pairs = {
    "SELECT " DEVICE_FACTS ", p.id, " DEVICE_TIME(
        "p.found_at") ", p.same::int, p.near::int, round(p.metres)::bigint"
                      " FROM (SELECT p.id, p.found_at, a.id AS one, b.id AS two, coalesce(" SAME
                      ", false) AS same, coalesce(" NEAR ", false) AS near, m.metres"
                      " FROM device_duplicate p JOIN device a ON a.id = p.device"
                      " JOIN device b ON b.id = p.other CROSS JOIN LATERAL (SELECT"
                      " device_metres(a.latitude, a.longitude, b.latitude, b.longitude) AS metres)"
                      " m WHERE p.id < $1::bigint AND a.organisation <> b.organisation"
                      " AND (" SAME " OR " NEAR ") ORDER BY p.id DESC LIMIT $2::bigint) p"
                      " JOIN device d ON d.id = ANY (ARRAY[p.one, p.two]) ORDER BY p.id DESC, d.id",
    BB_SQL_LONG};

enum { PAIR = DEVICE_FACT_COUNT, FOUND, BY_SERIAL, BY_PLACE, METRES };

/*
 * The next $3 devices after updated_at $1 and id $2. Returns one row if there are any: their
 * number, and the last one.
 */
static const struct bb_sql look_again = {
    "WITH page AS MATERIALIZED (SELECT id, updated_at FROM device"
    " WHERE updated_at > now() - interval '20 minutes'"
    " AND (updated_at, id) > ($1::timestamptz, $2::bigint)"
    " ORDER BY updated_at, id LIMIT $3::bigint),"
    " found AS MATERIALIZED (SELECT device_find_duplicates(ARRAY(SELECT id FROM page))),"
    " last AS (SELECT updated_at, id FROM page ORDER BY updated_at DESC, id DESC LIMIT 1)"
    " SELECT (SELECT count(*) FROM page), last.updated_at::text, last.id FROM last, found",
    BB_SQL_WRITE | BB_SQL_LONG};

static const struct bb_sql forget = {
    "DELETE FROM device_duplicate p WHERE NOT EXISTS (SELECT FROM device d WHERE d.id = p.device)"
    " OR NOT EXISTS (SELECT FROM device d WHERE d.id = p.other)",
    BB_SQL_WRITE};

int device_warn_duplicates(struct bb_request *rq, struct bb_tx *tx,
                           const struct device_record *record)
{
    const char *const *text = record->text;
    const struct bb_value values[] = {bb_i(record->organization), bb_t(text[DEVICE_SERIAL_NUMBER]),
                                      bb_t(text[DEVICE_CAPACITY]), bb_t(text[DEVICE_LATITUDE]),
                                      bb_t(text[DEVICE_LONGITUDE])};
    bool placed = text[DEVICE_CAPACITY] && text[DEVICE_LATITUDE] && text[DEVICE_LONGITUDE];

    if (!text[DEVICE_SERIAL_NUMBER] && !placed)
        return 0;
    const struct bb_rows *rows =
        tx ? bb_tx_query(rq, tx, &find, values, 5) : bb_query(rq, &find, values, 5);

    if (!rows)
        return -1;
    if (bb_cell_int(rq, rows, 0, 0))
        bb_warn(rq, "serialNumber: a device of another organization has it, too");
    if (bb_cell_int(rq, rows, 0, 1))
        bb_warn(rq, "latitude: a device of another organization with this capacity is within 50 m");
    return 0;
}

/* ---- the list ---- */

/* JSON of the pair in row `row` and the next row. The caller owns it; NULL: out of memory. */
static json_t *pair_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    struct device_record one = device_facts_of(rq, rows, row);
    struct device_record two = device_facts_of(rq, rows, row + 1);
    const char *metres = bb_cell(rq, rows, row, METRES);
    json_t *distance = metres ? json_integer(bb_cell_int(rq, rows, row, METRES)) : json_null();

    return json_pack(
        "{s:I, s:b, s:b, s:o, s:s, s:[o, o]}", "id", (json_int_t)bb_cell_int(rq, rows, row, PAIR),
        "sameSerialNumber", (int)bb_cell_int(rq, rows, row, BY_SERIAL), "samePlace",
        (int)bb_cell_int(rq, rows, row, BY_PLACE), "metres", distance, "foundAt",
        bb_cell(rq, rows, row, FOUND), "devices", device_facts_json(&one), device_facts_json(&two));
}

int device_duplicates(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    const struct bb_rows *rows =
        bb_query(rq, &pairs, BB_ARGS(bb_i(bb_arg_int(rq, "after", INT64_MAX)), bb_i(limit + 1)));
    json_t *list = rows ? json_array() : NULL;

    if (!rows)
        return bb_failed(rq);
    for (size_t row = 0; row + 1 < bb_count(rq, rows) && list; row += 2) {
        if (json_array_size(list) == (size_t)limit) {
            if (bb_reply_next(rq, bb_cell(rq, rows, row - 1, PAIR)) == 0)
                break;
            json_decref(list);
            return bb_failed(rq);
        }
        if (json_array_append_new(list, pair_json(rq, rows, row))) {
            json_decref(list);
            list = NULL;
        }
    }
    return bb_reply(rq, 200, list);
}

void device_sweep_duplicates(struct bb_request *rq)
{
    const char *updated = "-infinity";
    int64_t id = 0;
    bool more = true;

    while (more) {
        const struct bb_rows *rows =
            bb_query(rq, &look_again, BB_ARGS(bb_t(updated), bb_i(id), bb_i(AGAIN)));

        if (!rows)
            bb_log(rq, BB_WARN, "cannot look for duplicates of devices: %s", bb_sqlstate(rq));
        more = rows && bb_count(rq, rows) && bb_cell_int(rq, rows, 0, 0) == AGAIN;
        updated = more ? bb_cell(rq, rows, 0, 1) : NULL;
        id = more ? bb_cell_int(rq, rows, 0, 2) : 0;
    }
    if (!bb_query(rq, &forget, NULL, 0))
        bb_log(rq, BB_WARN, "cannot delete duplicates of devices: %s", bb_sqlstate(rq));
}
