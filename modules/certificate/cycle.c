/*
 * Issues the certificates of cycles that are due and have ended, one transaction per cycle. A cycle
 * is a period of a group of devices.
 *
 * A reading does not count if it began before the group or before its device joined the group, or
 * if it is longer than a cycle (certificate_counts() in schema.sql). The energy of a device counts
 * up to its ceiling for the time of its readings. Counted energy still counts if the ceiling is
 * lowered later.
 *
 * The new energy of all devices is added to the group's carry-over. If the sum reaches the
 * threshold, its whole kWh are issued, and the rest is the new carry-over. Late or voided readings
 * make an issued cycle due again; then the difference, which may be negative, is added in the same
 * way. Devices are summed in chunks, which become smaller if a statement takes too long, for
 * example if devices have more than one reading per hour. All statements see the same snapshot.
 */
#include <string.h>

#include "modules/certificate/certificate.h"

#define BATCH 200
#define FEWER 7     /* divides the number of devices if a chunk takes too long */
#define FAILURES 20 /* per run; the next run skips these cycles */

struct cycle {
    int64_t group, certificate; /* certificate: id to use if one is issued */
    const char *start, *end;    /* in PostgreSQL's format */
    int64_t start_ms, end_ms;
    int64_t most; /* devices per chunk; 0: not known yet */
};

/* clang-format off */

/* $1 number of cycles, $2 number of cycles to skip, because they failed */
static const struct bb_sql due = {
    "SELECT d.group_id, d.cycle_start, d.cycle_end,"
    " " BB_SQL_MS("d.cycle_start") ", " BB_SQL_MS("d.cycle_end")
    " FROM certificate_due d WHERE d.cycle_end <= now()"
    " ORDER BY d.cycle_end, d.group_id LIMIT $1::int OFFSET $2::int",
    BB_SQL_LONG};

static const struct bb_sql steady = {"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", 0};

/* Deletes a due cycle, and locks its group until the commit. No row: the cycle is not due. */
static const struct bb_sql take = {
    "WITH gone AS (DELETE FROM certificate_due WHERE group_id = $1::bigint"
    " AND cycle_start = $2::timestamptz RETURNING group_id)"
    " SELECT g.organisation, g.carry_wh, g.frequency,"
    " (SELECT count(*) FROM certificate_span m WHERE m.group_id = g.id)"
    " FROM certificate_group g JOIN gone ON gone.group_id = g.id FOR UPDATE OF g",
    BB_SQL_WRITE};

/*
 * Returns a chunk of the devices that were members in the cycle, as an array; null after the last
 * chunk. $1 group, $2 last device handled, $3 number of devices, $4 and $5 the cycle
 */
static const struct bb_sql chunk = {
    "SELECT array_agg(device)::text, max(device) FROM (SELECT DISTINCT device FROM certificate_span"
    " WHERE group_id = $1::bigint AND device > $2::bigint AND since_at < $5::timestamptz"
    " AND until_at > $4::timestamptz ORDER BY device LIMIT $3::int) m",
    0};

/*
 * $1 group, $2 and $3 the cycle, $4 devices. Returns the devices whose energy differs from `wh` in
 * certificate_account, or whose `over_wh` is not 0. UNION ALL is used because PostgreSQL, if its
 * statistics are old, might execute a join by comparing all rows with each other. A reading that
 * begins in the cycle always counts, unless its device left the group during the cycle: if a group
 * lasts longer than was planned when the device left, the device may be in another group already.
 */
static const struct bb_sql measure = {
    "SELECT x.device, sum(x.wh)::bigint, sum(x.known)::bigint, "
    " (extract(epoch FROM sum(x.length)) * 1000)::bigint FROM ("
    "SELECT r.device, r.wh, r.end_at - r.start_at AS length,"
    " 0::bigint AS known, 0::bigint AS over"
    " FROM reading_delta_periods($4::bigint[], $2::timestamptz, $3::timestamptz) r"
    " WHERE (r.start_at >= $2::timestamptz AND r.device <> ALL (ARRAY(SELECT f.device"
    " FROM certificate_former f WHERE f.group_id = $1::bigint AND f.device = ANY ($4::bigint[])"
    " AND f.until_at > $2::timestamptz AND f.until_at < $3::timestamptz)))"
    " OR certificate_counts($1::bigint, r.device, r.start_at, r.end_at)"
    " UNION ALL SELECT c.device, 0, NULL, c.wh, c.over_wh FROM certificate_account c"
    " WHERE c.group_id = $1::bigint AND c.cycle_start = $2::timestamptz"
    " AND c.device = ANY ($4::bigint[])) x GROUP BY x.device"
    " HAVING sum(x.wh) <> sum(x.known) OR sum(x.over) <> 0",
    0};
