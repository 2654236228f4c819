/*
 * DELETE /api/device/:externalId
 *
 * Deletes the device with its readings and documents. A device with certificates must not change,
 * so this is refused; set its status to Inactive instead.
 */
#include "modules/device/record/device.h"

/* If a module is not loaded, it has no data to delete. */
static int forget_elsewhere(struct bb_request *rq, struct bb_tx *tx, int64_t device)
{
    static const struct bb_sql certificates = {
        "SELECT busbar_require(certificate_forget($1::bigint), 409, 'Conflict: the device has"
        " certificates. Set its status to Inactive instead')",
        BB_SQL_WRITE};
    static const struct bb_sql readings = {"SELECT reading_forget($1::bigint)", BB_SQL_WRITE};

    if (bb_service(rq->host, "certificates").interface &&
        !bb_tx_query(rq, tx, &certificates, BB_ARGS(bb_i(device))))
        return -1;
    if (bb_service(rq->host, "readings").interface &&
        !bb_tx_query(rq, tx, &readings, BB_ARGS(bb_i(device))))
        return -1;
    return 0;
}

/*
 * Takes these locks before the device's own, in the same order as requests that store or void
 * readings.
 */
static int hold_readings(struct bb_request *rq, struct bb_tx *tx, int64_t device)
{
    static const struct bb_sql hold = {"SELECT reading_hold($1::bigint)", BB_SQL_WRITE};

    if (!bb_service(rq->host, "readings").interface)
        return 0;
    return bb_tx_query(rq, tx, &hold, BB_ARGS(bb_i(device))) ? 0 : -1;
}

/* The contents of documents stay in the store until the sweep finds that no document names them. */
static int work(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql lock = {"SELECT FROM device WHERE id = $1::bigint FOR UPDATE", 0};
    static const struct bb_sql documents = {"DELETE FROM device_document WHERE device = $1::bigint",
                                            BB_SQL_WRITE};
    static const struct bb_sql self = {"DELETE FROM device WHERE id = $1::bigint", BB_SQL_WRITE};
    const struct device_record *record = arg;
    const struct bb_rows *found = NULL;

    if (!hold_readings(rq, tx, record->id))
        found = bb_tx_query(rq, tx, &lock, BB_ARGS(bb_i(record->id)));
    if (!found)
        return bb_failed(rq);
    if (!bb_count(rq, found))
        return bb_fail(rq, 404, "Device not found");
    if (forget_elsewhere(rq, tx, record->id) ||
        !bb_tx_query(rq, tx, &documents, BB_ARGS(bb_i(record->id))) ||
        !bb_tx_query(rq, tx, &self, BB_ARGS(bb_i(record->id))) ||
        device_emit(rq, tx, "device.deleted", record))
        return bb_failed(rq);
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

int device_delete(struct bb_request *rq)
{
    struct device_record record;
    int refused = device_find_facts(rq, bb_segment(rq, "externalId"),
                                    bb_arg_int(rq, "organizationId", 0), &record);

    if (refused)
        return refused;
    int status = bb_transaction(rq, work, &record);

    return status ? status : bb_failed(rq);
}
