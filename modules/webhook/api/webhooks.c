/*
 * The routes that create, list, change and delete webhooks and rotate their secrets, and the
 * handlers of notifications about changes.
 */
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

/*
 * The columns that webhook_text() reads: the id; the members before `secret` and the members after
 * it, as JSON without braces and nulls; the sealed members. PLAIN and WORD are twice as fast as
 * to_json(). PLAIN is for values that are JSON, WORD for texts that JSON does not escape. COMPACT
 * removes the spaces that PostgreSQL adds to jsonb; texts in these columns have no spaces.
 */
// clang-format off
#define MEMBER(name, value) "'\"" name "\":' || to_json(" value ")"
#define PLAIN(name, value) "'\"" name "\":' || " value
#define WORD(name, value) "'\"" name "\":\"' || " value " || '\"'"
#define COMPACT(name, column) PLAIN(name, "replace(" column "::text, ' ', '')")
#define COLUMNS                                                                                    \
    "h.id, concat_ws(',', " PLAIN("id", "h.id") ", " PLAIN("userId", "h.account") ","              \
    MEMBER("url", "nullif(h.url, '')") ", " MEMBER("events", "h.events") "),"                      \
    "concat_ws(',', " PLAIN("active", "h.active") ","                                              \
    WORD("createdAt", BB_SQL_TIME("h.created_at")) ","                                             \
    WORD("health", "CASE WHEN h.disabled_at IS NOT NULL THEN 'disabled'"                           \
         " WHEN h.failing_since IS NOT NULL THEN 'failing' ELSE 'ok' END") ","                     \
    WORD("failingSince", BB_SQL_TIME("h.failing_since")) ","                                       \
    WORD("lastSuccessAt", BB_SQL_TIME("h.last_success_at")) ","                                    \
    MEMBER("disabledReason", "h.disabled_reason") ","                                              \
    WORD("disabledAt", BB_SQL_TIME("h.disabled_at")) ", " MEMBER("name", "h.name") ","             \
    MEMBER("description", "h.description") ", " PLAIN("filter", "h.filter") ","                    \
    COMPACT("rateLimit", "h.rate_limit") ", " WORD("ordering", "h.ordering") ","                   \
    COMPACT("retryPolicy", "h.retry_policy") ", " COMPACT("disablePolicy", "h.disable_policy") "," \
    WORD("signature", "h.signature") ", " WORD("publicKey", "h.public_key") ","                    \
    WORD("kind", "h.kind") ", " MEMBER("destination", "h.destination") "),"                        \
    " h.secret, h.headers, h.authentication"
// clang-format on
enum { ID, MEMBERS, MORE_MEMBERS, SECRET, HEADERS, AUTHENTICATION, COLUMN_COUNT };

bool webhook_find(struct bb_request *rq)
{
    static const struct bb_keyed find = WEBHOOK_KEYED("SELECT h.kind");

    return bb_cell(rq, bb_find_or_end(rq, &find.one, BB_ARGS(WEBHOOK_MINE_ARGS(rq)), "Webhook"), 0,
                   0);
}

/* Returns the last characters (code points) of a UTF-8 text: `count`, or all if it has fewer. */
static const char *webhook_tail(const char *text, int count)
{
    const char *at = text + strlen(text);

    while (at > text && count > 0)
        count -= ((unsigned char)*--at & 0xc0) != 0x80; /* the first byte of a character */
    return at;
}

const char *webhook_masked(struct bb_request *rq, const char *secret)
{
    const char *shown = webhook_tail(secret, SHOWN);

    return bb_format(rq, "****%s", shown > secret ? shown : "");
}

/*
 * Opens a sealed secret and returns it masked, as JSON that lives as long as the request. If no key
 * of secrets.keys opens the secret, logs an error and returns "****".
 */
static json_t *webhook_mask(struct bb_request *rq, int64_t id, const char *cell)
{
    char *secret = webhook_secret_open(rq, id, WEBHOOK_PART_SECRET, cell);
    json_t *mask = json_string(secret ? webhook_masked(rq, secret) : "****");

    if (!secret)
        bb_log(rq, BB_ERROR, "the secret of webhook %lld cannot be opened with secrets.keys",
               (long long)id);
    webhook_secret_free(secret);
    return bb_hold(rq, mask);
}

