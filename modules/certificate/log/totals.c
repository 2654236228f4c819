/*
 * GET /api/certificate-log/totals: entries summed by device, group or month (UTC, by the start of
 * the certified period), in this order. A cursor is the id of the last device or group seen, 0 for
 * entries without a group, or the start of the last month in ms since 1970.
 */
#include <string.h>

#include "modules/certificate/log/filter.h"

#define PAGE 100

/*
 * $6 device, group or month, $7 last key seen, $8 number of rows. The other parameters are
 * described in filter.h. Sums of bigint are numeric.
 */
#define KEY                                                                                        \
    "CASE $6::text WHEN 'device' THEN e.device WHEN 'group' THEN coalesce(e.group_id, 0)"          \
    " ELSE (extract(epoch FROM date_trunc('month', e.start_at, 'UTC')) * 1000)::bigint END"
#define SUM(condition) "coalesce(sum(t.wh) FILTER (WHERE " condition "), 0)::bigint"
#define TOTALS(from)                                                                               \
    "SELECT t.key, count(*), sum(t.wh)::bigint, " SUM("t.status = 'Succeeded'") ", " SUM(          \
        "t.status = 'Carried'") " FROM (SELECT " KEY " AS key, e.wh, e.status"                     \
                                " FROM certificate_entry e WHERE " from CERTIFICATE_NARROW         \
                                " AND e.start_at >= coalesce($4::timestamptz, '-infinity')"        \
                                " AND e.start_at < coalesce($5::timestamptz, 'infinity')) t"       \
                                " WHERE t.key > $7::bigint GROUP BY t.key ORDER BY t.key"          \
                                " LIMIT $8::bigint"

static const struct bb_sql totals[CERTIFICATE_WAYS] = {
    [CERTIFICATE_BY_DEVICE] = {TOTALS("e.device = $3::bigint AND " CERTIFICATE_SEES), BB_SQL_LONG},
    [CERTIFICATE_BY_CHOSEN] = {TOTALS("$3::bigint IS NULL AND " CERTIFICATE_SEES
                                      " AND e.device = ANY ($19::bigint[])"),
                               BB_SQL_LONG},
    [CERTIFICATE_BY_GROUP] = {TOTALS(CERTIFICATE_SEES_GROUP
                                     " AND $3::bigint IS NULL AND e.group_id > 0"
                                     " AND e.group_id = $9::bigint"),
                              BB_SQL_LONG},
    [CERTIFICATE_BY_ORGANIZATION] = {TOTALS("NOT $1::boolean AND $3::bigint IS NULL"
                                            " AND e.organisation = ANY ($2::bigint[])"),
                                     BB_SQL_LONG},
    [CERTIFICATE_BY_TIME] = {TOTALS("$3::bigint IS NULL AND " CERTIFICATE_SEES), BB_SQL_LONG},
};

enum column { TOTAL_KEY, TOTAL_ENTRIES, TOTAL_WH, TOTAL_SUCCEEDED, TOTAL_CARRIED };

/* The key of a sum: a device, a group, or a month. */
static json_t *key_of(struct bb_request *rq, const char *by, int64_t key,
                      const struct bb_device *device)
{
    if (!strcmp(by, "month"))
        return json_pack("{s:s}", "month", bb_time_text(rq, key));
    if (!strcmp(by, "group"))
        return json_pack("{s:o}", "groupId", key ? json_integer(key) : json_null());
    return json_pack("{s:I, s:s?, s:s?, s:s?}", "deviceId", (json_int_t)key, "externalId",
                     device->uuid, "developerId", device->external_id, "serialNumber",
                     device->serial_number);
}

static json_t *total_of(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                        const char *by, const struct bb_device *device)
{
    static const struct bb_column sums[] = {
        {"entries", BB_COLUMN_INT, TOTAL_ENTRIES},
        {"readvalue_watthour", BB_COLUMN_INT, TOTAL_WH},
        {"succeeded_watthour", BB_COLUMN_INT, TOTAL_SUCCEEDED},
        {"carried_watthour", BB_COLUMN_INT, TOTAL_CARRIED},
    };

    return BB_ROW_ADD(rq, rows, row, sums,
                      key_of(rq, by, bb_cell_int(rq, rows, row, TOTAL_KEY), device));
}

/* Returns the devices of rows whose key is a device; NULL: failed. */
static struct bb_device *devices_of(struct bb_request *rq, const struct bb_rows *rows, size_t count)
{
    const struct certificate *certificate = rq->state;
    int64_t *ids = bb_alloc(rq, (count + 1) * sizeof(*ids));
    struct bb_device *devices = NULL;

    for (size_t i = 0; i < count; i++)
        ids[i] = bb_cell_int(rq, rows, i, TOTAL_KEY);
    if (certificate->devices->get(certificate->devices_state, rq, ids, count, &devices))
        return NULL;
    return devices;
}

static int answer(struct bb_request *rq, const struct bb_rows *rows, size_t limit, const char *by)
{
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);
    const struct bb_device *devices = NULL;

    if (count < bb_count(rq, rows) && bb_reply_next(rq, bb_cell(rq, rows, count - 1, 0)) < 0)
        return bb_failed(rq);
    if (!strcmp(by, "device")) {
        devices = devices_of(rq, rows, count);
        if (!devices)
            return bb_failed(rq);
    }
    json_t *array = json_array();

    for (size_t row = 0; row < count; row++)
        if (json_array_append_new(array,
                                  total_of(rq, rows, row, by, devices ? &devices[row] : NULL))) {
            json_decref(array);
            return certificate_reply(rq, 503, NULL);
        }
    return certificate_reply(rq, 200, array);
}

int certificate_totals(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    const char *by = bb_arg(rq, "by") ? bb_arg(rq, "by") : "month";
    struct certificate_filter filter;
    int refused = certificate_filter(rq, &filter);

    if (refused)
        return refused;
    const struct bb_rows *rows = bb_query(rq, &totals[certificate_way(&filter)],
                                          BB_ARGS(CERTIFICATE_HEAD_ARGS(&filter), bb_t(by),
                                                  bb_i(bb_arg_int(rq, "after", INT64_MIN)),
                                                  bb_i(limit + 1), CERTIFICATE_TAIL_ARGS(&filter)));

    return rows ? answer(rq, rows, (size_t)limit, by) : bb_failed(rq);
}
