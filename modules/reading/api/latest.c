/* GET /api/meter-reads/latestread/:externalId: one row, however many readings there are. */
#include "modules/reading/base/reading.h"

static const struct bb_sql latest = {
    "SELECT d.type, " READING_MS("d.latest_start") ", " READING_MS(
        "d.latest_end") ", d.latest_wh, " READING_MS("d.latest_at") " FROM reading_device d WHERE "
                                                                    "d.device = $1::bigint"
                                                                    " ORDER BY d.latest_end DESC, "
                                                                    "d.type LIMIT 1",
    0,
};

int reading_latest(struct bb_request *rq)
{
    struct bb_device device;
    int refused = reading_device(rq, bb_arg_int(rq, "organizationId", 0), &device);

    if (refused)
        return refused;
    const struct bb_rows *rows = bb_query(rq, &latest, BB_ARGS(bb_i(device.id)));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "The device has no reading yet");
    return reading_reply(rq, 200,
                         reading_json(rq, bb_cell(rq, rows, 0, 0)[0], bb_cell_int(rq, rows, 0, 1),
                                      bb_cell_int(rq, rows, 0, 2), bb_cell_int(rq, rows, 0, 3),
                                      bb_cell_int(rq, rows, 0, 4)));
}
