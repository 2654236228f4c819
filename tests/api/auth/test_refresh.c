/*
 * Refresh tokens: the cookie of a login with `remember` gets new access tokens. Each use replaces
 * it on two hosts with one database; an old one ends the login, and so does everything that ends a
 * session. Also rotations of the signing key.
 */
#include "forge.h"
#include "pair.h"
#include "secrets.h"
#include "talk.h"

#define PATH "/api/auth/refresh"
#define TABS 8
#define ROTATIONS 8
#define LOGGERS 4

/* Returns the cookie that the response sets, as a request sends it. */
static const char *cookie_of(const struct answer *answer)
{
    const char *set = answer_header(answer, "Set-Cookie");

    ck_assert_msg(set != NULL, "no cookie: %s", answer->headers);
    ck_assert_ptr_nonnull(
        strstr(set, "; Path=/api/auth/refresh; HttpOnly; Secure; SameSite=Strict"));
    const char *cookie = text("Cookie: a=b; %.*s; c=d", (int)strcspn(set, ";"), set);

    secrets_add(strchr(cookie, '.'));
    return cookie;
}

static struct answer *login(struct person *person)
{
    struct answer *answer = ask(
        NULL, 200, NULL, "POST /api/auth/login {'username':'%s','password':'%s','remember':true}",
        person->email, person->password);

    person->token = text("%s", answer_text(answer, "accessToken"));
    return answer;
}

/* Returns a new person; *cookie is of its login. */
static struct person *remembered(const char *name, const char **cookie)
{
    struct person *person = person_make(host, admin, name, NULL);

    *cookie = cookie_of(login(person));
    return person;
}

static struct answer *refresh_with(const struct host *on, const char *cookie, const char *header)
{
    const char *const headers[] = {cookie, header, NULL};

    return http_send(on, &(struct call){.method = "POST", .path = PATH, .headers = headers});
}

static struct answer *refresh(const char *cookie)
{
    return refresh_with(host, cookie, NULL);
}

static const char *token_of(const struct answer *answer)
{
    return answer_text(answer, "accessToken");
}

static void is_over(const char *cookie)
{
    struct answer *answer = ck_error(refresh(cookie), 401, "Unauthorized");

    ck_assert_ptr_nonnull(strstr(answer_header(answer, "Set-Cookie"), "=; Max-Age=0; Path="));
}

static void grace_ends(const struct person *person)
{
    sql_run(db, text("UPDATE auth_refresh SET rotated = rotated - interval '61 seconds' "
                     "WHERE account = %lld",
                     (long long)person->id));
}

TEST(a_refresh_returns_an_access_token_of_an_hour_and_another_cookie)
{
    const char *first, *second;
    struct person *person = remembered("first", &first);
    struct answer *answer = ck_status(refresh(first), 200);

    ck_assert_str_eq(answer_header(answer, "Cache-Control"), "no-store");
    ck_assert_int_eq(answer_int(answer, "expires_in"), 3600);
    ck_assert_str_ne(token_of(answer), person->token);
    me_soon(host, token_of(answer), 200, "");
    me_soon(host, person->token, 200, "");
    second = cookie_of(answer);
    ck_assert_str_ne(first, second);
    ck_assert_str_ne(second, cookie_of(ck_status(refresh_with(other, second, NULL), 200)));
}

