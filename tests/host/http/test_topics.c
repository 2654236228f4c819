/* Streams of any module on several loops and hosts. The unit test http_streams has one loop, and
 * the suite stream_end reloads. */
#include "exchange.h"
#include "sse.h"
#include "talk.h"

enum { SOON_MS = 5000, SILENT_MS = 300, CROWD = 40, BIG = 50000, TRIES_MAX = 10 };

static struct host *host, *other;

static struct host *start(const char *name)
{
    return host_start(
        &(struct host_spec){.name = name,
                            .database = "topics",
                            .modules = text("[health, \"%s\"]", harness_test_module("module_live")),
                            .http = "  loops: 2\n  connections_per_address: 1000\n"});
}

static void set_up(void)
{
    database_make(the_postgres, "topics");
    host = start("topics");
    other = start("topics-other");
}

static struct sse *listen_on(const struct host *on, const char *path)
{
    struct sse *sse = sse_open_at(on, path, "nobody's", NULL, 0);

    ck_assert_int_eq(sse->status, 200);
    return sse;
}

static int64_t tell(const struct host *on, const char *path, const char *text)
{
    return answer_int(ck_status(http(on, "POST", path, NULL, json_pack("{ss}", "text", text)), 200),
                      "count");
}

static void expect_data(struct sse *sse, const char *data)
{
    const struct sse_event *event = sse_next(sse, SOON_MS);

    ck_assert_msg(event && event->data && !strcmp(event->data, data), "no %s", data);
}

static void expect_none(struct sse *sse)
{
    ck_assert_ptr_null(sse_within(sse, SILENT_MS));
    ck_assert(!sse->ended);
}

TEST(streams_on_all_loops_receive_every_event_in_order)
{
    struct sse *crowd[CROWD];

    for (int i = 0; i < CROWD; i++)
        crowd[i] = listen_on(host, "/live/crowd");
    for (int i = 0; i < CROWD; i++)
        ck_assert_int_eq(tell(host, "/live/crowd", text("event %d", i)), CROWD);
    for (int i = 0; i < CROWD; i++) {
        for (int j = 0; j < CROWD; j++)
            expect_data(crowd[i], text("event %d", j));
        sse_close(crowd[i]);
    }
}

TEST(a_stream_in_several_topics_of_an_event_receives_it_once)
{
    struct sse *a = listen_on(host, "/live/one"), *b = listen_on(host, "/live/two");
    struct sse *both = listen_on(host, "/live/one?also=two");

    ck_assert_int_eq(tell(host, "/live/one?also=two", "once"), 3);
    ck_assert_int_eq(tell(host, "/live/two?also=nobody", "then"), 2);
    expect_data(a, "once");
    expect_none(a);
    expect_data(b, "once");
    expect_data(b, "then");
    expect_data(both, "once");
    expect_data(both, "then");
    expect_none(both);
}

/* The module is notified that the queue is full, and the stream joins again later. */
TEST(a_stream_with_a_full_queue_can_catch_up_later)
{
    const char *big = text_repeated("x", BIG);
    struct sse *reads = listen_on(host, "/live/patient");
    struct sse *slow = sse_open_at(host, "/live-patient/patient", "nobody's", NULL, 2048);
    int64_t count = 2;
    int sent = 0;

    ck_assert_int_eq(slow->status, 200);
    while (count == 2 && sent < 200) {
        count = tell(host, "/live/patient", big);
        sent += count == 2;
        expect_data(reads, big);
    }
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(tell(host, "/live/patient", "missed"), 1);
    expect_data(reads, "missed");
    for (int i = 0; i < sent; i++)
        expect_data(slow, big);
    expect_none(slow);
    WAIT_UNTIL(answer_int(ask(NULL, 200, NULL, "POST /live-patient/patient"), "count") == 1,
               SOON_MS);
    expect_data(slow, "caught up");
    ck_assert_int_eq(tell(host, "/live/patient", "after"), 2);
    expect_data(slow, "after");
    expect_data(reads, "after");
}

/* A worker of the module keeps joining all of its streams, under the module's own lock. */
TEST(joining_a_topic_while_the_client_disconnects_uses_no_freed_stream)
{
    enum { ROUNDS = 30, TOGETHER = 20 };
    struct sse *sse[TOGETHER];

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < TOGETHER; i++)
            sse[i] = listen_on(host, "/live-joined");
        for (int i = 0; i < TOGETHER; i++)
            sse_close(sse[i]);
    }
    ck_assert_int_eq(tell(host, "/live/none", "nobody"), 0);
}

static bool is_far(const struct sse_event *event)
{
    return event && event->data && !strcmp(event->data, "far");
}

/* While a host opens its connection for notifications again, it misses notifications. So the event
 * is sent until both streams have it. */
TEST(a_channel_delivers_events_to_all_hosts)
{
    struct sse *here = listen_on(host, "/live/all"), *there = listen_on(other, "/live/all");

    bool here_has = false, there_has = false;

    for (int i = 0; i < TRIES_MAX && !(here_has && there_has); i++) {
        ask(NULL, 200, NULL, "POST /live/all?all=true {'text':'far'}");
        here_has = here_has || is_far(sse_within(here, SOON_MS));
        there_has = there_has || is_far(sse_within(there, SOON_MS));
    }
    ck_assert(here_has && there_has);
    ck_assert_int_eq(tell(other, "/live/all", "near"), 1);
    const struct sse_event *event;

    while (is_far(event = sse_next(there, SOON_MS)))
        ;
    ck_assert(event && !strcmp(event->data, "near"));
    while ((event = sse_within(here, SILENT_MS)))
        ck_assert(is_far(event));
    ck_assert(!here->ended);
}

SUITE(topics, .timeout_s = 60, .before_all = set_up)
