/*
 * chat: conversations between two e-mail addresses, each a chain of messages.
 *
 * Visibility is checked in three ways. A statement that searches for conversations has the scope as
 * its first three parameters (CHAT_SEES). A request that names one conversation calls
 * chat_visible(), which checks its facts (struct chat_facts). Facts are cached, because only
 * sharing and withholding change them. The live stream uses topics (stream.c). chat_acts_for()
 * checks for which e-mails a caller may act. Everything runs on the fiber of its request.
 *
 * Functions that return int return 0, or the status of the response sent, unless stated otherwise.
 */
#ifndef CHAT_H
#define CHAT_H

#include <busbar/busbar.h>

#include "modules/common/cache.h"

/* The settings, in the units of the table in module.c. */
struct chat_settings {
    const char *ownership;
    int64_t max_entry_bytes;
    bool message_new_on_start;
    int64_t cached_conversations;
    int64_t stream_interval, stream_heartbeat, stream_buffer, streams_per_account;
    int64_t long_answers, long_answers_per_account;
    int64_t retention_days; /* 0: messages stay in the database */
};

/* The module's state in one generation (a loaded configuration). */
struct chat {
    const struct chat_settings *settings;
    bool open_to_all; /* chat.ownership is `open` */
    const struct bb_accounts *accounts;
    void *accounts_state;
    struct cache *cache;        /* struct chat_facts by conversation id */
    struct chat_hub *hub;       /* the live stream (stream.c) */
    struct slots *long_answers; /* for long responses (modules/common/slots.h) */
};

/* Members of a conversation; only withheldN can change. Borrowed until the request ends. */
struct chat_facts {
    int64_t id;
    int64_t organization; /* 0: none */
    const char *participant1;
    const char *participant2;
    const char *device_project_name; /* NULL: none */
    /*
     * The account with the participant's e-mail does not see the conversation, because no approved
     * account had this e-mail when the conversation began, or because that account got another
     * e-mail since then; and nobody has shared the conversation afterwards.
     */
    bool withheld1, withheld2;
};

/* A message; the strings are borrowed. */
struct chat_message {
    const char *uuid;
    const char *username;
    const char *entry;  /* NULL if the message was read from the database */
    json_t *entry_json; /* the same text as a JSON string; borrowed */
    const char *created_at;
    json_t *attachments; /* borrowed; NULL: none */
};

/* The bytes of a message `row` that count toward limits of responses and archive parts. */
#define CHAT_BYTES(row)                                                                            \
    "(octet_length(" row ".chat_entry) + coalesce(octet_length(" row ".attachments), 0))"

/* The conversations that a caller sees. */
struct chat_scope {
    bool all;
    bool speaks;     /* the caller may act for end users of its organizations */
    const char *own; /* the caller's e-mail */
    const int64_t *organizations;
    size_t organization_count;
};

/*
 * Whether the caller sees conversation `c`. CHAT_SCOPE_ARGS() must be the first three parameters of
 * the statement.
 */
#define CHAT_SEES                                                                                  \
    "($1::boolean OR c.organisation = ANY($2::bigint[])"                                           \
    " OR ($3::text = c.participant1 AND NOT c.withheld1)"                                          \
    " OR ($3::text = c.participant2 AND NOT c.withheld2))"
#define CHAT_SCOPE_ARGS(scope)                                                                     \
    bb_b((scope)->all), bb_ints((scope)->organizations, (scope)->organization_count),              \
        bb_t((scope)->own)

/* Channel that notifies all hosts of changed chat_facts; payload: the conversation's id. */
#define CHAT_CHANNEL "busbar_chat"
void chat_heard(void *state, const char *payload);

/*
 * module.c: the fields of a conversation. Each constant is the number of fields that a kind of list
 * shows. CHAT_COLUMNS are the columns of the first six fields.
 */
enum { CHAT_CONVERSATION = 6, CHAT_UNREAD = 8, CHAT_SEEN = 13 };
extern const struct bb_field chat_fields[CHAT_SEEN];
#define CHAT_CLOSED "(c.closed_entries IS NOT DISTINCT FROM c.entries)"
#define CHAT_COLUMNS                                                                               \
    "c.id, c.participant1, c.participant2, c.head_uuid, c.last_entry_uuid, c.device_project_name"

