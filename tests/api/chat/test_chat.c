/* A conversation from its start to the read mark, and the limits of sizes, names and pages. */
#include "stage.h"
#include "talk.h"

enum { MIB = 1048576, LONG = 120 };

#define EMOJI "\xF0\x9F\x98\x80"  /* U+1F600: 4 bytes */
#define ESCAPED "\\ud83d\\ude00"  /* the same character in 12 bytes */
#define MIXED "\xc3\xa4\"\n\\x\t" /* some are escaped in JSON */

static struct person *platform;

/* Large requests take long on a slow machine. */
static void set_up(void)
{
    stage_open(&(struct host_spec){
        .name = "chat", .http = "  deadline: 60000\n", .db = "  statement_timeout: 60000\n"});
    platform = person_make(host, admin, "platform", NULL);
}

static const char *names(const char *user)
{
    return ck_status(talk_of(host, platform, "unread-devices", user, ""), 200)->body;
}

static void post(const struct talk *talk, const struct person *by, const char *user,
                 const char *entry)
{
    ck_status(talk_post(host, by, talk, user, entry), 201);
}

static void reply(const struct talk *talk, const char *entry)
{
    post(talk, admin, ADMIN_EMAIL, entry);
}

TEST(a_started_conversation_has_its_first_message)
{
    struct answer *answer = ck_status(talk_try(host, platform, "starter@shop.example", ADMIN_EMAIL,
                                               "Rooftop 1", "the very first"),
                                      201);
    const json_t *conversation = json_object_get(answer->json, "conversation");
    const json_t *message = json_object_get(answer->json, "message");
    const json_t *uuid = json_object_get(message, "uuid");

    ck_assert_str_eq(keys_of(conversation),
                     "id participant1 participant2 headUuid lastEntryUuid deviceProjectName");
    ck_assert_str_eq(keys_of(message), "uuid username chatEntry createdAt");
    ck_assert(json_equal(uuid, json_object_get(conversation, "headUuid")));
    ck_assert(json_equal(uuid, json_object_get(conversation, "lastEntryUuid")));
    expect_json(message, "{'username':'starter@shop.example','chatEntry':'the very first'}");
}

TEST(messages_of_both_participants_form_one_chain)
{
    const char *user = "chain@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, "Rooftop 2");

    for (int i = 1; i < 6; i++) {
        struct answer *answer =
            ck_status(talk_post(host, i % 2 ? admin : platform, &talk, i % 2 ? ADMIN_EMAIL : user,
                                text("chain entry %d", i)),
                      201);

        ck_assert_str_eq(keys_of(answer->json), "uuid username chatEntry nextEntryUuid createdAt");
        expect_json(answer->json, "{'nextEntryUuid':null}");
    }
    const json_t *chain = ck_status(talk_chain(host, platform, &talk, ""), 200)->json;

    ck_assert_uint_eq(json_array_size(chain), 6);
    for (size_t i = 1; i < 6; i++) {
        const json_t *entry = json_array_get(chain, i);

        expect_json(entry, text("{'chatEntry':'chain entry %zu'}", i));
        ck_assert(json_equal(json_object_get(json_array_get(chain, i - 1), "nextEntryUuid"),
                             json_object_get(entry, "uuid")));
    }
    expect_json(json_array_get(chain, 5), "{'nextEntryUuid':null}");
}

TEST(unread_messages_are_counted_per_participant_until_read)
{
    const char *user = "unread@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, "Rooftop 3");
    int64_t before = talk_unread(host, admin, ADMIN_EMAIL);

    ck_assert_int_eq(talk_unread(host, platform, user), 0);
    post(&talk, platform, user, "unread entry 2");
    ck_assert_int_eq(talk_unread(host, admin, ADMIN_EMAIL), before + 1);
    reply(&talk, "unread entry 3");
    reply(&talk, "unread entry 4");
    ck_assert_int_eq(talk_unread(host, platform, user), 2);
    ck_error(talk_read(host, platform, &talk, "third@shop.example"), 403, "");
    for (int i = 0; i < 2; i++) {
        struct answer *marked = talk_read(host, platform, &talk, "UNREAD@shop.example");

        ck_assert_str_eq(ck_status(marked, 200)->body, "{\"success\":true}");
        ck_assert_int_eq(talk_unread(host, platform, user), 0);
        ck_assert_str_eq(names(user), "[]");
    }
    ck_assert_int_eq(talk_unread(host, admin, ADMIN_EMAIL), before + 1);
    reply(&talk, "unread entry 5");
    ck_assert_int_eq(talk_unread(host, platform, user), 1);
}

