/* Accounts for the tests. The name that a test gives makes the e-mail address, which is unique in a
 * database. */
#ifndef TESTS_PEOPLE_H
#define TESTS_PEOPLE_H

#include "client.h"

#define REVOKED "Token revoked. Please log in again."

struct person {
    int64_t id, organization;
    char *email, *password, *token;
};

/* Returns the Admin of the template, logged in. */
struct person *admin_of(const struct host *host);

/* Registers `<name>@example.com`: Pending, without a token. `type`: NULL means Developer. */
struct person *person_register(const struct host *host, const char *name, const char *type);

/* Sends PUT /api/admin/users/:id with one key. */
struct answer *person_change(const struct host *host, const struct person *admin,
                             const struct person *person, const char *key, const char *value);

/* Makes a new session; the token is also stored in person->token. */
const char *person_login(const struct host *host, struct person *person);

/* Returns a person that is registered, approved and logged in. */
struct person *person_make(const struct host *host, const struct person *admin, const char *name,
                           const char *type);

/* Like person_make(), with a role that registration does not give. */
struct person *person_with_role(const struct host *host, const struct person *admin,
                                const char *name, const char *role);

/* Sends GET /api/auth/me with the person's token. */
struct answer *person_me(const struct host *host, const struct person *person);

/*
 * Fails the test unless the host answers a GET with this status (and this message, if it is an
 * error) soon: a host may take a second to see a change made on another host.
 */
void answers_soon(const struct host *host, const char *path, const char *token, long status,
                  const char *message);

/* Like answers_soon() for GET /api/auth/me. */
void me_soon(const struct host *host, const char *token, long status, const char *message);

#endif
