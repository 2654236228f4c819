/*
 * Tokens for programs: getAccess in both forms with the errors of RFC 6749, API clients, and the
 * first request with a token that no host has in memory yet.
 */
#include "exchange.h"
#include "forge.h"
#include "talk.h"

#define FORM "application/x-www-form-urlencoded"
#define GRANT "grant_type=client_credentials"
#define WEEK_S (7 * 86400)
#define SOON_MS 1000

static struct host *host, *other;
static struct person *admin, *user, *stranger; /* all are ApiUsers except the Admin */

struct client {
    int64_t id;
    const char *name, *secret;
    const char *form, *basic; /* both ways to send them */
};

/* Encodes like base64, with padding. */
static const char *basic_of(const char *name, const char *secret)
{
    const char *pair = text("%s:%s", name, secret);
    char *coded = url64(pair, strlen(pair));
    size_t length = strlen(coded);

    for (char *c = coded; *c; c++)
        *c = *c == '-' ? '+' : *c == '_' ? '/' : *c;
    return text("Basic %s%s", coded, length % 4 == 2 ? "==" : length % 4 == 3 ? "=" : "");
}

static const char *form_of(const char *name, const char *secret)
{
    return text(GRANT "&client_id=%s&client_secret=%s", encoded(name), encoded(secret));
}

static struct client client_make(const struct person *owner)
{
    struct answer *answer = ask(owner, 201, NULL, "POST /api/auth/clients");
    const char *name = answer_text(answer, "client_id");
    const char *secret = answer_text(answer, "client_secret");

    return (struct client){answer_int(answer, "id"), name, secret, form_of(name, secret),
                           basic_of(name, secret)};
}

static void set_up(void)
{
    const char *database = database_make(the_postgres, "access");

    host = host_start(&(struct host_spec){.name = "access-1", .database = database});
    other = host_start(&(struct host_spec){.name = "access-2", .database = database});
    admin = admin_of(host);
    user = person_make(host, admin, "access", "ApiUser");
    stranger = person_make(host, admin, "stranger", "ApiUser");
}

struct grant {
    const char *type, *body, *authorization;
    const char *error; /* NULL: granted */
    int number;        /* status of the error, or seconds of the token; 0: the usual one */
};

/* Sends the request; checks the members of a granted token, and that the token works, or the form
 * of OAuth in addition to the usual error body. Returns the response. */
static struct answer *grant(const struct grant *row)
{
    const char *error = row->error, *body = row->body;
    int usual = !error                                  ? 200
                : !strcmp(error, "invalid_client")      ? 401
                : !strcmp(error, "unauthorized_client") ? 403
                                                        : 400;
    struct answer *answer = ask_with((&(struct exchange){
        .request = body ? text("POST /api/auth/getAccess %s", body) : "POST /api/auth/getAccess",
        .status = error && row->number ? row->number : usual,
        .type = row->type,
        .header = row->authorization ? text("Authorization: %s", row->authorization) : NULL}));

    if (error) {
        ck_assert_str_eq(answer_text(answer, "error"), error);
        ck_assert_str_eq(answer_text(answer, "error_description"), answer_text(answer, "message"));
        ck_assert_ptr_null(answer_header(answer, "X-OAuth-Error"));
        return answer;
    }
    const char *token = answer_text(answer, "access_token");

    ck_assert_str_eq(answer_text(answer, "accessToken"), token);
    expect_json(answer->json,
                text("{'token_type':'Bearer','expires_in':%d}", row->number ? row->number : 3600));
    ck_assert_str_eq(answer_header(answer, "Cache-Control"), "no-store");
    ck_assert_str_eq(answer_header(answer, "Pragma"), "no-cache");
    ask_on(other, bearer(token), 200, NULL, "GET /api/auth/me");
    return answer;
}

#define GRANTS(rows)                                                                               \
    for (size_t i_ = 0; i_ < COUNT(rows); i_++)                                                    \
    grant(&(rows)[i_])

static const char *token_of(const struct client *client)
{
    return answer_text(grant(&(struct grant){FORM, client->form}), "access_token");
}

static const char *password_of(const struct person *person)
{
    return text("{'username':'%s','password':'%s'}", person->email, person->password);
}

