/*
 * The historical-issuance job: each History reading that reaches the threshold makes a certificate
 * with one entry, for its own period.
 *
 * Which devices have fresh readings is noted first, as in fold.c, so that whoever posts for one of
 * them waits for no more than the note. A device's readings are then issued in chunks, by their
 * ends, each in a transaction that moves the note on; what is issued already is found by the key of
 * its entry. A turn of it is bounded, so that one device's years hold up nobody's cycles; the job
 * runs until nothing is left.
 */
#include "certificate.h"

#define NOTED 100     /* devices, in a statement */
#define READINGS 1000 /* in a chunk */
#define FAILURES 20   /* in a turn; the next one passes them by: they hold up no others */

/* $1 how many */
static const struct bb_sql note = {
    "WITH noted AS (INSERT INTO certificate_history AS h (device, first_at, last_at)"
    " SELECT device, first, last FROM reading_take_fresh('H', $1::int) ORDER BY device"
    " ON CONFLICT (device) DO UPDATE SET first_at = least(h.first_at, excluded.first_at),"
    " last_at = greatest(h.last_at, excluded.last_at) RETURNING 1)"
    " SELECT count(*), EXISTS (SELECT FROM certificate_history)::int FROM noted",
    BB_SQL_WRITE | BB_SQL_LONG};

/* $1 behind which device */
static const struct bb_sql next = {
    "SELECT device, first_at, last_at FROM certificate_history WHERE device > $1::bigint"
    " ORDER BY device LIMIT 1 FOR UPDATE",
    BB_SQL_WRITE};

static const struct bb_sql forget = {"DELETE FROM certificate_history WHERE device = $1::bigint",
                                     BB_SQL_WRITE};

/*
 * $1 device, $2 organisation, $3 and $4 where the readings end, $5 threshold, $6 how many are
 * looked at. What is issued already has its entry, whose key it meets. The last reading of a full
 * chunk is the first of the next one.
 */
static const struct bb_sql issue = {
    "WITH h AS MATERIALIZED (SELECT h.start_at, h.end_at, h.wh FROM reading_histories($1::bigint,"
    " $3::timestamptz, $4::timestamptz) h ORDER BY h.end_at LIMIT $6::int),"
    " entries AS (INSERT INTO certificate_entry (certificate, organisation, device, start_at,"
    " end_at, wh) SELECT nextval('certificate_id'), $2::bigint, $1::bigint, h.start_at, h.end_at,"
    " h.wh FROM h WHERE h.wh >= $5::bigint ON CONFLICT (device, start_at) WHERE group_id IS NULL"
    " DO NOTHING RETURNING certificate, start_at, end_at, wh),"
    " made AS (INSERT INTO certificate (id, uid, organisation, start_at, end_at, issued_wh,"
    " created_at) SELECT certificate, gen_random_uuid(), $2::bigint, start_at, end_at, wh, now()"
    " FROM entries RETURNING uid, start_at, end_at, issued_wh),"
    " day AS (INSERT INTO certificate_day AS c (organisation, day, entries)"
    " SELECT o.id, d.day, d.n FROM (SELECT (start_at AT TIME ZONE 'UTC')::date AS day,"
    " count(*) AS n FROM entries GROUP BY 1) d, (VALUES (0::bigint), ($2::bigint)) o (id)"
    " ORDER BY 1, 2"
    " ON CONFLICT (organisation, day) DO UPDATE SET entries = c.entries + excluded.entries),"
    " seen AS (SELECT count(*) AS n, max(end_at) AS last_at FROM h),"
    " moved AS (UPDATE certificate_history n SET first_at = seen.last_at FROM seen"
    " WHERE n.device = $1::bigint AND seen.n = $6::int),"
    " ended AS (DELETE FROM certificate_history n USING seen"
    " WHERE n.device = $1::bigint AND seen.n < $6::int)"
    " SELECT uid, " CERTIFICATE_MS("start_at") ", " CERTIFICATE_MS(
        "end_at") ", issued_wh FROM made",
    BB_SQL_WRITE};

struct chunk {
    int64_t after;  /* the last device that failed; 0: none */
    int64_t device; /* whose chunk it is */
    bool found;     /* a device had something left */
    int64_t issued; /* certificates, of all chunks so far */
};

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

static int issue_chunk(struct bb_request *rq, struct bb_tx *tx, const struct bb_device *device,
                       const char *first, const char *last, struct chunk *chunk)
{
    const struct certificate *certificate = rq->state;
    const struct bb_rows *rows =
        bb_tx_query(rq, tx, &issue,
                    BB_ARGS(bb_i(device->id), bb_i(device->organisation), bb_t(first), bb_t(last),
                            bb_i(certificate->threshold), bb_i(READINGS)));

    if (!rows || emit_all(rq, tx, rows, device->organisation))
        return bb_failed(rq);
    chunk->issued += (int64_t)bb_count(rq, rows);
    return 200;
}

static int one_chunk(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct certificate *certificate = rq->state;
    struct chunk *chunk = arg;
    const struct bb_rows *rows = bb_tx_query(rq, tx, &next, BB_ARGS(bb_i(chunk->after)));
    struct bb_device *device;

    if (!rows)
        return bb_failed(rq);
    chunk->found = bb_count(rq, rows) > 0;
    if (!chunk->found)
        return 200;
    int64_t id = bb_cell_int(rq, rows, 0, 0);

    chunk->device = id;
    if (certificate->devices->get(certificate->devices_state, rq, &id, 1, &device))
        return bb_failed(rq);
    if (device->size)
        return issue_chunk(rq, tx, device, bb_cell(rq, rows, 0, 1), bb_cell(rq, rows, 0, 2), chunk);
    return bb_tx_query(rq, tx, &forget, BB_ARGS(bb_i(id))) ? 200 : bb_failed(rq);
}

static int transact(struct bb_request *rq, void *arg)
{
    return bb_transaction(rq, one_chunk, arg);
}

int64_t certificate_history(struct bb_request *rq, bool *more)
{
    struct certificate *certificate = rq->state;
    int64_t passed = atomic_load(&certificate->history_failed);
    int64_t until = certificate_turn(rq);
    struct chunk chunk = {.after = passed, .device = passed};
    int failures = 0;

    *more = false;
    if (certificate_batches(rq, &note, NOTED, "noting History readings", &chunk.found) < 0)
        return -1;
    while (chunk.found && failures < FAILURES && bb_now_ms(rq->host) < until) {
        if (bb_scratch(rq, transact, &chunk) < 400)
            continue;
        certificate_step_failed(rq, "issuing History readings");
        failures++;
        chunk.found = chunk.device > chunk.after; /* else it was no device's fault */
        chunk.after = chunk.device;
    }
    *more = chunk.found;
    atomic_store(&certificate->history_failed, *more ? chunk.after : 0);
    return failures ? -1 : chunk.issued;
}
