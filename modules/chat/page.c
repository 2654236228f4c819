#include "modules/chat/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/chat/chat.h"

enum {
    ROWS = 512,      /* rows of a block, and maximum rows with new events in a page */
    ROWS_MAX = 8192, /* maximum rows of a block that is torn with fewer rows */
    ID_SIZE = 3000
};

#define KEY_FORMAT "%" PRId64 ".%" PRId64 ".%" PRId64
#define KEY_ARGS(key) (key)[0], (key)[1], (key)[2]

#define CREATED_AT BB_SQL_TIME("r.created_at")

/*
 * $1 to $8 the members of struct chat_cursor from `seen` to `event`, $9 maximum bytes, $10 maximum
 * rows of the block.
 *
 * A block has the next rows in the order of transaction, conversation, seq. It is sent in an order
 * that follows the chain of each conversation: in a chain, a message can come after a message of
 * a transaction with a higher ID. Messages that the reader has seen have a null text.
 *
 * A full block is torn if one of its messages follows, in its chain, a message after the block.
 * Then chat_page_read() reads the block again with more rows. The blocks before it are not torn, so
 * the messages before the block are the beginning of each chain. Therefore a torn block always has
 * a message whose direct predecessor is after the block, and TORN looks only for such a message.
 *
 * The reader may have missed the transactions in progress in its snapshot, and those from its xmax
 * on. Each of them is looked up in the index, and no message in between is read, because a client
 * can send any snapshot, and a transaction can be in progress for hours.
 *
 * Rows restored from a dump have transaction IDs of another cluster. To exclude them, the statement
 * requires that `xid` is below the xmax of the later snapshot, and equals the row's xmin: the ID of
 * the transaction that really wrote the row. (No row is written under a savepoint.)
 *
 * LOST is whether messages that the reader has not seen may be in the archive (archive.c).
 */
static const struct bb_sql read_page = {
    "SELECT coalesce($2::pg_snapshot, n.now), " CHAT_HOME ", coalesce((SELECT"
    " xid >= pg_snapshot_xmin($1::pg_snapshot) AND xid < pg_snapshot_xmax(pg_current_snapshot())"
    " FROM chat_archive_state), false), coalesce(r.torn, false), r.total, r.last_xid,"
    " r.last_conversation, r.last_seq, r.key, r.x, r.conversation_id, r.seq, r.uuid, r.username,"
    " r.entry, " CREATED_AT ", r.attachments, " CHAT_FACTS
    " FROM (SELECT pg_current_snapshot() AS now) n LEFT JOIN ("
    "SELECT q.*, coalesce(sum(octet_length(q.entry) + coalesce(octet_length(q.attachments), 0))"
    " OVER earlier, 0) AS bytes_before, count(q.entry) OVER earlier AS rows_before FROM ("
    "SELECT p.*, CASE WHEN (p.key, p.conversation_id, p.seq * 2 + 1)"
    " > ($6::bigint, $7::bigint, $8::bigint) THEN p.chat_entry END AS entry,"
    " bool_or(p.total = $10::bigint AND EXISTS (SELECT FROM chat_entry b"
    " WHERE b.conversation_id = p.conversation_id AND b.seq = p.seq - 1 AND b.xid::xid = b.xmin"
    " AND (b.xid::text::bigint, b.conversation_id, b.seq)"
    " > (p.last_xid, p.last_conversation, p.last_seq)"
    " AND NOT pg_visible_in_snapshot(b.xid, $1::pg_snapshot))) OVER () AS torn FROM ("
    "SELECT m.*, count(*) OVER w AS total, last_value(m.x) OVER w AS last_xid,"
    " last_value(m.conversation_id) OVER w AS last_conversation,"
    " last_value(m.seq) OVER w AS last_seq,"
    " max(m.x) OVER (PARTITION BY m.conversation_id ORDER BY m.seq) AS key FROM ("
    "SELECT e.* FROM (SELECT x AS low, x AS high FROM pg_snapshot_xip($1::pg_snapshot) x"
    " UNION ALL SELECT pg_snapshot_xmax($1::pg_snapshot),"
    " pg_snapshot_xmax(coalesce($2::pg_snapshot, pg_current_snapshot()))) missed"
    " CROSS JOIN LATERAL (SELECT *, xid::text::bigint AS x FROM chat_entry"
    " WHERE xid >= low AND xid <= high AND xid::xid = xmin"
    " AND (xid, conversation_id, seq) > ($3::bigint::text::xid8, $4::bigint, $5::bigint)"
    " AND ($2::pg_snapshot IS NULL OR pg_visible_in_snapshot(xid, $2::pg_snapshot))"
    " ORDER BY xid, conversation_id, seq LIMIT $10::bigint) e"
    " ORDER BY e.xid, e.conversation_id, e.seq LIMIT $10::bigint"
    ") m WINDOW w AS (ORDER BY m.x, m.conversation_id, m.seq"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) p) q"
    " WINDOW earlier AS (ORDER BY q.key, q.conversation_id, q.seq"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    ") r ON r.bytes_before < $9::bigint AND r.rows_before < 512"
    " LEFT JOIN chat_directory c ON c.id = r.conversation_id"
    " ORDER BY r.key, r.conversation_id, r.seq",
    0,
};

