/* Accounts for the tests. E-mails are unique in a database by the name that a test gives. */
#ifndef TESTS_PEOPLE_H
#define TESTS_PEOPLE_H

#include "client.h"

#define REVOKED "Token revoked. Please log in again."

struct person {
    int64_t id, organisation;
    char *email, *password, *token;
};

/* The Admin of the template, logged in. */
struct person *admin_of(const struct host *host);

/* Registers `<name>@example.com`: Pending, no token. `type`: NULL is Developer. */
struct person *person_register(const struct host *host, const char *name, const char *type);

/* PUT /api/admin/users/:id with one key. */
struct answer *person_change(const struct host *host, const struct person *admin,
                             const struct person *person, const char *key, const char *value);

/* A new session; the token is also person->token. */
const char *person_login(const struct host *host, struct person *person);

/* Registered, approved and logged in. */
struct person *person_make(const struct host *host, const struct person *admin, const char *name,
                           const char *type);

/* The same, with another role than registration gives. */
struct person *person_with_role(const struct host *host, const struct person *admin,
                                const char *name, const char *role);

/* GET /api/auth/me with the person's token. */
struct answer *person_me(const struct host *host, const struct person *person);

/*
 * That the host answers a GET so within a second, which is what a host has to see a change made on
 * another, and then with this message, if it is an error.
 */
void answers_soon(const struct host *host, const char *path, const char *token, long status,
                  const char *message);

/* That for GET /api/auth/me. */
void me_soon(const struct host *host, const char *token, long status, const char *message);

#endif
