/*
 * GET /api/chat/chain/:headUuid
 *
 * The messages of a conversation in order, found by the first one's uuid; any other uuid is unknown
 * (404). `after` is the number of messages already seen, so that a client can ask for what is new
 * without having kept a cursor. Without `limit` the whole chain: its first part by the ordinary
 * statement, the rest, if any, on the connection for long statements.
 */
#include <inttypes.h>

#include "chat.h"

enum { SHORT_CHAIN = 200 };

#define MESSAGE "e.uuid, e.username, e.chat_entry, " CHAT_TIME("e.created_at")

/* One row of nulls when the conversation is there and nothing follows; none when it is not. */
static const struct bb_sql chain_page = {
    "SELECT " MESSAGE " FROM chat_directory c LEFT JOIN LATERAL ("
    "SELECT * FROM chat_entry WHERE conversation_id = c.id AND seq > $5::bigint"
    " ORDER BY seq LIMIT $6::bigint) e ON true"
    " WHERE c.head_uuid = $4::uuid AND " CHAT_SEES " ORDER BY e.seq",
    0,
};

static const struct bb_sql chain_rest = {
    "SELECT " MESSAGE " FROM chat_entry e"
    " WHERE e.conversation_id = (SELECT c.id FROM chat_directory c"
    " WHERE c.head_uuid = $4::uuid AND " CHAT_SEES ") AND e.seq > $5::bigint ORDER BY e.seq",
    BB_SQL_LONG,
};

/* What the database holds is UTF-8: to look again takes longer than all else here. */
static json_t *message_of(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                          const char *next)
{
    return json_pack("{s:s, s:s, s:o, s:s?, s:s}", "uuid", bb_cell(rq, rows, row, 0), "username",
                     bb_cell(rq, rows, row, 1), "chatEntry",
                     json_string_nocheck(bb_cell(rq, rows, row, 2)), "nextEntryUuid", next,
                     "createdAt", bb_cell(rq, rows, row, 3));
}

/* Appends `count` messages; each one's next is the row behind it. 0, or -1: no memory. */
static int append(struct bb_request *rq, json_t *chain, const struct bb_rows *rows, size_t count)
{
    for (size_t row = 0; row < count; row++) {
        const char *next = row + 1 < bb_count(rq, rows) ? bb_cell(rq, rows, row + 1, 0) : NULL;

        if (json_array_append_new(chain, message_of(rq, rows, row, next)) < 0)
            return -1;
    }
    return 0;
}

static const struct bb_rows *fetch_page(struct bb_request *rq, int64_t after, int64_t limit)
{
    struct chat_scope scope = chat_scope(rq);

    return bb_query(rq, &chain_page,
                    BB_ARGS(CHAT_SCOPE_ARGS(&scope), bb_t(bb_segment(rq, "headUuid")), bb_i(after),
                            bb_i(limit)));
}

static const struct bb_rows *fetch_rest(struct bb_request *rq, int64_t after)
{
    struct chat_scope scope = chat_scope(rq);

    return bb_query(
        rq, &chain_rest,
        BB_ARGS(CHAT_SCOPE_ARGS(&scope), bb_t(bb_segment(rq, "headUuid")), bb_i(after)));
}

/* Fills the chain; 0, or the status of the answer given. */
static int fill(struct bb_request *rq, json_t *chain, int64_t after, int64_t limit)
{
    int64_t page = limit ? limit : SHORT_CHAIN;
    /* One more than asked for: the next of the page's last message. */
    const struct bb_rows *rows = fetch_page(rq, after, page + 1);

    if (!rows)
        return bb_failed(rq);
    size_t count = bb_count(rq, rows);

    if (count == 0)
        return bb_fail(rq, 404, "Conversation not found");
    if (!bb_cell(rq, rows, 0, 0))
        return 0;

    bool more = count > (size_t)page;

    if (append(rq, chain, rows, more ? (size_t)page : count) < 0)
        return chat_no_memory(rq);
    if (!more)
        return 0;
    if (limit)
        return bb_reply_next(rq, bb_format(rq, "%" PRId64, after + page)) < 0 ? bb_failed(rq) : 0;
    rows = fetch_rest(rq, after + page);
    if (!rows)
        return bb_failed(rq);
    return append(rq, chain, rows, bb_count(rq, rows)) < 0 ? chat_no_memory(rq) : 0;
}

int chat_chain(struct bb_request *rq)
{
    json_t *chain = json_array();
    int answered = chain ? fill(rq, chain, bb_arg_int(rq, "after", 0), bb_arg_int(rq, "limit", 0))
                         : chat_no_memory(rq);

    if (answered) {
        json_decref(chain);
        return answered;
    }
    return bb_reply(rq, 200, chain);
}
