#include "modules/chat/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/chat/chat.h"

enum { ROWS = 512 }; /* of a block: the LIMIT of read_page */

#define CREATED_AT BB_SQL_TIME("r.created_at")

/*
 * $1 snapshot seen, $2 target, $3 to $5 blocks seen, $6 to $8 events seen of this block, $9 bytes.
 *
 * A block has the next rows in the order of transaction, conversation, seq. It is sent in an order
 * that follows the chain of each conversation: a transaction may store its message in a chain after
 * a transaction with a higher number. Messages that were seen have no text here.
 *
 * Rows restored from a dump keep the transaction numbers of another cluster, which mean nothing
 * here. Numbers that this cluster has not reached are excluded by the snapshot. For the others,
 * xmin, the number of the transaction that really wrote the row, shows the difference. (Nothing is
 * stored under a savepoint.)
 */
static const struct bb_sql read_page = {
    "SELECT coalesce($2::pg_snapshot, n.now), " CHAT_HOME ", r.total, r.last_xid,"
    " r.last_conversation, r.last_seq, r.key, r.x, r.conversation_id, r.seq, r.uuid, r.username,"
    " r.entry, " CREATED_AT ", " CHAT_FACTS
    " FROM (SELECT pg_current_snapshot() AS now) n LEFT JOIN ("
    "SELECT q.*, coalesce(sum(octet_length(q.entry)) OVER (ORDER BY q.key, q.conversation_id, q.seq"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before FROM ("
    "SELECT p.*, CASE WHEN (p.key, p.conversation_id, p.seq * 2 + 1)"
    " > ($6::bigint, $7::bigint, $8::bigint) THEN p.chat_entry END AS entry FROM ("
    "SELECT m.*, count(*) OVER w AS total, last_value(m.x) OVER w AS last_xid,"
    " last_value(m.conversation_id) OVER w AS last_conversation,"
    " last_value(m.seq) OVER w AS last_seq,"
    " max(m.x) OVER (PARTITION BY m.conversation_id ORDER BY m.seq) AS key FROM ("
    "SELECT *, xid::text::bigint AS x FROM chat_entry"
    " WHERE xid >= pg_snapshot_xmin($1::pg_snapshot)"
    " AND xid < pg_snapshot_xmax(pg_current_snapshot()) AND xid::xid = xmin"
    " AND (xid, conversation_id, seq) > ($3::bigint::text::xid8, $4::bigint, $5::bigint)"
    " AND NOT pg_visible_in_snapshot(xid, $1::pg_snapshot)"
    " AND ($2::pg_snapshot IS NULL OR pg_visible_in_snapshot(xid, $2::pg_snapshot))"
    " ORDER BY xid, conversation_id, seq LIMIT 512"
    ") m WINDOW w AS (ORDER BY m.x, m.conversation_id, m.seq"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) p) q"
    ") r ON r.bytes_before < $9::bigint LEFT JOIN chat_directory c ON c.id = r.conversation_id"
    " ORDER BY r.key, r.conversation_id, r.seq",
    0,
};

enum column {
    SNAPSHOT,
    HOME,
    TOTAL, /* rows of the block */
    LAST_XID,
    LAST_CONVERSATION,
    LAST_SEQ,
    KEY,
    XID,
    CONVERSATION,
    SEQ,
    UUID,
    USERNAME,
    ENTRY, /* NULL: seen */
    CREATED,
    FACTS
};

struct reading {
    struct bb_request *rq;
    const struct bb_rows *rows;
    struct chat_cursor *at; /* after the event being created */
    struct chat_page *page;
};

/* ---- events ---- */

/*
 * Formats an event; its id is the cursor after it. If too many transactions are in progress for an
 * id, none is sent and the client keeps the previous id. Returns NULL if out of memory.
 */
static struct bb_chunk *event_chunk(struct bb_request *rq, const struct chat_cursor *at,
                                    const char *name, const json_t *payload)
{
    char *id = bb_alloc(rq, CHAT_ID_SIZE);
    const char *line = chat_cursor_text(at, id) ? "" : bb_format(rq, "id: %s\n", id);
    const char *head = bb_format(rq, "event: %s\n%sdata: ", name, line);
    size_t length, head_length = strlen(head);
    const char *json = bb_json(rq, payload, &length);
    struct bb_chunk *chunk = bb_chunk_new(rq->host, head_length + length + 2);

    if (!chunk)
        return NULL;
    memcpy(chunk->bytes, head, head_length);
    memcpy(chunk->bytes + head_length, json, length);
    memcpy(chunk->bytes + head_length + length, "\n\n", 2);
    return chunk;
}

/* Every listener that may see the event is in one of its topics. Returns NULL if out of memory. */
static struct chat_event *event_new(const struct chat_facts *facts)
{
    const char *emails[] = {facts->withheld1 ? NULL : facts->participant1,
                            facts->withheld2 ? NULL : facts->participant2};
    size_t room = CHAT_TOPIC_NUMBER_SIZE + strlen(facts->participant1) +
                  strlen(facts->participant2) + 2 * sizeof(CHAT_TOPIC_EMAIL);
    struct chat_event *event = calloc(1, sizeof(*event) + room);

    if (!event)
        return NULL;
    char *text = event->text, *end = event->text + room;

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
    return event;
}

/*
 * Adds an event unless it was seen. Takes ownership of the payload, also if it is NULL. Returns 0,
 * or -1 if out of memory.
 */
