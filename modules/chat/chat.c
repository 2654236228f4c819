/*
 * Checks which conversations a caller sees and for which e-mails it may act. Also has the state of
 * a generation, the cache of conversations, and the JSON of the API and the events.
 *
 * Admins see all conversations. An OrganizationAdmin or ApiUser sees the conversations of its
 * organizations, and acts in them for any e-mail, except the e-mails of other organizations'
 * accounts. A participant sees the conversation unless it is withheld (the participant's account
 * got the e-mail or was approved after the conversation began). A conversation that the caller may
 * not see gets the same response as a conversation that does not exist.
 */
#include "modules/chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "modules/common/pieces.h"

/*
 * ---- the cache of facts ----
 *
 * Facts change only when a conversation is shared (post.c) or withheld, which removes them from the
 * cache. A cached value is a struct chat_facts and then its texts; chat_visible() sets the pointers
 * to them.
 */

enum { FACTS_ROOM = 2048 }; /* bytes, enough for two e-mails and a name of 255 characters */

static void facts_keep(struct bb_request *rq, const struct chat_facts *facts, uint64_t epoch)
{
    const struct chat *chat = rq->state;
    const char *texts[] = {facts->participant1, facts->participant2, facts->device_project_name};
    struct chat_facts *block = bb_alloc(rq, FACTS_ROOM);
    char *at = memcpy(block, facts, sizeof(*facts));

    at += sizeof(*facts);
    for (size_t i = 0; i < 3 && texts[i]; i++) {
        if (at + strlen(texts[i]) + 1 > (char *)block + FACTS_ROOM)
            return;
        at = stpcpy(at, texts[i]) + 1;
    }
    cache_put(chat->cache, &facts->id, sizeof(facts->id), block, (size_t)(at - (char *)block), 0,
              epoch);
}

/* ---- the state ---- */

int chat_open(struct bb_host *host, void **state)
{
    const struct chat_settings *settings = bb_settings(host);
    struct bb_service accounts = bb_service(host, "accounts");
    struct chat *chat = bb_host_alloc(host, sizeof(*chat));
    struct bb_given store = {.size = sizeof(store)};
    uint64_t seed;

    if (!chat)
        return bb_open_fail(host, "out of memory");
    if (settings->retention_days && !bb_service_at(host, BB_DOCUMENTS, 0, &store))
        return bb_open_fail(host, "retention_days: needs a module with a document store, such as "
                                  "device, in the list `modules`");
    chat->settings = settings;
    chat->open_to_all = strcmp(settings->ownership, "open") == 0;
    chat->accounts = accounts.interface;
    chat->accounts_state = accounts.state;
    if (bb_random(host, &seed, sizeof(seed)))
        return bb_open_fail(host, "no random bytes");
    chat->cache = cache_new((size_t)settings->cached_conversations, seed);
    chat->hub = chat->cache ? chat_hub_new(host) : NULL;
    if (chat->hub)
        chat->long_answers = slots_new(host, settings->long_answers,
                                       settings->long_answers_per_account, "long answers");
    if (!chat->long_answers) {
        chat_hub_free(chat->hub);
        cache_free(chat->cache);
        return bb_open_fail(host, "out of memory");
    }
    *state = chat;
    return 0;
}

void chat_close(struct bb_host *host, void *state)
{
    struct chat *chat = state;

    (void)host;
    slots_free(chat->long_answers);
    chat_hub_free(chat->hub);
    cache_free(chat->cache);
}

void chat_forget(const struct chat *chat, int64_t id)
{
    if (id)
        cache_remove(chat->cache, &id, sizeof(id));
    else
        cache_drop(chat->cache, 0);
}

void chat_heard(void *state, const char *payload)
{
    chat_forget(state, payload ? strtoll(payload, NULL, 10) : 0);
}

