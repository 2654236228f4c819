/* GET /api/device-group, oldest first; and one group. */
#include "modules/certificate/base/certificate.h"

#define PAGE 100
#define PAGE_BYTES (1024 * 1024) /* of device ids: large groups make a page shorter */

#define COLUMNS                                                                                    \
    "e.id, e.name, e.frequency, " CERTIFICATE_MS("e.start_at") " AS start, " CERTIFICATE_MS(       \
        "e.end_at") " AS stop, (SELECT coalesce(json_agg(m.device ORDER BY m.device), '[]')"       \
                    " FROM certificate_member m WHERE m.group_id = e.id)::text AS devices,"        \
                    " e.organisation, e.carry_wh, " CERTIFICATE_MS("e.created_at") " AS made"

/*
 * $1 $2 scope, $3 id of the last group seen, $4 number of groups, $5 bytes, which only the first
 * group may exceed
 */
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
    BB_SQL_LONG}; /* a group may have thousands of devices */

enum column { ID, NAME, FREQUENCY, START, END, DEVICES, ORGANIZATION, CARRY, CREATED, FOUND };

static json_t *group_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_column columns[] = {
        {"id", BB_COLUMN_INT, ID},
        {"name", BB_COLUMN_TEXT, NAME},
        {"frequency", BB_COLUMN_TEXT, FREQUENCY},
        {"start", BB_COLUMN_TIME, START},
        {"end", BB_COLUMN_TIME, END},
        {"deviceIds", BB_COLUMN_JSON, DEVICES},
        {"organizationId", BB_COLUMN_INT, ORGANIZATION},
        {"carriedWatthour", BB_COLUMN_INT, CARRY},
        {"createdAt", BB_COLUMN_TIME, CREATED},
    };

    return BB_ROW_JSON(rq, rows, row, columns);
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
    bool more = count && count < (size_t)bb_cell_int(rq, rows, 0, FOUND);

    return bb_reply_page(rq, rows, count, more ? bb_cell(rq, rows, count - 1, ID) : NULL,
                         group_json);
}

int certificate_group_reply(struct bb_request *rq, const struct certificate_scope *scope)
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

    return refused ? refused : certificate_group_reply(rq, &scope);
}
