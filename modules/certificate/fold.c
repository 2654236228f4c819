/*
 * From fresh readings to cycles that are due.
 *
 * The service "readings" says of which devices readings were stored since the last call, and where
 * their ends lie. That is noted first, and looked through by a later statement: only that one is
 * sure to see the readings of a request whose lock the first had to wait for. The cycles of the
 * device's group that have readings there become due; readings of a device without a group are left
 * alone until it joins one.
 */
#include "certificate.h"

#define TAKEN 1000
/* Devices looked through at a time: each may have years of hourly readings. */
#define LOOKED 50

/* $1 how many */
static const struct bb_sql take = {
    "WITH noted AS (INSERT INTO certificate_look AS l (device, first_at, last_at)"
    " SELECT device, first, last FROM reading_take_fresh('D', $1::int)"
    " ON CONFLICT (device) DO UPDATE SET first_at = least(l.first_at, excluded.first_at),"
    " last_at = greatest(l.last_at, excluded.last_at) RETURNING 1) SELECT count(*) FROM noted",
    BB_SQL_WRITE | BB_SQL_LONG};

/* $1 how many */
static const struct bb_sql look = {
    "WITH f AS (DELETE FROM certificate_look l USING (SELECT device FROM certificate_look"
    " ORDER BY device LIMIT $1::int FOR UPDATE) d WHERE l.device = d.device"
    " RETURNING l.device, l.first_at, l.last_at),"
    " due AS (INSERT INTO certificate_due (group_id, cycle_start, cycle_end)"
    " SELECT DISTINCT g.id, certificate_cycle_at(g.frequency, g.start_at, n.cycle),"
    " least(certificate_cycle_at(g.frequency, g.start_at, n.cycle + 1), g.end_at)"
    " FROM f JOIN certificate_member m ON m.device = f.device"
    " JOIN certificate_group g ON g.id = m.group_id"
    " CROSS JOIN LATERAL (SELECT DISTINCT"
    " certificate_cycle(g.frequency, g.start_at, r.end_at) AS cycle"
    " FROM reading_deltas(ARRAY[f.device],"
    " greatest(f.first_at - interval '1 microsecond', g.start_at),"
    " least(f.last_at, coalesce(g.end_at, 'infinity'))) r) n"
    " ON CONFLICT DO NOTHING)"
    " SELECT count(*) FROM f",
    BB_SQL_WRITE | BB_SQL_LONG};

static int64_t batches(struct bb_request *rq, const struct bb_sql *sql, int64_t size)
{
    int64_t devices = 0, count = size;

    while (count == size) {
        const struct bb_rows *rows = bb_query(rq, sql, BB_ARGS(bb_i(size)));

        if (!rows)
            return certificate_step_failed(rq, "finding the cycles that are due");
        count = bb_cell_int(rq, rows, 0, 0);
        devices += count;
    }
    return devices;
}

int64_t certificate_fold(struct bb_request *rq)
{
    return batches(rq, &take, TAKEN) < 0 ? -1 : batches(rq, &look, LOOKED);
}
