/*
 * How the pools use the listener's knowledge of the server: requests wait if a connection can be
 * expected, and fail if the server is up but does not respond.
 */
#include "core/store/pg_listener.h"
#include "pg_stage.h"
#include "suite.h"

enum {
    CONNECT_MS = 250,
    EARLY_MS = 5000, /* time enough to be sent on a busy machine */
    LONG_MS = 60000,
    LONG_AGO_MS = 10000,
    REFUSALS = 3,
    UNDER_WAY = 2
};

static struct pg_script other; /* the listener's server */
static struct engine engine;   /* without modules: notifications go nowhere */
static struct pg_listener *listener;
static struct stage_call calls[UNDER_WAY], last;

static void set_up(void)
{
    stage_set_up();
    pg_script_begin(&other, &stage_loop);
    engine = (struct engine){.loop_count = 1};
    ck_assert_int_eq(pthread_mutex_init(&engine.lock, NULL), 0);
    stage_loop.engine = &engine;
    for (int i = 0; i < UNDER_WAY; i++)
        calls[i] = (struct stage_call){.sql.text = "SELECT 'early'", .deadline_ms = EARLY_MS};
    last = (struct stage_call){.sql.text = "SELECT 'last'", .deadline_ms = LONG_MS};
}

static void tear_down(void)
{
    stage_close();
    pg_listener_free(listener);
    pg_script_end(&other);
    stage_tear_down();
    pthread_mutex_destroy(&engine.lock);
}

static void listen_to_other(void)
{
    static char url[STAGE_SIZE], port[16];
    static const struct host_settings host = {
        .database = {.url = url, .connect_timeout = CONNECT_MS}};
    static struct generation generation = {.holders = 1, .host = &host};

    engine.generation = &generation;
    snprintf(port, sizeof port, "%u", other.port);
    snprintf(url, sizeof url, STAGE_URL, PG_SCRIPT_ADDRESS, port, "");
    listener = pg_listener_new(&stage_loop);
    ck_assert_ptr_nonnull(listener);
}

static bool is_answered(void)
{
    return pg_listener_latency_ms() >= 0;
}

static bool is_to_come_again(void)
{
    return stage_is_played() && stage_conn(PG_READ, 0)->state == PG_DOWN;
}

/* Returns false if the request failed because the listener had to connect again: after a pause of
 * the machine the server counts as down. */
static bool request_waits(void)
{
    listen_to_other();
    stage_until(is_answered);
    for (int i = 0; i < REFUSALS; i++)
        stage_play(SCRIPT_STARTUP, NULL, SCRIPT_FATAL, "53300");
    stage_open(PG_READ, 1);
    stage_until(is_to_come_again);
    ck_assert(!pg_conn_usable(stage_conn(PG_READ, 0)));
    ck_assert_int_eq(stage_conn(PG_READ, 0)->backoff_ms, 50 << (REFUSALS - 1));
    stage_do(&last);
    if (last.failure.kind != FAILED_NOT && other.accepted > 1)
        return false;
    stage_expect_row(&last);
    ck_assert_int_eq(stage_conn(PG_READ, 0)->backoff_ms, 0);
    ck_assert_uint_eq(pg_script_conn_of(&stage_server, "last"), REFUSALS + 1);
    return true;
}

/* A server that has just started refuses connections if other clients have taken them all. */
TEST(requests_wait_for_the_next_attempt_while_the_server_is_up)
{
    while (!request_waits()) { /* until the time limit of the test */
        tear_down();
        set_up();
    }
}

static bool is_under_way(void)
{
    return stage_conn(PG_READ, 0)->batches && !stage_loop.pg->pools[PG_READ].queued;
}

static void fill_the_connection(void)
{
    stage_play(SCRIPT_EXECUTE, "early", SCRIPT_STALL, NULL);
    stage_open(PG_READ, 1);
    for (int i = 0; i < UNDER_WAY; i++) {
        stage_ask(&calls[i]);
        stage_until(is_under_way);
    }
    stage_finish();
}

/* The server accepts connections and then sends nothing. Statements that were already sent may
 * still be answered. */
TEST(requests_do_not_wait_for_an_unresponsive_server)
{
    fill_the_connection();
    for (int i = 0; i < UNDER_WAY; i++)
        stage_expect_failure(&calls[i], FAILED_DEADLINE);
    stage_loop.pg->heard_ms -= LONG_AGO_MS; /* simulates that the server was silent for that time */
    stage_ask(&last);
    ck_assert_uint_eq(stage_loop.pg->pools[PG_READ].queued, 1);
    other.mute = true;
    listen_to_other();
    stage_finish();
    stage_expect_failure(&last, FAILED_UNAVAILABLE);
    stage_ask(&calls[0]);
    stage_expect_failure(&calls[0], FAILED_UNAVAILABLE); /* at once */
    ck_assert_uint_eq(pg_script_times(&stage_server, "last"), 0);
}

static bool is_silent(void)
{
    return pg_listener_silent_ms() > 0;
}

/* The first statement of a connection is a LISTEN, which is empty here: there are no channels. */
TEST(the_server_is_silent_since_a_listen_without_response)
{
    int64_t begun_ms = clock_mono_ms(), silent_ms;

    pg_script_add(&other, (struct script_line){SCRIPT_EXECUTE, "SELECT 1", SCRIPT_STALL, NULL, 0});
    listen_to_other();
    stage_until(is_silent);
    silent_ms = pg_listener_silent_ms();
    ck_assert_int_le(silent_ms, clock_mono_ms() - begun_ms);
}

SUITE(pg_listener, .before_each = set_up, .after_each = tear_down, .timeout_s = STAGE_SECONDS)
