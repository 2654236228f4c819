/*
 * Access to conversations and the right to speak as a person, scoped and open.
 * A and B are plain users of two organizations, M is an OrganizationAdmin in an organization like
 * A's, K an ApiUser.
 */
#include "stage.h"
#include "talk.h"

#define FIND "POST /api/chat/conversations/find"

static struct host *open_host;
static struct person *m, *k, *a, *b;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "chat_rules"});
    open_host = host_start(&(struct host_spec){
        .name = "chat-open", .database = "chat_rules", .chat = "  ownership: open\n"});
    m = person_make(host, admin, "rules.m", NULL);
    k = person_make(host, admin, "rules.k", "ApiUser");
    a = person_with_role(host, admin, "rules.a", "User");
    b = person_with_role(host, admin, "rules.b", "User");
}

static struct talk talk_of_a(const char *device)
{
    return talk_start(host, a, a->email, "partner.of.a@shop.example", device);
}

/* Fails the test unless the caller gets this count of the e-mail's unread messages, and these names
 * and conversations (JSON). */
static void sees(const struct person *by, const char *email, int count, const char *names,
                 const char *talks)
{
    ask(by, 200, text("{'count':%d}", count), "GET /api/chat/unread-count/%s", email);
    ask(by, 200, names, "GET /api/chat/unread-devices/%s", email);
    ask(by, 200, talks, "GET /api/chat/conversations/user/%s", email);
}

/* Requests about another person's e-mail are never refused, but return only the
 * conversations that the caller may see. */
TEST(lists_for_another_email_have_only_conversations_of_the_caller)
{
    struct talk talk = talk_of_a("O01"), shared = talk_start(host, a, a->email, b->email, "O02");
    const char *one = text("[{'id':%jd}]", shared.id);

    ck_status(talk_post(host, b, &shared, b->email, "O02 entry"), 201);
    sees(b, a->email, 1, "['O02']", one);
    sees(m, a->email, 0, "[]", "[]");
    sees(k, a->email, 0, "[]", "[]");
    sees(b, "partner.of.a@shop.example", 0, "[]", "[]");
    ask(admin, 200, text("[{'id':%jd},{'id':%jd}]", shared.id, talk.id),
        "GET /api/chat/conversations/user/%s?limit=2", a->email);
    ck_status(talk_read(host, a, &shared, a->email), 200);
    sees(b, a->email, 0, "[]", one);
}

/* The same e-mail may talk to two platforms: each sees its own part, an Admin sees both. */
TEST(lists_for_a_shared_email_have_only_the_platforms_own_conversations)
{
    const char *shared = "shared.user@shop.example";
    struct talk of_k = talk_start(host, k, shared, ADMIN_EMAIL, "seen by K");
    struct talk of_m = talk_start(host, m, shared, ADMIN_EMAIL, "seen by M");

    ck_status(talk_post(host, admin, &of_k, ADMIN_EMAIL, "shared entry 1"), 201);
    ck_status(talk_post(host, admin, &of_m, ADMIN_EMAIL, "shared entry 2"), 201);
    ck_status(talk_post(host, admin, &of_m, ADMIN_EMAIL, "shared entry 3"), 201);
    sees(k, shared, 1, "['seen by K']", "[{}]");
    sees(m, shared, 2, "['seen by M']", "[{}]");
    sees(admin, shared, 3, "['seen by M','seen by K']", "[{},{}]");
}

/* The Admin uses its own e-mail without being a participant; the message is unread for both
 * participants. */
TEST(an_admin_may_write_in_any_conversation)
{
    const char *user = "helped@shop.example", *other = "helper@shop.example";
    struct talk talk = talk_start(host, k, user, other, "helped");

    ck_status(talk_read(host, k, &talk, other), 200);
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "from the Admin"), 201);
    sees(k, user, 1, "['helped']", "[{}]");
    sees(k, other, 1, "['helped']", "[{}]");
    ck_assert_uint_eq(talk_length(host, k, &talk), 2);
    ck_error(talk_post(host, admin, &talk, "third@shop.example", "as a third"), 403, "");
    ck_error(talk_post(host, k, &talk, ADMIN_EMAIL, "as the Admin"), 403, "");
    ck_error(talk_read(host, admin, &talk, ADMIN_EMAIL), 403, "");
}

/* Other people's conversations look as if they did not exist, and are not
 * changed. A chain is found only by its head. */
TEST(a_conversation_of_others_is_404_and_unchanged)
{
    struct talk talk = talk_of_a("O03"), none = {INT64_C(987654321), NULL};
    struct answer *second = ck_status(talk_post(host, a, &talk, a->email, "O04 entry"), 201);
    struct talk middle = {talk.id, text("%s", answer_text(second, "uuid"))};

    ck_error(talk_chain(host, a, &middle, ""), 404, "");
    ck_error(talk_chain(host, b, &talk, ""), 404, "");
    struct answer *foreign = ck_error(talk_post(host, b, &talk, b->email, "O05 entry"), 404, "");
    struct answer *unknown = ck_error(talk_post(host, b, &none, b->email, "O05 entry"), 404, "");

    ck_assert_str_eq(answer_text(foreign, "message"), answer_text(unknown, "message"));
    ck_error(talk_post(host, b, &talk, a->email, "O05 entry as A"), 404, "");
    ck_error(talk_read(host, b, &talk, a->email), 404, "");
    ck_error(talk_read(host, a, &talk, b->email), 403, "");
    ck_assert_uint_eq(talk_length(host, a, &talk), 2);
    talk = talk_start(host, a, a->email, b->email, "O07");
    ck_error(talk_post(host, a, &talk, b->email, "O07 entry"), 403, "");
    ck_assert_uint_eq(talk_length(host, a, &talk), 1);
}

