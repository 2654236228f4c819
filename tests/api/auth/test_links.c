/*
 * Links that are sent by mail, on two hosts: choosing a new password, confirming an e-mail,
 * accepting an invitation. Links are void after other changes, and requests do not reveal accounts.
 */
#include "mailbox.h"
#include "stage.h"
#include "talk.h"

#define RESET "/api/user/password/reset"
#define CONFIRM "/api/user/email/confirm"
#define INVITE "/api/organization/invitations"
#define GONE "{'errors':[{'field':'token','problem':'was used already or has expired*'}]}"
#define WITH_MAIL "[auth, chat, health, mail]"
#define CHEAP "  argon2_memory: 64\n  argon2_rounds: 1\n"

enum { RACERS = 8 };

static struct host *other;
static struct mailbox *mailbox;

/* Returns the settings of a host on the database of the suite's host, whose name is "links". */
static struct host_spec spec_of(const char *name, const char *modules, const char *auth)
{
    return (struct host_spec){.name = name,
                              .database = strcmp(name, "links") ? "links" : NULL,
                              .modules = modules,
                              .auth = auth,
                              .more = mailbox_section(mailbox, NULL)};
}

static struct host *start(const char *name, const char *modules, const char *auth)
{
    struct host_spec spec = spec_of(name, modules, auth);

    return host_start(&spec);
}

static void set_up(void)
{
    const char *auth = CHEAP "  confirm_email: true\n  invitations: true\n"
                             "  link: \"https://busbar.example/{purpose}?t={token}&x\"\n";

    mailbox = mailbox_make("links");
    mailbox_run(mailbox, "");
    struct host_spec spec = spec_of("links", WITH_MAIL, auth);

    stage_open(&spec);
    other = start("links-2", WITH_MAIL, auth);
}

static void tear_down(void)
{
    host_stop(host);
    host_stop(other);
    mailbox_stop(mailbox);
}

/* Makes an account that can log in. */
static struct person *person_of(const char *name, const char *type)
{
    struct person *person = person_register(host, name, type);

    mailbox_wait(mailbox, person->email, 1); /* the mail to confirm the address */
    ask(admin, 200, NULL, "PUT /api/admin/users/%jd {'status':'Active','email':'%s'}", person->id,
        person->email);
    mailbox_wait(mailbox, person->email, 2); /* the mail about the approval */
    person_login(host, person);
    return person;
}

static void request(const char *purpose, const char *email)
{
    ask(NULL, 202, "{'message':'If an account*a mail with a link was sent to it.'}",
        "POST %s-request {'email':'%s'}", purpose, email);
}

/* Returns the token of a new link; `count` is the number of the account's mails with it. */
static const char *token_of(const char *purpose, const char *email, size_t count)
{
    request(purpose, email);
    return mail_token(mailbox_wait(mailbox, email, count));
}

static struct answer *reset(const char *token, const char *password, long status,
                            const char *expected)
{
    return ask(NULL, status, expected, "POST " RESET " {'token':'%s','password':'%s'}", token,
               password);
}

static void login(const struct person *person, const char *password, long status)
{
    ask(NULL, status, NULL, "POST /api/auth/login {'username':'%s','password':'%s'}", person->email,
        password);
}

static void requests_are_done(void)
{
    sql_soon(db, "SELECT (NOT EXISTS (SELECT FROM auth_link_request) AND NOT EXISTS "
                 "(SELECT FROM mail_outbox))::int");
}

/* ---- choosing a new password ---- */

TEST(a_link_changes_the_password_and_ends_all_sessions)
{
    struct person *person = person_of("forgetful", "ApiUser");
    struct answer *client = ask(person, 201, NULL, "POST /api/auth/clients");
    struct answer *access = http(host, "POST", "/api/auth/getAccess", NULL,
                                 json_pack("{ss ss}", "client_id", answer_text(client, "client_id"),
                                           "client_secret", answer_text(client, "client_secret")));
    const char *program = answer_text(ck_status(access, 200), "access_token");
    const char *token = token_of("/api/user/password/reset", person->email, 3);

    ck_assert_ptr_nonnull(strstr(mail_body(mailbox_wait(mailbox, person->email, 3)),
                                 text("\n    https://busbar.example/reset?t=%s&x\n", token)));
    reset(token, "short", 400, "{'errors':[{'field':'password'}]}");
    me_soon(other, person->token, 200, "");
    reset(token, "a new password", 200, "{'message':'Password changed'}");
    ask(person, 401, REVOKED, "GET /api/auth/me");
    me_soon(other, person->token, 401, REVOKED);
    ask(bearer(program), 200, NULL, "GET /api/auth/me");
    login(person, person->password, 401);
    login(person, "a new password", 200);
    reset(token, "another password", 400, GONE);
    login(person, "a new password", 200);
}

