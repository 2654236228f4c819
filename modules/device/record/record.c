/* A device in the database and in the API. */
#include <stdlib.h>
#include <string.h>

#include "modules/device/record/device.h"

int device_scope(struct bb_request *rq, int64_t asked, struct device_scope *scope)
{
    const struct bb_principal *who = rq->principal;
    int64_t organization;
    int refused = bb_organization(rq, asked, &organization);

    if (refused)
        return refused;
    *scope = (struct device_scope){
        .all = who->role == BB_ROLE_ADMIN && !organization,
        .organizations = who->organizations,
        .count = who->organization_count,
    };
    if (!organization)
        return 0;
    int64_t *only = bb_alloc(rq, sizeof(*only));

    *only = organization;
    scope->organizations = only;
    scope->count = 1;
    return 0;
}

int device_home(struct bb_request *rq, int64_t asked, int64_t *organization)
{
    const struct bb_principal *who = rq->principal;
    int refused = bb_organization(rq, asked, organization);

    if (refused || *organization)
        return refused;
    *organization = who->organization;
    if (who->role == BB_ROLE_API_USER && who->organization_count > 1)
        return bb_invalid(rq, "organizationId", "is required: you act for several organizations");
    if (!*organization && who->organization_count == 1)
        *organization = who->organizations[0];
    return *organization ? 0 : bb_fail(rq, 403, "Your account belongs to no organization");
}

/* The part that the payloads have in common. The caller owns it; NULL: out of memory. */
static json_t *descriptor(const struct device_record *record)
{
    return json_pack("{s:I, s:s, s:s?, s:s?, s:s?, s:I}", "id", (json_int_t)record->id, "uuid",
                     record->uuid, "externalId", record->text[DEVICE_EXTERNAL_ID], "siteName",
                     record->text[DEVICE_SITE_NAME], "serialNumber",
                     record->text[DEVICE_SERIAL_NUMBER], "organizationId",
                     (json_int_t)record->organization);
}

static int emit(struct bb_request *rq, struct bb_tx *tx, const char *name,
                const struct device_record *record, json_t *payload)
{
    struct bb_audience audience = {.size = sizeof(audience), .organization = record->organization};

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
        .organization = bb_cell_int(rq, rows, row, 2),
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
    failed |= json_object_set_new(json, "organizationId", json_integer(record->organization));
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
