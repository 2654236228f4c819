/*
 * The cache of principals: a token that was valid a moment ago costs one hash and one comparison.
 * The table has sets of eight entries; a full set evicts by second chance. The hash begins with a
 * random seed, and the whole token is compared in constant time.
 *
 * One mutex guards everything. It is held for a fraction of a microsecond, except by an
 * invalidation, which scans one array of numbers. session.c decides whether an entry may still be
 * used (time, notifications).
 */
#include <openssl/crypto.h>
#include <pthread.h>
#include <string.h>

#include "modules/auth/auth.h"
#include "modules/common/hash.h"

#define WAYS 8
#define TAIL 16

struct place {
    uint64_t hash;
    size_t length;
    bool used;                      /* since the hand passed */
    struct auth_identity *identity; /* the token follows in the same block; NULL: free */
};

struct auth_cache {
    pthread_mutex_t lock;
    uint64_t seed;
    uint64_t epoch;
    size_t sets; /* 0: caching is disabled */
    unsigned char *hands;
    struct place *places;
    int64_t *accounts;  /* by entry, 0: free; separate from the entries, so that a scan is fast */
    uint64_t *sessions; /* hash of the session's id */
};

struct auth_cache *auth_cache_new(size_t entries, uint64_t seed)
{
    struct auth_cache *cache = calloc(1, sizeof(*cache));

    if (!cache || pthread_mutex_init(&cache->lock, NULL)) {
        free(cache);
        return NULL;
    }
    cache->seed = seed;
    cache->sets = entries / WAYS;
    cache->hands = calloc(cache->sets + 1, 1);
    cache->places = calloc(cache->sets * WAYS + 1, sizeof(*cache->places));
    cache->accounts = calloc(cache->sets * WAYS + 1, sizeof(*cache->accounts));
    cache->sessions = calloc(cache->sets * WAYS + 1, sizeof(*cache->sessions));
    if (cache->hands && cache->places && cache->accounts && cache->sessions)
        return cache;
    auth_cache_free(cache);
    return NULL;
}

void auth_cache_free(struct auth_cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; cache->places && i < cache->sets * WAYS; i++)
        free(cache->places[i].identity);
    free(cache->hands);
    free(cache->places);
    free(cache->accounts);
    free(cache->sessions);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/*
 * Hashes the last characters only: a valid token ends with its signature, which no client can
 * choose.
 */
static uint64_t hash_of_token(const struct auth_cache *cache, const char *token, size_t length)
{
    size_t tail = length < TAIL ? length : TAIL;

    return hash_bytes(cache->seed, token + length - tail, tail);
}

/* Returns the entry of a token, or NULL. */
static struct place *find(struct auth_cache *cache, uint64_t hash, const char *token, size_t length)
{
    struct place *set = cache->places + hash % cache->sets * WAYS;

    for (size_t i = 0; i < WAYS; i++) {
        const struct auth_identity *identity = set[i].identity;

        if (identity && set[i].hash == hash && set[i].length == length &&
            CRYPTO_memcmp((const char *)identity + identity->size, token, length) == 0)
            return set + i;
    }
    return NULL;
}

size_t auth_cache_get(struct auth_cache *cache, const char *token, size_t length, void *into,
                      size_t room, uint64_t *epoch)
{
    uint64_t hash = hash_of_token(cache, token, length);
    size_t size = 0;

    pthread_mutex_lock(&cache->lock);
    struct place *place = cache->sets ? find(cache, hash, token, length) : NULL;
    *epoch = cache->epoch;
    if (place) {
        place->used = true;
        size = place->identity->size;
        if (size <= room)
            memcpy(into, place->identity, size);
    }
    pthread_mutex_unlock(&cache->lock);
    return size;
}

static void clear(struct auth_cache *cache, size_t at)
{
    free(cache->places[at].identity);
    cache->places[at] = (struct place){0};
    cache->accounts[at] = 0;
    cache->sessions[at] = 0;
}

/* Returns a free entry of the set, or the first one not used since the hand passed. */
static size_t place_for(struct auth_cache *cache, size_t set)
{
    size_t first = set * WAYS;

    for (size_t i = 0; i < WAYS; i++)
        if (!cache->places[first + i].identity)
            return first + i;
    for (;;) {
        size_t at = first + cache->hands[set];

        cache->hands[set] = (unsigned char)((cache->hands[set] + 1) % WAYS);
        if (!cache->places[at].used)
            return at;
        cache->places[at].used = false;
    }
}

void auth_cache_put(struct auth_cache *cache, const char *token, size_t length,
                    const struct auth_identity *identity, uint64_t epoch)
{
    struct auth_identity *copy = cache->sets ? malloc(identity->size + length) : NULL;

    if (!copy)
        return;
    memcpy(copy, identity, identity->size);
    memcpy((char *)copy + identity->size, token, length);

    uint64_t hash = hash_of_token(cache, token, length);
    uint64_t session = hash_bytes(cache->seed, identity->session, strlen(identity->session));

    pthread_mutex_lock(&cache->lock);
    if (epoch == cache->epoch) {
        struct place *there = find(cache, hash, token, length);
        size_t at = there ? (size_t)(there - cache->places) : place_for(cache, hash % cache->sets);

        clear(cache, at);
        cache->places[at] = (struct place){.hash = hash, .length = length, .identity = copy};
        cache->accounts[at] = identity->who.account;
        cache->sessions[at] = session;
        copy = NULL;
    }
    pthread_mutex_unlock(&cache->lock);
    free(copy);
}

const char *auth_account_payload(struct bb_request *rq, int64_t account)
{
    return bb_format(rq, "account:%lld", (long long)account);
}

/*
 * Drops the entries of an account or session. Two sessions with the same hash are dropped together;
 * the other one is queried again. An unknown payload drops everything, which is always safe.
 */
void auth_changed(void *state, const char *payload)
{
    struct auth *auth = state;
    struct auth_cache *cache = auth->cache;
    const char *id = payload ? strchr(payload, ':') : NULL;
    bool account = id && !strncmp(payload, "account:", 8);
    bool session = id && !strncmp(payload, "session:", 8);
    int64_t number = account ? strtoll(id + 1, NULL, 10) : 0;
    uint64_t hash = session ? hash_bytes(cache->seed, id + 1, strlen(id + 1)) : 0;

    if (!account && !session)
        auth_keys_stale(auth->keys);
    pthread_mutex_lock(&cache->lock);
    cache->epoch++;
    for (size_t i = 0; i < cache->sets * WAYS; i++)
        if ((account   ? cache->accounts[i] == number
             : session ? cache->sessions[i] == hash
                       : true) &&
            cache->places[i].identity)
            clear(cache, i);
    pthread_mutex_unlock(&cache->lock);
}
