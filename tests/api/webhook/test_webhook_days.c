/*
 * Events and deliveries of earlier days, as hosts find them after a long stop: deliveries that are
 * too old are not sent, and a day's partitions stay while any of their deliveries must still be
 * sent.
 */
#include <sys/wait.h>

#include "receive.h"
#include "stage.h"
#include "suites.h"

#define MODULES "[auth, chat, health, webhook]"
#define OLD_EVENT "01a20000-0000-7000-8000-000000000001"
#define OF_OLD_EVENT "event_id = '" OLD_EVENT "'"

enum { HOOKS = 3, LONG_MS = 20000 };

static struct talk talk;
static struct receiver *receiver;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "hookdays",
                                   .modules = MODULES,
                                   .more =
                                       WEBHOOK_LOCAL "  queue_per_webhook: 400000\n  memory: 1024\n"
                                                     "  timeout: 30\n"});
    webhook_ready("hookdays", 1);
    talk = talk_start(host, admin, ADMIN_EMAIL, "one@shop.example", "Rooftop 7");
    receiver = receiver_start("days");
    for (int i = 0; i < HOOKS; i++)
        webhook_make(host, admin, receiver_url(receiver, "/fast/x"), "message.new");
}

static int64_t number(const char *condition)
{
    return sql_number(db, text("SELECT count(*) FROM webhook_delivery WHERE %s", condition));
}

static bool are_expanded(void *arg)
{
    (void)arg;
    return sql_number(db, "SELECT count(*) FROM webhook_expansion") == 0;
}

#define NEW_ONES "state = 'delivered' AND event_id <> '" OLD_EVENT "'"

static bool are_delivered(void *arg)
{
    return number(NEW_ONES) >= *(const int64_t *)arg;
}

/* Makes an event that was committed this many days ago and waits to be expanded; returns its day,
 * since 1970. */
static int64_t seed_event(int days)
{
    int64_t day = sql_number(db, text("SELECT (now() AT TIME ZONE 'UTC')::date - %d"
                                      " - DATE '1970-01-01'",
                                      days));

    sql_run(db, text("WITH b AS (INSERT INTO webhook_body (id, body)"
                     " SELECT (%jd::bigint << 32) + nextval('webhook_delivery_number'), '{}'"
                     " RETURNING id)"
                     " INSERT INTO webhook_expansion (account, event, event_id, body_id, webhooks,"
                     " queued_at) SELECT 1, 'message.new', '" OLD_EVENT "', b.id,"
                     " ARRAY(SELECT h.id FROM webhook_hook h), now() - interval '%d days' FROM b",
                     (intmax_t)day, days));
    return day;
}

/* Its deliveries are in that day's partition and expire as if they had been made in time. */
START_TEST(an_event_that_waited_longer_than_max_age_is_not_sent)
{
    int64_t hooks = HOOKS, day = seed_event(3);

    ck_assert(wait_until(are_expanded, NULL, LONG_MS));
    ck_assert_int_eq(number(OF_OLD_EVENT), HOOKS);
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "after an old event"), 201);
    ck_assert_msg(wait_until(are_delivered, &hooks, LONG_MS), "%jd were delivered",
                  (intmax_t)number(NEW_ONES));
    ck_assert_int_eq(number(OF_OLD_EVENT " AND state = 'delivered'"), 0);
    ck_assert_int_eq(number(text(OF_OLD_EVENT " AND id >> 32 = %jd", (intmax_t)day)), HOOKS);
}

/* Returns whether the partitions of a day were dropped. */
static int64_t drop_day(int64_t day)
{
    return sql_number(
        db, text("SELECT webhook_partition_drop(DATE '1970-01-01' + %jd)::int", (intmax_t)day));
}

