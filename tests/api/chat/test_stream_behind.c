/*
 * Live streams with a backlog. A client that reads loses nothing, however much comes at once, and
 * accounts take turns in catching up.
 */
#include "exposition.h"
#include "live.h"

enum {
    BURST = 1100, /* messages that become visible at once: several pages, and many buffers */
    LONG = 2000,  /* bytes of a message */
    BULK = 1000,  /* this many messages of LONGER bytes are more than a host and the kernel keep */
    LONGER = 10000,
    MANY = 100, /* streams of one account */
    SERVED_MS = 30000,
    PAGES = 6, /* the backlog of clients that reconnect */
    PAGE = 512
};

static struct talk talk;

static void start(const char *name)
{
    stage_open(&(struct host_spec){.name = name,
                                   .chat = "  stream_buffer: 64\n",
                                   .db = "  statement_timeout: 60000\n",
                                   .http = "  write_timeout: 600\n",
                                   .modules = "[auth, chat, health, metrics]"});
    stage_connect();
    platform = person_make(host, admin, "behind", NULL);
    talk = talk_start(host, platform, "behind@shop.example", ADMIN_EMAIL, NULL);
}

static double metric(const char *name, const char *labels)
{
    return exposition_value(exposition_get(host, admin->token), name, labels);
}

static bool somebody_is_behind(void)
{
    return metric("busbar_chat_listeners", "state=\"behind\"") > 0;
}

/* Stores messages as other hosts would: `count` messages from number `from` on, in one
 * transaction. */
static void store(const struct talk *in, int from, int count, int length)
{
    sql_text(db,
             text("INSERT INTO chat_entry SELECT %jd, g + 2, gen_random_uuid(),"
                  " 'behind@shop.example', rpad('stored ' || g || ' ', %d, 'x'), now()"
                  " FROM generate_series(%d, %d) g",
                  in->id, length, from, from + count - 1),
             0, NULL);
}

static void expect_stored(struct sse *sse, int from, int count)
{
    for (int i = from; i < from + count; i++) {
        struct sse_event *event = sse_next(sse, SOON_MS);
        const char *entry = event ? sse_entry(event) : NULL, *wanted = text("stored %d ", i);

        ck_assert_msg(entry, "%s instead of %s", sse->ended ? "the end" : "nothing", wanted);
        ck_assert_msg(!strncmp(entry, wanted, strlen(wanted)), "%.20s instead of %s", entry,
                      wanted);
    }
}

TEST(a_burst_larger_than_the_buffer_reaches_a_client_that_reads)
{
    start("stream_burst");
    struct sse *sse = live_listen(host, platform, NULL);

    for (int round = 0; round < 2; round++) {
        store(&talk, round * BURST, BURST, LONG);
        expect_stored(sse, round * BURST, BURST);
    }
    live_silence(sse);
    WAIT_UNTIL(!somebody_is_behind(), SOON_MS);
}

TEST(a_client_that_pauses_long_continues_without_a_gap)
{
    start("stream_pause");
    struct sse *sse = sse_open(host, platform->token, NULL, 4096);

    ck_assert_int_eq(sse->status, 200);
    for (int at = 0; at < BULK; at += BULK / 10)
        store(&talk, at, BULK / 10, LONGER);
    WAIT_UNTIL(somebody_is_behind(), SOON_MS);
    struct sse *quick = live_listen(host, platform, NULL);

    store(&talk, BULK, 1, LONG);
    expect_stored(quick, BULK, 1);
    expect_stored(sse, 0, BULK + 1);
    live_silence(sse);
    ck_assert(metric("busbar_chat_catch_up_pages_total", "") > 0);
}

/* ---- many clients reconnect at once ---- */

/* Stores messages between other people, 64 in each transaction; returns the first number. */
static int64_t make_history(void)
{
    struct person *stranger = person_make(host, admin, "strangers", NULL);
    struct talk strange = talk_start(host, stranger, "behind@shop.example", "b@shop.example", NULL);
    int64_t first = sql_number(db, "SELECT pg_current_xact_id()::text::bigint");

    for (int at = 0; at < PAGES * PAGE; at += 64)
        store(&strange, at, 64, 20);
    return first;
}

/* While the lock is held no messages can be read, so all streams that open begin to catch up at the
 * same moment. */
static void hold_messages(void)
{
    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE chat_entry IN ACCESS EXCLUSIVE MODE");
}

/* Opens a stream. If its statements share a batch with a page that is held, the response is a 503,
 * and it tries again. */
static struct sse *open_one(int64_t place)
{
    char *last = text("%jd:%jd:", place, place);
    struct sse *sse = sse_open(host, platform->token, last, 0);

