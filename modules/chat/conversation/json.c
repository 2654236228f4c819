/* The JSON of the API and of the events, with exactly the keys of the specification. */
#include "modules/chat/conversation/chat.h"

/* Reads a row that begins with CHAT_COLUMNS. */
json_t *chat_conversation_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return json_pack("{s:I, s:s, s:s, s:s, s:s, s:s?}", "id",
                     (json_int_t)bb_cell_int(rq, rows, row, 0), "participant1",
                     bb_cell(rq, rows, row, 1), "participant2", bb_cell(rq, rows, row, 2),
                     "headUuid", bb_cell(rq, rows, row, 3), "lastEntryUuid",
                     bb_cell(rq, rows, row, 4), "deviceProjectName", bb_cell(rq, rows, row, 5));
}

json_t *chat_message_json(const struct chat_message *message)
{
    return json_pack("{s:s, s:s, s:O, s:s}", "uuid", message->uuid, "username", message->username,
                     "chatEntry", message->entry_json, "createdAt", message->created_at);
}

json_t *chat_new_payload(const struct chat_facts *facts, const struct chat_message *message)
{
    return json_pack("{s:I, s:o, s:s?}", "conversationId", (json_int_t)facts->id, "message",
                     chat_message_json(message), "deviceProjectName", facts->device_project_name);
}

json_t *chat_created_payload(const struct chat_facts *facts, const struct chat_message *message)
{
    return json_pack("{s:{s:I, s:s, s:s, s:s?}, s:{s:s, s:s, s:O}}", "conversation", "id",
                     (json_int_t)facts->id, "participant1", facts->participant1, "participant2",
                     facts->participant2, "deviceProjectName", facts->device_project_name,
                     "message", "uuid", message->uuid, "username", message->username, "chatEntry",
                     message->entry_json);
}

/*
 * Everyone who may see the conversation receives its events: its organization, and the participants
 * that it is not withheld from.
 */
int chat_emit(struct bb_request *rq, struct bb_tx *tx, const char *name, json_t *payload,
              const struct chat_facts *facts)
{
    const char *emails[3] = {NULL};
    size_t count = 0;

    if (!facts->withheld1)
        emails[count++] = facts->participant1;
    if (!facts->withheld2)
        emails[count++] = facts->participant2;
    struct bb_audience audience = {
        .size = sizeof(audience),
        .organization = facts->organization,
        .emails = emails,
    };

    return payload ? bb_emit(rq, tx, name, payload, &audience) : -1;
}

int chat_commit(struct bb_request *rq, struct bb_tx *unit, int success, json_t *json)
{
    if (!json)
        return bb_no_memory(rq);
    int status = bb_commit(rq, unit, success, json);

    return status ? status : bb_failed(rq);
}
