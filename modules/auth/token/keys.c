/*
 * Signing keys: read from the database and kept in memory, the active one and the retired ones, so
 * that an old token can be distinguished from a forged one. A key's secret never changes, so the
 * copy in memory can verify without a query; whether a key is retired is queried together with the
 * session. Secrets are stored sealed in the database, bound to the key's name.
 *
 * An unknown name is looked up in the database, because another host may have created the key a
 * moment ago. This happens at most a few times per second, so that forged names cost nothing.
 *
 * One mutex, which is never held during a query.
 */
#include "modules/auth/token/session.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <string.h>

#define LOOKUPS_PER_S 20 /* for unknown names while the keys are believed complete */
#define HEX_SEALED_MAX 1024

struct key {
    char kid[TOKEN_KID + 1];
    bool active;
    EVP_MAC_CTX *keyed;
};

struct auth_keys {
    pthread_mutex_t lock;
    EVP_MAC *hmac;
    struct key *keys;
    size_t count;
    uint64_t wanted, loaded; /* epochs: equal if no change is known since the last load */
    int64_t second;          /* on the monotonic clock */
    unsigned lookups;        /* in that second */
};

struct auth_keys *auth_keys_new(void)
{
    struct auth_keys *keys = calloc(1, sizeof(*keys));

    if (!keys)
        return NULL;
    keys->wanted = 1;
    keys->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    if (keys->hmac && pthread_mutex_init(&keys->lock, NULL) == 0)
        return keys;
    EVP_MAC_free(keys->hmac);
    free(keys);
    return NULL;
}

static void free_list(struct key *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        EVP_MAC_CTX_free(list[i].keyed);
    free(list);
}

void auth_keys_free(struct auth_keys *keys)
{
    if (!keys)
        return;
    free_list(keys->keys, keys->count);
    EVP_MAC_free(keys->hmac);
    pthread_mutex_destroy(&keys->lock);
    free(keys);
}

void auth_keys_stale(struct auth_keys *keys)
{
    pthread_mutex_lock(&keys->lock);
    keys->wanted++;
    pthread_mutex_unlock(&keys->lock);
}

static const struct key *find(const struct auth_keys *keys, const char *kid)
{
    for (size_t i = 0; i < keys->count; i++)
        if (strcmp(keys->keys[i].kid, kid) == 0)
            return keys->keys + i;
    return NULL;
}

static void purpose_of(const char *kid, char purpose[TOKEN_KID + 16])
{
    snprintf(purpose, TOKEN_KID + 16, "auth.key:%s", kid);
}

enum opened { OPENED, NOT_OURS, OUT_OF_MEMORY };

/* Opens one key. Returns NOT_OURS if it is sealed under a key that is not configured any more. */
static enum opened open_key(struct auth *auth, struct key *key, const char *kid, const char *cell)
{
    char purpose[TOKEN_KID + 16];
    unsigned char sealed[HEX_SEALED_MAX / 2], *secret = NULL;
    size_t length = 0;
    int64_t count = bb_cell_bytes(cell, sealed, sizeof(sealed));

    if (count < 0 || strlen(kid) != TOKEN_KID)
        return NOT_OURS;
    purpose_of(kid, purpose);
    int failed = bb_unseal(auth->host, sealed, (size_t)count, purpose, &secret, &length);

    if (failed)
        return failed == -2 ? OUT_OF_MEMORY : NOT_OURS;
    memcpy(key->kid, kid, TOKEN_KID + 1);
    bool whole = length == TOKEN_MAC;

    if (whole)
        key->keyed = token_key(auth->keys->hmac, secret);
    OPENSSL_cleanse(secret, length);
    free(secret);
    if (key->keyed)
        return OPENED;
    return whole ? OUT_OF_MEMORY : NOT_OURS;
}

/* If out of memory, the old list stays: with an incomplete list, valid tokens would look forged. */
int auth_keys_load(struct bb_request *rq, struct auth *auth)
{
    static const struct bb_sql all = {
        "SELECT kid, sealed, retired IS NULL FROM auth_key ORDER BY created DESC LIMIT 256", 0};
    struct auth_keys *keys = auth->keys;

    pthread_mutex_lock(&keys->lock);
    uint64_t epoch = keys->wanted;
    pthread_mutex_unlock(&keys->lock);

    struct bb_rows *rows = bb_query(rq, &all, BB_NO_ARGS);
    if (!rows)
        return bb_failed(rq);

    struct key *list = calloc(bb_count(rq, rows) + 1, sizeof(*list));
    size_t count = 0;

    if (!list)
        return bb_no_memory(rq);
    for (size_t i = 0; i < bb_count(rq, rows); i++) {
        const char *kid = bb_cell(rq, rows, i, 0);

        list[count].active = bb_cell_int(rq, rows, i, 2) != 0;
        enum opened opened = open_key(auth, list + count, kid, bb_cell(rq, rows, i, 1));

        if (opened == OUT_OF_MEMORY) {
            free_list(list, count);
            return bb_no_memory(rq);
        }
        if (opened == OPENED)
            count++;
        else
            bb_log(rq, BB_ERROR, "signing key %s cannot be opened with secrets.keys", kid);
    }

    pthread_mutex_lock(&keys->lock);
    struct key *old = keys->keys;
    size_t old_count = keys->count;
    keys->keys = list;
    keys->count = count;
    keys->loaded = epoch;
    pthread_mutex_unlock(&keys->lock);
    free_list(old, old_count);
    return 0;
}

