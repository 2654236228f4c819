/* POST /api/device: stores the device, its documents and the event in one unit. */
#include <string.h>

#include "modules/device/record/device.h"

/* $1 id, $2 uuid, $3 organization, $4 to $16 the fields, $17 attributes, $18 time, $19 status */
static const struct bb_sql insert = {
    "INSERT INTO device (id, uuid, organisation, external_id, site_name, country_code,"
    " commissioning_date, capacity, address, latitude, longitude, fuel_code, device_type_code,"
    " serial_number, timezone, yield_value, attributes, created_at, updated_at, status)"
    " VALUES ($1::bigint, $2::uuid, $3::bigint, $4, $5, $6, $7::date, $8::float8, $9, $10, $11,"
    " $12, $13, $14, $15, $16::float8, $17::jsonb, $18::timestamptz, $18::timestamptz, $19)",
    BB_SQL_WRITE,
};

static int add(struct bb_request *rq, struct bb_tx *unit, const struct device_record *record)
{
    const char *const *text = record->text;

    return bb_add(rq, unit, &insert,
                  BB_ARGS(bb_i(record->id), bb_t(record->uuid), bb_i(record->organization),
                          bb_t(text[0]), bb_t(text[1]), bb_t(text[2]), bb_t(text[3]), bb_t(text[4]),
                          bb_t(text[5]), bb_t(text[6]), bb_t(text[7]), bb_t(text[8]), bb_t(text[9]),
                          bb_t(text[10]), bb_t(text[11]), bb_t(text[12]), bb_t(record->attributes),
                          bb_t(record->created_at), bb_t(record->status)));
}

static int store(struct bb_request *rq, const struct device_record *record,
                 struct device_documents *documents)
{
    /* adding documents locks the row that counts the organization's bytes */
    int64_t locks = documents->rows ? record->organization : record->id;
    struct bb_tx *unit = bb_unit(rq, (uint64_t)locks);

    if (!unit || add(rq, unit, record) < 0 || device_documents_add(rq, unit, record, documents) ||
        device_emit(rq, unit, "device.registered", record))
        return bb_failed(rq);
    json_t *json = device_json(rq, record);

    if (!json)
        return bb_no_memory(rq);
    int status = bb_commit(rq, unit, 201, json);

    return status ? status : device_failed(rq);
}

int device_register(struct bb_request *rq)
{
    struct device_values values;
    struct device_documents documents = {.shown = "[]"};
    struct device_record record = {.id = 0};
    int refused = device_read_body(rq, true, &values);

    if (!refused)
        refused = device_home(rq, values.organization, &record.organization);
    if (!refused) {
        record.id = bb_next_id(rq, "device_id");
        refused = record.id < 0 ? bb_failed(rq)
                                : device_documents_take(rq, record.organization, &documents);
    }
    if (refused)
        return refused;
    memcpy(record.text, values.text, sizeof(record.text));
    record.uuid = bb_new_uuid(rq);
    record.status = values.status ? values.status : "Active";
    record.attributes = values.attributes ? values.attributes : "{}";
    record.created_at = bb_time_text(rq, bb_wall_ms(rq->host));
    record.updated_at = record.created_at;
    record.documents = documents.shown;
    int status =
        device_warn_duplicates(rq, NULL, &record) ? bb_failed(rq) : store(rq, &record, &documents);

    /*
     * The 201 may also be the stored response of another request with the same Idempotency-Key;
     * then these files are not documents.
     */
    device_documents_drop(rq, &documents);
    return status;
}
