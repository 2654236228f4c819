/*
 * GET /api/chat/conversations/user/:email, latest activity first
 *
 * A cursor is "<last activity in ms>-<id>" of the last conversation seen. Without `limit` the whole
 * list is answered: a short one by the ordinary statement, a long one again and whole on the
 * connection for long statements, so that it delays nobody.
 */
#include <errno.h>
#include <inttypes.h>

#include "chat.h"

enum { SHORT_LIST = 200 };

#define BRANCH(side)                                                                               \
    "(SELECT c.* FROM chat_conversation c WHERE c.participant" side " = $4::text"                  \
    " AND c.last_hour <= date_trunc('hour', $5::timestamptz AT TIME ZONE 'UTC')"                   \
    " AND (c.last_at, c.id) < ($5::timestamptz, $6::bigint) AND " CHAT_SEES                        \
    " ORDER BY c.last_hour DESC, c.last_at DESC, c.id DESC LIMIT $7::bigint)"
#define LIST                                                                                       \
    "SELECT " CHAT_COLUMNS ", (extract(epoch FROM c.last_at) * 1000)::bigint FROM (" BRANCH(       \
        "1") " UNION ALL " BRANCH("2") ") c"                                                       \
                                       " ORDER BY c.last_at DESC, c.id DESC LIMIT $7::bigint"

static const struct bb_sql list_page = {LIST, 0};
static const struct bb_sql list_whole = {LIST, BB_SQL_LONG};

struct position {
    const char *time; /* "infinity": from the latest */
    int64_t id;
};

/* 0, or the status of the 400. */
static int position_after(struct bb_request *rq, struct position *position)
{
    const char *after = bb_arg(rq, "after");
    char *end = NULL;

    *position = (struct position){.time = "infinity", .id = INT64_MAX};
    if (!after)
        return 0;
    errno = 0;
    long long time = strtoll(after, &end, 10);
    /* The calendar of the database and of bb_time_text() ends with the year 9999. */
    bool good = end != after && *end == '-' && time >= 0 && time < 253402300800000LL;

    if (good) {
        const char *id = end + 1;

        position->id = strtoll(id, &end, 10);
        good = end != id && *end == '\0' && position->id > 0 && errno == 0;
    }
    if (!good)
        return bb_invalid(rq, "after", "must be a cursor that a Link header gave");
    position->time = bb_time_text(rq, time);
    return 0;
}

static const struct bb_rows *fetch(struct bb_request *rq, const struct bb_sql *sql,
                                   const struct position *position, struct bb_value limit)
{
    struct chat_scope scope = chat_scope(rq);
    const char *email = bb_segment(rq, "email");

    return bb_query(rq, sql,
                    BB_ARGS(CHAT_SCOPE_ARGS(&scope), bb_t(email), bb_t(position->time),
                            bb_i(position->id), limit));
}

static int answer(struct bb_request *rq, const struct bb_rows *rows, size_t count)
{
    json_t *list = json_array();

    for (size_t row = 0; row < count; row++)
        if (json_array_append_new(list, chat_conversation_json(rq, rows, row)) < 0) {
            json_decref(list);
            return chat_no_memory(rq);
        }
    if (count < bb_count(rq, rows) &&
        bb_reply_next(rq, bb_format(rq, "%s-%" PRId64, bb_cell(rq, rows, count - 1, 6),
                                    bb_cell_int(rq, rows, count - 1, 0))) < 0) {
        json_decref(list);
        return bb_failed(rq);
    }
    return chat_reply(rq, 200, list);
}

int chat_list(struct bb_request *rq)
{
    struct chat_scope scope = chat_scope(rq);
    struct position position;
    int64_t limit = bb_arg_int(rq, "limit", 0);
    size_t page = limit ? (size_t)limit : SHORT_LIST;
    int refused = chat_acts_for(rq, &scope, bb_segment(rq, "email"));

    if (!refused)
        refused = position_after(rq, &position);
    if (refused)
        return refused;

    /* One more than asked for shows whether there is a next page. */
    const struct bb_rows *rows = fetch(rq, &list_page, &position, bb_i((int64_t)page + 1));

    if (rows && !limit && bb_count(rq, rows) > page)
        rows = fetch(rq, &list_whole, &position, bb_null());
    if (!rows)
        return bb_failed(rq);
    size_t count = bb_count(rq, rows);

    return answer(rq, rows, limit && count > page ? page : count);
}
