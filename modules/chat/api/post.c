/*
 * POST /api/chat/conversations/:id/messages
 *
 * One statement does everything: the update locks the conversation's row and gives the message its
 * place in the chain, and the entry is inserted from the row that the update returned. Posts to one
 * conversation thus form one chain without a fork, on however many hosts they arrive. The statement
 * also inserts the change of the unread count: a trigger, which records other changes (schema.sql,
 * step 5), would cost twice as much.
 */
#include <string.h>

#include "modules/chat/api/api.h"

/*
 * $1 conversation, $2 uuid, $3 author, $4 text, $5 time. Permission was checked before. If an Admin
 * writes who is not a participant, the message is unread for both. last_at orders activities, even
 * within one millisecond. bench/sql/post.sql has the same text.
 */
#define MESSAGES BB_KEYS_5("bigint", "uuid", "text", "text", "timestamptz")

static const struct bb_keyed add_message = {
    {"WITH c AS ("
     "UPDATE chat_conversation SET entries = entries + 1, last_entry_uuid = $2::uuid,"
     " last_at = greatest(last_at + interval '1 microsecond', clock_timestamp()),"
     " unread1 = unread1 + (participant1 <> $3::text)::int,"
     " unread2 = unread2 + (participant2 <> $3::text)::int, counted = counted + 1"
     " WHERE id = $1::bigint RETURNING entries, last_at, organisation, device_project_name,"
     " participant1 = $3::text AS by1, participant1, withheld1, participant2, withheld2"
     "), u AS ("
     "INSERT INTO chat_unread_change SELECT CASE WHEN by1 THEN participant2 ELSE participant1 END,"
     " coalesce(organisation, 0), CASE WHEN by1 THEN withheld2 ELSE withheld1 END,"
     " device_project_name, 1, last_at FROM c"
     "), e AS ("
     "INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at)"
     " SELECT $1::bigint, c.entries, $2::uuid, $3::text, $4::text, $5::timestamptz FROM c"
     ") SELECT busbar_require(count(*) = 1, 404, 'Conversation not found') FROM c",
     BB_SQL_WRITE | BB_SQL_KEYED},
    {"WITH k AS (SELECT * FROM " MESSAGES " k(id, uuid, username, chat_entry, created_at, i)"
     "), c AS ("
     "UPDATE chat_conversation o SET entries = entries + 1, last_entry_uuid = k.uuid,"
     " last_at = greatest(last_at + interval '1 microsecond', clock_timestamp()),"
     " unread1 = unread1 + (participant1 <> k.username)::int,"
     " unread2 = unread2 + (participant2 <> k.username)::int, counted = counted + 1"
     " FROM k WHERE o.id = k.id RETURNING entries, last_at, organisation, device_project_name,"
     " participant1 = k.username AS by1, participant1, withheld1, participant2, withheld2,"
     " k.id, k.uuid, k.username, k.chat_entry, k.created_at, k.i"
     "), u AS ("
     "INSERT INTO chat_unread_change SELECT CASE WHEN by1 THEN participant2 ELSE participant1 END,"
     " coalesce(organisation, 0), CASE WHEN by1 THEN withheld2 ELSE withheld1 END,"
     " device_project_name, 1, last_at FROM c"
     "), e AS ("
     "INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at)"
     " SELECT id, entries, uuid, username, chat_entry, created_at FROM c"
     ") SELECT busbar_require(c.i IS NOT NULL, 404, 'Conversation not found'), k.i"
     " FROM k LEFT JOIN c ON c.i = k.i",
     BB_SQL_WRITE},
};

/*
 * Marks the message unread for participant2 too. $1 conversation. Runs after add_message, in the
 * same unit.
 */
static const struct bb_sql unread_for_both = {
    "INSERT INTO chat_unread_change SELECT participant2, coalesce(organisation, 0), withheld2,"
    " device_project_name, 1, last_at FROM chat_conversation WHERE id = $1::bigint",
    BB_SQL_WRITE,
};

static int add(struct bb_request *rq, struct bb_tx *unit, const struct chat_facts *facts,
               const struct chat_message *message)
{
    int added = bb_add(rq, unit, &add_message.one,
                       BB_ARGS(bb_i(facts->id), bb_t(message->uuid), bb_t(message->username),
                               bb_t(message->entry), bb_t(message->created_at)));

    if (added >= 0 && !chat_takes_part(facts, message->username))
        added = bb_add(rq, unit, &unread_for_both, BB_ARGS(bb_i(facts->id)));
    return added < 0 ? -1 : chat_emit_new(rq, unit, facts, message);
}

static json_t *answer(const struct chat_message *message)
{
    return json_pack("{s:s, s:s, s:O, s:n, s:s}", "uuid", message->uuid, "username",
                     message->username, "chatEntry", message->entry_json, "nextEntryUuid",
                     "createdAt", message->created_at);
}

/* An Admin may answer in any conversation, under its own e-mail. */
static bool is_admin(struct bb_request *rq, const char *username)
{
    return rq->principal->role == BB_ROLE_ADMIN && strcmp(username, rq->principal->email) == 0;
}

static int allowed(struct bb_request *rq, const struct chat_facts **facts)
{
    struct chat_scope scope = chat_scope(rq);
    const char *username = bb_text(rq, "username");
    int refused = chat_visible(rq, &scope, bb_segment_int(rq, "id"), facts);

    if (refused)
        return refused;
    if (!chat_takes_part(*facts, username) && !is_admin(rq, username))
        return bb_fail(rq, 403, "username takes no part in this conversation");
    return chat_acts_for(rq, &scope, username);
}

int chat_post(struct bb_request *rq)
{
    const struct chat_facts *facts = NULL;
    struct chat_message message;
    int refused = allowed(rq, &facts);

    if (!refused)
        refused = chat_entry_read(rq, &message);
    if (refused)
        return refused;

    struct bb_tx *unit = bb_unit(rq, (uint64_t)facts->id);

    if (!unit || add(rq, unit, facts, &message) < 0)
        return bb_failed(rq);

    json_t *json = answer(&message);

    if (!json)
        return bb_no_memory(rq);
    int status = bb_commit(rq, unit, 201, json);

    return status ? status : bb_failed(rq);
}
