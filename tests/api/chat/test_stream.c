/* The live stream: who receives which messages, on two hosts with one database. The unit test
 * http_streams has heartbeats and HEAD. */
#include "live.h"

TEST(events_reach_streams_on_both_hosts_with_the_specified_keys)
{
    struct sse *here = live_listen(host, platform, NULL),
               *there = live_listen(other, platform, NULL);
    struct talk talk = talk_start(host, platform, "keys@shop.example", ADMIN_EMAIL, "Roof");

    live_post(other, &talk, "keys@shop.example", "one more");
    for (int i = 0; i < 2; i++) {
        struct sse *sse = i ? there : here;
        struct sse_event *created = sse_next(sse, SOON_MS), *message = sse_next(sse, SOON_MS);

        ck_assert(created && message);
        ck_assert_str_eq(created->name, "conversation.created");
        ck_assert_str_eq(keys_of(created->json), "conversation message");
        ck_assert_str_eq(keys_of(json_object_get(created->json, "conversation")),
                         "id participant1 participant2 deviceProjectName");
        ck_assert_str_eq(keys_of(json_object_get(created->json, "message")),
                         "uuid username chatEntry");
        ck_assert_str_eq(message->name, "message.new");
        ck_assert_str_eq(keys_of(message->json), "conversationId message deviceProjectName");
        ck_assert_str_eq(keys_of(json_object_get(message->json, "message")),
                         "uuid username chatEntry createdAt");
        ck_assert_str_eq(sse_entry(message), "one more");
        live_silence(sse);
        ck_assert(strstr(sse->headers, "Content-Type: text/event-stream"));
        ck_assert(
            strstr(sse->headers, "Access-Control-Allow-Origin: https://platform.example\r\n"));
        sse_close(sse);
    }
}

TEST(a_stream_has_only_conversations_visible_to_its_caller)
{
    struct person *user = person_with_role(host, admin, "stream-user", "User");
    struct person *stranger = person_make(host, admin, "stream-stranger", NULL);
    struct sse *all = live_listen(host, admin, NULL), *own = live_listen(other, user, NULL);
    struct sse *organization = live_listen(host, platform, NULL);
    struct sse *nothing = live_listen(other, stranger, NULL);
    struct talk hidden = talk_start(host, platform, "a@shop.example", "b@shop.example", NULL);
    struct talk mine = talk_start(host, platform, "a@shop.example", user->email, NULL);

    sse_next(all, SOON_MS);
    sse_next(all, SOON_MS);
    sse_next(organization, SOON_MS);
    sse_next(organization, SOON_MS);
    ck_assert_ptr_nonnull(sse_next(own, SOON_MS));
    live_post(host, &hidden, "a@shop.example", "not for the user");
    live_post(other, &mine, "a@shop.example", "for the user");
    live_expect(all, "not for the user");
    live_expect(all, "for the user");
    live_expect(organization, "not for the user");
    live_expect(organization, "for the user");
    live_expect(own, "for the user");
    live_silence(own);
    live_silence(nothing);
    const char *id = nothing->last_id; /* later positions come without an event */

    WAIT_UNTIL((sse_within(nothing, 50), nothing->last_id != id), SOON_MS);
}

static void type(const struct host *on, const struct person *who, const struct talk *talk,
                 const char *username, long status)
{
    ask_on(on, who, status, NULL, "POST /api/chat/conversations/%jd/typing {'username':'%s'}",
           talk->id, username);
}

static void expect_typing(struct sse *sse, const struct talk *talk, const char *username)
{
    struct sse_event *event = sse_next(sse, SOON_MS);

    ck_assert(event && event->name && !event->id);
    ck_assert_str_eq(event->name, "typing");
    ck_assert_str_eq(event->data,
                     text("{\"conversationId\":%jd,\"username\":\"%s\"}", talk->id, username));
}

TEST(typing_reaches_the_streams_of_others_on_both_hosts)
{
    struct person *user = person_with_role(host, admin, "typing-user", "User");
    struct person *stranger = person_with_role(host, admin, "typing-stranger", "User");
    struct sse *own = live_listen(other, user, NULL), *nothing = live_listen(host, stranger, NULL);
    struct talk talk = talk_start(host, platform, "typing@shop.example", user->email, NULL);
    struct sse *theirs = live_listen(other, admin, NULL),
               *organization = live_listen(host, platform, NULL);

    ck_assert_ptr_nonnull(sse_next(own, SOON_MS));
    live_post(host, &talk, "typing@shop.example", "all streams are up to date");
    live_expect(own, "all streams are up to date");
    live_expect(theirs, "all streams are up to date");
    live_expect(organization, "all streams are up to date");
    type(host, platform, &talk, "typing@shop.example", 204);
    expect_typing(own, &talk, "typing@shop.example");
    type(host, user, &talk, user->email, 204);
    expect_typing(theirs, &talk, "typing@shop.example");
    expect_typing(theirs, &talk, user->email);
    expect_typing(organization, &talk, "typing@shop.example");
    expect_typing(organization, &talk, user->email);
    live_silence(own);
    live_silence(nothing);
    type(host, stranger, &talk, stranger->email, 404);
    type(host, user, &talk, "typing@shop.example", 403);
    type(other, admin, &talk, admin->email, 204);
    expect_typing(own, &talk, admin->email);
    ck_assert_uint_eq(talk_length(host, admin, &talk), 2);
}

/* An account types in one conversation (0), or in several (1). */
TEST_EACH(typing_of_an_account_is_limited, 2)
{
    enum { REQUESTS = 20 };
    static const int64_t limits_ms[] = {3000, 100};
    struct person *user = person_with_role(host, admin, text("typing-limit%d", _i), "User");
    struct talk talks[REQUESTS];
    int64_t count = 1;

    for (int i = 0; i < REQUESTS; i++)
        talks[i] = i && !_i ? talks[0]
                            : talk_start(host, platform, "limit@shop.example", user->email, NULL);
    struct sse *sse = live_listen(other, admin, NULL);

    live_post(host, talks, "limit@shop.example", "begin");
    live_expect(sse, "begin");
    int64_t began = now_ms();

    type(host, user, talks, user->email, 204);
    expect_typing(sse, talks, user->email);
    for (int i = 1; i < REQUESTS; i++)
        type(host, user, &talks[i], user->email, 204);
    int64_t most = 1 + (now_ms() - began) / limits_ms[_i];

    live_post(host, talks, "limit@shop.example", "end");
    for (struct sse_event *event = NULL; !event || strcmp(event->name, "typing") == 0; count++)
        ck_assert_ptr_nonnull(event = sse_next(sse, SOON_MS));
    ck_assert_int_le(count - 1, most);
}

LIVE_SUITE(stream)
