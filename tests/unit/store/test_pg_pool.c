/* The order in which waiting entries get a connection of a pool, and which are refused; without a
 * database. */
#include "core/module/quota.h"
#include "core/store/pg_pool.h"
#include "suite.h"

enum {
    ENTRIES = 200,
    QUEUE = 100,
    EACH = QUEUE / 4,
    CONNECTIONS = 8,
    BATCH = 64,
    OWNER_READS = 4,
    OWNER_UNITS = BATCH / 4
};
enum { ANNA = 1, BERT = 2, CARL = 3 };

static struct loop loop;
static struct pg pg;
static struct pg_pool *pool;
static struct pg_conn conns[CONNECTIONS];
static struct core_request requests[ENTRIES];
static struct pg_request *entries[ENTRIES];

static void set_up_pool(enum pg_pool_kind kind)
{
    static const struct host_settings host = {.http.client_percent = 25, .database.queue = QUEUE};

    loop = (struct loop){.host = &host};
    pg = (struct pg){.loop = &loop};
    pool = &pg.pools[kind];
    *pool = (struct pg_pool){.pg = &pg,
                             .kind = kind,
                             .conns = conns,
                             .count = CONNECTIONS,
                             .batch_max = BATCH,
                             .owners = QUOTA_TABLE(CONNECTIONS)};
    for (unsigned i = 0; i < CONNECTIONS; i++)
        conns[i] = (struct pg_conn){
            .pool = pool, .state = PG_READY, .queue = FAIR_QUEUE(conns[i].queue, i)};
}

static void set_up(void)
{
    set_up_pool(PG_READ);
}

static void free_entries(void)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        if (entries[i])
            pg_request_free(entries[i]);
        entries[i] = NULL;
    }
}

static void tear_down(void)
{
    free_entries();
    quota_table_free(&pool->owners);
}

static struct core_request *request_of_account(int number, int64_t account)
{
    requests[number] = (struct core_request){.kind = REQUEST_HTTP, .owner.account = account};
    return &requests[number];
}

/* Entry `number` of the account waits for the first connection. */
static void wait_for(int number, int64_t account)
{
    struct core_request *rq = request_of_account(number, account);
    struct pg_request *entry = pg_request_new(rq);

    ck_assert_ptr_nonnull(entry);
    entries[number] = entry;
    entry->pool = pool;
    entry->queued.owner = pg_enter(pool, rq);
    ck_assert_ptr_nonnull(entry->queued.owner);
    pg_conn_queue(&conns[0], entry, NULL);
}

static void crowd(int from, int to, int64_t account)
{
    for (int i = from; i < to; i++)
        wait_for(i, account);
}

static void submit(enum pg_pool_kind kind, int number, int64_t account, uint64_t key, size_t bytes)
{
    struct pg_request *entry = pg_request_new(request_of_account(number, account));

    ck_assert_ptr_nonnull(entry);
    entries[number] = entry;
    entry->key = key;
    entry->bytes = bytes;
    ck_assert_int_eq(pg_submit(&pg, kind, entry), 0);
}

TEST(owners_take_turns_in_a_batch)
{
    crowd(0, 20, ANNA);
    crowd(20, 22, BERT);
    wait_for(22, CARL);
    static const int order[] = {0, 20, 22, 1, 21, 2, 3};

    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        ck_assert_ptr_eq(pg_conn_next(&conns[0], i), entries[order[i]]);
    ck_assert_uint_eq(conns[0].waiting_count, 23 - sizeof order / sizeof *order);
    ck_assert_uint_eq(pool->queued, conns[0].waiting_count);
}

/* Fails the test unless Anna's crowd gets this many places in a batch with Bert's entry, and in the
 * next batch without others. */
