/* A conversation from its start to the read mark: the normal use of all eight chat endpoints. */
#include <stdlib.h>
#include <string.h>

#include "people.h"
#include "suite.h"
#include "suites.h"

static struct host *host;
static struct person *admin, *platform;

static void set_up(void)
{
    host = host_start(
        &(struct host_spec){.name = "chat", .database = database_make(the_postgres, "chat")});
    admin = admin_of(host);
    platform = person_make(host, admin, "platform", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

static struct answer *start(const char *user, const char *other, const char *device,
                            const char *entry)
{
    return http(host, "POST", "/api/chat/conversations/start", platform->token,
                json_pack("{ss ss ss ss ss?}", "participant1", user, "participant2", other,
                          "username", user, "chatEntry", entry, "deviceProjectName", device));
}

struct conversation {
    int64_t id;
    const char *head;
};

static struct conversation begin(const char *user, const char *device, const char *entry)
{
    struct answer *answer = ck_status(start(user, ADMIN_EMAIL, device, entry), 201);
    const json_t *conversation = json_object_get(answer->json, "conversation");

    return (struct conversation){
        json_integer_value(json_object_get(conversation, "id")),
        text("%s", json_string_value(json_object_get(conversation, "headUuid")))};
}

static struct answer *post(const struct conversation *to, const struct person *by,
                           const char *username, const char *entry)
{
    return http(host, "POST", text("/api/chat/conversations/%jd/messages", (intmax_t)to->id),
                by->token, json_pack("{ss ss}", "username", username, "chatEntry", entry));
}

static int64_t answer_int_in(const struct answer *answer, const char *object, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(answer->json, object), key));
}

static int64_t unread(const char *email, const struct person *by)
{
    const char *path = text("/api/chat/unread-count/%s", encoded(email));

    return answer_int(ck_status(http(host, "GET", path, by->token, NULL), 200), "count");
}

static void expect_keys(const json_t *object, const char *keys)
{
    char *found = text("%s", "");
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value) found =
        text("%s%s%s", found, *found ? " " : "", key);
    ck_assert_str_eq(found, keys);
}

TEST(a_started_conversation_has_its_first_message)
{
    struct answer *answer =
        ck_status(start("starter@shop.example", ADMIN_EMAIL, "Rooftop 1", "the very first"), 201);
    const json_t *conversation = json_object_get(answer->json, "conversation");
    const json_t *message = json_object_get(answer->json, "message");

    expect_keys(conversation,
                "id participant1 participant2 headUuid lastEntryUuid deviceProjectName");
    expect_keys(message, "uuid username chatEntry createdAt");
    ck_assert_str_eq(json_string_value(json_object_get(message, "uuid")),
                     json_string_value(json_object_get(conversation, "headUuid")));
    ck_assert_str_eq(json_string_value(json_object_get(message, "uuid")),
                     json_string_value(json_object_get(conversation, "lastEntryUuid")));
    ck_assert_str_eq(json_string_value(json_object_get(message, "chatEntry")), "the very first");
}

TEST(messages_of_both_sides_form_one_chain)
{
    const char *user = "chain@shop.example";
    struct conversation talk = begin(user, "Rooftop 2", "chain entry 0");

    for (int i = 1; i < 6; i++) {
        bool mine = i % 2 == 0;
        struct answer *answer = post(&talk, mine ? platform : admin, mine ? user : ADMIN_EMAIL,
                                     text("chain entry %d", i));

        ck_status(answer, 201);
        expect_keys(answer->json, "uuid username chatEntry nextEntryUuid createdAt");
        ck_assert(json_is_null(json_object_get(answer->json, "nextEntryUuid")));
    }
    struct answer *chain =
        http(host, "GET", text("/api/chat/chain/%s", talk.head), platform->token, NULL);

    ck_status(chain, 200);
    ck_assert_uint_eq(json_array_size(chain->json), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *entry = json_array_get(chain->json, i);
        const json_t *next = json_object_get(entry, "nextEntryUuid");
        const json_t *following =
            i < 5 ? json_object_get(json_array_get(chain->json, i + 1), "uuid") : json_null();

        ck_assert_str_eq(json_string_value(json_object_get(entry, "chatEntry")),
                         text("chain entry %zu", i));
        ck_assert(json_equal(next, following));
    }
}