static int chat_count_of(void *state, struct bb_request *rq, const char *email, int64_t *count)
{
    static const struct bb_sql sum = {
        "SELECT (SELECT count(*) FROM chat_directory WHERE participant1 = $1)"
        " + (SELECT count(*) FROM chat_directory WHERE participant2 = $1)",
        0};
    const struct bb_rows *rows = bb_query(rq, &sum, BB_ARGS(bb_t(email)));

    (void)state;
    if (!rows)
        return -1;
    *count = bb_cell_int(rq, rows, 0, 0);
    return 0;
}

static void chat_withheld(struct bb_request *rq, struct bb_tx *tx, void *chat)
{
    (void)rq, (void)tx;
    chat_forget(chat, 0);
}

/*
 * Up to 1,000 conversations in each statement, so that none exceeds database.statement_timeout.
 * Locks the rows in the order in which posts lock them (by id).
 */
static int chat_withhold(void *state, struct bb_request *rq, struct bb_tx *tx, const char *email)
{
    static const struct bb_sql withhold = {
        "WITH c AS (UPDATE chat_conversation c SET withheld1 = withheld1 OR participant1 = $1,"
        " withheld2 = withheld2 OR participant2 = $1 FROM (SELECT id FROM chat_conversation"
        " WHERE (participant1 = $1 AND NOT withheld1 OR participant2 = $1 AND NOT withheld2)"
        " AND id > $2::bigint ORDER BY id LIMIT 1000 FOR UPDATE) o WHERE c.id = o.id"
        " RETURNING c.id), d AS (UPDATE chat_directory d SET"
        " withheld1 = withheld1 OR participant1 = $1, withheld2 = withheld2 OR participant2 = $1"
        " FROM c WHERE d.id = c.id)"
        " SELECT coalesce(max(id), 0), pg_notify('" CHAT_CHANNEL "', '') FROM c",
        BB_SQL_WRITE | BB_SQL_LONG};
    int64_t last = 0;

    do {
        const struct bb_value values[] = {bb_t(email), bb_i(last)};
        const struct bb_rows *rows =
            tx ? bb_tx_query(rq, tx, &withhold, values, 2) : bb_query(rq, &withhold, values, 2);

        if (!rows)
            return -1;
        last = bb_cell_int(rq, rows, 0, 0);
    } while (last);
    if (tx)
        bb_after(rq, tx, chat_withheld, state);
    else
        chat_forget(state, 0);
    return 0;
}

const struct bb_conversations chat_conversations = {
    .size = sizeof(chat_conversations),
    .count_of = chat_count_of,
    .withhold = chat_withhold,
};

/* ---- who sees what ---- */

struct chat_scope chat_scope(struct bb_request *rq)
{
    static const int64_t no_organization = 0;
    const struct chat *chat = rq->state;
    const struct bb_principal *who = rq->principal;
    bool speaks = (who->role & (BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_API_USER)) != 0;
    struct chat_scope scope = {
        .all = chat->open_to_all || who->role == BB_ROLE_ADMIN,
        .speaks = speaks,
        .own = who->email,
        .organizations = &no_organization,
    };

    if (speaks && who->organization_count > 0) {
        scope.organizations = who->organizations;
        scope.organization_count = who->organization_count;
    }
    return scope;
}

bool chat_takes_part(const struct chat_facts *facts, const char *email)
{
    return strcmp(facts->participant1, email) == 0 || strcmp(facts->participant2, email) == 0;
}

static bool has_organization(const struct chat_scope *scope, int64_t organization)
{
    for (size_t i = 0; i < scope->organization_count; i++)
        if (scope->organizations[i] == organization)
            return organization != 0;
    return false;
}

bool chat_owns(const struct chat_scope *scope, const struct chat_facts *facts)
{
    return scope->all || has_organization(scope, facts->organization);
}

bool chat_asks_for_another(const struct chat_scope *scope, const char *email)
{
    return !scope->all && strcmp(email, scope->own) != 0;
}

/*
 * An account without an organization (an Admin) counts as an account of another organization, so
 * only the account itself and callers that see everything may act for it.
 */
