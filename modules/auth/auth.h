/*
 * auth: accounts, their identities and their rights.
 *
 * `struct auth` is the module's state, shared by all event loops. Its mutable parts (cache, keys,
 * throttle) each have a mutex, which is never held during a call that parks the fiber or may end
 * the request. Functions that take a request run on its fiber.
 *
 * Functions that take a request and return `int` return 0 on success, or the status of the response
 * sent, so that callers write `if (status) return status;`. Exceptions are stated at the function.
 */
#ifndef AUTH_AUTH_H
#define AUTH_AUTH_H

#include <busbar/busbar.h>

#include "modules/auth/token.h"
#include "modules/common/cache.h"

#define AUTH_CHANNEL "busbar_auth"
#define AUTH_HASH_MAX 160 /* an encoded password hash, with its NUL */
#define AUTH_PAGE_MAX 200

/* Cost of a password hash: argon2id's t, m (KiB) and p. */
struct auth_cost {
    uint32_t rounds, memory_kib, lanes;
};

/* The settings, in the units of the table in module.c. */
struct auth_settings {
    int64_t session_days, client_minutes; /* lifetime of a token */
    int64_t login_failures_per_account, login_failures_per_address, login_window;
    int64_t registrations_per_address;
    int64_t pending_days; /* lifetime of an account that is never approved */
    bool register_silent; /* never reveal which e-mails exist */
    const char *link;     /* address of a page, with {purpose} and {token}; "": none */
    bool confirm_email, invitations;
    int64_t links_per_address;
    int64_t argon2_rounds, argon2_memory, argon2_lanes;
    int64_t cache_entries;
};

struct auth {
    struct bb_host *host;
    const struct auth_settings *settings;
    struct cache *cache; /* principals by token */
    struct auth_keys *keys;
    struct auth_throttle *throttle;
    struct auth_cost cost;
    char dummy[AUTH_HASH_MAX];   /* checked for unknown accounts, so that they take the same time */
    int64_t session_s, client_s; /* lifetime of a token in seconds */
};

/* ---- account.c: rows of accounts, and the service "accounts" ---- */

/* The public columns of auth_account AS a, and their fields in the API (module.c). */
#define ACCOUNT_COLUMNS                                                                            \
    "a.id, a.email, a.first_name, a.last_name, a.role, a.status, a.organisation, " BB_SQL_MS(      \
        "a.created")
#define ACCOUNT_COLUMN_COUNT 8
extern const struct bb_field auth_account_fields[ACCOUNT_COLUMN_COUNT],
    auth_me_fields[ACCOUNT_COLUMN_COUNT + 2];
#define CLIENT_COLUMN_COUNT 6
extern const struct bb_field auth_client_fields[CLIENT_COLUMN_COUNT], auth_organization_fields[6];
extern const struct bb_field auth_session_fields[7]; /* refresh.c */

/* The organizations in which auth_account AS a may act, as a bigint[] for bb_cell_ints(). */
#define ACCOUNT_ORGANIZATIONS                                                                      \
    "ARRAY(SELECT a.organisation WHERE a.organisation IS NOT NULL UNION "                          \
    "SELECT o.id FROM auth_organisation o WHERE o.api_user = a.id AND a.role = 'ApiUser')"

/* The time at which auth_account AS a was approved, in milliseconds. */
#define ACCOUNT_APPROVED BB_SQL_MS("a.approved")

extern const struct bb_accounts auth_accounts;

unsigned auth_role_bit(const char *name); /* 0: unknown role */
json_t *auth_account_json(struct bb_request *rq, const struct bb_rows *rows, size_t row);

/* A page has at most auth_page_limit() rows. Select one more row to know whether a page follows. */
int64_t auth_page_limit(struct bb_request *rq);
int auth_reply_list(struct bb_request *rq, const struct bb_rows *rows,
                    const struct bb_field *fields, size_t count);

/* Sends a 401 with this text. */
int auth_unauthorized(struct bb_request *rq, const char *text);

/* Returns the SHA-256 of a text, in the request's memory. */
struct bb_value auth_sha256(struct bb_request *rq, const char *text);

/* Like bb_random_hex(), but on failure ends the request with auth_no_random(), a 503. */
const char *auth_random_hex(struct bb_request *rq, size_t bytes);
int auth_no_random(struct bb_request *rq);

/* Returns 0 if an account with this status may act. Otherwise sends a 403 or 401. */
int auth_account_may_act(struct bb_request *rq, const char *status);

