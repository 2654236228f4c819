/*
 * Passwords: their hashes, and how often one may be tried. The throttle guards itself; what takes a
 * request runs on its fiber.
 */
#ifndef AUTH_PASSWORD_H
#define AUTH_PASSWORD_H

#include "modules/auth/account/auth.h"

/* ---- password.c ---- */

/* Writes a hash of nothing in particular: whatever is verified against it fails, in full time. */
int auth_password_dummy(struct auth *auth);

/* Hashes on the pool of that name; *encoded lives as long as the request. */
int auth_password_hash(struct bb_request *rq, struct auth *auth, const char *pool,
                       const char *password, const char **encoded);

/* *good says whether the password is that of `encoded`. All checks of a target share the pool's
 * part of one caller; 0: of none. */
int auth_password_check(struct bb_request *rq, uint64_t target, const char *password,
                        const char *encoded, bool *good);

/* ---- throttle.c, throttle_table.c ---- */

/* Of logins: the account from this address, the account, the address. Of registrations: that. */
enum throttle_counter { THROTTLE_BOTH, THROTTLE_ACCOUNT, THROTTLE_ADDRESS, THROTTLE_COUNTERS };

struct auth_throttle *auth_throttle_new(const struct auth_settings *settings);
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
/*
 * Returns the milliseconds until a counter at its limit or above ends; 0 below the limit. When
 * Redis answered, only counters marked by throttle_table_alone() hold: the others are in Redis.
 */
int64_t throttle_table_wait(struct throttle_table *table, uint64_t id, int64_t limit,
                            int64_t now_ms, bool redis_answered);
/* Marks a counter that Redis did not count up: from now on it holds whatever Redis answers. */
void throttle_table_alone(struct throttle_table *table, uint64_t id, int64_t now_ms);
void throttle_table_count(struct throttle_table *table, uint64_t id, int64_t window_ms,
                          int64_t now_ms);
void throttle_table_clear(struct throttle_table *table, uint64_t id);

/* ---- credentials.c ---- */

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

#endif
