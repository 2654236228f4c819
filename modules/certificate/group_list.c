/* GET /api/device-group, oldest first; one group, and its name. */
#include "certificate.h"

#define PAGE 100
#define PAGE_BYTES (1024 * 1024) /* of ids of devices: large groups make a page shorter */

#define COLUMNS                                                                                    \
    "e.id, e.name, e.frequency, " CERTIFICATE_MS("e.start_at") " AS start, " CERTIFICATE_MS(       \
        "e.end_at") " AS stop, (SELECT coalesce(json_agg(m.device ORDER BY m.device), '[]')"       \
                    " FROM certificate_member m WHERE m.group_id = e.id)::text AS devices,"        \
                    " e.organisation, e.carry_wh, " CERTIFICATE_MS("e.created_at") " AS made"

/* $1 $2 scope, $3 behind which id, $4 how many, $5 bytes, which the first group alone may exceed */
static const struct bb_sql list = {
    "SELECT * FROM (SELECT q.*, count(*) OVER () AS found,"
    " sum(octet_length(q.devices)) OVER (ORDER BY q.id) AS upto FROM ("
    "SELECT " COLUMNS " FROM certificate_group e WHERE " CERTIFICATE_SEES
    " AND e.id > $3::bigint ORDER BY e.id LIMIT $4::bigint"
    ") q) p WHERE upto - octet_length(devices) < $5::bigint"
    " ORDER BY id",
    BB_SQL_LONG};

/* $1 $2 scope, $3 group, $4 name */
static const struct bb_sql get = {
    "SELECT " COLUMNS " FROM certificate_group e WHERE " CERTIFICATE_SEES " AND e.id = $3::bigint",
    0};
static const struct bb_sql change_name = {
    "UPDATE certificate_group e SET name = $4 WHERE " CERTIFICATE_SEES " AND e.id = $3::bigint",
    BB_SQL_WRITE};

enum column { ID, NAME, FREQUENCY, START, END, DEVICES, ORGANISATION, CARRY, CREATED, FOUND };

static json_t *group_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    bool ends = bb_cell(rq, rows, row, END) != NULL;
    json_t *devices = json_loads(bb_cell(rq, rows, row, DEVICES), 0, NULL);

    if (!devices)
        return NULL;
    return json_pack("{s:I, s:s, s:s, s:s, s:s?, s:o, s:I, s:I, s:s}", "id",
                     (json_int_t)bb_cell_int(rq, rows, row, ID), "name",
                     bb_cell(rq, rows, row, NAME), "frequency", bb_cell(rq, rows, row, FREQUENCY),
                     "start", bb_time_text(rq, bb_cell_int(rq, rows, row, START)), "end",
                     ends ? bb_time_text(rq, bb_cell_int(rq, rows, row, END)) : NULL, "deviceIds",
                     devices, "organizationId",
                     (json_int_t)bb_cell_int(rq, rows, row, ORGANISATION), "carriedWatthour",
                     (json_int_t)bb_cell_int(rq, rows, row, CARRY), "createdAt",
                     bb_time_text(rq, bb_cell_int(rq, rows, row, CREATED)));
}

int certificate_group_list(struct bb_request *rq)
{
    size_t limit = (size_t)bb_arg_int(rq, "limit", PAGE);
    struct certificate_scope scope;
    int refused = certificate_scope(rq, bb_arg_int(rq, "organizationId", 0), &scope);

    if (refused)
        return refused;
    const struct bb_rows *rows =
        bb_query(rq, &list,
                 BB_ARGS(CERTIFICATE_SCOPE_ARGS(&scope), bb_i(bb_arg_int(rq, "after", 0)),
                         bb_i((int64_t)limit + 1), bb_i(PAGE_BYTES)));

    if (!rows)
        return bb_failed(rq);
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);

    if (count && count < (size_t)bb_cell_int(rq, rows, 0, FOUND) &&
        bb_reply_next(rq, bb_cell(rq, rows, count - 1, ID)) < 0)
        return bb_failed(rq);
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(array, group_json(rq, rows, i))) {
            json_decref(array);
            return certificate_reply(rq, 503, NULL);
        }
    return certificate_reply(rq, 200, array);
}

static int reply_group(struct bb_request *rq, const struct certificate_scope *scope)
{
    const struct bb_rows *rows =
        bb_query(rq, &get, BB_ARGS(CERTIFICATE_SCOPE_ARGS(scope), bb_i(bb_segment_int(rq, "id"))));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "Device group not found");
    return certificate_reply(rq, 200, group_json(rq, rows, 0));
}

int certificate_group_get(struct bb_request *rq)
{
    struct certificate_scope scope;
    int refused = certificate_scope(rq, bb_arg_int(rq, "organizationId", 0), &scope);

    return refused ? refused : reply_group(rq, &scope);
}

/* One that is not there is not changed, and then not found. */
int certificate_group_rename(struct bb_request *rq)
{
    struct certificate_scope scope;
    int refused = certificate_scope(rq, bb_arg_int(rq, "organizationId", 0), &scope);

    if (refused)
        return refused;
    if (!bb_query(rq, &change_name,
                  BB_ARGS(CERTIFICATE_SCOPE_ARGS(&scope), bb_i(bb_segment_int(rq, "id")),
                          bb_t(bb_text(rq, "name")))))
        return bb_failed(rq);
    return reply_group(rq, &scope);
}
