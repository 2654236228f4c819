/*
 * The events, with exactly the keys of the specification. Everyone who may see the conversation
 * receives them: its organization, and the participants that it is not withheld from.
 */
#include "modules/chat/conversation/chat.h"

static int emit(struct bb_request *rq, struct bb_tx *tx, const char *name, json_t *payload,
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

    return bb_emit(rq, tx, name, payload, &audience);
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

int chat_emit_new(struct bb_request *rq, struct bb_tx *tx, const struct chat_facts *facts,
                  const struct chat_message *message)
{
    json_t *payload = chat_new_payload(facts, message);

    return payload ? emit(rq, tx, "message.new", payload, facts) : -1;
}

int chat_emit_created(struct bb_request *rq, struct bb_tx *tx, const struct chat_facts *facts,
                      const struct chat_message *message)
{
    json_t *payload = chat_created_payload(facts, message);

    return payload ? emit(rq, tx, "conversation.created", payload, facts) : -1;
}
