/* GET /api/meter-reads/latestread/:externalId: reads one row, however many readings there are. */
#include "modules/reading/base/reading.h"

#define START READING_MS("d.latest_start")
#define END READING_MS("d.latest_end")
#define AT READING_MS("d.latest_at")
#define LATEST(id)                                                                                 \
    "SELECT d.type, " START " AS starts, " END " AS ends, d.latest_wh, " AT " AS at"               \
    " FROM reading_device d WHERE d.device = " id " ORDER BY d.latest_end DESC, d.type LIMIT 1"
#define DEVICES BB_KEYS_1("bigint")
#define LATEST_OF_DEVICE LATEST("k.device")

static const struct bb_keyed latest = {
    {LATEST("$1::bigint"), BB_SQL_KEYED},
    {"SELECT l.*, k.i FROM " DEVICES " k(device, i) CROSS JOIN LATERAL (" LATEST_OF_DEVICE ") l",
     0},
};

int reading_latest(struct bb_request *rq)
{
    struct bb_device device;
    int refused = reading_device(rq, bb_arg_int(rq, "organizationId", 0), &device);

    if (refused)
        return refused;
    const struct bb_rows *rows = bb_query(rq, &latest.one, BB_ARGS(bb_i(device.id)));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "The device has no reading yet");
    return reading_reply(rq, 200,
                         reading_json(rq, bb_cell(rq, rows, 0, 0)[0], bb_cell_int(rq, rows, 0, 1),
                                      bb_cell_int(rq, rows, 0, 2), bb_cell_int(rq, rows, 0, 3),
                                      bb_cell_int(rq, rows, 0, 4)));
}
