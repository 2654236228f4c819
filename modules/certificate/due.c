/*
 * Marks cycles as due when new readings arrive, and when the ceiling of a device changes.
 *
 * The service "readings" returns the devices whose readings were stored since the last call, with
 * the range of the readings' ends. A first statement notes these devices and ranges. It may have to
 * wait for a request that is storing readings, and then does not see these readings. So a later
 * statement processes the notes: it marks the cycles of the readings as due, in the group in which
 * the device was at that time. Readings of a time without a group are ignored. At most READINGS
 * readings of a device are processed before the next device, so that no device delays the others.
 *
 * A cycle that is due already is marked again. So a run that is about to issue it with an older
 * snapshot of the readings fails with a conflict (cycle.c), and a later run issues it.
 */
#include <string.h>

#include "modules/certificate/certificate.h"

#define TAKEN 1000
#define LOOKED 50     /* devices processed at a time */
#define READINGS 5000 /* per device; the rest is processed after the other devices */
#define FEWER 7       /* divides the number of devices if a statement takes too long */

static const struct bb_sql take = {CERTIFICATE_NOTE("certificate_look", "D"),
                                   BB_SQL_WRITE | BB_SQL_LONG};

/*
 * $1 number of devices, $2 last device handled. Locks rows of certificate_look that no other run
 * has locked. The next statement processes these rows. It begins after they were locked, so it sees
 * all earlier changes, such as more readings or a new group of a device.
 */
static const struct bb_sql hold = {
    "SELECT coalesce(array_agg(l.device), '{}')::text, count(*), max(l.device)"
    " FROM (SELECT device FROM certificate_look WHERE device > $2::bigint"
    " ORDER BY device LIMIT $1::int FOR UPDATE SKIP LOCKED) l",
    BB_SQL_WRITE};

/*
 * $1 devices, $2 number of readings per device and group. If a device has more readings, the next
 * call begins with the last reading of this call.
 */
static const struct bb_sql look = {
    "WITH f AS (SELECT device, first_at, last_at FROM certificate_look"
    " WHERE device = ANY ($1::bigint[])),"
    " r AS MATERIALIZED (SELECT f.device, g.id, g.frequency, g.start_at, g.end_at AS stop_at,"
    " m.since_at, e.end_at FROM f JOIN certificate_span m ON m.device = f.device"
    " JOIN certificate_group g ON g.id = m.group_id"
    " CROSS JOIN LATERAL reading_delta_ends(f.device,"
    " greatest(f.first_at - interval '1 microsecond', g.start_at, m.since_at),"
    " least(f.last_at, m.until_at, coalesce(g.end_at, 'infinity')), $2::int) e),"
    " due AS (INSERT INTO certificate_due (group_id, cycle_start, cycle_end)"
    " SELECT n.id, certificate_cycle_at(n.frequency, n.start_at, n.cycle),"
    " least(certificate_cycle_at(n.frequency, n.start_at, n.cycle + 1), n.stop_at)"
    " FROM (SELECT DISTINCT id, frequency, start_at, stop_at,"
    " certificate_cycle(frequency, start_at, end_at) AS cycle FROM r) n ORDER BY 1, 2"
    " ON CONFLICT (group_id, cycle_start) DO UPDATE SET cycle_end = excluded.cycle_end),"
    " rest AS (SELECT device, min(first_at) AS first_at FROM (SELECT device,"
    " max(end_at) AS first_at FROM r GROUP BY device, since_at HAVING count(*) = $2::int) s"
    " GROUP BY device),"
    " moved AS (UPDATE certificate_look l SET first_at = rest.first_at FROM rest"
    " WHERE l.device = rest.device),"
    " ended AS (DELETE FROM certificate_look l USING f WHERE l.device = f.device"
    " AND NOT EXISTS (SELECT FROM rest WHERE rest.device = f.device))"
    " SELECT count(*) FROM rest",
    BB_SQL_WRITE | BB_SQL_LONG};

struct looked {
    int64_t size;  /* devices per batch */
    int64_t count; /* devices of the last batch */
    int64_t after; /* the last device processed; 0: begin with the first */
    bool rest;     /* a device of this round has readings left */
};

static int due_look(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct looked *looked = arg;
    const struct bb_rows *held =
        bb_tx_query_or_end(rq, tx, &hold, BB_ARGS(bb_i(looked->size), bb_i(looked->after)));
    const struct bb_rows *rest =
        bb_tx_query_or_end(rq, tx, &look, BB_ARGS(bb_t(bb_cell(rq, held, 0, 0)), bb_i(READINGS)));

    looked->count = bb_cell_int(rq, held, 0, 1);
    looked->after = bb_cell_int(rq, held, 0, 2);
    looked->rest = looked->rest || bb_cell_int(rq, rest, 0, 0);
    return 200;
}

