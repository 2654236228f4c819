/* The end of live streams, and their limits. The unit test http_streams has HEAD,
 * and readers that do not read. */
#include <poll.h>
#include <sys/socket.h>

#include "live.h"
#include "wire.h"

static void expect_end(struct sse *sse)
{
    ck_assert_msg(sse_ends(sse, SOON_MS), "the stream goes on");
    ck_assert(sse->complete);
}

TEST(a_suspension_ends_the_account_streams_on_every_host)
{
    struct person *suspended = person_make(host, admin, "stream-suspended", NULL);
    struct sse *here = live_listen(host, suspended, NULL),
               *there = live_listen(other, suspended, NULL);
    struct sse *untouched = live_listen(other, platform, NULL);

    ck_status(person_change(host, admin, suspended, "status", "Suspended"), 200);
    expect_end(there);
    expect_end(here);
    ck_assert_int_eq(sse_open(other, suspended->token, there->last_id, 0)->status, 403);
    live_silence(untouched);
}

TEST(a_logout_ends_only_the_streams_of_its_session)
{
    struct person *leaving = person_make(host, admin, "stream-leaving", NULL);
    const char *first = leaving->token, *second = person_login(host, leaving);
    struct sse *ends = sse_open(other, first, NULL, 0), *stays = sse_open(other, second, NULL, 0);

    ask(bearer(first), 200, NULL, "POST /api/auth/logout");
    expect_end(ends);
    live_silence(stays);
}

TEST(a_changed_role_ends_a_stream_which_resumes_with_the_new_rights)
{
    struct person *moving = person_make(host, admin, "stream-moving", NULL);
    struct talk talk = talk_start(host, moving, "moving@shop.example", ADMIN_EMAIL, NULL);
    struct sse *sse = live_listen(host, moving, NULL);

    ck_status(person_change(host, admin, moving, "role", "User"), 200);
    expect_end(sse);
    struct sse *after = sse_open(host, moving->token, sse->last_id, 0);

    ck_assert_int_eq(after->status, 200);
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "not for a User"), 201);
    live_silence(after);
}

static bool takes_a_stream(struct host *on)
{
    struct sse *sse = sse_open(on, platform->token, NULL, 0);

    sse_close(sse);
    return sse->status == 200;
}

