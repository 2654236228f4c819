/*
 * Keyed statements: whatever waits together, each request gets exactly the response it would get
 * alone. The test module (module_keys.c) makes rows from the key, so the correct response is known.
 * Meanwhile connections are closed and tables are changed.
 */
#include "exposition.h"
#include "stage.h"
#include "talk.h"

enum { CLIENTS = 24, CROWD = 64, COUNTERS = 40, NAMES = 1000, UNLUCKY = 13 };

/* Returns the number of requests of a crowd. */
static int asks_of_all(void)
{
    return repetitions(300, 900);
}

static struct postgres *pg;

static void start(const char *name, const char *database)
{
    pg = pg ? pg : the_postgres;
    host = host_start(&(struct host_spec){
        .name = name,
        .pg = pg,
        .modules = text("[auth, metrics, \"%s\"]", harness_test_module("module_keys")),
        .http = "  loops: 1\n  metrics_networks: [127.0.0.1]\n  connections_per_address: 1000\n",
        .db = database});
    db = database_connect(pg, name);
    status_soon(host, "/api/keys/rows/1", NULL, 200);
}

static void stop(void)
{
    ck_assert_uint_eq(host_logged(host, "another one's row"), 0);
    ck_assert_uint_eq(host_logged(host, "returned rows for unknown keys"), 0);
    host_stop(host);
}

/* Returns a counter of a pool from /metrics. */
static int64_t metric(const char *name, const char *pool)
{
    return (int64_t)exposition_value(exposition_get(host, NULL), name,
                                     text("loop=\"0\",pool=\"%s\"", pool));
}

/* ---- one client ---- */

struct client {
    pthread_t thread;
    unsigned seed;
    int asks;
    bool rough;      /* connections to PostgreSQL are closed meanwhile, so a 503 is allowed */
    int64_t unknown; /* units with a 503 */
    int wrong;
    char *why; /* the first wrong response */
};

static _Atomic int64_t sums[COUNTERS + 1]; /* acknowledged additions */
static atomic_int answered;                /* requests with another response than 503 */
static atomic_bool disturbed;              /* clients go on until the faults are over */

static void complain(struct client *client, const char *path, const struct answer *answer)
{
    if (!client->wrong++)
        client->why = text("%s: %ld %s %s", path, answer->status, answer->body ? answer->body : "",
                           answer->problem);
}

/* Returns whether the rows are the ones that module_keys.c makes of a key and a text. */
static bool is_right(int64_t key, const char *said, const json_t *rows)
{
    if (!json_is_array(rows) || (int64_t)json_array_size(rows) != key % 4)
        return false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = json_string_value(json_array_get(row, 2));
        const char *text_of = json_string_value(json_array_get(row, 3));

        if (json_integer_value(json_array_get(row, 0)) != key ||
            json_integer_value(json_array_get(row, 1)) != (json_int_t)i + 1 ||
            (key <= NAMES ? !name || strcmp(name, text("name \"%jd\\", key)) : !!name) ||
            !text_of || strcmp(text_of, said))
            return false;
    }
    return true;
}

static void ask_rows(struct client *client, CURL *connection)
{
    static const char *const texts[] = {"x", "a%22b%5C", "%7B1%2C2%7D", "NULL"};
    static const char *const meant[] = {"x", "a\"b\\", "{1,2}", "NULL"};
    int64_t key = 1 + rand_r(&client->seed) % (NAMES + NAMES / 4);
    int said = rand_r(&client->seed) % 4;
    char *path = text("/api/keys/rows/%jd?said=%s", key, texts[said]);
    const struct answer *answer =
        http_send(host, &(struct call){.method = "GET", .path = path, .connection = connection});
    bool fails = key % UNLUCKY == 0 && key % 4; /* a key without rows does not fail */
    bool right = fails ? answer->status == 409
                       : answer->status == 200 && is_right(key, meant[said], answer->json);

    answered += answer->status != 503;
    if (!right && !(client->rough && answer->status == 503))
        complain(client, path, answer);
}

