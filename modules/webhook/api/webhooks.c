/*
 * The routes that create, list, change and delete webhooks and rotate their secrets, and the
 * handlers of notifications about changes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/pieces.h"
#include "modules/webhook/api/api.h"
#include "modules/webhook/http/sign.h"

/* ---- JSON ---- */

enum {
    SHORT_SECRET = 16, /* characters */
    SHOWN = 4,         /* characters of a masked secret */
    SECRET_BYTES = 32  /* of a generated secret, which is hexadecimal */
};

/* The members about the health of a webhook, which the sender stores. Null ones are not shown. */
// clang-format off
#define HEALTH                                                                                     \
    "json_build_object('health', CASE WHEN h.disabled_at IS NOT NULL THEN 'disabled'"              \
    " WHEN h.failing_since IS NOT NULL THEN 'failing' ELSE 'ok' END,"                              \
    " 'failingSince', " BB_SQL_TIME("h.failing_since") ","                                         \
    " 'lastSuccessAt', " BB_SQL_TIME("h.last_success_at") ","                                      \
    " 'disabledReason', h.disabled_reason,"                                                        \
    " 'disabledAt', " BB_SQL_TIME("h.disabled_at") ")::text"
// clang-format on

/*
 * The columns of webhook_hook AS h, in the order in which webhook_json() reads them. The
 * number of options follows from their table (options.c).
 */
#define COLUMNS                                                                                    \
    "h.id, h.account, nullif(h.url, ''), to_json(h.events)::text, h.secret, h.active,"             \
    " " BB_SQL_MS("h.created_at") ", " HEALTH ", " OPTION_COLUMNS_SHOWN
enum { HEALTH_COLUMN = 7, OPTIONS_FROM };

int webhook_unknown(struct bb_request *rq)
{
    return bb_fail(rq, 404, "Webhook not found");
}

