/*
 * Units and interactive transactions. A module may wrongly pass a transaction that has ended, or
 * one of another request, so transactions that are not in the request's list are never
 * dereferenced.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/json.h"
#include "core/lib/log.h"
#include "core/lib/sqlstate.h"
#include "core/lib/text.h"
#include "core/module/reply.h"
#include "core/store/sql.h"

enum {
    GATHERED_BYTES = 65536,
    KEY_MAX = 255, /* maximum length of an Idempotency-Key */
    HASH_HEX = 65,
    BEFORE_MAX = 1000 /* calls requested with bb_before(), per transaction */
};

static const struct bb_sql begin = {"BEGIN", PG_SQL_OF_HOST};
static const struct bb_sql commit = {"COMMIT", PG_SQL_OF_HOST};
static const struct bb_sql rollback = {"ROLLBACK", PG_SQL_OF_HOST};

/* ---- the units and transactions of a request ---- */

static bool tx_known(struct core_request *rq, const struct bb_tx *tx, const char *what)
{
    if (!rq) {
        log_line(BB_ERROR, "module used a transaction outside of a request", "detail", what, NULL);
        return false;
    }
    for (const struct bb_tx *at = rq->txs; at; at = at->next) {
        if (at == tx)
            return true;
    }
    module_error(rq, "module used a unit or transaction that does not belong to the request", what);
    return false;
}

bool tx_usable(struct core_request *rq, const struct bb_tx *tx, const char *what)
{
    if (!tx_known(rq, tx, what))
        return false;
    if (!tx->over)
        return true;
    module_error(rq, "module used a unit that was already committed", what);
    return false;
}

/* Removes a transaction from the request's list, and drops its events. */
static void tx_leave(void *arg)
{
    struct bb_tx *tx = arg, **link = &tx->rq->txs;

    while (*link && *link != tx)
        link = &(*link)->next;
    if (*link)
        *link = tx->next;
    for (struct raised *at = tx->raised; at; at = at->next)
        json_decref(at->payload);
    tx->raised = NULL;
}

static struct bb_tx *tx_new(struct core_request *rq)
{
    struct bb_tx *tx = request_alloc(rq, sizeof *tx);

    tx->rq = rq;
    tx->after_end = &tx->after;
    tx->raised_end = &tx->raised;
    request_defer(rq, tx_leave, tx);
    tx->next = rq->txs;
    rq->txs = tx;
    return tx;
}

/* Frees the statements of a unit, or statements of hooks that were never sent. */
static void tx_drop_request(void *arg)
{
    struct bb_tx *tx = arg;

    pg_request_free(tx->request);
    tx->request = NULL;
}

struct bb_tx *api_unit(struct bb_request *rq, uint64_t key)
{
    struct core_request *core = request_of(rq);
    struct bb_tx *tx = tx_new(core);

    request_defer(core, tx_drop_request, tx);
    tx->request = pg_request_new(core);
    tx->request->key = key;
    tx->request->write = true;
    return tx;
}

/* Makes room for the results of `count` statements. */
static void tx_results_reserve(struct bb_tx *tx, size_t count)
{
    size_t room = tx->results_room ? tx->results_room : 8;

    if (count <= tx->results_room)
        return;
    while (room < count)
        room *= 2;
    struct bb_rows **bigger = request_alloc(tx->rq, room * sizeof *bigger);

    if (tx->results)
        memcpy(bigger, tx->results, tx->results_room * sizeof *bigger);
    tx->results = bigger;
    tx->results_room = room;
}

/* Allocates the rows of the request before it is sent, because nothing may fail after a commit. */
static struct bb_rows *tx_rows_reserve(struct bb_tx *tx, int first,
                                       const struct pg_request *request)
{
    size_t count = 0;

    for (const struct pg_op *op = request->ops; op; op = op->next)
        count++;
    struct bb_rows *rows = request_alloc(tx->rq, count * sizeof *rows);

    tx_results_reserve(tx, (size_t)first + count);
    return rows;
}