/* Returns `,"NAME":VALUE` of a sealed member, with masked secrets; "" if the member is null. */
static const char *webhook_sealed(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                  size_t column, const char *name,
                                  json_t *(*show)(struct bb_request *, int64_t, const char *))
{
    const char *cell = bb_cell(rq, rows, row, column);

    return cell ? bb_format(rq, ",\"%s\":%s", name,
                            bb_json(rq, show(rq, bb_cell_int(rq, rows, row, ID), cell), NULL))
                : "";
}

/* Returns the webhook with masked secrets as JSON, which lives as long as the request. */
static const char *webhook_text(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return bb_format(
        rq, "{%s%s,%s%s%s}", bb_cell(rq, rows, row, MEMBERS),
        webhook_sealed(rq, rows, row, SECRET, "secret", webhook_mask),
        bb_cell(rq, rows, row, MORE_MEMBERS),
        webhook_sealed(rq, rows, row, HEADERS, "headers", option_headers_show),
        webhook_sealed(rq, rows, row, AUTHENTICATION, "authentication", authentication_show));
}

/* Returns the JSON of webhook_text(), parsed. */
static json_t *webhook_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return bb_json_read(rq, webhook_text(rq, rows, row));
}

/* Shows a new secret in full, with a warning if the secret is short. */
static void webhook_show_secret(struct bb_request *rq, json_t *json, const char *secret)
{
    bb_set(rq, json, "secret", json_string(secret));
    if (webhook_tail(secret, SHORT_SECRET - 1) == secret)
        bb_warn(rq, "secret: shorter than 16 characters, so it may be guessed");
}

/* ---- checks that the field tables cannot express ---- */

const char *webhook_check_url(struct bb_request *rq, const char *field, const char *url)
{
    const struct webhook *webhook = rq->state;
    char *encoded = target_encode(url);

    if (!encoded)
        bb_end(rq, bb_no_memory(rq));
    bb_defer(rq, free, encoded);
    const char *problem = target_problem(&webhook->targets, encoded);

    if (problem)
        bb_end(rq, bb_invalid(rq, field, "%s", problem));
    return encoded;
}

void webhook_take_url(struct bb_request *rq, json_t *value, json_t *columns)
{
    bb_set(rq, columns, "url", json_string(webhook_check_url(rq, "url", json_string_value(value))));
}

/*
 * Takes the names in the list, each once. [] and ["*"] mean all events, stored as ["*"]. "ping" is
 * dropped because a test needs no subscription, so ["ping"] means all events, too.
 */
void webhook_take_events(struct bb_request *rq, json_t *value, json_t *columns)
{
    json_t *once = bb_hold(rq, json_object()), *list = json_array(), *unused = NULL;
    const char *name = NULL;

    bb_set(rq, columns, "events", list);
    for (size_t i = 0; i < json_array_size(value); i++) {
        name = json_string_value(json_array_get(value, i));
        if (strcmp(name, WEBHOOK_ALL_EVENTS) != 0 && !webhook_event(rq, name))
            bb_end(rq, bb_invalid(rq, "events",
                                  "must name events that GET /api/chat/webhooks/events lists"));
        bb_set(rq, once, name, json_null());
    }
    json_object_del(once, WEBHOOK_PING);
    if (!json_object_size(once) || json_object_get(once, WEBHOOK_ALL_EVENTS))
        bb_push(rq, list, json_string(WEBHOOK_ALL_EVENTS));
    else
        json_object_foreach (once, name, unused)
            bb_push(rq, list, json_string(name));
}

/* Adds the given or a generated secret to `columns`, and returns the secret. */
static const char *webhook_take_secret(struct bb_request *rq, json_t *columns)
{
    const char *given = bb_text(rq, "secret");
    const char *secret = given ? given : bb_random_hex(rq, SECRET_BYTES);

    if (given && !sign_secret_good(given))
        bb_end(rq, bb_invalid(rq, "secret", "must have base64 after whsec_"));
    if (!secret)
        bb_end(rq, bb_fail(rq, 503, "The secret could not be generated"));
    option_seal(rq, WEBHOOK_PART_SECRET, secret, columns);
    return secret;
}

/* ---- POST: besides rotate-secret, only this route shows a secret in full ---- */