int webhook_find(struct bb_request *rq, bool *polled)
{
    static const struct bb_keyed find = WEBHOOK_KEYED("SELECT h.kind");
    const struct bb_rows *rows = bb_query(rq, &find.one, BB_ARGS(WEBHOOK_MINE_ARGS(rq)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return webhook_unknown(rq);
    *polled = bb_cell(rq, rows, 0, 0);
    return 0;
}

int webhook_check_mine(struct bb_request *rq)
{
    bool polled;

    return webhook_find(rq, &polled);
}

static bool webhook_is_first_byte(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/* Counts the characters (code points) of a UTF-8 text. */
static size_t webhook_characters(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += webhook_is_first_byte(*text);
    return count;
}

const char *webhook_masked(struct bb_request *rq, const char *secret)
{
    size_t count = webhook_characters(secret);
    const char *shown = count > SHOWN ? secret : "";

    for (; *shown && (count > SHOWN || !webhook_is_first_byte(*shown)); shown++)
        count -= webhook_is_first_byte(*shown);
    return bb_format(rq, "****%s", shown);
}

/* Masks the secret in a cell. "****": secrets.keys lacks its key (logged). NULL: out of memory. */
static const char *webhook_mask(struct bb_request *rq, int64_t id, const char *cell)
{
    char *secret;
    int opened = webhook_secret_open(rq->host, id, WEBHOOK_PART_SECRET, cell, &secret);

    if (opened == SECRET_NO_MEMORY)
        return NULL;
    if (opened == SECRET_LOCKED) {
        bb_log(rq, BB_ERROR, "the secret of webhook %lld cannot be opened with secrets.keys",
               (long long)id);
        return "****";
    }
    const char *mask = webhook_masked(rq, secret);

    webhook_secret_free(secret);
    return mask;
}

/* Returns the webhook with a masked secret. The caller owns the result; NULL: out of memory. */
static json_t *webhook_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    int64_t id = bb_cell_int(rq, rows, row, 0);
    const char *shown = webhook_mask(rq, id, bb_cell(rq, rows, row, 4));
    json_t *events = shown ? bb_json_read(rq, bb_cell(rq, rows, row, 3)) : NULL;

    if (!events)
        return NULL;
    json_t *json =
        json_pack("{s:I, s:I, s:s*, s:o, s:s, s:b, s:s}", "id", (json_int_t)id, "userId",
                  (json_int_t)bb_cell_int(rq, rows, row, 1), "url", bb_cell(rq, rows, row, 2),
                  "events", events, "secret", shown, "active", bb_cell_int(rq, rows, row, 5) != 0,
                  "createdAt", bb_cell_time(rq, rows, row, 6));
    json_t *health = json ? bb_json_read(rq, bb_cell(rq, rows, row, HEALTH_COLUMN)) : NULL, *value;
    bool failed = !health;
    const char *name;

    json_object_foreach(health, name, value)
    {
        failed = failed || (!json_is_null(value) && json_object_set(json, name, value));
    }
    json_decref(health);
    if (!failed)
        return options_show(rq, id, rows, row, OPTIONS_FROM, json);
    json_decref(json);
    return NULL;
}

/*
 * Shows a new secret in full, with `warnings` if the secret is short. Takes ownership of `json`,
 * which may be NULL. The caller owns the result; NULL: out of memory.
 */
static json_t *webhook_show_secret(json_t *json, const char *secret)
{
    bool is_short = webhook_characters(secret) < SHORT_SECRET;

    if (!json_object_set_new(json, "secret", json_string(secret)) &&
        (!is_short ||
         !json_object_set_new(
             json, "warnings",
             json_pack("[s]", "secret: shorter than 16 characters, so it may be guessed"))))
        return json;
    json_decref(json);
    return NULL;
}

/* ---- checks that the field tables cannot express ---- */

int webhook_check_url(struct bb_request *rq, const char *field, const char **url)
{
    const struct webhook *webhook = rq->state;
    char *encoded = target_encode(*url);

    if (!encoded)
        return bb_no_memory(rq);
    bb_defer(rq, free, encoded);
    *url = encoded;
    const char *problem = target_problem(&webhook->targets, encoded);

    return problem ? bb_invalid(rq, field, "%s", problem) : 0;
}

static int webhook_check_secret(struct bb_request *rq, const char *secret)
{
    if (!secret || sign_secret_good(secret))
        return 0;
    return bb_invalid(rq, "secret", "must have base64 after whsec_");
}

static bool webhook_is_listed(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return true;
    return false;
}

/*
 * Sets *events to the names in the list, each once, as JSON text in the request's memory. [] and
 * ["*"] mean all events. "ping" is dropped because a test needs no subscription, so ["ping"]
 * becomes [].
 */
static int webhook_check_events(struct bb_request *rq, const json_t *list, const char **events)
{
    json_t *once = bb_json_hold(rq, json_array());

    if (!once)
        return bb_no_memory(rq);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));

        if (!strcmp(name, WEBHOOK_PING))
            continue;
        if (strcmp(name, WEBHOOK_ALL_EVENTS) != 0 && !webhook_event(rq, name))
            return bb_invalid(rq, "events",
                              "must name events that GET /api/chat/webhooks/events lists");
        if (!webhook_is_listed(once, name) && json_array_append_new(once, json_string(name)))
            return bb_no_memory(rq);
    }
    bool all = !json_array_size(once) || webhook_is_listed(once, WEBHOOK_ALL_EVENTS);

    *events = all ? "[\"" WEBHOOK_ALL_EVENTS "\"]" : bb_json(rq, once, NULL);
    return 0;
}

/* ---- POST: besides rotate-secret, only this route shows a secret in full ---- */

struct secret {
    const char *text;
    unsigned char *sealed; /* freed when the request ends */
    size_t length;
    const char *pair; /* rotate-secret: see signature_make_pair() */
};