/* A user starts only conversations that it is in; participants differ and need no account. */
TEST(a_user_may_start_only_conversations_that_it_takes_part_in)
{
    const struct {
        const char *user, *other;
        long status;
    } rows[] = {
        {"one@shop.example", "two@shop.example", 403},
        {b->email, "two@shop.example", 403},
        {b->email, a->email, 403},
        {a->email, text("  %s ", a->email), 400},
        {a->email, "not an e-mail", 400},
        {a->email, "nobody@shop.example", 201},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_status(talk_try(host, a, rows[i].user, rows[i].other, NULL, "O08 entry"),
                  rows[i].status);
}

/* Names are found literally. */
TEST(find_returns_only_conversations_of_the_caller_with_the_literal_name)
{
    struct talk mine = talk_of_a("O11-name"), literal;
    const char *id = text("{'id':%jd}", mine.id);

    talk_start(host, b, b->email, "partner.of.b@shop.example", "O11-name");
    ask(a, 200, id, FIND " {}");
    ask(a, 200, id, FIND " {'deviceProjectName':'O11-name'}");
    ask(a, 200, "null", FIND " {'participant1':'partner.of.b@shop.example'}");
    EACH_TEXT (pattern, "%", "_", "*", "O11_name", "O11%", "' OR 1=1 --")
        ask(a, 200, "null", FIND " {'deviceProjectName':'%s'}", pattern);
    literal = talk_of_a("100 % of_*");
    ask(a, 200, text("{'id':%jd}", literal.id), FIND " {'deviceProjectName':'100 %% of_*'}");
}

/* An external platform speaks for its end users, but never for accounts of other organizations. */
TEST(platforms_may_write_for_their_own_end_users_only)
{
    struct talk talk = talk_start(host, k, "end.user@shop.example", ADMIN_EMAIL, "platform");

    ck_status(talk_post(host, k, &talk, "end.user@shop.example", "platform entry"), 201);
    ck_error(talk_post(host, k, &talk, ADMIN_EMAIL, "platform entry"), 403, "");
    ck_error(talk_try(host, k, a->email, "end.user@shop.example", NULL, "platform entry"), 403, "");
    ck_error(talk_chain(host, m, &talk, ""), 404, "");
    ck_error(talk_post(host, m, &talk, "end.user@shop.example", "platform entry"), 404, "");
    ck_status(talk_read(host, k, &talk, "end.user@shop.example"), 200);
}

TEST(open_ownership_disables_the_scoping)
{
    struct talk talk = talk_of_a("open");

    ck_status(talk_of(open_host, b, "conversations/user", a->email, ""), 200);
    ck_status(talk_chain(open_host, b, &talk, ""), 200);
    ck_status(talk_post(open_host, b, &talk, a->email, "open entry"), 201);
    ck_status(talk_read(open_host, b, &talk, a->email), 200);
    ck_error(talk_post(open_host, b, &talk, b->email, "open entry"), 403, "");
    ck_error(talk_chain(host, b, &talk, ""), 404, "");
}

/* ---- organizations ---- */

/* Starts a conversation with an organization in the query and in the body; 0: none. */
static void start_in(const struct person *by, int64_t query, int64_t body, long status,
                     const char *expected)
{
    ask(by, status, expected,
        "POST /api/chat/conversations/start%s {'participant1':'%s','chatEntry':'hello',"
        "'participant2':'partner@shop.example','username':'%s'%s}",
        query ? text("?organizationId=%jd", query) : "", by->email, by->email,
        body ? text(",\"organizationId\":%jd", body) : "");
}

TEST(organization_id_must_exist_and_is_for_accounts_that_may_act_in_it)
{
    static const char told[] = "{'warnings':['organizationId: *']}";
    static const char none[] = "{'warnings':'(absent)'}";
    int64_t own = m->organization, foreign = k->organization;

    start_in(m, 0, own, 201, none);
    start_in(m, 0, foreign, 201, told);
    start_in(admin, 0, own, 201, none);
    start_in(admin, 0, 987654321, 404, "Organization not found");
    /* the query counts if the body names no organization */
    start_in(m, foreign, 0, 201, told);
    start_in(m, foreign, own, 201, none);
    start_in(m, own, 0, 201, none);
}

/* Without the parameter, the organization of the conversation would have to be guessed. */
TEST(an_api_user_of_several_organizations_must_name_one)
{
    struct person *platform = person_make(host, admin, "rules.several", "ApiUser");

    start_in(platform, 0, 0, 201, NULL);
    int64_t second = answer_int(
        ask(platform, 201, NULL, "POST /api/organization {'name':'Second of rules.several'}"),
        "id");

    start_in(platform, 0, 0, 400, "{'errors':[{'field':'organizationId'}]}");
    start_in(platform, 0, platform->organization, 201, NULL);
    start_in(platform, 0, second, 201, NULL);
    start_in(platform, 0, k->organization, 403, "You may not act in this organization");
    start_in(admin, 0, second, 201, NULL);
}

SUITE(chat_rules, .timeout_s = 60, .before_all = set_up)
