/*
 * Stores the rows of a bulk upload, all rows of a call in one statement; rows whose name is taken
 * are skipped.
 */
#include <string.h>

#include "modules/device/rows/rows.h"

/* $1 uuids, $2 organization, $3 time, $4 to $16 the fields; all are arrays except $2 and $3 */
static const struct bb_sql insert = {
    "INSERT INTO device (id, uuid, organisation, external_id, site_name, country_code,"
    " commissioning_date, capacity, address, latitude, longitude, fuel_code, device_type_code,"
    " serial_number, timezone, yield_value, attributes, created_at, updated_at)"
    " SELECT nextval('device_id'), r.uuid, $2::bigint, r.f0, r.f1, r.f2, r.f3, r.f4, r.f5, r.f6,"
    " r.f7, r.f8, r.f9, r.f10, r.f11, r.f12, '{}', $3::timestamptz, $3::timestamptz"
    " FROM unnest($1::uuid[], $4::text[], $5::text[], $6::text[], $7::date[], $8::float8[],"
    " $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],"
    " $16::float8[]) AS r (uuid, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12)"
    " ON CONFLICT DO NOTHING RETURNING uuid, id",
    BB_SQL_WRITE,
};

_Static_assert(DEVICE_FIELDS == 13, "the statement names all fields");

enum { FIXED = 3 }; /* parameters before the fields */

/* Assigns uuids and times to the rows that may be stored; the database assigns the ids. */
static void name_records(struct bb_request *rq, struct device_row *read, size_t count)
{
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));

    for (size_t i = 0; i < count; i++) {
        if (read[i].row->problems)
            continue;
        read[i].record.uuid = bb_new_uuid(rq);
        read[i].record.created_at = now;
    }
}

/* Returns the records of the rows that may be stored, in order, and their number in *count. */
static const struct device_record **sound_records(struct bb_request *rq,
                                                  const struct device_row *read, size_t *count)
{
    const struct device_record **records = bb_alloc(rq, (*count + 1) * sizeof(*records));
    size_t all = *count;

    *count = 0;
    for (size_t i = 0; i < all; i++)
        if (!read[i].row->problems)
            records[(*count)++] = &read[i].record;
    return records;
}

/* Writes an element of a PostgreSQL array; NULL becomes null. Returns the end. */
static char *put_text(char *at, const char *text)
{
    if (!text)
        return stpcpy(at, "NULL");
    *at++ = '"';
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            *at++ = '\\';
        *at++ = *text;
    }
    *at++ = '"';
    return at;
}

static const char *text_of(const struct device_record *record, size_t field)
{
    return field < DEVICE_FIELDS ? record->text[field] : record->uuid;
}

/* Formats one field of all records as a PostgreSQL array; index DEVICE_FIELDS means the uuids. */
static const char *array_of(struct bb_request *rq, const struct device_record *const *records,
                            size_t count, size_t field)
{
    size_t room = 3;

    for (size_t i = 0; i < count; i++) {
        const char *text = text_of(records[i], field);

        room += text ? 2 * strlen(text) + 3 : sizeof("NULL,");
    }
    char *array = bb_alloc(rq, room), *at = array;

    *at++ = '{';
    for (size_t i = 0; i < count; i++) {
        if (i)
            *at++ = ',';
        at = put_text(at, text_of(records[i], field));
    }
    *at = '}';
    return array;
}

static const struct bb_rows *insert_all(struct bb_request *rq, struct bb_tx *tx,
                                        const struct bb_bulk_job *job,
                                        const struct device_record *const *records, size_t count)
{
    struct bb_value values[FIXED + DEVICE_FIELDS] = {
        bb_t(array_of(rq, records, count, DEVICE_FIELDS)),
        bb_i(job->organization),
        bb_t(bb_time_text(rq, bb_wall_ms(rq->host))),
    };

    for (size_t i = 0; i < DEVICE_FIELDS; i++)
        values[FIXED + i] = bb_t(array_of(rq, records, count, i));
    return bb_tx_query(rq, tx, &insert, values, FIXED + DEVICE_FIELDS);
}

/* The rows come back in their original order, without the skipped ones. */
static int take_outcome(struct bb_request *rq, struct bb_tx *tx, const struct bb_rows *stored,
                        struct device_row *read, size_t count)
{
    size_t at = 0, all = bb_count(rq, stored);

    for (size_t i = 0; i < count; i++) {
        struct device_record *record = &read[i].record;

        if (read[i].row->problems)
            continue;
        if (at == all || strcmp(bb_cell(rq, stored, at, 0), record->uuid) != 0) {
            bb_bulk_problem(rq, read[i].row, "externalId", DEVICE_TAKEN);
            continue;
        }
        record->id = bb_cell_int(rq, stored, at++, 1);
        if (device_emit_registered(rq, tx, record))
            return -1;
        device_rows_pause(rq, i + 1);
    }
    return 0;
}

int device_rows_store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                      struct bb_bulk_row *const *rows, size_t count)
{
    struct device_row *read = bb_alloc(rq, count * sizeof(*read));

    if (device_rows_read(rq, job, rows, count, read))
        return -1;
    name_records(rq, read, count);
    size_t sound = count;
    const struct device_record *const *records = sound_records(rq, read, &sound);
    const struct bb_rows *stored = insert_all(rq, tx, job, records, sound);

    return stored ? take_outcome(rq, tx, stored, read, count) : -1;
}
