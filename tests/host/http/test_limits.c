/*
 * Limits of time, and of the number of connections. The unit tests http_ends and http_shares have
 * each limit; this suite has crowds, several loops and a database. A test that waits for a limit
 * starts a separate host with a short limit. The fault `resources` covers too few descriptors.
 */
#include <poll.h>

#include "fault/common.h"
#include "stage.h"
#include "talk.h"
#include "wire.h"

#define GET_HEALTH "GET /api/health HTTP/1.1\r\nHost: x\r\n"
#define POST_LOGIN "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

enum { DRIP_MS = 200, SLOW_ONES = 500, IDLE_ONES = 2000, CROWD = 60, FINDS = 100 };

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "limits", .http = "  loops: 1\n"});
}

/* Starts another host with one loop and further lines of the section http. */
static struct host *start(const char *name, const char *http)
{
    return host_start(&(struct host_spec){
        .name = name, .database = "limits", .http = text("  loops: 1\n%s", http)});
}

static bool has_room(const struct host *of)
{
    struct wire *wire = wire_open_from(of, "127.0.0.9", 0);

    wire_say(wire, GET_HEALTH "\r\n");
    bool served = wire_read(wire, 1000) != NULL;

    wire_close(wire, false);
    return served;
}

/* The limits hold whichever loops accepted the connections: waiting connections belong to no loop,
 * because one loop may have accepted them all. */
static const struct {
    const char *http;
    int most; /* connections of an address */
} places[] = {
    {"  loops: 3\n  connections_per_address: 4\n", 4},
    {"  loops: 4\n  max_connections: 16\n  connections_per_address: 16\n", 16},
};

TEST_EACH(max_connections_and_connections_per_address_limit_connections, 2)
{
    struct host *few = host_start(&(struct host_spec){
        .name = text("limits_few%d", _i), .database = "limits", .http = places[_i].http});
    struct wire *wires[CROWD];

    for (int i = 0; i < CROWD; i++) {
        wires[i] = wire_open_from(few, "127.0.0.9", 0);
        wire_say(wires[i], GET_HEALTH "\r\n");
        ck_assert_msg(i < places[_i].most ? wire_read(wires[i], 6000) != NULL
                                          : !wire_has_more(wires[i], 10),
                      "connection %d", i + 1);
    }
    ck_assert(_i || wire_is_served(few)); /* another address */
    for (int i = 0; i < CROWD; i++)
        wire_close(wires[i], false);
    for (int i = 0; i < CROWD; i++)
        WAIT_UNTIL(has_room(few), 5000);
}

TEST(two_thousand_idle_connections_do_not_block_a_new_client)
{
    struct host *patient = start("limits_idle", "  header_timeout: 600\n  max_connections: 4096\n"
                                                "  connections_per_address: 4096\n");
    struct wire *idle[IDLE_ONES];

    for (int i = 0; i < IDLE_ONES; i++) {
        idle[i] = wire_open(patient);
        if (i % 2)
            wire_say(idle[i], "GET /api/hea");
    }
    wire_exchange(patient, text_repeated(GET_HEALTH "\r\n", 4), "200 200 200 200");
    for (int i = 0; i < IDLE_ONES; i++)
        wire_close(idle[i], i % 3 == 0);
}

/* libmicrohttpd would ask to be run again at once, as long as such a connection exists. */
static const char *const endless[] = {"2;", ""}; /* the line ends in an extension, or in the size */

#define POST_LINE POST_LOGIN "Transfer-Encoding: chunked\r\n\r\n"

/* The host closes a connection with a line of more than 1,024 bytes, and waits for the end of a
 * shorter one until body_timeout. */
