/*
 * With certificate.issuer: internal there is nobody to wait for: what was requested has succeeded.
 */
#include "certificate.h"

#define BATCH 500 /* certificates; of a large group each has thousands of entries */

static const struct bb_sql settle = {
    "WITH c AS (SELECT id FROM certificate WHERE NOT settled ORDER BY id LIMIT $1::int FOR UPDATE),"
    " weighed AS (SELECT c.id, sum(n.n) OVER (ORDER BY c.id) - n.n AS before FROM c CROSS JOIN "
    "LATERAL"
    " (SELECT count(*) AS n FROM certificate_entry e WHERE e.certificate = c.id) n),"
    " chosen AS (SELECT id FROM weighed WHERE before < $2::bigint),"
    " moved AS (UPDATE certificate_entry e SET status = 'Succeeded' FROM chosen"
    " WHERE e.certificate = chosen.id AND e.status = 'Requested'),"
    " settled AS (UPDATE certificate s SET settled = true FROM chosen WHERE s.id = chosen.id)"
    " SELECT count(*) FROM chosen",
    BB_SQL_WRITE | BB_SQL_LONG};

int64_t certificate_settle(struct bb_request *rq)
{
    const struct certificate *certificate = rq->state;
    int64_t done = 0, count = certificate->internal;

    while (count > 0) {
        const struct bb_rows *rows = bb_query(rq, &settle, BB_ARGS(bb_i(BATCH), bb_i(10000)));

        if (!rows)
            return certificate_step_failed(rq, "settling certificates");
        count = bb_cell_int(rq, rows, 0, 0);
        done += count;
    }
    return done;
}
