/*
 * The state of a generation; who sees which conversations and which e-mails a caller may speak for;
 * the cache of conversations; the JSON of the API and of the events.
 *
 * Admins see all. An OrganizationAdmin or ApiUser sees the conversations of its organizations and
 * speaks in them for any e-mail, except for accounts registered elsewhere. Participants see the
 * conversation unless it is withheld, because their account was approved after it began. A
 * conversation that the caller may not see gets the same response as one that does not exist.
 */
#include "modules/chat/chat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/array.h"

/*
 * ---- the cache of facts ----
 *
 * It is shared by all loops. Facts change only when a conversation is shared (post.c); then they
 * are dropped. The low bits of the id select a set: ids come from a sequence, so they fill the sets
 * evenly. A set is in the order of use, latest first. Each record counts its holders, which are the
 * cache and every request that uses it, so that an eviction never frees a record in use. The epoch
 * advances with every change: facts that were read from the database before a change are not kept.
 */

enum { WAYS = 8 };

struct record {
    struct chat_facts facts; /* must be first: a pointer to the facts is also one to the record */
    atomic_uint holders;
    char text[]; /* the strings of the facts */
};

struct set {
    struct record *ways[WAYS];
};

struct chat_cache {
    pthread_mutex_t mutex;
    uint64_t epoch;
    size_t sets; /* a power of two */
    struct set *table;
};

static struct chat_cache *cache_new(size_t entries)
{
    struct chat_cache *cache = calloc(1, sizeof(*cache));

    if (!cache)
        return NULL;
    cache->sets = 1;
    while (cache->sets * WAYS < entries)
        cache->sets *= 2;
    cache->table = calloc(cache->sets, sizeof(*cache->table));
    if (!cache->table || pthread_mutex_init(&cache->mutex, NULL) != 0) {
        free(cache->table);
        free(cache);
        return NULL;
    }
    return cache;
}

static void cache_release(void *facts)
{
    struct record *record = facts;

    if (atomic_fetch_sub_explicit(&record->holders, 1, memory_order_acq_rel) == 1)
        free(record);
}

static struct set *cache_set(struct chat_cache *cache, int64_t id)
{
    return &cache->table[(uint64_t)id & (cache->sets - 1)];
}

void chat_forget(struct chat_cache *cache, int64_t id)
{
    pthread_mutex_lock(&cache->mutex);
    cache->epoch++;
    struct set *first = id ? cache_set(cache, id) : cache->table;
    size_t sets = id ? 1 : cache->sets;

    for (struct set *set = first; set < first + sets; set++)
        for (size_t way = 0; way < WAYS; way++)
            if (set->ways[way] && (!id || set->ways[way]->facts.id == id)) {
                cache_release(set->ways[way]);
                set->ways[way] = NULL;
            }
    pthread_mutex_unlock(&cache->mutex);
}

static void cache_free(struct chat_cache *cache)
{
    chat_forget(cache, 0);
    pthread_mutex_destroy(&cache->mutex);
    free(cache->table);
    free(cache);
}

/* Puts a record first in its set; those before `way` move back by one. */
static void cache_put_first(struct set *set, size_t way, struct record *record)
{
    memmove(set->ways + 1, set->ways, way * sizeof(set->ways[0]));
    set->ways[0] = record;
}

/* Returns the facts with a reference for the caller, or NULL, and the epoch. */
static const struct chat_facts *cache_find(struct chat_cache *cache, int64_t id, uint64_t *epoch)
{
    struct record *found = NULL;

    pthread_mutex_lock(&cache->mutex);
    struct set *set = cache_set(cache, id);

    *epoch = cache->epoch;
    for (size_t way = 0; way < WAYS && !found; way++) {
        if (!set->ways[way] || set->ways[way]->facts.id != id)
            continue;
        found = set->ways[way];
        atomic_fetch_add_explicit(&found->holders, 1, memory_order_relaxed);
        cache_put_first(set, way, found);
    }
    pthread_mutex_unlock(&cache->mutex);
    return found ? &found->facts : NULL;
}

/*
 * Caches a copy of the facts, unless there was a change since the epoch. Returns the copy with a
 * reference for the caller; NULL: out of memory.
 */
