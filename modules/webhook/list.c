/* GET of all webhooks, of one, and of the names of events. Secrets are masked. */
#include "webhook.h"

#define PAGE_MAX 1000

int webhook_events(struct bb_request *rq)
{
    const char *const *names = NULL;
    size_t count = bb_event_names(rq->host, &names);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, json_string(names[i]))) {
            json_decref(list);
            return webhook_reply(rq, 503, NULL);
        }
    return webhook_reply(rq, 200, list);
}

static int answer(struct bb_request *rq, const struct bb_rows *rows, size_t limit)
{
    size_t count = bb_count(rq, rows);
    json_t *list = json_array();

    if (count > limit) {
        count = limit;
        bb_reply_next(rq, bb_cell(rq, rows, count - 1, 0));
    }
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, webhook_json(rq, rows, i, NULL))) {
            json_decref(list);
            return webhook_reply(rq, 503, NULL);
        }
    return webhook_reply(rq, 200, list);
}

int webhook_list(struct bb_request *rq)
{
    static const struct bb_sql list = {
        "SELECT " WEBHOOK_COLUMNS " FROM webhook_hook h"
        " WHERE h.id > $1::bigint AND ($2::boolean OR h.account = $3::bigint)"
        " ORDER BY h.id LIMIT $4::bigint",
        0};
    int64_t limit = bb_arg_int(rq, "limit", PAGE_MAX);
    const struct bb_rows *rows = bb_query(rq, &list,
                                          BB_ARGS(bb_i(bb_arg_int(rq, "after", 0)),
                                                  bb_b(rq->principal->role == BB_ROLE_ADMIN),
                                                  bb_i(rq->principal->account), bb_i(limit + 1)));

    return rows ? answer(rq, rows, (size_t)limit) : bb_failed(rq);
}

int webhook_get(struct bb_request *rq)
{
    static const struct bb_sql find = {
        "SELECT " WEBHOOK_COLUMNS " FROM webhook_hook h WHERE " WEBHOOK_MINE, 0};
    const struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(WEBHOOK_MINE_ARGS(rq)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return webhook_unknown(rq);
    return webhook_reply(rq, 200, webhook_json(rq, rows, 0, NULL));
}
