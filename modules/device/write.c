/* Registers, changes and deletes devices. */
#include <string.h>

#include "modules/device/device.h"

/* Responds to a failed write of a device, like bb_failed(), but names the violated rule. */
static int write_failed(struct bb_request *rq)
{
    if (!strcmp(bb_constraint(rq), "device_external_key"))
        return bb_fail(rq, 409, DEVICE_TAKEN);
    if (!strcmp(bb_constraint(rq), "device_attributes_size"))
        return bb_invalid(rq, "attributes", DEVICE_ATTRIBUTES_LONG);
    return bb_failed(rq);
}

/*
 * ---- POST /api/device ----
 *
 * Stores the device, its documents and the event in one unit.
 */

/* $1 id, $2 uuid, $3 organization, $4 the fields as JSON, $5 attributes, $6 time, $7 status */
static const struct bb_sql insert = {
    "INSERT INTO device (id, uuid, organisation, " DEVICE_STORED ", attributes, created_at,"
    " updated_at, status) SELECT $1::bigint, $2::uuid, $3::bigint, " DEVICE_STORED ", $5::jsonb,"
    " $6::timestamptz, $6::timestamptz, $7 FROM jsonb_populate_record(NULL::device, $4::jsonb)",
    BB_SQL_WRITE,
};

int device_register(struct bb_request *rq)
{
    struct device_values values = device_read_body(rq, true);
    struct device_record record = {.id = 0};
    int refused = bb_home(rq, values.organization, &record.organization);

    if (refused)
        return refused;
    record.id = bb_next_id(rq, "device_id");
    if (record.id < 0)
        return bb_failed(rq);
    struct device_documents documents = device_documents_take(rq, record.organization);

    memcpy(record.text, values.text, sizeof(record.text));
    record.uuid = bb_new_uuid(rq);
    record.status = values.status ? values.status : "Active";
    record.attributes = values.attributes ? values.attributes : "{}";
    record.created_at = bb_time_text(rq, bb_wall_ms(rq->host));
    record.updated_at = record.created_at;
    record.documents = documents.shown;
    int status = device_warn_duplicates(rq, NULL, &record) ? bb_failed(rq) : 0;
    const char *fields = bb_json(rq, device_stored_json(rq, record.text, NULL), NULL);
    /* storing documents locks a row of the organization, so such units must run one by one */
    struct bb_tx *unit = bb_unit(rq, (uint64_t)(documents.rows ? record.organization : record.id));

    if (!status && (!unit ||
                    bb_add(rq, unit, &insert,
                           BB_ARGS(bb_i(record.id), bb_t(record.uuid), bb_i(record.organization),
                                   bb_t(fields), bb_t(record.attributes), bb_t(record.created_at),
                                   bb_t(record.status))) < 0 ||
                    device_documents_add(rq, unit, &record, &documents) ||
                    device_emit(rq, unit, "device.registered", &record, NULL)))
        status = bb_failed(rq);
    if (!status)
        status = bb_commit(rq, unit, 201, device_json(rq, &record));
    if (!status)
        status = write_failed(rq);

    /*
     * Deletes files that have not become documents. This is also needed after a 201, which may be
     * the stored response of another request with the same Idempotency-Key.
     */
    device_documents_drop(rq, &documents);
    return status;
}

/*
 * ---- PATCH by identifier and by site ----
 *
 * The UPDATE sets only the fields that were sent; null clears a field. So parallel requests do not
 * overwrite each other's fields. New files alone are a change, too. A PATCH that changes nothing
 * (an empty body, or the values that the device already has) returns the device, writes nothing and
 * raises no event.
 */

/*
 * $1 id, $2 the fields to change as JSON, $3 attributes to set as JSON, $4 time, $5 whether there
 * are files, $6 names of attributes to remove, $7 whether to remove all old attributes
 */
#define NEW_FIELDS "jsonb_populate_record(d, $2::jsonb)"
#define NEW_ATTRIBUTES                                                                             \
    "(CASE WHEN $7::boolean THEN '{}' ELSE attributes END || coalesce($3::jsonb, '{}'))"           \
    " - ARRAY(SELECT jsonb_array_elements_text($6::jsonb))"

static const struct bb_sql update = {
    "UPDATE device d SET (" DEVICE_STORED ", status) = (SELECT " DEVICE_STORED ", status"
    " FROM " NEW_FIELDS "), attributes = " NEW_ATTRIBUTES ","
    " updated_at = greatest($4::timestamptz, updated_at) WHERE id = $1::bigint AND ($5::boolean"
    " OR " NEW_FIELDS " IS DISTINCT FROM d OR attributes <> " NEW_ATTRIBUTES ")"
    " RETURNING " DEVICE_COLUMNS,
    BB_SQL_WRITE,
};

static const struct bb_sql lock = {
    "SELECT commissioning_date FROM device WHERE id = $1::bigint FOR UPDATE", 0};

