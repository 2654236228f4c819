/*
 * GET of a webhook's deliveries, newest first, each with its attempts; and of one delivery, with
 * its body.
 */
#include "modules/webhook/api/api.h"

#define PAGE 50
#define PAGE_BYTES (1024 * 1024) /* of attempts: long responses make a page shorter */

/*
 * $1 webhook, $2 upper bound of the ids, $3 status or null, $4 number of deliveries, $5 bytes,
 * which only the first delivery may exceed
 */
static const struct bb_sql list = {
    "SELECT * FROM (SELECT q.*, count(*) OVER () AS found,"
    " sum(octet_length(q.log)) OVER (ORDER BY q.id DESC) AS upto FROM ("
    "SELECT d.id, d.event, d.event_id, d.state,"
    " " BB_SQL_MS("d.created_at") " AS created, " BB_SQL_MS(
        "d.next_at") " AS next, d.log::text AS log"
                     " FROM webhook_delivery d WHERE d.webhook = $1::bigint AND d.id < $2::bigint"
                     " AND ($3::text IS NULL OR d.state = $3::text) ORDER BY d.id DESC LIMIT "
                     "$4::bigint"
                     ") q) p WHERE upto - octet_length(log) < $5::bigint ORDER BY id DESC",
    BB_SQL_LONG,
};

/* The parameters of WEBHOOK_MINE; $4 the delivery. */
static const struct bb_sql one = {
    "SELECT d.id, d.event, d.event_id, d.state, " BB_SQL_MS("d.created_at") ", " BB_SQL_MS(
        "d.next_at") ", d.log::text, coalesce(d.body, b.body) FROM webhook_hook h"
                     " JOIN webhook_delivery d ON d.webhook = h.id AND d.id = $4::bigint"
                     " LEFT JOIN webhook_body b ON b.id = d.body_id WHERE " WEBHOOK_MINE,
    BB_SQL_LONG, /* because of the body */
};

enum column { ID, EVENT, EVENT_ID, STATE, CREATED, NEXT, LOG, FOUND, BODY = FOUND };

static json_t *delivery_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_column columns[] = {
        {"id", BB_COLUMN_INT, ID},
        {"event", BB_COLUMN_TEXT, EVENT},
        {"eventId", BB_COLUMN_TEXT, EVENT_ID},
        {"status", BB_COLUMN_TEXT, STATE},
        {"createdAt", BB_COLUMN_TIME, CREATED},
        {"nextAttemptAt", BB_COLUMN_TIME, NEXT},
        {"attempts", BB_COLUMN_JSON, LOG},
    };
    json_t *json = BB_ROW_JSON(rq, rows, row, columns);

    if (bb_cell(rq, rows, row, STATE)[0] != 'q') /* setting an existing member needs no memory */
        json_object_set_new(json, "nextAttemptAt", json_null());
    return json;
}

/* There are more if not all rows found fit in the page's bytes. */
static int answer(struct bb_request *rq, const struct bb_rows *rows, size_t limit)
{
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);
    bool more = count && count < (size_t)bb_cell_int(rq, rows, 0, FOUND);

    return bb_reply_page(rq, rows, count, more ? bb_cell(rq, rows, count - 1, ID) : NULL,
                         delivery_json);
}

int webhook_deliveries(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    int refused = webhook_check_mine(rq);

    if (refused)
        return refused;
    const struct bb_rows *rows =
        bb_query(rq, &list,
                 BB_ARGS(bb_i(bb_segment_int(rq, "id")), bb_i(bb_arg_int(rq, "after", INT64_MAX)),
                         bb_t(bb_arg(rq, "status")), bb_i(limit + 1), bb_i(PAGE_BYTES)));
    return rows ? answer(rq, rows, (size_t)limit) : bb_failed(rq);
}

int webhook_delivery(struct bb_request *rq)
{
    const struct bb_rows *rows =
        bb_query(rq, &one, BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_i(bb_segment_int(rq, "deliveryId"))));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "Delivery not found");
    json_t *json = delivery_json(rq, rows, 0);

    if (json && json_object_set_new(json, "body", json_string(bb_cell(rq, rows, 0, BODY)))) {
        json_decref(json);
        json = NULL;
    }
    return bb_reply(rq, 200, json);
}
