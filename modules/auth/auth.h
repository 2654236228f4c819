/*
 * Private header of the module auth.
 *
 * `struct auth` is the state of one generation, shared by all loops. What changes in it (cache,
 * keys, throttle) guards itself with a mutex that is never held over a call that parks or may end
 * the request.
 *
 * Functions that take a request and return `int` follow one rule: 0 is good, anything else is the
 * status of an answer that has been given, so that callers write `if (status) return status;`.
 * Where a function differs, its comment says so.
 */
#ifndef AUTH_AUTH_H
#define AUTH_AUTH_H

#include <busbar/busbar.h>

#include "token.h"

#define AUTH_CHANNEL "busbar_auth"
#define AUTH_HASH_MAX 160 /* an encoded password hash with NUL */

/* Cost of a password hash: argon2id's t, m (KiB) and p. */
struct auth_cost {
    uint32_t rounds, memory_kib, lanes;
};

struct auth {
    struct bb_host *host;
    struct auth_cache *cache;
    struct auth_keys *keys;
    struct auth_throttle *throttle;
    struct auth_cost cost;
    char dummy[AUTH_HASH_MAX];   /* verified for unknown accounts, so that they take as long */
    int64_t session_s, client_s; /* life of a token, seconds */
    int64_t pending_days;        /* life of an account that nobody approves */
    bool register_silent;        /* never says which e-mails exist */
};

/* ---- roles.c ------------------------------------------------------------------------------ */

unsigned auth_role_bit(const char *name); /* 0: no such role */
const char *auth_role_name(unsigned bit); /* of exactly one bit */

/* ---- cache.c: principals by token ---------------------------------------------------------- */

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

/* ---- signal.c: what changed ------------------------------------------------------------------ */

/*
 * A change runs pg_notify(AUTH_CHANNEL, payload) in its transaction, and after the commit, before
 * it answers, the handler calls auth_changed() with the same payload: the own notification is heard
 * only a moment later. Payloads: "account:ID", "session:JTI", "keys"; anything else means all.
 */
void auth_changed(struct auth *auth, const char *payload);
void auth_heard(void *state, const char *payload);

/* Sends the payload with the transaction. 0, or -1: `return bb_failed(rq)`. */
int auth_notify(struct bb_request *rq, struct bb_tx *tx, const char *payload);

/* ---- keys.c, rotate.c: signing keys -----------------------------------------------------------
 */

struct auth_keys *auth_keys_new(void);
void auth_keys_free(struct auth_keys *keys);
void auth_keys_stale(struct auth_keys *keys);

/* Reads the keys of the database. 0, or -1: `return bb_failed(rq)`. Parks. */
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

/* ---- password.c --------------------------------------------------------------------------------
 */

/* Writes a hash of nothing in particular: whatever is verified against it fails, in full time. */
int auth_password_dummy(struct auth *auth);

/* Hashes on the pool of that name; *encoded lives as long as the request. */
int auth_password_hash(struct bb_request *rq, struct auth *auth, const char *pool,
                       const char *password, const char **encoded);

/* *good says whether the password is that of `encoded`. All checks of a target share the pool's
 * part of one caller; 0: of none. */
int auth_password_check(struct bb_request *rq, uint64_t target, const char *password,
                        const char *encoded, bool *good);

/* ---- throttle.c, throttle_table.c ---------------------------------------------------------------
 */

/* Of logins: the account from this address, the account, the address. Of registrations: that. */
enum throttle_counter { THROTTLE_BOTH, THROTTLE_ACCOUNT, THROTTLE_ADDRESS, THROTTLE_COUNTERS };

struct auth_throttle *auth_throttle_new(struct bb_host *host);
void auth_throttle_free(struct auth_throttle *throttle);

/* A number for an e-mail that is tried; never 0. */
uint64_t auth_throttle_target(const char *email);

/* The network that the request comes from: the address, of IPv6 its /64. */
const char *auth_throttle_network(struct bb_request *rq);

/*
 * Answers 429 while there were too many failures for the account. *crowded_ms: for how long there
 * are too many from the address, for accounts that have never logged in from it; 0: not.
 */
int auth_throttle_check(struct bb_request *rq, struct auth *auth, const char *email,
                        int64_t *crowded_ms);
int auth_throttle_refuse(struct bb_request *rq, int64_t wait_ms);
void auth_throttle_failed(struct bb_request *rq, struct auth *auth, const char *email);
void auth_throttle_passed(struct bb_request *rq, struct auth *auth, const char *email);

/* Counts a registration from this network, or answers 429: there were too many. */
int auth_throttle_register(struct bb_request *rq, struct auth *auth);

/* Counters of this host alone; ids are SHA-256 prefixes. */
struct throttle_table;
struct throttle_table *throttle_table_new(void);
void throttle_table_free(struct throttle_table *table);
/* Milliseconds until a counter that stands at its limit or above falls; 0: below it. */
int64_t throttle_table_wait(struct throttle_table *table, uint64_t id, int64_t limit,
                            int64_t now_ms);
void throttle_table_count(struct throttle_table *table, uint64_t id, int64_t window_ms,
                          int64_t now_ms);
void throttle_table_clear(struct throttle_table *table, uint64_t id);

/* ---- account.c: rows of accounts
 * ------------------------------------------------------------------ */

/* The public columns, of auth_account AS a; auth_account_json() reads them. */
#define ACCOUNT_COLUMNS                                                                            \
    "a.id, a.email, a.first_name, a.last_name, a.role, a.status, a.organisation, "                 \
    "(extract(epoch from a.created) * 1000)::bigint"
#define ACCOUNT_COLUMN_COUNT 8

