/* Ownership of conversations, and the earlier messages of its e-mail that an account sees. */
#include "live.h"

static struct person *k, *m;

static void set_up(void)
{
    stage_open(
        &(struct host_spec){.name = "chat_owners", .modules = "[auth, chat, health, device]"});
    other = host_start(&(struct host_spec){.name = "chat-owners-2", .database = "chat_owners"});
    k = person_make(host, admin, "owners.k", "ApiUser");
    m = person_make(host, admin, "owners.m", NULL);
}

static void share(const struct person *by, const struct talk *talk, long status)
{
    ask(by, status, status == 200 ? "{'success':true}" : NULL,
        "POST /api/chat/conversations/%jd/share", talk->id);
}

static void expect_hidden(const struct host *on, const struct person *who, const struct talk *talk)
{
    ck_error(talk_chain(on, who, talk, ""), 404, "");
    ck_error(talk_post(on, who, talk, who->email, "not seen"), 404, "");
    ck_error(talk_read(on, who, talk, who->email), 404, "");
    exchanges(on, {text("GET /api/chat/conversations/user/%s", who->email), who, 200, "[]"},
              {text("GET /api/chat/unread-count/%s", who->email), who, 200, "{'count':0}"},
              {text("GET /api/chat/unread-devices/%s", who->email), who, 200, "[]"},
              {"POST /api/chat/conversations/find {}", who, 200, "null"},
              {text("POST /api/chat/conversations/find {'participant1':'%s'}", who->email), who,
               200, "null"});
}

static void approve(struct person *person, const char *role)
{
    ck_status(person_change(host, admin, person, "status", "Active"), 200);
    if (role)
        ck_status(person_change(host, admin, person, "role", role), 200);
    person_login(host, person);
}

TEST(an_account_does_not_take_over_the_conversations_of_a_platform)
{
    const char *email = "alice@example.com";
    struct talk before = talk_start(host, k, email, ADMIN_EMAIL, "before");
    struct person *alice = person_register(host, "alice", NULL);

    ck_status(talk_post(host, k, &before, email, "while it is pending"), 201);
    ck_status(talk_post(host, admin, &before, ADMIN_EMAIL, "a word in reply"), 201);
    approve(alice, NULL);
    ck_error(talk_post(host, k, &before, email, "as an account"), 403, "");
    expect_hidden(host, alice, &before);
    expect_hidden(other, alice, &before);
    ck_assert_int_eq(talk_unread(host, k, email), 1);
    ck_assert_int_eq(talk_unread(host, admin, email), 1);

    struct talk since = talk_start(host, k, "bob@shop.example", email, "since");

    ck_status(talk_chain(host, alice, &since, ""), 200);
    ck_assert_int_eq(talk_unread(host, alice, email), 1);
    ask(alice, 200, "['since']", "GET /api/chat/unread-devices/%s", email);
}

TEST(a_shared_conversation_is_seen_by_the_account)
{
    const char *email = "shared.to@example.com";
    struct talk talk = talk_start(host, k, email, ADMIN_EMAIL, "shared");
    struct person *account = person_register(host, "shared.to", NULL);

    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "for the e-mail"), 201);
    approve(account, "User");
    share(account, &talk, 403);
    share(m, &talk, 404);
    struct sse *sse = live_listen(host, account, NULL), *far = live_listen(other, account, NULL);

    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "still withheld"), 201);
    live_silence(sse);
    expect_hidden(other, account, &talk);
    for (int i = 0; i < 2; i++)
        share(k, &talk, 200);
    answers_soon(other, text("/api/chat/chain/%s", talk.head), account->token, 200, NULL);
    ck_status(talk_chain(host, account, &talk, ""), 200);
    ask(account, 200, "[{}]", "GET /api/chat/conversations/user/%s", email);
    ck_assert_int_eq(talk_unread(host, account, email), 2);
    ask(account, 200, "['shared']", "GET /api/chat/unread-devices/%s", email);
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "for the account"), 201);
    live_expect(sse, "for the account");
    live_expect(far, "for the account");
    ck_status(talk_read(host, account, &talk, email), 200);
    ck_assert_int_eq(talk_unread(host, account, email), 0);
    ask(k, 200, "[{'name1':null}]", "GET /api/chat/conversations?id=%jd", talk.id);
    ask(k, 200, "[]", "GET /api/chat/conversations?id=%jd&search=Family", talk.id);
}

