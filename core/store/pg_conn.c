/* One connection: connecting, making and sending batches, and reading their results. */
#include "core/store/pg_pool.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>

#include "core/lib/log.h"
#include "core/lib/sqlstate.h"
#include "core/lib/text.h"
#include "core/module/reply.h"
#include "core/store/pg_connect.h"
#include "core/store/pg_listener.h"
#include "core/store/sql.h"

enum { BACKOFF_FIRST_MS = 50, BACKOFF_MAX_MS = 500, TRIES_MAX = 4, NAME_SIZE = 24 };

/* Values of pg_conn.fault. */
static const char unreplicated[] = "a commit was not confirmed by the synchronous standby";
static const char outcome_unknown[] = "a response of PostgreSQL could not be processed";
static const char left_open[] = "a transaction was left open";
static const char misused[] = "a module's statement is not allowed";

static void conn_results_lost(struct pg_conn *conn);

/* ---- prepared statements: a tree of their addresses, see tsearch(3) ---- */

static int conn_prepared_compare(const void *one, const void *other)
{
    return one < other ? -1 : one > other;
}

/* Advances to the next statement that has its own result, or, after the last one, to the Sync. */
static void conn_batch_advance(struct pg_batch *batch)
{
    batch->op = batch->op ? batch->op->next : NULL;
    while (!batch->op && batch->rest) {
        batch->request = batch->rest;
        batch->rest = batch->request->next;
        batch->op = batch->request->uses_earlier_result ? NULL : batch->request->ops;
    }
}

/* ---- the settings of the session ------------------------------------------------------------- */

/*
 * A function called by a statement may change settings, which would affect later users of the
 * connection. PostgreSQL reports changes of these settings before the result of a Sync (search_path
 * since version 18). The list lacks in_hot_standby, because no statement can change it.
 */
static const char *const reported[PG_REPORTED] = {"TimeZone",
                                                  "DateStyle",
                                                  "IntervalStyle",
                                                  "client_encoding",
                                                  "standard_conforming_strings",
                                                  "default_transaction_read_only",
                                                  "session_authorization",
                                                  "is_superuser",
                                                  "application_name",
                                                  "search_path"};

static uint64_t conn_reported_hash(const struct pg_conn *conn, int i)
{
    const char *text = PQparameterStatus(conn->pg, reported[i]);
    uint64_t hash = 0xcbf29ce484222325U;

    while (text && *text)
        hash = (hash ^ (unsigned char)*text++) * 0x100000001b3U;
    return hash;
}

bool pg_session_has_changed(const struct pg_conn *conn, const struct core_request *rq)
{
    static const char what[] = "a setting of a shared connection has changed";
    int i = 0;

    while (i < PG_REPORTED && conn_reported_hash(conn, i) == conn->reported[i])
        i++;
    if (i == PG_REPORTED)
        return false;
    if (rq)
        module_error_log(rq, BB_WARN, what, reported[i]);
    else
        log_line(BB_WARN, what, "detail", reported[i], NULL);
    return true;
}

/* ---- connecting ------------------------------------------------------------------------------ */

bool pg_conn_usable(const struct pg_conn *conn)
{
    return conn->state == PG_READY || conn->backoff_ms <= BACKOFF_FIRST_MS;
}

bool pg_conn_expected(const struct pg_conn *conn)
{
    return pg_conn_usable(conn) || (!conn->pool->replica && pg_listener_latency_ms() >= 0);
}

/* Logs an event. It often affects all connections, so only the first one logs it as a warning. */
static void conn_log(const struct pg_conn *conn, const char *what, const char *reason)
{
    const struct pg_replica *replica = conn->pool->replica;
    bool first = conn->pool->kind == PG_READ && !conn->index;
    char text[256];

    snprintf(text, sizeof text, "%s", reason ? reason : "");
    log_line(conn->fault || first ? BB_WARN : BB_DEBUG, what, "reason", reason ? text : NULL,
             LOG_NUMBER_IF(replica, "replica", replica->index + 1), NULL);
}