static int due_transaction(struct bb_request *rq, void *looked)
{
    return bb_transaction(rq, due_look, looked);
}

/*
 * Processes batches of devices until the time limit. After the last device, starts again at the
 * first one if a device has readings left. If a statement takes too long, uses smaller batches
 * until one succeeds, even after the time limit: otherwise the next run would begin with the same
 * batch.
 */
int64_t certificate_mark_due(struct bb_request *rq, bool *more)
{
    static const char step[] = "the search for due cycles";
    struct certificate *certificate = rq->state;
    int64_t after = atomic_load(&certificate->looked), until;
    struct looked looked = {.size = LOOKED, .after = after, .rest = after > 0};
    bool any, failed = certificate_note(rq, &take, TAKEN, step, &any) < 0, smaller = false;

    until = certificate_turn(rq);
    *more = !failed && any;
    while (*more && !failed && (smaller || bb_now_ms(rq->host) < until)) {
        smaller = bb_scratch(rq, due_transaction, &looked) >= 400;
        if (smaller) {
            certificate_step_failed(rq, step);
            failed = looked.size == 1 || strcmp(bb_sqlstate(rq), "57014") != 0;
            looked.size = looked.size > FEWER ? looked.size / FEWER : 1;
        } else if (looked.count < looked.size) {
            *more = looked.rest;
            looked.after = 0;
            looked.rest = false;
        }
    }
    *more = *more && !failed;
    atomic_store(&certificate->looked, *more ? looked.after : 0);
    return failed ? -1 : 0;
}

/* ---- changed devices ---- */

/*
 * If a change of a device may raise its ceiling, its cycles with energy above the old ceiling are
 * due again, because more may be certified. The hook only notes the device. The job marks cycles
 * later, because the hook would not find a cycle that is being issued at the same time.
 *
 * $1 device. Updates an existing row: this locks it, so the job deletes it only after the commit.
 */
static const struct bb_sql note = {"INSERT INTO certificate_changed (device) VALUES ($1::bigint)"
                                   " ON CONFLICT (device) DO UPDATE SET device = excluded.device",
                                   BB_SQL_WRITE};

int certificate_device_changed(struct bb_request *rq, struct bb_tx *tx,
                               const struct bb_event *event, void *state)
{
    static const char *const fields[] = {"capacity", "yieldValue", "countryCode",
                                         "commissioningDate"};
    const json_t *device = json_object_get(event->payload, "device"), *name;
    struct bb_value id = bb_i(json_integer_value(json_object_get(device, "id")));
    size_t i;

    (void)state;
    json_array_foreach (json_object_get(event->payload, "changed"), i, name) {
        for (size_t j = 0; j < sizeof(fields) / sizeof(*fields); j++)
            if (!strcmp(json_string_value(name), fields[j]))
                return bb_add(rq, tx, &note, &id, 1) < 0 ? -1 : 0;
    }
    return 0;
}

/* $1 last device handled */
static const struct bb_sql changed = {
    "SELECT min(device) FROM certificate_changed WHERE device > $1::bigint", 0};

/* $1 device */
static const struct bb_sql recheck = {"SELECT certificate_recheck($1::bigint)",
                                      BB_SQL_WRITE | BB_SQL_LONG};

/* Sets *last to the next changed device, and rechecks it. Returns 1; 0: no device; -1: failed. */
static int recheck_next(struct bb_request *rq, void *last)
{
    const struct bb_rows *rows = bb_query(rq, &changed, BB_ARGS(bb_i(*(int64_t *)last)));

    if (!rows || !bb_cell(rq, rows, 0, 0))
        return rows ? 0 : -1;
    *(int64_t *)last = bb_cell_int(rq, rows, 0, 0);
    return bb_query(rq, &recheck, BB_ARGS(bb_i(*(int64_t *)last))) ? 1 : -1;
}

/* If a device fails, the run ends, and the next run starts after this device. */
int64_t certificate_recheck(struct bb_request *rq, bool *more)
{
    struct certificate *certificate = rq->state;
    int64_t first = atomic_load(&certificate->rechecked), last = first;
    int64_t until = certificate_turn(rq);
    int found = 1;

    while (found > 0 && bb_now_ms(rq->host) < until)
        found = bb_scratch(rq, recheck_next, &last);
    atomic_store(&certificate->rechecked, found ? last : 0);
    *more = found > 0 || (!found && first > 0);
    return found < 0 ? certificate_step_failed(rq, "the check of changed devices") : 0;
}
