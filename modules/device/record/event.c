/* The events device.registered, device.updated and device.deleted. */
#include "modules/device/record/device.h"

/* The part that the payloads have in common. The caller owns it; NULL: out of memory. */
static json_t *descriptor(const struct device_record *record)
{
    return json_pack("{s:I, s:s, s:s?, s:s?, s:s?, s:I}", "id", (json_int_t)record->id, "uuid",
                     record->uuid, "externalId", record->text[DEVICE_EXTERNAL_ID], "siteName",
                     record->text[DEVICE_SITE_NAME], "serialNumber",
                     record->text[DEVICE_SERIAL_NUMBER], "organizationId",
                     (json_int_t)record->organisation);
}

static int emit(struct bb_request *rq, struct bb_tx *tx, const char *name,
                const struct device_record *record, json_t *payload)
{
    struct bb_audience audience = {.size = sizeof(audience), .organisation = record->organisation};

    return bb_emit(rq, tx, name, payload, &audience);
}

int device_emit_registered(struct bb_request *rq, struct bb_tx *tx,
                           const struct device_record *record)
{
    return emit(rq, tx, "device.registered", record,
                json_pack("{s:o}", "device", descriptor(record)));
}

/* `changed` has the names of the fields that were sent. */
int device_emit_updated(struct bb_request *rq, struct bb_tx *tx, const struct device_record *record,
                        const struct device_values *values, bool documents)
{
    json_t *changed = json_array();

    for (enum device_field field = 0; field < DEVICE_FIELDS; field++)
        if (values->text[field] || values->cleared[field])
            json_array_append_new(changed, json_string(device_field_name(field)));
    if (values->attributes || values->null_attributes || values->clear_attributes)
        json_array_append_new(changed, json_string("attributes"));
    if (values->status)
        json_array_append_new(changed, json_string("status"));
    if (documents)
        json_array_append_new(changed, json_string("documents"));
    return emit(rq, tx, "device.updated", record,
                json_pack("{s:o, s:o}", "device", descriptor(record), "changed", changed));
}

int device_emit_deleted(struct bb_request *rq, struct bb_tx *tx, const struct device_record *record)
{
    return emit(rq, tx, "device.deleted", record, json_pack("{s:o}", "device", descriptor(record)));
}