static void expect_places(size_t places)
{
    crowd(0, EACH, ANNA);
    wait_for(EACH, BERT);
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[0]);
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 1), entries[EACH]);
    for (size_t i = 1; i < places; i++)
        ck_assert_ptr_eq(pg_conn_next(&conns[0], i + 1), entries[i]);
    ck_assert_ptr_null(pg_conn_next(&conns[0], places + 1));
    for (size_t i = 0; i < places; i++)
        ck_assert_ptr_eq(pg_conn_next(&conns[0], i), entries[places + i]);
    ck_assert_ptr_null(pg_conn_next(&conns[0], places));
}

TEST(an_owner_is_limited_in_a_batch_of_reads)
{
    expect_places(OWNER_READS);
}

TEST(an_owner_is_limited_to_a_quarter_of_a_batch_of_units)
{
    tear_down();
    set_up_pool(PG_UNIT);
    crowd(0, EACH, ANNA);
    for (size_t i = 0; i < OWNER_UNITS; i++)
        ck_assert_ptr_eq(pg_conn_next(&conns[0], i), entries[i]);
    ck_assert_ptr_null(pg_conn_next(&conns[0], OWNER_UNITS));
}

/* An entry that does not fit is first in the next batch, so small ones cannot pass it forever. */
TEST(a_batch_has_a_limit_of_bytes_or_one_entry)
{
    crowd(0, 2, ANNA);
    crowd(2, 5, BERT);
    entries[0]->bytes = entries[1]->bytes = (size_t)10 * PG_BATCH_BYTES;
    entries[3]->bytes = PG_BATCH_BYTES;

    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[0]);
    ck_assert_ptr_null(pg_conn_next(&conns[0], 1));
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[2]);
    ck_assert_ptr_null(pg_conn_next(&conns[0], 1));
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[1]);
    ck_assert_ptr_null(pg_conn_next(&conns[0], 1));
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[3]);
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 1), entries[4]);
}

TEST(an_owner_is_limited_to_its_share_of_the_queue)
{
    unsigned long long before = quota_refused(QUOTA_DATABASE, true);
    struct core_request *rq = request_of_account(ENTRIES - 1, ANNA);

    crowd(0, EACH, ANNA);
    ck_assert_ptr_null(pg_enter(pool, rq));
    ck_assert_int_eq(rq->failure.kind, FAILED_SHARE);
    ck_assert_uint_eq(quota_refused(QUOTA_DATABASE, true), before + 1);
    rq->kind = REQUEST_HOOK;
    struct quota_entry *owner = pg_enter(pool, rq);

    ck_assert_ptr_nonnull(owner);
    fair_leave(&pool->owners, owner);
    crowd(EACH, 2 * EACH, BERT);
    crowd(2 * EACH, 3 * EACH, CARL);
    crowd(3 * EACH, QUEUE, 0);
    ck_assert_ptr_null(pg_enter(pool, request_of_account(ENTRIES - 1, CARL + 1)));
    ck_assert_int_eq(rq->failure.kind, FAILED_BUSY);
}

TEST(finished_entries_do_not_count_in_the_share)
{
    crowd(0, EACH, ANNA);
    pg_request_free(pg_conn_next(&conns[0], 0));
    entries[0] = NULL;
    wait_for(0, ANNA);
    ck_assert_ptr_null(pg_enter(pool, request_of_account(ENTRIES - 1, ANNA)));
}

TEST(retried_entries_are_sent_first_and_if_necessary_alone)
{
    crowd(0, 3, ANNA);
    struct pg_request *first = pg_conn_next(&conns[0], 0), *second = pg_conn_next(&conns[0], 1);

    pg_conn_queue(&conns[0], second, &conns[0].again);
    pg_conn_queue(&conns[0], first, &conns[0].again);
    second->alone = true;
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), first);
    ck_assert_ptr_null(pg_conn_next(&conns[0], 1));
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), second);
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[2]);
}