struct change {
    const struct bb_sql *sql; /* $1 to $3 WEBHOOK_MINE_ARGS, $4 `columns`; NULL: POST */
    const char *columns;      /* see options_take(); NULL: DELETE */
    const char *secret;       /* the new secret, for POST and rotate-secret; otherwise NULL */
};

/* $1 account, $2 to $5 the scope, $6 limit per account, $7 columns */
static const struct bb_sql insert = {
    "INSERT INTO webhook_hook AS h (id, account, admitted, sees_all, organisations, email, secret,"
    " signing_key, public_key, " OPTION_COLUMNS ") SELECT id, $1::bigint, $2::boolean,"
    " $3::boolean, $4::bigint[], $5, secret, signing_key, public_key, " OPTION_COLUMNS
    " FROM jsonb_populate_record(NULL::webhook_hook, '{\"url\": \"\"}' || $7::jsonb)"
    " WHERE (SELECT count(*) FROM webhook_hook WHERE account = $1::bigint) < $6::bigint"
    " RETURNING " COLUMNS,
    0,
};

/* Makes concurrent POSTs of an account wait, so that together they stay within the limit. */
static const struct bb_sql lock = {
    "SELECT pg_advisory_xact_lock(hashtextextended('busbar.webhook.account.' || $1::bigint, 0))",
    0};

static int webhook_insert(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct webhook *webhook = rq->state;
    const struct change *new = arg;
    const struct bb_principal *who = rq->principal;

    bb_tx_query_or_end(rq, tx, &lock, BB_ARGS(bb_i(who->account)));
    const struct bb_rows *rows =
        bb_tx_query_or_end(rq, tx, &insert,
                           BB_ARGS(bb_i(who->account), WEBHOOK_SCOPE_ARGS(true, who),
                                   bb_i(webhook->settings->per_account), bb_t(new->columns)));

    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 409, "An account may have at most %lld webhooks",
                       (long long)webhook->settings->per_account);
    json_t *json = bb_hold(rq, webhook_json(rq, rows, 0));

    json_object_del(json, "health"); /* the response to a POST has no health */
    webhook_show_secret(rq, json, new->secret);
    return bb_reply(rq, 201, json_incref(json));
}

int webhook_create(struct bb_request *rq)
{
    poll_check_members(rq, true);
    if (!bb_text(rq, "kind") && !bb_text(rq, "url"))
        return bb_invalid(rq, "url", "is required");
    int64_t id = bb_next_id(rq, "webhook_hook_id");

    if (id < 0)
        return bb_failed(rq);
    json_t *columns = options_take(rq, id);
    const char *secret = webhook_take_secret(rq, columns);
    struct change new = {.columns = bb_json(rq, columns, NULL), .secret = secret};

    return bb_transaction(rq, webhook_insert, &new);
}

/*
 * ---- GET of all webhooks, of one, and of the names of events ----
 *
 * Secrets are masked. Without `limit` the response has all webhooks: a short list is sent at once,
 * a longer list page by page. The bytes of a page are limited, because the loop is blocked while it
 * builds a page, and a webhook may have 50 KiB.
 */

int webhook_events(struct bb_request *rq)
{
    const char *const *names = NULL;
    size_t count = bb_event_names(rq->host, &names);
    json_t *list = bb_hold(rq, json_array());

    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], WEBHOOK_PING) != 0)
            bb_push(rq, list, json_string(names[i]));
    return bb_reply(rq, 200, json_incref(list));
}

struct list {
    int64_t account; /* owner */
    bool all;        /* an Admin sees all webhooks */
    int64_t after;   /* id of the last webhook read */
};

/*
 * $1 the id of the last webhook read, $2 whether to list all accounts' webhooks, $3 the account, $4
 * limit of webhooks, $5 limit of bytes; the webhook that reaches this limit is the last. The last
 * column is the number of webhooks that would be returned without $5.
 */
static const struct bb_sql list_page = {
    "SELECT " COLUMNS ", h.found FROM (SELECT h.*, count(*) OVER () AS found,"
    " sum(h.size) OVER (ORDER BY h.id) - h.size AS before FROM (SELECT *,"
    " octet_length(concat(h.url, h.name, h.description, h.disabled_reason, h.filter))"
    " + pg_column_size(h.events) + coalesce(octet_length(h.headers), 0)"
    " + coalesce(octet_length(h.authentication), 0) + 500 AS size FROM webhook_hook h"
    " WHERE h.id > $1::bigint AND ($2::boolean OR h.account = $3::bigint)"
    " ORDER BY h.id LIMIT $4::bigint) h) h WHERE h.before < $5::bigint ORDER BY h.id",
    BB_SQL_LIST,
};