TEST(max_streams_limits_streams_and_a_closed_one_makes_room)
{
    struct host *few = live_host_with("stream-few", "stream_end", "  max_streams: 3\n", "");
    struct sse *open[3];

    for (int i = 0; i < 3; i++)
        open[i] = live_listen(few, platform, NULL);
    struct sse *refused = sse_open(few, platform->token, NULL, 0);

    ck_assert_int_eq(refused->status, 503);
    ck_assert(strstr(refused->headers, "Retry-After: "));
    struct linger hard = {.l_onoff = 1};
    setsockopt(open[0]->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    sse_close(open[0]);
    WAIT_UNTIL(takes_a_stream(few), SOON_MS);
    shutdown(open[1]->fd, SHUT_WR);
    WAIT_UNTIL(takes_a_stream(few), SOON_MS);
    host_stop(few);
    ck_assert(sse_ends(open[2], SOON_MS));
    ck_assert(open[2]->complete);
}

enum { MANY = 400, AT_ONCE = 24 };

/* Returns whether a response that is still being sent begins with 200. */
static bool begins_with_200(const struct wire *wire)
{
    struct pollfd ready = {.fd = wire->fd, .events = POLLIN};
    char line[16] = "";

    ck_assert_int_eq(poll(&ready, 1, SOON_MS * PATIENCE), 1);
    ck_assert_int_ge(recv(wire->fd, line, sizeof line - 1, 0), 12);
    ck_assert_msg(!strncmp(line, "HTTP/1.1 200", 12) || !strncmp(line, "HTTP/1.1 429", 12), "%s",
                  line);
    return line[9] == '2';
}

TEST(streams_per_account_limits_parallel_requests_too)
{
    struct host *few =
        live_host_with("stream-rush", "stream_end", "  loops: 1\n", "  streams_per_account: 2\n");
    struct wire *wires[AT_ONCE];
    int served = 0;

    for (int i = 0; i < AT_ONCE; i++)
        wires[i] = wire_open(few);
    for (int i = 0; i < AT_ONCE; i++)
        wire_say(wires[i],
                 "GET /api/chat/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
                 platform->token);
    for (int i = 0; i < AT_ONCE; i++)
        served += begins_with_200(wires[i]);
    ck_assert_int_eq(served, 2);
    sse_close(live_listen(few, admin, NULL)); /* another account */
    for (int i = 0; i < AT_ONCE; i++)
        wire_close(wires[i], false);
}

TEST(many_streams_are_served_and_end_when_the_host_stops)
{
    struct host *many =
        live_host_with("stream-many", "stream_end", "", "  streams_per_account: 1000\n");
    struct sse *open[MANY];
    struct talk talk = talk_start(many, platform, "many@shop.example", ADMIN_EMAIL, NULL);

    for (int i = 0; i < MANY; i++)
        open[i] = live_listen(many, i % 2 ? platform : admin, NULL);
    live_post(host, &talk, "many@shop.example", "to all");
    for (int i = 0; i < MANY; i++)
        live_expect(open[i], "to all");
    host_stop(many);
    for (int i = 0; i < MANY; i++) {
        size_t retries = open[i]->retries;

        ck_assert(sse_ends(open[i], SOON_MS));
        ck_assert(open[i]->complete);
        ck_assert_uint_eq(open[i]->retries, retries + 1);
        sse_close(open[i]);
    }
}

TEST(streams_ended_by_a_reload_resume_without_a_gap)
{
    struct host *reloaded = live_host("stream-reload", "stream_end");
    struct talk talk = talk_start(reloaded, platform, "reload@shop.example", ADMIN_EMAIL, NULL);
    struct sse *sse = live_listen(reloaded, platform, NULL);

    for (int round = 0; round < 3; round++) {
        live_post(reloaded, &talk, "reload@shop.example", text("before %d", round));
        live_expect(sse, text("before %d", round));
        ck_assert_int_eq(kill(reloaded->pid, SIGHUP), 0);
        live_post(reloaded, &talk, "reload@shop.example", text("meanwhile %d", round));
        const char *seen = NULL;
        struct sse_event *event;
        while ((event = sse_next(sse, SOON_MS)))
            seen = sse_entry(event);
        ck_assert(sse->ended && sse->complete);
        sse = live_listen(reloaded, platform, sse->last_id);
        if (!seen)
            live_expect(sse, text("meanwhile %d", round));
        live_silence(sse);
    }
    sse_close(sse);
}

TEST(a_stream_survives_a_database_outage)
{
    struct postgres *own = postgres_make("stream-outage", false);
    struct host_spec spec = live_spec;

    spec.name = "stream-outage";
    spec.pg = own;
    spec.database = database_make(own, "outage");
    struct host *lonely = host_start(&spec);
    struct person *root = admin_of(lonely);
    struct person *writer = person_make(lonely, root, "outage", NULL);
    struct talk talk = talk_start(lonely, writer, "outage@shop.example", ADMIN_EMAIL, NULL);
    struct sse *sse = sse_open(lonely, root->token, NULL, 0);

    ck_status(talk_post(lonely, writer, &talk, "outage@shop.example", "before"), 201);
    live_expect(sse, "before");
    postgres_stop(own, SIGQUIT);
    live_silence(sse);
    ck_assert_ptr_null(sse_within(sse, 1500));
    postgres_start(own);
    WAIT_UNTIL(talk_post(lonely, writer, &talk, "outage@shop.example", "after")->status == 201,
               SOON_MS);
    live_expect(sse, "after");
    sse_close(sse);
    host_stop(lonely);
    postgres_stop(own, SIGINT);
}

LIVE_SUITE(stream_end)