/* All organisations that auth_account AS a may act in, a bigint[]; auth_numbers() reads it. */
#define ACCOUNT_ORGANISATIONS                                                                      \
    "ARRAY(SELECT a.organisation WHERE a.organisation IS NOT NULL UNION "                          \
    "SELECT o.id FROM auth_organisation o WHERE o.api_user = a.id AND a.role = 'ApiUser')"

/* When auth_account AS a was approved, milliseconds. */
#define ACCOUNT_APPROVED "(extract(epoch from a.approved) * 1000)::bigint"

/* The numbers of "{1,2,3}" into `into` (if given); returns how many. */
size_t auth_numbers(const char *list, int64_t *into);

json_t *auth_account_json(struct bb_request *rq, const struct bb_rows *rows, size_t row);

/* What login and getAccess need of an account; texts borrowed from the request. */
struct auth_account {
    int64_t id;
    const char *role, *status, *password; /* password NULL: not asked for (clients) */
    bool known_here, seen_here;           /* has logged in from this network; within a day */
};

/* 1 found, 0 none, -1: `return bb_failed(rq)`. Parks. */
int auth_account_find(struct bb_request *rq, const char *email, const char *network,
                      struct auth_account *account);

/* Answers 401 with the text. */
int auth_unauthorized(struct bb_request *rq, const char *text);

/* Answers 403 or 401 for an account that may not act. */
int auth_account_may_act(struct bb_request *rq, const char *status);

/* A new account with its organisation, if it names one. */
struct auth_new_account {
    const char *email, *first_name, *last_name, *password; /* password: encoded hash */
    const char *role, *status;
    const char *organisation, *organisation_type; /* name, or NULL */
    bool join; /* an organisation of that name may be there already */
};

/* Inserts; *rows has ACCOUNT_COLUMNS. 409 for what is there already. */
int auth_account_insert(struct bb_request *rq, struct bb_tx *tx,
                        const struct auth_new_account *account, struct bb_rows **rows);

/* bb_reply(), or 503 where the JSON could not be made. `json` is taken. */
int auth_reply(struct bb_request *rq, int status, json_t *json);
json_t *auth_time(struct bb_request *rq, const struct bb_rows *rows, size_t row, size_t column);

/* ---- session.c
 * ---------------------------------------------------------------------------------------- */

struct auth_issued {
    char token[TOKEN_MADE_MAX];
    int64_t expires_s; /* since 1970 */
    int64_t life_s;
};

/* A new session; client 0: of the account itself. Parks. */
int auth_session_issue(struct bb_request *rq, struct auth *auth, const struct auth_account *account,
                       int64_t client, struct auth_issued *issued);

/* The answer of login and getAccess. */
int auth_reply_token(struct bb_request *rq, const struct auth_issued *issued);

/* ---- login.c: metrics, in the order of module.c's table */

enum auth_metric { AUTH_METRIC_LOGINS };
enum auth_login_outcome {
    AUTH_LOGIN_DONE,
    AUTH_LOGIN_REFUSED,
    AUTH_LOGIN_NOT_ADMITTED,
    AUTH_LOGIN_THROTTLED,
    AUTH_LOGIN_FAILED
};

/* Counts a login by the status of its answer, which is returned. */
int auth_count_login(struct bb_request *rq, int status);

/* ---- credentials.c
 * ------------------------------------------------------------------------------------ */

/* The body's `username` as e-mails are stored; as it came where it is none: nobody's. */
const char *auth_username(struct bb_request *rq);

/*
 * Whether e-mail and password fit, throttled; *good false: unknown or wrong. Parks. Whoever calls
 * it and got 0 calls auth_credentials_settle() with the status of the answer, which is returned.
 */
int auth_credentials(struct bb_request *rq, struct auth *auth, const char *email,
                     const char *password, struct auth_account *account, bool *good);

/* Counts a failure (401, and 403 of an account that may not act) or forgives those before. */
int auth_credentials_settle(struct bb_request *rq, struct auth *auth, const char *email,
                            const struct auth_account *account, int status);

/* ---- lists
 * ---------------------------------------------------------------------------------------------- */

#define AUTH_PAGE_MAX 200

/*
 * Answers a page made of the rows, which are asked with auth_page_limit() + 1; `id` is in column 0.
 */
int64_t auth_page_limit(struct bb_request *rq);
int auth_page_reply(struct bb_request *rq, const struct bb_rows *rows,
                    json_t *(*item)(struct bb_request *, const struct bb_rows *, size_t));

/* ---- handlers, commands, jobs, services, verbs
 * ------------------------------------------------------------ */

int auth_register(struct bb_request *rq);
int auth_login(struct bb_request *rq);
int auth_logout(struct bb_request *rq);
int auth_me(struct bb_request *rq);
int auth_change_password(struct bb_request *rq);
int auth_get_access(struct bb_request *rq);
int auth_client_create(struct bb_request *rq);
int auth_client_list(struct bb_request *rq);
int auth_client_delete(struct bb_request *rq);
int auth_organisation_create(struct bb_request *rq);
int auth_organisation_link(struct bb_request *rq);
int auth_organisation_list(struct bb_request *rq);
int auth_user_list(struct bb_request *rq);
int auth_user_get(struct bb_request *rq);
int auth_user_change(struct bb_request *rq);
int auth_rotate(struct bb_request *rq);
int auth_command_user_add(struct bb_request *rq);
int auth_command_rotate(struct bb_request *rq);
void auth_cleanup(struct bb_request *rq);

extern const struct bb_authenticator auth_authenticator;
extern const struct bb_accounts auth_accounts;

int auth_open(struct bb_host *host, void **state);
void auth_close(struct bb_host *host, void *state);

#endif
