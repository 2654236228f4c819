/*
 * Events and deliveries of earlier days, as hosts find them after a long stop: deliveries that are
 * too old are not sent, and a day's partitions stay while any of their deliveries must still be
 * sent.
 */
#include "deliver.h"

#define OLD_EVENT "01a20000-0000-7000-8000-000000000001"
#define OF_OLD_EVENT "event_id = '" OLD_EVENT "'"

enum { HOOKS = 3, LONG_MS = 20000 };

static struct receiver *receiver;

static void set_up(void)
{
    deliver_open("hookdays", "  queue_per_webhook: 400000\n  memory: 1024\n  timeout: 30\n");
    receiver = receiver_start("days");
    for (int i = 0; i < HOOKS; i++)
        webhook_make(host, admin, receiver_url(receiver, "/fast/x"), "message.new");
}

static int64_t number(const char *condition)
{
    return sql_number(db, text("SELECT count(*) FROM webhook_deliveries WHERE %s", condition));
}

#define NEW_ONES "state = 'delivered' AND event_id <> '" OLD_EVENT "'"

/* Makes an event that was committed this many days ago and waits to be expanded; returns its day,
 * since 1970. */
static int64_t seed_event(int days)
{
    int64_t day = sql_number(db, text("SELECT (now() AT TIME ZONE 'UTC')::date - %d"
                                      " - DATE '1970-01-01'",
                                      days));

    sql_run(db,
            text("WITH b AS (INSERT INTO webhook_body (id, body)"
                 " SELECT (%jd::bigint << 32) + mod(nextval('webhook_delivery_id'), 1000000), '{}'"
                 " RETURNING id)"
                 " INSERT INTO webhook_expansion (account, event, event_id, body_id, webhooks,"
                 " queued_at) SELECT 1, 'message.new', '" OLD_EVENT "', b.id,"
                 " ARRAY(SELECT h.id FROM webhook_hook h), now() - interval '%d days' FROM b",
                 day, days));
    return day;
}

/* The deliveries have the time of the event; its body is copied to today's partition. */
TEST(an_event_older_than_max_age_is_not_sent)
{
    seed_event(3);
    sql_soon(db, "SELECT (count(*) = 0)::int FROM webhook_expansion");
    ck_assert_int_eq(number(OF_OLD_EVENT), HOOKS);
    say("after an old event");
    sql_soon(db,
             text("SELECT (count(*) >= %d)::int FROM webhook_deliveries WHERE " NEW_ONES, HOOKS));
    ck_assert_int_eq(number(OF_OLD_EVENT " AND state = 'delivered'"), 0);
    ck_assert_int_eq(number(OF_OLD_EVENT " AND created_at < now() - interval '2 days'"
                                         " AND id >> 32 = body_id >> 32"),
                     HOOKS);
}

/* Returns whether the partitions of a day were dropped. */
static int64_t drop_day(int64_t day)
{
    return sql_number(db, text("SELECT webhook_partition_drop(DATE '1970-01-01' + %jd)::int", day));
}

TEST(a_day_partition_is_kept_while_an_event_in_it_must_be_expanded)
{
    sql_run(db, "BEGIN");
    sql_run(db, "SELECT webhook_partition_make((now() AT TIME ZONE 'UTC')::date - 40)");
    int64_t day = seed_event(40);

    ck_assert_int_eq(drop_day(day), 0);
    sql_is(db, 1,
           "SELECT count(*) FROM webhook_expansion x JOIN webhook_body b ON b.id = x.body_id");
    sql_run(db, "DELETE FROM webhook_expansion");
    ck_assert_int_eq(drop_day(day), 1);
    sql_run(db, "ROLLBACK");
}

/* Waits until the connection waits for a lock. */
static void expect_waiting(PGconn *observer, PGconn *waiting)
{
    sql_soon(observer, text("SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted",
                            PQbackendPID(waiting)));
}

/* Runs the statement on another connection; once it waits for a lock of `db`, commits `db`. */
static void run_beside(PGconn *other, const char *sql)
{
    sql_run(other, "SET lock_timeout = 0");
    ck_assert_int_eq(PQsendQuery(other, sql), 1);
    expect_waiting(db, other);
    sql_run(db, "COMMIT");
}

static const char *answer_of(PGconn *other)
{
    PGresult *result = PQgetResult(other);
    const char *cell = PQresultStatus(result) == PGRES_TUPLES_OK ? PQgetvalue(result, 0, 0)
                                                                 : PQerrorMessage(other);

    cell = text("%s", cell);
    PQclear(result);
    return cell;
}

/* Makes a delivery, its body and its outcome; `id` is SQL. */
static void make_outcome(const char *id, const char *delivered)
{
    sql_run(db, text("WITH b AS (INSERT INTO webhook_body (id, body) SELECT %s, '{}' RETURNING id),"
                     " d AS (INSERT INTO webhook_delivery (id, webhook, event_id, event, body_id)"
                     " SELECT id, 1, '" OLD_EVENT "', 'message.new', id FROM b)"
                     " INSERT INTO webhook_outcome (id, webhook, at, duration_ms, delivered)"
                     " SELECT id, 1, now(), 0, %s FROM b",
                     id, delivered));
}

