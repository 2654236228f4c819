/* The live stream: who gets what, on two hosts of one database; cuts, ends and limits. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "people.h"
#include "sse.h"
#include "suites.h"
#include "talk.h"

enum { SOON_MS = 5000, QUIET_MS = 300 };

static struct host *host, *other;
static struct person *admin, *platform;

static const struct host_spec both = {
    .http = "  cors_origins: [\"https://platform.example\"]\n  idle_timeout: 1\n",
    .chat = "  stream_heartbeat: 1\n  stream_buffer: 64\n",
    .modules = "[auth, chat, health]",
};

static struct host *start_one(const char *name, const char *database)
{
    struct host_spec spec = both;

    spec.name = name;
    spec.database = database;
    return host_start(&spec);
}

static void set_up(void)
{
    const char *database = database_make(the_postgres, "stream");

    host = start_one("stream", database);
    other = start_one("stream-other", database);
    admin = admin_of(host);
    platform = person_make(host, admin, "streaming", NULL);
}

static void tear_down(void)
{
    host_stop(host);
    host_stop(other);
}

static struct sse *listen_to(const struct host *on, const struct person *who, const char *last)
{
    struct sse *sse = sse_open(on, who->token, last, 0);

    ck_assert_msg(sse->status == 200, "%s", sse->headers);
    return sse;
}

static void post(const struct host *on, const struct talk *talk, const char *username,
                 const char *entry)
{
    ck_status(talk_post(on, platform, talk, username, entry), 201);
}

static void expect_entry(struct sse *sse, const char *entry)
{
    struct sse_event *event = sse_next(sse, SOON_MS);

    ck_assert_msg(event, "no event, waiting for \"%s\"%s", entry, sse->ended ? ": ended" : "");
    ck_assert_str_eq(sse_entry(event), entry);
}

static void expect_silence(struct sse *sse)
{
    struct sse_event *event = sse_next(sse, QUIET_MS);

    ck_assert_msg(!event, "an event that should not be: %s", event ? event->data : "");
    ck_assert(!sse->ended);
}

START_TEST(events_reach_streams_on_both_hosts_with_the_keys_of_the_specification)
{
    struct sse *here = listen_to(host, platform, NULL), *there = listen_to(other, platform, NULL);
    struct talk talk = talk_start(host, platform, "keys@shop.example", ADMIN_EMAIL, "Roof");

    post(other, &talk, "keys@shop.example", "one more");
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
        expect_silence(sse);
        ck_assert(strstr(sse->headers, "Content-Type: text/event-stream"));
        ck_assert(
            strstr(sse->headers, "Access-Control-Allow-Origin: https://platform.example\r\n"));
        sse_close(sse);
    }
}

START_TEST(a_stream_has_the_conversations_that_its_caller_may_see)
{
    struct person *user = person_with_role(host, admin, "stream-user", "User");
    struct person *stranger = person_make(host, admin, "stream-stranger", NULL);
    struct sse *all = listen_to(host, admin, NULL), *own = listen_to(other, user, NULL);
    struct sse *organisation = listen_to(host, platform, NULL);
    struct sse *nothing = listen_to(other, stranger, NULL);
    struct talk hidden = talk_start(host, platform, "a@shop.example", "b@shop.example", NULL);
    struct talk mine = talk_start(host, platform, "a@shop.example", user->email, NULL);

    sse_next(all, SOON_MS);
    sse_next(all, SOON_MS);
    sse_next(organisation, SOON_MS);
    sse_next(organisation, SOON_MS);
    ck_assert_ptr_nonnull(sse_next(own, SOON_MS));
    post(host, &hidden, "a@shop.example", "not for the user");
    post(other, &mine, "a@shop.example", "for the user");
    expect_entry(all, "not for the user");
    expect_entry(all, "for the user");
    expect_entry(organisation, "not for the user");
    expect_entry(organisation, "for the user");
    expect_entry(own, "for the user");
    expect_silence(own);
    expect_silence(nothing);
    sse_close(all);
    sse_close(own);
    sse_close(organisation);
    sse_close(nothing);
}

enum { RESUMED = 12 };

START_TEST(a_stream_resumes_behind_any_event_on_any_host)
{
    struct sse *sse = listen_to(host, platform, NULL);
    struct talk talk = talk_start(host, platform, "resume@shop.example", ADMIN_EMAIL, NULL);
    const char *ids[RESUMED];

    sse_next(sse, SOON_MS);
    for (int i = 0; i < RESUMED; i++) {
        post(i % 2 ? host : other, &talk, "resume@shop.example", text("entry %d", i));
        expect_entry(sse, text("entry %d", i));
        ids[i] = sse->last_id;
    }
    sse_close(sse);
    for (int i = 0; i < RESUMED; i++) {
        struct sse *again = listen_to(i % 3 ? other : host, platform, ids[i]);

        for (int next = i + 1; next < RESUMED; next++)
            expect_entry(again, text("entry %d", next));
        ck_assert_ptr_null(sse_next(again, 120));
        sse_close(again);
    }
}

struct posting {
    const struct host *on;
    struct talk *talk;
    const char *who;
    int count;
};

static void *post_many(void *arg)
{
    const struct posting *posting = arg;

    for (int i = 0; i < posting->count; i++)
        talk_post(posting->on, platform, posting->talk, posting->who,
                  text("%s %d", posting->who, i));
    return NULL;
}

enum { EACH = 40 };

/* That each of a writer's messages comes once, in its order, whatever is cut meanwhile. */
static void note(int *seen, const struct sse_event *event)
{
    int writer = 0, number = 0;

    ck_assert_int_eq(sscanf(sse_entry(event), "w%d@shop.example %d", &writer, &number), 2);
    ck_assert_msg(seen[writer] == number, "writer %d: %d came where %d was due", writer, number,
                  seen[writer]);
    seen[writer]++;
}

