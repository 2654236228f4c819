/*
 * The historical-issuance job: each History reading that reaches the threshold makes a certificate
 * with a single entry, which covers the reading's period.
 *
 * First, a short statement adds the devices with new readings to certificate_history. Only this
 * statement locks rows for which requests that store readings have to wait. Then readings are
 * issued in chunks, each in a transaction that also updates certificate_history. A chunk has a
 * limited number of readings, taken from the first devices. So thousands of devices with one
 * reading each need few chunks, and the chunks of a device with years of readings are not larger.
 * The unique key of entries prevents a reading from being issued twice. A run has a time limit, so
 * that many readings do not delay cycles; the job runs again until no reading is left.
 */
#include "modules/certificate/certificate.h"

#define NOTED 500     /* devices per statement */
#define READINGS 1000 /* per chunk */
#define MOST 1024     /* maximum number of devices per chunk */
#define FIRST 64      /* devices in the first chunk */
#define FAILURES 20   /* per run; the next run skips these devices */

/* clang-format off */

static const struct bb_sql note = {CERTIFICATE_NOTE("certificate_history", "H"),
    BB_SQL_WRITE | BB_SQL_LONG};

/* $1 last device handled, $2 number of devices */
static const struct bb_sql next = {
    "SELECT device FROM certificate_history WHERE device > $1::bigint"
    " ORDER BY device LIMIT $2::int FOR UPDATE",
    BB_SQL_WRITE};

/*
 * $1 devices, of which some may have been deleted, $2 threshold, $3 maximum number of readings, $4
 * status of the entries. ON CONFLICT skips readings that were issued before. After $3 readings, the
 * statement stops. The row of the last device in certificate_history then begins at the last of
 * these readings, and the rows of later devices stay unchanged. Returns at least one row.
 */
static const struct bb_sql issue = {
    "WITH h AS MATERIALIZED (SELECT n.device, n.organisation, h.start_at, h.end_at, h.wh"
    " FROM (SELECT c.device, d.organisation, c.first_at, c.last_at FROM certificate_history c"
    " CROSS JOIN LATERAL (SELECT * FROM device_about(c.device) LIMIT 1) d"
    " WHERE c.device = ANY ($1::bigint[]) ORDER BY c.device) n"
    " CROSS JOIN LATERAL (SELECT r.start_at, r.end_at, r.wh"
    " FROM reading_histories(n.device, n.first_at, n.last_at) r"
    " ORDER BY r.end_at LIMIT $3::int) h ORDER BY n.device, h.end_at LIMIT $3::int),"
    " entries AS (INSERT INTO certificate_entry (certificate, organisation, device, start_at,"
    " end_at, wh, status) SELECT nextval('certificate_id'), h.organisation, h.device, h.start_at,"
    " h.end_at, h.wh, $4::text FROM h WHERE h.wh >= $2::bigint"
    " ON CONFLICT (device, start_at) WHERE group_id IS NULL"
    " DO NOTHING RETURNING certificate, organisation, start_at, end_at, wh),"
    " made AS (INSERT INTO certificate (id, uid, organisation, start_at, end_at, issued_wh,"
    " created_at) SELECT certificate, gen_random_uuid(), organisation, start_at, end_at,"
    " wh, now() FROM entries"
    " RETURNING uid, organisation, start_at, end_at, issued_wh),"
    " day AS (INSERT INTO certificate_day AS c (organisation, day, entries)"
    " SELECT o.id, d.day, sum(d.n) FROM (SELECT organisation,"
    " (start_at AT TIME ZONE 'UTC')::date AS day, count(*) AS n FROM entries GROUP BY 1, 2) d"
    " CROSS JOIN LATERAL (VALUES (0::bigint), (d.organisation)) o (id) GROUP BY 1, 2"
    " ORDER BY 1, 2"
    " ON CONFLICT (organisation, day) DO UPDATE SET entries = c.entries + excluded.entries),"
    " looked AS (SELECT count(*) AS n, count(DISTINCT device) AS devices, max(device) AS last"
    " FROM h),"
    " rest AS (SELECT l.last AS device, (SELECT max(h.end_at) FROM h WHERE h.device = l.last)"
    " AS last_at FROM looked l WHERE l.n = $3::int),"
    " moved AS (UPDATE certificate_history n SET first_at = (SELECT last_at FROM rest)"
    " WHERE n.device = (SELECT device FROM rest)),"
    " ended AS (DELETE FROM certificate_history n WHERE n.device = ANY ($1::bigint[])"
    " AND n.device < coalesce((SELECT device FROM rest), 9223372036854775807))"
    " SELECT l.n, l.devices, m.uid, " BB_SQL_MS("m.start_at") ", " BB_SQL_MS("m.end_at") ","
    " m.issued_wh, m.organisation FROM looked l LEFT JOIN made m ON true",
    BB_SQL_WRITE};
