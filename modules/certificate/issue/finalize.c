/*
 * With certificate.issuer `internal` there is no external issuer to wait for: entries that were
 * requested while the issuer was external, or by an earlier version, become Succeeded.
 */
#include "modules/certificate/base/certificate.h"

#define BATCH 500 /* certificates; each one of a large group has thousands of entries */

/*
 * $1 number of certificates, $2 number of entries. Certificates locked by another run are skipped:
 * waiting for its locks would mean following it from batch to batch. The ids are passed as an
 * array, because a join would be planned with statistics that may be older than the rows, and would
 * then compare each entry with each certificate. Entries are counted one certificate after the
 * other, and only as far as needed, because all of them may have millions.
 */
static const struct bb_sql finalize = {
    "WITH RECURSIVE c AS (SELECT id FROM certificate WHERE NOT settled ORDER BY id LIMIT $1::int"
    " FOR UPDATE SKIP LOCKED),"
    " held AS (SELECT array_agg(id ORDER BY id) AS ids FROM c),"
    " weighed (place, entries) AS (SELECT 0, 0::bigint UNION ALL SELECT w.place + 1, w.entries +"
    " (SELECT count(*) FROM certificate_entry e WHERE e.certificate = held.ids[w.place + 1])"
    " FROM weighed w, held WHERE w.entries < $2::bigint AND w.place < cardinality(held.ids)),"
    " chosen AS (SELECT held.ids[1:(SELECT max(place) FROM weighed)] AS ids FROM held),"
    " moved AS (UPDATE certificate_entry SET status = 'Succeeded'"
    " WHERE certificate = ANY ((SELECT ids FROM chosen)::bigint[]) AND status = 'Requested'),"
    " settled AS (UPDATE certificate SET settled = true"
    " WHERE id = ANY ((SELECT ids FROM chosen)::bigint[]))"
    " SELECT coalesce(cardinality(ids), 0) FROM chosen",
    BB_SQL_WRITE | BB_SQL_LONG};

int64_t certificate_finalize(struct bb_request *rq, bool *more)
{
    const struct certificate *certificate = rq->state;
    int64_t done = 0, count = certificate->internal, until = certificate_turn(rq);

    *more = false;
    while (count > 0 && bb_now_ms(rq->host) < until) {
        const struct bb_rows *rows = bb_query(rq, &finalize, BB_ARGS(bb_i(BATCH), bb_i(10000)));

        if (!rows)
            return certificate_step_failed(rq, "finalizing certificates");
        count = bb_cell_int(rq, rows, 0, 0);
        done += count;
    }
    *more = count > 0;
    return done;
}
