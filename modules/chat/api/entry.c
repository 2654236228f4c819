/* Reads a message from the request body. Its id and time are assigned here, before the commit. */
#include "modules/chat/api/api.h"

int chat_entry_read(struct bb_request *rq, struct chat_message *message)
{
    const struct chat *chat = rq->state;
    json_t *entry = json_object_get(bb_body(rq), "chatEntry");
    size_t most = (size_t)chat->settings->max_entry_bytes;

    if (json_string_length(entry) > most)
        return bb_invalid(rq, "chatEntry", "must be at most %zu bytes", most);
    message->username = bb_text(rq, "username");
    message->entry = json_string_value(entry);
    message->entry_json = entry;
    message->uuid = bb_new_uuid(rq);
    message->created_at = bb_time_text(rq, bb_wall_ms(rq->host));
    return 0;
}
