/*
 * Passwords: their hashes, and a limit on failed attempts. The throttle is thread-safe; functions
 * that take a request run on its fiber.
 */
#ifndef AUTH_PASSWORD_H
#define AUTH_PASSWORD_H

#include "modules/auth/account/auth.h"

/* ---- password.c ---- */

/* Creates a hash that no password matches; verifying against it takes the full time. */
int auth_password_dummy(struct auth *auth);

/* Hashes on the pool with that name; *encoded lives as long as the request. */
int auth_password_hash(struct bb_request *rq, struct auth *auth, const char *pool,
                       const char *password, const char **encoded);

/*
 * Sets *good to whether the password matches `encoded`. All checks with the same target share one
 * caller's part of the pool; target 0: no sharing.
 */
int auth_password_check(struct bb_request *rq, uint64_t target, const char *password,
                        const char *encoded, bool *good);

/* ---- throttle.c ---- */

struct auth_throttle *auth_throttle_new(const struct auth_settings *settings);
void auth_throttle_free(struct auth_throttle *throttle);

/* Returns a number for an e-mail that somebody tries to log in with; never 0. */
uint64_t auth_throttle_target(const char *email);

/* Returns the network of the request: its address, or the /64 of an IPv6 address. */
const char *auth_throttle_network(struct bb_request *rq);

/*
 * Sends a 429 while there were too many failures for the account. *crowded_ms is the time during
 * which the address is blocked for accounts that have never logged in from it; 0: not blocked.
 */
int auth_throttle_check(struct bb_request *rq, struct auth *auth, const char *email,
                        int64_t *crowded_ms);
int auth_throttle_refuse(struct bb_request *rq, int64_t wait_ms);
void auth_throttle_failed(struct bb_request *rq, struct auth *auth, const char *email);
void auth_throttle_passed(struct bb_request *rq, struct auth *auth, const char *email);

/* Counts a registration from this network, or sends a 429 if there were too many. */
int auth_throttle_register(struct bb_request *rq, struct auth *auth);

/* ---- credentials.c ---- */

/*
 * Returns the body's `username` in the stored form of e-mails; a username that is not an e-mail is
 * returned unchanged and matches no account.
 */
const char *auth_username(struct bb_request *rq);

/*
 * Checks e-mail and password, with the throttle; *good is false if the account is unknown or the
 * password wrong. Parks the fiber. A caller that got 0 must call auth_credentials_settle() with the
 * status of its response, and return the result.
 */
int auth_credentials(struct bb_request *rq, struct auth *auth, const char *email,
                     const char *password, struct auth_account *account, bool *good);

/*
 * Counts a failure (401, or 403 for an account that may not act), or clears the earlier failures
 * after a success.
 */
int auth_credentials_settle(struct bb_request *rq, struct auth *auth, const char *email,
                            const struct auth_account *account, int status);

#endif