TEST(the_next_account_of_an_email_does_not_see_conversations_of_the_previous_one)
{
    const char *email = "moving@example.com";
    struct person *ada = person_make(host, admin, "moving", NULL);
    struct person *next = person_make(host, admin, "next", NULL);
    struct talk talk = talk_start(host, k, "x@shop.example", email, "of Ada");

    EACH_TEXT (entry, "first", "second")
        ck_status(talk_post(other, k, &talk, "x@shop.example", entry), 201);
    ck_status(talk_read(other, ada, &talk, email), 200);
    ck_status(talk_post(host, k, &talk, "x@shop.example", "unread"), 201);
    ck_status(person_change(host, admin, ada, "email", "moved@example.com"), 200);
    ck_error(talk_chain(host, ada, &talk, ""), 404, "");
    ask(admin, 200, "{'conversations':1}", "PUT /api/admin/users/%jd {'email':'%s'}", next->id,
        email);
    next->email = text("%s", email);
    answers_soon(other, text("/api/chat/chain/%s", talk.head), next->token, 404, NULL);
    expect_hidden(host, next, &talk);
    expect_hidden(other, next, &talk);
    ck_assert_int_eq(talk_unread(host, k, email), 1);
    talk_start(host, k, "x@shop.example", email, "of the next account");
    ask(next, 200, "['of the next account']", "GET /api/chat/unread-devices/%s", email);
    share(k, &talk, 200);
    ck_assert_int_eq(talk_unread(host, next, email), 2);
}

TEST(many_conversations_of_an_email_are_hidden_in_several_transactions)
{
    static const char copy[] =
        "INSERT INTO %s (id, %s, head_uuid, participant1, participant2)"
        " SELECT id + 1000000 + i, %s, gen_random_uuid(), participant1, participant2"
        " FROM %s, generate_series(1, 2000) i WHERE id = %jd";
    static const char columns[] = "entries, last_at, unread1, unread2, last_entry_uuid";
    static const char hidden[] =
        "SELECT count(*) FROM %s WHERE participant2 = 'many@example.com' AND withheld2";
    struct person *many = person_make(host, admin, "many", NULL);
    struct talk talk = talk_start(host, k, "x@shop.example", "many@example.com", "of many");

    sql_run(db, text(copy, "chat_conversation", columns, columns, "chat_conversation", talk.id));
    sql_run(db,
            text(copy, "chat_directory", "created_at", "created_at", "chat_directory", talk.id));
    ck_status(person_change(host, admin, many, "email", k->email), 409);
    sql_is(db, 0, hidden, "chat_conversation");
    ck_status(person_change(host, admin, many, "email", "fewer@example.com"), 200);
    EACH_TEXT (table, "chat_conversation", "chat_directory") {
        sql_is(db, 2001, hidden, table);
        sql_is(db, 3,
               "SELECT count(DISTINCT xmin::text) FROM %s WHERE participant2 = 'many@example.com'",
               table);
    }
}

/* A participant of another organization sees the conversation but may not share it. */
TEST(only_the_owner_shares_a_conversation)
{
    struct talk talk = talk_start(host, k, "third.party@shop.example", m->email, "not yours");

    ck_status(talk_chain(host, m, &talk, ""), 200);
    share(m, &talk, 403);
    share(admin, &talk, 200);
    ask(admin, 404, NULL, "POST /api/chat/conversations/987654321/share");
}

/* After a notification without an id, any conversation may have changed. */
TEST(a_notification_without_an_id_empties_the_cache_of_conversations)
{
    const char *email = "cached@shop.example";
    struct talk talk = talk_start(host, k, email, "x@shop.example", NULL);
    PGconn *own = database_connect(the_postgres, "chat_owners");

    ck_status(talk_post(host, k, &talk, email, "in the cache"), 201);
    sql_run(own, text("UPDATE chat_conversation SET organisation = NULL WHERE id = %jd", talk.id));
    sql_run(own, "SELECT pg_notify('busbar_chat', '')");
    WAIT_UNTIL(talk_post(host, k, &talk, email, "not in the cache")->status == 404, SOON_MS);
    PQfinish(own);
}

