/*
 * GET /api/chat/webhooks/statistics: the outcomes of the deliveries of the last 24 hours, in the
 * order and pages of the list. For each webhook only the latest MOST deliveries are read, so that a
 * page costs the same however many there are.
 */
#include "modules/webhook/api/api.h"

#define MOST "1000"
enum { PAGE = 200 };

/*
 * $1 last id seen, $2 all, $3 account, $4 number of webhooks. The duration of a delivery is the
 * duration of its last attempt.
 */
static const struct bb_sql statistics = {
    "SELECT h.id, count(*) FILTER (WHERE d.state = 'delivered'),"
    " count(*) FILTER (WHERE d.state = 'abandoned'), count(*) FILTER (WHERE d.state = 'queued'),"
    " percentile_disc(0.5) WITHIN GROUP (ORDER BY d.ms) FILTER (WHERE d.state = 'delivered')"
    " FROM (SELECT id FROM webhook_hook h WHERE h.id > $1::bigint"
    " AND ($2::boolean OR h.account = $3::bigint) ORDER BY h.id LIMIT $4::bigint) h"
    " LEFT JOIN LATERAL (SELECT state, (log -> -1 ->> 'durationMs')::bigint AS ms"
    " FROM webhook_delivery WHERE webhook = h.id AND created_at > now() - interval '1 day'"
    " AND id >= webhook_day_floor(((now() - interval '1 day') AT TIME ZONE 'UTC')::date)"
    " ORDER BY id DESC LIMIT " MOST ") d ON true GROUP BY h.id ORDER BY h.id",
    BB_SQL_LONG,
};

enum column { ID, DELIVERED, ABANDONED, QUEUED, DURATION };

static json_t *statistics_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_column columns[] = {
        {"id", BB_COLUMN_INT, ID},
        {"delivered", BB_COLUMN_INT, DELIVERED},
        {"abandoned", BB_COLUMN_INT, ABANDONED},
        {"queued", BB_COLUMN_INT, QUEUED},
        {"durationMs", BB_COLUMN_INT, DURATION},
    };

    return BB_ROW_JSON(rq, rows, row, columns);
}

int webhook_statistics(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    const struct bb_rows *rows = bb_query(rq, &statistics,
                                          BB_ARGS(bb_i(bb_arg_int(rq, "after", 0)),
                                                  bb_b(rq->principal->role == BB_ROLE_ADMIN),
                                                  bb_i(rq->principal->account), bb_i(limit + 1)));

    return rows ? bb_reply_rows(rq, rows, (size_t)limit, ID, statistics_json) : bb_failed(rq);
}