/* The messages are too large for a loop to write them itself. */
TEST(a_chain_of_large_messages_is_whole)
{
    const char *user = "large@shop.example", *piece = "\xc3\xa4\"\n\\x";
    char *entry = kept(calloc(100000, strlen(piece) + 1));

    for (size_t i = 0; i < 100000; i++)
        memcpy(entry + i * strlen(piece), piece, strlen(piece));
    struct conversation talk = begin(user, "Rooftop 2b", "first");

    for (int i = 0; i < 3; i++)
        ck_status(post(&talk, platform, user, entry), 201);
    struct answer *chain =
        http(host, "GET", text("/api/chat/chain/%s", talk.head), platform->token, NULL);

    ck_status(chain, 200);
    ck_assert_uint_eq(json_array_size(chain->json), 4);
    for (size_t i = 1; i < 4; i++)
        ck_assert_str_eq(
            json_string_value(json_object_get(json_array_get(chain->json, i), "chatEntry")), entry);
}

TEST(unread_messages_are_counted_until_they_are_read)
{
    const char *user = "unread@shop.example";
    struct conversation talk = begin(user, "Rooftop 3", "unread entry 1");
    int64_t before = unread(ADMIN_EMAIL, admin);
    const char *read = text("/api/chat/conversations/%jd/read", (intmax_t)talk.id);

    ck_assert_int_eq(unread(user, platform), 0);
    ck_status(post(&talk, platform, user, "unread entry 2"), 201);
    ck_assert_int_eq(unread(ADMIN_EMAIL, admin), before + 1);
    ck_status(post(&talk, admin, ADMIN_EMAIL, "unread entry 3"), 201);
    ck_status(post(&talk, admin, ADMIN_EMAIL, "unread entry 4"), 201);
    ck_assert_int_eq(unread(user, platform), 2);
    struct answer *marked =
        http(host, "PATCH", read, platform->token, json_pack("{ss}", "email", user));

    ck_assert_str_eq(ck_status(marked, 200)->body, "{\"success\":true}");
    ck_assert_int_eq(unread(user, platform), 0);
    ck_assert_int_eq(unread(ADMIN_EMAIL, admin), before + 1);
}

TEST(devices_with_unread_messages_are_named_once_newest_first)
{
    const char *user = "devices@shop.example";
    const char *path = text("/api/chat/unread-devices/%s", encoded(user));
    struct conversation first = begin(user, "Device A", "device entry 1");
    struct conversation second = begin(user, "Device B", "device entry 2");
    struct conversation third = begin(user, "Device A", "device entry 3");

    ck_assert_str_eq(ck_status(http(host, "GET", path, platform->token, NULL), 200)->body, "[]");
    ck_status(post(&first, admin, ADMIN_EMAIL, "device entry 4"), 201);
    ck_status(post(&third, admin, ADMIN_EMAIL, "device entry 5"), 201);
    ck_status(post(&second, admin, ADMIN_EMAIL, "device entry 6"), 201);
    ck_assert_str_eq(ck_status(http(host, "GET", path, platform->token, NULL), 200)->body,
                     "[\"Device B\",\"Device A\"]");
}

TEST(conversations_are_listed_by_latest_activity)
{
    const char *user = "lister@shop.example";
    const char *path = text("/api/chat/conversations/user/%s", encoded(user));
    struct conversation first = begin(user, "Device C", "listed entry 1");
    struct conversation second = begin(user, NULL, "listed entry 2");

    ck_status(post(&first, platform, user, "listed entry 3"), 201);
    struct answer *list = ck_status(http(host, "GET", path, platform->token, NULL), 200);

    ck_assert_uint_eq(json_array_size(list->json), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(list->json, 0), "id")),
                     first.id);
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(list->json, 1), "id")),
                     second.id);
    ck_assert(json_is_null(json_object_get(json_array_get(list->json, 1), "deviceProjectName")));
}

