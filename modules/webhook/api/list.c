/*
 * GET of all webhooks, of one webhook, and of the names of events. Secrets are masked. Without
 * `limit` all webhooks are sent: a short list at once, a longer one page by page.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/array.h"
#include "modules/webhook/api/api.h"

int webhook_events(struct bb_request *rq)
{
    const char *const *names = NULL;
    size_t count = bb_event_names(rq->host, &names);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], WEBHOOK_PING) != 0 &&
            json_array_append_new(list, json_string(names[i]))) {
            json_decref(list);
            return bb_no_memory(rq);
        }
    return bb_reply(rq, 200, list);
}

/* ---- a list ---- */

struct list {
    int64_t account; /* owner */
    bool all;        /* an Admin sees all webhooks */
    int64_t after;   /* id of the last webhook read */
};

/* $1 last id seen, $2 all, $3 account, $4 number of webhooks. */
#define LIST                                                                                       \
    "SELECT " WEBHOOK_COLUMNS " FROM webhook_hook h"                                               \
    " WHERE h.id > $1::bigint AND ($2::boolean OR h.account = $3::bigint)"                         \
    " ORDER BY h.id LIMIT $4::bigint"

enum { FEW = 25 }; /* more webhooks are read by a long statement */

static const struct bb_sql list_few = {LIST, 0};
static const struct bb_sql list_long = {LIST, BB_SQL_LONG};

static const struct bb_rows *fetch(struct bb_request *rq, const struct bb_sql *sql,
                                   const struct list *list, int64_t count)
{
    return bb_query(rq, sql,
                    BB_ARGS(bb_i(list->after), bb_b(list->all), bb_i(list->account), bb_i(count)));
}

static int read_page(struct bb_request *rq, struct array_text *text, void *arg)
{
    struct list *list = arg;
    const struct bb_rows *rows = fetch(rq, &list_long, list, ARRAY_SHORT);
    size_t count = rows ? bb_count(rq, rows) : 0;

    for (size_t row = 0; row < count; row++)
        array_text_add(rq, text, webhook_json(rq, rows, row, NULL));
    if (count)
        list->after = bb_cell_int(rq, rows, count - 1, 0);
    return !rows ? -1 : count == ARRAY_SHORT;
}

static json_t *masked(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return webhook_json(rq, rows, row, NULL);
}

int webhook_list(struct bb_request *rq)
{
    const struct webhook *webhook = rq->state;
    struct list list = {.account = rq->principal->account,
                        .all = rq->principal->role == BB_ROLE_ADMIN,
                        .after = bb_arg_int(rq, "after", 0)};
    int64_t limit = bb_arg_int(rq, "limit", 0);
    int64_t most = limit ? limit : ARRAY_SHORT;
    int64_t few = most < FEW ? most : FEW;
    const struct bb_rows *rows = fetch(rq, &list_few, &list, few + 1);

    if (rows && few < most && (int64_t)bb_count(rq, rows) > few)
        rows = fetch(rq, &list_long, &list, most + 1);
    if (!rows)
        return bb_failed(rq);
    if (!limit && bb_count(rq, rows) > ARRAY_SHORT)
        return array_send_copy(rq, webhook->long_answers, read_page, &list, sizeof(list));
    return bb_reply_rows(rq, rows, (size_t)most, 0, masked);
}

static const struct bb_keyed find = WEBHOOK_KEYED("SELECT " WEBHOOK_COLUMNS);

int webhook_get(struct bb_request *rq)
{
    const struct bb_rows *rows = bb_query(rq, &find.one, BB_ARGS(WEBHOOK_MINE_ARGS(rq)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return webhook_unknown(rq);
    return bb_reply(rq, 200, webhook_json(rq, rows, 0, NULL));
}
