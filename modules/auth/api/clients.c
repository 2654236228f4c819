/*
 * API clients: an ApiUser's programs, each with an id and a secret that is shown once. Only the
 * secret's SHA-256 is stored; the secret is random, so it cannot be guessed from the hash. These
 * routes require a login session: a client cannot create clients.
 */
#include "modules/auth/api/api.h"

#include <openssl/sha.h>
#include <string.h>

struct made {
    const char *client_id, *secret;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    const char *name;
};

static json_t *client_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_column columns[] = {
        {"id", BB_COLUMN_INT, 0},
        {"client_id", BB_COLUMN_TEXT, 1},
        {"name", BB_COLUMN_TEXT, 2},
        {"createdAt", BB_COLUMN_TIME, 3},
    };

    return BB_ROW_JSON(rq, rows, row, columns);
}

#define CLIENT_COLUMNS "id, client_id, name, " BB_SQL_MS("created")

static int store(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql insert = {
        "INSERT INTO auth_client (client_id, account, name, secret) "
        "VALUES ($1, $2::bigint, $3, $4) RETURNING " CLIENT_COLUMNS,
        0};
    const struct made *made = arg;
    struct bb_rows *rows =
        bb_tx_query(rq, tx, &insert,
                    BB_ARGS(bb_t(made->client_id), bb_i(rq->principal->account), bb_t(made->name),
                            bb_bytes(made->digest, sizeof(made->digest))));

    if (!rows)
        return bb_failed(rq);

    json_t *client = client_json(rq, rows, 0);

    if (client && json_object_set_new(client, "client_secret", json_string(made->secret))) {
        json_decref(client);
        client = NULL;
    }
    return bb_reply(rq, 201, client);
}

int auth_client_create(struct bb_request *rq)
{
    const char *name = bb_text(rq, "name");
    struct made *made = bb_alloc(rq, sizeof(*made));

    if (rq->principal->client)
        return bb_fail(rq, 403, "Forbidden");
    made->client_id = bb_random_hex(rq, 16);
    made->secret = bb_random_hex(rq, 32);
    if (!made->client_id || !made->secret)
        return bb_fail(rq, 503, "No random bytes");
    made->name = name ? name : "";
    SHA256((const unsigned char *)made->secret, strlen(made->secret), made->digest);
    return bb_transaction(rq, store, made);
}

int auth_client_list(struct bb_request *rq)
{
    static const struct bb_sql list = {
        "SELECT " CLIENT_COLUMNS " FROM auth_client WHERE account = $1::bigint "
        "AND deleted IS NULL AND id > $2::bigint ORDER BY id LIMIT $3::bigint",
        0};
    struct bb_rows *rows =
        bb_query(rq, &list,
                 BB_ARGS(bb_i(rq->principal->account), bb_i(bb_arg_int(rq, "after", 0)),
                         bb_i(auth_page_limit(rq) + 1)));

    return rows ? bb_reply_rows(rq, rows, (size_t)auth_page_limit(rq), 0, client_json)
                : bb_failed(rq);
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
    const char *payload = bb_format(rq, "account:%lld", (long long)rq->principal->account);

    if (rq->principal->client)
        return bb_fail(rq, 403, "Forbidden");

    struct bb_rows *rows = bb_query(
        rq, &delete,
        BB_ARGS(bb_i(bb_segment_int(rq, "id")), bb_i(rq->principal->account), bb_t(payload)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "No such client");
    auth_changed(rq->state, payload);
    return bb_reply(rq, 200, json_pack("{sb}", "success", 1));
}
