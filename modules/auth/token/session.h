/*
 * Sessions: the issued tokens, the keys that sign them, the accounts to which they belong, and
 * notifications that make all hosts refresh. Cache and keys are thread-safe. Functions that take a
 * request run on its fiber.
 */
#ifndef AUTH_SESSION_H
#define AUTH_SESSION_H

#include "modules/auth/account/auth.h"
#include "modules/auth/token/token.h"

/* ---- cache.c: principals by token ---- */

enum auth_verdict { AUTH_GOOD, AUTH_PENDING, AUTH_SUSPENDED, AUTH_GONE, AUTH_REVOKED };

/*
 * The known facts about a token. One block of `size` bytes without pointers into itself, so that it
 * can be copied: the e-mail with its NUL follows the organizations.
 */
struct auth_identity {
    size_t size;
    enum auth_verdict verdict;
    unsigned role;
    bool client;
    char session[37];
    int64_t account, organization;
    int64_t expires_s;
    int64_t approved_ms;
    size_t organization_count;
    int64_t organizations[];
};

struct auth_cache *auth_cache_new(size_t entries, uint64_t seed);
void auth_cache_free(struct auth_cache *cache);

/*
 * The epoch advances with every invalidation. Read it before querying the database:
 * auth_cache_put() keeps the result only if nothing was invalidated meanwhile.
 */
uint64_t auth_cache_epoch(struct auth_cache *cache);

/*
 * Returns the size of the identity, which is copied to `into` if it fits in `room` bytes; 0: not
 * found.
 */
size_t auth_cache_get(struct auth_cache *cache, const char *token, size_t length, void *into,
                      size_t room);
void auth_cache_put(struct auth_cache *cache, const char *token, size_t length,
                    const struct auth_identity *identity, uint64_t epoch);
void auth_cache_drop_account(struct auth_cache *cache, int64_t account);
void auth_cache_drop_session(struct auth_cache *cache, const char *session);
void auth_cache_drop_all(struct auth_cache *cache);

/*
 * A change calls bb_notify() on AUTH_CHANNEL in its transaction. After the commit and before the
 * response, the handler also calls auth_changed() with the same payload, because this host receives
 * its own notification only a moment later. Payloads are "account:ID", "session:JTI" and "keys";
 * any other payload means everything.
 */
void auth_changed(struct auth *auth, const char *payload);
void auth_heard(void *state, const char *payload);

/* ---- keys.c: signing keys ---- */

struct auth_keys *auth_keys_new(void);
void auth_keys_free(struct auth_keys *keys);
void auth_keys_stale(struct auth_keys *keys);

/*
 * Reads the keys from the database. Returns 0, or the status of the response sent; then the keys in
 * memory are unchanged. Parks the fiber.
 */
int auth_keys_load(struct bb_request *rq, struct auth *auth);

/*
 * Returns 0 if the token is signed by a key of this service (active or retired); else the status of
 * the response sent. May park the fiber.
 */
int auth_keys_verify(struct bb_request *rq, struct auth *auth, const struct token *token);

/* Makes sure that there is an active key, and writes its name to `kid`. May park the fiber. */
int auth_keys_active(struct bb_request *rq, struct auth *auth, char kid[TOKEN_KID + 1]);

/* Returns the length of the token, or 0 if the key is gone. */
size_t auth_keys_sign(struct auth *auth, const char *kid, const struct token_claims *claims,
                      char text[TOKEN_MADE_MAX]);

/* Creates a new, sealed key. The caller owns *sealed. Returns 0, or -1. */
int auth_key_make(struct auth *auth, char kid[TOKEN_KID + 1], unsigned char **sealed,
                  size_t *length);

/* ---- session.c ---- */

struct auth_issued {
    char token[TOKEN_MADE_MAX];
    int64_t expires_s; /* seconds since 1970 */
    int64_t life_s;
};

/* Creates a session; client 0 means the account itself. Parks the fiber. */
int auth_session_issue(struct bb_request *rq, struct auth *auth, const struct auth_account *account,
                       int64_t client, struct auth_issued *issued);

/* ---- authenticate.c: the service "authenticator" ---- */

extern const struct bb_authenticator auth_authenticator;

#endif
