/*
 * Reads the events after a cursor: as many whole transactions as fit in a page. The id of each
 * event is the cursor after it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "modules/chat/live/live.h"

#define ROWS 512
#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x

/*
 * $1 to $2 transactions, $3 mark, $4 and $5 conversation and part seen of a transaction.
 *
 * Rows restored from a dump keep the transaction numbers of another cluster, which mean nothing
 * here. Numbers that this cluster has not reached are excluded by the snapshot. For the others,
 * xmin, the number of the transaction that really wrote the row, shows the difference. (Nothing is
 * stored under a savepoint.)
 */
static const struct bb_sql read_page = {
    "SELECT s.snapshot, e.xid, e.conversation_id, e.seq, e.uuid, e.username, e.chat_entry,"
    " " BB_SQL_TIME(
        "e.created_at") ", e.total, c.participant1, c.participant2,"
                        " c.device_project_name, c.organisation, " CHAT_HOME
                        ", c.withheld1, c.withheld2"
                        " FROM (SELECT pg_current_snapshot() AS snapshot) s LEFT JOIN ("
                        "SELECT m.*, count(*) OVER () AS total, sum(octet_length(m.chat_entry)) "
                        "OVER (ORDER BY m.xid)"
                        " - sum(octet_length(m.chat_entry)) OVER (PARTITION BY m.xid) AS "
                        "bytes_before FROM ("
                        "SELECT * FROM chat_entry WHERE xid BETWEEN $1::xid8 AND $2::xid8"
                        " AND xid < pg_snapshot_xmax(pg_current_snapshot()) AND xid::xid = xmin"
                        " AND NOT pg_visible_in_snapshot(xid, $3::pg_snapshot)"
                        " AND (conversation_id, seq * 2 + 1) > ($4::bigint, $5::bigint)"
                        " ORDER BY xid, conversation_id, seq LIMIT " TEXT(
                            ROWS) ") m"
                                  ") e ON e.bytes_before < 2097152 LEFT JOIN chat_directory c ON "
                                  "c.id = e.conversation_id"
                                  " ORDER BY e.xid, e.conversation_id, e.seq",
    0,
};

enum column {
    SNAPSHOT,
    XID,
    CONVERSATION,
    SEQ,
    UUID,
    USERNAME,
    ENTRY,
    CREATED,
    TOTAL,
    PARTICIPANT1,
    PARTICIPANT2,
    NAME,
    ORGANIZATION,
    HOME,
    WITHHELD1,
    WITHHELD2
};

/* Of a page, sorted by xid, conversation_id, seq. */
struct chat_row {
    uint64_t xid;
    int64_t conversation, seq;
    size_t group; /* index of its transaction among the transactions of the page */
};

struct reading {
    struct bb_request *rq;
    const struct chat_cursor *from;
    const struct bb_rows *rows;
    struct chat_mark now; /* the snapshot of the read */
    struct chat_row *row; /* of whole transactions, or of one that is larger than a page */
    size_t count, groups;
    size_t *order;         /* in which the groups are sent */
    uint64_t *xids;        /* of the groups, ascending */
    uint64_t horizon;      /* first transaction that was not read; 0: all were read */
    struct chat_cursor at; /* cursor after the event being created */
    struct chat_page *page;
};

static const struct bb_rows *ask(struct bb_request *rq, const struct chat_cursor *from)
{
    char *snapshot = bb_alloc(rq, CHAT_SNAPSHOT_SIZE);
    uint64_t first = from->mark.count ? from->mark.xip[0] : from->mark.xmax;

    chat_mark_text(&from->mark, snapshot);
    return bb_query(rq, &read_page,
                    BB_ARGS(bb_t(bb_format(rq, "%" PRIu64, from->xid ? from->xid : first)),
                            bb_t(bb_format(rq, "%" PRIu64, from->xid ? from->xid : UINT64_MAX)),
                            bb_t(snapshot), bb_i(from->conversation), bb_i(from->part)));
}

/* Parses the rows' numbers and groups the rows by transaction. */
static void index_rows(struct reading *reading)
{
    struct bb_request *rq = reading->rq;
    size_t count = bb_cell(rq, reading->rows, 0, XID) ? bb_count(rq, reading->rows) : 0;

    reading->row = bb_alloc(rq, (count + 1) * sizeof(*reading->row));
    reading->xids = bb_alloc(rq, (count + 1) * sizeof(*reading->xids));
    for (size_t i = 0; i < count; i++) {
        uint64_t xid = strtoull(bb_cell(rq, reading->rows, i, XID), NULL, 10);

        if (!reading->groups || reading->xids[reading->groups - 1] != xid)
            reading->xids[reading->groups++] = xid;
        reading->row[i] = (struct chat_row){
            .xid = xid,
            .conversation = bb_cell_int(rq, reading->rows, i, CONVERSATION),
            .seq = bb_cell_int(rq, reading->rows, i, SEQ),
            .group = reading->groups - 1,
        };
    }
    reading->count = count;
}

