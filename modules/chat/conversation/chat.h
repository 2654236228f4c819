/*
 * chat: conversations between two e-mail addresses, each a chain of messages.
 *
 * What one may see is asked in two ways. A statement that looks for conversations carries the scope
 * as its first three parameters (CHAT_SEES). A request that names one conversation looks up its
 * facts, which never change and are therefore cached for as long as the generation lives, and asks
 * chat_visible(). Who one may speak as is chat_acts_for()'s business.
 *
 * Everything runs on the fiber of its request; only the cache is shared between loops, behind its
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
    bool open_to_all; /* chat.ownership: open */
    const struct bb_accounts *accounts;
    void *accounts_state;
    struct chat_cache *cache;
    struct chat_hub *hub;       /* of the live stream (live.h) */
    struct slots *long_answers; /* under way (modules/common/slots.h) */
    size_t stream_buffer;       /* bytes */
};

/* What does not change in a conversation but by being shared. Borrowed until the request ends. */
struct chat_facts {
    int64_t id;
    int64_t organisation; /* 0: none */
    const char *participant1;
    const char *participant2;
    const char *device_project_name; /* NULL: none */
    /* The participant's account does not see it for its e-mail: that was no account's when the
     * conversation began, and the platform has not shared it. */
    bool withheld1, withheld2;
};

/* A message on its way in; text is borrowed. */
struct chat_message {
    const char *uuid;
    const char *username;
    const char *entry;  /* of one that is being written */
    json_t *entry_json; /* the same; borrowed, and never checked for UTF-8 again */
    const char *created_at;
};

/* Whose conversations a caller sees. */
struct chat_scope {
    bool all;
    bool speaks;     /* for the end users of its organisations */
    const char *own; /* the caller's e-mail */
    const int64_t *organisations;
    size_t organisation_count;
};

/* The condition on a conversation `c`, and its three parameters, first in the statement. */
#define CHAT_SEES                                                                                  \
    "($1::boolean OR c.organisation = ANY($2::bigint[])"                                           \
    " OR ($3::text = c.participant1 AND NOT c.withheld1)"                                          \
    " OR ($3::text = c.participant2 AND NOT c.withheld2))"
#define CHAT_SCOPE_ARGS(scope)                                                                     \
    bb_b((scope)->all), bb_ints((scope)->organisations, (scope)->organisation_count),              \
        bb_t((scope)->own)

/* Tells the hosts that a conversation's facts have changed; the payload is its id. */
#define CHAT_CHANNEL "busbar_chat"

/* The columns of a Conversation, in the order that chat_conversation_json() reads them. */
#define CHAT_COLUMNS                                                                               \
    "c.id, c.participant1, c.participant2, c.head_uuid, c.last_entry_uuid, c.device_project_name"

/* scope.c: functions that return int give 0, or the status of the answer that they gave. */
struct chat_scope chat_scope(struct bb_request *rq);
bool chat_takes_part(const struct chat_facts *facts, const char *email);
bool chat_owns(const struct chat_scope *scope, const struct chat_facts *facts);
bool chat_sees(const struct chat_scope *scope, const struct chat_facts *facts);
/* Whether the caller sees but a part of what an e-mail's own account would. */
bool chat_asks_for_another(const struct chat_scope *scope, const char *email);
int chat_acts_for(struct bb_request *rq, const struct chat_scope *scope, const char *email);
int chat_visible(struct bb_request *rq, const struct chat_scope *scope, int64_t id,
                 const struct chat_facts **facts);

/* lookup.c: 0 with *facts, or the status of the answer given: 404 for an unknown id. */
int chat_lookup(struct bb_request *rq, int64_t id, const struct chat_facts **facts);

/* cache.c: any thread. `hold` and `keep` take a hold for the caller, which `release` gives back. */
struct chat_cache *chat_cache_new(size_t entries);
void chat_cache_free(struct chat_cache *cache);
const struct chat_facts *chat_cache_hold(struct chat_cache *cache, int64_t id);
const struct chat_facts *chat_cache_keep(struct chat_cache *cache, const struct chat_facts *facts,
                                         uint64_t epoch);
void chat_cache_release(void *facts);

/*
 * Moves on with every change. Read it before the database is asked: what was read before a change
 * is not kept. `forget` 0: all.
 */
uint64_t chat_cache_epoch(struct chat_cache *cache);
void chat_cache_forget(struct chat_cache *cache, int64_t id);

/* shape.c: JSON of the API, given; NULL when memory ran out. */
json_t *chat_conversation_json(struct bb_request *rq, const struct bb_rows *rows, size_t row);
json_t *chat_message_json(const struct chat_message *message);

/* event.c: the payloads, given; NULL when memory ran out. */
json_t *chat_new_payload(const struct chat_facts *facts, const struct chat_message *message);
json_t *chat_created_payload(const struct chat_facts *facts, const struct chat_message *message);
/* 0, or -1: `return bb_failed(rq)`. */
int chat_emit_new(struct bb_request *rq, struct bb_tx *tx, const struct chat_facts *facts,
                  const struct chat_message *message);
int chat_emit_created(struct bb_request *rq, struct bb_tx *tx, const struct chat_facts *facts,
                      const struct chat_message *message);

#endif
