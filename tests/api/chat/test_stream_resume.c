/* Resuming live streams, and streams with a backlog. */
#include "live.h"

enum { RESUMED = 12, LARGE = 1400 };

TEST(a_stream_resumes_after_any_event_on_any_host)
{
    struct sse *sse = live_listen(host, platform, NULL);
    struct talk talk = talk_start(host, platform, "resume@shop.example", ADMIN_EMAIL, NULL);
    const char *ids[RESUMED];

    sse_next(sse, SOON_MS);
    for (int i = 0; i < RESUMED; i++) {
        live_post(i % 2 ? host : other, &talk, "resume@shop.example", text("entry %d", i));
        live_expect(sse, text("entry %d", i));
        ids[i] = sse->last_id;
    }
    sse_close(sse);
    for (int i = 0; i < RESUMED; i++) {
        struct sse *again = live_listen(i % 3 ? other : host, platform, ids[i]);

        for (int next = i + 1; next < RESUMED; next++)
            live_expect(again, text("entry %d", next));
        ck_assert_ptr_null(sse_within(again, 120));
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

/* Checks that each of a writer's messages comes once and in order, whatever connections are cut. */
static void note(int *seen, const struct sse_event *event)
{
    int writer = 0, number = 0;

    ck_assert_int_eq(sscanf(sse_entry(event), "w%d@shop.example %d", &writer, &number), 2);
    ck_assert_msg(seen[writer] == number, "writer %d: message %d came instead of %d", writer,
                  number, seen[writer]);
    seen[writer]++;
}

TEST(a_stream_cut_under_load_loses_and_repeats_no_event)
{
    struct talk talks[2] = {talk_start(host, platform, "w0@shop.example", "w1@shop.example", NULL),
                            talk_start(host, platform, "w2@shop.example", "w3@shop.example", NULL)};
    struct sse *sse = live_listen(host, admin, NULL);
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

        ck_assert_msg(event, "no event after the first %d", total);
        note(seen, event);
        total++;
        if (total % 7 == 0) {
            sse_close(sse);
            sse = live_listen(++rounds % 2 ? other : host, admin, event->id);
        }
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    live_silence(sse);
}

TEST(a_client_that_was_away_for_long_is_served_from_the_database)
{
    const char *database = database_make(the_postgres, "stream_long");
    struct host *first = live_host("stream-long", database);
    struct person *root = admin_of(first);
    struct person *writer = person_make(first, root, "longwriter", NULL);
    struct talk talk = talk_start(first, writer, "long@shop.example", ADMIN_EMAIL, NULL);
    struct sse *sse = sse_open(first, root->token, NULL, 0);
    PGconn *stored = database_connect(the_postgres, database);

    ck_status(talk_post(first, writer, &talk, "long@shop.example", "last seen"), 201);
    live_expect(sse, "last seen");
    host_stop(first);
    ck_assert(sse_ends(sse, SOON_MS));
    /* stored as by other hosts, each in a separate transaction */
    for (int i = 0; i < 1500; i++)
        sql_run(stored, text("INSERT INTO chat_entry VALUES (%jd, %d, gen_random_uuid(),"
                             " 'long@shop.example', 'missed %d', now())",
                             talk.id, i + 3, i));
    PQfinish(stored);
    ck_assert(host_run(first));
    sse = sse_open(first, root->token, sse->last_id, 0);
    for (int i = 0; i < 1500; i++)
        live_expect(sse, text("missed %d", i));
    live_silence(sse);
    sse_close(sse);
}

TEST(malformed_event_ids_are_refused_and_foreign_ones_restart_the_stream)
{
    EACH_TEXT (bad, "x", "1", "1:2", "5:6:9", "1:2:3:4", "-1:1:", "0:0:", "0:5:0",
               "99999999999999999999:1:") {
        struct sse *sse = sse_open(host, platform->token, bad, 0);

        ck_assert_msg(sse->status == 400, "%s: %s", bad, sse->headers);
        sse_close(sse);
    }
    struct sse *empty = live_listen(host, platform, "");

    live_silence(empty); /* an empty id is like no id: no reset */
    sse_close(empty);
    struct sse *sse = live_listen(host, platform, "99999999999:99999999999:");

    live_reset(sse);
    struct talk talk = talk_start(host, platform, "anew@shop.example", ADMIN_EMAIL, NULL);
    live_post(host, &talk, "anew@shop.example", "after the reset");
    ck_assert_ptr_nonnull(sse_next(sse, SOON_MS));
    live_expect(sse, "after the reset");
}

TEST(a_slow_reader_is_disconnected_and_delays_no_other_stream)
{
    struct sse *slow = sse_open(host, platform->token, NULL, 4096);
    struct sse *quick = live_listen(host, platform, NULL);
    struct talk talk = talk_start(host, platform, "slow@shop.example", ADMIN_EMAIL, NULL);
    char *long_text = text("%030000d", 7);

    ck_assert_ptr_nonnull(sse_next(quick, SOON_MS));
    for (int i = 0; i < 40; i++) {
        live_post(host, &talk, "slow@shop.example", long_text);
        live_expect(quick, long_text);
    }
    ck_assert(sse_ends(slow, SOON_MS));
    ck_assert(!slow->complete);
    live_silence(quick);
}

/* Stores messages in a separate transaction that is not committed yet. */
static PGconn *begin_large(const struct talk *talk, const char *word)
{
    PGconn *own = database_connect(the_postgres, "stream_resume");

    sql_run(own, "BEGIN");
    sql_text(own,
             text("INSERT INTO chat_entry SELECT %jd, g + 2, gen_random_uuid(),"
                  " 'large@shop.example', '%s ' || g, now() FROM generate_series(0, %d) g",
                  talk->id, word, LARGE - 1),
             0, NULL);
    return own;
}

static void commit(PGconn *transaction)
{
    sql_run(transaction, "COMMIT");
    PQfinish(transaction);
}

/* Both hosts read two transactions of many pages, in opposite orders, and a client changes from one
 * host to the other in the middle. */
TEST(a_stream_resumes_within_one_of_two_large_transactions)
{
    struct talk first = talk_start(host, platform, "large@shop.example", "b@b.example", NULL);
    struct talk second = talk_start(host, platform, "large@shop.example", "c@c.example", NULL);
    struct sse *sse = live_listen(host, platform, NULL);
    struct sse *there = live_listen(other, platform, NULL);
    PGconn *older = begin_large(&first, "older"), *newer = begin_large(&second, "newer");

    ck_assert_int_eq(kill(other->pid, SIGSTOP), 0);
    commit(newer);
    for (int i = 0; i < LARGE / 2; i++)
        live_expect(sse, text("newer %d", i));
    sse_close(sse);
    commit(older);
    ck_assert_int_eq(kill(other->pid, SIGCONT), 0);
    for (int i = 0; i < LARGE; i++)
        live_expect(there, text("older %d", i));
    sse = live_listen(other, platform, sse->last_id);
    int newer_ones = LARGE / 2, older_ones = 0;

    while (newer_ones + older_ones < 2 * LARGE) {
        const struct sse_event *event = sse_next(sse, SOON_MS);

        ck_assert_msg(event, "no event after %d newer and %d older ones", newer_ones, older_ones);
        bool is_newer = !strncmp(sse_entry(event), "newer", 5);

        ck_assert_str_eq(sse_entry(event),
                         is_newer ? text("newer %d", newer_ones) : text("older %d", older_ones));
        newer_ones += is_newer;
        older_ones += !is_newer;
    }
    live_silence(sse);
}

static void store_one(PGconn *by, const struct talk *talk, int seq, const char *entry)
{
    sql_run(by, text("INSERT INTO chat_entry VALUES (%jd, %d, gen_random_uuid(),"
                     " 'turned@shop.example', '%s', now())",
                     talk->id, seq, entry));
}

/* The transaction with the lower number stores the later message, and a host reads both at once. */
TEST(messages_arrive_in_chain_order_despite_transaction_order)
{
    struct talk talk = talk_start(host, platform, "turned@shop.example", "b@b.example", NULL);
    struct sse *sse = live_listen(host, platform, NULL);
    PGconn *lower = database_connect(the_postgres, "stream_resume");

    live_silence(sse);
    ck_assert_int_eq(kill(host->pid, SIGSTOP), 0);
    sql_run(lower, "BEGIN");
    sql_number(lower, "SELECT pg_current_xact_id()::text::bigint");
    store_one(db, &talk, 2, "second");
    store_one(lower, &talk, 3, "third");
    sql_run(lower, "COMMIT");
    store_one(db, &talk, 4, "fourth");
    ck_assert_int_eq(kill(host->pid, SIGCONT), 0);
    live_expect(sse, "second");
    const char *id = sse->last_id;

    live_expect(sse, "third");
    live_expect(sse, "fourth");
    sse_close(sse);
    sse = live_listen(other, platform, id);
    live_expect(sse, "third");
    live_expect(sse, "fourth");
    live_silence(sse);
}

LIVE_SUITE(stream_resume)
