/*
 * Size limits of bodies: a client whose body is too large can read the refusal; bodies that are not
 * read and responses that are sent in pieces do not count in the memory limits, which the unit
 * tests quota and http_shares have in all cases.
 */
#include "stage.h"
#include "talk.h"
#include "wire.h"

#define HEAD(path) "POST " path " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
#define POST_LOGIN HEAD("/api/auth/login")
#define POST_FIND HEAD("/api/chat/conversations/find")
#define GET_HEALTH "GET /api/health HTTP/1.1\r\nHost: x\r\n"

enum { MIB = 1024 * 1024, OPEN_MAX = 32768 };

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "body_limits"});
}

/* The client must see the 413, not a reset: the host reads and discards the bytes already sent. */
static const int too_large[] = {2 * MIB + 1, 16 * MIB};

TEST_EACH(a_client_can_read_the_413_to_its_body, 2)
{
    const char *body = text_repeated(" ", (size_t)too_large[_i]);

    wire_exchange(host, text(POST_LOGIN "Content-Length: %d\r\n\r\n%s", too_large[_i], body),
                  "413");
    /* the host closes the connection after it if the rest of the body comes slowly */
    struct wire *chunked = wire_open(host);

    wire_say(chunked, POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
             too_large[_i], body);
    ck_wire_error(wire_read(chunked, 5000), 413);
    wire_close(chunked, false);
}

/* Large bodies are accepted only from clients that have authenticated. */
static const struct {
    const char *head;
    int most;
    bool token;
    const char *answer; /* the response to the body {} */
} limits[] = {
    {POST_LOGIN, OPEN_MAX, false, "400"},
    {HEAD("/api/auth/getAccess"), OPEN_MAX, false, "400"},
    {HEAD("/api/user/register"), OPEN_MAX, false, "400"},
    {POST_FIND, 2 * MIB, true, "200"},
};

TEST_EACH(each_route_limits_the_size_of_its_body, sizeof limits / sizeof *limits)
{
    const char *authorization =
        limits[_i].token ? text("Authorization: Bearer %s\r\n", admin->token) : "";

    for (int length = limits[_i].most; length <= limits[_i].most + 1; length++)
        wire_exchange(host,
                      text("%s%sContent-Length: %d\r\n\r\n{%*s}", limits[_i].head, authorization,
                           length, length - 2, ""),
                      length > limits[_i].most ? "413" : limits[_i].answer);
}

/* The health endpoint needs neither a body nor a token. */
TEST(a_body_that_no_handler_reads_takes_no_memory)
{
    struct host *tight = host_start(&(struct host_spec){.name = "body_limits_unread",
                                                        .database = "body_limits",
                                                        .http = "  max_bodies: 1048576\n"
                                                                "  body_timeout: 600\n"});
    struct wire *large = wire_open(tight);

    wire_say(large, GET_HEALTH "Content-Length: %d\r\n\r\n%*s", MIB + 1, MIB, "");
    for (int i = 0; i < 20; i++)
        wire_exchange(tight,
                      text(POST_FIND "Authorization: Bearer %s\r\nContent-Length: 800000\r\n\r\n"
                                     "{%*s}",
                           admin->token, 800000 - 2, ""),
                      "200");
    wire_say(large, "x");
    ck_assert_int_eq(wire_read(large, 5000)->status, 200);
    wire_close(large, false);
    struct wire *chunked = wire_open(tight);

    wire_say(chunked, GET_HEALTH "Transfer-Encoding: chunked\r\n\r\n%x\r\n%*s\r\n0\r\n\r\n",
             2 * MIB + 1, 2 * MIB + 1, "");
    ck_wire_error(wire_read(chunked, 5000), 413);
    wire_close(chunked, false);
}

TEST(a_pause_in_a_body_is_not_idle_time)
{
    struct host *brief = host_start(&(struct host_spec){
        .name = "body_limits_pause", .database = "body_limits", .http = "  idle_timeout: 1\n"});
    struct wire *paused = wire_open(brief);

    wire_say(paused, POST_LOGIN "Content-Length: 2\r\n\r\n{");
    usleep(2500000);
    wire_say(paused, "}");
    ck_assert_int_eq(wire_read(paused, 20000)->status, 400);
    wire_close(paused, false);
}

/* Long chains are sent in pieces and do not count as large responses, so clients that do not read
 * them do not block others. */
TEST(streamed_responses_do_not_count_as_large_responses)
{
    struct host *tight =
        host_start(&(struct host_spec){.name = "body_limits_chains",
                                       .database = "body_limits",
                                       .modules = "[auth, chat, health, metrics]",
                                       .http = "  max_answers: 1048576\n"
                                               "  metrics_networks: [127.0.0.1]\n"});
    struct talk talk = talk_start(tight, admin, ADMIN_EMAIL, "unread@shop.example", NULL);
    const char *entry = text_repeated("0", MIB);
    struct wire *unread[2];

    for (int i = 0; i < 9; i++) /* more than the kernel buffers for a client that does not read */
        ck_status(talk_post(tight, admin, &talk, ADMIN_EMAIL, entry), 201);
    for (int i = 0; i < 2; i++) {
        unread[i] = wire_open_from(tight, "127.0.0.1", 4096);
        wire_say(unread[i],
                 "GET /api/chat/chain/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
                 talk.head, admin->token);
        ck_assert(wire_has_more(unread[i], 5000) && !strncmp(unread[i]->bytes, "HTTP/1.1 200", 12));
    }
    ck_status(talk_chain(tight, admin, &talk, ""), 200);
    ask_on(tight, NULL, 200, "\nbusbar_answer_bytes 0\n", "GET /metrics");
    ck_status(talk_post(tight, admin, &talk, ADMIN_EMAIL, entry), 201);
    wire_close(unread[0], true);
    wire_close(unread[1], true);
}

TEST(expect_100_continue_is_refused_without_a_token)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, POST_FIND "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    ck_wire_error(wire_read(wire, 5000), 401);
    wire_close(wire, false);
    wire = wire_open(host);
    wire_say(wire, POST_LOGIN "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    ck_assert(wire_has_more(wire, 5000));
    ck_assert_msg(!strncmp(wire->bytes, "HTTP/1.1 100 ", 13), "%s", wire->bytes);
    wire_say(wire, "{}");
    ck_wire_error(wire_read(wire, 5000), 400);
}

STAGE_SUITE(body_limits, set_up, 60)
