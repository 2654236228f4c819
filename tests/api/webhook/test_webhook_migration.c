/*
 * Databases of earlier versions, with deliveries that wait. Published steps of the schema never
 * change, so the tables of an earlier version are made from the first steps of schema.sql.
 */
#include "receive.h"

static const char *event_id(int number)
{
    return text("01a20000-0000-7000-8000-%012d", number);
}

/* Brings the tables of the module back to their state after `step`, with the webhooks. */
static void schema_go_back(PGconn *connection, int step)
{
    char *schema = file_text(TEST_SOURCES "/../modules/webhook/schema.sql");
    char *end = strstr(schema, text("-- step %d:", step + 1));

    ck_assert_ptr_nonnull(end);
    *end = '\0';
    sql_run(connection, "CREATE TABLE kept AS SELECT id, account, url, events, secret, admitted,"
                        " sees_all, organisations, email FROM webhook_hook");
    sql_run(connection,
            "DO $$ DECLARE drops text; BEGIN"
            " FOR drops IN SELECT format('DROP %s IF EXISTS %s CASCADE', CASE relkind WHEN 'v'"
            " THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, relname) FROM"
            /* a table before the sequence of its identity */
            " (SELECT relkind, relname FROM pg_class ORDER BY relkind = 'S') c"
            " WHERE relname LIKE 'webhook_%' AND relkind IN ('r', 'p', 'v', 'S')"
            " UNION ALL SELECT 'DROP FUNCTION IF EXISTS ' || oid::regprocedure || ' CASCADE' FROM "
            "pg_proc"
            " WHERE proname LIKE 'webhook_%'"
            " LOOP EXECUTE drops; END LOOP; END $$");
    PGresult *result = PQexec(connection, schema); /* several statements */

    ck_assert_msg(PQresultStatus(result) == PGRES_COMMAND_OK ||
                      PQresultStatus(result) == PGRES_TUPLES_OK,
                  "%s", PQerrorMessage(connection));
    PQclear(result);
    sql_run(connection, text("DELETE FROM busbar_migration WHERE module = 'webhook'"
                             " AND step > %d",
                             step));
    sql_run(connection,
            "INSERT INTO webhook_hook (id, account, url, events, secret, admitted, sees_all,"
            " organisations, email) SELECT * FROM kept");
    sql_run(connection, "SELECT setval('webhook_hook_id', max(id)) FROM webhook_hook");
}

#define BODY(entry)                                                                                \
    "'{\"conversationId\":1,\"message\":{\"uuid\":\"01a20000-0000-7000-8000-000000000000\","       \
    "\"username\":\"one@shop.example\",\"chatEntry\":\"" entry "\","                               \
    "\"createdAt\":\"2026-11-01T00:00:00.000Z\"},\"deviceProjectName\":null}'"

#define ATTEMPT                                                                                    \
    "'[{\"at\":\"2026-11-01T00:00:00.000Z\",\"number\":1,\"status\":500,\"durationMs\":3,"         \
    "\"error\":null,\"answer\":null}]'"

/* Rows of a host before the log of deliveries: events 1 to 5 wait, 6 and 7 do not. */
static const char *const rows_of_claims[] = {
    "INSERT INTO webhook_host (machine, process) VALUES ('dead', '1 1')",
    "INSERT INTO webhook_body (body) VALUES (" BODY("large") ")",
    /* queued for any host; of a dead host; due and later retries of a dead host; a large body */
    "INSERT INTO webhook_delivery (webhook, event_id, event, body, body_id, owner, tries, next_at,"
    " state, log) SELECT h.id, ('01a20000-0000-7000-8000-00000000000' || n)::uuid, 'message.new',"
    " CASE WHEN n <> 5 THEN " BODY(
        "small") " END, CASE WHEN n = 5 THEN (SELECT id FROM"
                 " webhook_body) END, CASE WHEN n IN (2, 3, 4) THEN (SELECT id FROM webhook_host) "
                 "END, tries,"
                 " now() + later, state, CASE WHEN tries = 0 THEN '[]' ELSE " ATTEMPT "::jsonb END"
                 " FROM webhook_hook h, (VALUES (1, 0, interval '0', 'queued'), (2, 0, '0', "
                 "'queued'),"
                 " (3, 1, '0', 'queued'), (4, 1, '2 s', 'queued'), (5, 0, '0', 'queued'),"
                 " (6, 1, '0', 'delivered'), (7, 3, '0', 'abandoned')) v (n, tries, later, state)",
    NULL};