enum measured { DEVICE, MEASURED, KNOWN, LENGTH };

/*
 * $1 group, $2 cycle, $3 certificate, $4 devices; for each device, $5 the energy to add, and $6
 * the energy above the ceiling
 */
static const struct bb_sql account = {
    "INSERT INTO certificate_account AS a"
    " (group_id, cycle_start, device, wh, late_wh, certificate, over_wh)"
    " SELECT $1::bigint, $2::timestamptz, l.device, l.wh, l.wh,"
    " CASE WHEN l.wh <> 0 THEN $3::bigint ELSE 0 END, l.over"
    " FROM unnest($4::bigint[], $5::bigint[], $6::bigint[]) l (device, wh, over)"
    " ON CONFLICT (group_id, cycle_start, device) DO UPDATE SET wh = a.wh + excluded.late_wh,"
    " late_wh = CASE WHEN excluded.late_wh <> 0 THEN excluded.late_wh ELSE a.late_wh END,"
    " certificate = CASE WHEN excluded.late_wh <> 0 THEN excluded.certificate"
    " ELSE a.certificate END, over_wh = excluded.over_wh",
    BB_SQL_WRITE};

/*
 * $1 group, $2 and $3 the cycle, $4 certificate, $5 uid, $6 threshold, $7 carry, $8 organization,
 * $9 status of the entries.
 *
 * Each device gets an entry of certificate $4 with its energy. Energy that is carried over is moved
 * with two entries of the device that has the most energy: a negative entry of certificate $4, and
 * a positive entry of the certificate of carried energy, whose id is the negative id of the group.
 * If nothing is issued, all entries belong to the certificate of carried energy.
 */
static const struct bb_sql issue = {
    "WITH late AS (SELECT device, late_wh FROM certificate_account WHERE group_id = $1::bigint"
    " AND cycle_start = $2::timestamptz AND certificate = $4::bigint),"
    " total AS (SELECT coalesce(sum(late_wh), 0)::bigint + $7::bigint AS wh, count(*) AS n"
    " FROM late),"
    " issued AS (SELECT CASE WHEN wh >= $6::bigint THEN wh / 1000 * 1000 ELSE 0 END AS wh,"
    " wh AS of FROM total WHERE n > 0),"
    " most AS (SELECT device FROM late ORDER BY late_wh DESC, device LIMIT 1),"
    " line (device, wh, carried) AS ("
    "SELECT late.device, late.late_wh, issued.wh = 0 FROM late, issued"
    " UNION ALL SELECT most.device, c.sign * (issued.of - issued.wh), c.sign > 0"
    " FROM most, issued, (VALUES (-1), (1)) c (sign)"
    " WHERE issued.wh > 0 AND issued.of > issued.wh),"
    " made AS (INSERT INTO certificate (id, uid, organisation, group_id, start_at, end_at,"
    " issued_wh, created_at) SELECT $4::bigint, $5::uuid, $8::bigint, $1::bigint,"
    " $2::timestamptz, $3::timestamptz, wh, now() FROM issued WHERE wh > 0"
    " UNION ALL SELECT -$1::bigint, gen_random_uuid(), $8::bigint, $1::bigint, $2::timestamptz,"
    " $3::timestamptz, 0, now() FROM (SELECT FROM line WHERE carried LIMIT 1) l"
    " ON CONFLICT (id) DO NOTHING),"
    " moved AS (UPDATE certificate_entry e SET certificate = $4::bigint, status = $9::text"
    " FROM issued WHERE e.certificate = -$1::bigint AND issued.wh > 0 RETURNING 1),"
    " entries AS (INSERT INTO certificate_entry (certificate, organisation, group_id, device,"
    " start_at, end_at, wh, status) SELECT CASE WHEN carried THEN -$1::bigint ELSE $4::bigint END,"
    " $8::bigint, $1::bigint, device, $2::timestamptz, $3::timestamptz, wh,"
    " CASE WHEN carried THEN 'Carried' ELSE $9::text END FROM line ORDER BY device, wh DESC),"
    " day AS (INSERT INTO certificate_day AS c (organisation, day, entries)"
    " SELECT o.id, ($2::timestamptz AT TIME ZONE 'UTC')::date, l.n FROM (SELECT count(*) AS n"
    " FROM line) l, (VALUES (0::bigint), ($8::bigint)) o (id) WHERE l.n > 0"
    " ON CONFLICT (organisation, day) DO UPDATE SET entries = c.entries + excluded.entries),"
    " carried AS (UPDATE certificate_group g SET carry_wh = issued.of - issued.wh FROM issued"
    " WHERE g.id = $1::bigint)"
    " SELECT coalesce((SELECT wh FROM issued), 0), (SELECT count(*) FROM line WHERE NOT carried)"
    " + (SELECT count(*) FROM moved)",
    BB_SQL_WRITE};