TEST(get_access_takes_client_credentials_as_form_json_or_basic)
{
    struct client client = client_make(user);
    const char *name = client.name, *secret = client.secret, *basic = client.basic;
    const struct grant rows[] = {
        {FORM, client.form},
        {FORM "; charset=UTF-8", client.form},
        {FORM ";charset=ISO-8859-1", client.form},
        {FORM "; x=y", client.form},
        {FORM, GRANT, basic},
        {FORM, "grant_type=client%5Fcredentials&scope=a+b", basic},
        {FORM, text(GRANT "&client_id=%s", name), basic},
        {FORM, text("clientId=%s&clientSecret=%s", name, secret)},
        {FORM, text("%s&username=&password=", client.form)},
        {NULL, text("{'grant_type':'client_credentials','client_id':'%s','client_secret':'%s'}",
                    name, secret)},
        {NULL, text("{'grantType':'client_credentials','clientId':'%s','clientSecret':'%s'}", name,
                    secret)},
        {NULL, text("{'client_id':'%s','client_secret':'%s'}", name, secret)},
        {NULL, "{'grant_type':'client_credentials'}", basic},
        {NULL, "{}", basic},
        {NULL, NULL, basic},
    };

    GRANTS(rows);
}

/* Clients send an existing token with every request. */
TEST(get_access_ignores_an_authorization_header_with_a_token)
{
    const char *others[] = {text("Bearer %s", user->token), "Bearer", "Bearer gone", "Digest x=1"};
    const char *form = client_make(user).form;

    for (size_t i = 0; i < COUNT(others); i++) {
        grant(&(struct grant){FORM, form, others[i]});
        grant(&(struct grant){NULL, password_of(user), others[i], NULL, WEEK_S});
    }
}

TEST(get_access_takes_the_password_of_an_api_user)
{
    const char *form =
        text("username=%s&password=%s", encoded(user->email), encoded(user->password));
    struct answer *answer = grant(&(struct grant){NULL, password_of(user), .number = WEEK_S});

    ask(bearer(answer_text(answer, "access_token")), 201, NULL, "POST /api/auth/clients");
    grant(&(struct grant){FORM, form, .number = WEEK_S});
}

TEST(get_access_is_for_api_users_only)
{
    static const char *const roles[] = {"User", "Buyer", "DeviceOwner", "OrganizationAdmin"};

    for (size_t i = 0; i < COUNT(roles); i++) {
        const char *name = text("no-access-%s", roles[i]);
        struct person *person = person_with_role(host, admin, name, roles[i]);

        grant(&(struct grant){NULL, password_of(person), NULL, "unauthorized_client"});
    }
    grant(&(struct grant){NULL, password_of(admin), NULL, "unauthorized_client"});
}

/* As at login, an unknown pair gets a 401 whatever its form. */
TEST(get_access_reports_wrong_credentials_as_invalid_client)
{
    static const char wrong[] = "invalid_client";
    struct client own = client_make(user), foreign = client_make(stranger);
    const char *shorter = text("%.*s", (int)strlen(own.secret) - 1, own.secret);
    const struct grant rows[] = {
        {FORM, form_of(foreign.name, own.secret), NULL, wrong},
        {FORM, form_of(own.name, foreign.secret), NULL, wrong},
        {FORM, form_of(own.name, shorter), NULL, wrong},
        {FORM, form_of(own.name, text("%s0", own.secret)), NULL, wrong},
        {FORM, form_of("nobody", own.secret), NULL, wrong},
        {FORM, form_of("' OR '1'='1", own.secret), NULL, wrong},
        {FORM, GRANT, "Basic !!!!", wrong},
        {FORM, GRANT, "Basic YWJj", wrong},
        {FORM, GRANT, basic_of("\xFF\xFE", "x"), wrong}, /* not UTF-8 */
        {FORM, GRANT, basic_of("aa", "\xFF\xFE"), wrong},
        {FORM, GRANT, text("%.*s===", (int)strcspn(own.basic, "="), own.basic), wrong},
        {FORM, GRANT, text("%.*s=x", (int)strcspn(own.basic, "="), own.basic), wrong},
        {FORM, "username=&password=", NULL, wrong},
        {FORM, "username=a&password=", NULL, wrong},
        {NULL, "{'client_id':'a','client_secret':'b'}", NULL, wrong},
        {NULL, "{'username':'','password':''}", NULL, wrong},
        {NULL, "{'username':' ','password':'x'}", NULL, wrong},
        {NULL, "{'email':'','password':''}", NULL, wrong},
        {NULL, "{'username':'a','password':'x'}", NULL, wrong},
        {NULL, text("{'username':'%s','password':''}", user->email), NULL, wrong},
        {NULL, text("{'username':'%s','password':'a guess'}", user->email), NULL, wrong},
        {NULL, text("{'username':'%s'}", user->email), NULL, wrong},
        {FORM, GRANT, basic_of(own.name, foreign.secret), wrong},
    };

    GRANTS(rows);
    struct answer *last = grant(&rows[COUNT(rows) - 1]);

    ck_assert(!strncmp(answer_header(last, "WWW-Authenticate"), "Basic", 5));
}