static const struct chat_facts *cache_keep(struct chat_cache *cache, const struct chat_facts *facts,
                                           uint64_t epoch)
{
    const char *name = facts->device_project_name;
    size_t size1 = strlen(facts->participant1) + 1, size2 = strlen(facts->participant2) + 1;
    size_t size3 = name ? strlen(name) + 1 : 0;
    struct record *made = malloc(sizeof(*made) + size1 + size2 + size3), *dropped = NULL;

    if (!made)
        return NULL;
    made->facts = *facts;
    made->facts.participant1 = memcpy(made->text, facts->participant1, size1);
    made->facts.participant2 = memcpy(made->text + size1, facts->participant2, size2);
    if (name)
        made->facts.device_project_name = memcpy(made->text + size1 + size2, name, size3);
    atomic_init(&made->holders, 2); /* the cache and the caller */

    pthread_mutex_lock(&cache->mutex);
    if (epoch == cache->epoch) {
        struct set *set = cache_set(cache, facts->id);

        dropped = set->ways[WAYS - 1];
        cache_put_first(set, WAYS - 1, made);
    } else {
        atomic_store_explicit(&made->holders, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&cache->mutex);
    if (dropped)
        cache_release(dropped);
    return &made->facts;
}

/* ---- the state ---- */

int chat_open(struct bb_host *host, void **state)
{
    const struct chat_settings *settings = bb_settings(host);
    struct bb_service accounts = bb_service(host, "accounts");
    struct chat *chat = bb_host_alloc(host, sizeof(*chat));

    if (!chat)
        return bb_open_fail(host, "out of memory");
    chat->settings = settings;
    chat->open_to_all = strcmp(settings->ownership, "open") == 0;
    chat->accounts = accounts.interface;
    chat->accounts_state = accounts.state;
    chat->cache = cache_new((size_t)settings->cached_conversations);
    if (!chat->cache)
        return bb_open_fail(host, "no memory for the cache of conversations");
    chat->hub = chat_hub_new(host);
    if (chat->hub)
        chat->long_answers = slots_new(host, settings->long_answers,
                                       settings->long_answers_per_account, "long answers");
    if (!chat->long_answers) {
        chat_hub_free(chat->hub);
        cache_free(chat->cache);
        return bb_open_fail(host, "no memory for the live stream and long answers");
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

void chat_heard(void *state, const char *payload)
{
    const struct chat *chat = state;

    chat_forget(chat->cache, payload ? strtoll(payload, NULL, 10) : 0);
}

static int count_of(void *state, struct bb_request *rq, const char *email, int64_t *count)
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

const struct bb_conversations chat_conversations = {
    .size = sizeof(chat_conversations),
    .count_of = count_of,
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
 * An account without an organization (an Admin) counts as one of another organization: nobody may
 * speak for it.
 */
int chat_acts_for(struct bb_request *rq, const struct chat_scope *scope, const char *email)
{
    const struct chat *chat = rq->state;
    int64_t organization = 0;

    if (scope->all || strcmp(email, scope->own) == 0)
        return 0;
    if (!scope->speaks)
        return bb_fail(rq, 403, "You may only act for your own e-mail address");

    int known = chat->accounts->organization_of(chat->accounts_state, rq, email, &organization);

    if (known < 0)
        return bb_failed(rq);
    if (known > 0 && !has_organization(scope, organization))
        return bb_fail(rq, 403, "You may not act for an account of another organization");
    return 0;
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

int chat_visible(struct bb_request *rq, const struct chat_scope *scope, int64_t id,
                 const struct chat_facts **facts)
{
    struct chat_cache *cache = ((const struct chat *)rq->state)->cache;
    uint64_t epoch;
    const struct chat_facts *found = cache_find(cache, id, &epoch);

    if (!found) {
        const struct bb_rows *rows = bb_query(rq, &facts_by_id.one, BB_ARGS(bb_i(id)));

        if (!rows)
            return bb_failed(rq);
        if (bb_count(rq, rows) == 0)
            return bb_fail(rq, 404, "Conversation not found");
        struct chat_facts read = chat_facts_of(rq, rows, 0, 0, id);

        found = cache_keep(cache, &read, epoch);
        if (!found)
            return bb_no_memory(rq);
    }
    bb_defer(rq, cache_release, (void *)(uintptr_t)found);
    *facts = found;
    if (chat_owns(scope, found) ||
        (strcmp(found->participant1, scope->own) == 0 && !found->withheld1) ||
        (strcmp(found->participant2, scope->own) == 0 && !found->withheld2))
        return 0;
    return bb_fail(rq, 404, "Conversation not found");
}

/* ---- the JSON, with exactly the keys of the specification, and the events ---- */

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
