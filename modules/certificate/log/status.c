/* PATCH /api/certificate-log/:id: sets the outcome at an external issuer. */
#include <string.h>

#include "modules/certificate/base/certificate.h"

static bool may_issue(struct bb_request *rq)
{
    const struct certificate *certificate = rq->state;
    size_t i;
    json_t *email;

    if (rq->principal->role == BB_ROLE_ADMIN)
        return true;
    json_array_foreach(certificate->settings->issuers, i, email)
    {
        if (!strcmp(json_string_value(email), rq->principal->email))
            return true;
    }
    return false;
}

/*
 * $1 entry, $2 status. Succeeded and Cancelled are final, but may be set again. A carried entry is
 * not issued yet.
 */
static const struct bb_sql change = {
    "WITH e AS (SELECT id, status FROM certificate_entry WHERE id = $1::bigint FOR UPDATE),"
    " changed AS (UPDATE certificate_entry c SET status = $2::text FROM e WHERE c.id = e.id"
    " AND e.status NOT IN ('Succeeded', 'Cancelled', 'Carried') RETURNING c.id)"
    " SELECT e.status, EXISTS (SELECT FROM changed) OR e.status = $2::text FROM e",
    BB_SQL_WRITE};

static const struct bb_sql get = {
    "SELECT " CERTIFICATE_COLUMNS " FROM certificate_entry e"
    " JOIN certificate c ON c.id = e.certificate WHERE e.id = $1::bigint",
    0};

static int answer(struct bb_request *rq, int64_t id)
{
    const struct bb_rows *rows = bb_query(rq, &get, BB_ARGS(bb_i(id)));
    const struct bb_device *devices = rows ? certificate_devices(rq, rows, 1) : NULL;

    if (!devices)
        return bb_failed(rq);
    return certificate_reply(rq, 200, certificate_entry(rq, rows, 0, devices));
}

/* An entry that does not exist is reported as such, whoever the issuer is. */
static int refuse_internal(struct bb_request *rq, int64_t id)
{
    const struct bb_rows *rows = bb_query(rq, &get, BB_ARGS(bb_i(id)));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "Certificate log entry not found");
    return bb_fail(rq, 409, "Certificates are issued internally: certificate.issuer");
}

int certificate_change(struct bb_request *rq)
{
    const struct certificate *certificate = rq->state;
    int64_t id = bb_segment_int(rq, "id");

    if (!may_issue(rq))
        return bb_fail(rq, 403, "Forbidden");
    if (certificate->internal)
        return refuse_internal(rq, id);
    const struct bb_rows *rows =
        bb_query(rq, &change, BB_ARGS(bb_i(id), bb_t(bb_text(rq, "status"))));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "Certificate log entry not found");
    if (!bb_cell_int(rq, rows, 0, 1))
        return bb_fail(rq, 409, "The entry is %s, which %s", bb_cell(rq, rows, 0, 0),
                       strcmp(bb_cell(rq, rows, 0, 0), "Carried") != 0 ? "is final"
                                                                       : "is not issued yet");
    return answer(rq, id);
}