TEST(devices_with_unread_messages_are_listed_once_newest_first)
{
    const char *user = "devices@shop.example";
    struct talk first = talk_start(host, platform, user, ADMIN_EMAIL, "Device A");
    struct talk second = talk_start(host, platform, user, ADMIN_EMAIL, "Device B");
    struct talk third = talk_start(host, platform, user, ADMIN_EMAIL, "Device A");

    ck_assert_str_eq(names(user), "[]");
    reply(&first, "device entry 1");
    reply(&third, "device entry 2");
    reply(&second, "device entry 3");
    ck_assert_str_eq(names(user), "[\"Device B\",\"Device A\"]");
}

/* The order is kept however close two activities are in time. */
TEST(conversations_and_participants_are_listed_by_latest_activity)
{
    const char *user = "moment@shop.example", *other = "moment.other@shop.example";
    struct talk talks[3];

    for (int i = 0; i < 3; i++)
        talks[i] = talk_start(host, platform, user, other, text("Moment %d", i));
    for (int round = 0; round < 150; round++) {
        int last = round % 3, before = (round + 1) % 3, first = (round + 2) % 3;

        post(&talks[before], platform, user, "before");
        post(&talks[last], platform, user, "last");
        expect_json(talk_of(host, platform, "conversations/user", user, "")->json,
                    text("[{'id':%jd},{'id':%jd},{'id':%jd}]", talks[last].id, talks[before].id,
                         talks[first].id));
        ck_assert_str_eq(names(other),
                         text("[\"Moment %d\",\"Moment %d\",\"Moment %d\"]", last, before, first));
    }
}

/* Participants match in either order and any case. */
TEST(find_returns_the_newest_match_or_null)
{
    const char *user = "finder@shop.example";
    const char *const pairs[][2] = {
        {user, ADMIN_EMAIL}, {ADMIN_EMAIL, user}, {"FINDER@Shop.Example ", ADMIN_EMAIL}};

    talk_start(host, platform, user, ADMIN_EMAIL, "Device D");
    struct talk newest = talk_start(host, platform, user, ADMIN_EMAIL, "Device D");
    const char *expected = text("{'id':%jd}", newest.id);

    for (int i = 0; i < 3; i++)
        ask(platform, 200, expected,
            "POST /api/chat/conversations/find {'participant1':'%s','participant2':'%s',"
            "'deviceProjectName':'Device D'}",
            pairs[i][0], pairs[i][1]);
    for (int i = 1; i <= 2; i++)
        ask(platform, 200, expected, "POST /api/chat/conversations/find {'participant%d':'%s'}", i,
            user);
    ck_assert_str_eq(
        talk_find(host, platform, json_pack("{ss}", "deviceProjectName", "none"))->body, "null");
    post(&newest, platform, "Finder@SHOP.example", "any case");
}

TEST(an_absent_and_a_null_device_name_are_both_null)
{
    static const char *const members[] = {"", ",\"deviceProjectName\":null"};

    for (int i = 0; i < 2; i++) {
        const char *user = text("nameless%d@shop.example", i);
        struct answer *answer =
            ask(platform, 201, NULL,
                "POST /api/chat/conversations/start {'participant1':'%s','participant2':'%s',"
                "'username':'%s','chatEntry':'no name'%s}",
                user, ADMIN_EMAIL, user, members[i]);
        const json_t *started = json_object_get(answer->json, "conversation");
        struct answer *found = talk_find(host, platform, json_pack("{ss}", "participant1", user));

        expect_json(started, "{'deviceProjectName':null}");
        ck_assert(json_equal(started, ck_status(found, 200)->json));
        answer = ck_status(talk_of(host, platform, "conversations/user", user, ""), 200);
        ck_assert(json_equal(json_array_get(answer->json, 0), started));
    }
}

TEST(device_names_have_up_to_255_characters)
{
    const char *user = "names@shop.example";

    ck_status(talk_try(host, platform, user, ADMIN_EMAIL, text_repeated(EMOJI, 255), "name"), 201);
    ck_error(talk_try(host, platform, user, ADMIN_EMAIL, text_repeated(EMOJI, 256), "name"), 400,
             "");
}

