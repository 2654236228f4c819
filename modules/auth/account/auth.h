/*
 * auth: accounts, their identities and their rights.
 *
 * `struct auth` is the state of one generation, shared by all loops. Its mutable parts (cache,
 * keys, throttle) each have a mutex, which is never held during a call that parks the fiber or may
 * end the request.
 *
 * Functions that take a request and return `int` return 0 on success, else the status of the
 * response that was sent, so that callers write `if (status) return status;`. Exceptions are
 * documented at the function.
 */
#ifndef AUTH_AUTH_H
#define AUTH_AUTH_H

#include <busbar/busbar.h>

#define AUTH_CHANNEL "busbar_auth"
#define AUTH_HASH_MAX 160 /* an encoded password hash, with its NUL */

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
    int64_t argon2_rounds, argon2_memory, argon2_lanes;
    int64_t cache_entries;
};

struct auth {
    struct bb_host *host;
    const struct auth_settings *settings;
    struct auth_cache *cache;
    struct auth_keys *keys;
    struct auth_throttle *throttle;
    struct auth_cost cost;
    char dummy[AUTH_HASH_MAX]; /* verified for unknown accounts, so that they take the same time */
    int64_t session_s, client_s; /* lifetime of a token in seconds */
};

/* ---- roles ---- */

unsigned auth_role_bit(const char *name); /* 0: unknown role */

/* ---- account.c: rows of accounts ---- */

/* The public columns of auth_account AS a; auth_account_json() reads them. */
#define ACCOUNT_COLUMNS                                                                            \
    "a.id, a.email, a.first_name, a.last_name, a.role, a.status, a.organisation, " BB_SQL_MS(      \
        "a.created")
#define ACCOUNT_COLUMN_COUNT 8

/* All organizations in which auth_account AS a may act, a bigint[] for bb_cell_ints(). */
#define ACCOUNT_ORGANIZATIONS                                                                      \
    "ARRAY(SELECT a.organisation WHERE a.organisation IS NOT NULL UNION "                          \
    "SELECT o.id FROM auth_organisation o WHERE o.api_user = a.id AND a.role = 'ApiUser')"

/* The time at which auth_account AS a was approved, in milliseconds. */
#define ACCOUNT_APPROVED BB_SQL_MS("a.approved")

json_t *auth_account_json(struct bb_request *rq, const struct bb_rows *rows, size_t row);

/*
 * The columns of an account that login and getAccess need; the strings are borrowed from the
 * request.
 */
struct auth_account {
    int64_t id;
    const char *role, *status, *password; /* password NULL: not queried (clients) */
    bool known_here, seen_here; /* it has logged in from this network; and within the last day */
};

/* Returns 1 if found, 0 if not, or -1: `return bb_failed(rq)`. Parks the fiber. */
int auth_account_find(struct bb_request *rq, const char *email, const char *network,
                      struct auth_account *account);

/* Sends a 401 with the text. */
int auth_unauthorized(struct bb_request *rq, const char *text);

/* Sends a 403 or 401 if an account with this status may not act. */
int auth_account_may_act(struct bb_request *rq, const char *status);

/* A new account, with its organization if it names one. */
struct auth_new_account {
    const char *email, *first_name, *last_name, *password; /* password: an encoded hash */
    const char *role, *status;
    const char *organization, *organization_type; /* the organization's name, or NULL */
    bool join; /* an organization with that name may exist already */
};

/*
 * Inserts the account; *rows has ACCOUNT_COLUMNS. Sends a 409 if the e-mail or organization exists
 * already.
 */
int auth_account_insert(struct bb_request *rq, struct bb_tx *tx,
                        const struct auth_new_account *account, struct bb_rows **rows);

/* The service "accounts". */
extern const struct bb_accounts auth_accounts;

#endif