#define DAYS_AGO(days) "((now() AT TIME ZONE 'UTC')::date - " days ")"
#define FIRST(days) "webhook_day_floor" DAYS_AGO(days)
#define OF_DAYS(table)                                                                             \
    "SELECT count(*) FROM " table " WHERE id >= " FIRST("25") " AND id < " FIRST("23")

/* The resend is answered after its transaction is committed. */
TEST(a_resend_while_a_day_is_dropped_or_thinned_keeps_the_delivery)
{
    static const char *const calls[][3] = {
        {"drop_day", FIRST("50"), "SELECT webhook_partition_drop" DAYS_AGO("50")},
        {"thin", FIRST("29"), "SELECT webhook_partition_thin" DAYS_AGO("29")},
    };
    PGconn *other = database_connect(the_postgres, PQdb(db));

    sql_run(db, "SELECT webhook_partition_make((now() AT TIME ZONE 'UTC')::date - n)"
                " FROM generate_series(29, 50, 21) AS n");
    for (size_t i = 0; i < 2; i++) {
        sql_run(db, text("ALTER FUNCTION webhook_partition_%s SET lock_timeout = 0", calls[i][0]));
        make_outcome(calls[i][1], "true");
        sql_run(db, "BEGIN");
        sql_run(db, text("WITH old AS (DELETE FROM webhook_outcome WHERE id = %s RETURNING *)"
                         " INSERT INTO webhook_waiting (id, webhook) SELECT id, webhook FROM old",
                         calls[i][1]));
        run_beside(other, calls[i][2]);
        ck_assert_str_eq(answer_of(other), "f");
        ck_assert_int_eq(number(text("id = %s", calls[i][1])), 1);
    }
}

/* Two days with a delivered and an abandoned delivery, and an event of a polled webhook. */
TEST(delivered_deliveries_of_a_day_and_their_bodies_are_removed_once)
{
    static const char days[] = "SELECT count(*) FROM webhook_days_old(3650, %d) AS day"
                               " WHERE day IN (" DAYS_AGO("25") ", " DAYS_AGO("24") ")";
    static const char thin[] =
        "SELECT webhook_partition_thin((now() AT TIME ZONE 'UTC')::date - %d)::int";

    sql_run(db, "SELECT webhook_partition_make((now() AT TIME ZONE 'UTC')::date - n)"
                " FROM generate_series(24, 25) AS n");
    for (int i = 0; i < 4; i++)
        make_outcome(text(FIRST("%d") " + %d", 24 + i / 2, i % 2), i % 2 ? "false" : "true");
    ask(admin, 201, NULL, "POST " WEBHOOKS " {'kind':'poll','events':['message.new']}");
    sql_run(db, "INSERT INTO webhook_delivery (id, webhook, event_id, event, body) SELECT " FIRST(
                    "25") " + 2, max(id), '" OLD_EVENT "', 'message.new', '{}' FROM webhook_hook");
    sql_run(db, "INSERT INTO webhook_waiting (id, webhook, next_at) SELECT " FIRST(
                    "25") " + 1, 1, webhook_never()");
    sql_is(db, 0, thin, 25); /* something waits */
    sql_run(db, "DELETE FROM webhook_waiting WHERE next_at = webhook_never()");
    sql_is(db, 0, days, 0);
    sql_is(db, 2, days, 20);
    sql_is(db, 1, thin, 25);
    sql_is(db, 4, OF_DAYS("webhook_body")); /* until the next day is thinned out, too */
    sql_is(db, 1, thin, 24);
    sql_is(db, 0, days, 20);
    sql_is(db, 2, OF_DAYS("webhook_body"));
    sql_is(db, 3, OF_DAYS("webhook_deliveries") " AND state <> 'delivered'");
    sql_is(db, 3, OF_DAYS("webhook_deliveries"));
    int64_t id = sql_number(db, "SELECT " FIRST("24"));

    ask(admin, 404, NULL, "POST " WEBHOOKS "/1/deliveries/%jd/resend", id);
    ask(admin, 200, NULL, "POST " WEBHOOKS "/1/deliveries/%jd/resend", id + 1);
    sql_soon(db,
             text("SELECT count(*) FROM webhook_deliveries WHERE id = %jd AND state = 'delivered'",
                  id + 1));
    sql_is(db, 0, days, 20);
}

/* Rows that came before their day's partition was made are moved into it. */
TEST(a_resend_while_the_day_partition_is_created_is_queued)
{
    static const char id[] = "webhook_day_floor((now() AT TIME ZONE 'UTC')::date + 50)";
    PGconn *other = database_connect(the_postgres, PQdb(db));

    sql_run(db, "ALTER FUNCTION webhook_partition_make_of SET lock_timeout = 0");
    make_outcome(id, "true");
    sql_run(other, "BEGIN");
    sql_run(other, "SELECT webhook_partition_make((now() AT TIME ZONE 'UTC')::date + 50)");
    ck_assert_int_eq(PQsendQuery(db, text("DELETE FROM webhook_outcome WHERE id = %s"
                                          " RETURNING 'queued'",
                                          id)),
                     1);
    PGconn *third = database_connect(the_postgres, PQdb(db));

    expect_waiting(third, db);
    sql_run(other, "COMMIT");
    ck_assert_str_eq(answer_of(db), "queued");
}

