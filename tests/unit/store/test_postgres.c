/* Connections: how they are made, to which server, and what happens to the requests that wait. */
#include "pg_stage.h"
#include "suite.h"

enum { SILENT_MS = 60000, WAITERS = 3 };

static struct pg_script other; /* a second server */
static struct stage_call first, second;
static char hosts[64], ports[32];

static void set_up(void)
{
    stage_set_up();
    pg_script_begin(&other, &stage_loop);
    first = (struct stage_call){.sql.text = "SELECT 'first'"};
    second = (struct stage_call){.sql.text = "SELECT 'second'"};
}

static void tear_down(void)
{
    stage_close();
    pg_script_end(&other);
    stage_tear_down();
}

/* stage_server is listed after the server with this port. */
static struct stage_place behind(unsigned port)
{
    snprintf(hosts, sizeof hosts, PG_SCRIPT_ADDRESS "," PG_SCRIPT_ADDRESS);
    snprintf(ports, sizeof ports, "%u,%u", port, stage_server.port);
    return (struct stage_place){.hosts = hosts, .ports = ports};
}

static const struct {
    bool gone;
    struct script_line line; /* when a client connects */
    const char *more;
    unsigned connect_ms;
} unusable[] = {
    {.gone = true},
    {.more = "target_session_attrs=read-write"}, /* the server is a standby */
    {.line = {SCRIPT_STARTUP, NULL, SCRIPT_FATAL, "57P03", 0}},
    {.line = {SCRIPT_STARTUP, NULL, SCRIPT_STALL, NULL, 0}, .connect_ms = STAGE_SHORT_MS},
};

TEST_EACH(an_unusable_server_is_skipped, sizeof unusable / sizeof *unusable)
{
    struct stage_place place = behind(other.port);

    if (unusable[_i].gone)
        pg_script_go_away(&other);
    if (unusable[_i].line.when)
        pg_script_add(&other, unusable[_i].line);
    other.standby = unusable[_i].more != NULL;
    place.more = unusable[_i].more;
    place.connect_ms = unusable[_i].connect_ms;
    stage_open_at(PG_READ, 1, &place);
    stage_do(&first);
    stage_expect_row(&first);
    ck_assert_uint_eq(other.accepted, !unusable[_i].gone);
    ck_assert_uint_eq(stage_server.accepted, 1);
    ck_assert_uint_eq(pg_script_times(&stage_server, "first"), 1);
}

TEST(a_request_with_a_deadline_below_connect_timeout_waits_until_its_deadline)
{
    stage_play(SCRIPT_STARTUP, NULL, SCRIPT_STALL, NULL);
    first.deadline_ms = STAGE_SHORT_MS;
    stage_open(PG_READ, 1);
    stage_do(&first);
    stage_expect_failure(&first, FAILED_DEADLINE);
    ck_assert_int_eq(stage_conn(PG_READ, 0)->state, PG_CONNECTING);
    ck_assert_uint_eq(stage_server.accepted, 1);
}

/* How a first connection fails. */
static const struct {
    struct script_line line;
    unsigned connect_ms;
} unmade[] = {
    {{SCRIPT_STARTUP, NULL, SCRIPT_FATAL, "53300", 0}, 0},
    {{SCRIPT_STARTUP, NULL, SCRIPT_STALL, NULL, 0}, STAGE_SHORT_MS},
    /* cut before the greeting, in the message that accepts the client, after it, and in the
     * settings */
    {{SCRIPT_STARTUP, NULL, SCRIPT_CLOSE, NULL, 0}, 0},
    {{SCRIPT_STARTUP, NULL, SCRIPT_CLOSE, NULL, 1}, 0},
    {{SCRIPT_STARTUP, NULL, SCRIPT_CLOSE, NULL, 8}, 0},
    {{SCRIPT_STARTUP, NULL, SCRIPT_CLOSE, NULL, 9}, 0},
    {{SCRIPT_STARTUP, NULL, SCRIPT_CLOSE, NULL, 40}, 0},
    {{SCRIPT_STARTUP, NULL, SCRIPT_CLOSE, NULL, 150}, 0},
};