/* Seals the given secret, or a generated one. Returns 0, or the status of the response sent. */
static int webhook_seal(struct bb_request *rq, int64_t webhook, const char *given,
                        struct secret *secret)
{
    secret->text = given ? given : bb_random_hex(rq, SECRET_BYTES);
    if (!secret->text || webhook_secret_seal(rq->host, webhook, WEBHOOK_PART_SECRET, secret->text,
                                             &secret->sealed, &secret->length))
        return bb_fail(rq, 503, "The secret could not be stored");
    bb_defer(rq, free, secret->sealed);
    return 0;
}

struct creation {
    int64_t id;
    const char *url;
    const char *events;  /* a JSON array */
    const char *options; /* see options_take() */
    struct secret secret;
};

/*
 * $1 id, $2 account, $3 url, $4 events, $5 secret, $6 to $9 the scope, $10 limit per account, $11
 * options
 */
static const struct bb_sql insert = {
    "INSERT INTO webhook_hook AS h (id, account, url, events, secret, admitted, sees_all,"
    " organisations, email, signing_key, public_key, " OPTION_COLUMNS
    ") SELECT $1::bigint, $2::bigint, $3,"
    " ARRAY(SELECT jsonb_array_elements_text($4::jsonb)), $5::bytea, $6::boolean, $7::boolean,"
    " $8::bigint[], $9, signing_key, public_key, " OPTION_COLUMNS
    " FROM jsonb_populate_record(NULL::webhook_hook, $11::jsonb) WHERE (SELECT count(*) FROM "
    "webhook_hook WHERE account = $2::bigint)"
    " < $10::bigint RETURNING " COLUMNS,
    0,
};

/* Serializes the creations of an account: two that count at once would both find room. */
static const struct bb_sql lock = {
    "SELECT pg_advisory_xact_lock(hashtextextended('busbar.webhook.account.' || $1::bigint, 0))",
    0};

static int webhook_insert(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct webhook *webhook = rq->state;
    const struct creation *new = arg;
    struct bb_account_scope scope = webhook_scope_of_caller(rq->principal);
    int64_t account = rq->principal->account;

    if (!bb_tx_query(rq, tx, &lock, BB_ARGS(bb_i(account))))
        return bb_failed(rq);
    const struct bb_rows *rows = bb_tx_query(
        rq, tx, &insert,
        BB_ARGS(bb_i(new->id), bb_i(account), bb_t(new->url ? new->url : ""), bb_t(new->events),
                bb_bytes(new->secret.sealed, new->secret.length), WEBHOOK_SCOPE_ARGS(&scope),
                bb_i(webhook->settings->per_account), bb_t(new->options)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 409, "An account may have at most %lld webhooks",
                       (long long)webhook->settings->per_account);
    json_t *json = webhook_json(rq, rows, 0);

    json_object_del(json, "health"); /* a new webhook has none */
    return bb_reply(rq, 201, webhook_show_secret(json, new->secret.text));
}

int webhook_create(struct bb_request *rq)
{
    struct creation new = {.url = bb_text(rq, "url")};
    const char *secret = bb_text(rq, "secret");
    bool polled = bb_text(rq, "kind");
    int refused = polled    ? 0
                  : new.url ? webhook_check_url(rq, "url", &new.url)
                            : bb_invalid(rq, "url", "is required");

    if (!refused)
        refused = webhook_check_events(rq, json_object_get(bb_body(rq), "events"), &new.events);
    if (!refused)
        refused = webhook_check_secret(rq, secret);
    if (refused)
        return refused;
    new.id = bb_next_id(rq, "webhook_hook_id");
    if (new.id < 0)
        return bb_failed(rq);
    refused = options_take(rq, new.id, &new.options);
    if (!refused)
        refused = webhook_seal(rq, new.id, secret, &new.secret);
    if (refused)
        return refused;
    return bb_transaction(rq, webhook_insert, &new);
}

/*
 * ---- GET of all webhooks, of one, and of the names of events ----
 *
 * Secrets are masked. Without `limit` the response has all webhooks: a short list is sent at once,
 * a longer list page by page. Pages have limited bytes, because the loop makes a page at once, and
 * a webhook may have 50 KiB.
 */

int webhook_events(struct bb_request *rq)
{
    const char *const *names = NULL;
    size_t count = bb_event_names(rq->host, &names);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], WEBHOOK_PING) != 0 &&
            json_array_append_new(list, json_string(names[i]))) {
            json_decref(list);
            return bb_no_memory(rq);
        }
    return bb_reply(rq, 200, list);
}

