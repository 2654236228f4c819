/* The routes that change a conversation, the route that reports typing, and attachments. */
#include <inttypes.h>
#include <string.h>

#include "modules/chat/chat.h"
#include "modules/chat/page.h"

/*
 * Returns the conversation. Ends the request unless the e-mail in `field` takes part in it, and the
 * caller may act for this e-mail. With `posts`, an Admin's own e-mail need not take part.
 */
static const struct chat_facts *post_find(struct bb_request *rq, const char *field, bool posts)
{
    struct chat_scope scope = chat_scope(rq);
    const struct bb_principal *who = rq->principal;
    const char *email = bb_text(rq, field);
    const struct chat_facts *facts = chat_visible(rq, &scope, bb_segment_int(rq, "id"));

    if (!chat_takes_part(facts, email) &&
        !(posts && who->role == BB_ROLE_ADMIN && strcmp(email, who->email) == 0))
        bb_end(rq, bb_fail(rq, 403, "%s is not a participant of this conversation", field));
    chat_acts_for(rq, &scope, email);
    return facts;
}

struct chat_message chat_entry_read(struct bb_request *rq)
{
    const struct chat *chat = rq->state;
    json_t *entry = json_object_get(bb_body(rq), "chatEntry");
    size_t most = (size_t)chat->settings->max_entry_bytes;

    if (json_string_length(entry) > most)
        bb_end(rq, bb_invalid(rq, "chatEntry", "must be at most %zu bytes", most));
    return (struct chat_message){
        .username = bb_text(rq, "username"),
        .entry = json_string_value(entry),
        .entry_json = entry,
        .uuid = bb_new_uuid(rq),
        .created_at = bb_time_text(rq, bb_wall_ms(rq->host)),
    };
}

/*
 * ---- POST /api/chat/conversations/:id/messages ----
 *
 * One statement does everything: the update locks the conversation's row and gives the message its
 * place in the chain, and the entry is inserted from the row that the update returned. So posts to
 * one conversation form one chain without a fork, whichever hosts receive them. The statement also
 * inserts the change of the unread count, because a trigger, which records other changes
 * (schema.sql, step 1), would cost twice as much.
 */

/*
 * $1 conversation, $2 uuid, $3 author, $4 text, $5 time. Permission was checked before. A message
 * of an Admin who is not a participant is unread for both participants. Each message increases
 * last_at. bench/sql/post.sql has the same text. A single post has its own statement, which is 12 %
 * faster on one connection (5,000 posts a second instead of 4,500).
 */
#define MESSAGES BB_KEYS_5("bigint", "uuid", "text", "text", "timestamptz")

#define ADD(keys, where, uuid, author, more, entry, end)                                           \
    "WITH " keys "c AS ("                                                                          \
    "UPDATE chat_conversation o SET entries = entries + 1, last_entry_uuid = " uuid ","            \
    " last_at = greatest(last_at + interval '1 microsecond', clock_timestamp()),"                  \
    " unread1 = unread1 + (participant1 <> " author ")::int,"                                      \
    " unread2 = unread2 + (participant2 <> " author ")::int, counted = counted + 1" where          \
    " RETURNING entries, last_at, organisation, device_project_name, participant1 = " author       \
    " AS by1, participant1, withheld1, participant2, withheld2" more "), u AS ("                   \
    "INSERT INTO chat_unread_change SELECT CASE WHEN by1 THEN participant2 ELSE participant1 END," \
    " coalesce(organisation, 0), CASE WHEN by1 THEN withheld2 ELSE withheld1 END,"                 \
    " device_project_name, 1, last_at FROM c), e AS ("                                             \
    "INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at)"        \
    " SELECT " entry " FROM c) SELECT busbar_require(" end

static const struct bb_keyed add_message = {
    {ADD("", " WHERE id = $1::bigint", "$2::uuid", "$3::text", "",
         "$1::bigint, c.entries, $2::uuid, $3::text, $4::text, $5::timestamptz",
         "count(*) = 1, 404, 'Conversation not found') FROM c"),
     BB_SQL_WRITE | BB_SQL_KEYED},
    {ADD("k AS (SELECT * FROM " MESSAGES " k(id, uuid, username, chat_entry, created_at, i)), ",
         " FROM k WHERE o.id = k.id", "k.uuid", "k.username",
         ", k.id, k.uuid, k.username, k.chat_entry, k.created_at, k.i",
         "id, entries, uuid, username, chat_entry, created_at",
         "c.i IS NOT NULL, 404, 'Conversation not found'), k.i FROM k LEFT JOIN c ON c.i = k.i"),
     BB_SQL_WRITE},
};