enum column {
    SNAPSHOT,
    HOME,
    LOST,
    TORN,
    TOTAL, /* number of rows of the block */
    LAST_XID,
    LAST_CONVERSATION,
    LAST_SEQ,
    KEY,
    XID,
    CONVERSATION,
    SEQ,
    UUID,
    USERNAME,
    ENTRY, /* NULL: the reader has seen the message */
    CREATED,
    ATTACHMENTS, /* NULL: none */
    FACTS
};

struct reading {
    struct bb_request *rq;
    const struct bb_rows *rows;
    struct chat_cursor from;
    size_t limit;      /* maximum rows of the block */
    const char *block; /* the text with which all positions in this block begin */
    struct chat_page *page;
};

/* ---- events ---- */

const char *chat_id_line(struct bb_request *rq, const char *position)
{
    return strlen(position) < ID_SIZE ? bb_format(rq, "id: %s\n", position) : "";
}

struct bb_chunk *chat_chunk(struct bb_host *host, const char *text)
{
    struct bb_chunk *chunk = bb_chunk_new(host, strlen(text));

    if (chunk)
        memcpy(chunk->bytes, text, chunk->length);
    return chunk;
}

/* Adds an event. Takes ownership of the payload (NULL: out of memory). Returns 0, or -1. */
static int page_add(struct reading *reading, const struct chat_facts *facts, const int64_t key[3],
                    const char *name, json_t *payload)
{
    struct bb_request *rq = reading->rq;
    struct chat_page *page = reading->page;
    const char *json = bb_json_hold(rq, payload) ? bb_json(rq, payload, NULL) : NULL;
    const char *id = bb_format(rq, "%s-" KEY_FORMAT, reading->block, KEY_ARGS(key));
    const char *line = chat_id_line(rq, id);
    const char *emails[] = {facts->withheld1 ? NULL : facts->participant1,
                            facts->withheld2 ? NULL : facts->participant2};
    size_t room = strlen(id) + 1 + CHAT_TOPIC_NUMBER_SIZE + strlen(facts->participant1) +
                  strlen(facts->participant2) + 2 * sizeof(CHAT_TOPIC_EMAIL);
    struct chat_event *event = json ? calloc(1, sizeof(*event) + room) : NULL;

    if (!event)
        return -1;
    /* Each listener that may see the event has joined one of the event's topics. */
    char *text = stpcpy(event->text, id) + 1, *end = event->text + room;

    event->id = event->text;
    event->topics[event->topic_count++] = CHAT_TOPIC_ALL;
    for (size_t i = 0; i < 2; i++)
        if (emails[i]) {
            event->topics[event->topic_count++] = text;
            text += snprintf(text, (size_t)(end - text), CHAT_TOPIC_EMAIL, emails[i]) + 1;
        }
    if (facts->organization) {
        event->topics[event->topic_count++] = text;
        snprintf(text, (size_t)(end - text), CHAT_TOPIC_ORGANIZATION, facts->organization);
    }
    page->events[page->count++] = event;
    event->chunk =
        chat_chunk(rq->host, bb_format(rq, "event: %s\n%sdata: %s\n\n", name, line, json));
    return event->chunk ? 0 : -1;
}

/*
 * Adds the events of a message: conversation.created (number 2 * seq) if it is the first message of
 * a conversation, and message.new (number 2 * seq + 1).
 */
static int page_add_row(struct reading *reading, size_t row)
{
    struct bb_request *rq = reading->rq;
    const struct bb_rows *rows = reading->rows;
    const struct chat *chat = rq->state;
    int64_t id = bb_cell_int(rq, rows, row, CONVERSATION), seq = bb_cell_int(rq, rows, row, SEQ);
    struct chat_facts facts = chat_facts_of(rq, rows, row, FACTS, id);
    int64_t key[3] = {bb_cell_int(rq, rows, row, KEY), id, seq * 2};
    bool begun = !memcmp(key, reading->from.event, sizeof(key)); /* the first event was seen */
    int failed = 0;

    /* the reader saw the message, or somebody deleted the conversation by hand */
    if (!bb_cell(rq, rows, row, ENTRY) || !facts.participant1)
        return 0;
    const char *attachments = bb_cell(rq, rows, row, ATTACHMENTS);
    struct chat_message message = {
        .uuid = bb_cell(rq, rows, row, UUID),
        .username = bb_cell(rq, rows, row, USERNAME),
        /* the database ensures UTF-8 */
        .entry_json = bb_json_hold(rq, json_string_nocheck(bb_cell(rq, rows, row, ENTRY))),
        .created_at = bb_cell(rq, rows, row, CREATED),
        .attachments = attachments ? bb_hold(rq, bb_json_read(rq, attachments)) : NULL,
    };

    if (seq == 1 && !begun)
        failed = page_add(reading, &facts, key, "conversation.created",
                          chat_created_payload(&facts, &message));
    key[2]++;
    if (!failed && (seq > 1 || chat->settings->message_new_on_start))
        failed = page_add(reading, &facts, key, "message.new", chat_new_payload(&facts, &message));
    return failed;
}