/* Texts as they are in JSON, and as they are read. */
TEST(a_message_has_up_to_a_mebibyte_and_is_not_blank)
{
    const char *user = "sizes@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    const struct {
        const char *sent, *more, *read; /* read: NULL if it is refused */
        size_t times;
    } texts[] = {
        {EMOJI, "", EMOJI, MIB / 4},
        {EMOJI, "x", NULL, MIB / 4},
        {ESCAPED, "", EMOJI, MIB / 4},
        {ESCAPED, "x", NULL, MIB / 4},
        {"\\u0041", "", "A", MIB},
        {"\\u0041", "", NULL, MIB + 1},
        {"\xc3\xa4\\\"\\n\\\\x\\t", "", MIXED, 100000},
        {"\xe2\x80\xae", "", "\xe2\x80\xae", 1}, /* only U+202E */
        {"", "", NULL, 1},
        {" \\t\\n", "", NULL, 1},
        {"\xc2\xa0", "", NULL, 1},
        {"\xe3\x80\x80", "", NULL, 1},
    };
    size_t stored = 1;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *read = texts[i].read ? text_repeated(texts[i].read, texts[i].times) : NULL;

        ask(platform, read ? 201 : 400, read ? NULL : "{'errors':[{'field':'chatEntry'}]}",
            "POST /api/chat/conversations/%jd/messages {'username':'%s','chatEntry':'%s%s'}",
            talk.id, user, text_repeated(texts[i].sent, texts[i].times), texts[i].more);
        if (!read)
            continue;
        struct answer *last = talk_chain(host, platform, &talk, text("?after=%zu", stored++));
        const json_t *message = json_array_get(ck_status(last, 200)->json, 0);

        ck_assert(!strcmp(json_string_value(json_object_get(message, "chatEntry")), read));
    }
    ck_assert_uint_eq(talk_length(host, platform, &talk), stored);
    ck_status(talk_try(host, platform, user, ADMIN_EMAIL, NULL, text_repeated(EMOJI, MIB / 4)),
              201);
    ck_error(talk_try(host, platform, user, ADMIN_EMAIL, NULL, text_repeated("x", MIB + 1)), 400,
             "");
}

/* Follows Link from a page to the last one; all pages together must be the whole. */
static void expect_pages(const char *path, size_t limit)
{
    const json_t *whole = ask(platform, 200, NULL, "GET %s", path)->json;
    json_t *all = kept(json_array());
    size_t pages = 0;

    EACH_PAGE (page, platform, text("%s?limit=%zu", path, limit)) {
        ck_assert_uint_le(json_array_size(page->json), limit);
        ck_assert_int_eq(json_array_extend(all, page->json), 0);
        pages++;
    }
    ck_assert(json_equal(all, whole));
    ck_assert_uint_eq(pages, (json_array_size(whole) + limit - 1) / limit);
}

/* The chain is longer than one statement's result. */
TEST(the_pages_of_chains_and_lists_are_complete)
{
    const char *user = "pages@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    static const size_t limits[] = {7, 11, 60, LONG, LONG + 1, LONG + 2};
    const char *chain = text("/api/chat/chain/%s", talk.head);

    for (int i = 0; i < LONG; i++)
        post(&talk, platform, user, text("page entry %d", i));
    ck_assert_uint_eq(talk_length(host, platform, &talk), LONG + 1);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        expect_pages(chain, limits[i]);
    EACH_TEXT (pages, text("%s?order=desc", chain), "/api/chat/search?q=page+entry")
        ck_assert_uint_eq(json_array_size(ask(platform, 200, NULL, "GET %s", pages)->json), 50);
    ask(platform, 200, "[]", "GET %s?after=%d", chain, LONG + 1);
    ask(platform, 400, NULL, "GET %s?limit=0", chain);
    ask(platform, 400, NULL, "GET %s?after=-1", chain);
    ask(platform, 400, NULL, "GET /api/chat/chain/no-uuid");
    for (int i = 0; i < 11; i++)
        talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    expect_pages(text("/api/chat/conversations/user/%s", encoded(user)), 5);
    ask(platform, 400, NULL, "GET /api/chat/conversations/user/%s?after=junk", encoded(user));
}

/* A message of 600 KiB fills a page together with the next one. */
TEST(the_latest_messages_come_first_in_pages_of_limited_size)
{
    const char *user = "latest@shop.example", *large = text_repeated("x", 600 * 1024);
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    const char *chain = text("/api/chat/chain/%s", talk.head);

    for (int i = 1; i < 9; i++)
        post(&talk, platform, user, i == 4 || i == 5 ? large : text("latest entry %d", i));
    const json_t *whole = ck_status(talk_chain(host, platform, &talk, ""), 200)->json;
    size_t place = json_array_size(whole), pages = 0;

    EACH_PAGE (page, platform, text("%s?order=desc&limit=3", chain)) {
        size_t i;
        const json_t *message;

        json_array_foreach (page->json, i, message)
            ck_assert(json_equal(message, json_array_get(whole, --place)));
        pages++;
    }
    ck_assert_uint_eq(place, 0);
    ck_assert_uint_eq(pages, 4); /* 9 8 7, 6 5, 4 3 2, 1 by place: 5 and 4 are large */
    ask(platform, 200, "[]", "GET %s?order=desc&before=1", chain);
    ask(platform, 400, NULL, "GET %s?before=3", chain);
    ask(platform, 404, NULL, "GET /api/chat/chain/%s?order=desc",
        "0195f3a0-1111-7222-8333-444455556666");
}