/* A page that is not the last one ends with a whole transaction, unless it has only one. */
static void find_horizon(struct reading *reading)
{
    int64_t total = reading->count ? bb_cell_int(reading->rq, reading->rows, 0, TOTAL) : 0;

    if (total == ROWS && reading->groups > 1 && (size_t)total == reading->count) {
        reading->groups--;
        reading->horizon = reading->xids[reading->groups];
        while (reading->row[reading->count - 1].xid == reading->horizon)
            reading->count--;
    } else if (total == ROWS || (size_t)total > reading->count) {
        reading->horizon = reading->xids[reading->groups - 1] + 1;
    }
}

/* ---- cursors ---- */

/*
 * Sets the cursor to before a group's first event: the mark gains only what was sent before the
 * group.
 */
static int mark_group(struct reading *reading, size_t turn)
{
    struct chat_mark *mark = &reading->at.mark;
    uint64_t xid = reading->xids[reading->order[turn]];
    int failed = 0;

    reading->at.xid = xid;
    if (reading->from->xid) {
        *mark = reading->from->mark;
        return 0;
    }
    if (mark->xmax <= xid)
        mark->xmax = xid + 1;
    mark->count = 0;
    for (size_t i = 0; i < reading->now.count && !failed; i++)
        failed = chat_mark_exclude(mark, reading->now.xip[i]);
    for (size_t i = turn; i < reading->groups && !failed; i++)
        failed = chat_mark_exclude(mark, reading->xids[reading->order[i]]);
    for (size_t i = 0; reading->horizon && i < reading->from->mark.count && !failed; i++)
        if (reading->from->mark.xip[i] >= reading->horizon)
            failed = chat_mark_exclude(mark, reading->from->mark.xip[i]);
    return failed;
}

/* Sets the cursor to the end of the page. */
static void finish(struct reading *reading)
{
    struct chat_page *page = reading->page;
    const struct chat_row *last = reading->count ? &reading->row[reading->count - 1] : NULL;

    page->complete = false;
    if (reading->horizon && last && reading->groups == 1) {
        page->end = reading->at; /* maybe in the middle of a transaction larger than a page */
        page->end.conversation = last->conversation;
        page->end.part = last->seq * 2 + 1;
    } else if (reading->from->xid) {
        page->end.mark = reading->from->mark;
        chat_mark_include(&page->end.mark, reading->from->xid);
    } else if (reading->horizon) {
        page->end.mark = reading->at.mark;
        chat_mark_include(&page->end.mark, reading->at.xid);
    } else {
        page->end.mark = reading->now;
        page->complete = true;
    }
}

/* ---- the order of the transactions ---- */

/* One transaction that comes before another, because both wrote to one conversation. */
struct edge {
    size_t first, then;
};

static int by_chain(const void *a, const void *b)
{
    const struct chat_row *one = a, *other = b;

    if (one->conversation != other->conversation)
        return one->conversation < other->conversation ? -1 : 1;
    return one->seq < other->seq ? -1 : one->seq > other->seq;
}

/*
 * Fills the edges and counts, in `waits`, the edges that lead to each group. Returns the number of
 * edges.
 */
static size_t edges_of(struct bb_request *rq, const struct chat_row *rows, size_t count,
                       struct edge *edges, size_t *waits)
{
    struct chat_row *chain = bb_alloc(rq, count * sizeof(*chain));
    size_t found = 0;

    memcpy(chain, rows, count * sizeof(*chain));
    qsort(chain, count, sizeof(*chain), by_chain);
    for (size_t i = 1; i < count; i++) {
        if (chain[i].conversation != chain[i - 1].conversation ||
            chain[i].group == chain[i - 1].group)
            continue;
        edges[found++] = (struct edge){chain[i - 1].group, chain[i].group};
        waits[chain[i].group]++;
    }
    return found;
}

/*
 * Computes the order in which the transactions of a page are sent: by number, except that
 * transactions that wrote to one conversation follow the order of its chain. Fills
 * order[0..groups).
 */