/* Admins and callers of the organization close and reopen, on any host; a message reopens, too. */
TEST(a_closed_conversation_is_open_again_after_a_message)
{
    const struct person *user = person_with_role(host, admin, "owners.user", "User");
    struct talk talk = talk_start(host, m, m->email, user->email, "closing");
    const char *list = "GET /api/chat/conversations?search=closing";
    const struct {
        const struct host *on;
        const struct person *by;
        const char *what; /* NULL: a message */
        long status;
        bool closed; /* afterwards */
    } steps[] = {
        {host, m, "reopen", 200, false},    {host, m, "close", 200, true},
        {other, admin, "close", 200, true}, {host, user, "reopen", 403, true},
        {host, k, "reopen", 404, true},     {other, admin, "reopen", 200, false},
        {host, user, "close", 403, false},  {other, k, "close", 404, false},
        {host, admin, "close", 200, true},  {other, user, NULL, 201, false},
        {other, m, "reopen", 200, false},   {other, m, "close", 200, true},
    };

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const char *now = text("[{'closed':%s}]", steps[i].closed ? "true" : "false");
        int64_t unread = talk_unread(host, user, user->email);
        const char *path = text("/api/chat/conversations/%jd/%s", talk.id, steps[i].what);

        ck_status(steps[i].what ? http(steps[i].on, "POST", path, steps[i].by->token, NULL)
                                : talk_post(steps[i].on, steps[i].by, &talk, user->email, "wait"),
                  steps[i].status);
        ask(user, 200, now, "%s", list);
        ask(user, 200, steps[i].closed ? now : "[]", "%s&closed=true", list);
        ask(user, 200, steps[i].closed ? "[]" : now, "%s&closed=false", list);
        ck_assert_int_eq(talk_unread(host, user, user->email), unread);
    }
    talk = talk_start(host, k, "closed.by.m@shop.example", m->email, NULL);
    ask(m, 200, "{'success':true}", "POST /api/chat/conversations/%jd/close", talk.id);
}

/* ---- the owner of a conversation started by an Admin ---- */

static struct talk start_by_admin(const char *email, const char *name)
{
    return talk_start(host, admin, ADMIN_EMAIL, email, name);
}

TEST(an_admins_conversation_with_an_account_belongs_to_its_organization)
{
    struct talk talk = start_by_admin(k->email, NULL);
    struct person *colleague = person_make(host, admin, "owners.k2", "ApiUser");

    ck_status(talk_chain(host, k, &talk, ""), 200);
    share(colleague, &talk, 404);
    share(k, &talk, 200);
}

TEST(an_admins_conversation_with_a_platforms_user_belongs_to_the_platform)
{
    const char *user = "reached@shop.example";

    talk_start(host, m, user, "x@shop.example", NULL);
    talk_start(host, k, "y@shop.example", user, NULL);
    struct talk talk = start_by_admin(user, "reached");

    ck_status(talk_chain(host, k, &talk, ""), 200);
    ck_error(talk_chain(host, m, &talk, ""), 404, "");
    ck_assert_int_eq(talk_unread(host, k, user), 2);
    ck_status(talk_post(host, k, &talk, user, "a word in reply"), 201);
}

TEST(an_admins_conversation_about_a_device_belongs_to_its_owner)
{
    ask(m, 201, NULL, "POST /api/device {'externalId':'%s','siteName':'%s'}", "owners-device-1",
        "Owners' Site");
    struct talk by_site = start_by_admin("unknown1@shop.example", "Owners' Site");
    struct talk by_id = start_by_admin("unknown2@shop.example", "owners-device-1");
    struct talk by_none = start_by_admin("unknown3@shop.example", "no device");

    ck_status(talk_chain(host, m, &by_site, ""), 200);
    ck_status(talk_chain(host, m, &by_id, ""), 200);
    ck_error(talk_chain(host, m, &by_none, ""), 404, "");
    /* The module device is not loaded on the other host. */
    struct talk elsewhere =
        talk_start(other, admin, ADMIN_EMAIL, "unknown4@shop.example", "Owners' Site");

    ck_error(talk_chain(other, m, &elsewhere, ""), 404, "");
}

STAGE_SUITE(chat_owners, set_up, 60)