void chat_acts_for(struct bb_request *rq, const struct chat_scope *scope, const char *email)
{
    const struct chat *chat = rq->state;
    int64_t organization = 0;

    if (scope->all || strcmp(email, scope->own) == 0)
        return;
    if (!scope->speaks)
        bb_end(rq, bb_fail(rq, 403, "You may only act for your own e-mail address"));

    int known = chat->accounts->organization_of(chat->accounts_state, rq, email, &organization);

    if (known < 0)
        bb_end(rq, bb_failed(rq));
    if (known > 0 && !has_organization(scope, organization))
        bb_end(rq, bb_fail(rq, 403, "You may not act for an account of another organization"));
}

static const struct bb_keyed facts_by_id = {
    {"SELECT " CHAT_FACTS " FROM chat_conversation c WHERE c.id = $1::bigint", BB_SQL_KEYED},
    {"SELECT " CHAT_FACTS ", k.i FROM " BB_KEYS_1(
         "bigint") " k(id, i) CROSS JOIN LATERAL"
                   " (SELECT * FROM chat_conversation v WHERE v.id = k.id OFFSET 0) c",
     0},
};

struct chat_facts chat_facts_of(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                size_t column, int64_t id)
{
    return (struct chat_facts){
        .id = id,
        .organization = bb_cell_int(rq, rows, row, column),
        .participant1 = bb_cell(rq, rows, row, column + 1),
        .participant2 = bb_cell(rq, rows, row, column + 2),
        .device_project_name = bb_cell(rq, rows, row, column + 3),
        .withheld1 = bb_cell_int(rq, rows, row, column + 4) != 0,
        .withheld2 = bb_cell_int(rq, rows, row, column + 5) != 0,
    };
}

const struct chat_facts *chat_visible(struct bb_request *rq, const struct chat_scope *scope,
                                      int64_t id)
{
    const struct chat *chat = rq->state;
    struct chat_facts *facts = bb_alloc(rq, FACTS_ROOM);
    uint64_t epoch;
    /* without fresh signals the cache may be wrong: a promoted standby may reuse the id */
    bool fresh = bb_signals_fresh_ms(rq->host) > 0;
    size_t size = cache_get(chat->cache, &id, sizeof(id), facts, FACTS_ROOM, &epoch);

    if (fresh && size && size <= FACTS_ROOM) {
        facts->participant1 = (const char *)(facts + 1);
        facts->participant2 = facts->participant1 + strlen(facts->participant1) + 1;
        if (facts->device_project_name)
            facts->device_project_name = facts->participant2 + strlen(facts->participant2) + 1;
    } else {
        const struct bb_rows *rows =
            bb_find_or_end(rq, &facts_by_id.one, BB_ARGS(bb_i(id)), "Conversation");

        *facts = chat_facts_of(rq, rows, 0, 0, id);
        facts_keep(rq, facts, epoch);
    }
    if (!chat_owns(scope, facts) &&
        (strcmp(facts->participant1, scope->own) != 0 || facts->withheld1) &&
        (strcmp(facts->participant2, scope->own) != 0 || facts->withheld2))
        bb_end(rq, bb_fail(rq, 404, "Conversation not found"));
    return facts;
}

/* ---- the JSON, with exactly the keys of the specification, and the events ---- */

json_t *chat_message_json(const struct chat_message *message)
{
    return json_pack("{s:s, s:s, s:O, s:s, s:O*}", "uuid", message->uuid, "username",
                     message->username, "chatEntry", message->entry_json, "createdAt",
                     message->created_at, "attachments", message->attachments);
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
 * Sends the event to everyone who may see the conversation: its organization, and its participants
 * unless the conversation is withheld from them.
 */
void chat_emit(struct bb_request *rq, struct bb_tx *tx, const char *name, json_t *payload,
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

    if (bb_emit(rq, tx, name, payload, &audience))
        bb_end(rq, bb_failed(rq));
}

int chat_commit(struct bb_request *rq, struct bb_tx *unit, int success, json_t *json)
{
    int status = bb_commit(rq, unit, success, json);

    return status ? status : bb_failed(rq);
}