TEST(get_access_reports_malformed_requests_as_invalid_request)
{
    static const char bad[] = "invalid_request";
    struct client client = client_make(user);
    const struct grant rows[] = {
        {NULL, NULL, NULL, bad},
        {NULL, "{}", NULL, bad},
        {NULL, "{", NULL, bad},
        {NULL, "[]", NULL, bad},
        {NULL, "{'password':'x'}", NULL, bad},
        {NULL, "{'username':{'$gt':''},'password':'x'}", NULL, bad},
        {NULL, "{'grant_type':[]}", NULL, bad},
        {NULL, "{'grant_type':'client_credentials'}", NULL, bad},
        {NULL, "{'grant_type':'client_credentials','client_id':'a'}", NULL, bad},
        {NULL, "{'grant_type':'client_credentials','client_id':[],'client_secret':'x'}", NULL, bad},
        {NULL, "{'client_id':'a'}", NULL, bad},
        {NULL, "{'grant_type':'client_credentials','grant_type':'client_credentials'}", NULL, bad},
        {FORM, GRANT "&" GRANT, NULL, bad},
        {FORM, "grant_type=%ZZ", NULL, bad},
        {FORM, client.form, client.basic, bad},
        {FORM, GRANT "&client_id=another", client.basic, bad},
        {FORM, "client_id=%FF&client_secret=%FE", NULL, bad}, /* not UTF-8 */
        {FORM "; charset=ISO-8859-1", "username=J\xFCrgen%40x.example&password=x", NULL, bad},
        /* the host finds these errors before it calls the handler */
        {FORM, text_repeated("a", 69999), NULL, bad, 413},
        {"text/plain", GRANT, NULL, bad, 415},
        {"application/xml", "<a/>", NULL, bad, 415},
    };

    GRANTS(rows);
}

TEST(get_access_reports_other_grants_as_unsupported_grant_type)
{
    EACH_TEXT (body, "password&client_id=a&client_secret=b",
               "authorization_code&client_id=a&client_secret=b",
               "refresh_token&client_id=a&client_secret=b",
               "CLIENT_CREDENTIALS&client_id=a&client_secret=b", "password&username=a&password=b")
        grant(&(struct grant){FORM, text("grant_type=%s", body), NULL, "unsupported_grant_type"});
}

/* ---- clients ---- */

TEST(a_client_secret_is_shown_once_and_never_stored)
{
    struct answer *made =
        ask(user, 201, "{'name':'metering'}", "POST /api/auth/clients {'name':'metering'}");
    const char *secret = answer_text(made, "client_secret");
    struct answer *list = ask(user, 200, answer_text(made, "client_id"), "GET /api/auth/clients");
    PGconn *db = database_connect(the_postgres, "access");

    ck_assert_str_eq(answer_header(made, "Cache-Control"), "no-store");
    ck_assert_uint_ge(strlen(secret), 32);
    ck_assert_ptr_null(strstr(list->body, secret));
    ck_assert_ptr_null(strstr(list->body, "client_secret"));
    ck_assert_str_eq(sql_text(db,
                              "SELECT count(*) FROM auth_client WHERE strpos(encode(secret, "
                              "'escape'), $1) > 0 OR strpos(encode(secret, 'hex'), $1) > 0",
                              1, (const char *const[]){secret}),
                     "0");
}

TEST(deleting_a_client_revokes_its_tokens_and_only_its_user_may)
{
    struct client client = client_make(user), second = client_make(user);
    const char *token = token_of(&client), *kept_one = token_of(&second);

    ask(stranger, 404, NULL, "DELETE /api/auth/clients/%jd", client.id);
    ck_assert_ptr_null(
        strstr(ask(stranger, 200, NULL, "GET /api/auth/clients")->body, client.name));
    ask_on(other, bearer(token), 200, NULL, "GET /api/auth/me");
    ck_assert_str_eq(ask(user, 200, NULL, "DELETE /api/auth/clients/%jd", client.id)->body,
                     "{\"success\":true}");
    ask(bearer(token), 401, REVOKED, "GET /api/auth/me");
    me_soon(other, token, 401, REVOKED);
    grant(&(struct grant){FORM, client.form, NULL, "invalid_client"});
    ask(user, 404, NULL, "DELETE /api/auth/clients/%jd", client.id);
    ask(bearer(kept_one), 200, NULL, "GET /api/auth/me");
    ask(user, 200, NULL, "GET /api/auth/me");
}

