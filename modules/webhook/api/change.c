/*
 * PATCH, DELETE and rotate-secret. Each changes the row and notifies in one transaction. Before the
 * response it also notifies this host's sender, even if it is unknown whether the commit happened.
 * So after the response to a DELETE, or to a PATCH that deactivates the webhook, this host starts
 * no attempt.
 */
#include "modules/webhook/api/api.h"

#define OLD_SECRET_HOURS "24"

static const char *payload_of(struct bb_request *rq)
{
    return bb_format(rq, "hook:%lld", (long long)bb_segment_int(rq, "id"));
}

static int finish(struct bb_request *rq, int (*work)(struct bb_request *, struct bb_tx *, void *),
                  void *arg)
{
    int status = bb_transaction(rq, work, arg);

    if (status != 404)
        webhook_changed(rq->state, payload_of(rq));
    return status;
}

/*
 * Returns the rows of a change after adding its notification; NULL: *status is the status of the
 * response sent.
 */
static const struct bb_rows *run(struct bb_request *rq, struct bb_tx *tx, const struct bb_sql *sql,
                                 const struct bb_value *values, size_t count, int *status)
{
    const struct bb_rows *rows = bb_tx_query(rq, tx, sql, values, count);

    *status = 0;
    if (rows && bb_count(rq, rows) == 0)
        *status = webhook_unknown(rq);
    else if (!rows || bb_notify(rq, tx, WEBHOOK_CHANNEL, payload_of(rq)))
        *status = bb_failed(rq);
    return *status ? NULL : rows;
}

struct change {
    const char *url, *events, *active; /* NULL: unchanged */
};

static int update(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql sql = {
        "UPDATE webhook_hook h SET url = coalesce($4, url), active = coalesce($6::boolean, active),"
        " events = CASE WHEN $5::jsonb IS NULL THEN events"
        " ELSE ARRAY(SELECT jsonb_array_elements_text($5::jsonb)) END"
        " WHERE " WEBHOOK_MINE " RETURNING " WEBHOOK_COLUMNS,
        0};
    const struct change *change = arg;
    int status;
    const struct bb_rows *rows = run(rq, tx, &sql,
                                     BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_t(change->url),
                                             bb_t(change->events), bb_t(change->active)),
                                     &status);

    return rows ? bb_reply(rq, 200, webhook_json(rq, rows, 0, NULL)) : status;
}

int webhook_change(struct bb_request *rq)
{
    const json_t *events = json_object_get(bb_body(rq), "events");
    const json_t *active = json_object_get(bb_body(rq), "active");
    struct change change = {
        .url = bb_text(rq, "url"),
        .active = active ? (json_is_true(active) ? "t" : "f") : NULL,
    };
    int refused = change.url ? webhook_check_url(rq, &change.url) : 0;

    if (!refused && events)
        refused = webhook_check_events(rq, events, &change.events);
    return refused ? refused : finish(rq, update, &change);
}

/* The job webhook.sweep deletes the webhook's waiting deliveries; nothing sends them meanwhile. */
static int delete (struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql sql = {
        "WITH gone AS (DELETE FROM webhook_hook h WHERE " WEBHOOK_MINE " RETURNING h.id)"
        " INSERT INTO webhook_gone (webhook) SELECT id FROM gone RETURNING webhook",
        0};
    int status;

    (void)arg;
    if (!run(rq, tx, &sql, BB_ARGS(WEBHOOK_MINE_ARGS(rq)), &status))
        return status;
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

int webhook_delete(struct bb_request *rq)
{
    return finish(rq, delete, NULL);
}

struct rotation {
    const char *secret;
    unsigned char *sealed;
    size_t length;
};

static int replace(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql sql = {
        "UPDATE webhook_hook h SET previous = secret, secret = $4::bytea,"
        " previous_until = now() + interval '" OLD_SECRET_HOURS " hours'"
        " WHERE " WEBHOOK_MINE " RETURNING " WEBHOOK_COLUMNS ", " BB_SQL_MS("h.previous_until"),
        0};
    const struct rotation *rotation = arg;
    int status;
    const struct bb_rows *rows =
        run(rq, tx, &sql,
            BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_bytes(rotation->sealed, rotation->length)), &status);

    if (!rows)
        return status;
    json_t *json = webhook_json(rq, rows, 0, rotation->secret);
    json_t *until = json_string(bb_cell_time(rq, rows, 0, WEBHOOK_COLUMN_COUNT));

    json = webhook_warn(json, rotation->secret);
    if (json_object_set_new(json, "previousSecretUntil", until)) {
        json_decref(json);
        json = NULL;
    }
    return bb_reply(rq, 200, json);
}

int webhook_rotate(struct bb_request *rq)
{
    const char *given = bb_text(rq, "secret");
    int refused = webhook_check_secret(rq, given);

    if (refused)
        return refused;
    struct rotation rotation = {.secret = given ? given : bb_random_hex(rq, WEBHOOK_SECRET_BYTES)};

    if (!rotation.secret || webhook_secret_seal(rq->host, bb_segment_int(rq, "id"), rotation.secret,
                                                &rotation.sealed, &rotation.length))
        return bb_fail(rq, 503, "The secret could not be stored");
    bb_defer(rq, free, rotation.sealed);
    return finish(rq, replace, &rotation);
}