/* clang-format on */

/*
 * Stores the energy that counts for each device of `members`, an array of ids. If the energy has
 * grown, it counts up to the ceiling for a period that is as long as all readings together, and
 * ends when the cycle begins. Returns 0, or -1 if a query failed.
 */
static int cycle_account(struct bb_request *rq, struct bb_tx *tx, const struct cycle *cycle,
                         const char *members)
{
    const struct certificate *certificate = rq->state;
    const struct bb_rows *rows = bb_tx_query(
        rq, tx, &measure,
        BB_ARGS(bb_i(cycle->group), bb_t(cycle->start), bb_t(cycle->end), bb_t(members)));
    size_t count = rows ? bb_count(rq, rows) : 0;

    if (!count)
        return rows ? 0 : -1;
    int64_t *ids = certificate_ids(rq, rows, count, DEVICE);
    int64_t *late = bb_alloc(rq, count * sizeof(*late));
    int64_t *over = bb_alloc(rq, count * sizeof(*over));
    struct bb_device *devices;

    if (certificate->devices->get(certificate->devices_state, rq, ids, count, &devices))
        return -1;
    for (size_t i = 0; i < count; i++) {
        int64_t measured = bb_cell_int(rq, rows, i, MEASURED);
        int64_t known = bb_cell_int(rq, rows, i, KNOWN), counts = measured;

        if (measured > known && devices[i].size) {
            int64_t begin = cycle->start_ms - bb_cell_int(rq, rows, i, LENGTH);
            int64_t most = certificate->readings->ceiling_wh(certificate->readings_state,
                                                             &devices[i], begin, cycle->start_ms);

            if (most < known)
                most = known;
            counts = measured < most ? measured : most;
        }
        late[i] = counts - known;
        over[i] = measured - counts;
    }
    return bb_tx_query(rq, tx, &account,
                       BB_ARGS(bb_i(cycle->group), bb_t(cycle->start), bb_i(cycle->certificate),
                               bb_ints(ids, count), bb_ints(late, count), bb_ints(over, count)))
               ? 0
               : -1;
}

/* Deletes the cycle from certificate_due and issues its energy. Returns 0, or -1 on failure. */
static int cycle_issue_taken(struct bb_request *rq, struct bb_tx *tx, struct cycle *cycle)
{
    const struct certificate *certificate = rq->state;
    const struct bb_rows *rows =
        bb_tx_query(rq, tx, &steady, BB_NO_ARGS)
            ? bb_tx_query(rq, tx, &take, BB_ARGS(bb_i(cycle->group), bb_t(cycle->start)))
            : NULL;
    int64_t last = 0;

    if (!rows || !bb_count(rq, rows))
        return rows ? 0 : -1;
    int64_t devices = bb_cell_int(rq, rows, 0, 3); /* number of devices that were ever members */
    struct certificate_issued issued = {.uid = bb_new_uuid(rq),
                                        .organization = bb_cell_int(rq, rows, 0, 0),
                                        .group = cycle->group,
                                        .start = bb_time_text(rq, cycle->start_ms),
                                        .end = bb_time_text(rq, cycle->end_ms)};
    int64_t carry = bb_cell_int(rq, rows, 0, 1);

    if (!cycle->most) {
        /* number of devices with 200,000 hourly readings in a week, month, quarter, year or day */
        static const char initials[] = "wmqy";
        static const int64_t sizes[] = {1200, 300, 100, 24, 8000};
        size_t size = strcspn(initials, bb_format(rq, "%.1s", bb_cell(rq, rows, 0, 2)));

        cycle->most = sizes[size] < devices ? sizes[size] : devices;
    }
    for (int64_t done = 0; done < devices; done += cycle->most) {
        const struct bb_rows *members =
            bb_tx_query(rq, tx, &chunk,
                        BB_ARGS(bb_i(cycle->group), bb_i(last), bb_i(cycle->most),
                                bb_t(cycle->start), bb_t(cycle->end)));
        const char *ids = members ? bb_cell(rq, members, 0, 0) : NULL;

        if (!members || (ids && cycle_account(rq, tx, cycle, ids)))
            return -1;
        if (!ids)
            break;
        last = bb_cell_int(rq, members, 0, 1);
    }
    rows = bb_tx_query(rq, tx, &issue,
                       BB_ARGS(bb_i(cycle->group), bb_t(cycle->start), bb_t(cycle->end),
                               bb_i(cycle->certificate), bb_t(issued.uid),
                               bb_i(certificate->settings->threshold), bb_i(carry),
                               bb_i(issued.organization), bb_t(certificate->first_status)));
    if (!rows)
        return -1;
    issued.wh = bb_cell_int(rq, rows, 0, 0);
    issued.entries = bb_cell_int(rq, rows, 0, 1);
    return issued.wh ? certificate_emit(rq, tx, &issued) : 0;
}

