#include "core/store/idempotency.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/module/reply.h"

#define TAKEN "idempotency key taken" /* raised by `store` */
#define PURPOSE "idempotency"

enum { KEY_MAX = 255, HASH_HEX = 65 };

struct idempotency {
    const char *route;   /* "POST /api/user/register" */
    const char *key;     /* the client's key; on public routes with address and hash */
    char hash[HASH_HEX]; /* SHA-256 of target and body */
};

static const struct bb_sql find = {
    "SELECT request_hash, status, reply, current_setting('synchronous_standby_names') <> ''"
    " FROM busbar_idempotency WHERE account = $1::bigint"
    " AND route = $2 AND key = $3 AND created_at > now() - make_interval(hours => $4::int)",
    0};

/* Changes nothing, but its commit waits for the standby, which then also has the first commit. */
static const struct bb_sql confirm = {
    "UPDATE busbar_idempotency SET status = status WHERE account = $1::bigint AND route = $2"
    " AND key = $3",
    BB_SQL_WRITE};

static const struct bb_sql store = {
    "WITH s AS (INSERT INTO busbar_idempotency AS i (account, route, key, request_hash, status,"
    " reply) VALUES ($1::bigint, $2, $3, $4, $5::int, $6::bytea)"
    " ON CONFLICT (account, route, key) DO UPDATE SET request_hash = $4, status = $5::int,"
    " reply = $6::bytea, created_at = now()"
    " WHERE i.created_at <= now() - make_interval(hours => $7::int) RETURNING 1)"
    " SELECT busbar_require(EXISTS (SELECT FROM s), 409, '" TAKEN "')",
    0};

static const struct bb_sql expire = {
    "DELETE FROM busbar_idempotency WHERE created_at <= now() - make_interval(hours => $1::int)",
    BB_SQL_WRITE | BB_SQL_LONG};

static int64_t idempotency_hours(const struct core_request *rq)
{
    return rq->generation->host->idempotency.hours;
}

static int64_t idempotency_account_of(const struct core_request *rq)
{
    return rq->pub.principal ? rq->pub.principal->account : 0;
}

int idempotency_look(struct core_request *rq)
{
    const struct idempotency *idem = rq->idempotency;
    struct bb_rows *rows = sql_query(rq, &find,
                                     BB_ARGS(bb_i(idempotency_account_of(rq)), bb_t(idem->route),
                                             bb_t(idem->key), bb_i(idempotency_hours(rq))));

    if (!rows)
        return reply_failed(rq);
    if (!api_rows_count(rows))
        return 0;
    if (strcmp(api_rows_text(rows, 0, 0), idem->hash) != 0)
        return reply_error(rq, 422, "The Idempotency-Key was used for another request");
    /* the first request may have failed because no standby confirmed its commit */
    if (!strcmp(api_rows_text(rows, 0, 3), "t") &&
        !sql_query(rq, &confirm,
                   BB_ARGS(bb_i(idempotency_account_of(rq)), bb_t(idem->route), bb_t(idem->key))))
        return reply_failed(rq);
    const char *hex = api_rows_text(rows, 0, 2) + 2; /* after \x */
    size_t length = strlen(hex) / 2, plain_length;
    unsigned char *sealed = request_alloc(rq, length + 1), *plain;
    int failed =
        text_hex_decode(hex, sealed, length)
            ? -1
            : aead_open(rq->generation->seal, sealed, length, PURPOSE, &plain, &plain_length);

    if (failed == AEAD_NO_MEMORY)
        request_out_of_memory(rq);
    if (failed) {
        log_line(BB_ERROR, "cannot decrypt a stored response with secrets.keys", "request", rq->id,
                 NULL);
        return reply_error(rq, 500, "Internal server error");
    }
    reply_header(rq, "Idempotency-Replayed", "true");
    return reply_bytes(rq, atoi(api_rows_text(rows, 0, 1)), (char *)plain, plain_length);
}

int idempotency_begin(struct core_request *rq, const struct bb_route *route, const char *target,
                      const char *key, const char *body, size_t body_length)
{
    struct idempotency *idem = request_alloc(rq, sizeof *idem);
    const struct bb_principal *principal = rq->pub.principal;
    unsigned char digest[32];
    size_t length = 0;

    while (key[length] >= 0x20 && key[length] <= 0x7e)
        length++;
    if (!length || length > KEY_MAX || key[length])
        return reply_error(rq, 400, "Idempotency-Key must be 1 to 255 visible characters");
    if (!rq->generation->seal)
        return reply_error(rq, 503, "Idempotency-Key needs the setting secrets.keys");
    /* API clients must not get responses to sessions */
    idem->route =
        arena_format(rq->arena, "%s%s %s", principal && principal->client ? "client " : "",
                     route->method, route->path);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool hashed = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) &&
                  EVP_DigestUpdate(context, target, strlen(target) + 1) &&
                  EVP_DigestUpdate(context, body, body_length) &&
                  EVP_DigestFinal_ex(context, digest, NULL);

    EVP_MD_CTX_free(context);
    if (!idem->route || !hashed)
        request_out_of_memory(rq);
    text_hex(digest, sizeof digest, idem->hash);
    /* Anonymous clients share addresses, so their keys are not separate. Therefore the key is
     * combined with the address and the hash of the request: a different request has a different
     * key. */
    idem->key = principal ? arena_text(rq->arena, key, length)
                          : arena_format(rq->arena, "%s %s %s", bb_client_address(&rq->pub),
                                         idem->hash, key);
    if (!idem->key)
        request_out_of_memory(rq);
    rq->idempotency = idem;
    return idempotency_look(rq);
}

int idempotency_store(struct bb_tx *tx, int status, const char *bytes, size_t length)
{
    struct core_request *rq = tx->rq;
    const struct idempotency *idem = rq->idempotency;
    unsigned char *sealed;
    size_t sealed_length;

    if (aead_close(rq->generation->seal, bytes ? bytes : "", length, PURPOSE, &sealed,
                   &sealed_length))
        return request_fail(rq, FAILED_MEMORY);
    int added = api_add(tx, &store,
                        BB_ARGS(bb_i(idempotency_account_of(rq)), bb_t(idem->route),
                                bb_t(idem->key), bb_t(idem->hash), bb_i(status),
                                bb_bytes(sealed, sealed_length), bb_i(idempotency_hours(rq))));
    free(sealed);
    return added < 0 ? -1 : 0;
}

bool idempotency_lost(const struct core_request *rq)
{
    return rq->failure.kind == FAILED_SQL && !strcmp(rq->failure.text, TAKEN);
}

int idempotency_replay(struct core_request *rq)
{
    int status = idempotency_look(rq);

    return status ? status
                  : reply_error(rq, 503,
                                "The first request with this Idempotency-Key is still in progress");
}

void idempotency_expire(struct core_request *rq)
{
    sql_query(rq, &expire, BB_ARGS(bb_i(idempotency_hours(rq))));
}