static void order_groups(struct bb_request *rq, const struct chat_row *rows, size_t count,
                         size_t *order, size_t groups)
{
    struct edge *edges = bb_alloc(rq, count * sizeof(*edges));
    size_t *waits = bb_alloc(rq, groups * sizeof(*waits));
    bool *done = bb_alloc(rq, groups * sizeof(*done));
    size_t edge_count = edges_of(rq, rows, count, edges, waits);

    for (size_t i = 0; i < groups; i++) {
        size_t next = 0;

        /* The first group that waits for no other. PostgreSQL's locks rule out cycles. */
        while (next < groups && (done[next] || waits[next]))
            next++;
        for (size_t g = 0; next == groups; g++)
            next = done[g] ? groups : g;
        order[i] = next;
        done[order[i]] = true;
        for (size_t e = 0; e < edge_count; e++)
            if (edges[e].first == order[i] && waits[edges[e].then] > 0)
                waits[edges[e].then]--;
    }
}

/* ---- events ---- */

struct bb_chunk *chat_chunk(struct bb_host *host, const char *text)
{
    struct bb_chunk *chunk = bb_chunk_new(host, strlen(text));

    if (chunk)
        memcpy(chunk->bytes, text, chunk->length);
    return chunk;
}

/*
 * Formats "event: name", "id: cursor after the event" and "data: payload". Returns NULL if out of
 * memory.
 */
static struct bb_chunk *frame(struct bb_request *rq, const struct chat_cursor *at, const char *name,
                              const json_t *payload)
{
    char *id = bb_alloc(rq, CHAT_ID_SIZE);
    size_t length;
    const char *json = bb_json(rq, payload, &length);

    /*
     * If too many transactions are in progress for an id, none is sent and the client keeps the
     * previous id.
     */
    const char *line = chat_cursor_text(at, id) ? "" : bb_format(rq, "id: %s\n", id);
    const char *head = bb_format(rq, "event: %s\n%sdata: ", name, line);
    size_t head_length = strlen(head);
    struct bb_chunk *chunk = bb_chunk_new(rq->host, head_length + length + 2);

    if (!chunk)
        return NULL;
    memcpy(chunk->bytes, head, head_length);
    memcpy(chunk->bytes + head_length, json, length);
    memcpy(chunk->bytes + head_length + length, "\n\n", 2);
    return chunk;
}

/*
 * Creates an event of a conversation; its id is the cursor after the event. The device project name
 * is not copied: no check of visibility needs it, and the payload has it. Takes ownership of the
 * payload, also when it is NULL. Returns NULL if out of memory.
 */
static struct chat_live *live_new(struct bb_request *rq, const struct chat_cursor *at,
                                  const struct chat_facts *facts, const char *name, json_t *payload)
{
    size_t size1 = strlen(facts->participant1) + 1, size2 = strlen(facts->participant2) + 1;
    struct chat_live *live = payload ? calloc(1, sizeof(*live) + size1 + size2) : NULL;

    if (live)
        live->chunk = frame(rq, at, name, payload);
    json_decref(payload);
    if (!live || !live->chunk) {
        free(live);
        return NULL;
    }
    live->xid = at->xid;
    live->part = at->part;
    live->facts = *facts;
    live->facts.participant1 = memcpy(live->text, facts->participant1, size1);
    live->facts.participant2 = memcpy(live->text + size1, facts->participant2, size2);
    live->facts.device_project_name = NULL;
    return live;
}

int chat_cursor_of(const struct bb_chunk *chunk, struct chat_cursor *cursor)
{
    static const char mark[] = "\nid: ";
    const char *line = memmem(chunk->bytes, chunk->length, mark, sizeof(mark) - 1);
    const char *data = memmem(chunk->bytes, chunk->length, "\ndata: ", 7);
    char id[CHAT_ID_SIZE];

    if (!line || !data || data < line)
        return -1;
    line += sizeof(mark) - 1;
    size_t length = (size_t)(data - line);
    memcpy(id, line, length);
    id[length] = '\0';
    return chat_cursor_parse(id, cursor);
}

/* Takes ownership of the payload. Returns 0, or -1 if out of memory. */
static int add_event(struct reading *reading, const struct chat_facts *facts, int64_t part,
                     const char *name, json_t *payload)
{
    struct chat_page *page = reading->page;

    reading->at.conversation = facts->id;
    reading->at.part = part;
    struct chat_live *live = live_new(reading->rq, &reading->at, facts, name, payload);

    if (!live)
        return -1;
    page->events[page->count++] = live;
    page->bytes += sizeof(*live) + live->chunk->length;
    return 0;
}

