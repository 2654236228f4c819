/*
 * The archive: old messages in the document store instead of the database.
 *
 * The job `archive` visits the conversations in the order of their last activity,
 * chat.retention_days after this activity. It archives the messages of a conversation in parts of
 * about 1 MiB, except the latest message, which lists show. For each part it stores the messages in
 * the document store; then one statement deletes them and adds a row to chat_archive. A reader that
 * needs messages of a part restores it first, and the job removes them again after RESTORED_DAYS.
 *
 * Messages never change, so a part is stored once, and its file stays valid for ever. The file of
 * each row exists even after a crash, or after a restore of an old backup of the database. If a
 * host dies after it has stored a file, the file may have no row; a later run may replace it.
 *
 * A part is a JSON array. PostgreSQL writes and reads it.
 */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "modules/chat/chat.h"

enum {
    PART_BYTES = 1024 * 1024, /* of text; a part ends with the message that reaches this size */
    PARTS = 8,                /* maximum number of parts that a run of the job archives */
    RESTORED_DAYS = 7
};

enum call { PUT, GET, DOCTOR };

/* Calls the document store. Returns its result, or -1 if there is no store (logged). */
static int archive_call(struct bb_request *rq, enum call call, void *arg)
{
    struct bb_given given = {.size = sizeof(given)};

    if (!bb_service_at(rq->host, BB_DOCUMENTS, 0, &given)) {
        bb_log(rq, BB_ERROR, "archived messages need a module with a document store");
        return -1;
    }
    const struct bb_documents *store = given.interface;
    int (*const calls[])(struct bb_request *, void *) = {store->put, store->get, store->doctor};

    return bb_call_as(rq, given.host, calls[call], arg);
}

/* ---- into the archive ---- */

// clang-format off
/* A conversation `c` is due $1 days after the end of the hour of its last activity. */
#define IS_DUE                                                                                     \
    "c.last_hour < date_trunc('hour', (now() - make_interval(days => $1::int)) AT TIME ZONE 'UTC')"

/*
 * $1 days, $2 bytes. Selects the next part that is due, or a row without a content if the next 1000
 * conversations have no such part. The order is last_hour and id. Only whole hours are due, so a
 * conversation that becomes due later comes after the job's place in this order. Selects nothing
 * while a transaction with an ID below the xid of a message is in progress, because live streams
 * would treat the archived message as missed (LOST in page.c).
 */
static const struct bb_sql due = {
    "WITH c AS MATERIALIZED (SELECT c.id, c.entries, c.last_hour, coalesce((SELECT max(a.last)"
    " FROM chat_archive a WHERE a.conversation_id = c.id), 0) AS done FROM chat_conversation c"
    " WHERE c.last_hour >= (SELECT hour FROM chat_archive_state) AND (c.last_hour, c.id) >"
    " (SELECT hour, id FROM chat_archive_state) AND " IS_DUE " ORDER BY c.last_hour, c.id LIMIT 1000"
    "), n AS (SELECT * FROM c ORDER BY entries - 1 > done DESC, CASE WHEN entries - 1 > done THEN"
    " row(last_hour, id) END, last_hour DESC, id DESC LIMIT 1"
    "), m AS MATERIALIZED (SELECT m.* FROM n, LATERAL (SELECT e.seq, e.uuid, e.username,"
    " e.chat_entry, e.created_at, e.attachments, sum(" CHAT_BYTES("e") ") OVER (ORDER BY e.seq) -"
    " " CHAT_BYTES("e") " AS before, e.xid::xid = e.xmin AND e.xid >="
    " pg_snapshot_xmin(pg_current_snapshot()) AS recent FROM chat_entry e"
    " WHERE e.conversation_id = n.id AND e.seq > n.done AND e.seq < n.entries ORDER BY e.seq LIMIT 5000) m"
    " WHERE m.before < $2::bigint"
    "), p AS (SELECT min(seq) AS first, max(seq) AS last, sum(" CHAT_BYTES("m") ") AS text,"
    " count(*), coalesce(bool_or(recent), false) AS recent, json_agg(json_build_object('seq', seq,"
    " 'uuid', uuid, 'username', username, 'chat_entry', chat_entry, 'created_at', created_at,"
    " 'attachments', attachments)"
    " ORDER BY seq)::text AS content FROM m)"
    " SELECT n.last_hour, n.id, p.last IS NULL OR p.last = n.entries - 1, p.first, p.last, p.text,"
    " p.count, s.hour, s.id, encode(sha256(convert_to(p.content, 'UTF8')), 'hex') || '.chat',"
    " p.content FROM n, p, chat_archive_state s WHERE NOT p.recent",
    BB_SQL_LONG,
};
// clang-format on
enum { HOUR, ID, WHOLE, FIRST, LAST, TEXT_BYTES, COUNT, FROM_HOUR, FROM_ID, NAME, CONTENT };