TEST_EACH(an_endless_chunk_line_does_not_cause_a_busy_loop, 2)
{
    struct host *patient = host_start(&(struct host_spec){
        .name = text("limits_line%d", _i), .database = "limits", .http = "  body_timeout: 600\n"});
    struct wire *longer = wire_open(patient), *shorter = wire_open(patient);

    wire_say(longer, POST_LINE "%s%09000d", endless[_i], 0);
    wire_say(shorter, POST_LINE "%s%01000d", endless[_i], 0);
    ck_status(http(patient, "GET", "/api/health", NULL, NULL), 200);
    ck_assert(wire_closes(longer, 5000));
    WAIT_UNTIL(process_sleeps(patient->pid), 5000);
    ck_assert(!wire_closes(shorter, 0));
    wire_close(shorter, false); /* or the host's stop would wait for it */
}

/* Sends a byte on each open connection; returns how many are still open. */
static int drip_round(struct wire *slow[SLOW_ONES])
{
    int left = 0;

    for (int i = 0; i < SLOW_ONES; i++) {
        if (slow[i] && (!wire_send(slow[i], "a", 1) || wire_closes(slow[i], 0))) {
            wire_close(slow[i], false);
            slow[i] = NULL;
        }
        left += slow[i] != NULL;
    }
    return left;
}

static const char *const crowds[] = {GET_HEALTH "X-Slow: ",
                                     POST_LOGIN "Content-Length: 30000\r\n\r\n"};

/* Five hundred slow clients at once, while health is requested continuously. bench/run
 * load compares this with slowhttptest. */
TEST_EACH(five_hundred_slow_clients_are_disconnected_and_delay_no_other, 2)
{
    static struct wire *slow[SLOW_ONES];
    struct host *strict =
        start(text("limits_slow%d", _i), "  header_timeout: 1\n  body_timeout: 1\n");
    struct watch *watch = watch_begin(strict);

    for (int i = 0; i < SLOW_ONES; i++) {
        slow[i] = wire_open(strict);
        wire_say(slow[i], "%s", crowds[_i]);
    }
    while (drip_round(slow)) /* until the time limit of the test */
        poll(NULL, 0, DRIP_MS);
    watch_end(watch, crowds[_i]);
}

/* A response that is too large for the kernel's buffers, and a client that does not read. The
 * flag is in the request's own line, not in the extra line for slow requests. */
TEST(a_client_that_does_not_read_is_disconnected)
{
    struct host *strict = start("limits_unread", "  write_timeout: 1\n");
    struct talk talk = talk_start(host, admin, ADMIN_EMAIL, "unread@shop.example", NULL);
    const char *entry = text_repeated("0", 1 << 20);

    for (int i = 0; i < 9; i++)
        ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, entry), 201);
    struct wire *wire = wire_open_from(strict, "127.0.0.1", 4096);

    wire_say(wire,
             "GET /api/chat/chain/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "X-Request-Id: never-reads\r\n\r\n",
             talk.head, admin->token);
    const char *line = host_logs(strict, 0, "msg=\"request\" request=never-reads ");

    ck_assert_msg(strstr(line, " cut=true"), "%s", line);
}

TEST(statements_over_their_timeout_are_503_and_the_pool_recovers)
{
    struct host *quick = host_start(&(struct host_spec){.name = "limits_quick",
                                                        .database = "limits",
                                                        .http = "  deadline: 5000\n",
                                                        .db = "  statement_timeout: 500\n"});
    const char *find = text("POST /api/chat/conversations/find HTTP/1.1\r\nHost: x\r\n"
                            "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                            "Content-Length: 2\r\n\r\n{}",
                            admin->token);
    struct wire *wires[FINDS];

    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE chat_conversation IN ACCESS EXCLUSIVE MODE");
    for (int i = 0; i < FINDS; i++) {
        wires[i] = wire_open(quick);
        wire_say(wires[i], "%s", find);
    }
    for (int i = 0; i < FINDS; i++) {
        ck_wire_error(wire_read(wires[i], 15000), 503);
        wire_close(wires[i], false);
    }
    ck_assert(wire_is_served(quick));
    sql_run(db, "COMMIT");
    WAIT_UNTIL(
        http(quick, "POST", "/api/chat/conversations/find", admin->token, json_object())->status ==
            200,
        5000);
}

STAGE_SUITE(limits, set_up, 60)