/* Adds the events of a message, which may be the first one of its conversation. */
static int add_row(struct reading *reading, size_t row)
{
    struct bb_request *rq = reading->rq;
    const struct bb_rows *rows = reading->rows;
    const struct chat_row *at = &reading->row[row];
    struct chat_facts facts = {
        .id = at->conversation,
        .organization = bb_cell_int(rq, rows, row, ORGANIZATION),
        .participant1 = bb_cell(rq, rows, row, PARTICIPANT1),
        .participant2 = bb_cell(rq, rows, row, PARTICIPANT2),
        .device_project_name = bb_cell(rq, rows, row, NAME),
        .withheld1 = bb_cell_int(rq, rows, row, WITHHELD1) != 0,
        .withheld2 = bb_cell_int(rq, rows, row, WITHHELD2) != 0,
    };

    if (!facts.participant1)
        return 0; /* the conversation was deleted by hand */
    json_t *entry =
        json_string_nocheck(bb_cell(rq, rows, row, ENTRY)); /* the database ensures UTF-8 */
    struct chat_message message = {
        .uuid = bb_cell(rq, rows, row, UUID),
        .username = bb_cell(rq, rows, row, USERNAME),
        .entry_json = entry,
        .created_at = bb_cell(rq, rows, row, CREATED),
    };
    const struct chat *chat = rq->state;
    int64_t part = at->seq * 2;
    int failed = 0;

    if (at->seq == 1 && !chat_cursor_has(reading->from, at->xid, at->conversation, part))
        failed = add_event(reading, &facts, part, "conversation.created",
                           chat_created_payload(&facts, &message));
    if (!failed && (at->seq > 1 || chat->settings->message_new_on_start))
        failed =
            add_event(reading, &facts, part + 1, "message.new", chat_new_payload(&facts, &message));

    json_decref(entry);
    return failed;
}

static int add_events(struct reading *reading)
{
    struct bb_request *rq = reading->rq;
    size_t *first = bb_alloc(rq, (reading->groups + 1) * sizeof(*first));

    for (size_t i = reading->count; i-- > 0;)
        first[reading->row[i].group] = i;
    first[reading->groups] = reading->count;
    for (size_t turn = 0; turn < reading->groups; turn++) {
        size_t group = reading->order[turn];

        if (mark_group(reading, turn))
            return -1;
        for (size_t i = first[group]; i < first[group + 1]; i++)
            if (add_row(reading, i))
                return -1;
    }
    return 0;
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
    free(page);
}

static struct chat_page *page_new(const struct chat_cursor *from, size_t rows)
{
    struct chat_page *page = calloc(1, sizeof(*page) + 2 * rows * sizeof(page->events[0]));

    if (!page)
        return NULL;
    page->start = *from;
    page->end.home = from->home;
    page->bytes = sizeof(*page) + 2 * rows * sizeof(page->events[0]);
    return page;
}

/* Frees a page that was not completed. */
static void drop_page(void *arg)
{
    const struct reading *reading = arg;

    chat_page_free(reading->rq->host, reading->page);
}

struct chat_page *chat_page_read(struct bb_request *rq, const struct chat_cursor *from)
{
    struct reading *reading = bb_alloc(rq, sizeof(*reading));

    reading->rq = rq;
    reading->from = from;
    reading->at.home = from->home;
    reading->at.mark.xmax = from->mark.xmax;
    reading->rows = ask(rq, from);
    if (!reading->rows || chat_mark_parse(bb_cell(rq, reading->rows, 0, SNAPSHOT), &reading->now))
        return NULL;
    if ((uint64_t)bb_cell_int(rq, reading->rows, 0, HOME) != from->home) {
        reading->page = page_new(from, 0);
        if (reading->page)
            reading->page->moved = true;
        return reading->page;
    }
    index_rows(reading);
    find_horizon(reading);
    reading->order = bb_alloc(rq, (reading->groups + 1) * sizeof(*reading->order));
    order_groups(rq, reading->row, reading->count, reading->order, reading->groups);
    reading->page = page_new(from, reading->count);
    if (!reading->page)
        return NULL;
    bb_defer(rq, drop_page, reading);
    if (add_events(reading))
        return NULL;
    finish(reading);
    struct chat_page *page = reading->page;

    reading->page = NULL;
    return page;
}