static int add_event(struct reading *reading, const struct chat_facts *facts, int64_t xid,
                     const struct chat_key *key, const char *name, json_t *payload)
{
    struct chat_page *page = reading->page;
    struct chat_event *event;

    if (chat_key_compare(key, &reading->at->event) <= 0) {
        json_decref(payload);
        return 0;
    }
    reading->at->event = *key;
    event = payload ? event_new(facts) : NULL;
    if (event)
        event->chunk = event_chunk(reading->rq, reading->at, name, payload);
    json_decref(payload);
    if (!event || !event->chunk) {
        free(event);
        return -1;
    }
    event->key = *key;
    event->xid = xid;
    page->events[page->count++] = event;
    return 0;
}

/*
 * Adds the events of a message: two for the first one of its conversation, numbered 2 * seq and
 * 2 * seq + 1.
 */
static int add_row(struct reading *reading, size_t row)
{
    struct bb_request *rq = reading->rq;
    const struct bb_rows *rows = reading->rows;
    const struct chat *chat = rq->state;
    int64_t id = bb_cell_int(rq, rows, row, CONVERSATION);
    struct chat_facts facts = chat_facts_of(rq, rows, row, FACTS, id);
    int64_t xid = bb_cell_int(rq, rows, row, XID), seq = bb_cell_int(rq, rows, row, SEQ);
    struct chat_key key = {bb_cell_int(rq, rows, row, KEY), id, seq * 2};
    int failed = 0;

    /* seen; or the conversation was deleted by hand */
    if (!bb_cell(rq, rows, row, ENTRY) || !facts.participant1)
        return 0;
    struct chat_message message = {
        .uuid = bb_cell(rq, rows, row, UUID),
        .username = bb_cell(rq, rows, row, USERNAME),
        /* the database ensures UTF-8 */
        .entry_json = json_string_nocheck(bb_cell(rq, rows, row, ENTRY)),
        .created_at = bb_cell(rq, rows, row, CREATED),
    };

    if (seq == 1)
        failed = add_event(reading, &facts, xid, &key, "conversation.created",
                           chat_created_payload(&facts, &message));
    key.number++;
    if (!failed && (seq > 1 || chat->settings->message_new_on_start))
        failed = add_event(reading, &facts, xid, &key, "message.new",
                           chat_new_payload(&facts, &message));
    json_decref(message.entry_json);
    return failed;
}

/* ---- pages ---- */

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

/* Frees what was not completed. */
static void drop_reading(void *arg)
{
    const struct reading *reading = arg;

    free(reading->at);
    chat_page_free(reading->rq->host, reading->page);
}

/* Sets the end of a page: after the last row of the snapshot, of the block, or that was read. */
static void page_finish(struct reading *reading, size_t rows)
{
    struct bb_request *rq = reading->rq;
    struct chat_page *page = reading->page;
    struct chat_cursor *at = reading->at;
    size_t total = rows ? (size_t)bb_cell_int(rq, reading->rows, 0, TOTAL) : 0;

    if (total < ROWS && rows == total) {
        page->end = chat_cursor_new(at->home, at->target, NULL);
        page->whole = !page->start->block.xid && !page->start->event.xid;
    } else if (rows == total) {
        at->block = (struct chat_key){bb_cell_int(rq, reading->rows, 0, LAST_XID),
                                      bb_cell_int(rq, reading->rows, 0, LAST_CONVERSATION),
                                      bb_cell_int(rq, reading->rows, 0, LAST_SEQ)};
        at->event = (struct chat_key){0};
        page->end = chat_cursor_copy(at);
    } else {
        at->event = (struct chat_key){bb_cell_int(rq, reading->rows, rows - 1, KEY),
                                      bb_cell_int(rq, reading->rows, rows - 1, CONVERSATION),
                                      bb_cell_int(rq, reading->rows, rows - 1, SEQ) * 2 + 1};
        page->end = chat_cursor_copy(at);
    }
}

struct chat_page *chat_page_read(struct bb_request *rq, const struct chat_cursor *from,
                                 const char *target, size_t bytes, bool *moved)
{
    const struct chat_key *block = &from->block, *event = &from->event;
    struct reading *reading = bb_alloc(rq, sizeof(*reading));
    const struct bb_rows *rows = bb_query(
        rq, &read_page,
        BB_ARGS(bb_t(from->seen), bb_t(from->target ? from->target : target), bb_i(block->xid),
                bb_i(block->conversation), bb_i(block->number), bb_i(event->xid),
                bb_i(event->conversation), bb_i(event->number), bb_i((int64_t)bytes)));

    *moved = rows && (uint64_t)bb_cell_int(rq, rows, 0, HOME) != from->home;
    if (!rows || *moved)
        return NULL;
    size_t count = bb_cell(rq, rows, 0, TOTAL) ? bb_count(rq, rows) : 0;

    reading->rq = rq;
    reading->rows = rows;
    bb_defer(rq, drop_reading, reading);
    reading->at = chat_cursor_new(from->home, from->seen, bb_cell(rq, rows, 0, SNAPSHOT));
    reading->page = calloc(1, sizeof(*reading->page) + 2 * count * sizeof(struct chat_event *));
    if (!reading->at || !reading->page)
        return NULL;
    reading->at->block = *block;
    reading->at->event = *event;
    reading->page->start = chat_cursor_copy(reading->at);
    for (size_t row = 0; row < count && reading->page->start; row++)
        if (add_row(reading, row))
            return NULL;
    if (reading->page->start)
        page_finish(reading, count);
    struct chat_page *page = reading->page->end ? reading->page : NULL;

    if (page)
        reading->page = NULL;
    return page;
}