/* Rows of a dead host of version 0.9.0; its webhook has a backlog. */
static const char *const rows_of_shards[] = {
    "INSERT INTO webhook_host (heartbeat_at) VALUES (now() - interval '1 hour')",
    "UPDATE webhook_shard SET owner = (SELECT id FROM webhook_host)",
    "INSERT INTO webhook_body (body) VALUES (" BODY("large") ")",
    "INSERT INTO webhook_delivery (webhook, event_id, event, body_id)"
    " SELECT h.id, ('01a20000-0000-7000-8000-00000000000' || n)::uuid, 'message.new',"
    " CASE WHEN n = 5 THEN (SELECT id FROM webhook_body) END FROM webhook_hook h,"
    " generate_series(1, 7) n ORDER BY n",
    "UPDATE webhook_delivery SET body = " BODY("small") " WHERE body_id IS NULL",
    /* 1 and 2 are a backlog below the cursor */
    "UPDATE webhook_shard SET cursor = (SELECT id FROM webhook_delivery"
    " WHERE event_id = '01a20000-0000-7000-8000-000000000002')",
    "INSERT INTO webhook_backlog SELECT webhook, min(id) - 1 FROM webhook_delivery GROUP BY "
    "webhook",
    "INSERT INTO webhook_waiting (id, webhook, next_at, tries, log) SELECT id, webhook, now() +"
    " CASE WHEN event_id::text LIKE '%4' THEN interval '2 s' ELSE interval '0' END, 1, " ATTEMPT
    " FROM webhook_delivery WHERE event_id::text ~ '[34]$'",
    "INSERT INTO webhook_outcome (id, webhook, at, duration_ms, status, delivered, log)"
    " SELECT id, webhook, now(), 3, CASE WHEN event_id::text LIKE '%6' THEN 200 ELSE 500 END,"
    " event_id::text LIKE '%6', CASE WHEN event_id::text LIKE '%7' THEN " ATTEMPT
    "::jsonb END FROM webhook_delivery WHERE event_id::text ~ '[67]$'",
    NULL};

TEST_EACH(deliveries_that_wait_in_a_database_of_an_earlier_version_are_sent_once, 2)
{
    enum { WAITING = 5, RETRIES = 3 };
    const char *const *rows = _i ? rows_of_shards : rows_of_claims;
    const char *name = text("migrate%d", _i);
    const char *database = database_make(the_postgres, name);
    struct host_spec spec = {
        .name = name, .database = database, .modules = WEBHOOK_MODULES, .more = WEBHOOK_LOCAL};
    struct catcher *catcher = catcher_start(NULL);
    PGconn *connection = database_connect(the_postgres, database);
    struct host *host = host_start(&spec);
    struct person *owner = admin_of(host);
    struct webhook_made made =
        webhook_make(host, owner, catcher_url(catcher, "old"), "message.new");

    host_stop(host);
    schema_go_back(connection, _i + 1);
    for (size_t i = 0; rows[i]; i++)
        sql_run(connection, rows[i]);
    spec.name = text("%s-next", name);
    host = host_prepare(&spec);
    host_says(host, 0, "migrate");
    host_says(host, 0, "pause");
    ck_assert(host_run(host));
    webhook_ready(database, 1);
    ck_assert_uint_eq(catcher_count(catcher), 0);
    host_says(host, 0, "resume");
    sql_soon(connection,
             text("SELECT (count(*) = %d)::int FROM webhook_outcome WHERE delivered", WAITING + 1));
    sql_is(connection, 0, "SELECT count(*) FROM webhook_queued");
    sql_is(connection, 1, "SELECT count(*) FROM webhook_outcome WHERE NOT delivered");
    sql_is(connection, 2,
           "SELECT count(*) FROM webhook_deliveries WHERE jsonb_array_length(log) = 2");
    ck_assert_uint_eq(catcher_count(catcher), WAITING);
    for (int number = 1; number <= WAITING; number++) {
        size_t found = 0;

        for (size_t i = 0; i < WAITING; i++) {
            const struct caught *caught = &catcher->list[i];

            if (strcmp(caught_header(caught, "webhook-id"), event_id(number)) != 0)
                continue;
            found++;
            ck_assert_str_eq(caught_header(caught, "X-Webhook-Attempt"),
                             number == RETRIES || number == RETRIES + 1 ? "2" : "1");
            ck_assert_ptr_nonnull(strstr(caught->body, number == WAITING ? "large" : "small"));
        }
        ck_assert_uint_eq(found, 1);
    }
    const struct answer *listed = webhook_call(host, owner, "GET", &made, "/deliveries");

    ck_assert_uint_eq(json_array_size(listed->json), WAITING + 2);
}

SUITE(webhook_migration, .timeout_s = 90)