/*
 * Returns whether the transaction conflicted with another one that issued the cycle or found more
 * readings for it. The command and the job may run at the same time.
 */
static bool cycle_is_left(struct bb_request *rq)
{
    return !strcmp(bb_sqlstate(rq), "40001");
}

static bool cycle_is_too_large(struct bb_request *rq, const struct cycle *cycle)
{
    return cycle->most > 1 && !strcmp(bb_sqlstate(rq), "57014");
}

/* Returns 503, without reporting an error, if cycle_issue() will skip or retry the cycle. */
static int cycle_work(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct cycle *cycle = arg;

    if (cycle_issue_taken(rq, tx, cycle) == 0)
        return 200;
    return cycle_is_left(rq) || cycle_is_too_large(rq, cycle) ? 503 : bb_failed(rq);
}

static int cycle_transaction(struct bb_request *rq, void *cycle)
{
    return bb_transaction(rq, cycle_work, cycle);
}

/* Issues a due cycle. While a statement takes too long, retries with fewer devices per chunk. */
static int cycle_issue(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    struct cycle cycle = {.group = bb_cell_int(rq, rows, row, 0),
                          .certificate = bb_next_id(rq, "certificate_id"),
                          .start = bb_cell(rq, rows, row, 1),
                          .end = bb_cell(rq, rows, row, 2),
                          .start_ms = bb_cell_int(rq, rows, row, 3),
                          .end_ms = bb_cell_int(rq, rows, row, 4)};

    if (cycle.certificate < 0)
        return -1;
    while (bb_scratch(rq, cycle_transaction, &cycle) >= 400) {
        if (!cycle_is_too_large(rq, &cycle))
            return cycle_is_left(rq) ? 0 : -1;
        cycle.most = cycle.most > FEWER ? cycle.most / FEWER : 1;
    }
    return 0;
}

int64_t certificate_cycles(struct bb_request *rq, bool *more)
{
    struct certificate *certificate = rq->state;
    int64_t passed = atomic_load(&certificate->cycles_failed); /* number of cycles to skip */
    int64_t until = certificate_turn(rq), cycles = 0, failures = 0;
    size_t count = BATCH;

    *more = false;
    while (count == BATCH && !*more) {
        const struct bb_rows *rows =
            bb_query(rq, &due, BB_ARGS(bb_i(BATCH), bb_i(passed + failures)));

        count = rows ? bb_count(rq, rows) : 0;
        if (!rows) {
            certificate_step_failed(rq, "the search for ended cycles");
            failures++;
        }
        for (size_t row = 0; row < count && !*more; row++) {
            if (cycle_issue(rq, rows, row)) {
                certificate_step_failed(rq, "issuing a cycle");
                failures++;
            } else {
                cycles++;
            }
            *more = failures >= FAILURES || bb_now_ms(rq->host) >= until;
        }
    }
    atomic_store(&certificate->cycles_failed, *more ? passed + failures : 0);
    return failures ? -1 : cycles;
}