static void tx_keep_results(struct bb_tx *tx, int first, struct pg_request *request,
                            struct bb_rows *rows)
{
    for (struct pg_op *op = request->ops; op; op = op->next) {
        *rows = op->rows;
        tx->results[first++] = rows++;
    }
}

/* Called before the next statement: sends the statements that hooks have added. Returns 0 or -1. */
static int tx_send_gathered(struct bb_tx *tx)
{
    struct core_request *rq = tx->rq;
    struct pg_request *request = tx->request;

    if (!request)
        return 0;
    struct bb_rows *rows = tx_rows_reserve(tx, tx->first_hook_statement, request);

    tx->request = NULL;
    if (pg_tx_run_request(tx->checked_out, request))
        return -1;
    request_defer(rq, pg_request_free, request);
    tx_keep_results(tx, tx->first_hook_statement, request, rows);
    return 0;
}

int api_add(struct bb_tx *tx, const struct bb_sql *sql, const struct bb_value *values, size_t count)
{
    if (!tx_usable(request_running(), tx, "bb_add()"))
        return -1;
    bool in_hook = tx->checked_out && tx->rq->hook_depth;

    if (tx->checked_out && !in_hook) {
        tx_results_reserve(tx, (size_t)tx->count + 1);
        struct bb_rows *rows =
            tx_send_gathered(tx) ? NULL : pg_tx_run(tx->checked_out, sql, values, count);

        tx->results[tx->count] = rows;
        return rows ? tx->count++ : -1;
    }
    /* nobody waits for the result of a hook's statement, so the statement is sent with others */
    if (in_hook && tx->request && tx->request->bytes > GATHERED_BYTES && tx_send_gathered(tx))
        return -1;
    if (in_hook && !tx->request) {
        request_defer(tx->rq, tx_drop_request, tx);
        tx->request = pg_request_new(tx->rq);
        tx->first_hook_statement = tx->count;
    }
    if (!pg_request_add(tx->request, sql, values, count))
        request_out_of_memory(tx->rq);
    tx->rq->open_units += !in_hook && !tx->count;
    return tx->count++;
}

void api_after(struct bb_tx *tx, void (*then)(struct bb_request *, struct bb_tx *, void *),
               void *arg)
{
    if (!tx_usable(request_running(), tx, "bb_after()"))
        return;
    struct tx_after *after = request_alloc(tx->rq, sizeof *after);

    *after = (struct tx_after){.host = tx->rq->pub.host, .then = then, .arg = arg};
    *tx->after_end = after;
    tx->after_end = &after->next;
}

/*
 * Implements bb_before(): keeps a list with a block for each function. A block is removed before
 * its function is called, so a later bb_before() creates a new one.
 */
void *api_before(struct bb_tx *tx, int (*last)(struct bb_request *, struct bb_tx *, void *),
                 size_t size)
{
    if (!tx_usable(request_running(), tx, "bb_before()") || !tx->checked_out)
        return NULL;
    struct tx_before **at = &tx->before;

    for (; *at; at = &(*at)->next) {
        if ((*at)->last == last)
            return (*at)->state;
    }
    struct tx_before *block = request_alloc(tx->rq, sizeof *block);
    void *state = request_alloc(tx->rq, size);

    *block = (struct tx_before){.host = tx->rq->pub.host, .last = last, .state = state};
    *at = block;
    return state;
}

/*
 * ---- Idempotency-Key ----
 *
 * A POST that creates something and is repeated with the same key and body within the configured
 * hours gets the first response again and creates nothing; with another body it gets 422. The
 * transaction that creates the object also stores the encrypted response, so both are stored or
 * neither is. A key belongs to an account and a route.
 */

#define PURPOSE "idempotency"

struct idempotency {
    const char *route;   /* such as "POST /api/user/register" */
    const char *key;     /* the client's key; for anonymous clients also their address and `hash` */
    char hash[HASH_HEX]; /* SHA-256 of target and body */
};

static const struct bb_sql key_find = {
    "SELECT request_hash, status, reply, current_setting('synchronous_standby_names') <> ''"
    " FROM busbar_idempotency WHERE account = $1::bigint"
    " AND route = $2 AND key = $3 AND created_at > now() - make_interval(hours => $4::int)"
    " ORDER BY created_at DESC LIMIT 1",
    0};

