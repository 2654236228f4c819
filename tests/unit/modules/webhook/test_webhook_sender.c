/* Deliveries and shards that change while the sender reads the log or records results. */
#include "modules/webhook/sender/internal.h"
#include "suite.h"

enum { WEBHOOK = 7, SECOND_MS = 1000 };

static struct sender sender;
static struct subscription *webhook;

/* ---- the other files of the module ---- */

/* Only begins a task; end() ends it. */
void db_task_send(struct sender *of, struct db_task *db_task,
                  void (*work)(struct bb_request *rq, struct db_task *db_task),
                  void (*back)(struct sender *sender, struct db_task *db_task))
{
    db_task->me = of->me;
    db_task->busy = true;
    db_task->work = work;
    db_task->back = back;
}

static void end(struct db_task *db_task)
{
    ck_assert(db_task->busy);
    db_task->busy = false;
    db_task->ok = true;
    db_task->back(&sender, db_task);
}

struct bb_value db_task_shards(struct bb_request *rq, const struct db_task *db_task)
{
    (void)rq, (void)db_task;
    return (struct bb_value){0};
}

void db_task_read(struct bb_request *rq, struct db_task *db_task, const struct bb_rows *rows)
{
    (void)rq, (void)db_task, (void)rows;
}

bool attempt_is_allowed(const struct sender *of)
{
    return of->me != 0;
}

int pairs_add(struct pairs *pairs, int64_t id, int64_t number)
{
    (void)pairs, (void)id, (void)number;
    return 0;
}

void pairs_free(struct pairs *pairs)
{
    *pairs = (struct pairs){0};
}

void sender_note(struct sender *of, int64_t id, int64_t delivery, bool all)
{
    (void)of, (void)id, (void)delivery, (void)all;
}

void sender_queued(struct sender *of, int64_t id, bool ordered)
{
    (void)of, (void)id, (void)ordered;
}

void waiters_report(struct waiters *waiters, int64_t delivery, bool delivered, int status,
                    int64_t duration_ms, const char *error)
{
    (void)waiters, (void)delivery, (void)delivered, (void)status, (void)duration_ms, (void)error;
}

void parts_read(struct bb_request *rq, struct db_task *db_task)
{
    (void)rq, (void)db_task;
}

void parts_release(struct parts *parts)
{
    (void)parts;
}

const char *oauth_header(const struct oauth *oauth)
{
    (void)oauth;
    return NULL;
}

void oauth_move(struct oauth *from, struct oauth *to)
{
    (void)from, (void)to;
}

/* ---- a webhook and its deliveries ---- */

static void setup(void)
{
    static const struct queue_limits limits = {
        .slots = 8, .flow_flying = 8, .flow_items = 64, .flow_bytes = 4 << 20, .bytes = 16 << 20};

    sender.me = 1;
    sender.now_ms = SECOND_MS;
    sender.mine = UINT64_MAX;
    queue_init(&sender.queue, &limits);
    TAILQ_INIT(&sender.to_read);
    STAILQ_INIT(&sender.kept);
    STAILQ_INIT(&sender.results[false]);
    STAILQ_INIT(&sender.results[true]);
    webhook = subscription_get(&sender, WEBHOOK);
    webhook->state = SUBSCRIPTION_READY;
    subscription_update(&sender, webhook);
}

static struct delivery *make(int64_t id)
{
    static const struct sender_event event = {.name = "message.new", .id = "", .body = ""};
    struct body *body = body_new(&event);
    struct delivery *delivery = delivery_new(WEBHOOK, id, body);

    body_release(NULL, body);
    return delivery;
}

/* Makes a delivery whose first attempt has succeeded, but is not recorded yet. */
static struct delivery *delivered(int64_t id)
{
    struct delivery *delivery = make(id);

    ck_assert(delivery_admit(&sender, webhook, delivery));
    ck_assert_ptr_eq(queue_take(&sender.queue, sender.now_ms), &delivery->item);
    queue_finished(&sender.queue, &delivery->item, true, sender.now_ms);
    delivery->tries = 1;
    delivery->verdict = RETRY_DELIVERED;
    return delivery;
}

