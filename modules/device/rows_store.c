/* Storing rows of a bulk upload: all of a call in one statement, those that are taken left out. */
#include <string.h>

#include "rows.h"

/* $1 the rows, $2 time */
static const struct bb_sql insert = {
    "INSERT INTO device (id, uuid, organisation, external_id, site_name, country_code,"
    " commissioning_date, capacity, address, latitude, longitude, fuel_code, device_type_code,"
    " serial_number, timezone, yield_value, attributes, created_at, updated_at)"
    " SELECT r.id, r.uuid, r.organisation, r.f0, r.f1, r.f2, r.f3, r.f4, r.f5, r.f6, r.f7, r.f8,"
    " r.f9, r.f10, r.f11, r.f12, '{}', $2::timestamptz, $2::timestamptz"
    " FROM json_to_recordset($1::json) AS r (id bigint, uuid uuid, organisation bigint, f0 text,"
    " f1 text, f2 text, f3 date, f4 float8, f5 text, f6 text, f7 text, f8 text, f9 text, f10 text,"
    " f11 text, f12 float8)"
    " ON CONFLICT DO NOTHING RETURNING id",
    BB_SQL_WRITE,
};

_Static_assert(DEVICE_FIELDS == 13, "the statement names all fields");

static json_t *record_json(const struct device_record *record)
{
    json_t *json = json_pack("{s:I, s:s, s:I}", "id", (json_int_t)record->id, "uuid", record->uuid,
                             "organisation", (json_int_t)record->organisation);
    char name[4] = "f";

    for (size_t i = 0; i < DEVICE_FIELDS && json; i++) {
        snprintf(name, sizeof(name), "f%u", (unsigned)i % 100);
        if (record->text[i] && json_object_set_new(json, name, json_string(record->text[i]))) {
            json_decref(json);
            json = NULL;
        }
    }
    return json;
}

/* Names those that may be stored; -1: `bb_failed(rq)`. */
static int name_records(struct bb_request *rq, struct device_row *read, size_t count)
{
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));

    for (size_t i = 0; i < count; i++) {
        struct device_record *record = &read[i].record;

        if (read[i].row->problems)
            continue;
        record->id = bb_next_id(rq, "device_id");
        if (record->id < 0)
            return -1;
        record->uuid = bb_new_uuid(rq);
        record->created_at = now;
    }
    return 0;
}

static const char *records_json(struct bb_request *rq, const struct device_row *read, size_t count)
{
    json_t *list = json_array();
    size_t length;
    bool lost = !list;

    for (size_t i = 0; i < count && !lost; i++)
        if (!read[i].row->problems)
            lost = json_array_append_new(list, record_json(&read[i].record)) != 0;
    const char *text = lost ? NULL : bb_json(rq, list, &length);

    json_decref(list);
    return text;
}

/* They come back in the order in which they went, without those that were left out. */
static int take_outcome(struct bb_request *rq, struct bb_tx *tx, const struct bb_rows *stored,
                        struct device_row *read, size_t count)
{
    size_t at = 0, all = bb_count(rq, stored);

    for (size_t i = 0; i < count; i++) {
        const struct device_row *one = &read[i];

        if (one->row->problems)
            continue;
        if (at == all || bb_cell_int(rq, stored, at, 0) != one->record.id)
            bb_bulk_problem(rq, one->row, "externalId", DEVICE_TAKEN);
        else if (at++, device_emit_registered(rq, tx, &one->record))
            return -1;
    }
    return 0;
}

int device_rows_store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                      struct bb_bulk_row *const *rows, size_t count)
{
    struct device_row *read = bb_alloc(rq, count * sizeof(*read));

    if (device_rows_read(rq, job, rows, count, read) || name_records(rq, read, count))
        return -1;
    const char *records = records_json(rq, read, count);

    if (!records) {
        bb_fail(rq, 503, "Out of memory");
        return -1;
    }
    const struct bb_rows *stored = bb_tx_query(
        rq, tx, &insert, BB_ARGS(bb_t(records), bb_t(bb_time_text(rq, bb_wall_ms(rq->host)))));

    return stored ? take_outcome(rq, tx, stored, read, count) : -1;
}
