/*
 * GET /api/meter-reads/new/:externalId/totals: readings summed by hour, day, month or year of
 * a time zone.
 *
 * A reading counts completely for the span in which it ends; a reading that ends at midnight counts
 * for the previous day. The database knows the time zones and computes the sums. A cursor is the
 * beginning of the last span seen, in ms since 1970. Each sum comes with the plausible ceiling of a
 * reading of that span.
 */
#include "modules/reading/reading.h"

enum { PAGE = 1000 };

/* clang-format off */

/*
 * $1 device, $2 type or null, $3 start, $4 end, $5 hour, day, month or year, $6 zone, $7 beginning of the
 * last span seen, $8 number of spans
 */
#define NEXT(time)                                                                                 \
    "CASE $5::text WHEN 'hour' THEN " time " + interval '1 hour' ELSE (" time                      \
    " AT TIME ZONE $6::text + ('1 ' || $5::text)::interval) AT TIME ZONE $6::text END"
static const struct bb_sql totals = {
    "SELECT " BB_SQL_MS("s.span") ", " BB_SQL_MS(NEXT("s.span")) ", s.wh, 'Wh', s.count FROM"
    " (SELECT date_trunc($5::text, r.end_at - interval '1 microsecond', $6::text) AS span,"
    " sum(r.wh)::bigint AS wh, count(*) AS count FROM reading r"
    " WHERE r.device = $1::bigint AND r.type IN ('D', 'H')"
    " AND ($2::text IS NULL OR r.type = $2::text::\"char\")"
    " AND r.end_at > reading_time($3::bigint) AND r.end_at <= reading_time($4::bigint)"
    " AND ($7::bigint IS NULL OR r.end_at > "
    NEXT("date_trunc($5::text, reading_time($7::bigint), $6::text)") ")"
    " GROUP BY 1) s ORDER BY s.span LIMIT $8::bigint",
    BB_SQL_LONG};

/* clang-format on */

int64_t reading_ceiling(void *state, const struct bb_device *device, int64_t start, int64_t end)
{
    const struct reading *reading = state;
    struct ceiling_device facts = {.capacity_kw = device->capacity_kw, .yield = device->yield};
    struct moment day;

    if (!device->commissioned || moment_parse(device->commissioned, &day) != 0 ||
        !(device->capacity_kw > 0))
        return 0;
    facts.commissioned = day.ms;
    double wh = ceiling_wh(&reading->settings->rule, &facts, start, end);

    return wh < (double)(INT64_MAX / 2) ? (int64_t)wh : INT64_MAX / 2;
}

int reading_totals(struct bb_request *rq)
{
    size_t limit = (size_t)bb_arg_int(rq, "limit", PAGE), count;
    const char *by = bb_arg(rq, "by"), *after = bb_arg(rq, "after"), *name = bb_arg(rq, "timezone");
    const struct zone *zone = NULL;
    struct bb_device device;
    struct reading_range range;
    int refused = reading_range(rq, &range);

    if (!refused)
        refused = reading_device(rq, bb_arg_int(rq, "organizationId", 0), &device);
    if (refused)
        return refused;
    if (name && zones_get(rq, name, &zone))
        return bb_failed(rq);
    if (name && !zone)
        return bb_invalid(rq, "timezone", "must be a time zone of the IANA list");
    if (!name)
        name = device.timezone ? device.timezone : "UTC";
    const struct bb_rows *rows =
        bb_query(rq, &totals,
                 BB_ARGS(bb_i(device.id), bb_t(range.type), bb_i(range.start), bb_i(range.end),
                         bb_t(by ? by : "day"), bb_t(name), bb_t(after), bb_i((int64_t)limit + 1)));

    if (!rows || bb_page(rq, rows, limit, 0, &count) < 0)
        return bb_failed(rq);
    json_t *list = json_array();

    for (size_t row = 0; row < count && list; row++) {
        json_t *json = bb_row_fields(rq, rows, row, 0, reading_total_fields, 5);
        json_t *ceiling = json_null();

        if (device.commissioned && device.capacity_kw > 0)
            ceiling = json_integer(reading_ceiling(
                rq->state, &device, bb_cell_int(rq, rows, row, 0), bb_cell_int(rq, rows, row, 1)));
        if (json_object_set_new(json, "ceiling", ceiling)) {
            json_decref(json);
            json = NULL;
        }
        list = bb_append(list, json);
    }
    return bb_reply(rq, 200, list);
}
