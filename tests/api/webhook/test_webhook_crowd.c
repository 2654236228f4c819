/* Many receivers that hang delay only their own deliveries. */
#include "receive.h"
#include "stage.h"

enum {
    SLOTS = 32,
    HANGING = SLOTS + 8,
    SOON_MS = 2000,
};

static struct person *platform;
static struct talk talk, other;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "hookcrowd",
                                   .modules = WEBHOOK_MODULES,
                                   .more = text(WEBHOOK_LOCAL "  slots: %d\n", SLOTS)});
    webhook_ready("hookcrowd", 1);
    platform = person_make(host, admin, "crowd", NULL);
    talk = talk_start(host, platform, platform->email, ADMIN_EMAIL, "Rooftop 7");
    other = talk_start(host, admin, ADMIN_EMAIL, "other@shop.example", "Rooftop 8");
}

static void make_crowd(const struct receiver *receiver, const char *mode, int count)
{
    for (int i = 0; i < count; i++)
        webhook_make(host, platform, receiver_url(receiver, text("/%s/%d", mode, i)),
                     "message.new");
}

static void clear_crowd(void)
{
    const json_t *list = ask(platform, 200, NULL, "GET " WEBHOOKS "?limit=1000")->json;
    size_t i;
    const json_t *row;

    json_array_foreach (list, i, row)
        ask(platform, 200, NULL, "DELETE " WEBHOOKS "/%jd",
            (intmax_t)json_integer_value(json_object_get(row, "id")));
}

static bool have_come(const struct receiver *receiver, const char *prefix, int64_t count)
{
    struct answer *answer = http(&receiver->at, "GET", text("/count?%s", prefix), NULL, NULL);

    return json_integer_value(json_object_get(answer->json, "requests")) >= count;
}

static void expect_soon(const struct receiver *receiver)
{
    int64_t since = now_ms();

    ck_status(talk_post(host, admin, &other, ADMIN_EMAIL, "in time"), 201);
    WAIT_UNTIL_MSG(have_come(receiver, "/fast/", 1), SOON_MS, "not there after %d ms", SOON_MS);
    fprintf(stderr, "crowd: a new webhook's delivery came after %jd ms\n", (now_ms() - since));
}

TEST(more_hung_receivers_than_slots_do_not_delay_a_new_webhook)
{
    const struct receiver *dead = receiver_start("dead"), *alive = receiver_start("alive");

    make_crowd(dead, "hang", HANGING);
    ck_status(talk_post(host, platform, &talk, platform->email, "into the void"), 201);
    webhook_make(host, admin, receiver_url(alive, "/fast/new"), "message.new");
    expect_soon(alive);
    WAIT_UNTIL_MSG(have_come(dead, "/hang/", HANGING), SOON_MS, "some that hang were not tried");
    clear_crowd();
}

/* Without statistics of the tables, PostgreSQL would plan to compare all rows with each other. */
TEST(recover_queues_thousands_of_deliveries_without_table_statistics)
{
    int many = repetitions(6000, 20000);
    const struct receiver *dead = receiver_start("late");
    struct webhook_made made =
        webhook_make(host, admin, receiver_url(dead, "/hang/0"), "message.new");

    sql_run(db, "DO $$ DECLARE p regclass; BEGIN FOR p IN SELECT inhrelid FROM pg_inherits"
                " WHERE inhparent IN ('webhook_delivery'::regclass, 'webhook_outcome'::regclass) "
                "LOOP EXECUTE"
                " format('ALTER TABLE %s SET (autovacuum_enabled = off)', p); END LOOP; END $$");
    sql_run(db, text("WITH d AS (INSERT INTO webhook_delivery (webhook, event_id, event, body)"
                     " SELECT %jd, gen_random_uuid(), 'message.new', '{}'"
                     " FROM generate_series(1, %d) RETURNING id, webhook)"
                     " INSERT INTO webhook_outcome (id, webhook, at, duration_ms, delivered)"
                     " SELECT id, webhook, now(), 0, false FROM d",
                     made.id, many));
    struct answer *recovered =
        ask(admin, 200, NULL, "POST %s/recover {'since':'2020-01-01T00:00:00.000Z'}", made.path);

    ck_assert_int_eq(answer_int(recovered, "queued"), many);
    ck_status(webhook_call(host, admin, "DELETE", &made, ""), 200);
}

STAGE_SUITE(webhook_crowd, set_up, 60)