START_TEST(a_day_is_kept_while_an_event_of_it_is_to_be_expanded)
{
    sql_run(db, "BEGIN");
    sql_run(db, "SELECT webhook_partition_make((now() AT TIME ZONE 'UTC')::date - 40)");
    int64_t day = seed_event(40);

    ck_assert_int_eq(drop_day(day), 0);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM webhook_expansion x"
                                    " JOIN webhook_body b ON b.id = x.body_id"),
                     1);
    sql_run(db, "DELETE FROM webhook_expansion");
    ck_assert_int_eq(drop_day(day), 1);
    sql_run(db, "ROLLBACK");
}

struct waiter {
    PGconn *connection, *observer;
};

static bool does_wait(void *arg)
{
    const struct waiter *waiter = arg;

    return sql_number(waiter->observer,
                      text("SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted",
                           PQbackendPID(waiter->connection))) > 0;
}

/* Runs the statement on another connection; once it waits for a lock of `db`, commits `db`. */
static void run_beside(PGconn *other, const char *sql)
{
    sql_run(other, "SET lock_timeout = 0");
    ck_assert_int_eq(PQsendQuery(other, sql), 1);
    ck_assert(wait_until(does_wait, &(struct waiter){other, db}, LONG_MS));
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

/* The resend is answered after its transaction is committed. */
START_TEST(a_delivery_that_is_queued_again_while_its_day_is_dropped_stays)
{
    PGconn *other = database_connect(the_postgres, PQdb(db));

    sql_run(db, "ALTER FUNCTION webhook_partition_drop SET lock_timeout = 0");
    sql_run(db, "SELECT webhook_partition_make((now() AT TIME ZONE 'UTC')::date - 50)");
    sql_run(db, "INSERT INTO webhook_delivery (id, webhook, event_id, event, body, state)"
                " SELECT webhook_day_floor((now() AT TIME ZONE 'UTC')::date - 50), 1,"
                " '" OLD_EVENT "', 'message.new', '{}', 'delivered'");
    sql_run(db, "BEGIN");
    sql_run(db, "UPDATE webhook_delivery SET state = 'queued', owner = NULL"
                " WHERE id = webhook_day_floor((now() AT TIME ZONE 'UTC')::date - 50)");
    run_beside(other, "SELECT webhook_partition_drop((now() AT TIME ZONE 'UTC')::date - 50)");
    ck_assert_str_eq(answer_of(other), "f");
    ck_assert_int_eq(number("id = webhook_day_floor((now() AT TIME ZONE 'UTC')::date - 50)"), 1);
    PQfinish(other);
}

/* Rows that came before their day's partition was made are moved into it. */
START_TEST(a_delivery_that_is_queued_again_while_its_day_is_made_is_queued)
{
    static const char id[] = "webhook_day_floor((now() AT TIME ZONE 'UTC')::date + 50)";
    PGconn *other = database_connect(the_postgres, PQdb(db));

    sql_run(db, "ALTER FUNCTION webhook_partition_make_of SET lock_timeout = 0");
    sql_run(db, text("INSERT INTO webhook_delivery (id, webhook, event_id, event, body, state)"
                     " SELECT %s, 1, '" OLD_EVENT "', 'message.new', '{}', 'delivered'",
                     id));
    sql_run(other, "BEGIN");
    sql_run(other, "SELECT webhook_partition_make((now() AT TIME ZONE 'UTC')::date + 50)");
    ck_assert_int_eq(PQsendQuery(db, text("UPDATE webhook_delivery SET state = 'queued'"
                                          " WHERE id = %s RETURNING state",
                                          id)),
                     1);
    PGconn *third = database_connect(the_postgres, PQdb(db));

    ck_assert(wait_until(does_wait, &(struct waiter){db, third}, LONG_MS));
    sql_run(other, "COMMIT");
    ck_assert_str_eq(answer_of(db), "queued");
    PQfinish(third);
    PQfinish(other);
}

static bool is_renewed(void *since)
{
    return sql_number(db, text("SELECT count(*) FROM webhook_host WHERE id <> 1000000"
                               " AND heartbeat_at > '%s'",
                               (const char *)since)) > 0;
}

static bool is_buried(void *arg)
{
    (void)arg;
    return sql_number(db, "SELECT count(*) FROM webhook_host WHERE id = 1000000") == 0;
}

/* Adds another host of this machine with a current heartbeat; `process` is its number. */
static void add_host(pid_t process)
{
    sql_run(db, text("INSERT INTO webhook_host (id, machine, process, heartbeat_at)"
                     " OVERRIDING SYSTEM VALUE SELECT 1000000, machine, '%d',"
                     " now() + interval '1 hour' FROM webhook_host",
                     process));
}

/* Process 1 is alive, but /proc shows another start time than the row, or none for a hidden
 * process. */
START_TEST(a_host_is_dead_only_when_its_process_is_or_its_heartbeat_is_old)
{
    add_host(1);
    for (int i = 0; i < 3; i++)
        ck_assert(wait_until(is_renewed, sql_text(db, "SELECT now()", 0, NULL), LONG_MS));
    ck_assert(!is_buried(NULL));
    sql_run(db,
            "UPDATE webhook_host SET heartbeat_at = now() - interval '11 s' WHERE id = 1000000");
    ck_assert(wait_until(is_buried, NULL, LONG_MS));

    static const char *const nothing[] = {"true", NULL};
    pid_t ended =
        process_start(&(struct process_spec){.argv = nothing, .log = harness_path("days.nothing")});

    ck_assert_int_eq(waitpid(ended, NULL, 0), ended);
    add_host(ended);
    ck_assert(wait_until(is_buried, NULL, LONG_MS));
}

struct webhook_count {
    int64_t webhook, count;
};

static bool are_owned(void *arg)
{
    const struct webhook_count *of = arg;

    return number(text("webhook = %jd AND state = 'queued' AND owner IS NOT NULL",
                       (intmax_t)of->webhook)) >= of->count;
}

static bool is_delivered_to(void *arg)
{
    return number(text("webhook = %jd AND state = 'delivered'",
                       (intmax_t)((const struct webhook_count *)arg)->webhook)) > 0;
}

/* A host owns more than a page of its scan, all for one webhook, and another webhook's delivery
 * that it does not know of. */
START_TEST(a_backlog_hides_no_delivery_that_nobody_has)
{
    struct webhook_count silent = {
        webhook_make(host, admin, receiver_url(receiver, "/hang/x"), "message.new").id, 20100};
    struct webhook_count other = {
        webhook_make(host, admin, receiver_url(receiver, "/fast/x"), "message.new").id, 1};

    sql_run(db, text("INSERT INTO webhook_delivery (webhook, event_id, event, body)"
                     " SELECT %jd, '" OLD_EVENT "', 'message.new', '{}'"
                     " FROM generate_series(1, 21000)",
                     (intmax_t)silent.webhook));
    ck_assert(wait_until(are_owned, &silent, 3 * LONG_MS));
    sql_run(db,
            text("INSERT INTO webhook_delivery (webhook, event_id, event, body, owner, queued_at)"
                 " SELECT %jd, '" OLD_EVENT "', 'message.new', '{}', max(id),"
                 " now() - interval '6 s' FROM webhook_host",
                 (intmax_t)other.webhook));
    ck_assert(wait_until(is_delivered_to, &other, 3 * LONG_MS));
}

Suite *webhook_days_suite(void)
{
    const TTest *const tests[] = {
        an_event_that_waited_longer_than_max_age_is_not_sent,
        a_day_is_kept_while_an_event_of_it_is_to_be_expanded,
        a_delivery_that_is_queued_again_while_its_day_is_dropped_stays,
        a_delivery_that_is_queued_again_while_its_day_is_made_is_queued,
        a_host_is_dead_only_when_its_process_is_or_its_heartbeat_is_old,
        a_backlog_hides_no_delivery_that_nobody_has,
    };

    return stage_suite("webhook_days", set_up, 180, TESTS(tests));
}
