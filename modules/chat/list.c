/*
 * GET /api/chat/conversations/user/:email, latest activity first
 *
 * A cursor is "<last activity in microseconds>-<id>" of the last conversation seen. Without `limit`
 * the response has the whole list, and a short list is sent at once. The order of a long list is
 * read in one query, because it may change later; the conversations are read page by page.
 *
 * A caller that names another e-mail sees only a part of that e-mail's conversations, maybe a few
 * of very many. This part is searched in chat_directory, by organization or by both participants.
 *
 * With `unread` each conversation has the number of messages that each participant has not read.
 *
 * GET /api/chat/conversations has the same order, pages and cursors (see below).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/chat/list.h"
#include "modules/common/pieces.h"

#define OWN                                                                                        \
    "(" BRANCH("c.participant1 = $4::text") " UNION ALL " BRANCH("c.participant2 = $4::text") ") " \
                                                                                              "c"

#define OF_ORGANIZATION(side)                                                                      \
    "SELECT d.id FROM chat_directory d WHERE d.organisation = ANY($2::bigint[])"                   \
    " AND d.participant" side " = $4::text"
#define OF_PAIR(side, other)                                                                       \
    "SELECT d.id FROM chat_directory d WHERE d.participant" side " = $4::text"                     \
    " AND d.participant" other " = $3::text"
#define ANOTHERS                                                                                   \
    "chat_conversation c JOIN (" OF_ORGANIZATION("1") " UNION " OF_ORGANIZATION(                   \
        "2") " UNION " OF_PAIR("1", "2") " UNION " OF_PAIR("2",                                    \
                                                           "1") ") d ON d.id = c.id AND " BEHIND

#define LISTED CHAT_COLUMNS ", c.unread1, c.unread2"
#define PAGE(rows) "SELECT " LISTED ", " LAST_AT " || '-' || c.id FROM " rows LATEST_FIRST
#define IDS(rows)                                                                                  \
    "SELECT coalesce(array_agg(c.id), '{}') FROM (SELECT c.id FROM " rows LATEST_FIRST ") c"

/*
 * [1] is for a caller that names another e-mail than its own. All have BB_SQL_LIST, because they
 * may take long: PostgreSQL sorts all conversations of an hour, and skips another e-mail's
 * conversations that the caller may not see.
 */
static const struct bb_sql list_page[2] = {{PAGE(OWN), BB_SQL_LIST}, {PAGE(ANOTHERS), BB_SQL_LIST}};
static const struct bb_sql list_ids[2] = {{IDS(OWN), BB_SQL_LIST}, {IDS(ANOTHERS), BB_SQL_LIST}};

static const struct bb_sql by_ids = {
    "SELECT " LISTED " FROM unnest($1::bigint[]) WITH ORDINALITY AS o (id, place)"
    " JOIN chat_conversation c ON c.id = o.id ORDER BY o.place",
    BB_SQL_LIST,
};

struct position {
    int64_t time; /* last activity in microseconds; 0: begin with the latest */
    int64_t id;
};

static struct position list_position(struct bb_request *rq)
{
    const char *after = bb_arg(rq, "after");
    struct position at = {.id = INT64_MAX};
    int length = 0;

    /* The calendar of the API ends with the year 9999. */
    if (after &&
        (sscanf(after, "%18" SCNd64 "-%18" SCNd64 "%n", &at.time, &at.id, &length) != 2 ||
         after[length] || at.id <= 0 || at.time <= 0 || at.time >= INT64_C(253402300800000000)))
        bb_end(rq, bb_invalid(rq, "after", "must be a cursor from a Link header"));
    return at;
}

static const struct bb_rows *list_fetch(struct bb_request *rq, const struct bb_sql *sql,
                                        const struct position *position, struct bb_value limit)
{
    struct chat_scope scope = chat_scope(rq);

    return bb_query(rq, sql,
                    BB_ARGS(CHAT_SCOPE_ARGS(&scope), bb_t(bb_segment(rq, "email")),
                            position->time ? bb_i(position->time) : bb_null(), bb_i(position->id),
                            limit));
}

/* Returns the number of fields of a conversation, which depends on the query's `unread`. */
static size_t list_fields(struct bb_request *rq)
{
    const char *unread = bb_arg(rq, "unread");

    return unread && strcmp(unread, "true") == 0 ? CHAT_UNREAD : CHAT_CONVERSATION;
}

/* ---- a long list ---- */

/* Rows per read. A read blocks other requests on the loop for one or two milliseconds. */
enum { PIECE_ROWS = 128 };

struct list {
    size_t fields; /* number of fields of each conversation */
    size_t count, sent;
    int64_t ids[];
};

static int list_read_page(struct bb_request *rq, struct csv *text, void *arg)
{
    struct list *list = arg;
    size_t left = list->count - list->sent;
    size_t count = left < PIECE_ROWS ? left : PIECE_ROWS;
    const struct bb_rows *rows =
        bb_query(rq, &by_ids, BB_ARGS(bb_ints(list->ids + list->sent, count)));

    if (!rows)
        return -1;
    for (size_t row = 0; row < bb_count(rq, rows); row++)
        pieces_add(rq, text, bb_row_fields(rq, rows, row, 0, chat_fields, list->fields));
    list->sent += count;
    return list->sent < list->count;
}

