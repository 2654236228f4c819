/*
 * PATCH by identifier and by site: one UPDATE of the fields that were sent; null clears a field.
 * Parallel requests wait for the row's lock, so each keeps the other's fields. New files alone are
 * a change too. A PATCH that changes nothing (an empty body, or the values that the device already
 * has) returns the device, writes nothing and raises no event.
 */
#include <string.h>

#include "modules/device/record/device.h"

/*
 * $1 id, $2 to $14 the fields, $15 attributes, $16 time, $17 whether there are files, $18 status,
 * $19 the fields that become null, as a set of bits, $20 names of attributes to remove, $21 whether
 * to remove all. Fields without a value stay.
 */
#define NEW(bit, column, value)                                                                    \
    "CASE WHEN $19::int >> " #bit " & 1 = 1 THEN NULL ELSE coalesce(" value ", " #column ") END"
#define NEW_ATTRIBUTES                                                                             \
    "(CASE WHEN $21::boolean THEN '{}' ELSE attributes END || coalesce($15::jsonb, '{}'))"         \
    " - ARRAY(SELECT jsonb_array_elements_text($20::jsonb))"
#define COLUMNS                                                                                    \
    "(external_id, site_name, country_code, commissioning_date, capacity, address, latitude,"      \
    " longitude, fuel_code, device_type_code, serial_number, timezone, yield_value, attributes,"   \
    " status)"
// clang-format off
#define VALUES                                                                                     \
    "(" NEW(0, external_id, "$2") ", " NEW(1, site_name, "$3") ", " NEW(2, country_code, "$4")     \
    ", " NEW(3, commissioning_date, "$5::date") ", " NEW(4, capacity, "$6::float8")                \
    ", " NEW(5, address, "$7") ", " NEW(6, latitude, "$8") ", " NEW(7, longitude, "$9")            \
    ", " NEW(8, fuel_code, "$10") ", " NEW(9, device_type_code, "$11")                             \
    ", " NEW(10, serial_number, "$12") ", " NEW(11, timezone, "$13")                               \
    ", " NEW(12, yield_value, "$14::float8") ", " NEW_ATTRIBUTES ", coalesce($18, status))"
// clang-format on

static const struct bb_sql update = {
    "UPDATE device d SET " COLUMNS " = ROW" VALUES
    ", updated_at = greatest($16::timestamptz, updated_at)"
    " WHERE id = $1::bigint AND ($17::boolean OR " VALUES " IS DISTINCT FROM " COLUMNS ")"
    " RETURNING " DEVICE_COLUMNS,
    BB_SQL_WRITE,
};

static const struct bb_sql as_it_is = {
    "SELECT " DEVICE_COLUMNS " FROM device d WHERE id = $1::bigint", 0};

struct change {
    struct device_record device; /* as it was before the change */
    struct device_values values;
    struct device_documents documents;
};

static const struct bb_rows *run(struct bb_request *rq, struct bb_tx *tx,
                                 const struct change *change)
{
    const char *const *text = change->values.text;
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));
    int64_t cleared = 0;

    for (int field = 0; field < DEVICE_FIELDS; field++)
        cleared |= (int64_t)change->values.cleared[field] << field;

    return bb_tx_query(
        rq, tx, &update,
        BB_ARGS(bb_i(change->device.id), bb_t(text[0]), bb_t(text[1]), bb_t(text[2]), bb_t(text[3]),
                bb_t(text[4]), bb_t(text[5]), bb_t(text[6]), bb_t(text[7]), bb_t(text[8]),
                bb_t(text[9]), bb_t(text[10]), bb_t(text[11]), bb_t(text[12]),
                bb_t(change->values.attributes), bb_t(now), bb_b(change->documents.rows != NULL),
                bb_t(change->values.status), bb_i(cleared), bb_t(change->values.null_attributes),
                bb_b(change->values.clear_attributes)));
}

