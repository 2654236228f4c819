/* Limits of chat: sizes, null, the order of participants, pages, marks. */
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "suites.h"
#include "talk.h"

enum { MIB = 1048576 };

#define EMOJI "\xF0\x9F\x98\x80" /* U+1F600: 4 bytes */
#define ESCAPED "\\ud83d\\ude00" /* the same in 12 */

static struct host *host;
static struct person *admin, *platform;

static void set_up(void)
{
    host = host_start(&(struct host_spec){.name = "chat-limits",
                                          .database = database_make(the_postgres, "chat_limits")});
    admin = admin_of(host);
    platform = person_make(host, admin, "limits.platform", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

static char *repeated(const char *part, size_t times, const char *end)
{
    size_t length = strlen(part);
    char *whole = kept(malloc(length * times + strlen(end) + 1));

    for (size_t i = 0; i < times; i++)
        memcpy(whole + i * length, part, length);
    memcpy(whole + length * times, end, strlen(end) + 1);
    return whole;
}

/* Posts a text in the form in which it is to be in the JSON. */
static struct answer *post_raw(const struct talk *talk, const char *user, const char *entry)
{
    return http_send(
        host,
        &(struct call){.method = "POST",
                       .path = text("/api/chat/conversations/%jd/messages", (intmax_t)talk->id),
                       .token = platform->token,
                       .body = text("{\"username\":\"%s\",\"chatEntry\":\"%s\"}", user, entry)});
}

static void expect_entry_refused(const struct answer *answer)
{
    const json_t *first = json_array_get(json_object_get(answer->json, "errors"), 0);

    ck_assert_str_eq(json_string_value(json_object_get(first, "field")), "chatEntry");
}

/* N07 */
TEST(a_mebibyte_of_emoji_fits_and_one_byte_more_does_not)
{
    const char *user = "emoji@shop.example", *fits = repeated(EMOJI, MIB / 4, "");
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    struct answer *answer = ck_status(post_raw(&talk, user, fits), 201);

    ck_assert(!strcmp(answer_text(answer, "chatEntry"), fits));
    expect_entry_refused(ck_error(post_raw(&talk, user, repeated(EMOJI, MIB / 4, "x")), 400, ""));
    const json_t *chain = ck_status(talk_chain(host, platform, &talk, ""), 200)->json;

    ck_assert_uint_eq(json_array_size(chain), 2);
    ck_assert(
        !strcmp(json_string_value(json_object_get(json_array_get(chain, 1), "chatEntry")), fits));
}

TEST(a_mebibyte_in_escapes_fits_and_one_byte_more_does_not)
{
    const char *user = "escapes@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    struct answer *answer = ck_status(post_raw(&talk, user, repeated(ESCAPED, MIB / 4, "")), 201);

    ck_assert(!strcmp(answer_text(answer, "chatEntry"), repeated(EMOJI, MIB / 4, "")));
    expect_entry_refused(ck_error(post_raw(&talk, user, repeated(ESCAPED, MIB / 4, "x")), 400, ""));
    ck_status(post_raw(&talk, user, repeated("\\u0041", MIB, "")), 201);
    expect_entry_refused(
        ck_error(post_raw(&talk, user, repeated("\\u0041", MIB + 1, "")), 400, ""));
    ck_assert_uint_eq(talk_length(host, platform, &talk), 3);
}

TEST(a_start_has_the_same_limit)
{
    const char *user = "big.start@shop.example";

    ck_status(talk_try(host, platform, user, ADMIN_EMAIL, NULL, repeated(EMOJI, MIB / 4, "")), 201);
    expect_entry_refused(ck_error(
        talk_try(host, platform, user, ADMIN_EMAIL, NULL, repeated(EMOJI, MIB / 4, "x")), 400, ""));
}

TEST(blank_and_missing_texts_are_refused)
{
    const char *user = "blank@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);

    expect_entry_refused(ck_error(post_raw(&talk, user, ""), 400, ""));
    expect_entry_refused(ck_error(post_raw(&talk, user, " \\t\\n"), 400, ""));
    ck_error(post_raw(&talk, user, "a\\u0000b"), 400, "");
    ck_error(post_raw(&talk, user, "\\ud83d"), 400, "");
    ck_assert_uint_eq(talk_length(host, platform, &talk), 1);
}

static void expect_null_name(const char *name_member, const char *user)
{
    struct answer *answer = http_send(
        host, &(struct call){.method = "POST",
                             .path = "/api/chat/conversations/start",
                             .token = platform->token,
                             .body = text("{\"participant1\":\"%s\",\"participant2\":\"" ADMIN_EMAIL
                                          "\",\"username\":\"%s\",\"chatEntry\":\"no name\"%s}",
                                          user, user, name_member)});
    const json_t *started = json_object_get(ck_status(answer, 201)->json, "conversation");
    struct answer *found = talk_find(host, platform, json_pack("{ss}", "participant1", user));
    struct answer *list = talk_of(host, platform, "conversations/user", user, "");

    ck_assert(json_is_null(json_object_get(started, "deviceProjectName")));
    ck_assert(json_is_null(json_object_get(ck_status(found, 200)->json, "deviceProjectName")));
    ck_assert(json_equal(json_array_get(ck_status(list, 200)->json, 0), found->json));
    ck_assert(json_equal(started, found->json));
}

TEST(an_absent_and_a_null_name_are_both_null)
{
    expect_null_name("", "absent@shop.example");
    expect_null_name(",\"deviceProjectName\":null", "null@shop.example");
}

TEST(names_have_up_to_255_characters)
{
    const char *user = "names@shop.example";

    ck_status(talk_try(host, platform, user, ADMIN_EMAIL, repeated(EMOJI, 255, ""), "name 1"), 201);
    ck_error(talk_try(host, platform, user, ADMIN_EMAIL, repeated(EMOJI, 256, ""), "name 2"), 400,
             "");
}

TEST(participants_match_in_either_order_and_any_case)
{
    const char *user = "order@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, "order");
    const char *pairs[][2] = {
        {user, ADMIN_EMAIL}, {ADMIN_EMAIL, user}, {"ORDER@Shop.Example ", ADMIN_EMAIL}};

    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(
            answer_int(ck_status(talk_find(host, platform,
                                           json_pack("{ss ss}", "participant1", pairs[i][0],
                                                     "participant2", pairs[i][1])),
                                 200),
                       "id"),
            talk.id);
    for (int i = 1; i <= 2; i++)
        ck_assert_int_eq(
            answer_int(talk_find(host, platform, json_pack("{ss}", text("participant%d", i), user)),
                       "id"),
            talk.id);
    ck_status(talk_post(host, platform, &talk, "Order@SHOP.example", "any case"), 201);
}

/* Follows Link from a page to the last one; returns all items in one array. */
static json_t *all_pages(const char *path, size_t limit, size_t *pages)
{
    json_t *all = kept(json_array());

    for (*pages = 0; path; ++*pages) {
        ck_assert_uint_lt(*pages, 100);
        struct answer *page = ck_status(http(host, "GET", path, platform->token, NULL), 200);

        ck_assert_uint_le(json_array_size(page->json), limit);
        ck_assert_int_eq(json_array_extend(all, page->json), 0);
        path = next_page(page);
    }
    return all;
}

TEST(the_pages_of_a_chain_are_the_whole_chain)
{
    const char *user = "chain.pages@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    size_t pages;

    for (int i = 0; i < 13; i++)
        ck_status(talk_post(host, platform, &talk, user, text("page entry %d", i)), 201);
    struct answer *whole = ck_status(talk_chain(host, platform, &talk, ""), 200);

    ck_assert_uint_eq(json_array_size(whole->json), 14);
    ck_assert_ptr_null(next_page(whole));
    for (size_t limit = 1; limit <= 15; limit += 3) {
        const json_t *all =
            all_pages(text("/api/chat/chain/%s?limit=%zu", talk.head, limit), limit, &pages);

        ck_assert(json_equal(all, whole->json));
        ck_assert_uint_eq(pages, (14 + limit - 1) / limit);
    }
    ck_assert_str_eq(talk_chain(host, platform, &talk, "?after=14")->body, "[]");
    ck_error(talk_chain(host, platform, &talk, "?limit=0"), 400, "");
    ck_error(talk_chain(host, platform, &talk, "?after=-1"), 400, "");
}

/* They are longer than one statement's result. */
TEST(a_long_chain_and_a_long_list_come_whole)
{
    const char *user = "long@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    size_t pages;

    for (int i = 0; i < 220; i++)
        ck_status(talk_post(host, platform, &talk, user, text("long entry %d", i)), 201);
    struct answer *whole = ck_status(talk_chain(host, platform, &talk, ""), 200);

    ck_assert_uint_eq(json_array_size(whole->json), 221);
    ck_assert(json_equal(all_pages(text("/api/chat/chain/%s?limit=100", talk.head), 100, &pages),
                         whole->json));
    for (int i = 0; i < 220; i++)
        talk_start(host, platform, user, ADMIN_EMAIL, NULL);
    whole = ck_status(talk_of(host, platform, "conversations/user", user, ""), 200);
    ck_assert_uint_eq(json_array_size(whole->json), 221);
    ck_assert(json_equal(
        all_pages(text("/api/chat/conversations/user/%s?limit=50", encoded(user)), 50, &pages),
        whole->json));
    ck_assert_uint_eq(pages, 5);
    ck_error(talk_of(host, platform, "conversations/user", user, "?after=junk"), 400, "");
}

TEST(marking_twice_is_fine_and_touches_one_side_alone)
{
    const char *user = "marks@shop.example";
    struct talk talk = talk_start(host, platform, user, ADMIN_EMAIL, "marks");
    int64_t before = answer_int(talk_of(host, admin, "unread-count", ADMIN_EMAIL, ""), "count");

    for (int i = 0; i < 3; i++)
        ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, text("mark entry %d", i)), 201);
    ck_assert_int_eq(answer_int(talk_of(host, platform, "unread-count", user, ""), "count"), 3);
    for (int i = 0; i < 2; i++)
        ck_assert_str_eq(
            ck_status(talk_read(host, platform, &talk, "MARKS@shop.example"), 200)->body,
            "{\"success\":true}");
    ck_assert_int_eq(answer_int(talk_of(host, platform, "unread-count", user, ""), "count"), 0);
    ck_assert_str_eq(talk_of(host, platform, "unread-devices", user, "")->body, "[]");
    ck_assert_int_eq(answer_int(talk_of(host, admin, "unread-count", ADMIN_EMAIL, ""), "count"),
                     before);
    ck_error(talk_read(host, platform, &talk, "third@shop.example"), 403, "");
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "mark entry again"), 201);
    ck_assert_int_eq(answer_int(talk_of(host, platform, "unread-count", user, ""), "count"), 1);
}

SUITE(chat_limits, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