/* The order is kept however close two activities are in time. */
TEST(activities_of_one_moment_keep_their_order)
{
    const char *user = "moment@shop.example", *other = "moment.other@shop.example";
    const char *list = text("/api/chat/conversations/user/%s", encoded(user));
    const char *names = text("/api/chat/unread-devices/%s", encoded(other));
    struct conversation talks[3];

    for (int i = 0; i < 3; i++) {
        struct answer *answer = ck_status(start(user, other, text("Moment %d", i), "first"), 201);

        talks[i].id = answer_int_in(answer, "conversation", "id");
    }
    for (int round = 0; round < 150; round++) {
        int last = round % 3;

        ck_status(post(&talks[(round + 1) % 3], platform, user, "before"), 201);
        ck_status(post(&talks[last], platform, user, "last"), 201);
        const json_t *listed = ck_status(http(host, "GET", list, platform->token, NULL), 200)->json;
        const json_t *named = ck_status(http(host, "GET", names, platform->token, NULL), 200)->json;

        ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(listed, 0), "id")),
                         talks[last].id);
        ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(listed, 1), "id")),
                         talks[(round + 1) % 3].id);
        ck_assert_str_eq(json_string_value(json_array_get(named, 0)), text("Moment %d", last));
    }
}

TEST(find_gives_the_newest_match_or_null)
{
    const char *user = "finder@shop.example", *path = "/api/chat/conversations/find";

    begin(user, "Device D", "found entry 1");
    struct conversation newest = begin(user, "Device D", "found entry 2");
    struct answer *found = http(host, "POST", path, platform->token,
                                json_pack("{ss ss ss}", "participant1", ADMIN_EMAIL, "participant2",
                                          user, "deviceProjectName", "Device D"));

    ck_assert_int_eq(answer_int(ck_status(found, 200), "id"), newest.id);
    found = http(host, "POST", path, platform->token,
                 json_pack("{ss}", "deviceProjectName", "no such device"));
    ck_assert_str_eq(ck_status(found, 200)->body, "null");
}

TEST(what_does_not_fit_is_refused)
{
    struct conversation talk = begin("refused@shop.example", "Device E", "refused entry 1");
    struct conversation unknown = {INT64_C(987654321), NULL};

    ck_error(start("same@shop.example", "same@shop.example", NULL, "refused entry 2"), 400, "");
    ck_error(start("blank@shop.example", ADMIN_EMAIL, NULL, "  "), 400, "");
    ck_error(post(&talk, platform, "third@shop.example", "refused entry 3"), 403, "");
    ck_error(post(&unknown, platform, "refused@shop.example", "refused entry 4"), 404, "");
    ck_error(http(host, "GET", "/api/chat/chain/019a0000-0000-7000-8000-000000000000",
                  platform->token, NULL),
             404, "");
    ck_error(http(host, "GET", "/api/chat/chain/no-uuid", platform->token, NULL), 400, "");
}

TEST(a_foreign_conversation_looks_like_an_unknown_one)
{
    struct conversation talk = begin("owned@shop.example", "Device F", "owned entry 1");
    struct person *stranger = person_make(host, admin, "stranger", NULL);
    const char *read = text("/api/chat/conversations/%jd/read", (intmax_t)talk.id);

    ck_error(post(&talk, stranger, stranger->email, "owned entry 2"), 404, "");
    ck_error(http(host, "GET", text("/api/chat/chain/%s", talk.head), stranger->token, NULL), 404,
             "");
    ck_error(
        http(host, "PATCH", read, stranger->token, json_pack("{ss}", "email", stranger->email)),
        404, "");
    ck_assert_int_eq(unread("owned@shop.example", stranger), 0);
}

TEST(a_repeated_key_creates_nothing_twice)
{
    struct conversation talk = begin("retry@shop.example", "Device G", "retry entry 1");
    static const char *const headers[] = {"Idempotency-Key: retry-1", NULL};
    struct call call = {.method = "POST",
                        .path = text("/api/chat/conversations/%jd/messages", (intmax_t)talk.id),
                        .token = platform->token,
                        .body =
                            "{\"username\":\"retry@shop.example\",\"chatEntry\":\"retry entry 2\"}",
                        .headers = headers};
    struct answer *first = ck_status(http_send(host, &call), 201);
    struct answer *again = ck_status(http_send(host, &call), 201);

    ck_assert_str_eq(first->body, again->body);
    call.body = "{\"username\":\"retry@shop.example\",\"chatEntry\":\"retry entry 3\"}";
    ck_error(http_send(host, &call), 422, "");
    struct answer *chain =
        http(host, "GET", text("/api/chat/chain/%s", talk.head), platform->token, NULL);

    ck_assert_uint_eq(json_array_size(ck_status(chain, 200)->json), 2);
}

SUITE(chat, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