static int unchanged(struct bb_request *rq, struct bb_tx *tx, const struct change *change)
{
    const struct bb_rows *rows = bb_tx_query(rq, tx, &as_it_is, BB_ARGS(bb_i(change->device.id)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "Device not found");
    struct device_record record = device_record_of(rq, rows, 0);

    return bb_reply(rq, 200, device_json(rq, &record));
}

/*
 * Documents are counted under the lock of the device's row, so that parallel requests cannot exceed
 * the limit.
 */
static int add_documents(struct bb_request *rq, struct bb_tx *tx, struct change *change)
{
    static const struct bb_sql lock = {"SELECT FROM device WHERE id = $1::bigint FOR UPDATE", 0};

    if (!change->documents.rows)
        return 0;
    if (!bb_tx_query(rq, tx, &lock, BB_ARGS(bb_i(change->device.id))))
        return -1;
    return device_documents_add(rq, tx, &change->device, &change->documents);
}

/*
 * Refuses a commissioning date after the first reading, because the device cannot have generated
 * energy before it.
 */
static int refuse_commissioning(struct bb_request *rq, struct bb_tx *tx, int64_t device)
{
    static const struct bb_sql find = {
        "SELECT (extract(epoch FROM f.start) * 1000)::bigint FROM device d,"
        " reading_first_start(d.id) f (start) WHERE d.id = $1::bigint"
        " AND f.start < least(d.commissioning_date::timestamp AT TIME ZONE 'UTC',"
        " d.commissioning_date::timestamp AT TIME ZONE coalesce(d.timezone, 'UTC'))",
        0};
    const struct bb_rows *rows = bb_tx_query(rq, tx, &find, BB_ARGS(bb_i(device)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return 0;
    return bb_fail(rq, 409,
                   "Conflict: commissioningDate is after the start of a stored reading, %s",
                   bb_time_text(rq, bb_cell_int(rq, rows, 0, 0)));
}

/*
 * The commissioning date and capacity of a device with readings cannot be cleared: its readings
 * were checked with both, and issuing cycles still use them.
 */
static int refuse_clearing(struct bb_request *rq, struct bb_tx *tx,
                           const struct device_values *values, int64_t device)
{
    static const struct bb_sql find = {"SELECT FROM reading_first_start($1::bigint) f (start)"
                                       " WHERE f.start IS NOT NULL",
                                       0};
    const struct bb_rows *rows = bb_tx_query(rq, tx, &find, BB_ARGS(bb_i(device)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return 0;
    return bb_fail(rq, 409, "Conflict: %s cannot be cleared, because the device has readings",
                   values->cleared[DEVICE_CAPACITY] ? "capacity" : "commissioningDate");
}

/* Returns whether the device still has one of the names that a registration needs. */
static bool is_named(const struct device_record *record)
{
    return record->text[DEVICE_EXTERNAL_ID] || record->text[DEVICE_SITE_NAME] ||
           record->text[DEVICE_SERIAL_NUMBER];
}

/*
 * Checks the result of a change; if it is refused, the change is rolled back. Returns 0, or the
 * status of the response sent.
 */
static int refuse(struct bb_request *rq, struct bb_tx *tx, const struct device_values *values,
                  const struct device_record *record)
{
    bool readings = bb_service(rq->host, "readings").interface;
    int refused = 0;

    if (!is_named(record))
        refused = bb_invalid(rq, "externalId", DEVICE_UNNAMED);
    if (!refused && values->attributes)
        refused = device_attributes_check(rq, record->attributes);
    if (!refused && readings && values->text[DEVICE_COMMISSIONING_DATE])
        refused = refuse_commissioning(rq, tx, record->id);
    if (!refused && readings &&
        (values->cleared[DEVICE_COMMISSIONING_DATE] || values->cleared[DEVICE_CAPACITY]))
        refused = refuse_clearing(rq, tx, values, record->id);
    return refused;
}

/* An Inactive device leaves its group; the next cycle is the first without it. */
static int leave_group(struct bb_request *rq, struct bb_tx *tx, const struct device_record *record)
{
    static const struct bb_sql leave = {"SELECT certificate_leave($1::bigint, NULL)", BB_SQL_WRITE};

    if (!bb_service(rq->host, "certificates").interface || strcmp(record->status, "Inactive") != 0)
        return 0;
    return bb_tx_query(rq, tx, &leave, BB_ARGS(bb_i(record->id))) ? 0 : -1;
}

/* Returns whether the change affects values by which duplicates are found. */
static bool is_moved(const struct device_values *values)
{
    return values->text[DEVICE_SERIAL_NUMBER] || values->text[DEVICE_CAPACITY] ||
           values->text[DEVICE_LATITUDE] || values->text[DEVICE_LONGITUDE];
}

static int work(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct change *change = arg;

    if (add_documents(rq, tx, change))
        return bb_failed(rq);
    const struct bb_rows *rows = run(rq, tx, change);

    if (!rows)
        return device_failed(rq);
    if (bb_count(rq, rows) == 0)
        return unchanged(rq, tx, change);
    struct device_record record = device_record_of(rq, rows, 0);
    int refused = refuse(rq, tx, &change->values, &record);

    if (refused)
        return refused;
    if ((is_moved(&change->values) && device_warn_duplicates(rq, tx, &record)) ||
        leave_group(rq, tx, &record) ||
        device_emit_updated(rq, tx, &record, &change->values, change->documents.rows != NULL))
        return bb_failed(rq);
    return bb_reply(rq, 200, device_json(rq, &record));
}

static int apply(struct bb_request *rq, const char *name,
                 int (*find)(struct bb_request *, const char *, int64_t, struct device_record *))
{
    struct change change;
    int refused = device_read_body(rq, false, &change.values);

    if (!refused)
        refused = find(rq, bb_segment(rq, name), change.values.organization, &change.device);
    if (!refused)
        refused = device_documents_take(rq, change.device.organization, &change.documents);
    if (refused)
        return refused;
    int status = bb_transaction(rq, work, &change);

    device_documents_drop(rq, &change.documents);
    return status;
}

int device_update(struct bb_request *rq)
{
    return apply(rq, "externalId", device_find);
}

int device_update_site(struct bb_request *rq)
{
    return apply(rq, "siteName", device_find_site);
}
