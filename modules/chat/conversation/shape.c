/* The JSON shapes of the API. */
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