/* $1 hour, $2 id: the place up to which everything is archived; $3 and $4: the previous place. */
static const struct bb_sql move = {
    "UPDATE chat_archive_state SET hour = $1::timestamp, id = $2::bigint"
    " WHERE hour = $3::timestamp AND id = $4::bigint",
    BB_SQL_WRITE};

/*
 * $1 conversation, $2 first, $3 last, $4 bytes of text, $5 messages, $6 name, $7 bytes. Does
 * nothing if the part is archived already. Records the latest xid of the messages for live streams
 * (LOST in page.c). Rows from a dump do not count, because their xid is from another cluster.
 */
static const struct bb_sql archive = {
    "WITH a AS (INSERT INTO chat_archive (conversation_id, first, last, text_bytes, name, bytes)"
    " VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bigint, $6::text, $7::bigint)"
    " ON CONFLICT DO NOTHING RETURNING 1"
    "), d AS (DELETE FROM chat_entry WHERE conversation_id = $1::bigint"
    " AND seq BETWEEN $2::bigint AND $3::bigint AND EXISTS (SELECT FROM a)"
    " RETURNING CASE WHEN xid::xid = xmin THEN xid END AS xid"
    "), s AS (UPDATE chat_archive_state SET xid = greatest(xid, (SELECT max(xid) FROM d))"
    " WHERE EXISTS (SELECT FROM a))"
    " SELECT count(*), busbar_require(count(*) IN (0, $5::bigint), 500, 'incomplete') FROM d",
    BB_SQL_WRITE | BB_SQL_LONG,
};

/* Removes the messages of up to 10 parts that were restored more than $1 days ago. */
static const struct bb_sql remove_restored = {
    "WITH a AS (UPDATE chat_archive a SET restored_at = NULL FROM (SELECT conversation_id, first"
    " FROM chat_archive WHERE restored_at < now() - make_interval(days => $1::int) LIMIT 10) r"
    " WHERE a.conversation_id = r.conversation_id AND a.first = r.first"
    " AND a.restored_at < now() - make_interval(days => $1::int)"
    " RETURNING a.conversation_id, a.first, a.last"
    "), d AS (DELETE FROM chat_entry e USING a WHERE e.conversation_id = a.conversation_id"
    " AND e.seq BETWEEN a.first AND a.last)"
    " SELECT count(*) FROM a",
    BB_SQL_WRITE | BB_SQL_LONG,
};

/* Archives the next part. Returns 1 if there may be more, 0 if not, or -1 on failure. */
static int archive_part(struct bb_request *rq, void *arg)
{
    const struct chat *chat = rq->state;
    const struct bb_rows *rows =
        bb_query(rq, &due, BB_ARGS(bb_i(chat->settings->retention_days), bb_i(PART_BYTES)));
    const struct bb_rows *stored;

    (void)arg;
    if (!rows || !bb_count(rq, rows))
        return rows ? 0 : -1;
    const char *text = bb_cell(rq, rows, 0, CONTENT), *id = bb_cell(rq, rows, 0, ID);

    if (text) {
        struct bb_content content = {bb_cell(rq, rows, 0, NAME), (char *)(uintptr_t)text,
                                     strlen(text)};

        if (archive_call(rq, PUT, &content) ||
            !(stored = bb_query(rq, &archive,
                                BB_ARGS(bb_t(id), bb_t(bb_cell(rq, rows, 0, FIRST)),
                                        bb_t(bb_cell(rq, rows, 0, LAST)),
                                        bb_t(bb_cell(rq, rows, 0, TEXT_BYTES)),
                                        bb_t(bb_cell(rq, rows, 0, COUNT)), bb_t(content.name),
                                        bb_i((int64_t)content.length)))))
            return -1;
        bb_metric_add(rq->host, CHAT_ARCHIVED, 0, (uint64_t)bb_cell_int(rq, stored, 0, 0));
    }
    if (*bb_cell(rq, rows, 0, WHOLE) == 't' &&
        !bb_query(rq, &move,
                  BB_ARGS(bb_t(bb_cell(rq, rows, 0, HOUR)), bb_t(id),
                          bb_t(bb_cell(rq, rows, 0, FROM_HOUR)),
                          bb_t(bb_cell(rq, rows, 0, FROM_ID)))))
        return -1;
    return 1;
}