struct list {
    int64_t account; /* owner */
    bool all;        /* an Admin sees all webhooks */
    int64_t after;   /* id of the last webhook read */
};

/*
 * $1 last id seen, $2 all, $3 account, $4 number of webhooks, $5 limit of bytes; the first webhook
 * is returned even if it exceeds the limit. The last column, after the options, is the number of
 * webhooks without the limit of bytes.
 */
#define LIST                                                                                       \
    "SELECT " COLUMNS ", h.found FROM (SELECT h.*, count(*) OVER () AS found,"                     \
    " sum(octet_length(h::text)) OVER (ORDER BY h.id) - octet_length(h::text) AS before"           \
    " FROM (SELECT * FROM webhook_hook h"                                                          \
    " WHERE h.id > $1::bigint AND ($2::boolean OR h.account = $3::bigint)"                         \
    " ORDER BY h.id LIMIT $4::bigint) h) h WHERE h.before < $5::bigint ORDER BY h.id"

#define PAGE_BYTES (1024 * 1024)
enum { FEW = 25 }; /* more webhooks are read by a long statement */

static const struct bb_sql list_few = {LIST, 0};
static const struct bb_sql list_long = {LIST, BB_SQL_LONG};

struct page {
    const struct bb_rows *rows; /* NULL: the statement failed */
    size_t count, found;
};

static struct page webhook_fetch(struct bb_request *rq, const struct bb_sql *sql,
                                 const struct list *list, int64_t count, int64_t bytes)
{
    struct page page = {bb_query(rq, sql,
                                 BB_ARGS(bb_i(list->after), bb_b(list->all), bb_i(list->account),
                                         bb_i(count), bb_i(bytes))),
                        0, 0};

    if (page.rows)
        page.count = bb_count(rq, page.rows);
    if (page.count)
        page.found = (size_t)bb_cell_int(rq, page.rows, 0, OPTIONS_FROM + options_shown());
    return page;
}

static int webhook_write_page(struct bb_request *rq, struct csv *text, void *arg)
{
    struct list *list = arg;
    struct page page = webhook_fetch(rq, &list_long, list, ARRAY_SHORT, ARRAY_PAGE_BYTES);

    for (size_t row = 0; row < page.count; row++)
        pieces_add(rq, text, webhook_json(rq, page.rows, row));
    if (page.count)
        list->after = bb_cell_int(rq, page.rows, page.count - 1, 0);
    return !page.rows ? -1 : page.count < page.found || page.found == ARRAY_SHORT;
}

int webhook_list(struct bb_request *rq)
{
    static const struct pieces_source source = {.write = webhook_write_page};
    const struct webhook *webhook = rq->state;
    struct list list = {.account = rq->principal->account,
                        .all = rq->principal->role == BB_ROLE_ADMIN,
                        .after = bb_arg_int(rq, "after", 0)};
    size_t limit = (size_t)bb_arg_int(rq, "limit", 0), most = limit ? limit : ARRAY_SHORT;
    size_t few = most < FEW ? most : FEW;
    struct page page = webhook_fetch(rq, &list_few, &list, (int64_t)few + 1, PAGE_BYTES);

    if (few < most && page.found > few)
        page = webhook_fetch(rq, &list_long, &list, (int64_t)most + 1, PAGE_BYTES);
    if (!page.rows)
        return bb_failed(rq);
    if (page.count > most)
        page.count = most;
    bool more = page.count < page.found;

    if (more && !limit)
        return pieces_begin_copy(rq, webhook->long_answers, &source, &list, sizeof(list));
    return bb_reply_page(rq, page.rows, page.count,
                         more ? bb_cell(rq, page.rows, page.count - 1, 0) : NULL, webhook_json);
}