#define PAGE_BYTES (1024 * 1024)

static const struct bb_rows *webhook_fetch(struct bb_request *rq, const struct list *list,
                                           size_t count, int64_t bytes)
{
    return bb_query_or_end(rq, &list_page,
                           BB_ARGS(bb_i(list->after), bb_b(list->all), bb_i(list->account),
                                   bb_i((int64_t)count), bb_i(bytes)));
}

/* Returns the number of webhooks that list_page would return without the limit of bytes. */
static size_t webhook_found(struct bb_request *rq, const struct bb_rows *rows)
{
    return bb_count(rq, rows) ? (size_t)bb_cell_int(rq, rows, 0, COLUMN_COUNT) : 0;
}

static int webhook_write_page(struct bb_request *rq, struct csv *text, void *arg)
{
    struct list *list = arg;
    const struct bb_rows *rows = webhook_fetch(rq, list, ARRAY_SHORT, ARRAY_PAGE_BYTES);
    size_t count = bb_count(rq, rows), found = webhook_found(rq, rows);

    for (size_t row = 0; row < count; row++)
        pieces_add_text(rq, text, webhook_text(rq, rows, row));
    if (count)
        list->after = bb_cell_int(rq, rows, count - 1, 0);
    return count < found || found == ARRAY_SHORT;
}

int webhook_list(struct bb_request *rq)
{
    static const struct pieces_source source = {.write = webhook_write_page};
    const struct webhook *webhook = rq->state;
    struct list list = {.account = rq->principal->account,
                        .all = rq->principal->role == BB_ROLE_ADMIN,
                        .after = bb_arg_int(rq, "after", 0)};
    size_t limit = (size_t)bb_arg_int(rq, "limit", 0), most = limit ? limit : ARRAY_SHORT;
    const struct bb_rows *rows = webhook_fetch(rq, &list, most + 1, PAGE_BYTES);
    size_t count = bb_count(rq, rows) > most ? most : bb_count(rq, rows);
    bool more = count < webhook_found(rq, rows);

    if (more && !limit)
        return pieces_begin_copy(rq, webhook->long_answers, &source, &list, sizeof(list));
    return bb_reply_page(rq, rows, count, more ? bb_cell(rq, rows, count - 1, 0) : NULL,
                         webhook_json);
}

int webhook_get(struct bb_request *rq)
{
    static const struct bb_keyed find = WEBHOOK_KEYED("SELECT " COLUMNS);

    return bb_reply(
        rq, 200,
        webhook_json(rq, bb_find_or_end(rq, &find.one, BB_ARGS(WEBHOOK_MINE_ARGS(rq)), "Webhook"),
                     0));
}

/* ---- notifications, from this host or another; any thread ---- */

void webhook_changed(void *state, const char *payload)
{
    struct sender *sender = ((struct webhook *)state)->sender;
    bool hook = payload && !strncmp(payload, "hook:", 5);

    if (!hook)
        sender_heard(sender, payload);
    if (hook || !payload)
        sender_changed(sender, hook ? strtoll(payload + 5, NULL, 10) : 0);
}

/* Ignores payload NULL (notifications may be lost): each heartbeat reads the pause switch, too. */
void webhook_pause_heard(void *state, const char *payload)
{
    if (payload)
        sender_pause(((struct webhook *)state)->sender, strcmp(payload, "resumed") != 0);
}

/*
 * ---- PATCH, DELETE and rotate-secret ----
 *
 * Each route changes the row and notifies all hosts in one transaction. Before the response it also
 * notifies this host's sender, even if the outcome of the commit is unknown. So this host starts no
 * attempt after the response to a DELETE, or to a PATCH that deactivates the webhook.
 */

#define OLD_SECRET_HOURS "24"

static const char *webhook_payload(struct bb_request *rq)
{
    return bb_format(rq, "hook:%lld", (long long)bb_segment_int(rq, "id"));
}