struct order {
    const struct bb_sql *sql;
    const struct position *position;
    struct list *list;
};

/* Reads all ids into order->list; bb_scratch() frees the rows. Returns 0, or the status sent. */
static int list_take_order(struct bb_request *rq, void *arg)
{
    struct order *order = arg;
    const struct bb_rows *rows = list_fetch(rq, order->sql, order->position, bb_null());

    if (!rows)
        return bb_failed(rq);
    const char *ids = bb_cell(rq, rows, 0, 0); /* "{1,2,3}" */
    struct list *list = malloc(sizeof(*list) + bb_cell_ints(ids, NULL) * sizeof(list->ids[0]));

    if (!list)
        return bb_no_memory(rq);
    list->count = bb_cell_ints(ids, list->ids);
    list->sent = 0;
    order->list = list;
    return 0;
}

static int list_send_long(struct bb_request *rq, const struct bb_sql *sql,
                          const struct position *position)
{
    static const struct pieces_source source = {.write = list_read_page};
    const struct chat *chat = rq->state;
    struct order order = {sql, position, NULL};

    slot_await(rq, chat->long_answers);
    int refused = bb_scratch(rq, list_take_order, &order);

    if (refused) {
        slot_release(chat->long_answers, rq->principal->account);
        return refused;
    }
    order.list->fields = list_fields(rq);
    return pieces_begin(rq, chat->long_answers, &source, order.list);
}

/* ---- a page ---- */

int chat_list(struct bb_request *rq)
{
    struct chat_scope scope = chat_scope(rq);
    struct position position = list_position(rq);
    int64_t limit = bb_arg_int(rq, "limit", 0);
    size_t page = limit ? (size_t)limit : ARRAY_SHORT;
    bool another = chat_asks_for_another(&scope, bb_segment(rq, "email"));

    /* One more row than requested shows whether there is a next page. */
    const struct bb_rows *rows =
        list_fetch(rq, &list_page[another], &position, bb_i((int64_t)page + 1));

    if (!rows)
        return bb_failed(rq);
    if (!limit && bb_count(rq, rows) > page)
        return list_send_long(rq, &list_ids[another], &position);
    return bb_reply_fields(rq, rows, page, CHAT_UNREAD, chat_fields, list_fields(rq));
}

/* ---- all conversations that the caller sees, with their last messages ---- */

// clang-format off
#define SEEN_PAGE(rows)                                                                            \
    "SELECT " LISTED ", c.organisation, json_strip_nulls(json_build_object('username', e.username,"\
    " 'chatEntry', left(e.chat_entry, 200), 'createdAt', " BB_SQL_TIME("e.created_at") ","         \
    " 'attachments', e.attachments::json)), n1.name, n2.name, "                                    \
    CHAT_CLOSED ", c.last || '-' || c.id FROM (SELECT c.*, " LAST_AT " AS last FROM " rows         \
    LATEST_FIRST ") c JOIN chat_entry e ON e.conversation_id = c.id AND e.seq = c.entries"         \
    JOIN_NAME("1") JOIN_NAME("2") " ORDER BY c.last DESC, c.id DESC"
// clang-format on

static const struct bb_sql seen_pages[] = {
    [CHAT_ONE] = {SEEN_PAGE(SOURCE_ONE), BB_SQL_REPLICA},
    [CHAT_MINE] = {SEEN_PAGE(SOURCE_MINE), BB_SQL_LIST},
    [CHAT_EVERY] = {SEEN_PAGE(SOURCE_EVERY), BB_SQL_LIST},
    [CHAT_THEIRS] = {SEEN_PAGE(SOURCE_THEIRS), BB_SQL_LIST},
};

enum chat_source chat_source(struct bb_request *rq, const struct chat_scope *scope, bool one)
{
    const char *mine = bb_arg(rq, "mine");

    if (mine && strcmp(mine, "true") == 0)
        return CHAT_MINE;
    return one ? CHAT_ONE : scope->all ? CHAT_EVERY : CHAT_THEIRS;
}

int chat_seen(struct bb_request *rq)
{
    enum { LIMIT = 50 };
    struct chat_scope scope = chat_scope(rq);
    int64_t limit = bb_arg_int(rq, "limit", LIMIT);
    bool one = bb_arg(rq, "id") != NULL;
    struct position position = list_position(rq);
    const struct bb_rows *rows =
        bb_query_or_end(rq, &seen_pages[chat_source(rq, &scope, one)],
                        BB_ARGS(CHAT_SCOPE_ARGS(&scope), bb_t(bb_arg(rq, "id")),
                                position.time ? bb_i(position.time) : bb_null(), bb_i(position.id),
                                bb_i(limit + 1), bb_t(bb_arg(rq, "organizationId")),
                                bb_t(bb_arg(rq, "search")), bb_t(bb_arg(rq, "closed"))));

    return bb_reply_fields(rq, rows, (size_t)limit, CHAT_SEEN, chat_fields, CHAT_SEEN);
}
