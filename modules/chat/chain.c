/*
 * GET /api/chat/chain/:headUuid
 *
 * Returns the messages of the conversation whose first message has this uuid, in order. Any other
 * uuid gets a 404. `after` is the number of messages already seen, so that a client can request new
 * messages without storing a cursor. Without `limit` the response has the whole chain: a short
 * chain is sent at once; a longer one is read page by page while it is sent.
 *
 * With `order=desc` the response has the latest messages, or the latest ones before `before`.
 *
 * Each statement also returns whether messages that it needs are archived. If so, they are restored
 * (archive.c), and the statement runs again.
 */
#include <inttypes.h>
#include <string.h>

#include "modules/chat/chat.h"
#include "modules/common/pieces.h"

#define MESSAGE                                                                                    \
    "e.uuid, e.username, e.chat_entry, " BB_SQL_TIME("e.created_at") ", e.next, e.attachments"
/*
 * Selects messages, numbered from 1, with the uuid of the next message, the number and bytes of all
 * selected messages, and the bytes of the earlier selected messages.
 */
#define NUMBERED(conversation, after, limit)                                                       \
    "SELECT l.*, lead(l.uuid) OVER w AS next, row_number() OVER w AS place,"                       \
    " count(*) OVER () AS total, sum(" CHAT_BYTES(                                                 \
        "l") ") OVER () AS bytes,"                                                                 \
             " sum(" CHAT_BYTES("l") ") OVER w - " CHAT_BYTES(                                     \
                 "l") " AS bytes_before"                                                           \
                      " FROM (SELECT * FROM chat_entry WHERE conversation_id = " conversation      \
                      " AND seq > " after " ORDER BY seq LIMIT " limit                             \
                      ") l WINDOW w AS (ORDER BY l.seq)"

// clang-format off
/*
 * Selects the first and last seq of the archived messages that a page needs (null: none). The page
 * has up to `most` bytes. `order` is DESC if it reads backward, otherwise "". `inside` is false for
 * the part in which the page begins, whose bytes do not count. Parts are selected until they have
 * `most` bytes. One more part follows, because the page's last message names the next uuid.
 */
#define ARCHIVED(conversation, condition, inside, order, most)                                     \
    "(SELECT min(a.first) AS first, max(a.last) AS last FROM (SELECT a.*, coalesce(sum("           \
    "CASE WHEN " inside " THEN a.text_bytes END) OVER (ORDER BY a.first " order                    \
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING), 0) AS before FROM chat_archive a"         \
    " WHERE a.conversation_id = " conversation " AND " condition ") a"                             \
    " WHERE a.restored_at IS NULL AND a.before < " most ") a"

/* The conversation's rows c and v, and the range of archived messages that the page needs. */
#define CONVERSATION_SEEN(condition, inside, order, most)                                          \
    "chat_directory c JOIN chat_conversation v ON v.id = c.id CROSS JOIN LATERAL "                 \
    ARCHIVED("c.id", condition, inside, order, most)

/*
 * $4 head uuid, $5 last seq seen, $6 number of rows to read ($7 + 1), $7 number to return. A chain
 * is short if it has up to $8 rows and $9 bytes. Returns no row if the conversation is unknown.
 * Returns one row without a message if there are no messages, or if the chain is not short.
 */
static const struct bb_sql short_chain = {
    "SELECT " MESSAGE ", c.id, a.first, a.last, v.entries FROM "
    CONVERSATION_SEEN("a.last > $5::bigint AND a.first - $6::bigint <= $5::bigint",
                      "a.first > $5::bigint", "", "$9::bigint")
    " LEFT JOIN LATERAL (" NUMBERED("c.id", "$5::bigint", "$6::bigint") ") e"
    " ON e.place <= $7::bigint AND e.total <= $8::bigint AND e.bytes <= $9::bigint"
    " WHERE c.head_uuid = $4::uuid AND " CHAT_SEES " ORDER BY e.seq",
    BB_SQL_REPLICA,
};

/*
 * $1 conversation, $2 seq after which the page begins, $3 maximum rows plus 1, $4 maximum bytes,
 * which only the last row may exceed. Returns one row without a message if there is no message.
 */
