/* The outcome of batches: their results, and which of their entries are sent again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/sqlstate.h"
#include "core/store/pg_pool.h"

enum { TRIES_MAX = 4 };

/*
 * Sends an entry of a failed batch again: in a separate batch if the whole batch was undone, or if
 * the entry was in a failed batch twice.
 */
static void entry_again(struct pg_conn *conn, struct pg_request *entry)
{
    if (!entry->rq) {
        pg_request_free(entry);
        return;
    }
    if (entry->tries >= TRIES_MAX) {
        pg_request_fail(entry, FAILED_UNAVAILABLE);
        return;
    }
    pg_merge_forget(entry);
    entry->failure = (struct failure){0};
    entry->alone = conn->pool->kind == PG_UNIT || entry->write || entry->tries > 1;
    pg_conn_queue(conn, entry, true);
}

static bool worth_again(const struct failure *failure)
{
    return failure->stale || sqlstate_has(failure->sqlstate, SQLSTATE_AGAIN);
}

/* Reverses the list, because entries are put in front of the queue one after the other. */
static struct pg_request *reverse(struct pg_request *list)
{
    struct pg_request *back = NULL;

    while (list) {
        struct pg_request *next = list->next;

        list->next = back;
        back = list;
        list = next;
    }
    return back;
}

/*
 * Whether an entry's outcome is its own: if it was alone in its transaction, or nothing was undone.
 */
static bool outcome_known(const struct pg_conn *conn, const struct pg_batch *batch,
                          const struct pg_request *entry)
{
    bool own_failure = entry->failure.kind == FAILED_SQL;

    if (!batch->failed)
        return true;
    if (conn->pool->kind == PG_TX)
        return true;
    if (own_failure && worth_again(&entry->failure) && entry->tries < TRIES_MAX)
        return false;
    /* the batch was undone, and with it the writes of statements that had succeeded */
    if (conn->pool->kind == PG_UNIT || entry->write)
        return batch->count == 1 && own_failure;
    return own_failure || (entry->last && pg_op_answered(entry->last));
}

static void batch_synced(struct pg_conn *conn, struct pg_batch *batch)
{
    struct pg_request *entry = batch->failed ? reverse(batch->entries) : batch->entries;

    conn->batches--;
    conn->oldest_ms = conn->pool->pg->loop->now_ms;
    while (entry) {
        struct pg_request *next = entry->next;

        if (outcome_known(conn, batch, entry))
            pg_request_done(entry);
        else
            entry_again(conn, entry);
        entry = next;
    }
    free(batch);
}

/* Whether libpq created the result for lack of memory: the server's result is unknown. */
static bool is_outcome_unknown(struct pg_conn *conn, const PGresult *result)
{
    if (PQresultStatus(result) != PGRES_PIPELINE_ABORTED &&
        !PQresultErrorField(result, PG_DIAG_SQLSTATE))
        conn->outcome_unknown = true;
    return conn->outcome_unknown;
}

static void take_error(struct pg_conn *conn, const struct pg_expect *e, const PGresult *result)
{
    e->batch->failed = true;
    if (is_outcome_unknown(conn, result) || PQresultStatus(result) == PGRES_PIPELINE_ABORTED ||
        e->entry->failure.kind)
        return;
    if (e->entry->members) {
        pg_merge_failed(e->entry, result);
        conn->recycle = conn->recycle || pg_is_stale(result);
        return;
    }
    pg_failure(&e->entry->failure, e->op, result);
    conn->recycle = conn->recycle || e->entry->failure.stale;
}

static void take_rows(struct pg_conn *conn, const struct pg_expect *e, PGresult *result)
{
    if (!e->entry->members)
        e->op->result = result;
    else if (pg_merge_distribute(e->entry, e->op, result))
        conn->outcome_unknown = true;
}

/*
 * Whether a module's statement began or ended a transaction, or changed the session that other
 * requests share. The first word of the result's command tag says what PostgreSQL has run.
 */