/*
 * $1 conversation. Runs after add_message if the author is not a participant: add_message raises
 * unread1 and unread2, but only adds to participant1's total. This adds to participant2's total.
 */
static const struct bb_sql unread_for_both = {
    "INSERT INTO chat_unread_change SELECT participant2, coalesce(organisation, 0), withheld2,"
    " device_project_name, 1, last_at FROM chat_conversation WHERE id = $1::bigint",
    BB_SQL_WRITE,
};

int chat_post(struct bb_request *rq)
{
    const struct chat_facts *facts = post_find(rq, "username", true);
    struct chat_message message = chat_entry_read(rq);
    struct bb_tx *unit = bb_unit(rq, (uint64_t)facts->id);

    if (!unit || bb_add(rq, unit, &add_message.one,
                        BB_ARGS(bb_i(facts->id), bb_t(message.uuid), bb_t(message.username),
                                bb_t(message.entry), bb_t(message.created_at))) < 0)
        return bb_failed(rq);
    if (!chat_takes_part(facts, message.username) &&
        bb_add(rq, unit, &unread_for_both, BB_ARGS(bb_i(facts->id))) < 0)
        return bb_failed(rq);
    chat_emit(rq, unit, "message.new", chat_new_payload(facts, &message), facts);
    return chat_commit(rq, unit, 201,
                       json_pack("{s:s, s:s, s:O, s:n, s:s}", "uuid", message.uuid, "username",
                                 message.username, "chatEntry", message.entry_json, "nextEntryUuid",
                                 "createdAt", message.created_at));
}

/*
 * ---- POST /api/chat/conversations/:id/attachments ----
 *
 * Posts a message with files. In the message's transaction, the document store (bb_documents) adds
 * a row for each file, with the holder "conversation ID".
 */

struct attachments {
    const struct chat_facts *facts;
    struct chat_message message;
    struct bb_given store;
    struct bb_files files;
};

/* Returns the first document store that can store the files of requests; NULL: there is none. */
static const struct bb_documents *post_find_store(struct bb_host *host, struct bb_given *given)
{
    *given = (struct bb_given){.size = sizeof(*given)};
    for (size_t i = 0; bb_service_at(host, BB_DOCUMENTS, i, given); i++) {
        const struct bb_documents *store = given->interface;

        if (store->size >= sizeof(*store))
            return store;
    }
    return NULL;
}

void chat_files_failed(struct bb_host *host)
{
    struct bb_given given;
    const struct bb_documents *store = post_find_store(host, &given);

    if (store)
        store->failed(given.host);
}

/* Returns the document store, or ends the request. */
static const struct bb_documents *post_store(struct bb_request *rq, struct bb_given *given)
{
    const struct bb_documents *store = post_find_store(rq->host, given);

    if (!store)
        bb_end(rq, bb_fail(rq, 409, "The module that stores the files is not loaded"));
    return store;
}

static const char *post_holder(struct bb_request *rq, int64_t conversation)
{
    return bb_format(rq, "conversation %" PRId64, conversation);
}

/* Returns the message's attachments, made from `shown`, the store's JSON of the files. */
static json_t *post_shown(struct bb_request *rq, const char *shown)
{
    json_t *files = bb_hold(rq, bb_json_read(rq, shown)), *file;
    json_t *attachments = bb_hold(rq, json_array());
    size_t i;

    json_array_foreach (files, i, file)
        bb_push(rq, attachments,
                json_pack("{s:O, s:O, s:O, s:O}", "id", json_object_get(file, "id"), "name",
                          json_object_get(file, "name"), "size", json_object_get(file, "size"),
                          "contentType", json_object_get(file, "type")));
    return attachments;
}

static int post_attached(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    /* $1 conversation, $2 uuid, $3 attachments. `entries` is the new message's seq. */
    static const struct bb_sql attach = {
        "WITH e AS (UPDATE chat_entry SET attachments = $3 WHERE conversation_id = $1::bigint AND"
        " seq = (SELECT entries FROM chat_conversation WHERE id = $1::bigint) AND uuid = $2::uuid"
        " RETURNING 1) SELECT busbar_require(count(*) = 1, 500, 'no message') FROM e",
        BB_SQL_WRITE};
    struct attachments *arguments = arg;
    const struct chat_facts *facts = arguments->facts;
    const struct chat_message *message = &arguments->message;
    const struct bb_documents *store = arguments->store.interface;

    arguments->files.tx = tx;
    if (bb_call_as(rq, arguments->store.host, store->add, &arguments->files) ||
        bb_add(rq, tx, &add_message.one,
               BB_ARGS(bb_i(facts->id), bb_t(message->uuid), bb_t(message->username),
                       bb_t(message->entry), bb_t(message->created_at))) < 0 ||
        (!chat_takes_part(facts, message->username) &&
         bb_add(rq, tx, &unread_for_both, BB_ARGS(bb_i(facts->id))) < 0) ||
        bb_add(rq, tx, &attach,
               BB_ARGS(bb_i(facts->id), bb_t(message->uuid),
                       bb_t(bb_json(rq, message->attachments, NULL)))) < 0)
        return bb_failed(rq);
    chat_emit(rq, tx, "message.new", chat_new_payload(facts, message), facts);
    return bb_reply(rq, 201,
                    json_pack("{s:s, s:s, s:O, s:n, s:s, s:O}", "uuid", message->uuid, "username",
                              message->username, "chatEntry", message->entry_json, "nextEntryUuid",
                              "createdAt", message->created_at, "attachments",
                              message->attachments));
}

