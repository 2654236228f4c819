/* Streams of the fake host: who hears what is published to a topic, until its client leaves. */
#include <busbar/fake.h>
#include <string.h>

#include "suites.h"

static struct bb_fake *fake;
static int closed_count;

static void closed(struct bb_stream *stream, void *arg)
{
    (void)stream;
    (void)arg;
    closed_count++;
}

static int listen_to(struct bb_request *rq)
{
    static const struct bb_stream_options options = {
        .size = sizeof(options), .type = "text/event-stream", .limit = 100, .closed = closed};
    struct bb_stream *stream;
    int status = bb_stream_open(rq, &options, &stream);

    for (int i = 0; i < 2 && status == 200; i++)
        ck_assert_int_eq(bb_stream_join(rq->host, stream, bb_segment(rq, "topic")), 0);
    return status;
}

static const struct bb_field segments[] = {{.name = "topic", .type = BB_TEXT, .max = 60}};

static const struct bb_route routes[] = {
    {.method = "GET",
     .path = "/live/:topic",
     .roles = BB_ANYONE,
     .segments = BB_TABLE(segments),
     .handler = listen_to},
};

static const struct bb_module live = {BB_MODULE_HEAD("live", "1.0.0"), .routes = BB_TABLE(routes)};

static size_t publish(const char *topic, const char *text)
{
    struct bb_host *host = bb_fake_host(fake);
    struct bb_chunk *chunk = bb_chunk_new(host, strlen(text));

    memcpy(chunk->bytes, text, chunk->length);
    size_t count = bb_stream_publish(host, topic, chunk);

    bb_chunk_release(host, chunk);
    return count;
}

START_TEST(streams_hear_the_topics_that_they_have_joined)
{
    fake = bb_fake_new(&live);
    ck_assert_int_eq(bb_fake_open(fake), 0);
    ck_assert_uint_eq(publish("a", "nobody"), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(bb_fake_call(fake, "GET", "/live/a", NULL), 200);
    ck_assert_int_eq(bb_fake_call(fake, "GET", "/live/b", NULL), 200);
    ck_assert_uint_eq(publish("a", "two,"), 2);
    ck_assert_uint_eq(publish("b", "one"), 1);
    ck_assert_str_eq(bb_fake_streamed(fake), "two,two,one");
    bb_fake_leave(fake);
    ck_assert_int_eq(closed_count, 3);
    ck_assert_uint_eq(publish("a", "gone"), 0);
    bb_fake_free(fake);
}
END_TEST

Suite *fake_stream_suite(void)
{
    Suite *suite = suite_create("fake_stream");
    TCase *tests = tcase_create("all");

    tcase_add_test(tests, streams_hear_the_topics_that_they_have_joined);
    suite_add_tcase(suite, tests);
    return suite;
}