/* module.c: the fields of a message that a search has found. */
enum { CHAT_FOUND = 12 };
extern const struct bb_field chat_found_fields[CHAT_FOUND];

struct chat_scope chat_scope(struct bb_request *rq);
bool chat_takes_part(const struct chat_facts *facts, const char *email);
bool chat_owns(const struct chat_scope *scope, const struct chat_facts *facts);
/* Returns false if the caller sees all conversations of `email` (own e-mail, or scope->all). */
bool chat_asks_for_another(const struct chat_scope *scope, const char *email);
/* Ends the request with 403 unless the caller may act for the e-mail. */
void chat_acts_for(struct bb_request *rq, const struct chat_scope *scope, const char *email);

/* Returns the facts of a conversation. Ends the request with 404 unless the caller sees it. */
const struct chat_facts *chat_visible(struct bb_request *rq, const struct chat_scope *scope,
                                      int64_t id);

/* Reads facts from the columns CHAT_FACTS of a row, which begin at `column`. */
#define CHAT_FACTS                                                                                 \
    "c.organisation, c.participant1, c.participant2, c.device_project_name, c.withheld1,"          \
    " c.withheld2"
struct chat_facts chat_facts_of(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                size_t column, int64_t id);

/* Removes the facts of a conversation from the cache; id 0: of all conversations. Any thread. */
void chat_forget(const struct chat *chat, int64_t id);

/* Return JSON that the caller owns; NULL if out of memory. */
json_t *chat_message_json(const struct chat_message *message);
json_t *chat_new_payload(const struct chat_facts *facts, const struct chat_message *message);
json_t *chat_created_payload(const struct chat_facts *facts, const struct chat_message *message);

/* Raises an event, or ends the request. Takes ownership of the payload. */
void chat_emit(struct bb_request *rq, struct bb_tx *tx, const char *name, json_t *payload,
               const struct chat_facts *facts);

/* Commits `unit`, then sends `json` (NULL: out of memory). Returns the status that was sent. */
int chat_commit(struct bb_request *rq, struct bb_tx *unit, int success, json_t *json);

int chat_open(struct bb_host *host, void **state);
void chat_close(struct bb_host *host, void *state);
extern const struct bb_conversations chat_conversations; /* the service "conversations" */

/* post.c: makes a message from the request body. Ends the request if the message is too long. */
struct chat_message chat_entry_read(struct bb_request *rq);

/* The metrics, in the order of their table in module.c. */
enum { CHAT_LISTENERS, CHAT_EVENTS_READ, CHAT_CATCH_UP_PAGES, CHAT_ARCHIVED, CHAT_RESTORED };
double chat_listeners(void *state, size_t value);

/* stream.c: the live stream. chat_hub_free(NULL) has no effect. */
struct chat_hub *chat_hub_new(struct bb_host *host);
void chat_hub_free(struct chat_hub *hub);

/* Channel that notifies all hosts that somebody is typing; the payload is made by post.c. */
#define CHAT_TYPING_CHANNEL "busbar_chat_typing"
void chat_typing_heard(void *state, const char *payload);
/* Returns whether the caller may now report typing, and if so, stores the report's time. */
bool chat_typing_is_due(struct bb_request *rq, int64_t conversation);

/* unread.c: the job that adds up unread counts. */
void chat_add_up(struct bb_request *rq);

/* archive.c: the job `archive`, and the commands `chat archive`, `restore` and `doctor`. */
void chat_archive(struct bb_request *rq);
bb_handler chat_command_archive, chat_command_restore, chat_command_doctor;
/* Restores the archived parts with messages from `first` to `last` (seq), or ends the request. */
void chat_restore(struct bb_request *rq, int64_t conversation, int64_t first, int64_t last);

/* The handlers of the routes. Those that change a conversation are in post.c. */
bb_handler chat_list, chat_seen, chat_search, chat_find, chat_start, chat_post, chat_chain,
    chat_unread_count, chat_unread_devices, chat_attach, chat_attachment, chat_typing, chat_read,
    chat_share, chat_close_conversation, chat_reopen, chat_stream;
void chat_files_failed(struct bb_host *host);

#endif
