/*
 * Events and deliveries of other days, as hosts find them that were stopped for long: what is too
 * old is not sent, and a day's partitions stay while anything in them is still to be sent.
 */
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
    stage_open(&(struct host_spec){.name = "hookdays", .modules = MODULES, .more = WEBHOOK_LOCAL});
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

static bool are_delivered(void *arg)
{
    return number("state = 'delivered'") == *(const int64_t *)arg;
}

/* An event that was committed so many days ago, and waits to be expanded; its day, since 1970. */
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

/* Its deliveries lie, and end, as if they had been made in time. */
START_TEST(an_event_that_waited_longer_than_max_age_is_not_sent)
{
    int64_t hooks = HOOKS, day = seed_event(3);

    ck_assert(wait_until(are_expanded, NULL, LONG_MS));
    ck_assert_int_eq(number(OF_OLD_EVENT), HOOKS);
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "behind an old one"), 201);
    ck_assert_msg(wait_until(are_delivered, &hooks, LONG_MS), "%jd were delivered",
                  (intmax_t)number("state = 'delivered'"));
    ck_assert_int_eq(number(OF_OLD_EVENT " AND state = 'delivered'"), 0);
    ck_assert_int_eq(number(text(OF_OLD_EVENT " AND id >> 32 = %jd", (intmax_t)day)), HOOKS);
}

/* Whether the partitions of a day were dropped. */
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

Suite *webhook_days_suite(void)
{
    const TTest *const tests[] = {
        an_event_that_waited_longer_than_max_age_is_not_sent,
        a_day_is_kept_while_an_event_of_it_is_to_be_expanded,
    };

    return stage_suite("webhook_days", set_up, 60, TESTS(tests));
}