/* Returns the client in the list of its user. */
static const json_t *client_listed(const struct client *client)
{
    const json_t *list = ask(user, 200, NULL, "GET /api/auth/clients")->json, *each;
    size_t i;

    json_array_foreach (list, i, each) {
        if (json_integer_value(json_object_get(each, "id")) == client->id)
            return each;
    }
    ck_abort_msg("the client is not in the list");
}

TEST(a_client_has_a_name_and_the_hour_of_its_last_use)
{
    struct client client = client_make(user);
    PGconn *db = database_connect(the_postgres, "access");
    const char *token;

    expect_json(client_listed(&client), "{'name':'','usedAt':null,'expiresAt':null}");
    token = token_of(&client);
    expect_json(client_listed(&client), "{'usedAt':'*'}");
    sql_run(db, "UPDATE auth_client SET used = used - interval '50 minutes'");
    token_of(&client);
    sql_is(
        db, 0,
        "SELECT count(*) FROM auth_client WHERE id = %jd AND used > now() - interval '50 minutes'",
        client.id);
    sql_run(db, "UPDATE auth_client SET used = used - interval '10 minutes'");
    token_of(&client);
    sql_is(
        db, 1,
        "SELECT count(*) FROM auth_client WHERE id = %jd AND used > now() - interval '50 minutes'",
        client.id);
    ask(stranger, 404, "Client not found", "PATCH /api/auth/clients/%jd {'name':'a'}", client.id);
    ask(user, 200, "{'name':'Nightly','expiresAt':null}",
        "PATCH /api/auth/clients/%jd {'name':'Nightly'}", client.id);
    expect_json(client_listed(&client), "{'name':'Nightly','client_secret':'(absent)'}");
    ask(user, 200, "{'name':'Nightly'}", "PATCH /api/auth/clients/%jd {'name':''}", client.id);
    ask(user, 200, "{'name':''}", "PATCH /api/auth/clients/%jd {'name':null}", client.id);
    ask_on(other, bearer(token), 200, NULL, "GET /api/auth/me");
}

/* Returns the time this many seconds from now. */
static const char *time_in(int seconds)
{
    time_t at = time(NULL) + seconds;
    char *iso = text("%32s", "");

    strftime(iso, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime(&at));
    return iso;
}

TEST(an_expired_client_and_its_tokens_are_refused_on_all_hosts)
{
    struct client client = client_make(user);
    const struct grant refused = {FORM, client.form, NULL, "invalid_client"};
    const char *token = token_of(&client);

    ask(user, 400, "{'errors':[{'field':'expiresAt'}]}",
        "PATCH /api/auth/clients/%jd {'expiresAt':'soon'}", client.id);
    ask(user, 200, "{'expiresAt':'2020-01-01T00:00:00.000Z'}",
        "PATCH /api/auth/clients/%jd {'expiresAt':'2020-01-01T00:00:00Z'}", client.id);
    ask(bearer(token), 401, "Unauthorized", "GET /api/auth/me");
    me_soon(other, token, 401, "Unauthorized");
    grant(&refused);
    ask(user, 200, "{'name':'','expiresAt':null}", "PATCH /api/auth/clients/%jd {'expiresAt':null}",
        client.id);
    token = token_of(&client);
    ask(user, 200, NULL, "PATCH /api/auth/clients/%jd {'expiresAt':'%s'}", client.id, time_in(2));
    me_soon(host, token, 401, "Unauthorized");
    me_soon(other, token, 401, "Unauthorized");
    grant(&refused);
}

TEST(tokens_do_not_outlive_their_client)
{
    struct answer *made = ask(user, 201, "{'expiresAt':'*'}",
                              "POST /api/auth/clients {'expiresAt':'%s'}", time_in(600));
    struct answer *access =
        ask(NULL, 200, NULL, "POST /api/auth/getAccess {'client_id':'%s','client_secret':'%s'}",
            answer_text(made, "client_id"), answer_text(made, "client_secret"));

    ck_assert_int_le(answer_int(access, "expires_in"), 600);
}