static void conn_forget_server(struct pg_conn *conn)
{
    loop_watch(conn->pool->pg->loop, &conn->watch, -1, 0);
    dial_free(conn->dial);
    PQfinish(conn->pg);
    conn->dial = NULL;
    conn->pg = NULL;
    conn->state = PG_DOWN;
    conn->recycle = false;
    conn->fault = NULL;
    conn->end = NULL;
    while (conn->prepared) /* a node begins with a pointer to its key, which is not owned */
        tdelete(*(void **)conn->prepared, &conn->prepared, conn_prepared_compare);
}

void pg_conn_lost(struct pg_conn *conn, const char *reason)
{
    struct loop *loop = conn->pool->pg->loop;
    bool was_ready = conn->state == PG_READY;

    if (conn->state == PG_DOWN)
        return;
    /* logs before the connection is freed, because `reason` may belong to it */
    if (was_ready)
        conn_log(conn, "connection to PostgreSQL lost", reason);
    else if (conn->backoff_ms == BACKOFF_FIRST_MS)
        conn_log(conn, "PostgreSQL cannot be reached", reason);
    conn_forget_server(conn);
    if (!conn->pool->replica)
        sql_ids_forget(loop);
    conn_results_lost(conn);
    if (conn->pool->kind == PG_TX)
        pg_conn_fail_waiting(conn);
    if (conn->checked_out)
        pg_tx_lost(conn->checked_out);
    /* reconnects at once after a loss, then with increasing delays */
    timer_set(&loop->timers, &conn->timer, loop->now_ms + conn->backoff_ms);
    conn->backoff_ms = conn->backoff_ms ? conn->backoff_ms * 2 : BACKOFF_FIRST_MS;
    if (conn->backoff_ms > BACKOFF_MAX_MS)
        conn->backoff_ms = BACKOFF_MAX_MS;
    pg_conn_move_waiting(conn);
    if (!was_ready || conn->pool->replica)
        pg_conn_fail_waiting(conn);
    pg_tx_fail_if_down(conn->pool);
}

static void conn_heard(const struct pg_conn *conn)
{
    if (!conn->pool->replica)
        conn->pool->pg->heard_ms = conn->pool->pg->loop->now_ms;
}

static void conn_want(struct pg_conn *conn, uint32_t events)
{
    if (loop_watch(conn->pool->pg->loop, &conn->watch, PQsocket(conn->pg), events))
        pg_conn_lost(conn, "the socket cannot be watched");
}