TEST(a_link_expires_and_is_void_after_other_changes)
{
    struct person *person = person_of("changing", NULL);
    const char *token = token_of("/api/user/password/reset", person->email, 3);

    sql_is(db, 1,
           "SELECT count(*) FROM auth_link WHERE purpose = 'reset' AND "
           "expires BETWEEN now() + interval '29 minutes' AND now() + "
           "interval '30 minutes'");
    sql_run(db, "UPDATE auth_link SET expires = now()");
    reset(token, "a new password", 400, GONE);
    sql_run(db, "DELETE FROM auth_link");
    token = token_of("/api/user/password/reset", person->email, 4);
    ask(person, 200, NULL, "PUT /api/user/password {'current':'%s','new':'a third password'}",
        person->password);
    reset(token, "a new password", 400, GONE);
    token = token_of("/api/user/password/reset", person->email, 5);
    ask(admin, 200, NULL, "PUT /api/admin/users/%jd {'email':'changed@example.com'}", person->id);
    reset(token, "a new password", 400, GONE);
    reset(text_repeated("0", 64), "a new password", 400, GONE);
    person->email = text("changed@example.com");
    login(person, "a third password", 200);
    token = token_of("/api/user/password/reset", person->email, 1);
    ck_status(person_change(host, admin, person, "status", "Suspended"), 200);
    reset(token, "a new password", 400, GONE);
}

TEST(a_link_stays_void_after_the_change_is_undone)
{
    static const char *const changes[][3] = {{"status", "Suspended", "Active"},
                                             {"email", "moved@example.com", "undone@example.com"}};
    struct person *person = person_of("undone", NULL);

    for (size_t i = 0; i < COUNT(changes); i++) {
        const char *token = token_of("/api/user/password/reset", person->email, 3 + i);

        ck_status(person_change(host, admin, person, changes[i][0], changes[i][1]), 200);
        ck_status(person_change(host, admin, person, changes[i][0], changes[i][2]), 200);
        reset(token, "a new password", 400, GONE);
    }
}

TEST(a_token_works_once_on_all_hosts_together)
{
    struct call calls[RACERS];
    struct answer *answers[RACERS];
    struct person *person = person_of("raced", NULL);
    const char *token = token_of("/api/user/password/reset", person->email, 3);
    int winner = -1;

    for (int i = 0; i < RACERS; i++) {
        calls[i] = call_by(NULL, "POST " RESET " {'token':'%s','password':'password of racer %d'}",
                           token, i);
        calls[i].host = i % 2 ? host : other;
    }
    parallel(host, calls, answers, RACERS);
    for (int i = 0; i < RACERS; i++) {
        ck_assert(answers[i]->status == 200 || answers[i]->status == 400);
        ck_assert(answers[i]->status == 400 || winner < 0);
        if (answers[i]->status == 200)
            winner = i;
    }
    ck_assert_int_ge(winner, 0);
    login(person, text("password of racer %d", winner), 200);
}

/* ---- requests ---- */

TEST(a_request_does_not_reveal_whether_an_account_exists)
{
    struct person *person = person_of("hidden", NULL);
    size_t mails;

    ck_status(person_change(host, admin, person, "status", "Suspended"), 200);
    requests_are_done();
    mails = mailbox_count(mailbox, NULL);
    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE auth_account IN ACCESS EXCLUSIVE MODE"); /* no host can look it up */
    EACH_TEXT (email, "nobody@example.com", person->email, ADMIN_EMAIL)
        request("/api/user/password/reset", email);
    sql_run(db, "COMMIT");
    mailbox_wait(mailbox, ADMIN_EMAIL, 1);
    requests_are_done();
    ck_assert_uint_eq(mailbox_count(mailbox, NULL), mails + 1);
}

TEST(an_account_gets_a_few_links_at_a_time)
{
    struct person *person = person_of("pestered", NULL);

    for (int i = 0; i < 5; i++) {
        request("/api/user/password/reset", person->email);
        requests_are_done();
    }
    ck_assert_uint_eq(mailbox_count(mailbox, person->email), 2 + 3);
}