struct change {
    struct device_record device; /* as it was before the change */
    struct device_values values;
    struct device_documents documents;
};

/* The columns of a query for whether modules have created their functions. Their data stays when
 * they are not loaded any more. */
enum { ALWAYS, READINGS, CERTIFICATES };
#define CREATED(readings, certificates)                                                            \
    "SELECT 1, (to_regprocedure('" readings "') IS NOT NULL)::int,"                                \
    " (to_regprocedure('" certificates "') IS NOT NULL)::int"

/* Checks the device after a change. `later`: its commissioning date is later than before. Ends the
 * request, and so rolls back, if the device is not valid. An Inactive device leaves its group,
 * beginning with the next cycle. */
static void update_check(struct bb_request *rq, struct bb_tx *tx,
                         const struct device_values *values, const struct device_record *record,
                         bool later)
{
    /* The device cannot have generated energy before its commissioning date. Not checked if the
     * date stays, because the day of a stored reading is in the time zone of its request. */
    static const struct bb_sql require_date = {
        "SELECT busbar_require(false, 409, 'Conflict: commissioningDate is after the start of a"
        " stored reading, ' || " BB_SQL_TIME(
            "f.start") ") FROM device d, reading_first_start(d.id) f (start)"
                       " WHERE d.id = $1::bigint AND f.start < "
                       "least(d.commissioning_date::timestamp AT TIME ZONE 'UTC',"
                       " d.commissioning_date::timestamp AT TIME ZONE coalesce(d.timezone, 'UTC'))",
        0};
    /* These values were used to check readings, and are used again when cycles are issued. */
    static const struct bb_sql require_values = {
        "SELECT busbar_require(f.start IS NULL, 409, 'Conflict: ' || $2::text || ' cannot be"
        " cleared, because the device has readings') FROM reading_first_start($1::bigint) f "
        "(start)",
        0};
    static const struct bb_sql leave = {"SELECT certificate_leave($1::bigint, NULL)", BB_SQL_WRITE};
    static const struct bb_sql created = {
        CREATED("reading_first_start(bigint)", "certificate_leave(bigint,bigint)"), 0};
    const char *cleared = values->cleared[DEVICE_CAPACITY]             ? "capacity"
                          : values->cleared[DEVICE_COMMISSIONING_DATE] ? "commissioningDate"
                                                                       : NULL;

    if (!record->text[DEVICE_EXTERNAL_ID] && !record->text[DEVICE_SITE_NAME] &&
        !record->text[DEVICE_SERIAL_NUMBER])
        bb_end(rq, bb_invalid(rq, "externalId", DEVICE_UNNAMED));
    if (values->attributes)
        device_attributes_check(rq, record->attributes);
    if (!later && !cleared && strcmp(record->status, "Inactive"))
        return;
    const struct bb_rows *stored = bb_tx_query_or_end(rq, tx, &created, NULL, 0);

    if (bb_cell_int(rq, stored, 0, READINGS) && later)
        bb_tx_query_or_end(rq, tx, &require_date, BB_ARGS(bb_i(record->id)));
    if (bb_cell_int(rq, stored, 0, READINGS) && cleared)
        bb_tx_query_or_end(rq, tx, &require_values, BB_ARGS(bb_i(record->id), bb_t(cleared)));
    if (bb_cell_int(rq, stored, 0, CERTIFICATES) && !strcmp(record->status, "Inactive"))
        bb_tx_query_or_end(rq, tx, &leave, BB_ARGS(bb_i(record->id)));
}

static json_t *update_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    struct device_record record = device_record_of(rq, rows, row);

    return device_json(rq, &record);
}

/*
 * Locks the device's row first, so that parallel requests cannot together exceed the limit of
 * documents, both pass If-Match, or compare the commissioning date with an older one.
 */