/* Changes nothing, but its commit waits for the standby, which then has the response, too. */
static const struct bb_sql key_confirm = {
    "UPDATE busbar_idempotency SET status = status WHERE account = $1::bigint AND route = $2"
    " AND key = $3 AND created_at > now() - make_interval(hours => $4::int)",
    BB_SQL_WRITE};

static const struct bb_sql key_store = {
    "SELECT busbar_idempotency_store($1::bigint, $2, $3, $4, $5::int, $6::bytea, $7::int)", 0};

static const struct bb_sql key_expire = {"SELECT busbar_idempotency_partitions($1::int)",
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
    const struct bb_value values[] = {bb_i(idempotency_account_of(rq)), bb_t(idem->route),
                                      bb_t(idem->key), bb_i(idempotency_hours(rq))};
    struct bb_rows *rows = sql_query(rq, &key_find, values, 4);

    if (!rows) /* a refusal of the handler stays */
        return rq->response.status ? rq->response.status : reply_failed(rq);
    if (!api_rows_count(rows))
        return 0;
    if (strcmp(api_rows_text(rows, 0, 0), idem->hash) != 0)
        return reply_error(rq, 422, "The Idempotency-Key was used for another request");
    /* waits for the standby, because the first request may have failed without its confirmation */
    if (!strcmp(api_rows_text(rows, 0, 3), "t") && !sql_query(rq, &key_confirm, values, 4))
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
    /* an API client must not get a response stored for a session of its account */
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
    /* Two anonymous clients may have the same address and send the same key. So their keys include
     * the hash of the request: if their requests differ, neither gets the other's response. */
    idem->key = principal ? arena_text(rq->arena, key, length)
                          : arena_format(rq->arena, "%s %s %s", bb_client_address(&rq->pub),
                                         idem->hash, key);
    if (!idem->key)
        request_out_of_memory(rq);
    rq->idempotency = idem;
    return idempotency_look(rq);
}

/* Adds the statement that stores the response. Returns 0 or -1. */
static int idempotency_store(struct bb_tx *tx, int status, const char *bytes, size_t length)
{
    struct core_request *rq = tx->rq;
    const struct idempotency *idem = rq->idempotency;
    unsigned char *sealed;
    size_t sealed_length;

    if (aead_close(rq->generation->seal, bytes ? bytes : "", length, PURPOSE, &sealed,
                   &sealed_length))
        return request_fail(rq, FAILED_MEMORY);
    request_defer(rq, free, sealed);
    int added = api_add(tx, &key_store,
                        BB_ARGS(bb_i(idempotency_account_of(rq)), bb_t(idem->route),
                                bb_t(idem->key), bb_t(idem->hash), bb_i(status),
                                bb_bytes(sealed, sealed_length), bb_i(idempotency_hours(rq))));

    return added < 0 ? -1 : 0;
}

void idempotency_expire(struct core_request *rq)
{
    sql_query(rq, &key_expire, BB_ARGS(bb_i(idempotency_hours(rq))));
}

/* ---- commit ---- */

/*
 * Calls the functions that were passed to bb_before(), which may add further functions. Statements
 * of the functions are queued and sent together. If a function fails with a response, the client
 * gets this response instead of the transaction's. Returns 0, or -1 on failure.
 */
static int tx_run_before(struct bb_tx *tx)
{
    struct core_request *rq = tx->rq;
    struct bb_host *publisher = rq->pub.host;

    for (int runs = 0; tx->before; runs++) {
        const struct tx_before *block = tx->before;
        int waiting = rq->response.status;

        if (runs == BEFORE_MAX) {
            module_error(rq, "bb_before() was called in a circle", NULL);
            return -1;
        }
        tx->before = block->next;
        rq->response.status = 0;
        request_enter(rq, block->host);
        rq->hook_depth++;
        bool failed = block->last(&rq->pub, tx, block->state) || rq->within_failed;

        rq->hook_depth--;
        request_enter(rq, publisher);
        if (failed && rq->response.status)
            request_fail(rq, FAILED_ANSWERED);
        if (!rq->response.status)
            rq->response.status = waiting;
        if (failed)
            return -1;
    }
    return 0;
}

