/*
 * A bounded cache of conversations' facts, shared by all loops of a generation.
 *
 * Facts change only when a conversation is shared (post.c); then they are dropped from the cache.
 * A full set evicts by second chance. The low bits of the id select the set: ids come from a
 * sequence, so they fill the sets evenly. Each record counts its holders, which are the cache and
 * every request that uses it, so that an eviction never frees a record in use. Only pointers are
 * moved under the mutex. The epoch advances with every change: facts that were read from the
 * database before a change are not kept.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "modules/chat/conversation/chat.h"

enum { WAYS = 8 };

struct record {
    struct chat_facts facts; /* must be first: a pointer to the facts is also one to the record */
    atomic_uint holders;
    bool recent; /* used since the last eviction in its set; guarded by the mutex */
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

struct chat_cache *chat_cache_new(size_t entries)
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

void chat_cache_free(struct chat_cache *cache)
{
    for (size_t i = 0; i < cache->sets; i++)
        for (size_t way = 0; way < WAYS; way++)
            if (cache->table[i].ways[way])
                cache_release(cache->table[i].ways[way]);
    pthread_mutex_destroy(&cache->mutex);
    free(cache->table);
    free(cache);
}

static struct set *set_of(struct chat_cache *cache, int64_t id)
{
    return &cache->table[(uint64_t)id & (cache->sets - 1)];
}

/* Returns the record of `id` with one more holder, or NULL. The caller holds the mutex. */
static struct record *hold(struct set *set, int64_t id)
{
    for (size_t way = 0; way < WAYS; way++) {
        struct record *record = set->ways[way];

        if (!record || record->facts.id != id)
            continue;
        record->recent = true;
        atomic_fetch_add_explicit(&record->holders, 1, memory_order_relaxed);
        return record;
    }
    return NULL;
}

static const char *put_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    const char *put = memcpy(*at, text, size);

    *at += size;
    return put;
}

/* Creates a record with two holders: the cache and the caller. */
static struct record *record_of(const struct chat_facts *facts)
{
    const char *name = facts->device_project_name;
    size_t size = strlen(facts->participant1) + strlen(facts->participant2) + 2 +
                  (name ? strlen(name) + 1 : 0);
    struct record *record = malloc(sizeof(*record) + size);

    if (!record)
        return NULL;
    char *at = record->text;

    record->facts = *facts;
    record->facts.participant1 = put_text(&at, facts->participant1);
    record->facts.participant2 = put_text(&at, facts->participant2);
    record->facts.device_project_name = name ? put_text(&at, name) : NULL;
    record->recent = false;
    atomic_init(&record->holders, 2);
    return record;
}

/*
 * Returns the way to fill: a free one, else the first one not used since the last eviction in this
 * set.
 */
static size_t way_to_fill(struct set *set)
{
    for (size_t way = 0; way < WAYS; way++)
        if (!set->ways[way])
            return way;
    for (size_t way = 0; way < WAYS; way++) {
        if (!set->ways[way]->recent)
            return way;
        set->ways[way]->recent = false;
    }
    return 0;
}

/* The caller holds the mutex. */
static void forget(struct set *set, int64_t id)
{
    for (size_t way = 0; way < WAYS; way++)
        if (set->ways[way] && (!id || set->ways[way]->facts.id == id)) {
            cache_release(set->ways[way]);
            set->ways[way] = NULL;
        }
}

void chat_cache_forget(struct chat_cache *cache, int64_t id)
{
    pthread_mutex_lock(&cache->mutex);
    cache->epoch++;
    if (id)
        forget(set_of(cache, id), id);
    for (size_t i = 0; !id && i < cache->sets; i++)
        forget(&cache->table[i], 0);
    pthread_mutex_unlock(&cache->mutex);
}

/*
 * Caches the facts, unless there was a change since the epoch: then the caller is the only holder
 * of the record. Returns the facts with a reference for the caller; NULL: out of memory.
 */
static const struct chat_facts *cache_keep(struct chat_cache *cache, const struct chat_facts *facts,
                                           uint64_t epoch)
{
    struct record *made = record_of(facts);
    struct record *unused = made;

    if (!made)
        return NULL;
    pthread_mutex_lock(&cache->mutex);
    if (epoch != cache->epoch) {
        pthread_mutex_unlock(&cache->mutex);
        atomic_store_explicit(&made->holders, 1, memory_order_relaxed);
        return &made->facts;
    }
    struct set *set = set_of(cache, facts->id);
    struct record *kept = hold(set, facts->id);

    if (!kept) {
        size_t way = way_to_fill(set);

        kept = made;
        unused = set->ways[way];
        set->ways[way] = made;
    }
    pthread_mutex_unlock(&cache->mutex);
    if (unused == made)
        free(made);
    else if (unused)
        cache_release(unused);
    return &kept->facts;
}

/* ---- looking up: in the cache, and then in the database ---- */

#define FACTS(id)                                                                                  \
    "SELECT organisation, participant1, participant2, device_project_name, withheld1, withheld2"   \
    " FROM chat_conversation WHERE id = " id

#define IDS BB_KEYS_1("bigint")
#define FACTS_OF_ID FACTS("k.id")

static const struct bb_keyed facts_by_id = {
    {FACTS("$1::bigint"), BB_SQL_KEYED},
    {"SELECT c.*, k.i FROM " IDS " k(id, i) CROSS JOIN LATERAL (" FACTS_OF_ID " OFFSET 0) c", 0},
};

int chat_lookup(struct bb_request *rq, int64_t id, const struct chat_facts **facts)
{
    struct chat_cache *cache = ((const struct chat *)rq->state)->cache;

    pthread_mutex_lock(&cache->mutex);
    struct record *record = hold(set_of(cache, id), id);
    uint64_t epoch = cache->epoch;

    pthread_mutex_unlock(&cache->mutex);
    *facts = record ? &record->facts : NULL;
    if (!record) {
        const struct bb_rows *rows = bb_query(rq, &facts_by_id.one, BB_ARGS(bb_i(id)));

        if (!rows)
            return bb_failed(rq);
        if (bb_count(rq, rows) == 0)
            return bb_fail(rq, 404, "Conversation not found");
        struct chat_facts found = {
            .id = id,
            .organization = bb_cell_int(rq, rows, 0, 0),
            .participant1 = bb_cell(rq, rows, 0, 1),
            .participant2 = bb_cell(rq, rows, 0, 2),
            .device_project_name = bb_cell(rq, rows, 0, 3),
            .withheld1 = bb_cell_int(rq, rows, 0, 4) != 0,
            .withheld2 = bb_cell_int(rq, rows, 0, 5) != 0,
        };

        *facts = cache_keep(cache, &found, epoch);
        if (!*facts)
            return bb_no_memory(rq);
    }
    bb_defer(rq, cache_release, (void *)(uintptr_t)*facts);
    return 0;
}
