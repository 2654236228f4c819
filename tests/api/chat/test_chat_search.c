/*
 * The search in the texts of messages: what matches, who finds what, the pages, and hostile input.
 * A and B are plain users of two organizations, M is an OrganizationAdmin, K an ApiUser.
 */
#include "stage.h"
#include "talk.h"

static struct host *open_host;
static struct person *m, *k, *a, *b;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "chat_search"});
    open_host = host_start(&(struct host_spec){
        .name = "chat-search-open", .database = "chat_search", .chat = "  ownership: open\n"});
    m = person_make(host, admin, "search.m", NULL);
    k = person_make(host, admin, "search.k", "ApiUser");
    a = person_with_role(host, admin, "search.a", "User");
    b = person_with_role(host, admin, "search.b", "User");
}

static struct answer *search(const struct host *on, const struct person *by, const char *query)
{
    return ck_status(http(on, "GET", text("/api/chat/search?q=%s", query), by->token, NULL), 200);
}

static size_t found(const struct person *by, const char *query)
{
    return json_array_size(search(host, by, query)->json);
}

static struct talk talk_saying(const struct person *by, const char *other, const char *entry)
{
    struct talk talk = talk_start(host, by, by->email, other, "Roof 7");

    ck_status(talk_post(host, by, &talk, by->email, entry), 201);
    return talk;
}

/* ---- what matches ---- */

TEST(a_found_message_has_its_place_author_time_and_text)
{
    struct talk talk = talk_saying(a, b->email, "The Inverter is back, see invoice/2026-77.");
    const json_t *all = search(host, a, "inv%20BACK")->json, *one = json_array_get(all, 0);

    ck_assert_uint_eq(json_array_size(all), 1);
    ck_assert_str_eq(keys_of(one), "uuid conversationId place username excerpt createdAt "
                                   "participant1 participant2 deviceProjectName organizationId "
                                   "name1 name2");
    expect_json(one, text("{'conversationId':%jd,'place':2,'username':'%s','participant1':'%s',"
                          "'participant2':'%s','deviceProjectName':'Roof 7',"
                          "'name1':'Given Family','name2':null,"
                          "'excerpt':'The Inverter is back, see invoice/2026-77.'}",
                          talk.id, a->email, a->email, b->email));
    struct answer *chain = ck_status(talk_chain(host, a, &talk, "?after=1&limit=1"), 200);
    const json_t *entry = json_array_get(chain->json, 0);

    EACH_TEXT (name, "uuid", "createdAt")
        ck_assert(json_equal(json_object_get(one, name), json_object_get(entry, name)));
}

TEST(every_word_must_begin_a_word_of_the_message_in_any_case)
{
    static const struct {
        const char *query;
        size_t count;
    } rows[] = {
        {"wechsel", 1},
        {"richter", 0},
        {"halle+meldet", 1},
        {"halle+nowhere", 0},
        {"FEHLER", 1},
        {"47", 1},
        {"4,812", 1},
        {"fett", 1},
        {"solar", 1},
        {"a@solar.example", 1},
        {"(halle)+%22fehler%22", 1},
        {"%E6%95%85%E9%9A%9C", 1}, /* two characters inside of a text without spaces */
        {"%E6%95%85%E7%94%B5", 0},
        {"%F0%9F%91%8D", 1}, /* an emoji */
        {"%F0%9F%91%8E", 0},
        {"and+line", 1},
        {"na%C3%AFv", 1},
        {"%D7%A9%D7%9C", 1},
        {"o'clock", 1},
    };
    struct person *c = person_with_role(host, admin, "search.c", "User");

    EACH_TEXT (
        pattern,
        "Wechselrichter (Halle 3) meldet \"Fehler_47\": 4,812 kWh <b>fett</b> a@solar.example",
        "\xe7\x94\xb5\xe6\x9c\xba\xe6\x95\x85\xe9\x9a\x9c\xef\xbc\x8c \xf0\x9f\x91\x8d",
        "tab\tand\nline, na\xc3\xafve \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d o'clock")
        talk_saying(c, "partner.of.c@shop.example", pattern);
    for (size_t i = 0; i < COUNT(rows); i++)
        ck_assert_msg(found(c, rows[i].query) == rows[i].count, "%s", rows[i].query);
}