static void conn_flush_output(struct pg_conn *conn)
{
    int left = PQflush(conn->pg);

    if (left < 0)
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
    else
        conn_want(conn, left ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/*
 * Called for each notice. Before the server ends the session, it sends a fatal error, or, in an
 * immediate shutdown or after the crash of another session, a warning. Then the session executes
 * no more statements, and the server soon closes the connection.
 */
static void conn_notice(void *arg, const PGresult *result)
{
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    struct pg_conn *conn = arg;

    if ((severity && (!strcmp(severity, "FATAL") || !strcmp(severity, "PANIC"))) ||
        (code && (!strcmp(code, "57P01") || !strcmp(code, "57P02"))))
        conn->end = "the server ended the session";
    if (pg_notice_is_unreplicated(result))
        conn->fault = unreplicated;
}

/* Called when the attempt to connect has ended. */
static void conn_dialled(void *arg, void *connection, const char *problem)
{
    struct pg_conn *conn = arg;

    conn->dial = NULL;
    conn->pg = connection;
    if (!conn->pg) {
        pg_conn_lost(conn, problem);
        return;
    }
    PQsetNoticeReceiver(conn->pg, conn_notice, conn);
    if (PQsetnonblocking(conn->pg, 1) || !PQenterPipelineMode(conn->pg)) {
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
        return;
    }
    if (conn->backoff_ms > BACKOFF_FIRST_MS)
        conn_log(conn, "PostgreSQL responds again", NULL);
    conn_want(conn, EPOLLIN);
    if (!conn->pg)
        return;
    conn->state = PG_READY;
    for (int i = 0; i < PG_REPORTED; i++)
        conn->reported[i] = conn_reported_hash(conn, i);
    conn->backoff_ms = 0;
    conn_heard(conn);
    if (conn->pool->kind == PG_TX)
        pg_tx_hand_over(conn);
}

static void conn_attempt(struct timer *timer)
{
    struct pg_conn *conn = BB_CONTAINER_OF(timer, struct pg_conn, timer);
    struct loop *loop = conn->pool->pg->loop;
    struct pg_replica *replica = conn->pool->replica;
    const struct pg_conn *first = replica ? replica->pools[0].conns : conn;

    /* the first connection tries whether the replica responds; the others wait for its success */
    if (conn != first && first->state != PG_READY) {
        timer_set(&loop->timers, timer, loop->now_ms + BACKOFF_MAX_MS);
        return;
    }
    conn->state = PG_CONNECTING;
    conn->dial = pg_dial(loop, loop->host, replica ? pg_replica_url(replica) : NULL, "busbar",
                         conn_dialled, conn);
    if (!conn->dial)
        pg_conn_lost(conn, "no thread can be started");
}

/* ---- sending a batch ------------------------------------------------------------------------- */

static int conn_send_op(struct pg_conn *conn, struct pg_request *request, struct pg_op *op)
{
    const struct bb_sql *sql = op->sql;
    const char *const *values = op->values;
    const int *lengths = op->lengths, *formats = op->formats;
    char name[NAME_SIZE];

    pg_rows_drop(&op->rows);
    if (request->members) {
        sql = pg_many(sql);
        values = pg_merge_values(request, op);
        lengths = formats = NULL; /* all parameters are text */
        if (!values)
            return -1;
    }
    name[0] = 's'; /* the name on the server contains the address of `sql`, which is unique */
    text_hex(&sql, sizeof sql, name + 1);
    op->preparing = !tfind(sql, &conn->prepared, conn_prepared_compare);
    if (op->preparing && (!tsearch(sql, &conn->prepared, conn_prepared_compare) ||
                          !PQsendPrepare(conn->pg, name, sql->text, 0, NULL)))
        return -1;
    return PQsendQueryPrepared(conn->pg, name, op->count, values, lengths, formats, 0) ? 0 : -1;
}

/* Sends requests followed by one Sync. Returns 0, or -1 if the connection is unusable. */
static int conn_send_batch(struct pg_conn *conn, struct pg_request *requests, size_t count)
{
    struct pg_batch *batch = calloc(1, sizeof *batch), **end = &conn->oldest;
    int64_t sent_us = clock_mono_us();
    bool failed = false;

    for (struct pg_request *next; !batch && requests; requests = next) {
        next = requests->next;
        pg_request_fail(requests, FAILED_MEMORY);
    }
    if (!batch)
        return 0;
    *batch = (struct pg_batch){.requests = requests, .count = count, .rest = requests};
    while (*end)
        end = &(*end)->next;
    *end = batch;
    if (!conn->batches++) {
        conn->oldest_ms = conn->pool->pg->loop->now_ms;
        conn->charged_us = sent_us;
    }
    pg_merge(conn->pool, requests);
    conn_batch_advance(batch);
    for (struct pg_request *request = requests; request && !failed; request = request->next) {
        request->sent = true;
        request->sent_us = sent_us;
        request->tries++;
        for (struct pg_op *op = request->uses_earlier_result ? NULL : request->ops; op && !failed;
             op = op->next)
            failed = conn_send_op(conn, request, op) != 0;
    }
    if (failed || !PQpipelineSync(conn->pg))
        return -1; /* without a Sync the batch cannot be committed; conn_results_lost() frees it */
    conn_flush_output(conn);
    return 0;
}

/*
 * Takes requests for a batch. Sorts units by key, so that the batches of all hosts take locks in
 * the same order and cannot deadlock.
 */
static struct pg_request *conn_make_batch(struct pg_conn *conn, size_t *count)
{
    bool by_key = conn->pool->kind == PG_UNIT, alone = false;
    struct pg_request *list = NULL, **end = &list, *request;

    *count = 0;
    while (!alone && *count < conn->pool->batch_max && (request = pg_conn_next(conn, *count))) {
        if (!request->rq) {
            pg_request_free(request);
            continue;
        }
        alone = request->alone;
        for (end = by_key ? &list : end; *end && (*end)->key <= request->key;)
            end = &(*end)->next;
        request->next = *end;
        *end = request;
        end = &request->next;
        ++*count;
    }
    return list;
}

void pg_conn_flush(struct pg_conn *conn)
{
    const struct pg_pool *pool = conn->pool;

    /* a stale connection that is checked out is used to the end of its transaction */
    while (conn->state == PG_READY &&
           (conn->waiting_count || (pool->kind == PG_LONG && pool->queued)) &&
           (!conn->recycle || conn->checked_out) && conn->batches < pool->depth) {
        size_t count;
        struct pg_request *requests = conn_make_batch(conn, &count);

        if (!requests)
            return;
        if (conn_send_batch(conn, requests, count)) {
            pg_conn_lost(conn, "sending failed");
            return;
        }
    }
    if (conn->recycle && !conn->batches && conn->state == PG_READY && !conn->checked_out)
        pg_conn_lost(conn, "prepared statements are stale");
}

/* ---- the outcome of batches ----------------------- */

/*
 * Queues a request to be sent again: in a separate batch if it writes or was sent twice before.
 * Inserts it at *place, which the caller sets to &conn->again for the first request, and advances
 * *place. So the requests keep their order, and are sent before those in conn->queue.
 */
static void conn_request_again(struct pg_conn *conn, struct pg_request *request,
                               struct pg_request ***place)
{
    if (!request->rq) {
        pg_request_free(request);
        return;
    }
    if (request->tries >= TRIES_MAX) {
        pg_request_fail(request, FAILED_UNAVAILABLE);
        return;
    }
    pg_merge_forget(request);
    request->failure = (struct failure){0};
    request->alone = conn->pool->kind == PG_UNIT || request->write || request->tries > 1;
    pg_conn_queue(conn, request, *place);
    *place = &request->next;
}

/* Returns whether the outcome of a request is final. Otherwise the request must be sent again. */
static bool conn_is_outcome_known(const struct pg_conn *conn, const struct pg_batch *batch,
                                  const struct pg_request *request)
{
    const struct failure *failure = &request->failure;
    bool own_failure = failure->kind == FAILED_SQL;

    if (!batch->failed || conn->pool->kind == PG_TX)
        return true;
    if (own_failure && !conn->pool->replica && request->tries < TRIES_MAX &&
        (failure->stale || sqlstate_has(failure->sqlstate, SQLSTATE_AGAIN)))
        return false;
    /* the batch was rolled back, including writes that had succeeded */
    if (conn->pool->kind == PG_UNIT || request->write)
        return batch->count == 1 && own_failure;
    return own_failure || (request->last && request->last->rows.result);
}

static void conn_batch_synced(struct pg_conn *conn, struct pg_batch *batch)
{
    int64_t now_us = clock_mono_us(), us = now_us - conn->charged_us, count = 0;

    /*
     * Charges the time since the batch was sent, or since the previous batch ended, to the modules
     * of its statements, in equal parts, because PostgreSQL sends the results of a batch together.
     */
    for (const struct pg_request *at = batch->requests; at; at = at->next)
        for (const struct pg_op *op = at->ops; op; op = op->next)
            count++;
    for (const struct pg_request *at = batch->requests; at; at = at->next)
        for (const struct pg_op *op = at->ops; op; op = op->next) {
            account_add(op->account, ACCOUNT_STATEMENTS, 1);
            account_add(op->account, ACCOUNT_DATABASE_US, us / count);
        }
    struct pg_request **place = &conn->again;

    conn->charged_us = now_us;
    conn->batches--;
    conn->oldest_ms = conn->pool->pg->loop->now_ms;
    for (struct pg_request *request = batch->requests, *next; request; request = next) {
        next = request->next;
        if (conn_is_outcome_known(conn, batch, request))
            pg_request_done(request);
        else
            conn_request_again(conn, request, &place);
    }
    free(batch);
}

/* Decides the outcome of the batches that were in progress when the connection was lost. */
static void conn_results_lost(struct pg_conn *conn)
{
    /* reads on the primary are sent again; for a replica, pg_replica_query() does this */
    bool reads =
        !conn->pool->replica && (conn->pool->kind == PG_READ || conn->pool->kind == PG_LONG);
    struct pg_request **place = &conn->again;
    struct pg_batch *batch;

    while ((batch = conn->oldest)) {
        conn->oldest = batch->next;
        for (struct pg_request *request = batch->requests, *next; request; request = next) {
            next = request->next;
            if (!strcmp(request->failure.sqlstate, PG_NOT_ALLOWED))
                pg_request_done(request);
            else if (reads && !request->write)
                conn_request_again(conn, request, &place);
            else
                pg_request_fail(request, FAILED_UNAVAILABLE);
        }
        free(batch);
    }
    conn->batches = 0;
}

/* ---- reading results ------------------------------------------------------------------------- */

/* Returns whether libpq created this result because memory ran out: the server's result is lost. */
static bool conn_is_lost_result(const PGresult *result)
{
    return PQresultStatus(result) != PGRES_PIPELINE_ABORTED &&
           !PQresultErrorField(result, PG_DIAG_SQLSTATE);
}

static void conn_take_error(struct pg_conn *conn, struct pg_batch *batch, const PGresult *result)
{
    struct failure *failure = &batch->request->failure;

    batch->failed = true;
    if (conn_is_lost_result(result)) {
        conn->fault = outcome_unknown;
    } else if (PQresultStatus(result) == PGRES_PIPELINE_ABORTED || failure->kind) {
        return;
    } else if (batch->request->members) {
        pg_merge_failed(batch->request, result);
        conn->recycle |= pg_is_stale(result);
    } else {
        pg_failure(failure, batch->op, result);
        conn->recycle |= failure->stale;
    }
}

/*
 * Returns whether a module's statement began or ended a transaction, or changed the session, which
 * other callers share. The first word of the result's command tag names the command.
 */
static bool conn_is_not_allowed(const struct pg_conn *conn, const struct pg_op *op,
                                PGresult *result)
{
    static const char *const words[] = {"BEGIN",   "START",    "COMMIT",  "ROLLBACK",   "SAVEPOINT",
                                        "RELEASE", "LISTEN",   "PREPARE", "DEALLOCATE", "DISCARD",
                                        "RESET",   "UNLISTEN", "LOAD"};
    const char *tag = PQcmdStatus(result);
    size_t length = strcspn(tag, " ");

    if (PQresultStatus(result) != PGRES_COMMAND_OK || op->sql->flags & PG_SQL_OF_HOST)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && !strncmp(tag, words[i], length))
            return true;
    return conn->pool->kind != PG_TX && !strcmp(tag, "SET");
}

/* Takes the result of preparing or executing the next statement of the batch. */
static void conn_take_result(struct pg_conn *conn, struct pg_batch *batch, PGresult *result)
{
    struct pg_request *request = batch->request;
    struct pg_op *op = batch->op;
    ExecStatusType status = PQresultStatus(result);
    bool good =
        status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY;
    bool allowed = op->preparing || !good || !conn_is_not_allowed(conn, op, result);

    if (good && !op->preparing && allowed) {
        const char *text = op->sql->text;

        /* SET LOCAL and SET TRANSACTION, which also have the tag SET, do not change the session */
        conn->recycle |= !strcmp(PQcmdStatus(result), "SET") &&
                         strncasecmp(text, "SET LOCAL ", 10) != 0 &&
                         strncasecmp(text, "SET TRANSACTION ", 16) != 0;
        if (!request->members)
            op->rows = (struct bb_rows){.result = result, .count = PQntuples(result)};
        else if (pg_merge_distribute(request, op, result))
            conn->fault = outcome_unknown;
        return;
    }
    if (!good) {
        conn_take_error(conn, batch, result);
        if (op->preparing)
            tdelete(request->members ? pg_many(op->sql) : op->sql, &conn->prepared,
                    conn_prepared_compare);
    } else if (!allowed) {
        /* the connection is closed, and other statements of the batch may be lost */
        conn->fault = misused;
        batch->failed = true;
        /* if several requests share the execution, each is sent again to find the one at fault */
        if (!request->members) {
            request->failure = (struct failure){.kind = FAILED_SQL, .sqlstate = PG_NOT_ALLOWED};
            request->failure.sql = op->sql;
            request->failure.host = op->host;
            snprintf(request->failure.text, sizeof request->failure.text,
                     "a module must not begin or end a transaction, or change the session");
        }
    }
    PQclear(result);
}

/*
 * Returns whether libpq ran out of memory for the result of a Sync. libpq 15 then stays busy
 * forever, and only libpq's message shows this. Messages of the server begin with a severity.
 */
static bool conn_is_starved(const struct pg_conn *conn)
{
    static const char starved[] = "out of memory";
    const char *text = PQerrorMessage(conn->pg), *last = text;
    const char *newline = strchr(text, '\n');

    for (; newline && newline[1]; newline = strchr(last, '\n'))
        last = newline + 1;
    return !strncmp(last, starved, strlen(starved));
}

/* Reads a result. Returns 0, or -1 if nothing more can be read now. */
static int conn_read_one(struct pg_conn *conn, bool *after_null)
{
    PGresult *result = PQgetResult(conn->pg);
    struct pg_batch *batch = conn->oldest;

    if (!result) {
        /* NULL ends the results of a statement; a second NULL means that there are no more */
        if (*after_null)
            return -1;
        *after_null = true;
        return 0;
    }
    *after_null = false;
    if (conn->fault) { /* set by conn_notice(): the batch must not count as a success */
        PQclear(result);
        return -1;
    }
    bool synced = PQresultStatus(result) == PGRES_PIPELINE_SYNC;

    if (synced && !batch->op) {
        PQclear(result);
        /*
         * Completes the batch. If its transaction is still open, closes the connection, because
         * later statements would be part of it. (While another batch is in progress, the status is
         * PQTRANS_ACTIVE.) If the batch changed settings, also closes the connection, because they
         * apply to the next batch, too, which may have been sent already.
         */
        PGTransactionStatusType status = PQtransactionStatus(conn->pg);
        bool own = conn->pool->kind == PG_TX;

        if (!own && (status == PQTRANS_INTRANS || status == PQTRANS_INERROR)) {
            conn->fault = left_open;
            return -1;
        }
        conn->oldest = batch->next;
        bool changed =
            !own && pg_session_has_changed(conn, batch->count == 1 ? batch->requests->rq : NULL);

        if (changed)
            conn->end = "a setting was changed";
        conn_batch_synced(conn, batch);
        return changed ? -1 : 0;
    }
    if (synced) { /* too early: results of statements are still missing */
        PQclear(result);
        conn->fault = outcome_unknown;
        return -1;
    }
    if (!batch->op) {
        /* The commit failed (for instance because of a deferred constraint) and undid the batch;
         * the result of the Sync follows. Sending each request separately shows which one failed.
         */
        batch->failed = true;
        if (conn_is_lost_result(result))
            conn->fault = outcome_unknown;
        else if (batch->count == 1 && !batch->requests->failure.kind)
            pg_failure(&batch->requests->failure, NULL, result);
        PQclear(result);
    } else {
        conn_take_result(conn, batch, result);
        if (batch->op->preparing)
            batch->op->preparing = false;
        else
            conn_batch_advance(batch);
    }
    return 0;
}

static void conn_ready(struct watch *watch, uint32_t events)
{
    struct pg_conn *conn = (struct pg_conn *)(void *)watch;
    bool after_null = false;

    if (events & EPOLLOUT)
        conn_flush_output(conn);
    if (conn->state != PG_READY || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    conn_heard(conn);
    if (!PQconsumeInput(conn->pg)) {
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
        return;
    }
    while (conn->oldest && !conn->fault && !PQisBusy(conn->pg)) {
        if (conn_read_one(conn, &after_null))
            break;
    }
    /* calls PQisBusy() even without a batch, because this makes libpq process other messages */
    if (PQisBusy(conn->pg) && conn->oldest && conn_is_starved(conn))
        conn->fault = outcome_unknown;
    if (conn->fault)
        pg_conn_lost(conn, conn->fault);
    else if (PQstatus(conn->pg) == CONNECTION_BAD)
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
    else if (conn->end)
        pg_conn_lost(conn, conn->end);
}

/* ---- opening and closing --------------------------------------------------------------------- */

void pg_conn_open(struct pg_conn *conn, struct pg_pool *pool, unsigned index)
{
    *conn = (struct pg_conn){.watch = {.fd = -1, .ready = conn_ready},
                             .pool = pool,
                             .index = index,
                             .queue = FAIR_QUEUE(conn->queue, index),
                             .timer.fire = conn_attempt};
    conn_attempt(&conn->timer);
}

void pg_conn_close(struct pg_conn *conn)
{
    if (!conn->pool)
        return;
    conn_forget_server(conn);
    conn_results_lost(conn);
    pg_conn_fail_waiting(conn);
    timer_clear(&conn->pool->pg->loop->timers, &conn->timer);
}
