/*
 * The signing keys are read from the database and kept in memory. Retired keys are kept, too, to
 * report their tokens as revoked, not as forged. The secret of a key never changes, so a signature
 * is verified without a query. The query for the session shows whether the key is retired. The
 * database stores each secret encrypted, and bound to the name of its key.
 *
 * An unknown name is looked up in the database, because another host may have just created the key.
 * This happens at most LOOKUPS_PER_S times per second, so that forged names cause few queries.
 *
 * One mutex guards everything. It is never held during a query.
 */
#include <busbar/lock.h>
#include <openssl/crypto.h>
#include <string.h>

#include "modules/auth/auth.h"
#include "modules/common/hmac.h"

#define LOOKUPS_PER_S 20 /* loads for unknown names, if no change was received */
#define SEALED_MAX 512
#define KEY_PURPOSE "auth.key:%s"

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
    uint64_t wanted, loaded; /* number of key changes received, and its value at the last load */
    int64_t second;          /* a second of the monotonic clock */
    unsigned lookups;        /* loads for unknown names in that second */
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

static void keys_free_list(struct key *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        EVP_MAC_CTX_free(list[i].keyed);
    free(list);
}

void auth_keys_free(struct auth_keys *keys)
{
    if (!keys)
        return;
    keys_free_list(keys->keys, keys->count);
    EVP_MAC_free(keys->hmac);
    pthread_mutex_destroy(&keys->lock);
    free(keys);
}

void auth_keys_stale(struct auth_keys *keys)
{
    BB_LOCKED(&keys->lock);
    keys->wanted++;
}

/* Call with the lock held. */
static const struct key *keys_find(const struct auth_keys *keys, const char *kid)
{
    for (size_t i = 0; i < keys->count; i++)
        if (strcmp(keys->keys[i].kid, kid) == 0)
            return keys->keys + i;
    return NULL;
}

/*
 * Reads the keys from the database. If memory runs out, keeps the old list, because with an
 * incomplete list valid tokens would look forged.
 */
static int keys_load(struct bb_request *rq, struct auth *auth)
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

    struct key *list = calloc(bb_count(rq, rows) + 1, sizeof(*list)), *old;
    size_t count = 0, old_count;

    if (!list)
        return bb_no_memory(rq);
    for (size_t i = 0; i < bb_count(rq, rows); i++) {
        const char *kid = bb_cell(rq, rows, i, 0);
        unsigned char sealed[SEALED_MAX], *secret = NULL;
        int64_t size = bb_cell_bytes(bb_cell(rq, rows, i, 1), sealed, sizeof(sealed));
        char purpose[TOKEN_KID + 16];
        size_t length = 0;
        int failed = -1; /* -1: secrets.keys cannot decrypt the secret; -2: out of memory */

        snprintf(purpose, sizeof(purpose), KEY_PURPOSE, kid);
        if (size >= 0 && strlen(kid) == TOKEN_KID)
            failed = bb_unseal(auth->host, sealed, (size_t)size, purpose, &secret, &length);
        if (!failed && length != TOKEN_MAC)
            failed = -1;
        if (!failed) {
            memcpy(list[count].kid, kid, TOKEN_KID + 1);
            list[count].active = bb_cell_int(rq, rows, i, 2) != 0;
            list[count].keyed = hmac_context(keys->hmac, secret, TOKEN_MAC);
            failed = list[count].keyed ? 0 : -2;
        }
        if (secret)
            OPENSSL_cleanse(secret, length);
        free(secret);
        if (failed == -2) {
            keys_free_list(list, count);
            return bb_no_memory(rq);
        }
        if (failed)
            bb_log(rq, BB_ERROR, "signing key %s cannot be opened with secrets.keys", kid);
        else
            count++;
    }

    pthread_mutex_lock(&keys->lock);
    old = keys->keys;
    old_count = keys->count;
    keys->keys = list;
    keys->count = count;
    keys->loaded = epoch;
    pthread_mutex_unlock(&keys->lock);
    keys_free_list(old, old_count);
    return 0;
}

int auth_keys_verify(struct bb_request *rq, struct auth *auth, const struct token *token)
{
    struct auth_keys *keys = auth->keys;

    for (bool looked = false;; looked = true) {
        int64_t second = bb_now_ms(auth->host) / 1000;
        int differs = 1;
        bool look = false; /* load the keys, because the kid is unknown */

        pthread_mutex_lock(&keys->lock);
        const struct key *key = keys_find(keys, token->kid);
        if (keys->second != second) {
            keys->second = second;
            keys->lookups = 0;
        }
        if (key) {
            differs = token_verify(token, key->keyed);
        } else if (!looked) {
            look = keys->loaded != keys->wanted || keys->lookups < LOOKUPS_PER_S;
            keys->lookups += look;
        }
        pthread_mutex_unlock(&keys->lock);
        if (differs < 0)
            return bb_no_memory(rq);
        if (!look)
            return differs ? auth_unauthorized(rq, "Unauthorized") : 0;
        int status = keys_load(rq, auth);

        if (status)
            return status;
    }
}

struct fresh {
    char kid[TOKEN_KID + 1];
    unsigned char *sealed;
    size_t length;
};