/* Of a long text only the beginning is searched, and only a part around the match returned. */
TEST(a_long_text_is_searched_at_its_beginning_and_cut)
{
    struct person *c = person_with_role(host, admin, "search.long", "User");

    talk_saying(
        c, "partner.of.long@shop.example",
        text("%sneedle %shaystack", text_repeated("hay ", 400), text_repeated("straw ", 400)));
    const json_t *all = search(host, c, "needle")->json;
    const char *excerpt = json_string_value(json_object_get(json_array_get(all, 0), "excerpt"));

    ck_assert_uint_eq(strlen(excerpt), 240 + 2 * strlen("\xe2\x80\xa6"));
    ck_assert(glob_matches(excerpt, "\xe2\x80\xa6*hay needle straw*\xe2\x80\xa6"));
    ck_assert_uint_eq(found(c, "haystack"), 0);
}

/* ---- who finds what ---- */

/* Fails the test unless the caller finds messages of these conversations, however it filters. */
static void finds_only(const struct host *on, const struct person *by, const char *word,
                       const struct talk *talks, const bool *seen, size_t count)
{
    size_t sum = 0, mine = 0;

    for (size_t i = 0; i < count; i++) {
        mine += json_array_size(
            search(on, by, text("%s&mine=true&conversationId=%jd", word, talks[i].id))->json);
        const json_t *one = search(on, by, text("%s&conversationId=%jd", word, talks[i].id))->json;

        ck_assert_msg(json_array_size(one) == seen[i], "%s in %zu", by->email, i);
        sum += seen[i];
    }
    const json_t *all = search(on, by, word)->json, *message;
    size_t at;

    ck_assert_msg(json_array_size(all) == sum, "%s", by->email);
    json_array_foreach (all, at, message) {
        int64_t id = json_integer_value(json_object_get(message, "conversationId"));
        bool own = false;

        for (size_t i = 0; i < count; i++)
            own = own || (seen[i] && talks[i].id == id);
        ck_assert(own);
    }
    ck_assert_uint_eq(json_array_size(search(on, by, text("%s&mine=true", word))->json), mine);
    ck_assert_uint_le(mine, sum);
}

TEST(each_role_finds_only_messages_of_the_conversations_that_it_sees)
{
    struct person *buyer = person_with_role(host, admin, "search.buyer", "Buyer");
    struct person *owner = person_with_role(host, admin, "search.owner", "DeviceOwner");
    struct person *other = person_make(host, admin, "search.k2", "ApiUser");
    const char *x = "x@shop.example", *y = "y@shop.example";
    struct talk talks[] = {
        talk_start(host, k, x, y, NULL),
        talk_start(host, m, x, y, NULL),
        talk_start(host, a, a->email, x, NULL),
        talk_start(host, a, a->email, b->email, NULL),
        talk_start(host, k, y, m->email, NULL),
        talk_start(host, owner, owner->email, x, NULL),
        talk_start(host, admin, ADMIN_EMAIL, buyer->email, NULL),
    };
    const struct person *const authors[] = {k, m, a, b, k, owner, admin};
    const char *const names[] = {x, x, a->email, b->email, y, owner->email, ADMIN_EMAIL};
    const struct {
        const struct person *who;
        bool seen[COUNT(talks)];
    } rows[] = {
        {admin, {1, 1, 1, 1, 1, 1, 1}}, {k, {1, 0, 0, 0, 1, 0, 0}},
        {m, {0, 1, 0, 0, 1, 0, 0}},     {a, {0, 0, 1, 1, 0, 0, 0}},
        {b, {0, 0, 0, 1, 0, 0, 0}},     {owner, {0, 0, 0, 0, 0, 1, 0}},
        {buyer, {0, 0, 0, 0, 0, 0, 1}}, {other, {0, 0, 0, 0, 0, 0, 0}},
    };
    static const bool all[COUNT(talks)] = {1, 1, 1, 1, 1, 1, 1};

    for (size_t i = 0; i < COUNT(talks); i++)
        ck_status(talk_post(host, authors[i], &talks[i], names[i], "a rolesword here"), 201);
    for (size_t i = 0; i < COUNT(rows); i++)
        finds_only(host, rows[i].who, "rolesword", talks, rows[i].seen, COUNT(talks));
    finds_only(open_host, b, "rolesword", talks, all, COUNT(talks));
    ck_assert_uint_eq(found(admin, "rolesword&mine=true"), 1);
    ck_assert_uint_eq(found(m, "rolesword&mine=true"), 1);
    ck_assert_uint_eq(found(admin, text("rolesword&organizationId=%jd", m->organization)), 1);
    ck_assert_uint_eq(found(b, text("rolesword&organizationId=%jd", m->organization)), 0);
    ask(NULL, 401, "Unauthorized", "GET /api/chat/search?q=rolesword");
}