static void await_heartbeats(int count)
{
    for (int i = 0; i < count; i++)
        sql_soon(db, text("SELECT count(*) FROM webhook_host WHERE id <> 1000000"
                          " AND heartbeat_at > '%s'",
                          sql_text(db, "SELECT now()", 0, NULL)));
}

/* No process belongs to this host, because hosts check only the heartbeat. */
TEST(a_host_counts_as_dead_only_if_its_heartbeat_is_old)
{
    static const char dead[] = "SELECT count(*) FROM webhook_host WHERE id = 1000000";

    sql_run(db, "INSERT INTO webhook_host (id, heartbeat_at) OVERRIDING SYSTEM VALUE"
                " VALUES (1000000, now() + interval '1 hour')");
    await_heartbeats(3);
    ck_assert_int_eq(sql_number(db, dead), 1);
    sql_run(db,
            "UPDATE webhook_host SET heartbeat_at = now() - interval '11 s' WHERE id = 1000000");
    sql_soon(db, text("SELECT 1 - (%s)", dead));
}

/* Waits until this many deliveries to the webhook have been made. */
static void expect_delivered(int64_t webhook, int count)
{
    sql_soon(db, text("SELECT (count(*) >= %d)::int FROM webhook_deliveries WHERE webhook = %jd"
                      " AND state = 'delivered'",
                      count, webhook));
}

/* One webhook has a backlog in memory and in the log; another one's delivery is committed by a
 * transaction that got its id before, and nobody is notified of it. */
TEST(orphaned_deliveries_and_late_commits_are_found_behind_a_backlog)
{
    intmax_t silent =
        webhook_make(host, admin, receiver_url(receiver, "/hang/x"), "message.new").id;
    intmax_t other = webhook_make(host, admin, receiver_url(receiver, "/fast/x"), "message.new").id;
    static const char *const insert =
        "INSERT INTO webhook_delivery (webhook, event_id, event, body)"
        " SELECT %jd, '" OLD_EVENT "', 'message.new', '{}' FROM generate_series(1, %d)";
    PGconn *late = database_connect(the_postgres, PQdb(db));

    sql_run(late, "BEGIN");
    sql_run(late, text(insert, other, 1));
    sql_run(db, text(insert, silent, 9000));
    sql_run(db, text(insert, other, 1));
    sql_run(db, text("SELECT pg_notify('webhook', 'queued:%jd:' || max(id)) FROM webhook_delivery"
                     " WHERE webhook = %jd",
                     other, other));
    expect_delivered(other, 1);
    await_heartbeats(3); /* meanwhile the host must not move its cursors */
    sql_run(late, "COMMIT");
    PQfinish(late);
    expect_delivered(other, 2);
    sql_soon(db, "SELECT (coalesce(sum((counters ->> 'waiting')::bigint), 0) >= 100)::int FROM "
                 "webhook_host");
}

/*
 * No sender looks at the deliveries of a webhook that is off: the job webhook.sweep gives them up.
 * The second delivery waits for a retry that is due in an hour.
 */
TEST(a_retry_that_waited_longer_than_max_age_is_given_up_while_the_webhook_is_off)
{
    struct webhook_made made =
        webhook_make(host, admin, receiver_url(receiver, "/fast/off"), "message.new");

    ck_status(webhook_change(host, admin, &made, json_pack("{s:b}", "active", 0)), 200);
    sql_run(db, "DELETE FROM webhook_delivery WHERE event_id = '" OLD_EVENT "'");
    sql_run(
        db,
        text("WITH d AS (INSERT INTO webhook_delivery (id, webhook, event_id, event, body,"
             " created_at) SELECT webhook_day_floor((now() AT TIME ZONE 'UTC')::date - 1) + n,"
             " %jd, '" OLD_EVENT "', 'message.new', '{}', now() - interval '2 days'"
             " FROM generate_series(0, 1) AS n RETURNING id, webhook)"
             " INSERT INTO webhook_waiting (id, webhook, next_at, queued_at, tries)"
             " SELECT id, webhook, CASE WHEN id = min(id) OVER () THEN now() - interval '2 days'"
             " ELSE now() + interval '1 hour' END, now() - interval '2 days', 1 FROM d",
             made.id));
    WAIT_UNTIL(number("event_id = '" OLD_EVENT "' AND state = 'abandoned'") == 1,
               LONG_MS); /* the job runs each minute */
    sql_is(db, 1, "SELECT count(*) FROM webhook_waiting WHERE webhook = %jd AND next_at > now()",
           made.id);
    sql_is(db, 1, "SELECT count(*) FROM webhook_waiting WHERE webhook = %jd", made.id);
}

STAGE_SUITE(webhook_days, set_up, 180)
