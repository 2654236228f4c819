/*
 * If the capacity of a device is corrected, energy above its ceiling may be certified after all, so
 * its cycles become due again. The change only notes the device, and the job searches for its
 * cycles, because a cycle that is being issued during the change has its account in the database
 * only later.
 */
#include <string.h>

#include "modules/certificate/base/certificate.h"

#define BATCH 200

static bool changes_ceiling(const json_t *payload)
{
    size_t i;
    const json_t *name;

    json_array_foreach(json_object_get(payload, "changed"), i, name)
    {
        const char *text = json_string_value(name);

        if (!strcmp(text, "capacity") || !strcmp(text, "yieldValue") ||
            !strcmp(text, "countryCode") || !strcmp(text, "commissioningDate"))
            return true;
    }
    return false;
}

/* $1 device. If the job is about to take the note, the note is written again. */
static const struct bb_sql note = {"INSERT INTO certificate_changed (device) VALUES ($1::bigint)"
                                   " ON CONFLICT (device) DO UPDATE SET device = excluded.device",
                                   BB_SQL_WRITE};

int certificate_device_changed(struct bb_request *rq, struct bb_tx *tx,
                               const struct bb_event *event, void *state)
{
    const json_t *device = json_object_get(event->payload, "device");

    (void)state;
    if (!changes_ceiling(event->payload))
        return 0;
    return bb_add(rq, tx, &note, BB_ARGS(bb_i(json_integer_value(json_object_get(device, "id"))))) <
                   0
               ? -1
               : 0;
}

/* $1 last device of the previous batch, $2 number of devices */
static const struct bb_sql changed = {"SELECT device FROM certificate_changed"
                                      " WHERE device > $1::bigint ORDER BY device LIMIT $2::int",
                                      0};

/* $1 device */
static const struct bb_sql recheck = {"SELECT certificate_recheck($1::bigint)",
                                      BB_SQL_WRITE | BB_SQL_LONG};

struct rechecked {
    int64_t after; /* the last device handled */
    int64_t until; /* the end of the run */
    size_t count;  /* of the last batch */
    bool over;     /* the run ended early */
    bool failed;
};

static int recheck_batch(struct bb_request *rq, void *arg)
{
    struct rechecked *rechecked = arg;
    const struct bb_rows *rows =
        bb_query(rq, &changed, BB_ARGS(bb_i(rechecked->after), bb_i(BATCH)));

    rechecked->count = rows ? bb_count(rq, rows) : 0;
    rechecked->failed = !rows;
    for (size_t row = 0; row < rechecked->count && !rechecked->failed; row++) {
        rechecked->over = bb_now_ms(rq->host) >= rechecked->until;
        if (rechecked->over)
            return -1;
        rechecked->after = bb_cell_int(rq, rows, row, 0);
        rechecked->failed = !bb_query(rq, &recheck, BB_ARGS(bb_i(rechecked->after)));
    }
    return rechecked->failed ? -1 : 0;
}

/* A device that fails ends the run, and the next run starts after that device. */
int64_t certificate_recheck(struct bb_request *rq, bool *more)
{
    struct certificate *certificate = rq->state;
    int64_t after = atomic_load(&certificate->rechecked);
    struct rechecked rechecked = {.after = after, .until = certificate_turn(rq), .count = BATCH};

    while (rechecked.count == BATCH && !bb_scratch(rq, recheck_batch, &rechecked))
        ;
    bool end = !rechecked.over && !rechecked.failed;

    atomic_store(&certificate->rechecked, end ? 0 : rechecked.after);
    *more = rechecked.over || (end && after > 0);
    return rechecked.failed ? certificate_step_failed(rq, "looking at devices that were changed")
                            : 0;
}