/* A new account, with its organization if a name is given. */
struct auth_new_account {
    const char *email, *first_name, *last_name, *password; /* password: its encoded hash */
    const char *role, *status;
    const char *organization, *organization_type; /* name or NULL; type or NULL (Developer) */
    int64_t home;         /* the inviting OrganizationAdmin's organization; or 0 */
    bool join;            /* if an organization with this name exists, use it */
    bool silent;          /* the response does not reveal whether the e-mail existed */
    const char *link;     /* purpose of a link that is mailed to the account; or NULL */
    const char *language; /* see auth_link_ask() */
};

/*
 * Inserts the account and returns its ACCOUNT_COLUMNS. Ends the transaction with a 409 if the
 * e-mail or organization exists already.
 */
struct bb_rows *auth_account_insert(struct bb_request *rq, struct bb_tx *tx,
                                    const struct auth_new_account *account);

/* ---- password.c: hashes of passwords, and checking an e-mail and a password ---- */

/* The columns of an account that login and getAccess need. The strings belong to the request. */
struct auth_account {
    int64_t id;
    const char *role, *status, *password; /* hash of the password or client secret; or NULL */
    bool known_here, seen_here; /* logged in from this network within 90 days; within 1 day */
};

/* Returns 1 if found, 0 if not, or -1 on failure. Parks the fiber. */
int auth_account_find(struct bb_request *rq, const char *email, const char *network,
                      struct auth_account *account);

/* Sets auth->dummy to a hash that no password matches. Returns 0, or -1 if bb_random() fails. */
int auth_password_dummy(struct auth *auth);

/* Hashes a password on the thread pool `pool`, in the request's memory. Errors end the request. */
const char *auth_password_hash(struct bb_request *rq, const char *pool, const char *password);

/*
 * Checks an e-mail and a password, unless too many logins have failed. *good is false if the
 * account is unknown or the password is wrong. If the password is right and its stored hash has
 * another cost than the settings, a new hash is stored later. Parks the fiber. If this returns 0,
 * the caller must call auth_credentials_settle() with the status of the response, and return its
 * result.
 */
int auth_credentials(struct bb_request *rq, struct auth *auth, const char *email,
                     const char *password, struct auth_account *account, bool *good);

/* Counts a failed login (`status` 401 or 403); a success clears the count. Returns `status`. */
int auth_credentials_settle(struct bb_request *rq, struct auth *auth, const char *email,
                            const struct auth_account *account, int status);

/* ---- throttle.c: a limit on failed attempts ---- */

/* `seed`: random. NULL: out of memory. auth_throttle_free() destroys the mutex, not the memory. */
struct auth_throttle *auth_throttle_new(struct bb_host *host, uint64_t seed);
void auth_throttle_free(struct auth_throttle *throttle);

/* Returns a hash of the e-mail, for bb_offload_for(); never 0. */
uint64_t auth_throttle_target(const char *email);

/* Returns the network of the request: its address, or the /64 of an IPv6 address. */
const char *auth_throttle_network(struct bb_request *rq);

/*
 * Returns 0, or sends a 429 if too many logins to the account have failed. Sets *crowded_ms to the
 * time for which this network is blocked; 0: it is not blocked. The block does not concern accounts
 * that have logged in from the network in the last 90 days.
 */
int auth_throttle_check(struct bb_request *rq, struct auth *auth, const char *email,
                        int64_t *crowded_ms);
int auth_throttle_refuse(struct bb_request *rq, int64_t wait_ms, const char *what);
void auth_throttle_failed(struct bb_request *rq, struct auth *auth, const char *email);
void auth_throttle_passed(struct bb_request *rq, struct auth *auth, const char *email);

/*
 * Counts a registration ('r'), a request for a link ('l') or a wrong client secret ('c') from this
 * network. Returns 0, or sends a 429 if there were more than `limit`: "Too many `what`".
 */
int auth_throttle_count(struct bb_request *rq, char kind, int64_t limit, const char *what);

/*
 * Call auth_notify() in a transaction that changes an account (pass its id) or the signing keys
 * (pass 0). PostgreSQL then notifies auth_changed() on all hosts of "account:ID" or "keys". On this
 * host, auth_changed() also runs before the response, because the notification arrives later.
 * auth_changed() drops the cached data of the account, or all cached data if none is named.
 */
void auth_notify(struct bb_request *rq, struct bb_tx *tx, int64_t account);
char *auth_account_payload(struct bb_request *rq, int64_t account);
void auth_changed(void *auth, const char *payload);