START_TEST(cuts_under_load_lose_nothing_and_double_nothing)
{
    struct talk talks[2] = {talk_start(host, platform, "w0@shop.example", "w1@shop.example", NULL),
                            talk_start(host, platform, "w2@shop.example", "w3@shop.example", NULL)};
    struct sse *sse = listen_to(host, admin, NULL);
    struct posting postings[4];
    pthread_t threads[4];
    int seen[4] = {0}, total = 0, rounds = 0;

    for (int i = 0; i < 4; i++) {
        postings[i] = (struct posting){i % 2 ? host : other, &talks[i / 2],
                                       text("w%d@shop.example", i), EACH};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_many, &postings[i]), 0);
    }
    while (total < 4 * EACH) {
        struct sse_event *event = sse_next(sse, SOON_MS);

        ck_assert_msg(event, "after %d events none came", total);
        note(seen, event);
        total++;
        if (total % 7 == 0) {
            sse_close(sse);
            sse = listen_to(++rounds % 2 ? other : host, admin, event->id);
        }
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    expect_silence(sse);
    sse_close(sse);
}

START_TEST(who_was_away_for_long_is_read_for_from_the_database)
{
    const char *database = database_make(the_postgres, "stream_long");
    struct host *first = start_one("stream-long", database);
    struct person *root = admin_of(first);
    struct person *writer = person_make(first, root, "longwriter", NULL);
    struct talk talk = talk_start(first, writer, "long@shop.example", ADMIN_EMAIL, NULL);
    struct sse *sse = sse_open(first, root->token, NULL, 0);
    PGconn *db = database_connect(the_postgres, database);

    ck_status(talk_post(first, writer, &talk, "long@shop.example", "last seen"), 201);
    expect_entry(sse, "last seen");
    host_stop(first);
    ck_assert(sse_ends(sse, SOON_MS));
    /* as if other hosts had stored them, in transactions of their own */
    for (int i = 0; i < 1500; i++)
        PQclear(PQexec(db, text("INSERT INTO chat_entry VALUES (%jd, %d, gen_random_uuid(),"
                                " 'long@shop.example', 'missed %d', now())",
                                (intmax_t)talk.id, i + 3, i)));
    PQfinish(db);
    ck_assert(host_run(first));
    sse = sse_open(first, root->token, sse->last_id, 0);
    for (int i = 0; i < 1500; i++)
        expect_entry(sse, text("missed %d", i));
    expect_silence(sse);
    sse_close(sse);
    host_stop(first);
}