enum verdict { GOOD, BAD, NOT_KNOWN, NO_MEMORY };

static enum verdict verify(struct auth_keys *keys, const struct token *token)
{
    static const enum verdict verdicts[] = {NO_MEMORY, GOOD, BAD}; /* for -1, 0, 1 */

    pthread_mutex_lock(&keys->lock);
    const struct key *key = find(keys, token->kid);
    enum verdict verdict = key ? verdicts[token_verify(token, key->keyed) + 1] : NOT_KNOWN;
    pthread_mutex_unlock(&keys->lock);
    return verdict;
}

/* Returns whether an unknown name may be looked up in the database now. */
static bool may_look(struct auth *auth)
{
    struct auth_keys *keys = auth->keys;
    int64_t second = bb_now_ms(auth->host) / 1000;

    pthread_mutex_lock(&keys->lock);
    if (keys->second != second) {
        keys->second = second;
        keys->lookups = 0;
    }
    bool yes = keys->loaded != keys->wanted || keys->lookups < LOOKUPS_PER_S;
    keys->lookups += yes;
    pthread_mutex_unlock(&keys->lock);
    return yes;
}

int auth_keys_verify(struct bb_request *rq, struct auth *auth, const struct token *token)
{
    enum verdict verdict = verify(auth->keys, token);

    if (verdict == NOT_KNOWN && may_look(auth)) {
        int status = auth_keys_load(rq, auth);

        if (status)
            return status;
        verdict = verify(auth->keys, token);
    }
    if (verdict == NO_MEMORY)
        return bb_no_memory(rq);
    return verdict == GOOD ? 0 : auth_unauthorized(rq, "Unauthorized");
}

/* Returns whether no change is known since the keys were loaded. */
static bool believed(struct auth *auth)
{
    struct auth_keys *keys = auth->keys;

    pthread_mutex_lock(&keys->lock);
    bool yes = keys->loaded == keys->wanted;
    pthread_mutex_unlock(&keys->lock);
    return yes;
}

/* Gets the active key's name from memory. */
static bool active(struct auth *auth, char kid[TOKEN_KID + 1])
{
    struct auth_keys *keys = auth->keys;
    bool found = false;

    pthread_mutex_lock(&keys->lock);
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->keys[i].active) {
            memcpy(kid, keys->keys[i].kid, TOKEN_KID + 1);
            found = true;
        }
    }
    pthread_mutex_unlock(&keys->lock);
    return found;
}

int auth_key_make(struct auth *auth, char kid[TOKEN_KID + 1], unsigned char **sealed,
                  size_t *length)
{
    unsigned char secret[TOKEN_MAC], name[TOKEN_KID / 2];
    char purpose[TOKEN_KID + 16];

    if (bb_random(auth->host, secret, sizeof(secret)) || bb_random(auth->host, name, sizeof(name)))
        return -1;
    for (size_t i = 0; i < sizeof(name); i++)
        snprintf(kid + 2 * i, 3, "%02x", name[i]);
    purpose_of(kid, purpose);

    int failed = bb_seal(auth->host, secret, sizeof(secret), purpose, sealed, length);

    OPENSSL_cleanse(secret, sizeof(secret));
    return failed;
}

/* Creates the first key of an installation; if several hosts try at once, one succeeds. */
static int make_first(struct bb_request *rq, struct auth *auth)
{
    static const struct bb_sql insert = {
        "WITH made AS (INSERT INTO auth_key (kid, sealed) VALUES ($1, $2) ON CONFLICT DO NOTHING "
        "RETURNING kid) SELECT pg_notify('" AUTH_CHANNEL "', 'keys') FROM made",
        BB_SQL_WRITE};
    char kid[TOKEN_KID + 1];
    unsigned char *sealed = NULL;
    size_t length = 0;

    if (auth_key_make(auth, kid, &sealed, &length))
        return bb_fail(rq, 503, "Cannot create a signing key");
    bb_defer(rq, free, sealed);
    if (!bb_query(rq, &insert, BB_ARGS(bb_t(kid), bb_bytes(sealed, length))))
        return bb_failed(rq);
    auth_keys_stale(auth->keys);
    return auth_keys_load(rq, auth);
}

/*
 * The keys just loaded are good enough, even if a change was received meanwhile: a token's row is
 * written only while its key is active, and the caller tries again if it is not.
 */
int auth_keys_active(struct bb_request *rq, struct auth *auth, char kid[TOKEN_KID + 1])
{
    if (believed(auth) && active(auth, kid))
        return 0;
    int status = auth_keys_load(rq, auth);

    if (status || active(auth, kid))
        return status;
    status = make_first(rq, auth);
    if (status)
        return status;
    return active(auth, kid) ? 0 : bb_fail(rq, 503, "The signing key cannot be opened");
}

size_t auth_keys_sign(struct auth *auth, const char *kid, const struct token_claims *claims,
                      char text[TOKEN_MADE_MAX])
{
    pthread_mutex_lock(&auth->keys->lock);
    const struct key *key = find(auth->keys, kid);
    size_t length = key ? token_make(key->keyed, kid, claims, text) : 0;
    pthread_mutex_unlock(&auth->keys->lock);
    return length;
}