static const struct bb_sql next_page = {
    "SELECT " MESSAGE ", $1::bigint, a.first, a.last FROM "
    ARCHIVED("$1::bigint", "a.last > $2::bigint AND a.first - $3::bigint <= $2::bigint",
             "a.first > $2::bigint", "", "$4::bigint")
    " LEFT JOIN (" NUMBERED("$1::bigint", "$2::bigint", "$3::bigint") ") e"
    " ON e.place < $3::bigint AND e.bytes_before < $4::bigint ORDER BY e.seq",
    BB_SQL_LIST,
};

/*
 * $4 head uuid, $5 the seq before which the page ends, $6 maximum rows, $7 maximum bytes, which
 * only the oldest message may exceed. The last column is the message's seq. Returns no row if the
 * conversation is unknown, and one row without a message if no message precedes $5.
 */
#define LATEST                                                                                     \
    "SELECT " MESSAGE ", c.id, a.first, a.last, e.seq FROM "                                       \
    CONVERSATION_SEEN("a.first <= $5::bigint"                                                      \
                      " AND a.last >= least($5::bigint, v.entries + 1) - $6::bigint",              \
                      "a.last < $5::bigint", "DESC", "$7::bigint")                                 \
    " LEFT JOIN LATERAL (SELECT * FROM (SELECT l.*,"                                               \
    " lag(l.uuid) OVER w AS next, sum(" CHAT_BYTES("l") ") FILTER (WHERE l.seq <"                  \
    " $5::bigint) OVER w - " CHAT_BYTES("l") " AS newer FROM (SELECT * FROM chat_entry"            \
    " WHERE conversation_id = c.id AND seq <= $5::bigint ORDER BY seq DESC LIMIT $6::bigint + 1)"  \
    " l WINDOW w AS (ORDER BY l.seq DESC)) n WHERE n.seq < $5::bigint AND n.newer < $7::bigint"    \
    " ORDER BY n.seq DESC LIMIT $6::bigint) e ON true WHERE c.head_uuid = $4::uuid AND " CHAT_SEES \
    " ORDER BY e.seq DESC"
static const struct bb_sql latest[2] = {{LATEST, BB_SQL_REPLICA}, {LATEST, BB_SQL_LIST}};
// clang-format on

enum column {
    UUID, /* NULL: no message */
    USERNAME,
    ENTRY,
    CREATED,
    NEXT,
    ATTACHMENTS, /* NULL: none */
    CONVERSATION,
    ARCHIVED_FIRST, /* NULL: nothing that the statement needs is archived */
    ARCHIVED_LAST,
    ENTRIES,
    PLACE = ENTRIES
};

/* Runs a statement. While it needs archived messages, restores them and runs it again. */
static const struct bb_rows *chain_query(struct bb_request *rq, const struct bb_sql *sql,
                                         const struct bb_value *values, size_t count)
{
    const struct bb_rows *rows;

    while ((rows = bb_find_or_end(rq, sql, values, count, "Conversation")) &&
           bb_cell(rq, rows, 0, ARCHIVED_FIRST))
        chat_restore(rq, bb_cell_int(rq, rows, 0, CONVERSATION),
                     bb_cell_int(rq, rows, 0, ARCHIVED_FIRST),
                     bb_cell_int(rq, rows, 0, ARCHIVED_LAST));
    return rows;
}

/* Does not check UTF-8: the database ensures it, and the check would be the slowest part. */
static json_t *chain_message(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    const char *text = bb_cell(rq, rows, row, ATTACHMENTS);
    json_t *attachments = text ? bb_json_read(rq, text) : NULL;

    if (text && !attachments)
        return NULL;
    return json_pack("{s:s, s:s, s:o, s:s?, s:s, s:o*}", "uuid", bb_cell(rq, rows, row, UUID),
                     "username", bb_cell(rq, rows, row, USERNAME), "chatEntry",
                     json_string_nocheck(bb_cell(rq, rows, row, ENTRY)), "nextEntryUuid",
                     bb_cell(rq, rows, row, NEXT), "createdAt", bb_cell(rq, rows, row, CREATED),
                     "attachments", attachments);
}

/* ---- a long chain ---- */