/* The request fails at once, and the next one succeeds on a second attempt. */
TEST_EACH(a_failed_connection_fails_its_request_and_the_next_succeeds, COUNT(unmade))
{
    pg_script_add(&stage_server, unmade[_i].line);
    stage_open_at(PG_READ, 1, &(struct stage_place){.connect_ms = unmade[_i].connect_ms});
    stage_do(&first);
    stage_expect_failure(&first, FAILED_UNAVAILABLE);
    stage_do(&second);
    stage_expect_row(&second);
    ck_assert_uint_eq(stage_server.accepted, 2);
}

static struct stage_call waiters[WAITERS];

static bool one_waits(void)
{
    return stage_is_played() && stage_loop.pg->pools[PG_READ].queued == 1;
}

/* Two batches are in progress on the connection, the third request waits for it. */
TEST(waiting_requests_fail_at_once_when_the_server_goes_away)
{
    static const char *const texts[WAITERS] = {"SELECT 'a'", "SELECT 'b'", "SELECT 'c'"};

    stage_play(SCRIPT_EXECUTE, "a", SCRIPT_STALL, NULL);
    stage_open(PG_READ, 1);
    stage_do(&first);
    stage_expect_row(&first);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct stage_call){.sql.text = texts[i]};
        stage_ask(&waiters[i]);
        pg_flush(stage_loop.pg);
    }
    stage_until(one_waits);
    pg_script_go_away(&stage_server);
    stage_finish();
    for (int i = 0; i < WAITERS; i++)
        stage_expect_failure(&waiters[i], FAILED_UNAVAILABLE);
    ck_assert_uint_eq(stage_loop.pg->pools[PG_READ].queued, 0);
}

static bool is_away(void)
{
    return !pg_conn_usable(stage_conn(PG_READ, 0));
}

TEST(requests_do_not_wait_for_a_server_that_is_gone)
{
    stage_open(PG_READ, 1);
    stage_do(&first);
    pg_script_go_away(&stage_server);
    stage_until(is_away);
    stage_ask(&second);
    stage_expect_failure(&second, FAILED_UNAVAILABLE);
}

/* Ended with a message, as by an administrator, and without one. The write is sent only after the
 * end was noticed, so it waits for the next connection. */
static const char *const endings[] = {NULL, "57P01", "57P02"};

TEST_EACH(a_connection_closed_while_idle_is_made_again, 3)
{
    stage_open(PG_WRITE, 1);
    first.sql = (struct bb_sql){"INSERT first", BB_SQL_WRITE};
    second.sql = (struct bb_sql){"INSERT second", BB_SQL_WRITE};
    stage_do(&first);
    pg_script_end_sessions(&stage_server, endings[_i]);
    stage_do(&second);
    ck_assert_int_eq(second.failure.kind, FAILED_NOT);
    ck_assert_uint_eq(pg_script_times(&stage_server, "second"), 1);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "second"), 2);
}

TEST(an_unresponsive_connection_is_closed)
{
    stage_play(SCRIPT_EXECUTE, "first", SCRIPT_STALL, NULL);
    stage_open(PG_READ, 1);
    stage_ask(&first);
    stage_until(stage_is_played);
    stage_conn(PG_READ, 0)->oldest_ms -= SILENT_MS; /* simulates silence for that time */
    stage_finish();
    stage_expect_row(&first);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "first"), 2);
}

TEST(a_connection_with_changed_settings_is_not_used_again)
{
    stage_play(SCRIPT_EXECUTE, "first", SCRIPT_SETTING, "Asia/Tokyo");
    stage_open(PG_READ, 1);
    stage_do(&first);
    stage_expect_row(&first);
    stage_do(&second);
    stage_expect_row(&second);
    ck_assert_uint_eq(pg_script_times(&stage_server, "first"), 1);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "second"), 2);
}

SUITE(postgres, .before_each = set_up, .after_each = tear_down, .timeout_s = STAGE_SECONDS)
