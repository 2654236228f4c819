/*
 * GET /api/chat/conversations/user/:email, latest activity first
 *
 * A cursor is "<last activity in microseconds>-<id>" of the last conversation seen. Without `limit`
 * the response has the whole list, and a short list is sent at once. The order of a long list is
 * read in one query, because it would change during the response; then the conversations are read
 * page by page.
 *
 * A caller that names another e-mail sees only a part of that e-mail's conversations, maybe a few
 * of very many. This part is searched in chat_directory, by organization or by both participants.
 *
 * With `unread` each conversation has the number of messages that each participant has not read.
 *
 * GET /api/chat/conversations has the same order, pages and cursors (see below).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "modules/chat/chat.h"
#include "modules/common/pieces.h"

/* $1 to $3 the scope, $4 the e-mail, $5 and $6 the cursor, $7 the number of rows. */
#define SINCE "coalesce('epoch'::timestamptz + $5::bigint * interval '1 microsecond', 'infinity')"
#define LATEST_FIRST " ORDER BY c.last_at DESC, c.id DESC LIMIT $7::bigint"
#define BEHIND "(c.last_at, c.id) < (" SINCE ", $6::bigint) AND " CHAT_SEES
#define BRANCH(where)                                                                              \
    "(SELECT c.* FROM chat_conversation c WHERE " where                                            \
    " AND c.last_hour <= date_trunc('hour', " SINCE " AT TIME ZONE 'UTC') AND " BEHIND             \
    " ORDER BY c.last_hour DESC, c.last_at DESC, c.id DESC LIMIT $7::bigint)"
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
#define PAGE(rows)                                                                                 \
    "SELECT " LISTED ", (extract(epoch FROM c.last_at) * 1000000)::bigint FROM " rows LATEST_FIRST
#define IDS(rows)                                                                                  \
    "SELECT coalesce(array_agg(c.id), '{}') FROM (SELECT c.id FROM " rows LATEST_FIRST ") c"

/*
 * Indexed by whether the caller names another e-mail. BB_SQL_LONG, because the cost depends on the
 * number of conversations: all conversations of an hour are sorted, and the caller may not see most
 * conversations of another e-mail.
 */
static const struct bb_sql list_page[2] = {{PAGE(OWN), BB_SQL_LONG}, {PAGE(ANOTHERS), BB_SQL_LONG}};
static const struct bb_sql list_ids[2] = {{IDS(OWN), BB_SQL_LONG}, {IDS(ANOTHERS), BB_SQL_LONG}};

static const struct bb_sql by_ids = {
    "SELECT " LISTED " FROM unnest($1::bigint[]) WITH ORDINALITY AS o (id, place)"
    " JOIN chat_conversation c ON c.id = o.id ORDER BY o.place",
    BB_SQL_LONG,
};

enum column { ID = 0, UNREAD1 = 6, UNREAD2, LAST_AT };

struct position {
    int64_t time; /* 0: from the latest */
    int64_t id;
};

/* Returns 0, or the status of the 400 response sent. */
static int list_position(struct bb_request *rq, struct position *position)
{
    const char *after = bb_arg(rq, "after");
    char *end = NULL;

    *position = (struct position){.id = INT64_MAX};
    if (!after)
        return 0;
    errno = 0;
    position->time = strtoll(after, &end, 10);
    /* The calendar of the API ends with the year 9999. */
    bool good = end != after && *end == '-' && position->time > 0 &&
                position->time < INT64_C(253402300800000000);

    if (good) {
        const char *id = end + 1;

        position->id = strtoll(id, &end, 10);
        good = end != id && *end == '\0' && position->id > 0 && errno == 0;
    }
    return good ? 0 : bb_invalid(rq, "after", "must be a cursor from a Link header");
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

static bool has_unread(struct bb_request *rq)
{
    const char *unread = bb_arg(rq, "unread");

    return unread && strcmp(unread, "true") == 0;
}

static json_t *list_item_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_column unread[] = {{"unread1", BB_COLUMN_INT, UNREAD1},
                                              {"unread2", BB_COLUMN_INT, UNREAD2}};

    return BB_ROW_ADD(rq, rows, row, unread, chat_conversation_json(rq, rows, row));
}

/* ---- a long list ---- */

/* Rows per read. A read blocks other requests on the loop for one or two milliseconds. */
enum { PIECE_ROWS = 128 };

struct list {
    bb_item *item;
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
        pieces_add(rq, text, list->item(rq, rows, row));
    list->sent += count;
    return list->sent < list->count;
}

struct order {
    const struct bb_sql *sql;
    const struct position *position;
    struct list *list;
};

/* Copies the order, because the rows are freed when this returns. Returns 0, or the status sent. */
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
    order.list->item = has_unread(rq) ? list_item_json : chat_conversation_json;
    return pieces_begin(rq, chat->long_answers, &source, order.list);
}

/* ---- a page ---- */

