/*
 * auth: accounts, who they are and what they may do.
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

#define AUTH_CHANNEL "busbar_auth"
#define AUTH_HASH_MAX 160 /* an encoded password hash with NUL */

/* Cost of a password hash: argon2id's t, m (KiB) and p. */
struct auth_cost {
    uint32_t rounds, memory_kib, lanes;
};

/* The settings, in the units of the table in module.c. */
struct auth_settings {
    int64_t session_days, client_minutes; /* life of a token */
    int64_t login_failures_per_account, login_failures_per_address, login_window;
    int64_t registrations_per_address;
    int64_t pending_days; /* life of an account that nobody approves */
    bool register_silent; /* never says which e-mails exist */
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
    char dummy[AUTH_HASH_MAX];   /* verified for unknown accounts, so that they take as long */
    int64_t session_s, client_s; /* life of a token, seconds */
};

/* ---- roles.c ---- */

unsigned auth_role_bit(const char *name); /* 0: no such role */

/* ---- lookalike.c ---- */

/*
 * Names the letters in an e-mail's local part that may imitate Latin ones, next to Latin letters.
 * NULL: there are none.
 */
const char *auth_lookalike(const char *email);

/* ---- account.c: rows of accounts ---- */

/* The public columns, of auth_account AS a; auth_account_json() reads them. */
#define ACCOUNT_COLUMNS                                                                            \
    "a.id, a.email, a.first_name, a.last_name, a.role, a.status, a.organisation, " BB_SQL_MS(      \
        "a.created")
#define ACCOUNT_COLUMN_COUNT 8

/* All organisations that auth_account AS a may act in, a bigint[]; bb_cell_ints() reads it. */
#define ACCOUNT_ORGANISATIONS                                                                      \
    "ARRAY(SELECT a.organisation WHERE a.organisation IS NOT NULL UNION "                          \
    "SELECT o.id FROM auth_organisation o WHERE o.api_user = a.id AND a.role = 'ApiUser')"

/* When auth_account AS a was approved, milliseconds. */
#define ACCOUNT_APPROVED BB_SQL_MS("a.approved")

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

/* The service "accounts". */
extern const struct bb_accounts auth_accounts;

#endif