static bool is_not_allowed(const struct pg_conn *conn, const struct pg_expect *e, PGresult *result)
{
    static const char *const words[] = {"BEGIN",   "START",    "COMMIT",  "ROLLBACK",   "SAVEPOINT",
                                        "RELEASE", "LISTEN",   "PREPARE", "DEALLOCATE", "DISCARD",
                                        "RESET",   "UNLISTEN", "LOAD"};
    const char *tag = PQcmdStatus(result);
    size_t length = strcspn(tag, " ");

    if (PQresultStatus(result) != PGRES_COMMAND_OK || e->op->sql->flags & PG_SQL_OF_HOST)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && !strncmp(tag, words[i], length))
            return true;
    return conn->pool->kind != PG_TX && !strcmp(tag, "SET");
}

/*
 * Whether SET may have changed the session. PostgreSQL gives SET LOCAL and SET TRANSACTION the same
 * command tag.
 */
static bool is_set(const char *text, PGresult *result)
{
    return !strcmp(PQcmdStatus(result), "SET") && strncasecmp(text, "SET LOCAL ", 10) != 0 &&
           strncasecmp(text, "SET TRANSACTION ", 16) != 0;
}

/*
 * The transaction is over or the session has changed, so the connection is closed, and other
 * statements of the batch may be lost.
 */
static void take_not_allowed(struct pg_conn *conn, const struct pg_expect *e)
{
    struct failure *failure = &e->entry->failure;

    conn->misused = true;
    e->batch->failed = true;
    if (e->entry->members)
        return; /* each request is sent again by itself, which shows whose statement it is */
    *failure = (struct failure){.kind = FAILED_SQL, .sqlstate = PG_NOT_ALLOWED};
    failure->sql = e->op->sql;
    failure->host = e->op->host;
    snprintf(failure->text, sizeof failure->text,
             "a module must not begin or end a transaction, or change the session");
}

static void take_result(struct pg_conn *conn, const struct pg_expect *e, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY) {
        if (e->kind == PG_EXPECT_ROWS && !is_not_allowed(conn, e, result)) {
            conn->recycle = conn->recycle || is_set(e->op->sql->text, result);
            take_rows(conn, e, result);
            return;
        }
        if (e->kind == PG_EXPECT_ROWS)
            take_not_allowed(conn, e);
    } else {
        take_error(conn, e, result);
        if (e->kind == PG_EXPECT_PREPARE)
            pg_prepared_forget(conn, e->sql);
    }
    PQclear(result);
}

/*
 * The commit at the Sync failed (for instance because of a deferred constraint), so nothing of the
 * batch is stored; the Sync's own result follows. Sending each entry separately shows which one
 * failed.
 */
static void take_commit_error(struct pg_conn *conn, struct pg_batch *batch, PGresult *result)
{
    batch->failed = true;
    if (!is_outcome_unknown(conn, result) && batch->count == 1 && !batch->entries->failure.kind)
        pg_failure(&batch->entries->failure, NULL, result);
    PQclear(result);
}

/*
 * Whether the batch that was just completed has left its transaction open or failed: later
 * statements would be part of that transaction and lost with it. Unknown while other batches are in
 * progress.
 */
static bool is_astray(const struct pg_conn *conn)
{
    PGTransactionStatusType status = PQtransactionStatus(conn->pg);

    return conn->pool->kind != PG_TX && (status == PQTRANS_INTRANS || status == PQTRANS_INERROR);
}

/*
 * If libpq 15 runs out of memory for the result of a Sync, it creates none and reports that it is
 * busy forever. Only its message reveals that; a message of the server would begin with a severity.
 */
static bool is_starved(const struct pg_conn *conn)
{
    static const char starved[] = "out of memory";
    const char *text = PQerrorMessage(conn->pg), *last = text;
    const char *newline = strchr(text, '\n');

    for (; newline && newline[1]; newline = strchr(last, '\n'))
        last = newline + 1;
    return !strncmp(last, starved, strlen(starved));
}

