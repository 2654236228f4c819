/* The live stream: who receives which messages, on two hosts with one database. The unit test
 * http_streams has heartbeats and HEAD. */
#include "live.h"

enum { ROUNDS_MAX = 10 };

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

static const char *typing_of(const struct talk *talk, const char *username)
{
    return text("{\"conversationId\":%jd,\"username\":\"%s\"}", talk->id, username);
}

/*
 * Reads the events up to the message `end`. The other events must say that these people type, in
 * this order. Returns whether all are there: while a host opens its connection for notifications
 * again, it misses notifications, and events of typing are not stored.
 */
static bool all_typed(struct sse *sse, const struct talk *talk, const char *end,
                      const char *const *usernames)
{
    bool complete = true;

    for (;; usernames++) {
        struct sse_event *event = sse_next(sse, SOON_MS);

        ck_assert(event && event->name);
        if (strcmp(event->name, "typing") != 0) {
            ck_assert_str_eq(sse_entry(event), end);
            return complete && !*usernames;
        }
        ck_assert(!event->id);
        for (; *usernames && strcmp(event->data, typing_of(talk, *usernames)) != 0; usernames++)
            complete = false;
        ck_assert_msg(*usernames, "unexpected event: %s", event->data);
    }
}

/* Returns whether all events of a new conversation have reached the streams. */
static bool typing_reaches(const struct person *user, const struct person *stranger)
{
    static const char first[] = "typing@shop.example", ready[] = "all streams are up to date";
    struct talk talk = talk_start(host, platform, first, user->email, NULL);
    struct sse *own = live_listen(other, user, NULL), *theirs = live_listen(other, admin, NULL);
    struct sse *organization = live_listen(host, platform, NULL);
    struct sse *nothing = live_listen(host, stranger, NULL);

    live_post(host, &talk, first, ready);
    live_expect(own, ready);
    live_expect(theirs, ready);
    live_expect(organization, ready);
    type(host, platform, &talk, first, 204);
    type(host, user, &talk, user->email, 204);
    type(other, admin, &talk, admin->email, 204);
    type(host, stranger, &talk, stranger->email, 404);
    type(host, user, &talk, first, 403);
    live_post(host, &talk, first, "end");
    bool all = all_typed(own, &talk, "end", (const char *[]){first, admin->email, NULL});
    const char *const everybody[] = {first, user->email, admin->email, NULL};

    all = all_typed(theirs, &talk, "end", everybody) && all;
    all = all_typed(organization, &talk, "end", everybody) && all;
    live_silence(nothing);
    ck_assert_uint_eq(talk_length(host, admin, &talk), 3);
    sse_close(own);
    sse_close(theirs);
    sse_close(organization);
    sse_close(nothing);
    return all;
}

TEST(typing_reaches_the_streams_of_others_on_both_hosts)
{
    struct person *user = person_with_role(host, admin, "typing-user", "User");
    struct person *stranger = person_with_role(host, admin, "typing-stranger", "User");
    int rounds = 1;

    for (; !typing_reaches(user, stranger); rounds++)
        ck_assert_int_lt(rounds, ROUNDS_MAX);
}

/* Types 20 times, in one conversation or in several, and returns the number of events. */
static int64_t type_often(const struct person *user, bool several)
{
    enum { REQUESTS = 20 };
    const int64_t limit_ms = several ? 100 : 3000;
    struct talk talks[REQUESTS];
    int64_t count = 0;

    for (int i = 0; i < REQUESTS; i++)
        talks[i] = i && !several
                       ? talks[0]
                       : talk_start(host, platform, "limit@shop.example", user->email, NULL);
    struct sse *sse = live_listen(other, admin, NULL);
    struct sse_event *event;

    live_post(host, talks, "limit@shop.example", "begin");
    live_expect(sse, "begin");
    int64_t began = now_ms();

    for (int i = 0; i < REQUESTS; i++)
        type(host, user, &talks[i], user->email, 204);
    int64_t most = 1 + (now_ms() - began) / limit_ms;

    live_post(host, talks, "limit@shop.example", "end");
    for (; (event = sse_next(sse, SOON_MS)) && !strcmp(event->name, "typing"); count++)
        ck_assert(several || !strcmp(event->data, typing_of(talks, user->email)));
    ck_assert_ptr_nonnull(event);
    ck_assert_str_eq(sse_entry(event), "end");
    ck_assert_int_le(count, most);
    sse_close(sse);
    return count;
}

/* An account types in one conversation (0), or in several (1). The events can be lost, as above. */
TEST_EACH(typing_of_an_account_is_limited, 2)
{
    struct person *user = person_with_role(host, admin, text("typing-limit%d", _i), "User");
    int rounds = 1;

    for (; !type_often(user, _i == 1); rounds++)
        ck_assert_int_lt(rounds, ROUNDS_MAX);
}

LIVE_SUITE(stream)