TEST(a_new_secret_ends_the_old_one_and_its_tokens_on_all_hosts)
{
    struct client client = client_make(user), second = client_make(user);
    const char *token = token_of(&client), *kept_one = token_of(&second);

    ask(stranger, 404, "Client not found", "POST /api/auth/clients/%jd/rotate-secret", client.id);
    me_soon(other, token, 200, "");
    struct answer *made =
        ask(user, 200, text("{'id':%jd,'client_id':'%s'}", client.id, client.name),
            "POST /api/auth/clients/%jd/rotate-secret", client.id);
    const char *secret = answer_text(made, "client_secret");

    ck_assert_str_ne(secret, client.secret);
    ck_assert_str_eq(answer_header(made, "Cache-Control"), "no-store");
    expect_json(client_listed(&client), "{'client_secret':'(absent)'}");
    ask(bearer(token), 401, REVOKED, "GET /api/auth/me");
    me_soon(other, token, 401, REVOKED);
    grant(&(struct grant){FORM, client.form, NULL, "invalid_client"});
    grant(&(struct grant){FORM, form_of(client.name, secret)});
    ask(bearer(kept_one), 200, NULL, "GET /api/auth/me");
    ask(user, 200, NULL, "GET /api/auth/me");
}

/* The secret is replaced between its check and the row of the session. */
TEST(no_token_is_issued_for_a_secret_that_is_being_replaced)
{
    struct client client = client_make(user);
    PGconn *db = database_connect(the_postgres, "access");
    PGconn *watching = database_connect(the_postgres, "access");
    struct call call = call_by(NULL, "POST /api/auth/getAccess %s", client.form);

    call.type = FORM;
    sql_run(db, "BEGIN");
    sql_run(db, text("UPDATE auth_client SET secret = '\\x00' WHERE id = %jd", client.id));
    struct pending_call *pending = call_begin(other, &call);

    sql_soon(watching, SQL_LOCK_WAITS);
    sql_run(db, "COMMIT");
    ck_error(call_end(pending), 401, "Unauthorized");
    sql_is(watching, 0, "SELECT count(*) FROM auth_session WHERE client = %jd", client.id);
}

TEST(a_client_token_may_not_manage_clients_or_the_password)
{
    struct client client = client_make(user);
    const struct person *program = bearer(token_of(&client));

    exchanges(
        host, {"POST /api/auth/clients", program, 403, "Forbidden"},
        {text("PATCH /api/auth/clients/%jd {'name':'a'}", client.id), program, 403, "Forbidden"},
        {text("POST /api/auth/clients/%jd/rotate-secret", client.id), program, 403, "Forbidden"},
        {text("DELETE /api/auth/clients/%jd", client.id), program, 403, "Forbidden"},
        {text("PUT /api/user/password {'current':'%s','new':'something new'}", user->password),
         program, 403, "Forbidden"},
        {"GET /api/auth/clients", program, 200}, {"POST /api/auth/logout", program, 200},
        {"GET /api/auth/me", program, 401, REVOKED}, {"GET /api/auth/me", user, 200});
}

/* A client's tokens stop working when its user loses the rights. */
TEST(clients_and_tokens_of_a_suspended_user_are_refused)
{
    struct person *person = person_make(host, admin, "suspended-owner", "ApiUser");
    struct client client = client_make(person);
    const struct grant refused = {FORM, client.form, NULL, "unauthorized_client"};
    const char *token = token_of(&client);

    ck_status(person_change(host, admin, person, "status", "Suspended"), 200);
    ask(bearer(token), 403, "Your account has been suspended", "GET /api/auth/me");
    grant(&refused);
    ck_status(person_change(host, admin, person, "status", "Active"), 200);
    ck_status(person_change(host, admin, person, "role", "User"), 200);
    grant(&refused);
}

/* ---- a token that no host has in memory yet ---- */

/* The host looks up the token in the database between the headers and the body. */
TEST(a_token_is_looked_up_while_the_request_body_is_still_to_come)
{
    static const char *const chunked[] = {"Transfer-Encoding: chunked", NULL};
    static const char *const expecting[] = {"Expect: 100-continue", NULL};
    static const char *const *const ways[] = {NULL, chunked, expecting};
    static const size_t sizes[] = {2, 5000, 300000};
    CURL *connection = client_open();

    for (size_t i = 0; i < COUNT(ways) * COUNT(sizes); i++) {
        const char *body =
            text("{\"participant1\":\"%s\",\"participant2\":\"b@example.com\","
                 "\"username\":\"%s\",\"chatEntry\":\"%s\"}",
                 user->email, user->email, text_repeated("e", sizes[i / COUNT(ways)]));
        struct call call = {.method = "POST",
                            .path = "/api/chat/conversations/start",
                            .token = person_login(host, user),
                            .body = body,
                            .headers = ways[i % COUNT(ways)],
                            .connection = i % 2 ? connection : NULL};

        ck_status(http_send(host, &call), 201);
        ck_status(http_send(other, &call), 201);
    }
}

SUITE(get_access, .timeout_s = 60, .before_all = set_up)