static int webhook_write(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql current = {
        "SELECT " COLUMNS " FROM webhook_hook h WHERE " WEBHOOK_MINE " FOR UPDATE", 0};
    static const struct bb_sql replay = {"DELETE FROM webhook_replay WHERE webhook = $1::bigint",
                                         0};
    const struct change *change = arg;
    const struct bb_value values[] = {WEBHOOK_MINE_ARGS(rq), bb_t(change->columns)};

    bb_if_match_or_end(rq, tx, &current, values, 3, webhook_json);
    const struct bb_rows *rows =
        bb_tx_query_or_end(rq, tx, change->sql, values, change->columns ? 4 : 3);

    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "Webhook not found");
    if (bb_notify(rq, tx, WEBHOOK_CHANNEL, webhook_payload(rq)))
        return bb_failed(rq);
    if (!change->columns) { /* after `sql`, to find a replay that began while `sql` waited */
        bb_tx_query_or_end(rq, tx, &replay, values, 1);
        return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
    }
    json_t *json = bb_hold(rq, webhook_json(rq, rows, 0));

    if (change->secret) {
        webhook_show_secret(rq, json, change->secret);
        bb_set(rq, json, "previousSecretUntil", json_string(bb_cell(rq, rows, 0, COLUMN_COUNT)));
    }
    return bb_reply(rq, 200, json_incref(json));
}

static int webhook_transact(struct bb_request *rq, const struct bb_sql *sql, json_t *columns,
                            const char *secret)
{
    struct change change = {sql, columns ? bb_json(rq, columns, NULL) : NULL, secret};
    int status = bb_transaction(rq, webhook_write, &change);

    if (status != 404)
        webhook_changed(rq->state, webhook_payload(rq));
    return status;
}

int webhook_change(struct bb_request *rq)
{
    static const struct bb_sql update = {
        "UPDATE webhook_hook h SET"
        " failing_since = CASE WHEN ($4::jsonb -> 'active')::boolean AND NOT active THEN NULL"
        " ELSE failing_since END,"
        " disabled_at = CASE WHEN ($4::jsonb -> 'active')::boolean THEN NULL ELSE disabled_at END,"
        " disabled_reason = CASE WHEN ($4::jsonb -> 'active')::boolean THEN NULL"
        " ELSE disabled_reason END, (active, " OPTION_COLUMNS ", " SIGNING_COLUMNS
        ") = (SELECT active, " OPTION_COLUMNS ", " SIGNING_VALUES
        " FROM jsonb_populate_record(h, $4::jsonb) r)"
        " WHERE " WEBHOOK_MINE " RETURNING " COLUMNS,
        0};

    poll_check_members(rq, false);
    return webhook_transact(rq, &update, options_take(rq, bb_segment_int(rq, "id")), NULL);
}

/* The job webhook.sweep deletes the webhook's waiting deliveries later; no sender sends them. */
int webhook_delete(struct bb_request *rq)
{
    static const struct bb_sql remove = {
        "WITH gone AS (DELETE FROM webhook_hook h WHERE " WEBHOOK_MINE " RETURNING h.id),"
        " numbers AS (DELETE FROM webhook_sequence WHERE webhook = (SELECT id FROM gone))"
        " INSERT INTO webhook_gone (webhook) SELECT id FROM gone RETURNING webhook",
        0};

    return webhook_transact(rq, &remove, NULL, NULL);
}

int webhook_rotate(struct bb_request *rq)
{
    static const struct bb_sql replace = {
        "UPDATE webhook_hook h SET previous = secret, secret = ($4::jsonb ->> 'secret')::bytea,"
        " previous_signing_key = signing_key, previous_public_key = public_key,"
        " signing_key = CASE WHEN signing_key IS NOT NULL THEN ($4::jsonb ->> 'signing_key')::bytea"
        " END, public_key = CASE WHEN public_key IS NOT NULL THEN $4::jsonb ->> 'public_key' END,"
        " previous_until = now() + interval '" OLD_SECRET_HOURS " hours'"
        " WHERE " WEBHOOK_MINE " RETURNING " COLUMNS ", " BB_SQL_TIME("h.previous_until"),
        0};
    json_t *columns = options_new(rq, bb_segment_int(rq, "id"));
    const char *secret = webhook_take_secret(rq, columns);

    signature_make_pair(rq, columns);
    return webhook_transact(rq, &replace, columns, secret);
}
