/*
 * The historical-issuance job: each History reading that reaches the threshold makes a certificate
 * with one entry, for its own period. A device's fresh readings are taken and issued in one
 * transaction; what is issued already is found by the key of its entry.
 */
#include "certificate.h"

#define DEVICES 1     /* in a transaction: who posts for one of them waits for its end */
#define READINGS 1000 /* of a device, in a statement */

static const struct bb_sql take = {
    "SELECT t.device, t.first, t.last FROM reading_take_fresh('H', $1::int) t", BB_SQL_WRITE};

/*
 * $1 device, $2 organisation, $3 and $4 where the readings end, $5 threshold, $6 how many. What it
 * issued is left out the next time, so it is run until it issues less.
 */
static const struct bb_sql issue = {
    "WITH r AS (SELECT nextval('certificate_id') AS id, gen_random_uuid() AS uid, h.* FROM ("
    "SELECT h.start_at, h.end_at, h.wh FROM reading_histories($1::bigint, $3::timestamptz,"
    " $4::timestamptz) h WHERE h.wh >= $5::bigint AND NOT EXISTS (SELECT FROM certificate_entry e"
    " WHERE e.device = $1::bigint AND e.start_at = h.start_at AND e.group_id IS NULL)"
    " ORDER BY h.start_at LIMIT $6::int) h),"
    " made AS (INSERT INTO certificate (id, uid, organisation, start_at, end_at, issued_wh,"
    " created_at) SELECT id, uid, $2::bigint, start_at, end_at, wh, now() FROM r),"
    " entries AS (INSERT INTO certificate_entry (certificate, organisation, device, start_at,"
    " end_at, wh) SELECT id, $2::bigint, $1::bigint, start_at, end_at, wh FROM r ORDER BY id),"
    " day AS (INSERT INTO certificate_day AS c (organisation, day, entries)"
    " SELECT o.id, d.day, d.n FROM (SELECT (start_at AT TIME ZONE 'UTC')::date AS day,"
    " count(*) AS n FROM r GROUP BY 1) d, (VALUES (0::bigint), ($2::bigint)) o (id)"
    " ORDER BY 1, 2"
    " ON CONFLICT (organisation, day) DO UPDATE SET entries = c.entries + excluded.entries)"
    " SELECT uid, " CERTIFICATE_MS("start_at") ", " CERTIFICATE_MS("end_at") ", wh FROM r",
    BB_SQL_WRITE};

static int emit_all(struct bb_request *rq, struct bb_tx *tx, const struct bb_rows *rows,
                    int64_t organisation)
{
    for (size_t i = 0; i < bb_count(rq, rows); i++) {
        struct certificate_issued issued = {
            .uid = bb_cell(rq, rows, i, 0),
            .organisation = organisation,
            .start = bb_time_text(rq, bb_cell_int(rq, rows, i, 1)),
            .end = bb_time_text(rq, bb_cell_int(rq, rows, i, 2)),
            .wh = bb_cell_int(rq, rows, i, 3),
            .entries = 1,
        };

        if (certificate_emit(rq, tx, &issued))
            return -1;
    }
    return 0;
}

static int issue_device(struct bb_request *rq, struct bb_tx *tx, const struct bb_device *device,
                        const char *first, const char *last)
{
    const struct certificate *certificate = rq->state;
    size_t count = READINGS;

    while (count == READINGS) {
        const struct bb_rows *rows =
            bb_tx_query(rq, tx, &issue,
                        BB_ARGS(bb_i(device->id), bb_i(device->organisation), bb_t(first),
                                bb_t(last), bb_i(certificate->threshold), bb_i(READINGS)));

        if (!rows || emit_all(rq, tx, rows, device->organisation))
            return -1;
        count = bb_count(rq, rows);
    }
    return 0;
}

static int one_batch(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct certificate *certificate = rq->state;
    int64_t *taken = arg, ids[DEVICES];
    struct bb_device *devices = NULL;
    const struct bb_rows *rows = bb_tx_query(rq, tx, &take, BB_ARGS(bb_i(DEVICES)));

    if (!rows)
        return bb_failed(rq);
    size_t count = bb_count(rq, rows);

    for (size_t i = 0; i < count; i++)
        ids[i] = bb_cell_int(rq, rows, i, 0);
    if (count && certificate->devices->get(certificate->devices_state, rq, ids, count, &devices))
        return bb_failed(rq);
    for (size_t i = 0; i < count; i++)
        if (devices[i].size &&
            issue_device(rq, tx, &devices[i], bb_cell(rq, rows, i, 1), bb_cell(rq, rows, i, 2)))
            return bb_failed(rq);
    *taken = (int64_t)count;
    return 200;
}

int64_t certificate_history(struct bb_request *rq)
{
    int64_t devices = 0, taken = DEVICES;

    while (taken == DEVICES) {
        if (bb_transaction(rq, one_batch, &taken) >= 400)
            return certificate_step_failed(rq, "issuing History readings");
        devices += taken;
    }
    return devices;
}