TEST(a_withheld_conversation_is_found_once_it_is_shared)
{
    const char *email = "search.late@example.com";
    struct talk talk = talk_start(host, k, email, ADMIN_EMAIL, NULL);
    struct person *late = person_register(host, "search.late", NULL);

    ck_status(talk_post(host, k, &talk, email, "a withheldword"), 201);
    ck_status(person_change(host, admin, late, "status", "Active"), 200);
    person_login(host, late);
    ck_assert_uint_eq(found(late, "withheldword"), 0);
    ck_assert_uint_eq(found(late, "withheldword&mine=true"), 0);
    ck_assert_uint_eq(found(late, text("withheldword&conversationId=%jd", talk.id)), 0);
    ck_assert_uint_eq(found(k, "withheldword"), 1);
    ask(k, 200, NULL, "POST /api/chat/conversations/%jd/share", talk.id);
    ck_assert_uint_eq(found(late, "withheldword"), 1);
    ck_assert_uint_eq(found(late, "withheldword&mine=true"), 1);
}

TEST(an_account_finds_nothing_more_once_its_rights_have_ended)
{
    struct person *boss = person_make(host, admin, "search.boss", NULL);
    struct talk talk = talk_start(host, boss, "u@shop.example", "v@shop.example", NULL);

    ck_status(talk_post(host, boss, &talk, "u@shop.example", "an endedword"), 201);
    ck_assert_uint_eq(found(boss, "endedword"), 1);
    ck_status(person_change(host, admin, boss, "role", "User"), 200);
    ck_assert_uint_eq(found(boss, "endedword"), 0);
    ck_status(person_change(host, admin, boss, "role", "OrganizationAdmin"), 200);
    ck_assert_uint_eq(found(boss, "endedword"), 1);
    sql_run(db, text("DELETE FROM chat_conversation WHERE id = %jd", talk.id));
    ck_assert_uint_eq(found(boss, "endedword"), 0);
    ck_assert_uint_eq(found(admin, "endedword"), 0);
    ck_status(person_change(host, admin, boss, "status", "Suspended"), 200);
    ask(boss, 403, "Your account has been suspended", "GET /api/chat/search?q=endedword");
    ck_status(person_change(host, admin, boss, "status", "Deleted"), 200);
    ask(boss, 401, NULL, "GET /api/chat/search?q=endedword");
}

/* ---- pages ---- */

/* Follows Link to the end; returns the excerpts, each followed by a space. */
static const char *pages(const struct person *by, const char *query, size_t *count)
{
    const char *all = "";

    *count = 0;
    EACH_PAGE (page, by, text("/api/chat/search?q=%s", query)) {
        const json_t *message;
        size_t i;

        json_array_foreach (page->json, i, message)
            all = text("%s%s ", all, json_string_value(json_object_get(message, "excerpt")));
        ++*count;
    }
    return all;
}

TEST(the_newest_matches_of_all_conversations_come_first_in_pages)
{
    struct person *c = person_with_role(host, admin, "search.pages", "User");
    struct talk talks[3];
    size_t count;

    for (int i = 0; i < 3; i++)
        talks[i] = talk_start(host, c, c->email, text("p%d@shop.example", i), NULL);
    for (int i = 0; i < 11; i++) {
        ck_status(talk_post(host, c, &talks[i % 3], c->email, text("pageword%d", i)), 201);
        ck_status(talk_post(host, c, &talks[i % 3], c->email, "another"), 201);
    }
    /* Some have the same time, so that the time alone does not give the order. */
    sql_run(db,
            "UPDATE chat_entry SET created_at = '2026-01-01' WHERE chat_entry LIKE 'pageword_'");
    const char *whole = pages(c, "pageword", &count);

    ck_assert_uint_eq(count, 1);
    ck_assert(glob_matches(whole, "pageword10 pageword*"));
    ck_assert_uint_eq(found(c, "pageword"), 11);
    ck_assert_str_eq(pages(c, "pageword&limit=2", &count), whole);
    ck_assert_uint_eq(count, 6);
    ck_assert_str_eq(pages(c, "pageword&limit=11", &count), whole);
    ck_assert_uint_eq(count, 1);
}