TEST(a_request_that_was_answered_is_not_lost)
{
    struct person *person = person_of("unlucky", NULL);

    /* the row that remains if a host ends after the response */
    sql_run(db, text("INSERT INTO auth_link_request (purpose, email) VALUES ('reset', '%s'), "
                     "('of a newer version', '%s')",
                     person->email, person->email));
    mailbox_wait(mailbox, person->email, 3);
    requests_are_done();
}

/* Any bytes in the language delay no mail. */
TEST(a_mail_is_in_the_language_of_the_browser)
{
    struct person *person = person_of("german", NULL);
    size_t count = 2;

    EACH_TEXT (language, "fr;q=0.9, de-AT, en", "de, \xff\xfe",
               text("de, %s\u00e9", text_repeated("x", 59))) {
        ask_with((&(struct exchange){text("POST " RESET "-request {'email':'%s'}", person->email),
                                     NULL, 202, .header = text("Accept-Language: %s", language)}));
        ck_assert_str_eq(mail_header(mailbox_wait(mailbox, person->email, ++count), "Subject"),
                         "busbar: neues Passwort wählen");
    }
}

TEST(requests_are_throttled_by_address)
{
    struct host_spec spec =
        spec_of("links-3", WITH_MAIL, CHEAP "  links_per_address: 2\n  invitations: true\n");
    struct person *boss = person_of("throttled", NULL);
    const struct exchange rows[] = {
        {"POST " RESET "-request {'email':'nobody@example.com'}", NULL, 202},
        {"POST " CONFIRM "-request {'email':'nobody@example.com'}", NULL, 202},
        {"POST " RESET "-request {'email':'nobody@example.com'}", NULL, 429, "Too many requests"},
        {"POST " INVITE " {'email':'x@example.com','role':'User'}", boss, 429, "Too many invitat"},
    };

    spec.redis = ""; /* the host counts only its own requests */
    struct host *strict = host_start(&spec);

    exchange_rows(strict, rows);
}

TEST(a_service_without_mails_says_so)
{
    struct host *mute = start("links-4", "[auth, chat, health]",
                              CHEAP "  confirm_email: true\n  invitations: true\n");

    exchanges(
        mute,
        {"POST " RESET "-request {'email':'nobody@example.com'}", NULL, 409, "This service sends"},
        {"POST " RESET "-request {'email':'" ADMIN_EMAIL "'}", NULL, 409, "This service sends"},
        {"POST " CONFIRM "-request {'email':'nobody@example.com'}", NULL, 409},
        {"POST " RESET "-request {'email':'none'}", NULL, 400, "{'errors':[{'field':'email'}]}"},
        {"POST /api/admin/users {'email':'x@example.com','role':'Buyer'}", admin, 409});
    host_logs(mute, 0, "have no effect, because the module mail is not loaded");
    ck_assert_uint_eq(host_logged(host, "have no effect"), 0);
    person_make(mute, admin, "unconfirmed", NULL); /* approved although unconfirmed */
}

/* ---- confirming an e-mail ---- */

TEST(an_account_is_approved_after_its_email_was_confirmed)
{
    struct person *person = person_register(host, "new", NULL);
    const char *first = mail_token(mailbox_wait(mailbox, person->email, 1));

    ck_error(person_change(host, admin, person, "status", "Active"), 409,
             "The e-mail of this account is not confirmed yet");
    ck_status(person_change(host, admin, person, "firstName", "Ada"), 200);
    const char *second = token_of("/api/user/email/confirm", person->email, 2);

    reset(first, "a new password", 400, GONE);
    ask(NULL, 200, "{'message':'E-mail confirmed'}", "POST " CONFIRM " {'token':'%s'}", second);
    ask(NULL, 400, GONE, "POST " CONFIRM " {'token':'%s'}", second);
    request("/api/user/email/confirm", person->email); /* sends no mail */
    ck_status(person_change(host, admin, person, "status", "Active"), 200);
    login(person, person->password, 200);
    requests_are_done();
    ck_assert_uint_eq(mailbox_count(mailbox, person->email), 3); /* and about the approval */
}

