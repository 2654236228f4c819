/*
 * An event of the live stream: the text that all its listeners receive, and the facts that decide
 * about its audience.
 */
#include <stdlib.h>
#include <string.h>

#include "modules/chat/live/live.h"

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

static char *put(char **room, const char *text)
{
    char *place = *room;

    if (!text)
        return NULL;
    memcpy(place, text, strlen(text) + 1);
    *room += strlen(text) + 1;
    return place;
}

/*
 * Creates an event without its chunk. The device project name is not copied: no check of visibility
 * needs it, and the payload has it.
 */
static struct chat_live *live_new(const struct chat_cursor *at, const struct chat_facts *facts)
{
    size_t size = strlen(facts->participant1) + strlen(facts->participant2) + 2;
    struct chat_live *live = calloc(1, sizeof(*live) + size);
    char *room = live ? live->text : NULL;

    if (!live)
        return NULL;
    live->xid = at->xid;
    live->part = at->part;
    live->facts = (struct chat_facts){.id = facts->id, .organization = facts->organization};
    live->facts.participant1 = put(&room, facts->participant1);
    live->facts.participant2 = put(&room, facts->participant2);
    live->facts.withheld1 = facts->withheld1;
    live->facts.withheld2 = facts->withheld2;
    return live;
}

struct chat_live *chat_live_new(struct bb_request *rq, const struct chat_cursor *at,
                                const struct chat_facts *facts, const char *name, json_t *payload)
{
    struct chat_live *live = payload ? live_new(at, facts) : NULL;

    if (live)
        live->chunk = frame(rq, at, name, payload);
    json_decref(payload);
    if (live && !live->chunk) {
        free(live);
        live = NULL;
    }
    return live;
}

void chat_live_free(struct bb_host *host, struct chat_live *live)
{
    bb_chunk_release(host, live->chunk);
    free(live);
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