/* The older conversations are on the next pages, also if a page has no match. */
TEST(a_page_reads_a_limited_number_of_messages_and_conversations)
{
    struct person *c = person_with_role(host, admin, "search.limits", "User");
    struct talk older = talk_saying(c, "o@shop.example", "limitword1");
    struct talk newer = talk_saying(c, "n@shop.example", "limitword2");
    size_t count;

    ck_assert_str_eq(pages(c, "limitword", &count), "limitword2 limitword1 ");
    ck_assert_uint_eq(count, 1);
    sql_run(db, text("UPDATE chat_conversation SET entries = 20000 WHERE id = %jd", newer.id));
    ck_assert_str_eq(pages(c, "limitword", &count), "limitword2 limitword1 ");
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(pages(c, "limitword1", &count), "limitword1 ");
    ck_assert_uint_eq(count, 2);
    sql_run(db, text("UPDATE chat_conversation SET entries = 20002 WHERE id = %jd", newer.id));
    ck_assert_str_eq(pages(c, "limitword", &count), "limitword1 ");
    sql_run(db, text("INSERT INTO chat_conversation (id, entries, last_at, unread1, unread2,"
                     " head_uuid, last_entry_uuid, participant1, participant2)"
                     " SELECT 7000000 + g, 0, now(), 0, 0, gen_random_uuid(), gen_random_uuid(),"
                     " '%s', 'many@shop.example' FROM generate_series(1, 5000) g",
                     c->email));
    ck_assert_str_eq(pages(c, "limitword1&mine=true", &count), "limitword1 ");
    ck_assert_uint_eq(count, 3);
    ck_status(talk_chain(host, c, &older, ""), 200);
}

/* ---- hostile input ---- */

TEST(hostile_searches_find_nothing_or_are_refused)
{
    struct person *c = person_with_role(host, admin, "search.hostile", "User");

    talk_saying(c, "h@shop.example", "an ordinary message_of %d [words]");
    EACH_TEXT (query, "%25", "_", "%5C", "'", "%22", "%27%20OR%201=1%20--", ":*", "%26", "%7C", "!",
               "*", ".*", "(", "[", "%5B%5E", "%7B1", "%5Cy", "%E2%80%A6", "%E2%80%AE", "%CC%81",
               "'':*%20%26%20!zz", "%3C-%3E%20zz", "zz%00zz", "%01%02", "zz%25", "_zz",
               "%EF%BF%BF") {
        struct answer *answer =
            http(host, "GET", text("/api/chat/search?q=%s", query), c->token, NULL);

        if (answer->status == 400)
            ck_error(answer, 400, "");
        else
            ck_assert_msg(answer->status == 200 && !strcmp(answer->body, "[]"), "%s: %ld %s", query,
                          answer->status, answer->body);
    }
    EACH_TEXT (query, "", "+", "%09", "%00", "%FF", "%ED%A0%80", "a&limit=0", "a&limit=x",
               "a&after=junk", "a&after=1-2-3-4", "a&after=1-2-3-4-5-6", "a&after=-1-2-3-4-5",
               "a&after=0-0-253402300800000000-1-1", "a&conversationId=0", "a&conversationId=x",
               "a&organizationId=-1", "a&mine=maybe")
        ask(c, 400, NULL, "GET /api/chat/search?q=%s", query);
    ask(c, 400, "{'errors':[{'field':'q'}]}", "GET /api/chat/search");
    ask(c, 400, "{'errors':[{'field':'q'}]}", "GET /api/chat/search?q=%s",
        text_repeated("word+", 1500));
    ask(c, 400, "{'errors':[{'field':'q'}]}", "GET /api/chat/search?q=%s", text_repeated("a+", 40));
    ask(c, 400, "{'errors':[{'field':'q'}]}", "GET /api/chat/search?q=%s", text_repeated("x", 101));
    ask(c, 200, "[]", "GET /api/chat/search?q=%s", text_repeated("z+", 30));
    ask(c, 200, "[]", "GET /api/chat/search?q=a&after=1-1-1-1-1");
}

SUITE(chat_search, .timeout_s = 120, .before_all = set_up, .before_each = stage_connect,
      .after_each = stage_disconnect)
