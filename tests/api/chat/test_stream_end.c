/* The end of live streams, and their limits; resuming streams, and streams with a backlog. The unit
 * test http_streams has HEAD, and readers that do not read. */
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
    int64_t began_ms = now_ms();

    host_stop(many);
    bool soon = now_ms() - began_ms < 1000; /* after a second the host cuts streams */

    for (int i = 0; i < MANY; i++) {
        size_t retries = open[i]->retries;

        ck_assert(sse_ends(open[i], SOON_MS));
        ck_assert(open[i]->complete || !soon);
        ck_assert_uint_eq(open[i]->retries, retries + open[i]->complete);
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

/* ---- resuming ---- */

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
}

TEST(malformed_event_ids_are_refused_and_foreign_ones_restart_the_stream)
{
    EACH_TEXT (bad, "x", "1", "1:2", "5:6:9", "1:2:3:4", "-1:1:", "0:0:", "0:5:0",
               "99999999999999999999:1:") {
        struct sse *sse = sse_open(host, platform->token, bad, 0);

        ck_assert_msg(sse->status == 400, "%s: %s", bad, sse->headers);
        sse_close(sse);
    }
    const char *in_progress = "1:1000:1"; /* a snapshot that is longer than any id */

    for (int i = 2; i < 1000; i++)
        in_progress = text("%s,%d", in_progress, i);
    ck_assert_int_eq(sse_open(host, platform->token, in_progress, 0)->status, 400);
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
    struct host *strict = live_host_with("stream-slow", "stream_end", "  write_timeout: 5\n", "");
    struct sse *slow = sse_open(strict, platform->token, NULL, 4096);
    struct sse *quick = live_listen(strict, platform, NULL);
    struct talk talk = talk_start(host, platform, "slow@shop.example", ADMIN_EMAIL, NULL);
    char *long_text = text("%030000d", 7);

    ck_assert_ptr_nonnull(sse_next(quick, SOON_MS));
    for (int i = 0; i < 40; i++) {
        live_post(host, &talk, "slow@shop.example", long_text);
        live_expect(quick, long_text);
    }
    WAIT_UNTIL(host_logged(strict, "route=/api/chat/stream") == 1, SOON_MS);
    ck_assert(sse_ends(slow, SOON_MS));
    ck_assert(!slow->complete);
    live_silence(quick);
}

/* Stores messages in a separate transaction that is not committed yet. */
static PGconn *begin_large(const struct talk *talk, const char *word)
{
    PGconn *own = database_connect(the_postgres, "stream_end");

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
    PGconn *lower = database_connect(the_postgres, "stream_end");

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

/*
 * Stores the third message of the first conversation in a transaction that begins before many
 * messages of other conversations, and the second message in a transaction after them. The host
 * reads them all at once.
 */
static void store_apart(const struct talk *talk, int others, int after)
{
    PGconn *lower = database_connect(the_postgres, "stream_end");

    ck_assert_int_eq(kill(host->pid, SIGSTOP), 0);
    sql_run(lower, "BEGIN");
    sql_number(lower, "SELECT pg_current_xact_id()::text::bigint");
    for (int i = 1; i <= others; i++)
        commit(begin_large(&talk[i], text("other %d", i)));
    store_one(db, talk, 2, "second");
    store_one(lower, talk, 3, "third");
    commit(lower);
    for (int i = others + 1; i <= others + after; i++)
        commit(begin_large(&talk[i], text("other %d", i)));
    ck_assert_int_eq(kill(host->pid, SIGCONT), 0);
}

static struct talk *start_talks(int count)
{
    struct talk *talks = calloc((size_t)count, sizeof *talks);

    for (int i = 0; i < count; i++)
        talks[i] = talk_start(host, platform, "turned@shop.example", "b@b.example", NULL);
    return talks;
}

static struct sse *change_host(struct sse *sse, const struct host *to)
{
    const char *id = sse->last_id;

    sse_close(sse);
    return live_listen(to, platform, id);
}

TEST(messages_arrive_in_chain_order_across_the_blocks_of_a_backlog)
{
    struct talk *talks = start_talks(3);
    struct sse *sse = live_listen(host, platform, NULL);

    live_silence(sse);
    store_apart(talks, 1, 1);
    for (int i = 0; i < LARGE; i++) {
        live_expect(sse, text("other 1 %d", i));
        if (i % 600 == 599)
            sse = change_host(sse, i < 600 ? other : host);
    }
    live_expect(sse, "second");
    sse = change_host(sse, other);
    live_expect(sse, "third");
    for (int i = 0; i < LARGE; i++) {
        live_expect(sse, text("other 2 %d", i));
        if (i % 600 == 599)
            sse = change_host(sse, i < 600 ? host : other);
    }
    live_silence(sse);
    free(talks);
}

TEST(clients_start_over_if_a_transaction_was_open_for_too_many_messages)
{
    struct talk *talks = start_talks(7),
                last = talk_start(host, platform, "turned@shop.example", "c@c.example", NULL);
    struct sse *sse = live_listen(host, platform, NULL);
    const struct sse_event *event;

    WAIT_UNTIL((sse_within(sse, 50), sse->last_id), SOON_MS);
    const char *id = sse->last_id;

    sse_close(sse);
    store_apart(talks, 6, 0);
    sse = live_listen(other, platform, id);
    live_reset(sse);
    live_post(host, &last, "turned@shop.example", "after the reset");
    while ((event = sse_next(sse, SOON_MS)) && strcmp(sse_entry(event), "after the reset") != 0)
        ck_assert_str_ne(sse_entry(event), "third");
    ck_assert_ptr_nonnull(event);
    live_silence(sse);
    free(talks);
}

LIVE_SUITE(stream_end)