START_TEST(ids_that_are_none_are_refused_and_foreign_ones_begin_anew)
{
    static const char *const malformed[] = {
        "x", "1", "1-2", "5-1-9", "1-2-3-4", "-1-1-", "0-0-", "0-5-0", "99999999999999999999-1-"};

    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        struct sse *sse = sse_open(host, platform->token, malformed[i], 0);

        ck_assert_msg(sse->status == 400, "%s: %s", malformed[i], sse->headers);
        sse_close(sse);
    }
    struct sse *sse = listen_to(host, platform, "99999999999-0-");
    struct sse_event *event = sse_next(sse, SOON_MS);

    ck_assert(event && !strcmp(event->name, "reset"));
    struct talk talk = talk_start(host, platform, "anew@shop.example", ADMIN_EMAIL, NULL);
    post(host, &talk, "anew@shop.example", "after the reset");
    ck_assert_ptr_nonnull(sse_next(sse, SOON_MS));
    expect_entry(sse, "after the reset");
    sse_close(sse);
}

START_TEST(a_silent_stream_says_that_it_is_there)
{
    struct sse *sse = listen_to(host, platform, NULL);
    int64_t until = now_ms() + 20000;

    while (sse->comments < 3 && now_ms() < until)
        sse_next(sse, 200);
    ck_assert_uint_ge(sse->comments, 3);
    ck_assert(!sse->ended);
    ck_assert_ptr_nonnull(sse->last_id);
    sse_close(sse);
}

static void expect_end_within_a_second(struct sse *sse)
{
    int64_t from = now_ms();

    ck_assert_msg(sse_ends(sse, SOON_MS), "the stream goes on");
    ck_assert_int_le(now_ms() - from, 1500); /* a second, and half of one for a busy machine */
    ck_assert(sse->complete);
}

START_TEST(a_suspension_ends_the_streams_of_the_account_on_every_host)
{
    struct person *suspended = person_make(host, admin, "stream-suspended", NULL);
    struct sse *here = listen_to(host, suspended, NULL), *there = listen_to(other, suspended, NULL);
    struct sse *untouched = listen_to(other, platform, NULL);

    ck_status(person_change(host, admin, suspended, "status", "Suspended"), 200);
    expect_end_within_a_second(there);
    expect_end_within_a_second(here);
    ck_assert_int_eq(sse_open(other, suspended->token, there->last_id, 0)->status, 403);
    expect_silence(untouched);
    sse_close(untouched);
}

START_TEST(a_logout_ends_the_streams_of_the_session_only)
{
    struct person *leaving = person_make(host, admin, "stream-leaving", NULL);
    const char *first = leaving->token, *second = person_login(host, leaving);
    struct sse *ends = sse_open(other, first, NULL, 0), *stays = sse_open(other, second, NULL, 0);

    ck_status(http(host, "POST", "/api/auth/logout", first, NULL), 200);
    expect_end_within_a_second(ends);
    expect_silence(stays);
    sse_close(stays);
}

START_TEST(another_role_ends_a_stream_that_then_resumes_with_its_rights)
{
    struct person *moving = person_make(host, admin, "stream-moving", NULL);
    struct talk talk = talk_start(host, moving, "moving@shop.example", ADMIN_EMAIL, NULL);
    struct sse *sse = listen_to(host, moving, NULL);

    ck_status(person_change(host, admin, moving, "role", "User"), 200);
    expect_end_within_a_second(sse);
    struct sse *after = sse_open(host, moving->token, sse->last_id, 0);

    ck_assert_int_eq(after->status, 200);
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "not for a User"), 201);
    expect_silence(after);
    sse_close(after);
}

START_TEST(a_slow_reader_is_cut_and_delays_nobody)
{
    struct sse *slow = sse_open(host, platform->token, NULL, 4096);
    struct sse *quick = listen_to(host, platform, NULL);
    struct talk talk = talk_start(host, platform, "slow@shop.example", ADMIN_EMAIL, NULL);
    char *long_text = text("%030000d", 7);

    ck_assert_ptr_nonnull(sse_next(quick, SOON_MS));
    for (int i = 0; i < 40; i++) {
        int64_t from = now_ms();

        post(host, &talk, "slow@shop.example", long_text);
        expect_entry(quick, long_text);
        ck_assert_int_le(now_ms() - from, 2000);
    }
    ck_assert(sse_ends(slow, SOON_MS));
    ck_assert(!slow->complete);
    expect_silence(quick);
    sse_close(quick);
}

