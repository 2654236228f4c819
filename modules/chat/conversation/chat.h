/*
 * chat: conversations between two e-mail addresses, each a chain of messages.
 *
 * Visibility is checked in two ways. A statement that searches for conversations has the scope as
 * its first three parameters (CHAT_SEES). A request that names one conversation looks up its facts,
 * which are cached because only sharing changes them, and calls chat_visible(). chat_acts_for()
 * checks who a caller may speak as.
 *
 * Everything runs on the fiber of its request. Only the cache is shared between loops; it has its
 * own mutex.
 */
#ifndef CHAT_H
#define CHAT_H

#include <busbar/busbar.h>

struct chat_cache;
struct chat_hub;
struct slots;

/* The settings, in the units of the table in module.c. */
struct chat_settings {
    const char *ownership;
    int64_t max_entry_bytes;
    bool message_new_on_start;
    int64_t cached_conversations;
    int64_t stream_interval, stream_heartbeat, stream_buffer, streams_per_account;
    int64_t long_answers, long_answers_per_account;
};

/* State of one generation. */
struct chat {
    const struct chat_settings *settings;
    bool open_to_all; /* chat.ownership is `open` */
    const struct bb_accounts *accounts;
    void *accounts_state;
    struct chat_cache *cache;
    struct chat_hub *hub;       /* for the live stream (live/live.h) */
    struct slots *long_answers; /* in progress (modules/common/slots.h) */
    size_t stream_buffer;       /* bytes */
};

/* The part of a conversation that only sharing can change. Borrowed until the request ends. */
struct chat_facts {
    int64_t id;
    int64_t organization; /* 0: none */
    const char *participant1;
    const char *participant2;
    const char *device_project_name; /* NULL: none */
    /*
     * The account with the participant's e-mail must not see the conversation: when the
     * conversation began no account had that e-mail, and the platform has not shared it since.
     */
    bool withheld1, withheld2;
};

/* An incoming message; the strings are borrowed. */
struct chat_message {
    const char *uuid;
    const char *username;
    const char *entry;  /* set while the message is being written */
    json_t *entry_json; /* the same; borrowed, and not checked for UTF-8 again */
    const char *created_at;
};

/* The conversations that a caller sees. */
struct chat_scope {
    bool all;
    bool speaks;     /* may speak for the end users of its organizations */
    const char *own; /* the caller's e-mail */
    const int64_t *organizations;
    size_t organization_count;
};

/*
 * The condition on a conversation `c`, and its parameters, which are the first three of the
 * statement.
 */
#define CHAT_SEES                                                                                  \
    "($1::boolean OR c.organisation = ANY($2::bigint[])"                                           \
    " OR ($3::text = c.participant1 AND NOT c.withheld1)"                                          \
    " OR ($3::text = c.participant2 AND NOT c.withheld2))"
#define CHAT_SCOPE_ARGS(scope)                                                                     \
    bb_b((scope)->all), bb_ints((scope)->organizations, (scope)->organization_count),              \
        bb_t((scope)->own)

/* Channel that notifies all hosts when a conversation's facts change; the payload is its id. */
#define CHAT_CHANNEL "busbar_chat"

/* The columns of a Conversation, in the order in which chat_conversation_json() reads them. */
#define CHAT_COLUMNS                                                                               \
    "c.id, c.participant1, c.participant2, c.head_uuid, c.last_entry_uuid, c.device_project_name"

/* scope.c: functions that return int return 0, or the status of the response sent. */
struct chat_scope chat_scope(struct bb_request *rq);
bool chat_takes_part(const struct chat_facts *facts, const char *email);
bool chat_owns(const struct chat_scope *scope, const struct chat_facts *facts);
bool chat_sees(const struct chat_scope *scope, const struct chat_facts *facts);
/* Returns whether the caller sees only a part of the conversations of an e-mail. */
bool chat_asks_for_another(const struct chat_scope *scope, const char *email);
int chat_acts_for(struct bb_request *rq, const struct chat_scope *scope, const char *email);
int chat_visible(struct bb_request *rq, const struct chat_scope *scope, int64_t id,
                 const struct chat_facts **facts);

/* cache.c: returns 0 with *facts, or the status of the response sent; 404 for an unknown id. */
int chat_lookup(struct bb_request *rq, int64_t id, const struct chat_facts **facts);

/* May be called on any thread. Forgetting id 0 drops all facts. */
struct chat_cache *chat_cache_new(size_t entries);
void chat_cache_free(struct chat_cache *cache);
void chat_cache_forget(struct chat_cache *cache, int64_t id);

/* json.c: the caller owns the result; NULL if out of memory. */
json_t *chat_conversation_json(struct bb_request *rq, const struct bb_rows *rows, size_t row);
json_t *chat_message_json(const struct chat_message *message);
json_t *chat_new_payload(const struct chat_facts *facts, const struct chat_message *message);
json_t *chat_created_payload(const struct chat_facts *facts, const struct chat_message *message);

/*
 * Raises an event. Takes ownership of the payload. Returns 0; or -1, also if the payload is NULL:
 * then the caller must `return bb_failed(rq)`.
 */
int chat_emit(struct bb_request *rq, struct bb_tx *tx, const char *name, json_t *payload,
              const struct chat_facts *facts);

/* Commits and sends the response. NULL: out of memory. Returns the status of the response sent. */
int chat_commit(struct bb_request *rq, struct bb_tx *unit, int success, json_t *json);

/* state.c */
int chat_open(struct bb_host *host, void **state);
void chat_close(struct bb_host *host, void *state);
extern const struct bb_conversations chat_conversations; /* the service "conversations" */

#endif