/* Adds a row to the read in progress. `kept`: of webhook_waiting. */
static void row(int64_t id, bool kept)
{
    struct delivery *delivery = make(id);

    ck_assert(sender.reading.db_task.busy);
    delivery->kept = kept;
    sender.reading.found[0]++;
    STAILQ_INSERT_TAIL(&sender.reading.list, delivery, next);
}

/* ---- tests ---- */

TEST(deliveries_that_are_reported_during_a_read_without_them_are_read_next)
{
    subscription_backlog(&sender, webhook, 101);
    read_deliveries(&sender);
    look_found(&sender, WEBHOOK, 103);
    look_found(&sender, WEBHOOK, 104);
    row(101, false);
    row(103, false);
    row(105, false);
    end(&sender.reading.db_task);
    ck_assert(webhook->listed && webhook->backlog);
    ck_assert_int_lt(webhook->read_to, 104);
    read_deliveries(&sender);
    row(103, false);
    row(104, false);
    row(105, false);
    end(&sender.reading.db_task);
    ck_assert_ptr_nonnull(idmap_find(&sender.deliveries, 104));
    ck_assert(!webhook->listed && !webhook->backlog);
    ck_assert_uint_eq(webhook->flow.held, 4);
}

/* The snapshot of the read is older than the result. */
TEST(a_delivery_that_ends_during_a_read_is_not_sent_again_if_this_host_gets_a_shard)
{
    struct delivery *delivery = delivered(102);

    sender.mine = UINT64_MAX - 1;
    subscription_backlog(&sender, webhook, 101);
    read_deliveries(&sender);
    delivery_end(&sender, delivery);
    lease_tend(&sender);
    sender.tending.owned = UINT64_MAX;
    sender.tending.got[0] = sender.me;
    sender.tending.got[2] = SENDER_SHARDS; /* its fair share */
    end(&sender.tending.db_task);
    ck_assert_uint_eq(sender.mine, UINT64_MAX);
    row(101, false);
    row(102, false);
    end(&sender.reading.db_task);
    ck_assert_uint_eq(webhook->flow.held, 1);
    ck_assert_ptr_null(idmap_find(&sender.deliveries, 102));
}

/* The result is recorded before `resend`. The host learns this after its read (0) or before (1). */
TEST_EACH(a_delivery_that_is_resent_while_its_result_is_recorded_is_read_again, 2)
{
    struct delivery *delivery = delivered(101);

    record_add(&sender, delivery);
    sender.now_ms += SECOND_MS;
    record_results(&sender);
    subscription_due(&sender, webhook, sender.now_ms);
    read_deliveries(&sender);
    row(101, true);
    end(_i ? &sender.recording.db_task : &sender.reading.db_task);
    end(_i ? &sender.reading.db_task : &sender.recording.db_task);
    ck_assert_uint_eq(webhook->flow.held, 0);
    ck_assert(webhook->listed && webhook->due);
}

/* Returns whether the webhook is failing after an attempt, which takes place a second later. */
static bool fails_after(struct delivery *delivery, enum retry_verdict verdict)
{
    sender.now_ms += SECOND_MS;
    delivery->subscription = webhook;
    delivery->at_wall_ms = sender.now_ms;
    delivery->verdict = verdict;
    delivery->tries++;
    health_judge(&sender, delivery, verdict != RETRY_DELIVERED, HEALTH_NOT_ASKED);
    return webhook->health.failing;
}

TEST(a_webhook_is_failing_after_all_attempts_of_a_delivery_without_a_success_in_between)
{
    struct delivery first = {0}, second = {0}, third = {0};

    ck_assert(!fails_after(&first, RETRY_LATER));
    ck_assert(!fails_after(&second, RETRY_DELIVERED));
    ck_assert(!fails_after(&third, RETRY_LATER));
    ck_assert(!fails_after(&first, RETRY_LATER));
    ck_assert(!fails_after(&third, RETRY_LATER));
    ck_assert(!fails_after(&first, RETRY_ABANDON));
    ck_assert(fails_after(&third, RETRY_ABANDON));
}

SUITE(webhook_sender, .before_each = setup)