/* An Admin approves once; other changes send nothing. */
TEST(an_approved_person_gets_a_mail_in_the_language_of_the_registration)
{
    static const struct {
        const char *language, *email, *subject, *greeting;
    } rows[] = {
        {"de-AT, en", "freigegeben@example.com", "busbar: Ihr Konto wurde freigegeben",
         "Guten Tag Zoë Ünal,\n"},
        {"fr", "approved@example.com", "busbar: your account was approved", "Hello Zoë Ünal,\n"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *email = rows[i].email;
        struct answer *made = ask_with((&(struct exchange){
            .request = text("POST /api/user/register {'firstName':'Zoë','lastName':'Ünal',"
                            "'email':'%s','password':'a long password','orgName':'Of %s'}",
                            email, email),
            .status = 201,
            .header = text("Accept-Language: %s", rows[i].language)}));
        intmax_t id = answer_int(made, "id");

        mailbox_wait(mailbox, email, 1); /* the mail to confirm the address */
        ask(admin, 200, NULL, "PUT /api/admin/users/%jd {'firstName':'Zoë'}", id);
        ask(admin, 409, NULL, "PUT /api/admin/users/%jd {'status':'Active'}", id);
        ask(admin, 200, NULL, "PUT /api/admin/users/%jd {'status':'Active','email':'%s'}", id,
            email);
        const json_t *mail = mailbox_wait(mailbox, email, 2);

        ck_assert_str_eq(mail_header(mail, "Subject"), rows[i].subject);
        ck_assert_ptr_nonnull(strstr(mail_body(mail), rows[i].greeting));
        ck_assert_ptr_nonnull(strstr(mail_body(mail), "\nhttps://busbar.example/\n"));
        EACH_TEXT (status, "Suspended", "Active", "Deleted")
            ask(admin, 200, NULL, "PUT /api/admin/users/%jd {'status':'%s'}", id, status);
        requests_are_done();
        ck_assert_uint_eq(mailbox_count(mailbox, email), 2);
    }
}

TEST(a_changed_email_is_not_confirmed)
{
    struct person *person = person_register(host, "mistyped", NULL);
    const char *token = mail_token(mailbox_wait(mailbox, person->email, 1));

    ask(NULL, 200, NULL, "POST " CONFIRM " {'token':'%s'}", token);
    person->email = text("typed@example.com");
    ck_status(person_change(host, admin, person, "email", person->email), 200);
    ck_error(person_change(host, admin, person, "status", "Active"), 409,
             "The e-mail of this account is not confirmed yet");
    ask(NULL, 200, NULL, "POST " CONFIRM " {'token':'%s'}",
        token_of("/api/user/email/confirm", person->email, 1));
    ck_status(person_change(host, admin, person, "status", "Active"), 200);
}

/* ---- invitations ---- */

TEST(an_invited_person_chooses_a_password)
{
    struct answer *made =
        ask(admin, 201, "{'email':'invited@example.com','status':'Active','role':'Buyer'}",
            "POST /api/admin/users {'email':'Invited@example.com','role':'Buyer',"
            "'firstName':'Zoë','lastName':'Ünal','orgName':'Żółta Łąka',"
            "'language':'de'}");
    struct person person = {.email = text("invited@example.com")};
    const json_t *mail = mailbox_wait(mailbox, person.email, 1);
    const char *token = mail_token(mail);

    ck_assert_int_gt(answer_int(made, "organizationId"), 0);
    ck_assert_str_eq(mail_header(mail, "Subject"), "busbar: Einladung für Żółta Łąka");
    ck_assert_ptr_nonnull(strstr(mail_body(mail), "Guten Tag Zoë Ünal,\n"));
    ck_assert_ptr_nonnull(strstr(mail_body(mail), "https://busbar.example/invite?t="));
    login(&person, "password of invited", 401);
    ask(NULL, 400, GONE, "POST " CONFIRM " {'token':'%s'}", token);
    reset(token, "password of invited", 200, NULL);
    login(&person, "password of invited", 200);
    exchanges(
        host, {"POST /api/admin/users {'email':'invited@example.com','role':'Buyer'}", admin, 409},
        {"POST /api/admin/users {'email':'other@example.com'}", admin, 400},
        {"POST /api/admin/users {'email':'other@example.com','role':'Buyer','firstName':'a\\nb'}",
         admin, 400, "{'errors':[{'field':'firstName'}]}"},
        {"POST /api/admin/users {'email':'a\\r\\nb@example.com','role':'Buyer'}", admin, 400,
         "{'errors':[{'field':'email'}]}"},
        {"POST /api/admin/users {'email':'other@example.com','role':'Buyer'}", NULL, 401});
}

TEST(an_organization_admin_invites_into_its_organization)
{
    struct person *boss = person_of("boss", NULL), *platform = person_of("platform", "ApiUser");
    struct person colleague = {.email = text("colleague@example.com")};
    const char *speak =
        "POST /api/chat/conversations/start {'participant1':'colleague@example.com',"
        "'participant2':'o@example.net','username':'colleague@example.com',"
        "'chatEntry':'x'}";

    ask(boss, 201,
        text("{'email':'%s','status':'Active','role':'DeviceOwner','organizationId':%jd}",
             colleague.email, boss->organization),
        "POST " INVITE " {'email':'Colleague@example.com','role':'DeviceOwner','orgName':'Other'}");
    ask(platform, 201, NULL, "%s", speak); /* nobody has accepted the e-mail yet */
    reset(mail_token(mailbox_wait(mailbox, colleague.email, 1)), "password of colleague", 200,
          NULL);
    ask(platform, 403, NULL, "%s", speak);
    colleague.password = text("password of colleague");
    person_login(host, &colleague);
    exchanges(host, {"POST " INVITE " {'email':'colleague@example.com','role':'User'}", boss, 409},
              {"POST " INVITE " {'email':'x@example.com','role':'Admin'}", boss, 400,
               "{'errors':[{'field':'role','code':'not_one_of'}]}"},
              {"POST " INVITE " {'email':'x@example.com','role':'ApiUser'}", boss, 400},
              {"POST " INVITE " {'email':'x@example.com','role':'User'}", &colleague, 403},
              {"POST " INVITE " {'email':'x@example.com','role':'User'}", platform, 403},
              {"POST " INVITE " {'email':'x@example.com','role':'User'}", admin, 403},
              {"POST " INVITE " {'email':'x@example.com','role':'User'}", NULL, 401});
}

TEST(an_organization_admin_lists_its_members)
{
    struct person *boss = person_of("lister", NULL);
    const char *members = "GET /api/organization/members";
    const struct answer *gone = NULL;

    EACH_TEXT (name, "first", "second", "third")
        gone =
            ask(boss, 201, NULL, "POST " INVITE " {'email':'%s@example.org','role':'User'}", name);
    ask(admin, 200, NULL, "PUT /api/admin/users/%jd {'status':'Deleted'}", answer_int(gone, "id"));
    ask(boss, 200,
        text("[{'email':'%s','role':'OrganizationAdmin'},{'email':'first@example.org','role':'User'"
             ",'password':'(absent)'},{'email':'second@example.org'}]",
             boss->email),
        "%s", members);
    struct answer *page = ask(boss, 200, "['*','*']", "%s?limit=2", members);

    ck_assert_ptr_nonnull(strstr(answer_header(page, "Link"), "/api/organization/members?"));
    ask(person_of("platform-2", "ApiUser"), 403, "Forbidden", "%s", members);
    ask(admin, 403, "Forbidden", "%s", members);
}

TEST(confirmations_and_invitations_are_off_by_default)
{
    struct host *plain = start("links-5", WITH_MAIL, CHEAP);

    ask_on(plain, admin, 409, "Invitations are disabled",
           "POST /api/admin/users {'email':'x@example.com','role':'Buyer'}");
    struct person *person = person_make(plain, admin, "plain", NULL);

    requests_are_done();
    ck_assert_uint_eq(mailbox_count(mailbox, person->email), 1); /* about the approval */
    request("/api/user/password/reset", person->email);
    mail_token(mailbox_wait(mailbox, person->email, 2));
}

TEST(the_address_of_links_must_have_the_token)
{
    EACH_TEXT (link, "https://busbar.example/", "javascript:{token}") {
        struct host *wrong =
            host_prepare(&(struct host_spec){.name = "links-6",
                                             .database = "links",
                                             .modules = "[auth, health]",
                                             .auth = text("  link: \"%s\"\n", link)});

        ck_assert(!host_run(wrong));
        ck_assert_uint_ge(host_logged(wrong, "must be an http or https URL"), 1);
    }
}

SUITE(links, .timeout_s = 120, .before_all = set_up, .after_all = tear_down,
      .before_each = stage_connect, .after_each = stage_disconnect)