/*
 * Schedules the committed hooks, which run when this fiber waits or ends. Then makes the calls of
 * bb_after(); they are last, because they may end the request if memory runs out.
 */
static void tx_committed(struct bb_tx *tx)
{
    struct core_request *rq = tx->rq;
    struct bb_host *publisher = rq->pub.host;

    bus_committed(tx);
    for (const struct tx_after *after = tx->after; after; after = after->next) {
        request_enter(rq, after->host);
        after->then(&rq->pub, tx, after->arg);
    }
    request_enter(rq, publisher);
}

/* Runs and commits a unit. Returns 0 or -1. The results live as long as the request. */
static int tx_run_unit(struct bb_tx *tx)
{
    struct core_request *rq = tx->rq;
    struct pg_request *request = tx->request;

    struct bb_rows *rows = tx_rows_reserve(tx, 0, request);

    if (pg_submit(rq->loop->pg, PG_UNIT, request))
        return -1;
    tx->request = NULL;
    if (request_wait(rq, &request->done)) {
        pg_request_abandon(request);
        return -1;
    }
    if (request->failure.kind) {
        sql_failed(rq, &request->failure);
        pg_request_free(request);
        return -1;
    }
    tx->request = request; /* tx_drop_request() frees it */
    tx_keep_results(tx, 0, request, rows);
    return 0;
}

/*
 * If the transaction failed because a request with the same Idempotency-Key has been committed in
 * the meantime, sends the stored response and returns its status; otherwise returns 0.
 */
static int tx_replay_instead(struct core_request *rq)
{
    struct failure why = rq->failure;
    bool conflict = why.kind == FAILED_SQL && sqlstate_has(why.sqlstate, SQLSTATE_CONFLICT);
    int status = rq->idempotency && conflict ? idempotency_look(rq) : 0;

    if (!status)
        rq->failure = why;
    return status;
}

int api_commit(struct bb_request *pub, struct bb_tx *tx, int status, json_t *json)
{
    struct core_request *rq = request_of(pub);
    bool body = module_error_wants_body(status), success = status >= 200 && status < 400;
    bool usable = tx_usable(rq, tx, "bb_commit()");
    size_t length = 0;

    if (usable && tx->checked_out) {
        module_error(rq, "module committed an interactive transaction", "bb_commit()");
        usable = false;
    }
    if (usable && tx->count && rq->open_units)
        rq->open_units--;
    if (usable && module_error_waits(rq, "bb_commit()")) {
        usable = false;
    } else if (usable && !success && (status || rq->kind == REQUEST_HTTP)) {
        module_error(rq, "unit was committed with an error status", NULL);
        usable = false;
    } else if (usable && !json && body) {
        module_error_no_json(rq, status);
        usable = false;
    }
    if (!usable) {
        json_decref(json);
        return 0;
    }
    json = reply_with_warnings(rq, status, json);
    char *bytes = body ? json_write(json, &length) : strdup("");

    json_decref(json);
    if (!bytes)
        request_out_of_memory(rq);
    free(rq->committing);
    rq->committing = bytes;
    if (rq->idempotency && idempotency_store(tx, status, bytes, length))
        return 0;
    tx->over = true;
    if (tx_run_unit(tx))
        return tx_replay_instead(rq);
    rq->committing = NULL;
    reply_bytes(rq, status, bytes, length);
    rq->committed = true;
    tx_committed(tx);
    return status;
}

struct bb_rows *api_unit_rows(struct bb_tx *unit, int index)
{
    if (!tx_known(request_running(), unit, "bb_unit_rows()"))
        return NULL;
    if (index < 0 || (size_t)index >= unit->results_room)
        return NULL;
    return unit->results[index];
}