static void ask_counter(struct client *client, CURL *connection)
{
    int64_t counter = 1 + rand_r(&client->seed) % (COUNTERS + 2), by = rand_r(&client->seed) % 20;
    char *path = text("/api/keys/counter/%jd?by=%jd", counter, by);
    const struct answer *answer =
        http_send(host, &(struct call){.method = "PUT", .path = path, .connection = connection});
    long wanted = counter > COUNTERS ? 404 : by == UNLUCKY ? 409 : 200;

    answered += answer->status != 503;
    if (answer->status == 200 && wanted == 200)
        sums[counter] += by;
    else if (client->rough && answer->status == 503)
        client->unknown++;
    else if (answer->status != wanted)
        complain(client, path, answer);
}

static void *asks(void *arg)
{
    struct client *client = arg;
    CURL *connection = client_open();

    for (int i = 0; (i < client->asks || disturbed) && !client->wrong; i++) {
        if (rand_r(&client->seed) % 3)
            ask_rows(client, connection);
        else
            ask_counter(client, connection);
    }
    curl_easy_cleanup(connection);
    return NULL;
}

/* ---- faults meanwhile ---- */

static void await_responses(int count)
{
    int before = answered;

    WAIT_UNTIL(answered >= before + count, 60000);
}

/* Closes the connections for keyed statements; returns how many had a statement in progress. */
static int64_t close_connections(void)
{
    return sql_number(db, "SELECT count(*) FILTER (WHERE state = 'active') FROM"
                          " (SELECT state, pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                          " query LIKE '%keys_%' AND application_name = 'busbar') closed");
}

static void disturb(void)
{
    for (int i = 0; i < repetitions(4, 12); i++) {
        await_responses(CLIENTS);
        if (i % 2)
            WAIT_UNTIL(close_connections() > 0, 20000);
        else
            sql_run(db, text("ALTER TABLE keys_name ADD COLUMN more%d text", i));
        sql_run(db, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE state = 'active'"
                    " AND pid <> pg_backend_pid() AND application_name = 'busbar'");
    }
    await_responses(CLIENTS);
}

/* Crashes the server three times while requests are sent. */
static void kill_postgres(void)
{
    for (int i = 0; i < 3; i++) {
        await_responses(asks_of_all() / 4);
        postgres_stop(pg, SIGKILL);
        postgres_start(pg);
    }
    await_responses(CLIENTS);
}

/* Runs this many clients at once; returns how many units have an unknown outcome. */
static int64_t crowd(int count, bool rough, void (*meanwhile)(void))
{
    struct client clients[CROWD];
    int64_t unknown = 0;

    disturbed = meanwhile != NULL;
    for (int i = 0; i < count; i++) {
        clients[i] = (struct client){
            .seed = (unsigned)i * 7919 + 1, .asks = asks_of_all() / count, .rough = rough};
        ck_assert_int_eq(pthread_create(&clients[i].thread, NULL, asks, &clients[i]), 0);
    }
    if (meanwhile)
        meanwhile();
    disturbed = false;
    for (int i = 0; i < count; i++) {
        pthread_join(clients[i].thread, NULL);
        unknown += clients[i].unknown;
    }
    for (int i = 0; i < count; i++)
        ck_assert_msg(!clients[i].wrong, "%s", clients[i].why);
    return unknown;
}

/* The counters equal the recorded additions and, if no outcome is unknown, the acknowledged
 * ones. */
static void expect_counters(int64_t unknown)
{
    sql_is(db, 0,
           "SELECT count(*) FROM keys_counter c WHERE value <> coalesce("
           "(SELECT sum(added) FROM keys_done WHERE counter = c.id), 0)");
    for (int i = 1; i <= COUNTERS; i++) {
        int64_t value = sql_number(db, text("SELECT value FROM keys_counter WHERE id = %d", i));

        if (unknown)
            ck_assert_int_ge(value, sums[i]);
        else
            ck_assert_int_eq(value, sums[i]);
    }
}