int webhook_get(struct bb_request *rq)
{
    static const struct bb_keyed find = WEBHOOK_KEYED("SELECT " COLUMNS);
    const struct bb_rows *rows = bb_query(rq, &find.one, BB_ARGS(WEBHOOK_MINE_ARGS(rq)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return webhook_unknown(rq);
    return bb_reply(rq, 200, webhook_json(rq, rows, 0));
}

/* ---- notifications, from this host or another; any thread ---- */

void webhook_changed(void *state, const char *payload)
{
    struct sender *sender = ((struct webhook *)state)->sender;

    if (!payload || strncmp(payload, "hook:", 5) != 0)
        sender_heard(sender, payload);
    if (!payload)
        sender_changed(sender, 0);
    else if (!strncmp(payload, "hook:", 5))
        sender_changed(sender, strtoll(payload + 5, NULL, 10));
}

/* If notifications may be lost (NULL), the next heartbeat reads the switch. */
void webhook_pause_heard(void *state, const char *payload)
{
    if (payload)
        sender_pause(((struct webhook *)state)->sender, strcmp(payload, "resumed") != 0);
}

/*
 * ---- PATCH, DELETE and rotate-secret ----
 *
 * Each changes the row and notifies all hosts in one transaction. Before its response it also
 * notifies this host's sender, even if the outcome of the commit is unknown. So this host starts no
 * attempt after the response to a DELETE, or to a PATCH that deactivates the webhook.
 */

#define OLD_SECRET_HOURS "24"

static const char *webhook_payload(struct bb_request *rq)
{
    return bb_format(rq, "hook:%lld", (long long)bb_segment_int(rq, "id"));
}

static int webhook_transact(struct bb_request *rq,
                            int (*work)(struct bb_request *, struct bb_tx *, void *), void *arg)
{
    int status = bb_transaction(rq, work, arg);

    if (status != 404)
        webhook_changed(rq->state, webhook_payload(rq));
    return status;
}

/*
 * Runs the statement and adds the notification of the change. Returns the rows. On failure it
 * returns NULL and sets *status to the status of the response sent.
 */
static const struct bb_rows *webhook_run(struct bb_request *rq, struct bb_tx *tx,
                                         const struct bb_sql *sql, const struct bb_value *values,
                                         size_t count, int *status)
{
    const struct bb_rows *rows = bb_tx_query(rq, tx, sql, values, count);

    *status = 0;
    if (rows && bb_count(rq, rows) == 0)
        *status = webhook_unknown(rq);
    else if (!rows || bb_notify(rq, tx, WEBHOOK_CHANNEL, webhook_payload(rq)))
        *status = bb_failed(rq);
    return *status ? NULL : rows;
}

struct change {
    const char *url, *events, *active; /* NULL: unchanged */
    const char *options;               /* see options_take() */
};

static int webhook_update(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql sql = {
        "UPDATE webhook_hook h SET url = coalesce($4, url), active = coalesce($6::boolean, active),"
        " failing_since = CASE WHEN $6::boolean AND NOT active THEN NULL ELSE failing_since END,"
        " disabled_at = CASE WHEN $6::boolean THEN NULL ELSE disabled_at END,"
        " disabled_reason = CASE WHEN $6::boolean THEN NULL ELSE disabled_reason END,"
        " events = CASE WHEN $5::jsonb IS NULL THEN events"
        " ELSE ARRAY(SELECT jsonb_array_elements_text($5::jsonb)) END, (" OPTION_COLUMNS
        ", " SIGNING_COLUMNS ") = (SELECT " OPTION_COLUMNS ", " SIGNING_VALUES
        " FROM jsonb_populate_record(h, $7::jsonb) r)"
        " WHERE " WEBHOOK_MINE " RETURNING " COLUMNS,
        0};
    const struct change *change = arg;
    int status;
    const struct bb_rows *rows =
        webhook_run(rq, tx, &sql,
                    BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_t(change->url), bb_t(change->events),
                            bb_t(change->active), bb_t(change->options)),
                    &status);

    return rows ? bb_reply(rq, 200, webhook_json(rq, rows, 0)) : status;
}

int webhook_change(struct bb_request *rq)
{
    const json_t *events = json_object_get(bb_body(rq), "events");
    const json_t *active = json_object_get(bb_body(rq), "active");
    struct change change = {
        .url = bb_text(rq, "url"),
        .active = active ? (json_is_true(active) ? "t" : "f") : NULL,
    };
    int refused = poll_check_change(rq);

    if (!refused && change.url)
        refused = webhook_check_url(rq, "url", &change.url);
    if (!refused && events)
        refused = webhook_check_events(rq, events, &change.events);
    if (!refused)
        refused = options_take(rq, bb_segment_int(rq, "id"), &change.options);
    return refused ? refused : webhook_transact(rq, webhook_update, &change);
}

/*
 * The job webhook.sweep deletes the webhook's waiting deliveries later; no sender sends them. The
 * second statement also sees a replay that was started while the first one waited for its lock.
 */
static int webhook_remove(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql sql = {
        "WITH gone AS (DELETE FROM webhook_hook h WHERE " WEBHOOK_MINE " RETURNING h.id),"
        " numbers AS (DELETE FROM webhook_sequence WHERE webhook = (SELECT id FROM gone))"
        " INSERT INTO webhook_gone (webhook) SELECT id FROM gone RETURNING webhook",
        0};
    static const struct bb_sql replay = {"DELETE FROM webhook_replay WHERE webhook = $1::bigint",
                                         0};
    int status;

    (void)arg;
    if (!webhook_run(rq, tx, &sql, BB_ARGS(WEBHOOK_MINE_ARGS(rq)), &status))
        return status;
    if (!bb_tx_query(rq, tx, &replay, BB_ARGS(bb_i(bb_segment_int(rq, "id")))))
        return bb_failed(rq);
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

int webhook_delete(struct bb_request *rq)
{
    return webhook_transact(rq, webhook_remove, NULL);
}

static int webhook_replace(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql sql = {
        "UPDATE webhook_hook h SET previous = secret, secret = $4::bytea,"
        " previous_signing_key = signing_key, previous_public_key = public_key,"
        " signing_key = CASE WHEN signing_key IS NOT NULL THEN ($5::jsonb ->> 'signing_key')::bytea"
        " END, public_key = CASE WHEN public_key IS NOT NULL THEN $5::jsonb ->> 'public_key' END,"
        " previous_until = now() + interval '" OLD_SECRET_HOURS " hours'"
        " WHERE " WEBHOOK_MINE " RETURNING " COLUMNS ", " BB_SQL_MS("h.previous_until"),
        0};
    const struct secret *secret = arg;
    int status;
    const struct bb_rows *rows =
        webhook_run(rq, tx, &sql,
                    BB_ARGS(WEBHOOK_MINE_ARGS(rq), bb_bytes(secret->sealed, secret->length),
                            bb_t(secret->pair)),
                    &status);

    if (!rows)
        return status;
    json_t *json = webhook_show_secret(webhook_json(rq, rows, 0), secret->text);
    json_t *until = json_string(bb_cell_time(rq, rows, 0, OPTIONS_FROM + options_shown()));

    if (json_object_set_new(json, "previousSecretUntil", until)) {
        json_decref(json);
        json = NULL;
    }
    return bb_reply(rq, 200, json);
}

int webhook_rotate(struct bb_request *rq)
{
    const char *given = bb_text(rq, "secret");
    struct secret secret;
    int refused = webhook_check_secret(rq, given);

    if (!refused)
        refused = webhook_seal(rq, bb_segment_int(rq, "id"), given, &secret);
    json_t *pair = bb_json_hold(rq, json_object());

    if (!refused)
        refused = signature_make_pair(rq, bb_segment_int(rq, "id"), pair);
    if (!refused)
        secret.pair = bb_json(rq, pair, NULL);
    return refused ? refused : webhook_transact(rq, webhook_replace, &secret);
}