/* Later statements on the connection ran with the changed settings, so they count as lost. */
static bool has_spoilt(const struct pg_conn *conn, const struct pg_batch *batch)
{
    return conn->pool->kind != PG_TX &&
           pg_session_is_spoilt(conn, batch->count == 1 ? batch->entries->rq : NULL);
}

/* Reads one result: -1 if nothing more can be read now. */
static int read_one(struct pg_conn *conn, bool *after_null)
{
    PGresult *result = PQgetResult(conn->pg);
    struct pg_expect *e = pg_expect_at(conn, 0);

    if (!result) {
        /* NULL ends the results of a statement; a second NULL means that there are no more */
        if (*after_null)
            return -1;
        *after_null = true;
        return 0;
    }
    *after_null = false;
    if (conn->unreplicated) { /* the notice precedes the success of the batch */
        PQclear(result);
        return -1;
    }
    struct pg_expect now = *e;
    if (PQresultStatus(result) != PGRES_PIPELINE_SYNC) {
        if (now.kind == PG_EXPECT_SYNC) {
            take_commit_error(conn, now.batch, result);
            return 0;
        }
        pg_expect_next(conn);
        take_result(conn, &now, result);
        return conn->misused ? -1 : 0;
    }
    PQclear(result);
    if (now.kind != PG_EXPECT_SYNC) { /* an earlier result was lost */
        conn->outcome_unknown = true;
        return -1;
    }
    if (is_astray(conn)) {
        conn->astray = true;
        return -1;
    }
    pg_expect_next(conn);
    conn->spoilt = has_spoilt(conn, now.batch);
    batch_synced(conn, now.batch);
    return conn->spoilt ? -1 : 0;
}

void pg_results_read(struct pg_conn *conn)
{
    bool after_null = false;

    conn->pool->pg->heard_ms = conn->pool->pg->loop->now_ms;
    if (!PQconsumeInput(conn->pg)) {
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
        return;
    }
    while (conn->expect_count && !conn->outcome_unknown && !conn->unreplicated &&
           !PQisBusy(conn->pg)) {
        if (read_one(conn, &after_null))
            break;
    }
    /* also if nothing is expected: this is how libpq processes unsolicited messages */
    if (PQisBusy(conn->pg) && conn->expect_count && is_starved(conn))
        conn->outcome_unknown = true;
    if (conn->unreplicated)
        pg_conn_lost(conn, "a commit was not confirmed by the synchronous standby");
    else if (PQstatus(conn->pg) == CONNECTION_BAD)
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
    else if (conn->outcome_unknown)
        pg_conn_lost(conn, "an answer could not be kept");
    else if (conn->astray)
        pg_conn_lost(conn, "a transaction was left open");
    else if (conn->misused)
        pg_conn_lost(conn, "a module's statement is not allowed");
    else if (conn->spoilt)
        pg_conn_lost(conn, "a setting was changed");
    else if (conn->dismissed)
        pg_conn_lost(conn, "the server ends it");
}

/* Whether the entry may be sent again although its outcome is unknown. */
static bool safe_to_retry(const struct pg_conn *conn, const struct pg_request *entry)
{
    enum pg_pool_kind kind = conn->pool->kind;

    return (kind == PG_READ || kind == PG_LONG) && !entry->write;
}

void pg_results_lost(struct pg_conn *conn)
{
    while (conn->expect_count) {
        struct pg_expect e = *pg_expect_at(conn, conn->expect_count - 1);

        conn->expect_count--;
        if (e.kind != PG_EXPECT_SYNC)
            continue;
        struct pg_request *entry = reverse(e.batch->entries);
        while (entry) {
            struct pg_request *next = entry->next;

            if (!strcmp(entry->failure.sqlstate, PG_NOT_ALLOWED))
                pg_request_done(entry);
            else if (safe_to_retry(conn, entry))
                entry_again(conn, entry);
            else
                pg_request_fail(entry, FAILED_UNAVAILABLE);
            entry = next;
        }
        free(e.batch);
    }
    conn->batches = 0;
}