static int archive_remove_restored(struct bb_request *rq, void *arg)
{
    const struct bb_rows *rows = bb_query(rq, &remove_restored, BB_ARGS(bb_i(RESTORED_DAYS)));

    (void)arg;
    return rows ? bb_cell_int(rq, rows, 0, 0) > 0 : -1;
}

/* Archives up to `parts` parts. Removes restored messages. Returns whether work is left, or -1. */
static int archive_run(struct bb_request *rq, int parts)
{
    int more = 1, restored = 1;

    for (int i = 0; i < parts && more > 0 && !bb_superseded(rq->host); i++)
        more = bb_scratch(rq, archive_part, NULL);
    for (int i = 0; i < parts && more >= 0 && restored > 0 && !bb_superseded(rq->host); i++)
        restored = bb_scratch(rq, archive_remove_restored, NULL);
    return more < 0 || restored < 0 ? -1 : more || restored;
}

void chat_archive(struct bb_request *rq)
{
    const struct chat *chat = rq->state;
    int more = chat->settings->retention_days ? archive_run(rq, PARTS) : 0;

    if (more < 0)
        bb_log(rq, BB_WARN, "the archive is not complete, and continues with the next run");
    else if (more)
        bb_again(rq);
}

int chat_command_archive(struct bb_request *rq)
{
    static const struct bb_sql begin = {"UPDATE chat_archive_state SET hour = 'epoch', id = 0",
                                        BB_SQL_WRITE};
    static const struct bb_sql waiting = {
        "SELECT count(*) FROM chat_conversation c, chat_archive_state s WHERE (c.last_hour, c.id) >"
        " (s.hour, s.id) AND " IS_DUE " AND c.entries - 1 > coalesce((SELECT max(a.last)"
        " FROM chat_archive a WHERE a.conversation_id = c.id), 0)",
        BB_SQL_LONG};
    int64_t days = ((const struct chat *)rq->state)->settings->retention_days;
    const struct bb_rows *rows;

    if (!days) {
        bb_print(rq, "chat.retention_days is 0, so no message is archived\n");
        return 1;
    }
    if (!bb_query(rq, &begin, NULL, 0) || archive_run(rq, INT_MAX) ||
        !(rows = bb_query(rq, &waiting, BB_ARGS(bb_i(days)))))
        return 1;
    if (!bb_cell_int(rq, rows, 0, 0))
        return 0;
    bb_print(rq,
             "conversations that wait for the end of an older transaction of the database: %s\n",
             bb_cell(rq, rows, 0, 0));
    return 1;
}

/* ---- back ---- */

/* $1 conversation (null: all), $2 and $3 first and last seq, $4 and $5 the previous part's key. */
static const struct bb_sql archived = {
    "SELECT conversation_id, first, name, bytes FROM chat_archive WHERE restored_at IS NULL"
    " AND ($1::bigint IS NULL OR conversation_id = $1::bigint) AND last >= $2::bigint"
    " AND first <= $3::bigint AND (conversation_id, first) > ($4::bigint, $5::bigint)"
    " ORDER BY conversation_id, first LIMIT 1",
    BB_SQL_LONG,
};

/*
 * $1 conversation, $2 first, $3 content. If another request restores the part at the same time, the
 * UPDATE waits for that transaction and finds nothing. Restored messages have no xid, so that live
 * streams do not send them again.
 */
static const struct bb_sql restore = {
    "WITH a AS (UPDATE chat_archive SET restored_at = now() WHERE conversation_id = $1::bigint"
    " AND first = $2::bigint AND restored_at IS NULL RETURNING 1)"
    " INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at,"
    " attachments, xid)"
    " SELECT $1::bigint, m.*, NULL::xid8 FROM a, json_to_recordset($3::json) AS m (seq bigint,"
    " uuid uuid, username text, chat_entry text, created_at timestamptz, attachments text)"
    " ON CONFLICT DO NOTHING",
    BB_SQL_WRITE | BB_SQL_LONG,
};

