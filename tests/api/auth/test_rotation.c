/* Replacing the signing key on two hosts with one database. */
#include "exchange.h"
#include "forge.h"
#include "pair.h"

#define ROTATIONS 8
#define LOGGERS 4

TEST(tokens_of_a_retired_key_are_revoked_and_of_an_unknown_key_unauthorized)
{
    struct person *admin = admin_of(one);
    struct person *person = person_make(one, admin, "before", NULL);
    struct parts parts = token_parts(person->token);
    const char *header = url64_text(parts.header), *payload = url64_text(parts.payload);
    const char *kid = with_member(header, "kid", "\"0123456789abcdef\"");

    me_soon(two, person->token, 200, "");
    ask_on(one, admin, 200, NULL, "POST /api/admin/rotate-secret");
    ask_on(one, person, 401, REVOKED, "GET /api/auth/me");
    ask_on(one, admin, 401, REVOKED, "GET /api/auth/me");
    me_soon(two, person->token, 401, REVOKED);
    host_says(one, 0, "reload"); /* the new generation reads the keys again */
    ask_on(one, person, 401, REVOKED, "GET /api/auth/me");
    EACH_TEXT (forgery, forged(header, payload, "SHA256", "another key"),
               forged(kid, payload, "SHA256", "another key"),
               assembled(kid, payload, parts.signature)) {
        ask_on(one, bearer(forgery), 401, "Unauthorized", "GET /api/auth/me");
        ask_on(two, bearer(forgery), 401, "Unauthorized", "GET /api/auth/me");
    }
    ask_on(two, bearer(person_login(two, person)), 200, NULL, "GET /api/auth/me");
    ask_on(one, person, 200, NULL, "GET /api/auth/me");
    ck_assert_int_eq(host_command(one, NULL, (const char *const[]){"rotate-secret", NULL}), 0);
    me_soon(one, person->token, 401, REVOKED);
    me_soon(two, person->token, 401, REVOKED);
}

struct logger {
    pthread_t thread;
    const struct host *host;
    struct person person;
    int good;
    char *bad; /* the first response that was not good */
};

static atomic_bool rotated;

static void *log_in(void *arg)
{
    struct logger *logger = arg;
    const char *body = text("{\"username\":\"%s\",\"password\":\"%s\"}", logger->person.email,
                            logger->person.password);

    while (!atomic_load(&rotated)) {
        struct answer *answer =
            http_send(logger->host,
                      &(struct call){.method = "POST", .path = "/api/auth/login", .body = body});

        logger->good += answer->status == 200;
        if (answer->status != 200 && !logger->bad)
            logger->bad = text("%ld: %s", answer->status, answer->body);
    }
    return NULL;
}

TEST(logins_succeed_during_key_rotations)
{
    struct person *admin = admin_of(one);
    struct person *person = person_make(one, admin, "logger", NULL);
    static struct logger loggers[LOGGERS];

    for (int i = 0; i < LOGGERS; i++) {
        loggers[i] = (struct logger){.host = i % 2 ? one : two, .person = *person};
        ck_assert_int_eq(pthread_create(&loggers[i].thread, NULL, log_in, &loggers[i]), 0);
    }
    for (int i = 0; i < ROTATIONS; i++) {
        ask_on(one, admin, 200, NULL, "POST /api/admin/rotate-secret");
        person_login(two, admin);
        me_soon(one, admin->token, 200, "");
    }
    atomic_store(&rotated, true);
    for (int i = 0; i < LOGGERS; i++)
        pthread_join(loggers[i].thread, NULL);
    for (int i = 0; i < LOGGERS; i++) {
        ck_assert_msg(!loggers[i].bad, "a login failed: %s", loggers[i].bad);
        ck_assert_int_gt(loggers[i].good, 0);
    }
}

PAIR_SUITE(rotation, 60)