int chat_list(struct bb_request *rq)
{
    struct chat_scope scope = chat_scope(rq);
    struct position position;
    int64_t limit = bb_arg_int(rq, "limit", 0);
    size_t page = limit ? (size_t)limit : ARRAY_SHORT;
    bool another = chat_asks_for_another(&scope, bb_segment(rq, "email"));
    int refused = list_position(rq, &position);

    if (refused)
        return refused;

    /* One more row than requested shows whether there is a next page. */
    const struct bb_rows *rows =
        list_fetch(rq, &list_page[another], &position, bb_i((int64_t)page + 1));

    if (!rows)
        return bb_failed(rq);
    size_t count = bb_count(rq, rows);

    if (!limit && count > page)
        return list_send_long(rq, &list_ids[another], &position);
    const char *next = NULL;

    if (count > page) { /* the cursor is the time and id of the page's last conversation */
        count = page;
        next = bb_format(rq, "%s-%" PRId64, bb_cell(rq, rows, count - 1, LAST_AT),
                         bb_cell_int(rq, rows, count - 1, ID));
    }
    return bb_reply_page(rq, rows, count, next,
                         has_unread(rq) ? list_item_json : chat_conversation_json);
}

/* ---- all conversations that the caller sees, with their last messages ---- */

/*
 * $1 to $3 and $5 to $7 as above; the others are null or a filter: $4 id, $8 organization, $9 part
 * of an e-mail or device name.
 */
#define FILTERS                                                                                    \
    "($4::bigint IS NULL OR c.id = $4::bigint)"                                                    \
    " AND ($8::bigint IS NULL OR c.organisation = $8::bigint)"                                     \
    " AND ($9::text IS NULL OR position(lower($9::text) IN lower(concat_ws(' ', c.participant1,"   \
    " c.participant2, c.device_project_name))) > 0)"
#define SEEN_PAGE(rows)                                                                            \
    "SELECT p.*, e.username, left(e.chat_entry, 200), " BB_SQL_TIME(                               \
        "e.created_at") " FROM (SELECT " LISTED                                                    \
                        ", (extract(epoch FROM c.last_at) * 1000000)::bigint AS last,"             \
                        " c.organisation, c.entries FROM " rows LATEST_FIRST                       \
                        ") p JOIN chat_entry e"                                                    \
                        " ON e.conversation_id = p.id AND e.seq = p.entries ORDER BY p.last "      \
                        "DESC, p.id DESC"

/* The conversations of a caller with organizations are searched by organization and participant. */
static const struct bb_sql list_one = {
    SEEN_PAGE("(SELECT c.* FROM chat_conversation c WHERE c.id = $4::bigint AND " BEHIND
              " AND " FILTERS ") c"),
    0};
static const struct bb_sql list_mine = {
    SEEN_PAGE("(" BRANCH("c.participant1 = $3::text AND " FILTERS) " UNION ALL " BRANCH(
        "c.participant2 = $3::text AND " FILTERS) ") c"),
    BB_SQL_LONG};
static const struct bb_sql list_every = {SEEN_PAGE(BRANCH(FILTERS) " c"), BB_SQL_LONG};
static const struct bb_sql list_theirs = {
    SEEN_PAGE("chat_conversation c JOIN (SELECT id FROM chat_directory"
              " WHERE organisation = ANY($2::bigint[]) UNION SELECT id FROM chat_directory"
              " WHERE participant1 = $3::text UNION SELECT id FROM chat_directory"
              " WHERE participant2 = $3::text) d ON d.id = c.id AND " BEHIND " AND " FILTERS),
    BB_SQL_LONG};

static json_t *list_seen_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    enum { ORGANIZATION = LAST_AT + 1, ENTRIES, USERNAME, TEXT, CREATED };
    static const struct bb_column more[] = {{"organizationId", BB_COLUMN_INT, ORGANIZATION}};
    json_t *json = BB_ROW_ADD(rq, rows, row, more, list_item_json(rq, rows, row));
    json_t *last =
        json_pack("{s:s, s:s, s:s}", "username", bb_cell(rq, rows, row, USERNAME), "chatEntry",
                  bb_cell(rq, rows, row, TEXT), "createdAt", bb_cell(rq, rows, row, CREATED));

    if (json_object_set_new(json, "lastMessage", last)) { /* json may be NULL */
        json_decref(json);
        json = NULL;
    }
    return json;
}

int chat_seen(struct bb_request *rq)
{
    enum { LIMIT = 50 };
    struct chat_scope scope = chat_scope(rq);
    int64_t limit = bb_arg_int(rq, "limit", LIMIT);
    const char *mine = bb_arg(rq, "mine"), *next = NULL;
    const struct bb_sql *sql = bb_arg(rq, "id")                ? &list_one
                               : mine && !strcmp(mine, "true") ? &list_mine
                               : scope.all                     ? &list_every
                                                               : &list_theirs;
    struct position position;
    int refused = list_position(rq, &position);

    if (refused)
        return refused;
    const struct bb_rows *rows = bb_query(
        rq, sql,
        BB_ARGS(
            CHAT_SCOPE_ARGS(&scope), bb_arg(rq, "id") ? bb_i(bb_arg_int(rq, "id", 0)) : bb_null(),
            position.time ? bb_i(position.time) : bb_null(), bb_i(position.id), bb_i(limit + 1),
            bb_arg(rq, "organizationId") ? bb_i(bb_arg_int(rq, "organizationId", 0)) : bb_null(),
            bb_t(bb_arg(rq, "search"))));

    if (!rows)
        return bb_failed(rq);
    size_t count = bb_count(rq, rows);

    if (count > (size_t)limit) {
        count = (size_t)limit;
        next = bb_format(rq, "%s-%" PRId64, bb_cell(rq, rows, count - 1, LAST_AT),
                         bb_cell_int(rq, rows, count - 1, ID));
    }
    return bb_reply_page(rq, rows, count, next, list_seen_json);
}