static int update_work(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql as_it_is = {
        "SELECT " DEVICE_COLUMNS " FROM device d WHERE id = $1::bigint", 0};
    struct change *change = arg;
    const struct device_values *values = &change->values;
    const char *const *text = values->text;
    const char *date = text[DEVICE_COMMISSIONING_DATE], *old_date = NULL;
    json_t *fields = device_stored_json(rq, text, values->cleared);

    if (change->documents.rows || bb_header(rq, "If-Match") || date) {
        const struct bb_rows *locked =
            bb_tx_query_or_end(rq, tx, &lock, BB_ARGS(bb_i(change->device.id)));

        if (!bb_count(rq, locked))
            return bb_fail(rq, 404, DEVICE_NONE);
        old_date = bb_cell(rq, locked, 0, 0);
    }
    bb_if_match_or_end(rq, tx, &as_it_is, BB_ARGS(bb_i(change->device.id)), update_json);
    if (change->documents.rows && device_documents_add(rq, tx, &change->device, &change->documents))
        return bb_failed(rq);
    if (values->status)
        bb_set(rq, fields, "status", json_string(values->status));
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));
    const struct bb_rows *rows = bb_tx_query(
        rq, tx, &update,
        BB_ARGS(bb_i(change->device.id), bb_t(bb_json(rq, fields, NULL)), bb_t(values->attributes),
                bb_t(now), bb_b(change->documents.rows != NULL), bb_t(values->null_attributes),
                bb_b(values->clear_attributes)));

    if (!rows)
        return write_failed(rq);
    bool changed = bb_count(rq, rows) > 0;

    if (!changed)
        rows = bb_tx_query_or_end(rq, tx, &as_it_is, BB_ARGS(bb_i(change->device.id)));
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, DEVICE_NONE);
    struct device_record record = device_record_of(rq, rows, 0);
    bool moved = text[DEVICE_SERIAL_NUMBER] || text[DEVICE_CAPACITY] || text[DEVICE_LATITUDE] ||
                 text[DEVICE_LONGITUDE]; /* fields by which duplicates are found */

    if (!changed)
        return bb_reply(rq, 200, device_json(rq, &record));
    update_check(rq, tx, values, &record, date && (!old_date || strcmp(date, old_date) > 0));
    if (moved && device_warn_duplicates(rq, tx, &record))
        return bb_failed(rq);
    json_t *names = json_array(); /* of the fields that were sent */

    for (enum device_field field = 0; field < DEVICE_FIELDS; field++)
        if (text[field] || values->cleared[field])
            json_array_append_new(names, json_string(device_fields[field].name));
    if (values->attributes || values->null_attributes || values->clear_attributes)
        json_array_append_new(names, json_string("attributes"));
    if (values->status)
        json_array_append_new(names, json_string("status"));
    if (change->documents.rows)
        json_array_append_new(names, json_string("documents"));
    if (device_emit(rq, tx, "device.updated", &record, names))
        return bb_failed(rq);
    return bb_reply(rq, 200, device_json(rq, &record));
}

static int update_device(struct bb_request *rq, enum device_look_up how, const char *segment)
{
    struct change change = {.values = device_read_body(rq, false)};
    int refused =
        device_find(rq, how, bb_segment(rq, segment), change.values.organization, &change.device);

    if (refused)
        return refused;
    change.documents = device_documents_take(rq, change.device.organization);
    int status = bb_transaction(rq, update_work, &change);

    device_documents_drop(rq, &change.documents);
    return status;
}

int device_update(struct bb_request *rq)
{
    return update_device(rq, DEVICE_WHOLE, "externalId");
}

int device_update_site(struct bb_request *rq)
{
    return update_device(rq, DEVICE_AT_SITE, "siteName");
}

/*
 * ---- DELETE /api/device/:externalId ----
 *
 * Deletes the device with its readings and documents. A device with certificates cannot be deleted:
 * the request is refused. Set its status to Inactive instead.
 */

static int delete_work(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    /* Locks readings before the device, in the same order as requests that store or void readings,
     * to avoid deadlocks. */
    static const struct bb_sql created = {
        CREATED("reading_forget(bigint)", "certificate_forget(bigint)"), 0};
    static const struct {
        size_t column; /* of `created`: whether the step runs */
        struct bb_sql sql;
    } steps[] = {
        {READINGS, {"SELECT reading_hold($1::bigint)", BB_SQL_WRITE}},
        {ALWAYS,
         {"SELECT busbar_require((SELECT count(*) FROM (SELECT FROM device WHERE id = $1::bigint"
          " FOR UPDATE) d) = 1, 404, 'Device not found')",
          BB_SQL_WRITE}},
        {CERTIFICATES,
         {"SELECT busbar_require(certificate_forget($1::bigint), 409, 'Conflict: the device has"
          " certificates. Set its status to Inactive instead')",
          BB_SQL_WRITE}},
        {READINGS, {"SELECT reading_forget($1::bigint)", BB_SQL_WRITE}},
        {ALWAYS, {"DELETE FROM device_document WHERE device = $1::bigint", BB_SQL_WRITE}},
        {ALWAYS, {"DELETE FROM device WHERE id = $1::bigint", BB_SQL_WRITE}},
    };
    const struct device_record *record = arg;
    const struct bb_rows *stored = bb_tx_query_or_end(rq, tx, &created, NULL, 0);

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (bb_cell_int(rq, stored, 0, steps[i].column))
            bb_tx_query_or_end(rq, tx, &steps[i].sql, BB_ARGS(bb_i(record->id)));
    if (device_emit(rq, tx, "device.deleted", record, NULL))
        return bb_failed(rq);
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

int device_delete(struct bb_request *rq)
{
    struct device_record record = device_in_path(rq, DEVICE_ONLY_FACTS);

    return bb_transaction(rq, delete_work, &record);
}
