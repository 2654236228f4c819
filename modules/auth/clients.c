/* The routes of the clients of ApiUsers, and of the organizations for which ApiUsers act. */
#include "modules/auth/auth.h"

/*
 * ---- API clients: an ApiUser's programs, each with an id and a secret that is shown once ----
 *
 * Only the secret's SHA-256 is stored; the secret is random, so it cannot be guessed from the hash.
 * A change requires a login session: a client cannot create clients, or replace its own secret.
 */

#define CLIENT_COLUMNS                                                                             \
    "id, client_id, name, " BB_SQL_MS("created") ", " BB_SQL_MS("used") ", " BB_SQL_MS("expires")

static void clients_require_login(struct bb_request *rq)
{
    if (rq->principal->client)
        bb_end(rq, bb_fail(rq, 403, "Forbidden"));
}

/* Responds with the client. `secret` is its new secret, or NULL. */
static int clients_reply(struct bb_request *rq, int status, const struct bb_rows *rows,
                         const char *secret)
{
    json_t *client = bb_hold(rq, BB_ROW_FIELDS(rq, rows, 0, 0, auth_client_fields));

    if (secret)
        bb_set(rq, client, "client_secret", json_string(secret));
    return bb_reply(rq, status, json_incref(client));
}

static int clients_store(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql insert = {
        "INSERT INTO auth_client (client_id, account, name, expires, secret) "
        "VALUES ($1, $2::bigint, coalesce($3, ''), $4::timestamptz, $5) RETURNING " CLIENT_COLUMNS,
        0};
    const char *id = auth_random_hex(rq, 16), *secret = auth_random_hex(rq, 32);
    struct bb_rows *rows = bb_tx_query_or_end(
        rq, tx, &insert,
        BB_ARGS(bb_t(id), bb_i(rq->principal->account), bb_t(bb_text(rq, "name")),
                bb_t(bb_text(rq, "expiresAt")), auth_sha256(rq, secret)));

    (void)arg;
    return clients_reply(rq, 201, rows, secret);
}

int auth_client_create(struct bb_request *rq)
{
    clients_require_login(rq);
    return bb_transaction(rq, clients_store, NULL);
}

/*
 * Changes the members that the request has. If `*arg` is true, replaces the secret and ends the
 * client's sessions. `end` is a separate statement, so that it also sees a session that getAccess
 * has created with the old secret while `change` waited for the client's lock.
 */
static int clients_change(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql change = {
        "UPDATE auth_client SET name = CASE WHEN $7::boolean THEN coalesce($3, '') ELSE name END, "
        "expires = CASE WHEN $4::boolean THEN $5::timestamptz ELSE expires END, "
        "secret = coalesce($6::bytea, secret) "
        "WHERE id = $1::bigint AND account = $2::bigint AND deleted IS NULL "
        "RETURNING " CLIENT_COLUMNS,
        0};
    static const struct bb_sql end = {
        "UPDATE auth_session SET revoked = now() WHERE client = $1::bigint AND revoked IS NULL", 0};
    const char *secret = *(bool *)arg ? auth_random_hex(rq, 32) : NULL;
    struct bb_value id = bb_i(bb_segment_int(rq, "id"));
    struct bb_rows *rows = bb_tx_query_or_end(
        rq, tx, &change,
        BB_ARGS(id, bb_i(rq->principal->account), bb_t(bb_text(rq, "name")),
                bb_b(json_object_get(bb_body(rq), "expiresAt") != NULL),
                bb_t(bb_text(rq, "expiresAt")), secret ? auth_sha256(rq, secret) : bb_t(NULL),
                bb_b(json_object_get(bb_body(rq), "name") != NULL)));

    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "Client not found");
    if (secret)
        bb_tx_query_or_end(rq, tx, &end, &id, 1);
    auth_notify(rq, tx, rq->principal->account);
    return clients_reply(rq, 200, rows, secret);
}

int auth_client_change(struct bb_request *rq)
{
    clients_require_login(rq);
    return bb_transaction(rq, clients_change, &(bool){false});
}

int auth_client_rotate(struct bb_request *rq)
{
    clients_require_login(rq);
    return bb_transaction(rq, clients_change, &(bool){true});
}

int auth_client_list(struct bb_request *rq)
{
    static const struct bb_sql list = {
        "SELECT " CLIENT_COLUMNS " FROM auth_client WHERE account = $1::bigint "
        "AND deleted IS NULL AND id > $2::bigint ORDER BY id LIMIT $3::bigint",
        0};
    struct bb_rows *rows =
        bb_query_or_end(rq, &list,
                        BB_ARGS(bb_i(rq->principal->account), bb_i(bb_arg_int(rq, "after", 0)),
                                bb_i(auth_page_limit(rq) + 1)));

    return auth_reply_list(rq, rows, auth_client_fields, CLIENT_COLUMN_COUNT);
}