int chat_attach(struct bb_request *rq)
{
    struct attachments *arguments = bb_alloc(rq, sizeof(*arguments));
    const struct bb_documents *store = post_store(rq, &arguments->store);
    struct bb_files *files = &arguments->files;

    arguments->facts = post_find(rq, "username", true);
    arguments->message = chat_entry_read(rq);
    if (!bb_file(rq, 0))
        return bb_invalid(rq, "files", "is required");
    if (!arguments->message.entry) {
        arguments->message.entry = "";
        arguments->message.entry_json = bb_hold(rq, json_string(""));
    }
    *files = (struct bb_files){.size = sizeof(*files),
                               .organization = arguments->facts->organization,
                               .holder = post_holder(rq, arguments->facts->id)};
    bb_call_as(rq, arguments->store.host, store->take, files);
    arguments->message.attachments = post_shown(rq, files->shown);
    int status = bb_transaction(rq, post_attached, arguments);

    bb_call_as(rq, arguments->store.host, store->drop, files);
    return status;
}

int chat_attachment(struct bb_request *rq)
{
    struct chat_scope scope = chat_scope(rq);
    int64_t id = chat_visible(rq, &scope, bb_segment_int(rq, "id"))->id;
    struct bb_held_file file = {post_holder(rq, id), bb_segment(rq, "attachmentId")};
    struct bb_given given;
    const struct bb_documents *store = post_store(rq, &given);

    return bb_call_as(rq, given.host, store->reply, &file);
}

/*
 * ---- POST /api/chat/conversations/:id/typing ----
 *
 * The payload of the notification has a line for each topic, an empty line, and the event (without
 * an id). So hosts need not read the conversation.
 */

int chat_typing(struct bb_request *rq)
{
    const struct chat_facts *facts = post_find(rq, "username", true);
    const char *username = bb_text(rq, "username"), *text = CHAT_TOPIC_ALL "\n";
    const char *emails[] = {facts->withheld1 ? username : facts->participant1,
                            facts->withheld2 ? username : facts->participant2};

    if (!chat_typing_is_due(rq, facts->id))
        return bb_reply(rq, 204, NULL);
    if (facts->organization)
        text = bb_format(rq, "%s" CHAT_TOPIC_ORGANIZATION "\n", text, facts->organization);
    for (size_t i = 0; i < 2; i++)
        if (strcmp(emails[i], username) != 0)
            text = bb_format(rq, "%s" CHAT_TOPIC_EMAIL "\n", text, emails[i]);
    const json_t *data = bb_hold(
        rq, json_pack("{s:I, s:s}", "conversationId", (json_int_t)facts->id, "username", username));

    text = bb_format(rq, "%s\nevent: typing\ndata: %s\n\n", text, bb_json(rq, data, NULL));
    return bb_notify(rq, NULL, CHAT_TYPING_CHANNEL, text) ? bb_failed(rq) : bb_reply(rq, 204, NULL);
}

/*
 * ---- PATCH /api/chat/conversations/:id/read ----
 *
 * The statement may wait for the row lock of a post. It is a unit whose key is the conversation, so
 * it runs on the same connection as posts to this conversation, and does not delay other reads.
 */

#define MARK(n)                                                                                    \
    "UPDATE chat_conversation SET unread1 = CASE WHEN participant1 = $2::text THEN " n             \
    " ELSE unread1 END, unread2 = CASE WHEN participant2 = $2::text THEN " n " ELSE unread2 END"

/*
 * mark_read writes nothing if nothing is unread. mark_unread counts the messages from seq $3 on, of
 * which none may be archived. `lock` runs before mark_unread. It accepts only the last 10,000
 * messages, and locks the row so that mark_unread counts every committed message.
 */
