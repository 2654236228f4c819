/* A device in the database and in the API. */
#include <stdlib.h>
#include <string.h>

#include "modules/device/record/device.h"

int device_failed(struct bb_request *rq)
{
    if (!strcmp(bb_constraint(rq), "device_external_key"))
        return bb_fail(rq, 409, DEVICE_TAKEN);
    if (!strcmp(bb_constraint(rq), "device_attributes_size"))
        return bb_invalid(rq, "attributes", DEVICE_ATTRIBUTES_LONG);
    return bb_failed(rq);
}

/* Reads a row that begins with DEVICE_FACTS. */
struct device_record device_facts_of(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    struct device_record record = {
        .id = bb_cell_int(rq, rows, row, 0),
        .uuid = bb_cell(rq, rows, row, 1),
        .organisation = bb_cell_int(rq, rows, row, 2),
    };

    for (enum device_field field = 0; field < DEVICE_FIELDS; field++)
        record.text[field] = bb_cell(rq, rows, row, 3 + field);
    record.status = bb_cell(rq, rows, row, 3 + DEVICE_FIELDS);
    return record;
}

/* Reads a row that begins with DEVICE_COLUMNS. */
struct device_record device_record_of(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    struct device_record record = device_facts_of(rq, rows, row);

    record.attributes = bb_cell(rq, rows, row, DEVICE_FACT_COUNT);
    record.documents = bb_cell(rq, rows, row, DEVICE_FACT_COUNT + 1);
    record.created_at = bb_cell(rq, rows, row, DEVICE_FACT_COUNT + 2);
    record.updated_at = bb_cell(rq, rows, row, DEVICE_FACT_COUNT + 3);
    return record;
}

static json_t *field_json(enum device_field field, const char *text)
{
    if (!text)
        return json_null();
    return device_field_number(field) ? json_real(strtod(text, NULL)) : json_string(text);
}

json_t *device_facts_json(const struct device_record *record)
{
    json_t *json = json_pack("{s:I, s:s}", "id", (json_int_t)record->id, "uuid", record->uuid);
    int failed = json ? 0 : -1;

    for (enum device_field field = 0; field < DEVICE_FIELDS; field++)
        failed |= json_object_set_new(json, device_field_name(field),
                                      field_json(field, record->text[field]));
    failed |= json_object_set_new(json, "organizationId", json_integer(record->organisation));
    failed |= json_object_set_new(json, "status", json_string(record->status));
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}

json_t *device_json(struct bb_request *rq, const struct device_record *record)
{
    json_t *json = device_facts_json(record);
    int failed = json_object_set_new(json, "attributes", device_parsed(rq, record->attributes));

    failed |= json_object_set_new(json, "documents", device_parsed(rq, record->documents));
    failed |= json_object_set_new(json, "createdAt", json_string(record->created_at));
    failed |= json_object_set_new(json, "updatedAt", json_string(record->updated_at));
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}
