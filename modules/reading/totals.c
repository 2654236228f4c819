/*
 * GET /api/meter-reads/new/:externalId/totals: readings summed by day, month or year of a time
 * zone.
 *
 * A reading counts completely for the span in which it ends; one that ends at midnight counts for
 * the day before. The database knows the time zones and computes the sums. A cursor is the
 * beginning of the last span seen, in ms since 1970. Each sum comes with the plausible ceiling of a
 * reading of that span.
 */
#include "modules/reading/base/reading.h"

enum { PAGE = 1000 };

/*
 * $1 device, $2 type or null, $3 start, $4 end, $5 day, month or year, $6 zone, $7 beginning of the
 * last span seen, $8 number of spans
 */
#define SPAN "date_trunc($5::text, r.end_at - interval '1 microsecond', $6::text)"
#define NEXT(time)                                                                                 \
    "(" time " AT TIME ZONE $6::text + ('1 ' || $5::text)::interval) AT TIME ZONE $6::text"
#define BEHIND "date_trunc($5::text, reading_time($7::bigint), $6::text)"

static const struct bb_sql totals = {
    "SELECT " READING_MS("s.span") ", " READING_MS(
        NEXT("s.span")) ", s.wh, s.count FROM"
                        " (SELECT " SPAN
                        " AS span, sum(r.wh)::bigint AS wh, count(*) AS count FROM reading r"
                        " WHERE r.device = $1::bigint AND r.type IN ('D', 'H')"
                        " AND ($2::text IS NULL OR r.type = $2::text::\"char\")"
                        " AND r.end_at > reading_time($3::bigint) AND r.end_at <= "
                        "reading_time($4::bigint)"
                        " AND ($7::bigint IS NULL OR r.end_at > " NEXT(
                            BEHIND) ")"
                                    " GROUP BY 1) s ORDER BY s.span LIMIT $8::bigint",
    BB_SQL_LONG};

enum column { START, END, WH, READS };

/*
 * Takes the zone from the query, else from the device. Returns 0, or the status of the response
 * sent.
 */
static int zone_of(struct bb_request *rq, const struct bb_device *device, const char **name)
{
    const struct zone *zone = NULL;
    const char *sent = bb_arg(rq, "timezone");

    *name = device->timezone ? device->timezone : "UTC";
    if (!sent)
        return 0;
    if (zone_name_good(sent) && zones_get(rq, sent, &zone))
        return bb_failed(rq);
    *name = sent;
    return zone ? 0 : bb_invalid(rq, "timezone", "must be a time zone of the IANA list");
}

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

/* Returns null if the device has no capacity or no commissioning date. */
static json_t *ceiling_json(struct bb_request *rq, const struct bb_device *device, int64_t start,
                            int64_t end)
{
    if (!device->commissioned || !(device->capacity_kw > 0))
        return json_null();
    return json_integer((json_int_t)reading_ceiling(rq->state, device, start, end));
}

static json_t *total_json(struct bb_request *rq, const struct bb_device *device,
                          const struct bb_rows *rows, size_t row)
{
    int64_t start = bb_cell_int(rq, rows, row, START), end = bb_cell_int(rq, rows, row, END);

    return json_pack("{s:s, s:s, s:I, s:s, s:I, s:o}", "startDate", bb_time_text(rq, start),
                     "endDate", bb_time_text(rq, end), "value",
                     (json_int_t)bb_cell_int(rq, rows, row, WH), "unit", "Wh", "reads",
                     (json_int_t)bb_cell_int(rq, rows, row, READS), "ceiling",
                     ceiling_json(rq, device, start, end));
}

static int answer(struct bb_request *rq, const struct bb_device *device, const struct bb_rows *rows,
                  size_t limit)
{
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);

    if (count < bb_count(rq, rows) && bb_reply_next(rq, bb_cell(rq, rows, count - 1, START)) < 0)
        return bb_failed(rq);
    json_t *array = json_array();

    for (size_t row = 0; row < count; row++)
        if (json_array_append_new(array, total_json(rq, device, rows, row))) {
            json_decref(array);
            return bb_no_memory(rq);
        }
    return bb_reply(rq, 200, array);
}

int reading_totals(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    const char *by = bb_arg(rq, "by"), *after = bb_arg(rq, "after"), *zone;
    struct bb_device device;
    struct reading_range range;
    int refused = reading_range(rq, &range);

    if (!refused)
        refused = reading_device(rq, bb_arg_int(rq, "organizationId", 0), &device);
    if (!refused)
        refused = zone_of(rq, &device, &zone);
    if (refused)
        return refused;
    const struct bb_rows *rows =
        bb_query(rq, &totals,
                 BB_ARGS(bb_i(device.id), bb_t(range.type), bb_i(range.start), bb_i(range.end),
                         bb_t(by ? by : "day"), bb_t(zone), bb_t(after), bb_i(limit + 1)));

    return rows ? answer(rq, &device, rows, (size_t)limit) : bb_failed(rq);
}
