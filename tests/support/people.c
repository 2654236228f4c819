#include "people.h"
#include "exchange.h"

static struct person *person_new(const char *email, const char *password)
{
    struct person *person = kept(calloc(1, sizeof *person));

    person->email = text("%s", email);
    person->password = text("%s", password);
    return person;
}

const char *person_login(const struct host *host, struct person *person)
{
    struct answer *answer =
        http(host, "POST", "/api/auth/login", NULL,
             json_pack("{ss ss}", "username", person->email, "password", person->password));

    ck_status(answer, 200);
    person->token = text("%s", answer_text(answer, "accessToken"));
    return person->token;
}

struct person *admin_of(const struct host *host)
{
    struct person *admin = person_new(ADMIN_EMAIL, ADMIN_PASSWORD);

    person_login(host, admin);
    return admin;
}

struct person *person_register(const struct host *host, const char *name, const char *type)
{
    struct person *person = person_new(text("%s@example.com", name), text("password of %s", name));
    struct answer *answer = http(
        host, "POST", "/api/user/register", NULL,
        json_pack("{ss ss ss ss ss ss}", "firstName", "Given", "lastName", "Family", "email",
                  person->email, "password", person->password, "orgName",
                  text("Organization of %s", name), "organizationType", type ? type : "Developer"));

    ck_status(answer, 201);
    person->id = answer_int(answer, "id");
    person->organization = answer_int(answer, "organizationId");
    ck_assert_str_eq(answer_text(answer, "status"), "Pending");
    return person;
}

struct answer *person_change(const struct host *host, const struct person *admin,
                             const struct person *person, const char *key, const char *value)
{
    return http(host, "PUT", text("/api/admin/users/%jd", person->id), admin->token,
                json_pack("{ss}", key, value));
}

struct person *person_make(const struct host *host, const struct person *admin, const char *name,
                           const char *type)
{
    struct person *person = person_register(host, name, type);

    ck_status(person_change(host, admin, person, "status", "Active"), 200);
    person_login(host, person);
    return person;
}

struct person *person_with_role(const struct host *host, const struct person *admin,
                                const char *name, const char *role)
{
    struct person *person = person_register(host, name, NULL);

    ck_status(person_change(host, admin, person, "status", "Active"), 200);
    ck_status(person_change(host, admin, person, "role", role), 200);
    person_login(host, person);
    return person;
}

struct answer *person_me(const struct host *host, const struct person *person)
{
    return http(host, "GET", "/api/auth/me", person->token, NULL);
}

void answers_soon(const struct host *host, const char *path, const char *token, long status,
                  const char *message)
{
    status_soon(host, path, token, status);
    if (status >= 400)
        ask(bearer(token), status, message, "GET %s", path);
}

void me_soon(const struct host *host, const char *token, long status, const char *message)
{
    answers_soon(host, "/api/auth/me", token, status, message);
}
