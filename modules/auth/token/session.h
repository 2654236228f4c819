/*
 * Sessions: the tokens that are given out, the keys that sign them, who is behind one, and what
 * makes all hosts look again. Cache and keys guard themselves: any thread. What takes a request
 * runs on its fiber.
 */
#ifndef AUTH_SESSION_H
#define AUTH_SESSION_H

#include "modules/auth/account/auth.h"
#include "modules/auth/token/token.h"

/* ---- cache.c: principals by token ---- */

enum auth_verdict { AUTH_GOOD, AUTH_PENDING, AUTH_SUSPENDED, AUTH_GONE, AUTH_REVOKED };

/*
 * What is known of a token. One block of `size` bytes without pointers into itself, so that it can
 * be copied: behind the organisations follows the e-mail with its NUL.
 */
struct auth_identity {
    size_t size;
    enum auth_verdict verdict;
    unsigned role;
    bool client;
    char session[37];
    int64_t account, organisation;
    int64_t expires_s;
    int64_t approved_ms;
    size_t organisation_count;
    int64_t organisations[];
};

struct auth_cache *auth_cache_new(size_t entries, const uint64_t seed[2]);
void auth_cache_free(struct auth_cache *cache);

/*
 * Moves on with every invalidation. Read it before the database is asked: auth_cache_put() keeps
 * the answer only if nothing was invalidated meanwhile.
 */
uint64_t auth_cache_epoch(struct auth_cache *cache);

/* Size of the identity (copied to `into` if it fits in `room` bytes), or 0: not there. */
size_t auth_cache_get(struct auth_cache *cache, const char *token, size_t length, void *into,
                      size_t room);
void auth_cache_put(struct auth_cache *cache, const char *token, size_t length,
                    const struct auth_identity *identity, uint64_t epoch);
void auth_cache_drop_account(struct auth_cache *cache, int64_t account);
void auth_cache_drop_session(struct auth_cache *cache, const char *session);
void auth_cache_drop_all(struct auth_cache *cache);

/* ---- signal.c: what changed ---- */

/*
 * A change runs bb_notify() of AUTH_CHANNEL in its transaction, and after the commit, before
 * it answers, the handler calls auth_changed() with the same payload: the own notification is heard
 * only a moment later. Payloads: "account:ID", "session:JTI", "keys"; anything else means all.
 */
void auth_changed(struct auth *auth, const char *payload);
void auth_heard(void *state, const char *payload);

/* ---- keys.c: signing keys ---- */

struct auth_keys *auth_keys_new(void);
void auth_keys_free(struct auth_keys *keys);
void auth_keys_stale(struct auth_keys *keys);

/* Reads the keys of the database. Returns 0, or the status of the answer it made; then the keys in
 * memory are the old ones. Parks. */
int auth_keys_load(struct bb_request *rq, struct auth *auth);

/* 0: signed by one of our keys (active or retired); else answered, and the status. May park. */
int auth_keys_verify(struct bb_request *rq, struct auth *auth, const struct token *token);

/* Makes sure that there is an active key; its name into `kid`. May park. */
int auth_keys_active(struct bb_request *rq, struct auth *auth, char kid[TOKEN_KID + 1]);

/* Length of the token, 0: that key is gone. */
size_t auth_keys_sign(struct auth *auth, const char *kid, const struct token_claims *claims,
                      char text[TOKEN_MADE_MAX]);

/* A new key, sealed. *sealed is given. 0, or -1. */
int auth_key_make(struct auth *auth, char kid[TOKEN_KID + 1], unsigned char **sealed,
                  size_t *length);

/* ---- session.c ---- */

struct auth_issued {
    char token[TOKEN_MADE_MAX];
    int64_t expires_s; /* since 1970 */
    int64_t life_s;
};

/* A new session; client 0: of the account itself. Parks. */
int auth_session_issue(struct bb_request *rq, struct auth *auth, const struct auth_account *account,
                       int64_t client, struct auth_issued *issued);

/* ---- authenticate.c: the service "authenticator" ---- */

extern const struct bb_authenticator auth_authenticator;

#endif