struct range {
    const char *conversation; /* NULL: all */
    int64_t first, last;      /* seq of messages */
    int64_t at[2];            /* conversation and first seq of the previous part */
    bool failed;              /* the previous part could not be restored */
};

/* Restores the next part. Returns 1, 0 if no part is left, LOST for an unreadable file, or -1. */
enum { LOST = -2 };
static int restore_part(struct bb_request *rq, void *arg)
{
    struct range *range = arg;
    const struct bb_rows *rows =
        bb_query(rq, &archived,
                 BB_ARGS(bb_t(range->conversation), bb_i(range->first), bb_i(range->last),
                         bb_i(range->at[0]), bb_i(range->at[1])));

    range->failed = false;
    if (!rows || !bb_count(rq, rows))
        return rows ? 0 : -1;
    const char *id = bb_cell(rq, rows, 0, 0), *first = bb_cell(rq, rows, 0, 1);
    struct bb_content content = {.name = bb_cell(rq, rows, 0, 2),
                                 .length = (size_t)bb_cell_int(rq, rows, 0, 3)};

    range->at[0] = bb_cell_int(rq, rows, 0, 0);
    range->at[1] = bb_cell_int(rq, rows, 0, 1);
    content.bytes = bb_alloc(rq, content.length + 1);
    range->failed = true;
    if (archive_call(rq, GET, &content)) {
        bb_log(rq, BB_ERROR, "messages of conversation %s from %s on cannot be restored", id,
               first);
        return LOST;
    }
    if (!bb_query(rq, &restore, BB_ARGS(bb_t(id), bb_t(first), bb_t(content.bytes))))
        return -1;
    range->failed = false;
    bb_metric_add(rq->host, CHAT_RESTORED, 0, 1);
    return 1;
}

void chat_restore(struct bb_request *rq, int64_t conversation, int64_t first, int64_t last)
{
    struct range range = {
        .conversation = bb_format(rq, "%" PRId64, conversation), .first = first, .last = last};
    int more;

    do
        more = bb_scratch(rq, restore_part, &range);
    while (more > 0);
    if (more)
        bb_end(rq, more == LOST ? bb_fail(rq, 503, "Archived messages cannot be read at the moment")
                                : bb_failed(rq));
}

int chat_command_restore(struct bb_request *rq)
{
    /* Forgets conversations that are restored completely, so that the job archives them again. */
    static const struct bb_sql forget = {
        "WITH d AS (DELETE FROM chat_archive a WHERE NOT EXISTS (SELECT FROM chat_archive o"
        " WHERE o.conversation_id = a.conversation_id AND o.restored_at IS NULL))"
        " UPDATE chat_archive_state SET hour = 'epoch', id = 0",
        BB_SQL_WRITE | BB_SQL_LONG};
    struct range range = {.last = INT64_MAX};
    int more, parts = 0, failed = 0;

    while (((more = bb_scratch(rq, restore_part, &range)) > 0 || range.failed) &&
           !bb_superseded(rq->host)) {
        parts += more > 0;
        failed += range.failed;
    }
    if (!bb_query(rq, &forget, NULL, 0))
        more = -1;
    bb_print(rq, "%d parts restored, %d failed\n", parts, failed);
    return more || failed ? 1 : 0;
}

/* ---- `busbar chat doctor` ---- */

int chat_command_doctor(struct bb_request *rq)
{
    static const struct bb_sql any = {"SELECT 1 FROM chat_archive LIMIT 1", 0};
    static const struct bb_sql missing = {
        "SELECT 'messages ' || first || ' to ' || last || ' of conversation ' || conversation_id,"
        " $1::jsonb ->> name, count(*) OVER () FROM chat_archive WHERE name > $2::text"
        " AND ($3::text IS NULL OR name <= $3::text)"
        " AND archived_at < to_timestamp($4::bigint / 1000.0)"
        " AND ($1::jsonb ->> name)::bigint IS DISTINCT FROM bytes ORDER BY name LIMIT $5::bigint",
        BB_SQL_LONG};
    const struct bb_rows *rows = bb_query(rq, &any, NULL, 0);

    if (rows && bb_count(rq, rows) == 0)
        return 0;
    return !rows || archive_call(rq, DOCTOR, (void *)(uintptr_t)&missing) ? 1 : 0;
}