/* The share is a quarter of eight connections; entries of others overtake those above the share. */
TEST(an_owner_is_limited_to_its_share_of_the_long_pool)
{
    tear_down();
    set_up_pool(PG_LONG);
    crowd(0, 5, ANNA);
    wait_for(5, BERT);
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[0]);
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[5]);
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[1]);
    ck_assert_ptr_null(pg_conn_next(&conns[0], 0));
    crowd(6, 10, 0);
    for (int i = 6; i < 10; i++)
        ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[i]);
    pg_request_free(entries[0]);
    entries[0] = NULL;
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[2]);
    ck_assert_ptr_null(pg_conn_next(&conns[0], 0));
}

/* The share is one of four connections. */
TEST(an_owner_with_waiting_long_statements_pauses_if_others_use_the_database)
{
    enum { TOOK_MS = 10, PAUSE_MS = 3 * TOOK_MS };

    tear_down();
    set_up_pool(PG_LONG);
    pool->count = 4;
    crowd(0, 3, ANNA);
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[0]);
    entries[0]->sent_us = clock_mono_us() - 1000 * TOOK_MS;
    submit(PG_LONG, 3, BERT, 0, 0);
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[3]);
    pg_request_free(entries[0]);
    entries[0] = NULL;
    ck_assert_ptr_null(pg_conn_next(&conns[0], 0));
    ck_assert(pg.rest.node.set); /* the loop runs again at the end of the pause */
    ck_assert_int_ge(pg.rest.node.at_ms, PAUSE_MS);
    loop.now_ms = pg.rest.node.at_ms;
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[1]);

    entries[1]->sent_us = clock_mono_us() + 1; /* after Bert's request */
    pg_request_free(entries[1]);
    entries[1] = NULL;
    ck_assert_ptr_eq(pg_conn_next(&conns[0], 0), entries[2]);
}

/* The first free connection takes the next long statement. */
TEST(long_statements_use_the_first_free_connection)
{
    tear_down();
    set_up_pool(PG_LONG);
    wait_for(0, ANNA);
    wait_for(1, BERT);
    ck_assert_ptr_eq(pg_conn_next(&conns[3], 0), entries[0]);
    ck_assert_ptr_eq(pg_conn_next(&conns[5], 0), entries[1]);
    ck_assert_ptr_null(pg_conn_next(&conns[0], 0));
    ck_assert_uint_eq(pool->queued, 0);
}

/* No other unit waits in a batch with a large unit, or with a unit that waits for the locks of a
 * large one. */
TEST(large_units_use_the_long_pool)
{
    struct pg_pool *other = &pg.pools[PG_LONG];
    struct pg_conn conn = {.pool = other, .state = PG_READY, .queue = FAIR_QUEUE(conn.queue, 0)};

    tear_down();
    set_up_pool(PG_UNIT);
    *other = (struct pg_pool){
        .pg = &pg, .kind = PG_LONG, .conns = &conn, .count = 1, .owners = QUOTA_TABLE(1)};
    submit(PG_UNIT, 0, ANNA, 7, PG_BATCH_BYTES + 1);
    submit(PG_UNIT, 1, ANNA, 7, 1);
    submit(PG_UNIT, 2, BERT, 8, 1);
    submit(PG_UNIT, 3, BERT, 9, PG_BATCH_BYTES);
    ck_assert_uint_eq(other->queued, 2);
    ck_assert_uint_eq(pool->queued, 2);
    ck_assert_ptr_eq(pg_conn_next(&conn, 0), entries[0]);
    ck_assert_ptr_null(pg_conn_next(&conn, 0)); /* one at a time for each owner */
    pg_request_free(entries[0]);
    ck_assert_ptr_eq(pg_conn_next(&conn, 0), entries[1]);
    pg_request_free(entries[1]);
    submit(PG_UNIT, 0, ANNA, 7, 1);
    entries[1] = NULL;
    ck_assert_uint_eq(other->queued, 0);
    ck_assert_uint_eq(pool->queued, 3);
    free_entries();
    quota_table_free(&other->owners);
}

SUITE(pg_pool, .before_each = set_up, .after_each = tear_down)