TEST(names_are_shown_to_admins_and_to_others_once_the_participant_has_read)
{
    static const char *const named = "[{'name1':'Given Family','name2':'Given Family'}]";
    struct person *other = person_make(host, admin, "named-olga", "Buyer");
    struct talk talk = talk_start(host, platform, platform->email, other->email, "Named roof");
    const char *found = text("GET /api/chat/conversations?id=%jd&search", talk.id);

    ask(platform, 200, "[{'name1':'Given Family','name2':null}]", "%s=olga", found);
    ask(admin, 200, named, "%s=GIVEN%%20fam", found);
    ask(other, 200, NULL, "PATCH /api/chat/conversations/%jd/read {'email':'%s'}", talk.id,
        other->email);
    ask(platform, 200, named, "%s=GIVEN%%20fam", found);
    ask(platform, 200, "[]", "%s=given%%20name", found);
}

TEST(a_reader_marks_messages_as_unread_from_a_place_on)
{
    const char *reader = "again@shop.example";
    struct talk talk = talk_start(host, platform, platform->email, reader, "Unread roof");
    const char *read = text("PATCH /api/chat/conversations/%jd/read", talk.id);

    for (int i = 2; i < 6; i++) /* the fourth one is the reader's own */
        post(&talk, platform, i == 4 ? reader : platform->email, text("entry %d", i));
    ask(platform, 200, NULL, "%s {'email':'%s'}", read, reader);
    ck_assert_int_eq(talk_unread(host, platform, reader), 0);
    ask(platform, 200, "{'success':true}", "%s {'email':'%s','before':3}", read, reader);
    ck_assert_int_eq(talk_unread(host, platform, reader), 2);
    ask(platform, 200, "['Unread roof']", "GET /api/chat/unread-devices/%s", encoded(reader));
    ask(platform, 200, "[{'unread1':1,'unread2':2}]", "GET /api/chat/conversations?id=%jd",
        talk.id);
    ask(platform, 200, NULL, "%s {'email':'%s','before':5}", read, reader); /* fewer than before */
    ck_assert_int_eq(talk_unread(host, platform, reader), 1);
    ask(platform, 404, NULL, "%s {'email':'%s','before':6}", read, reader);
    ask(platform, 400, NULL, "%s {'email':'%s','before':0}", read, reader);
    ask(platform, 403, NULL, "%s {'email':'else@shop.example','before':1}", read);
    ask(platform, 200, NULL, "%s {'email':'%s','before':1}", read, reader);
    post(&talk, platform, platform->email, "one more");
    ck_assert_int_eq(talk_unread(host, platform, reader), 5);
    ask(platform, 200, NULL, "%s {'email':'%s'}", read, reader);
    ck_assert_int_eq(talk_unread(host, platform, reader), 0);
    for (int more = 10000; more >= -10000; more -= 20000) { /* and back again */
        sql_run(db, text("UPDATE chat_conversation SET entries = entries + %d WHERE id = %jd", more,
                         talk.id));
        if (more > 0)
            ask(platform, 404, "{'message':'*last 10,000'}", "%s {'email':'%s','before':6}", read,
                reader);
    }
}

TEST(all_conversations_that_a_caller_sees_are_listed_with_their_last_message)
{
    struct talk first = talk_start(host, platform, "seen1@shop.example", ADMIN_EMAIL, "Seen roof");
    struct talk second = talk_start(host, platform, "seen2@shop.example", ADMIN_EMAIL, NULL);

    post(&first, platform, "seen1@shop.example", "the latest of the first");
    ask(admin, 200,
        text("[{'id':%jd,'unread1':0,'unread2':2,'organizationId':%jd,'deviceProjectName':"
             "'Seen roof','lastMessage':{'username':'seen1@shop.example','chatEntry':"
             "'the latest of the first'}},{'id':%jd}]",
             first.id, platform->organization, second.id),
        "GET /api/chat/conversations?search=SEEN");
    ask(platform, 200, text("[{'id':%jd}]", first.id),
        "GET /api/chat/conversations?search=seen&limit=1");
    ask(platform, 200, text("[{'id':%jd}]", second.id), "GET /api/chat/conversations?id=%jd",
        second.id);
    ask(platform, 200, "[]", "GET /api/chat/conversations?mine=true&search=seen");
    ask(admin, 200, text("[{'id':%jd},{'id':%jd}]", first.id, second.id),
        "GET /api/chat/conversations?mine=true&search=seen&organizationId=%jd",
        platform->organization);
    ask(admin, 200, "[]", "GET /api/chat/conversations?search=seen&organizationId=999999");
    expect_pages("/api/chat/conversations", 2);
}

STAGE_SUITE(chat, set_up, 60)