struct bb_rows *api_tx_query(struct bb_tx *tx, const struct bb_sql *sql,
                             const struct bb_value *values, size_t count)
{
    struct core_request *rq = request_running();

    if (!tx_usable(rq, tx, "bb_tx_query()") || module_error_waits(rq, "bb_tx_query()"))
        return NULL;
    if (!tx->checked_out) {
        module_error(rq, "unit was used as a transaction", "bb_tx_query()");
        return NULL;
    }
    return tx_send_gathered(tx) ? NULL : pg_tx_run(tx->checked_out, sql, values, count);
}

static void tx_end_checked_out(void *arg)
{
    struct bb_tx *tx = arg;

    if (tx->checked_out && tx->checked_out != tx->rq->checked_out)
        pg_tx_end(tx->checked_out);
    tx->checked_out = NULL;
}

/*
 * Runs the function of a transaction and returns its status, by which the caller commits or rolls
 * back. If the status differs from the function's response, answers with 500 and returns 500.
 */
static int tx_run_work(struct bb_tx *tx, int (*work)(struct bb_request *, struct bb_tx *, void *),
                       void *arg)
{
    struct core_request *rq = tx->rq;
    int before = rq->response.status;
    char text[32];

    rq->response.status = 0;
    int status = request_work(rq, tx, work, arg), answered = rq->response.status;

    if (!answered)
        rq->response.status = before;
    if (status < 0)
        return answered >= 400 ? answered : reply_failed(rq);
    if (answered == status || rq->kind != REQUEST_HTTP)
        return status;
    if (!answered && !before && status >= 200 && status < 400)
        return module_error(rq, "transaction function returned a status without sending a response",
                            NULL);
    if (!answered)
        return status;
    snprintf(text, sizeof text, "%d, %d", answered, status);
    return module_error(rq, "transaction function returned a status that differs from its response",
                        text);
}

/* Commits, or rolls back for an error status. A failed commit resets the headers to `headers`. */
static int tx_finish(struct bb_tx *tx, int status, struct response_header *headers)
{
    struct core_request *rq = tx->rq;

    if (status >= 400) {
        pg_tx_run(tx->checked_out, &rollback, NULL, 0);
        return status;
    }
    const struct response *answer = &rq->response;
    int failed = tx_run_before(tx) || tx_send_gathered(tx);

    if (!failed && rq->idempotency)
        failed = idempotency_store(tx, answer->status, answer->body, answer->length);
    const struct bb_rows *rows = failed ? NULL : pg_tx_run(tx->checked_out, &commit, NULL, 0);

    /* COMMIT of a failed transaction reports ROLLBACK and no error */
    if (rows && !strcmp(PQcmdStatus(rows->result), "COMMIT")) {
        rq->committed = rq->response.status != 0;
        rq->unanswered = rq->unanswered || !rq->committed;
        tx_committed(tx);
        return status;
    }
    /* if a statement failed and the module continued, rq->failure has the reason */
    if (rows && rq->failure.kind != FAILED_SQL)
        request_fail(rq, FAILED_UNAVAILABLE);
    struct failure why = rq->failure;

    pg_tx_run(tx->checked_out, &rollback, NULL, 0);
    rq->failure = why;
    rq->response.headers = headers;
    tx_end_checked_out(tx);
    status = tx_replay_instead(rq);
    return status ? status : reply_failed(rq);
}

int api_transaction(struct bb_request *pub,
                    int (*work)(struct bb_request *, struct bb_tx *, void *), void *arg)
{
    struct core_request *rq = request_of(pub);
    struct response_header *headers = rq->response.headers;

    if (module_error_waits(rq, "bb_transaction()"))
        return rq->response.status;
    struct bb_tx *tx = tx_new(rq);

    request_defer(rq, tx_end_checked_out, tx);
    tx->checked_out = rq->checked_out ? rq->checked_out : pg_tx_begin(rq);
    if (!tx->checked_out || !pg_tx_run(tx->checked_out, &begin, NULL, 0))
        return reply_failed(rq);
    int status = tx_finish(tx, tx_run_work(tx, work, arg), headers);
    tx_end_checked_out(tx);
    tx_leave(tx); /* now, because a job can have many transactions before it ends */
    return status;
}