/* ---- keys.c: signing keys ---- */

struct auth_keys *auth_keys_new(void);
void auth_keys_free(struct auth_keys *keys);
void auth_keys_stale(struct auth_keys *keys);

/* Returns 0 if a key of this service (active or retired) signed the token. May park the fiber. */
int auth_keys_verify(struct bb_request *rq, struct auth *auth, const struct token *token);

/* Makes sure that an active key exists, and writes its name to `kid`. May park the fiber. */
int auth_keys_active(struct bb_request *rq, struct auth *auth, char kid[TOKEN_KID + 1]);

/* Signs a token with the key `kid`. Returns its length, or 0 if the key does not exist any more. */
size_t auth_keys_sign(struct auth *auth, const char *kid, const struct token_claims *claims,
                      char text[TOKEN_MADE_MAX]);

/* ---- session.c: sessions, and the service "authenticator" ---- */

extern const struct bb_authenticator auth_authenticator;

#define AUTH_REFRESHED_S 3600 /* lifetime of an access token of a login with a refresh token */

struct auth_issued {
    char token[TOKEN_MADE_MAX];
    char jti[37];
    int64_t expires_s; /* seconds since 1970 */
    int64_t life_s;    /* lifetime, set by the caller; 0: as in the settings */
};

/* Creates a session and its token. `client`: id of the API client; 0: a login. Parks the fiber. */
int auth_session_issue(struct bb_request *rq, struct auth *auth, const struct auth_account *account,
                       int64_t client, struct auth_issued *issued);

/* ---- login.c, refresh.c ---- */

int auth_login_reply(struct bb_request *rq, const struct auth_issued *issued);

/* Gives the new session `jti` a refresh token, and sets the token's cookie in the response. */
int auth_refresh_begin(struct bb_request *rq, const struct auth_account *account, const char *jti);

/* ---- users.c ---- */

/*
 * Call in the transaction that changed the account's password. Ends the account's sessions and
 * refresh tokens, except `session` (if not NULL) with its refresh token, and except the sessions of
 * API clients. Deletes the account's links that set a password. Sends the response.
 */
int auth_password_changed(struct bb_request *rq, struct bb_tx *tx, int64_t account,
                          const char *session);

/* ---- links.c: links that are sent by mail ---- */

/* Whether auth_link AS l is valid for auth_account AS a. */
#define LINK_VALID "a.id = l.account AND a.email = l.email AND a.status IN ('Pending', 'Active')"

/* Returns whether a module provides the service "mail"; false before `start` is called. */
bool auth_sends_mail(struct bb_host *host);

/* Returns up to 64 valid bytes of the Accept-Language header, or NULL if there are none. */
const char *auth_languages(struct bb_request *rq);

/* If a module sends mails, adds the mail "account-approved" to the outbox. */
void auth_mail_approved(struct bb_request *rq, struct bb_tx *tx, const char *email,
                        const char *name, const char *language);

/*
 * Stores a request for a link, which is mailed after the commit. `purpose`: "reset", "confirm" or
 * "invite". `language`: from auth_languages(), or a language such as "en", or NULL.
 */
void auth_link_ask(struct bb_request *rq, struct bb_tx *tx, const char *purpose, const char *email,
                   const char *language);

/* The job auth.links: sends the mails for stored requests that a crashed host did not handle. */
void auth_links_job(struct bb_request *rq);

/* ---- handlers, commands, and metrics in the order of module.c's table ---- */

enum auth_metric { AUTH_METRIC_LOGINS };
enum auth_login_outcome {
    AUTH_LOGIN_DONE,
    AUTH_LOGIN_REFUSED,
    AUTH_LOGIN_NOT_ADMITTED,
    AUTH_LOGIN_THROTTLED,
    AUTH_LOGIN_FAILED
};

bb_handler auth_register, auth_login, auth_refresh, auth_logout, auth_session_list,
    auth_session_delete, auth_me, auth_me_change, auth_change_password, auth_reset_request,
    auth_reset, auth_confirm_request, auth_confirm, auth_invite, auth_members, auth_get_access,
    auth_client_create, auth_client_list, auth_client_change, auth_client_rotate,
    auth_client_delete, auth_organization_create, auth_organization_link, auth_organization_list,
    auth_user_list, auth_user_get, auth_user_change, auth_rotate, auth_command_user_add,
    auth_command_rotate;

#endif