/* Creates a key, encrypted in fresh->sealed, which is freed with the request. */
static int keys_make(struct bb_request *rq, struct fresh *fresh)
{
    unsigned char secret[TOKEN_MAC];
    const char *name = bb_random_hex(rq, TOKEN_KID / 2);
    char purpose[TOKEN_KID + 16];

    if (!name || bb_random(rq->host, secret, sizeof(secret)))
        return bb_fail(rq, 503, "Cannot create a signing key");
    memcpy(fresh->kid, name, TOKEN_KID + 1);
    snprintf(purpose, sizeof(purpose), KEY_PURPOSE, name);

    int failed = bb_seal(rq->host, secret, sizeof(secret), purpose, &fresh->sealed, &fresh->length);

    OPENSSL_cleanse(secret, sizeof(secret));
    if (failed)
        return bb_fail(rq, 503, "Cannot create a signing key");
    bb_defer(rq, free, fresh->sealed);
    return 0;
}

/*
 * Copies the name of the active key in memory to `kid`. Returns false if there is none or, with
 * `sure`, if the list in memory is out of date.
 */
static bool keys_has_active(struct auth *auth, bool sure, char kid[TOKEN_KID + 1])
{
    struct auth_keys *keys = auth->keys;

    BB_LOCKED(&keys->lock);
    for (size_t i = 0; i < keys->count && (!sure || keys->loaded == keys->wanted); i++) {
        if (keys->keys[i].active) {
            memcpy(kid, keys->keys[i].kid, TOKEN_KID + 1);
            return true;
        }
    }
    return false;
}

/*
 * Uses the keys that were just loaded, even if another change was received meanwhile. This is safe,
 * because a session is stored only if its key is active. auth_session_issue() tries several times.
 */
int auth_keys_active(struct bb_request *rq, struct auth *auth, char kid[TOKEN_KID + 1])
{
    /* Inserts the first key of an installation. If several hosts try at once, one succeeds. */
    static const struct bb_sql insert = {
        "WITH made AS (INSERT INTO auth_key (kid, sealed) VALUES ($1, $2) ON CONFLICT DO NOTHING "
        "RETURNING kid) SELECT pg_notify('" AUTH_CHANNEL "', 'keys') FROM made",
        BB_SQL_WRITE};
    struct fresh fresh = {.length = 0};

    if (keys_has_active(auth, true, kid))
        return 0;
    int status = keys_load(rq, auth);

    if (status || keys_has_active(auth, false, kid))
        return status;
    status = keys_make(rq, &fresh);
    if (status)
        return status;
    if (!bb_query(rq, &insert, BB_ARGS(bb_t(fresh.kid), bb_bytes(fresh.sealed, fresh.length))))
        return bb_failed(rq);
    auth_keys_stale(auth->keys);
    status = keys_load(rq, auth);
    if (status || keys_has_active(auth, false, kid))
        return status;
    return bb_fail(rq, 503, "Cannot decrypt the signing key with secrets.keys");
}

size_t auth_keys_sign(struct auth *auth, const char *kid, const struct token_claims *claims,
                      char text[TOKEN_MADE_MAX])
{
    BB_LOCKED(&auth->keys->lock);
    const struct key *key = keys_find(auth->keys, kid);

    return key ? token_make(key->keyed, kid, claims, text) : 0;
}

/* ---- POST /api/admin/rotate-secret and `busbar rotate-secret` ---- */

/* The old key stays as a retired key, so that its tokens are reported as revoked, not as forged. */
static int keys_replace(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    /* Serializes rotations; readers are not blocked. */
    static const struct bb_sql lock = {"LOCK TABLE auth_key IN SHARE ROW EXCLUSIVE MODE", 0};
    static const struct bb_sql retire = {
        "UPDATE auth_key SET retired = now() WHERE retired IS NULL", 0};
    static const struct bb_sql insert = {"INSERT INTO auth_key (kid, sealed) VALUES ($1, $2)", 0};
    const struct fresh *fresh = arg;

    bb_tx_query_or_end(rq, tx, &lock, BB_NO_ARGS);
    bb_tx_query_or_end(rq, tx, &retire, BB_NO_ARGS);
    bb_tx_query_or_end(rq, tx, &insert,
                       BB_ARGS(bb_t(fresh->kid), bb_bytes(fresh->sealed, fresh->length)));
    auth_notify(rq, tx, 0);
    return bb_reply(rq, 200,
                    json_pack("{ss ss}", "message", "Signing key replaced", "kid", fresh->kid));
}

int auth_rotate(struct bb_request *rq)
{
    struct fresh *fresh = bb_alloc(rq, sizeof(*fresh));
    int status = keys_make(rq, fresh);

    return status ? status : bb_transaction(rq, keys_replace, fresh);
}

int auth_command_rotate(struct bb_request *rq)
{
    int status = auth_rotate(rq);

    if (status >= 400) {
        bb_print(rq, "the signing key was not replaced (status %d)\n", status);
        return 1;
    }
    bb_print(rq, "signing key replaced: all earlier tokens are revoked\n");
    return 0;
}