enum column { READ, READ_OF, UID, START, END, WH, ORGANIZATION };

/* clang-format on */

struct chunk {
    int64_t after;  /* the last device that failed; 0: none */
    int64_t most;   /* maximum number of devices */
    int64_t device; /* last device of the chunk */
    size_t count;   /* number of devices in the chunk */
    int64_t issued; /* certificates issued in all chunks so far */
};

/* Issues the readings of the next devices. Deletes finished devices from certificate_history. */
static int history_chunk(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct certificate *certificate = rq->state;
    struct chunk *chunk = arg;
    const struct bb_rows *rows =
        bb_tx_query_or_end(rq, tx, &next, BB_ARGS(bb_i(chunk->after), bb_i(chunk->most)));
    size_t count = bb_count(rq, rows);

    chunk->count = count;
    if (!count)
        return 200;
    int64_t *ids = certificate_ids(rq, rows, count, 0);

    chunk->device = ids[count - 1];
    rows = bb_tx_query_or_end(rq, tx, &issue,
                              BB_ARGS(bb_ints(ids, count), bb_i(certificate->settings->threshold),
                                      bb_i(READINGS), bb_t(certificate->first_status)));
    for (size_t i = 0; i < bb_count(rq, rows) && bb_cell(rq, rows, i, UID); i++) {
        struct certificate_issued issued = {
            .uid = bb_cell(rq, rows, i, UID),
            .organization = bb_cell_int(rq, rows, i, ORGANIZATION),
            .start = bb_cell_time(rq, rows, i, START),
            .end = bb_cell_time(rq, rows, i, END),
            .wh = bb_cell_int(rq, rows, i, WH),
            .entries = 1,
        };

        if (certificate_emit(rq, tx, &issued))
            return bb_failed(rq);
        chunk->issued++;
    }
    /* Chooses the size of the next chunk, which should have about READINGS readings. */
    if (bb_cell_int(rq, rows, 0, READ) == READINGS)
        chunk->most = bb_cell_int(rq, rows, 0, READ_OF);
    else if (bb_cell_int(rq, rows, 0, READ) <= READINGS / 2 && chunk->most < MOST)
        chunk->most *= 2;
    return 200;
}

/* If the transaction fails before it has read the chunk, chunk->count is 0. */
static int history_transaction(struct bb_request *rq, void *arg)
{
    struct chunk *chunk = arg;

    chunk->count = 0;
    chunk->device = chunk->after;
    return bb_transaction(rq, history_chunk, chunk);
}

/* If a chunk fails, retries with half as many devices. Skips a device that fails alone. */
int64_t certificate_history(struct bb_request *rq, bool *more)
{
    struct certificate *certificate = rq->state;
    int64_t passed = atomic_load(&certificate->history_failed), until = certificate_turn(rq);
    struct chunk chunk = {.after = passed, .most = FIRST, .device = passed};
    int failures = 0;
    bool any;

    if (certificate_note(rq, &note, NOTED, "noting History readings", &any) < 0)
        return -1;
    chunk.count = any;
    while (chunk.count && failures < FAILURES && bb_now_ms(rq->host) < until) {
        int64_t issued = chunk.issued;

        if (bb_scratch(rq, history_transaction, &chunk) < 400)
            continue;
        chunk.issued = issued;
        if (chunk.count > 1) {
            chunk.most = (int64_t)chunk.count / 2;
        } else {
            certificate_step_failed(rq, "issuing History readings");
            failures++;
            chunk.after = chunk.device;
        }
    }
    *more = chunk.count > 0;
    atomic_store(&certificate->history_failed, *more ? chunk.after : 0);
    return failures ? -1 : chunk.issued;
}
