/* GET /api/chat/webhooks/:id/deliveries, newest first, each with its attempts. */
#include "modules/webhook/api/api.h"

#define PAGE 50
#define PAGE_BYTES (1024 * 1024) /* of attempts: many with long answers make a page shorter */

/* $1 webhook, $2 below which id, $3 status or null, $4 how many, $5 bytes, which the first delivery
 * alone may exceed */
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

enum column { ID, EVENT, EVENT_ID, STATE, CREATED, NEXT, LOG, FOUND };

static json_t *delivery_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    const char *state = bb_cell(rq, rows, row, STATE);
    const char *next = state[0] == 'q' ? bb_cell_time(rq, rows, row, NEXT) : NULL;
    json_t *log = json_loads(bb_cell(rq, rows, row, LOG), 0, NULL);

    if (!log)
        return NULL;
    return json_pack("{s:I, s:s, s:s, s:s, s:s, s:s?, s:o}", "id",
                     (json_int_t)bb_cell_int(rq, rows, row, ID), "event",
                     bb_cell(rq, rows, row, EVENT), "eventId", bb_cell(rq, rows, row, EVENT_ID),
                     "status", state, "createdAt", bb_cell_time(rq, rows, row, CREATED),
                     "nextAttemptAt", next, "attempts", log);
}

/* There are more where not all that were found have gone into the page's bytes. */
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