int auth_client_delete(struct bb_request *rq)
{
    static const struct bb_sql delete = {
        "WITH gone AS (UPDATE auth_client SET deleted = now() WHERE id = $1::bigint "
        "AND account = $2::bigint AND deleted IS NULL RETURNING id), "
        "ended AS (UPDATE auth_session s SET revoked = now() FROM gone "
        "WHERE s.client = gone.id AND s.revoked IS NULL) "
        "SELECT pg_notify('" AUTH_CHANNEL "', $3::text) FROM gone",
        BB_SQL_WRITE};
    const char *payload = auth_account_payload(rq, rq->principal->account);

    clients_require_login(rq);
    bb_find_or_end(
        rq, &delete,
        BB_ARGS(bb_i(bb_segment_int(rq, "id")), bb_i(rq->principal->account), bb_t(payload)),
        "Client");
    auth_changed(rq->state, payload);
    return bb_reply(rq, 200, json_pack("{sb}", "success", 1));
}

/*
 * ---- organizations: an ApiUser creates its own, or an Admin links one to an ApiUser ----
 *
 * The principal includes the organizations, so a change drops the account's cache entries.
 */

#define ORGANIZATION_COLUMNS "o.id, o.name, o.type, o.address, o.api_user, " BB_SQL_MS("o.created")

static int clients_store_organization(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    (void)arg;
    static const struct bb_sql insert = {
        "INSERT INTO auth_organisation AS o (name, type, address, api_user) "
        "VALUES (btrim($1), 'Developer', $2, $3::bigint) ON CONFLICT DO NOTHING "
        "RETURNING " ORGANIZATION_COLUMNS,
        0};
    struct bb_rows *rows =
        bb_tx_query_or_end(rq, tx, &insert,
                           BB_ARGS(bb_t(bb_text(rq, "name")), bb_t(bb_text(rq, "address")),
                                   bb_i(rq->principal->account)));

    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 409, "An organization with this name already exists");
    auth_notify(rq, tx, rq->principal->account);
    return bb_reply(rq, 201, BB_ROW_FIELDS(rq, rows, 0, 0, auth_organization_fields));
}

int auth_organization_create(struct bb_request *rq)
{
    return bb_transaction(rq, clients_store_organization, NULL);
}

static int clients_link_organization(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql find = {
        "SELECT FROM auth_account WHERE id = $1::bigint AND role = 'ApiUser' "
        "AND status <> 'Deleted' FOR SHARE",
        0};
    static const struct bb_sql update = {
        "WITH old AS (SELECT id, api_user FROM auth_organisation WHERE id = $1::bigint FOR UPDATE) "
        "UPDATE auth_organisation o SET api_user = nullif($2::bigint, 0) FROM old "
        "WHERE o.id = old.id RETURNING " ORGANIZATION_COLUMNS ", old.api_user",
        0};
    int64_t after = json_integer_value(json_object_get(bb_body(rq), "apiUserId"));

    (void)arg;
    if (after && !bb_count(rq, bb_tx_query_or_end(rq, tx, &find, BB_ARGS(bb_i(after)))))
        return bb_invalid(rq, "apiUserId", "must be the id of an ApiUser");
    struct bb_rows *rows =
        bb_tx_query_or_end(rq, tx, &update, BB_ARGS(bb_i(bb_segment_int(rq, "id")), bb_i(after)));

    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "Organization not found");
    if (bb_cell(rq, rows, 0, 6))
        auth_notify(rq, tx, bb_cell_int(rq, rows, 0, 6));
    if (after)
        auth_notify(rq, tx, after);
    return bb_reply(rq, 200, BB_ROW_FIELDS(rq, rows, 0, 0, auth_organization_fields));
}

int auth_organization_link(struct bb_request *rq)
{
    return bb_transaction(rq, clients_link_organization, NULL);
}

int auth_organization_list(struct bb_request *rq)
{
    static const struct bb_sql list = {"SELECT " ORGANIZATION_COLUMNS
                                       " FROM auth_organisation o WHERE o.id > $1::bigint "
                                       "ORDER BY o.id LIMIT $2::bigint",
                                       BB_SQL_LONG};
    struct bb_rows *rows = bb_query_or_end(
        rq, &list, BB_ARGS(bb_i(bb_arg_int(rq, "after", 0)), bb_i(auth_page_limit(rq) + 1)));

    return auth_reply_list(rq, rows, auth_organization_fields, 6);
}