static const struct bb_sql mark_read = {
    MARK("0") " WHERE id = $1::bigint AND ((participant1 = $2::text AND unread1 > 0)"
              " OR (participant2 = $2::text AND unread2 > 0))",
    BB_SQL_WRITE};
static const struct bb_sql lock = {
    "SELECT busbar_require((SELECT entries FROM chat_conversation WHERE id = $1::bigint FOR UPDATE)"
    " BETWEEN $2::bigint AND $2::bigint + 9999, 404, 'Message not found in the last 10,000')",
    BB_SQL_WRITE};
static const struct bb_sql mark_unread = {
    MARK("n") " FROM (SELECT count(*) AS found,"
              " count(*) FILTER (WHERE username <> $2::text)::int AS n FROM chat_entry"
              " WHERE conversation_id = $1::bigint AND seq >= $3::bigint) e WHERE id = $1::bigint"
              " RETURNING busbar_require(found = entries - $3::bigint + 1, 404,"
              " 'Message not found: it is archived')",
    BB_SQL_WRITE};

int chat_read(struct bb_request *rq)
{
    const struct chat_facts *facts = post_find(rq, "email", false);
    int64_t before = bb_given_int(rq, "before", 0);
    struct bb_tx *unit = bb_unit(rq, (uint64_t)facts->id);
    struct bb_value values[] = {bb_i(facts->id), bb_t(bb_text(rq, "email")), bb_i(before)};

    if (!unit || (before && bb_add(rq, unit, &lock, BB_ARGS(bb_i(facts->id), bb_i(before))) < 0) ||
        bb_add(rq, unit, before ? &mark_unread : &mark_read, values, before ? 3 : 2) < 0)
        return bb_failed(rq);
    return chat_commit(rq, unit, 200, json_pack("{s:b}", "success", 1));
}

/*
 * ---- POST /api/chat/conversations/:id/share ----
 *
 * If no approved account has a participant's e-mail when a conversation begins, the conversation is
 * withheld from an account that has this e-mail later. The conversation's owner may share it, and
 * cannot undo this. CHAT_CHANNEL notifies all hosts, because they cache facts of conversations.
 */

static const struct bb_sql show = {
    "WITH c AS (UPDATE chat_conversation SET withheld1 = false, withheld2 = false"
    " WHERE id = $1::bigint AND (withheld1 OR withheld2)), d AS ("
    "UPDATE chat_directory SET withheld1 = false, withheld2 = false"
    " WHERE id = $1::bigint AND (withheld1 OR withheld2))"
    " SELECT pg_notify('" CHAT_CHANNEL "', $1::bigint::text)",
    BB_SQL_WRITE,
};

/* A participant may not share a conversation that belongs to another organization. */
int chat_share(struct bb_request *rq)
{
    struct chat_scope scope = chat_scope(rq);
    int64_t id = bb_segment_int(rq, "id");

    if (!chat_owns(&scope, chat_visible(rq, &scope, id)))
        return bb_fail(rq, 403, "The conversation belongs to another organization");
    struct bb_tx *unit = bb_unit(rq, (uint64_t)id);

    if (!unit || bb_add(rq, unit, &show, BB_ARGS(bb_i(id))) < 0)
        return bb_failed(rq);
    int status = chat_commit(rq, unit, 200, json_pack("{s:b}", "success", 1));

    chat_forget(rq->state, id);
    return status;
}

/*
 * ---- POST /api/chat/conversations/:id/close and POST /api/chat/conversations/:id/reopen ----
 *
 * Closing stores the number of messages. The conversation is closed while it has this number of
 * messages, so a post reopens it without another write. If nothing changes, nothing is written.
 */

static const struct bb_sql set_closed = {
    "UPDATE chat_conversation c SET closed_entries = CASE WHEN $2::boolean THEN entries END"
    " WHERE id = $1::bigint AND " CHAT_CLOSED " <> $2::boolean",
    BB_SQL_WRITE,
};

static int post_set_closed(struct bb_request *rq, bool closed)
{
    struct chat_scope scope = chat_scope(rq);
    int64_t id = chat_visible(rq, &scope, bb_segment_int(rq, "id"))->id;
    struct bb_tx *unit = bb_unit(rq, (uint64_t)id);

    if (!unit || bb_add(rq, unit, &set_closed, BB_ARGS(bb_i(id), bb_b(closed))) < 0)
        return bb_failed(rq);
    return chat_commit(rq, unit, 200, json_pack("{s:b}", "success", 1));
}

int chat_close_conversation(struct bb_request *rq)
{
    return post_set_closed(rq, true);
}

int chat_reopen(struct bb_request *rq)
{
    return post_set_closed(rq, false);
}