/* ---- pages ---- */

struct chat_page *chat_page_new(const char *start, size_t room)
{
    struct chat_page *page = calloc(1, sizeof(*page) + room * sizeof(page->events[0]));

    if (!page)
        return NULL;
    page->start = strdup(start);
    page->end = strdup(start);
    if (page->start && page->end)
        return page;
    chat_page_free(NULL, page);
    return NULL;
}

void chat_page_free(struct bb_host *host, struct chat_page *page)
{
    if (!page)
        return;
    for (size_t i = 0; i < page->count; i++) {
        bb_chunk_release(host, page->events[i]->chunk);
        free(page->events[i]);
    }
    free(page->start);
    free(page->end);
    free(page);
}

/* Frees a page that was not completed. */
static void page_drop(void *arg)
{
    const struct reading *reading = arg;

    chat_page_free(reading->rq->host, reading->page);
}

/* Returns the position after the read rows: inside a block, at its end, or at the target. */
static const char *page_end(struct reading *reading, size_t rows)
{
    struct bb_request *rq = reading->rq;
    const struct chat_cursor *from = &reading->from;
    int64_t last[3];

    reading->page->more = true;
    for (size_t i = 0; i < 3; i++)
        last[i] = rows ? bb_cell_int(rq, reading->rows, 0, LAST_XID + i) : 0;
    if (rows && rows < (size_t)bb_cell_int(rq, reading->rows, 0, TOTAL))
        return bb_format(rq, "%s-" KEY_FORMAT, reading->block,
                         bb_cell_int(rq, reading->rows, rows - 1, KEY),
                         bb_cell_int(rq, reading->rows, rows - 1, CONVERSATION),
                         bb_cell_int(rq, reading->rows, rows - 1, SEQ) * 2 + 1);
    if (rows == reading->limit)
        return bb_format(rq, "d%" PRIu64 "-%s-%s-" KEY_FORMAT "-0.0.0", from->home, from->seen,
                         from->target, KEY_ARGS(last));
    reading->page->more = false;
    return bb_format(rq, "d%" PRIu64 "-%s", from->home, from->target);
}

struct chat_page *chat_page_read(struct bb_request *rq, const char *position, const char *target,
                                 size_t bytes, bool *moved)
{
    struct reading *reading = bb_alloc(rq, sizeof(*reading));
    struct chat_cursor *from = &reading->from;

    chat_cursor_split(bb_format(rq, "%s", position),
                      from); /* cannot fail: the position was checked, or made here */
    const struct bb_rows *rows;
    bool torn;

    reading->limit = ROWS / 4;
    do {
        reading->limit *= 4;
        rows = bb_query(rq, &read_page,
                        BB_ARGS(bb_t(from->seen), bb_t(from->target ? from->target : target),
                                bb_i(from->block[0]), bb_i(from->block[1]), bb_i(from->block[2]),
                                bb_i(from->event[0]), bb_i(from->event[1]), bb_i(from->event[2]),
                                bb_i((int64_t)bytes), bb_i((int64_t)reading->limit)));
        *moved = rows && (uint64_t)bb_cell_int(rq, rows, 0, HOME) != from->home;
        if (!rows || *moved)
            return NULL;
        from->target = bb_cell(rq, rows, 0, SNAPSHOT);
        torn = *bb_cell(rq, rows, 0, TORN) == 't';
    } while (torn && reading->limit < ROWS_MAX);
    size_t count = bb_cell(rq, rows, 0, TOTAL) ? bb_count(rq, rows) : 0;

    reading->rq = rq;
    reading->rows = rows;
    reading->block = bb_format(rq, "d%" PRIu64 "-%s-%s-" KEY_FORMAT, from->home, from->seen,
                               from->target, KEY_ARGS(from->block));
    bb_defer(rq, page_drop, reading);
    reading->page = chat_page_new(position, 2 * count);
    if (reading->page)
        reading->page->lost = torn || *bb_cell(rq, rows, 0, LOST) == 't';
    for (size_t row = 0; row < count && reading->page && !torn; row++)
        if (page_add_row(reading, row))
            return NULL;
    char *end = reading->page ? strdup(page_end(reading, torn ? reading->limit : count)) : NULL;
    struct chat_page *page = reading->page;

    if (!end)
        return NULL;
    free(page->end);
    page->end = end;
    reading->page = NULL;
    return page;
}
