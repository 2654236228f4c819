/* The rows of documents. */
#include "device.h"

/* From here on they are documents: nothing of them is to be dropped. */
static void added(struct bb_request *rq, struct bb_tx *tx, void *documents)
{
    (void)rq, (void)tx;
    ((struct device_documents *)documents)->begun = 0;
}

/* With them go the rows of their uploads: where one has gone, its content may have gone, too. */
int device_documents_add(struct bb_request *rq, struct bb_tx *tx, int64_t device,
                         struct device_documents *documents)
{
    static const struct bb_sql add = {
        "WITH r AS (SELECT r.*, ordinality AS place FROM ROWS FROM (jsonb_to_recordset($2::jsonb)"
        " AS (id uuid, field text, name text, type text, size bigint, sha256 text, object text,"
        " \"createdAt\" timestamptz)) WITH ORDINALITY AS r), ins AS ("
        "INSERT INTO device_document (id, device, field, name, type, size, sha256, object,"
        " created_at, place) SELECT id, $1::bigint, field, name, type, size,"
        " decode(sha256, 'hex'), object, \"createdAt\", place FROM r), ended AS ("
        "DELETE FROM device_upload WHERE object IN (SELECT object FROM r) RETURNING 1)"
        " SELECT busbar_require(NOT EXISTS (SELECT FROM (SELECT field FROM r UNION ALL"
        " SELECT field FROM device_document WHERE device = $1::bigint) f GROUP BY field"
        " HAVING count(*) > 10), 409, 'A field has 10 documents at most'),"
        " busbar_require((SELECT count(*) FROM ended) = $3::bigint, 503,"
        " 'The documents took too long')",
        BB_SQL_WRITE};

    if (!documents->rows)
        return 0;
    if (bb_add(rq, tx, &add,
               BB_ARGS(bb_i(device), bb_t(documents->rows), bb_i((int64_t)documents->begun))) < 0)
        return -1;
    bb_after(rq, tx, added, documents);
    return 0;
}