    if (sse->status == 503) {
        sse_close(sse);
        return live_listen(host, platform, last);
    }
    ck_assert_msg(sse->status == 200, "%s", sse->headers);
    return sse;
}

static void open_many(struct sse **many, int64_t first, int apart)
{
    for (int i = 0; i < MANY; i++)
        many[i] = open_one(first + i % 20 * apart);
}

/* Returns how many streams have received their only message; each is counted once, and closed. */
static int served(struct sse **many)
{
    int count = 0;

    for (int i = 0; i < MANY; i++) {
        struct sse_event *event = many[i] ? sse_next(many[i], 0) : NULL;

        if (event) {
            ck_assert_str_eq(sse_entry(event), "for the many");
            sse_close(many[i]);
            many[i] = NULL;
        }
        count += !many[i];
    }
    return count;
}

TEST(many_resuming_streams_of_one_account_do_not_delay_another)
{
    struct sse *many[MANY];

    start("stream_fair");
    struct person *one = person_make(host, admin, "single", NULL);
    struct talk its = talk_start(host, one, "single@shop.example", "b@shop.example", NULL);
    int64_t first = make_history();

    ck_status(talk_post(host, platform, &talk, "behind@shop.example", "for the many"), 201);
    ck_status(talk_post(host, one, &its, "single@shop.example", "for the single"), 201);
    hold_messages();
    open_many(many, first, 2);
    struct sse *single = live_listen(host, one, text("%jd:%jd:", first, first));

    struct sse_event *event;

    do /* counts at the moment of the event: further reads wait */
        PQclear(PQexec(db, "COMMIT; BEGIN; LOCK TABLE chat_entry IN ACCESS EXCLUSIVE MODE"));
    while (!(event = sse_within(single, 10)) && !single->ended);
    int before = served(many);

    sql_run(db, "COMMIT");
    ck_assert(event && !strcmp(sse_entry(event), "for the single"));
    ck_assert_msg(before < MANY / 2, "%d of %d streams came before this one", before, MANY);
    WAIT_UNTIL_MSG(served(many) == MANY, SERVED_MS, "%d of %d came", served(many), MANY);
}

TEST(streams_that_resume_at_the_same_position_share_database_reads)
{
    struct sse *many[MANY];

    start("stream_share");
    int64_t first = make_history();

    ck_status(talk_post(host, platform, &talk, "behind@shop.example", "for the many"), 201);
    hold_messages();
    open_many(many, first, 0);
    sql_run(db, "COMMIT");
    WAIT_UNTIL_MSG(served(many) == MANY, SERVED_MS, "%d of %d came", served(many), MANY);
    double pages = metric("busbar_chat_catch_up_pages_total", "");

    ck_assert_msg(pages > 0 && pages <= 2 * PAGES, "%.0f pages were read", pages);
}

/* Returns how many messages the host has read by transaction. Stops the host, because PostgreSQL
 * counts the reads of a connection when it is closed. */
static int64_t messages_read(void)
{
    host_stop(host);
    sql_soon(db, "SELECT (count(*) = 1)::int FROM pg_stat_activity"
                 " WHERE datname = current_database() AND backend_type = 'client backend'");
    return sql_number(db, "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes"
                          " WHERE indexrelname LIKE 'chat_entry%xid%') + (SELECT sum(seq_tup_read)"
                          " FROM pg_stat_user_tables WHERE relname LIKE 'chat_entry%')");
}

/* The ids say that the client has seen all messages, and name an old transaction: as one that may
 * have been in progress, as one that was, and as one for the time after the next page. */
TEST(an_id_with_an_old_transaction_costs_no_read_of_the_messages_since)
{
    start("stream_old");
    struct talk quiet = talk_start(host, platform, "behind@shop.example", "b@shop.example", NULL);
    int64_t old = sql_number(db, "SELECT pg_current_xact_id()::text::bigint");

    store(&talk, 0, BURST, 20);
    sql_run(db, "ANALYZE chat_entry");
    int64_t now = sql_number(db, "SELECT pg_current_xact_id()::text::bigint");

    struct sse *streams[] = {
        live_listen(host, platform, text("1:%jd:", now)),
        live_listen(host, platform, text("%jd:%jd:%jd", old, now, old)),
        live_listen(host, platform, text("%jd:%jd:-1:%jd:-0.0.0-0.0.0", now, now, now))};

    live_post(host, &quiet, "behind@shop.example", "after all ids");
    for (int i = 0; i < 3; i++)
        live_expect(streams[i], "after all ids");
    int64_t count = messages_read();

    ck_assert_msg(count < BURST, "%jd messages were read", count);
}

SUITE(stream_behind, .timeout_s = 120, .after_each = stage_disconnect)