/* ---- the tests ---- */

static const char together[] = "  read_connections: 1\n  unit_connections: 1\n";
static const char alone[] = "  gather: 1\n";

TEST(keyed_statements_give_the_same_responses_as_separate_ones)
{
    static const int counts[] = {1, 2, CLIENTS, CROWD};

    start("keys_together", together);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        expect_counters(crowd(counts[i], false, NULL));
    /* a loop publishes its counters periodically */
    WAIT_UNTIL(metric("busbar_database_sharing_requests_total", "read") > asks_of_all() / 2 &&
                   metric("busbar_database_sharing_requests_total", "unit") > asks_of_all() / 8,
               5000);
    stop();
}

TEST(keyed_statements_are_not_merged_if_disabled)
{
    start("keys_alone", alone);
    expect_counters(crowd(CLIENTS, false, NULL));
    ck_assert_int_eq(metric("busbar_database_shared_executions_total", "read"), 0);
    ck_assert_int_eq(metric("busbar_database_shared_executions_total", "unit"), 0);
    stop();
}

TEST(keyed_statements_give_correct_responses_during_disconnects_and_ddl)
{
    start("keys_rough", together);
    expect_counters(crowd(CLIENTS, true, disturb));
    stop();
}

/* Uses a separate cluster with fsync. */
TEST(keyed_statements_give_correct_responses_when_postgresql_is_killed)
{
    pg = postgres_make("keys_pg", true);
    start("keys_killed", together);
    int64_t unknown = crowd(CLIENTS, true, kill_postgres);

    PQreset(db);
    expect_counters(unknown);
    stop();
    postgres_stop(pg, SIGINT);
}

/* A transaction locks the table during the requests, so that they wait together. */
TEST(a_merged_statement_that_fails_is_logged_and_sent_separately)
{
    const struct call half = {.method = "GET", .path = "/api/keys/half/7"};
    struct pending_call *pending[CLIENTS];

    start("keys_half", together);
    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE keys_name IN ACCESS EXCLUSIVE MODE");
    for (int i = 0; i < CLIENTS; i++)
        pending[i] = call_begin(host, &half);
    WAIT_UNTIL(exposition_value(exposition_get(host, NULL), "busbar_module_requests",
                                "module=\"keys\"") == CLIENTS,
               5000);
    sql_run(db, "COMMIT");
    for (int i = 0; i < CLIENTS; i++)
        ck_assert_str_eq(answer_text(ck_status(call_end(pending[i]), 200), "name"), "name \"7\\");
    host_logs(host, 0, "keyed statement failed for several keys");
    stop();
}

/* No new connections are possible meanwhile, so keyed statements use the other connection. The
 * connection that is closed is the one with the latest query; the other may have been used before
 * the first existed. */
TEST(a_lost_connection_does_not_block_keyed_statements)
{
    start("keys_lost", "  read_connections: 2\n");
    PGconn *other = database_connect(pg, "postgres");

    WAIT_UNTIL(metric("busbar_database_connections", "read") == 2, 10000);
    for (int i = 0; i < 20; i++)
        ck_status(http(host, "GET", "/api/keys/rows/1", NULL, NULL), 200);
    sql_run(other, "ALTER DATABASE keys_lost ALLOW_CONNECTIONS false");
    sql_is(db, 1,
           "SELECT pg_terminate_backend(pid)::int FROM pg_stat_activity"
           " WHERE datname = 'keys_lost' AND query LIKE '%%FROM keys_name%%'"
           " AND pid <> pg_backend_pid() ORDER BY query_start DESC LIMIT 1");
    for (int64_t end = now_ms() + 1500; now_ms() < end;)
        ck_status(http(host, "GET", "/api/keys/rows/1", NULL, NULL), 200);
    sql_run(other, "ALTER DATABASE keys_lost ALLOW_CONNECTIONS true");
    stop();
}

SUITE(keys, .timeout_s = 120)