TEST(a_missing_or_malformed_cookie_is_204_and_an_unknown_one_401)
{
    const char *cookie;

    remembered("shape", &cookie);
    EACH_TEXT (bad, "Cookie: a=b", "Cookie: busbar_refresh=", "Cookie: busbar_refresh=.",
               "Cookie: xbusbar_refresh=01a21bd9-7e97-7d98-8ed0-967f5cb61b5f."
               "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
               "Cookie: busbar_refresh=01A21bd9-7e97-7d98-8ed0-967f5cb61b5f."
               "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
               "Cookie: busbar_refresh=01a21bd9-7e97-7d98-8ed0-967f5cb61b5f."
               "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
        ck_status(refresh(bad), 204);
    ck_status(refresh(NULL), 204);
    ck_status(refresh(text("%.*s; c=d", (int)(strstr(cookie, "; c=d") - cookie - 1), cookie)), 204);
    is_over("Cookie: busbar_refresh=01a21bd9-7e97-7d98-8ed0-967f5cb61b5f."
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    ck_status(refresh(cookie), 200);
}

TEST(tabs_that_refresh_at_the_same_time_get_the_same_cookie)
{
    const char *cookie, *next = NULL;
    struct person *person = remembered("tabs", &cookie);
    const char *const headers[] = {cookie, NULL};
    struct call calls[TABS];
    struct answer *answers[TABS];

    for (int i = 0; i < TABS; i++)
        calls[i] = (struct call){
            .method = "POST", .path = PATH, .headers = headers, .host = i % 2 ? host : other};
    parallel(host, calls, answers, TABS);
    for (int i = 0; i < TABS; i++) {
        const char *got = cookie_of(ck_status(answers[i], 200));

        ck_assert_str_eq(got, next ? next : got);
        next = got;
        me_soon(host, token_of(answers[i]), 200, "");
    }
    grace_ends(person);
    ck_status(refresh(next), 200);
}

TEST(an_old_cookie_that_is_used_again_ends_the_login_and_its_tokens)
{
    const char *cookie, *next;
    struct person *person = remembered("reuse", &cookie);
    struct answer *answer = ck_status(refresh(cookie), 200);

    next = cookie_of(answer);
    ck_status(refresh(cookie), 200); /* within 60 s, as after a lost response */
    grace_ends(person);
    is_over(cookie);
    is_over(next);
    ask(bearer(token_of(answer)), 401, REVOKED, "GET /api/auth/me");
    ask(person, 401, REVOKED, "GET /api/auth/me");
    me_soon(other, token_of(answer), 401, REVOKED);
}

TEST(the_cookie_before_the_previous_one_ends_the_login_at_once)
{
    const char *first, *second;

    remembered("older", &first);
    second = cookie_of(ck_status(refresh(first), 200));
    const char *third = cookie_of(ck_status(refresh(second), 200));

    is_over(first);
    is_over(third);
}

TEST(a_logout_ends_the_login_with_the_tokens_of_all_tabs)
{
    const char *cookie;
    struct person *person = remembered("leaves", &cookie);
    struct answer *tab = ck_status(refresh(cookie), 200);
    struct answer *out = ask(person, 200, NULL, "POST /api/auth/logout");

    ck_assert_ptr_nonnull(strstr(answer_header(out, "Set-Cookie"), "busbar_refresh=; Max-Age=0"));
    ask(bearer(token_of(tab)), 401, REVOKED, "GET /api/auth/me");
    is_over(cookie_of(tab));
}

TEST(a_changed_password_ends_all_other_logins)
{
    const char *cookie, *earlier;
    struct person *person = remembered("changes", &earlier);
    struct answer *mine = login(person);

    cookie = cookie_of(mine);
    ask(person, 200, NULL, "PUT /api/user/password {'current':'%s','new':'another one 123'}",
        person->password);
    is_over(earlier);
    ck_status(refresh(cookie), 200);
}

TEST(a_suspended_account_cannot_refresh)
{
    const char *cookie;
    struct person *person = remembered("stopped", &cookie);

    ck_status(person_change(host, admin, person, "status", "Suspended"), 200);
    cookie = cookie_of(ck_error(refresh(cookie), 403, "Your account has been suspended"));
    grace_ends(person);
    ck_status(person_change(host, admin, person, "status", "Active"), 200);
    cookie = cookie_of(ck_status(refresh(cookie), 200)); /* the 403 has not ended the login */
    ck_status(person_change(host, admin, person, "status", "Deleted"), 200);
    ck_error(refresh(cookie), 401, "Unauthorized");
}

TEST(a_refresh_for_another_origin_is_refused)
{
    const char *cookie;

    remembered("origin", &cookie);
    ck_error(refresh_with(host, cookie, "Sec-Fetch-Site: cross-site"), 403, "Forbidden");
    ck_error(refresh_with(host, cookie, "Sec-Fetch-Site: same-site"), 403, "Forbidden");
    ck_status(refresh_with(host, cookie, "Sec-Fetch-Site: same-origin"), 200);
}

TEST(a_person_can_change_its_own_name)
{
    struct person *person = person_make(host, admin, "renamed", NULL);

    ask(person, 200, "{'firstName':'Ada','lastName':'Family','organizations':[{}]}",
        "PATCH /api/auth/me {'firstName':'Ada'}");
    ask(person, 200, "{'firstName':'Ada'}", "GET /api/auth/me");
}

TEST(sessions_are_listed_and_can_be_ended)
{
    struct person *person = person_make(host, admin, "lister", NULL);
    struct person *stranger = person_make(host, admin, "stranger", NULL);
    const char *plain = person->token;
    struct answer *made = ask_with((&(struct exchange){
        text("POST /api/auth/login {'username':'%s','password':'%s','remember':true}",
             person->email, person->password),
        NULL, 200, .header = "User-Agent: Firefox/140.0 \xc3\xa9"}));

    person->token = text("%s", token_of(made));
    struct answer *list = ask(person, 200,
                              "[{'userAgent':'Firefox/140.0 ','network':'*','current':true},"
                              "{'userAgent':null,'network':null,'current':false}]",
                              "GET /api/auth/sessions");
    const char *own = json_string_value(json_object_get(json_array_get(list->json, 0), "id"));
    const char *second = json_string_value(json_object_get(json_array_get(list->json, 1), "id"));

    ask(stranger, 404, "Session not found", "DELETE /api/auth/sessions/%s", own);
    ask(person, 200, "{'success':true}", "DELETE /api/auth/sessions/%s", second);
    ask(person, 404, "Session not found", "DELETE /api/auth/sessions/%s", second);
    ask(bearer(plain), 401, REVOKED, "GET /api/auth/me");
    ask(person, 200, "{'success':true}", "DELETE /api/auth/sessions/%s", own);
    ask(person, 401, REVOKED, "GET /api/auth/me");
    is_over(cookie_of(made));
}

/* ---- rotations of the signing key, which also end the Admin's session ---- */

TEST(a_rotated_signing_key_ends_all_logins)
{
    const char *cookie;

    remembered("rotated", &cookie);
    ask(admin, 200, NULL, "POST /api/admin/rotate-secret");
    is_over(cookie);
}

TEST(tokens_of_a_retired_key_are_revoked_and_of_an_unknown_key_unauthorized)
{
    admin = admin_of(host);
    struct person *person = person_make(host, admin, "before", NULL);
    struct parts parts = token_parts(person->token);
    const char *header = url64_text(parts.header), *payload = url64_text(parts.payload);
    const char *kid = with_member(header, "kid", "\"0123456789abcdef\"");

    me_soon(other, person->token, 200, "");
    ask(admin, 200, NULL, "POST /api/admin/rotate-secret");
    ask(person, 401, REVOKED, "GET /api/auth/me");
    ask(admin, 401, REVOKED, "GET /api/auth/me");
    me_soon(other, person->token, 401, REVOKED);
    host_says(host, 0, "reload"); /* the new generation reads the keys again */
    ask(person, 401, REVOKED, "GET /api/auth/me");
    EACH_TEXT (forgery, forged(header, payload, "SHA256", "another key"),
               forged(kid, payload, "SHA256", "another key"),
               assembled(kid, payload, parts.signature)) {
        ask(bearer(forgery), 401, "Unauthorized", "GET /api/auth/me");
        ask_on(other, bearer(forgery), 401, "Unauthorized", "GET /api/auth/me");
    }
    ask_on(other, bearer(person_login(other, person)), 200, NULL, "GET /api/auth/me");
    ask(person, 200, NULL, "GET /api/auth/me");
    host_says(host, 0, "rotate-secret");
    me_soon(host, person->token, 401, REVOKED);
    me_soon(other, person->token, 401, REVOKED);
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
    admin = admin_of(host);
    struct person *person = person_make(host, admin, "logger", NULL);
    static struct logger loggers[LOGGERS];

    for (int i = 0; i < LOGGERS; i++) {
        loggers[i] = (struct logger){.host = i % 2 ? host : other, .person = *person};
        ck_assert_int_eq(pthread_create(&loggers[i].thread, NULL, log_in, &loggers[i]), 0);
    }
    for (int i = 0; i < ROTATIONS; i++) {
        ask(admin, 200, NULL, "POST /api/admin/rotate-secret");
        person_login(other, admin);
        me_soon(host, admin->token, 200, "");
    }
    atomic_store(&rotated, true);
    for (int i = 0; i < LOGGERS; i++)
        pthread_join(loggers[i].thread, NULL);
    for (int i = 0; i < LOGGERS; i++) {
        ck_assert_msg(!loggers[i].bad, "a login failed: %s", loggers[i].bad);
        ck_assert_int_gt(loggers[i].good, 0);
    }
}

PAIR_SUITE(refresh, 60)
