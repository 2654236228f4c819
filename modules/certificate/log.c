/* GET /api/certificate-log: single entries, newest first; and one entry. */
#include <inttypes.h>

#include "modules/certificate/log/filter.h"

#define PAGE 100

static int name_next(struct bb_request *rq, struct certificate_filter *filter,
                     const struct bb_rows *rows, size_t count)
{
    certificate_move(rq, filter, rows, count - 1);
    return bb_reply_next(rq,
                         bb_format(rq, "%" PRId64 "-%" PRId64, filter->after_ms, filter->after_id));
}

static int answer(struct bb_request *rq, struct certificate_filter *filter,
                  const struct bb_rows *rows, size_t limit)
{
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);
    const struct bb_device *devices = certificate_devices(rq, rows, count);

    if (!devices || (count < bb_count(rq, rows) && name_next(rq, filter, rows, count) < 0))
        return bb_failed(rq);
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(array, certificate_entry(rq, rows, i, &devices[i]))) {
            json_decref(array);
            return certificate_reply(rq, 503, NULL);
        }
    return certificate_reply(rq, 200, array);
}

int certificate_log(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    struct certificate_filter filter;
    int refused = certificate_filter(rq, &filter);

    if (!refused)
        refused = certificate_cursor(rq, &filter);
    if (refused)
        return refused;
    const struct bb_rows *rows = certificate_fetch(rq, &filter, limit + 1);

    return rows ? answer(rq, &filter, rows, (size_t)limit) : bb_failed(rq);
}

/* $1 $2 scope, $3 entry. The entry is also visible if its group is shared with the scope. */
static const struct bb_sql get = {
    "SELECT " CERTIFICATE_COLUMNS " FROM certificate_entry e" CERTIFICATE_OF_ENTRY
    " WHERE (" CERTIFICATE_SEES " OR EXISTS (SELECT FROM certificate_share s WHERE s.group_id ="
    " e.group_id AND s.organisation = ANY ($2::bigint[]))) AND e.id = $3::bigint",
    0};

/* An entry of others gets the same response as one that does not exist. */
int certificate_one(struct bb_request *rq)
{
    struct certificate_scope scope;
    int refused = certificate_scope(rq, bb_arg_int(rq, "organizationId", 0), &scope);

    if (refused)
        return refused;
    const struct bb_rows *rows =
        bb_query(rq, &get, BB_ARGS(CERTIFICATE_SCOPE_ARGS(&scope), bb_i(bb_segment_int(rq, "id"))));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "Certificate log entry not found");
    const struct bb_device *devices = certificate_devices(rq, rows, 1);

    if (!devices)
        return bb_failed(rq);
    return certificate_reply(rq, 200, certificate_entry(rq, rows, 0, devices));
}
