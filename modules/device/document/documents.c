/* The rows of documents. */
#include <inttypes.h>

#include "modules/device/record/device.h"

/* $1 organization, $2 additional bytes, $3 the quota, $4 the error message */
static const struct bb_sql fit = {
    "SELECT busbar_require(coalesce((SELECT bytes FROM device_usage WHERE organisation ="
    " $1::bigint), 0) + $2::bigint <= $3::bigint, 409, $4)",
    0};

static const char *over_quota(struct bb_request *rq)
{
    const struct device *state = rq->state;

    return bb_format(rq, "The organization may have %" PRId64 " bytes of documents at most",
                     state->settings->documents_per_organization);
}

/*
 * Checked before anything is stored. The transaction checks again and sees what parallel requests
 * have added.
 */
int device_documents_fit(struct bb_request *rq, int64_t organization, int64_t bytes)
{
    const struct device *state = rq->state;

    return bb_query(rq, &fit,
                    BB_ARGS(bb_i(organization), bb_i(bytes),
                            bb_i(state->settings->documents_per_organization),
                            bb_t(over_quota(rq))))
               ? 0
               : bb_failed(rq);
}

/* The files are documents now, so none of them may be dropped. */
static void added(struct bb_request *rq, struct bb_tx *tx, void *documents)
{
    (void)rq, (void)tx;
    ((struct device_documents *)documents)->begun = 0;
}

/*
 * Deletes the uploads' rows too. If one is gone, its content may be gone, so the transaction is
 * refused.
 */
int device_documents_add(struct bb_request *rq, struct bb_tx *tx,
                         const struct device_record *device, struct device_documents *documents)
{
    static const struct bb_sql add = {
        "WITH r AS (SELECT r.*, ordinality AS place FROM ROWS FROM (jsonb_to_recordset($2::jsonb)"
        " AS (id uuid, field text, name text, type text, size bigint, sha256 text, object text,"
        " \"createdAt\" timestamptz)) WITH ORDINALITY AS r), ins AS ("
        "INSERT INTO device_document (id, device, organisation, field, name, type, size, sha256,"
        " object, created_at, place) SELECT id, $1::bigint, $4::bigint, field, name, type, size,"
        " decode(sha256, 'hex'), object, \"createdAt\", place FROM r), ended AS ("
        "DELETE FROM device_upload WHERE object IN (SELECT object FROM r) RETURNING 1)"
        " SELECT busbar_require(NOT EXISTS (SELECT FROM (SELECT field FROM r UNION ALL"
        " SELECT field FROM device_document WHERE device = $1::bigint) f GROUP BY field"
        " HAVING count(*) > 10), 409, 'A field has 10 documents at most'),"
        " busbar_require((SELECT count(*) FROM ended) = $3::bigint, 503,"
        " 'The documents took too long')",
        BB_SQL_WRITE};

    const struct device *state = rq->state;

    if (!documents->rows)
        return 0;
    if (bb_add(rq, tx, &add,
               BB_ARGS(bb_i(device->id), bb_t(documents->rows), bb_i((int64_t)documents->begun),
                       bb_i(device->organization))) < 0 ||
        bb_add(rq, tx, &fit,
               BB_ARGS(bb_i(device->organization), bb_i(0),
                       bb_i(state->settings->documents_per_organization), bb_t(over_quota(rq)))) <
            0)
        return -1;
    bb_after(rq, tx, added, documents);
    return 0;
}

struct removal {
    int64_t device;
    const char *document;
};

/* The content stays in the store until the sweep finds that no document names it. */
static int remove_one(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql lock = {"SELECT FROM device WHERE id = $1::bigint FOR UPDATE", 0};
    static const struct bb_sql remove = {
        "WITH gone AS (DELETE FROM device_document WHERE id = $1::uuid AND device = $2::bigint"
        " RETURNING device) UPDATE device d SET updated_at = greatest(now(), d.updated_at)"
        " FROM gone WHERE d.id = gone.device RETURNING " DEVICE_FACTS,
        BB_SQL_WRITE};
    const struct removal *removal = arg;
    const struct bb_rows *rows = bb_tx_query(rq, tx, &lock, BB_ARGS(bb_i(removal->device)));

    if (rows)
        rows =
            bb_tx_query(rq, tx, &remove, BB_ARGS(bb_t(removal->document), bb_i(removal->device)));
    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "Document not found");
    struct device_record record = device_facts_of(rq, rows, 0);
    const struct device_values unchanged = {.text = {NULL}};

    if (device_emit_updated(rq, tx, &record, &unchanged, true))
        return bb_failed(rq);
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

int device_document_delete(struct bb_request *rq)
{
    struct device_record record;
    int refused = device_find_facts(rq, bb_segment(rq, "externalId"),
                                    bb_arg_int(rq, "organizationId", 0), &record);

    if (refused)
        return refused;
    struct removal removal = {record.id, bb_segment(rq, "documentId")};

    return bb_transaction(rq, remove_one, &removal);
}
