/*
 * POST /api/chat/webhooks/:id/test: sends a ping and returns the outcome of its first attempt, if
 * that ends soon. A ping is a delivery like any other, except that the webhook need not be active.
 * The request waits for a completion, so it uses a little memory and no thread; the number of
 * waiting tests is limited.
 */
#include "modules/webhook/api/api.h"

#include "modules/webhook/sender/sender.h"

#define WAIT_MS 4000
#define SHARES 16    /* an account may have this fraction of the waiting tests */
#define JOIN_MS 1000 /* for the sender to be ready */
#define JOIN_TRIES 50

struct ping {
    struct sender_event event;
    struct sender_item item;
    int64_t host;
};

static void leave(void *place)
{
    atomic_store((atomic_int_least64_t *)place, 0);
}

/* Reserves one of the waiting tests. */
static int enter(struct bb_request *rq, struct webhook *webhook)
{
    size_t own = 0, share = (webhook->settings.tests + SHARES - 1) / SHARES;
    int64_t account = rq->principal->account;

    for (size_t i = 0; i < webhook->settings.tests; i++)
        own += atomic_load(&webhook->testers[i]) == account;
    for (size_t i = 0; own < share && i < webhook->settings.tests; i++) {
        int64_t nobody = 0;

        if (atomic_compare_exchange_strong(&webhook->testers[i], &nobody, account)) {
            bb_defer(rq, leave, &webhook->testers[i]);
            return 0;
        }
    }
    return bb_fail(rq, 503, "Too many webhooks are being tested at the moment");
}

static int body_of(struct bb_request *rq, struct ping *ping)
{
    json_t *json = json_pack("{s:s, s:s}", "event", WEBHOOK_PING, "timestamp",
                             bb_time_text(rq, bb_wall_ms(rq->host)));

    if (!json)
        return bb_no_memory(rq);
    ping->event = (struct sender_event){
        .name = WEBHOOK_PING, .id = bb_new_uuid(rq), .trace = bb_traceparent(rq)};
    ping->event.body = bb_json(rq, json, &ping->event.length);
    json_decref(json);
    return 0;
}

static int store(struct bb_request *rq, struct ping *ping)
{
    static const struct bb_sql insert = {
        "WITH found AS (SELECT h.id FROM webhook_hook h WHERE " WEBHOOK_MINE "),"
        " made AS (INSERT INTO webhook_delivery"
        " (webhook, event, event_id, owner, body, traceparent)"
        " SELECT id, 'ping', $4::uuid, $5::bigint, $6::text, $7::text FROM found WHERE $5::bigint "
        "> 0 RETURNING id)"
        " SELECT m.id FROM found f LEFT JOIN made m ON true",
        BB_SQL_WRITE};
    const struct bb_rows *rows =
        bb_query(rq, &insert,
                 BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_t(ping->event.id), bb_i(ping->host),
                         bb_t(ping->event.body), bb_t(ping->event.trace)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return webhook_unknown(rq);
    if (!ping->host)
        return bb_fail(rq, 503, "The sender is not ready");
    ping->item = (struct sender_item){bb_cell_int(rq, rows, 0, 0), bb_segment_int(rq, "id")};
    return 0;
}

static json_t *answer(const struct webhook_outcome *outcome)
{
    json_t *status = outcome->status ? json_integer(outcome->status) : json_null();

    return json_pack("{s:b, s:o, s:I, s:s?}", "success", outcome->delivered, "status", status,
                     "durationMs", (json_int_t)outcome->duration_ms, "error",
                     outcome->error[0] ? outcome->error : NULL);
}

static int send_and_wait(struct bb_request *rq, struct webhook *webhook, const struct ping *ping)
{
    struct webhook_outcome *outcome = webhook_outcome_new(rq);

    if (!outcome)
        return bb_no_memory(rq);
    sender_hand_off(webhook->sender, ping->host, &ping->event, &ping->item, 1, outcome);
    bb_defer(rq, webhook_outcome_release, outcome);
    if (bb_completion_wait(rq, outcome->completion, WAIT_MS) == 0)
        return bb_reply(rq, 200, answer(outcome));
    return bb_reply(rq, 200,
                    json_pack("{s:b, s:n, s:I, s:s}", "success", 0, "status", "durationMs",
                              (json_int_t)WAIT_MS, "error",
                              "the receiver has not answered yet; the attempt goes on"));
}

/* After a start or a reload the sender needs a moment to get its id. */
static int64_t host_soon(struct bb_request *rq, struct webhook *webhook)
{
    int64_t host = sender_host(webhook->sender);

    for (int i = 0; !host && i < JOIN_TRIES; i++) {
        bb_sleep(rq, JOIN_MS / JOIN_TRIES);
        host = sender_host(webhook->sender);
    }
    return host;
}

int webhook_test(struct bb_request *rq)
{
    struct webhook *webhook = rq->state;
    struct ping ping = {.host = 0};
    int refused = enter(rq, webhook);

    if (!refused)
        refused = body_of(rq, &ping);
    if (!refused)
        ping.host = host_soon(rq, webhook);
    if (!refused)
        refused = store(rq, &ping);
    return refused ? refused : send_and_wait(rq, webhook, &ping);
}