struct chain {
    int64_t conversation, after;
    int64_t left; /* messages still to be sent */
};

static int chain_read_page(struct bb_request *rq, struct csv *text, void *arg)
{
    struct chain *chain = arg;
    int64_t limit = chain->left < ARRAY_PAGE_ROWS ? chain->left : ARRAY_PAGE_ROWS;
    const struct bb_value values[] = {bb_i(chain->conversation), bb_i(chain->after),
                                      bb_i(limit + 1), bb_i(ARRAY_PAGE_BYTES)};
    const struct bb_rows *rows = chain_query(rq, &next_page, values, 4);

    if (!bb_cell(rq, rows, 0, UUID))
        return 0;
    size_t count = bb_count(rq, rows);

    for (size_t row = 0; row < count; row++)
        pieces_add(rq, text, chain_message(rq, rows, row));
    chain->after += (int64_t)count;
    chain->left -= (int64_t)count;
    return chain->left > 0 && bb_cell(rq, rows, count - 1, NEXT) ? 1 : 0;
}

/* ---- the latest messages first ---- */

static int chain_latest(struct bb_request *rq)
{
    enum { LIMIT = 50, BYTES = 1024 * 1024 };
    struct chat_scope scope = chat_scope(rq);
    const char *head = bb_segment(rq, "headUuid");
    int64_t limit = bb_arg_int(rq, "limit", LIMIT), before = bb_arg_int(rq, "before", INT64_MAX);
    const struct bb_value values[] = {CHAT_SCOPE_ARGS(&scope), bb_t(head), bb_i(before),
                                      bb_i(limit), bb_i(BYTES)};
    const struct bb_rows *rows = chain_query(rq, &latest[limit > ARRAY_SHORT], values, 7);
    size_t count = bb_cell(rq, rows, 0, UUID) ? bb_count(rq, rows) : 0;
    int64_t first = count ? bb_cell_int(rq, rows, count - 1, PLACE) : 1;
    const char *next = bb_format(
        rq, "</api/chat/chain/%s?order=desc&limit=%" PRId64 "&before=%" PRId64 ">; rel=\"next\"",
        head, limit, first);

    if (first > 1 && bb_reply_header(rq, "Link", next) < 0)
        return bb_failed(rq);
    return bb_reply_page(rq, rows, count, NULL, chain_message);
}

int chat_chain(struct bb_request *rq)
{
    const char *order = bb_arg(rq, "order");

    if (order && strcmp(order, "desc") == 0)
        return chain_latest(rq);
    if (bb_arg(rq, "before"))
        return bb_invalid(rq, "before", "needs order=desc");
    static const struct pieces_source source = {.write = chain_read_page};
    const struct chat *chat = rq->state;
    struct chat_scope scope = chat_scope(rq);
    int64_t after = bb_arg_int(rq, "after", 0), limit = bb_arg_int(rq, "limit", 0);
    bool few = limit && limit <= ARRAY_SHORT;
    int64_t wanted = few ? limit : ARRAY_SHORT; /* one more is read, because of nextEntryUuid */
    const struct bb_value values[] = {CHAT_SCOPE_ARGS(&scope),
                                      bb_t(bb_segment(rq, "headUuid")),
                                      bb_i(after),
                                      bb_i(wanted + 1),
                                      bb_i(wanted),
                                      bb_i(few ? limit + 1 : ARRAY_SHORT),
                                      bb_i(ARRAY_PAGE_BYTES)};
    const struct bb_rows *rows = chain_query(rq, &short_chain, values, 9);
    int64_t behind = bb_cell_int(rq, rows, 0, ENTRIES) - after;

    if (limit && behind > limit && bb_reply_next(rq, bb_format(rq, "%" PRId64, after + limit)) < 0)
        return bb_failed(rq);
    bool none = !bb_cell(rq, rows, 0, UUID);

    if (behind > 0 && none) {
        struct chain chain = {bb_cell_int(rq, rows, 0, CONVERSATION), after,
                              limit ? limit : INT64_MAX};

        return pieces_begin_copy(rq, chat->long_answers, &source, &chain, sizeof(chain));
    }
    return bb_reply_page(rq, rows, none ? 0 : bb_count(rq, rows), NULL, chain_message);
}