static bool takes_a_stream(void *arg)
{
    struct host *on = arg;
    struct sse *sse = sse_open(on, platform->token, NULL, 0);

    sse_close(sse);
    return sse->status == 200;
}

START_TEST(streams_have_a_limit_and_a_client_that_left_makes_room)
{
    struct host_spec spec = both;
    struct sse *open[3];

    spec.name = "stream-few";
    spec.database = "stream";
    spec.http = "  max_streams: 3\n";
    struct host *few = host_start(&spec);

    for (int i = 0; i < 3; i++)
        open[i] = listen_to(few, platform, NULL);
    struct sse *refused = sse_open(few, platform->token, NULL, 0);

    ck_assert_int_eq(refused->status, 503);
    ck_assert(strstr(refused->headers, "Retry-After: "));
    struct linger hard = {.l_onoff = 1};
    setsockopt(open[0]->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    sse_close(open[0]);
    ck_assert(wait_until(takes_a_stream, few, SOON_MS));
    shutdown(open[1]->fd, SHUT_WR);
    ck_assert(wait_until(takes_a_stream, few, SOON_MS));
    host_stop(few);
    ck_assert(sse_ends(open[2], SOON_MS));
    ck_assert(open[2]->complete);
}

START_TEST(an_account_has_a_limit_of_its_own)
{
    struct host_spec spec = both;

    spec.name = "stream-mine";
    spec.database = "stream";
    spec.chat = "  streams_per_account: 2\n";
    struct host *few = host_start(&spec);
    struct sse *one = listen_to(few, platform, NULL), *two = listen_to(few, platform, NULL);

    ck_assert_int_eq(sse_open(few, platform->token, NULL, 0)->status, 429);
    sse_close(listen_to(few, admin, NULL));
    sse_close(one);
    sse_close(two);
    host_stop(few);
}

START_TEST(what_is_no_stream_is_answered_as_everywhere)
{
    ck_status(http(host, "GET", "/api/chat/stream", NULL, NULL), 401);
    ck_status(http(host, "POST", "/api/chat/stream", platform->token, NULL), 405);
    struct call head = {.method = "HEAD", .path = "/api/chat/stream", .token = platform->token};
    ck_status(http_send(host, &head), 200);
}

enum { MANY = 400 };

START_TEST(many_streams_are_served_and_end_at_once_when_the_host_stops)
{
    struct host_spec spec = both;
    struct sse *open[MANY];

    spec.name = "stream-many";
    spec.database = "stream";
    spec.chat = "  streams_per_account: 1000\n";
    struct host *many = host_start(&spec);
    struct talk talk = talk_start(many, platform, "many@shop.example", ADMIN_EMAIL, NULL);

    for (int i = 0; i < MANY; i++)
        open[i] = listen_to(many, i % 2 ? platform : admin, NULL);
    post(host, &talk, "many@shop.example", "to all");
    for (int i = 0; i < MANY; i++)
        expect_entry(open[i], "to all");
    int64_t from = now_ms();

    host_stop(many);
    ck_assert_int_le(now_ms() - from, 4000);
    for (int i = 0; i < MANY; i++) {
        size_t retries = open[i]->retries;

        ck_assert(sse_ends(open[i], SOON_MS));
        ck_assert(open[i]->complete);
        ck_assert_uint_eq(open[i]->retries, retries + 1);
        sse_close(open[i]);
    }
}

START_TEST(a_reload_ends_streams_that_then_resume_without_a_gap)
{
    struct host *reloaded = start_one("stream-reload", "stream");
    struct talk talk = talk_start(reloaded, platform, "reload@shop.example", ADMIN_EMAIL, NULL);
    struct sse *sse = listen_to(reloaded, platform, NULL);

    for (int round = 0; round < 3; round++) {
        int64_t from = now_ms();

        post(reloaded, &talk, "reload@shop.example", text("before %d", round));
        expect_entry(sse, text("before %d", round));
        ck_assert_int_eq(kill(reloaded->pid, SIGHUP), 0);
        post(reloaded, &talk, "reload@shop.example", text("meanwhile %d", round));
        const char *seen = NULL;
        struct sse_event *event;
        while ((event = sse_next(sse, SOON_MS)))
            seen = sse_entry(event);
        ck_assert(sse->ended && sse->complete);
        ck_assert_int_le(now_ms() - from, 4000);
        sse = listen_to(reloaded, platform, sse->last_id);
        if (!seen)
            expect_entry(sse, text("meanwhile %d", round));
        expect_silence(sse);
    }
    sse_close(sse);
    host_stop(reloaded);
}

START_TEST(a_stop_does_not_wait_for_a_reader_that_does_not_read)
{
    struct host *stopped = start_one("stream-stuck", "stream");
    struct sse *stuck = sse_open(stopped, platform->token, NULL, 4096);
    struct talk talk = talk_start(stopped, platform, "stuck@shop.example", ADMIN_EMAIL, NULL);

    for (int i = 0; i < 6; i++)
        ck_status(talk_post(stopped, platform, &talk, "stuck@shop.example", text("%030000d", i)),
                  201);
    int64_t from = now_ms();

    host_stop(stopped);
    ck_assert_int_le(now_ms() - from, 5000);
    sse_close(stuck);
}

START_TEST(a_stream_outlives_an_outage_of_the_database)
{
    struct postgres *own = postgres_make("stream-outage", false);
    struct host_spec spec = both;

    spec.name = "stream-outage";
    spec.pg = own;
    spec.database = database_make(own, "outage");
    struct host *lonely = host_start(&spec);
    struct person *root = admin_of(lonely);
    struct person *writer = person_make(lonely, root, "outage", NULL);
    struct talk talk = talk_start(lonely, writer, "outage@shop.example", ADMIN_EMAIL, NULL);
    struct sse *sse = sse_open(lonely, root->token, NULL, 0);

    ck_status(talk_post(lonely, writer, &talk, "outage@shop.example", "before"), 201);
    expect_entry(sse, "before");
    postgres_stop(own, SIGQUIT);
    expect_silence(sse);
    ck_assert_ptr_null(sse_next(sse, 1500));
    postgres_start(own);
    const char *path = text("/api/chat/conversations/%jd/messages", (intmax_t)talk.id);
    int64_t until = now_ms() + 15000;
    long status = 0;
    while (status != 201 && now_ms() < until)
        status = http(lonely, "POST", path, writer->token,
                      json_pack("{ss ss}", "username", "outage@shop.example", "chatEntry", "after"))
                     ->status;
    ck_assert_int_eq(status, 201);
    expect_entry(sse, "after");
    sse_close(sse);
    host_stop(lonely);
    postgres_stop(own, SIGINT);
}

Suite *stream_suite(void)
{
    Suite *suite = suite_create("stream");
    TCase *tcase = tcase_create("stream");

    tcase_add_unchecked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, events_reach_streams_on_both_hosts_with_the_keys_of_the_specification);
    tcase_add_test(tcase, a_stream_has_the_conversations_that_its_caller_may_see);
    tcase_add_test(tcase, a_stream_resumes_behind_any_event_on_any_host);
    tcase_add_test(tcase, cuts_under_load_lose_nothing_and_double_nothing);
    tcase_add_test(tcase, who_was_away_for_long_is_read_for_from_the_database);
    tcase_add_test(tcase, ids_that_are_none_are_refused_and_foreign_ones_begin_anew);
    tcase_add_test(tcase, a_silent_stream_says_that_it_is_there);
    tcase_add_test(tcase, a_suspension_ends_the_streams_of_the_account_on_every_host);
    tcase_add_test(tcase, a_logout_ends_the_streams_of_the_session_only);
    tcase_add_test(tcase, another_role_ends_a_stream_that_then_resumes_with_its_rights);
    tcase_add_test(tcase, a_slow_reader_is_cut_and_delays_nobody);
    tcase_add_test(tcase, streams_have_a_limit_and_a_client_that_left_makes_room);
    tcase_add_test(tcase, an_account_has_a_limit_of_its_own);
    tcase_add_test(tcase, what_is_no_stream_is_answered_as_everywhere);
    tcase_add_test(tcase, many_streams_are_served_and_end_at_once_when_the_host_stops);
    tcase_add_test(tcase, a_reload_ends_streams_that_then_resume_without_a_gap);
    tcase_add_test(tcase, a_stop_does_not_wait_for_a_reader_that_does_not_read);
    tcase_add_test(tcase, a_stream_outlives_an_outage_of_the_database);
    suite_add_tcase(suite, tcase);
    return suite;
}
