#include "core/store/pg_pool.h"

#include <stdio.h>
#include <string.h>

#include "core/lib/sqlstate.h"
#include "core/lib/text.h"

struct pg_request *pg_request_new(struct core_request *rq)
{
    struct arena *memory = arena_new();
    struct pg_request *request = memory ? arena_alloc(memory, sizeof *request) : NULL;

    if (!request) {
        arena_free(memory);
        request_out_of_memory(rq);
    }
    request->memory = memory;
    request->rq = rq;
    request->asked_us = clock_mono_us();
    return request;
}

struct pg_request *pg_request_one(struct core_request *rq, const struct bb_sql *sql,
                                  const struct bb_value *values, size_t count)
{
    struct pg_request *request = pg_request_new(rq);

    if (pg_request_add(request, sql, values, count))
        return request;
    pg_request_free(request);
    request_out_of_memory(rq);
}

/* Formats numbers as {1,2,3}. */
static const char *pg_request_ints_text(struct arena *memory, const int64_t *numbers, size_t count)
{
    char *text = arena_alloc(memory, count * 21 + 3);
    char *at = text;

    if (!text)
        return NULL;
    *at++ = '{';
    for (size_t i = 0; i < count; i++) {
        if (i)
            *at++ = ',';
        at += text_integer(numbers[i], at);
    }
    *at = '}';
    return text;
}

const char *pg_texts_array(struct arena *memory, const char *const *texts, size_t count)
{
    size_t room = sizeof "{}";

    for (size_t i = 0; i < count; i++)
        room += 2 * (texts[i] ? strlen(texts[i]) : 0) + sizeof "NULL,";
    char *array = arena_alloc(memory, room), *at = array;

    if (!array)
        return NULL;
    *at++ = '{';
    for (size_t i = 0; i < count; i++) {
        if (i)
            *at++ = ',';
        if (!texts[i]) {
            at = mempcpy(at, "NULL", 4);
            continue;
        }
        *at++ = '"';
        for (const char *text = texts[i]; *text; text++) {
            if (*text == '"' || *text == '\\')
                *at++ = '\\';
            *at++ = *text;
        }
        *at++ = '"';
    }
    *at = '}';
    return array;
}

/* Sets parameter i of `op` to a value, in libpq's format. Returns 0, or -1 if memory ran out. */
static int pg_request_op_value(struct arena *memory, struct pg_op *op, size_t i,
                               const struct bb_value *value)
{
    char digits[TEXT_INTEGER_SIZE];

    if (value->kind == BB_V_NULL)
        return 0;
    if (value->kind == BB_V_INT)
        op->values[i] = arena_text(memory, digits, text_integer(value->number, digits));
    else if (value->kind == BB_V_INTS)
        op->values[i] = pg_request_ints_text(memory, value->data, value->length);
    else if (value->kind == BB_V_TEXTS)
        op->values[i] = pg_texts_array(memory, value->data, value->length);
    else if (value->kind == BB_V_TEXT)
        op->values[i] = arena_text(memory, value->data, strlen(value->data));
    else
        op->values[i] = arena_text(memory, value->data, value->length);
    op->formats[i] = value->kind == BB_V_BYTES;
    op->lengths[i] = (int)value->length;
    return op->values[i] ? 0 : -1;
}

struct pg_op *pg_request_add(struct pg_request *request, const struct bb_sql *sql,
                             const struct bb_value *values, size_t count)
{
    struct pg_op *op = arena_alloc(request->memory, sizeof *op);

    if (!op)
        return NULL;
    op->sql = sql;
    op->host = request->rq->pub.host;
    op->account = account_of(op->host);
    op->count = (int)count;
    if (count) {
        op->values = arena_alloc(request->memory, count * sizeof(char *));
        op->lengths = arena_alloc(request->memory, count * sizeof(int));
        op->formats = arena_alloc(request->memory, count * sizeof(int));
        if (!op->values || !op->lengths || !op->formats)
            return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (pg_request_op_value(request->memory, op, i, &values[i]))
            return NULL;
        /* numbers, and arrays of numbers, count as 0 bytes */
        if (values[i].kind == BB_V_TEXT || values[i].kind == BB_V_TEXTS)
            request->bytes += strlen(op->values[i]);
        else if (values[i].kind == BB_V_BYTES)
            request->bytes += values[i].length;
    }
    if (request->last)
        request->last->next = op;
    else
        request->ops = op;
    request->last = op;
    return op;
}

void pg_rows_drop(void *of)
{
    struct bb_rows *rows = of;

    if (rows->shared)
        pg_shared_release(rows->shared);
    else
        PQclear(rows->result);
    *rows = (struct bb_rows){.result = NULL};
}

struct bb_rows *pg_rows_new(struct core_request *rq)
{
    struct bb_rows *rows = request_alloc(rq, sizeof *rows);

    request_defer(rq, pg_rows_drop, rows);
    return rows;
}

void pg_rows_release(struct arena *arena)
{
    arena_undo(arena, pg_rows_drop);
}

struct bb_rows *pg_rows_take(struct core_request *rq, struct bb_rows *rows, struct pg_op *op)
{
    *rows = op->rows;
    if (rows->result && !rows->shared)
        arena_count(rq->arena, PQresultMemorySize(rows->result));
    op->rows = (struct bb_rows){.result = NULL};
    return rows->result ? rows : NULL;
}

void pg_request_free(void *of)
{
    struct pg_request *request = of;

    if (!request)
        return;
    pg_request_leave(request);
    for (struct pg_op *op = request->ops; op; op = op->next)
        pg_rows_drop(&op->rows);
    arena_free(request->memory);
}

/* Adds the time in the queue and the time in PostgreSQL to the sums of the request's caller. */
static void pg_request_account(const struct pg_request *request)
{
    int64_t now = clock_mono_us();
    int64_t sent = request->sent_us ? request->sent_us : now;

    request->rq->time_spent.queue_us += sent - request->asked_us;
    request->rq->time_spent.database_us += now - sent;
}

void pg_request_abandon(struct pg_request *request)
{
    if (request->rq && !request->done)
        pg_request_account(request);
    request->rq = NULL;
    if (request->done)
        pg_request_free(request);
}

void pg_request_done(struct pg_request *request)
{
    /*
     * A long statement counts for its owner until the caller has read the rows, so that results do
     * not accumulate: PostgreSQL can send them faster than handlers process them.
     */
    bool unread = request->rq && !request->failure.kind && !request->large && request->pool &&
                  request->pool->kind == PG_LONG;

    request->done = true;
    if (!unread)
        pg_request_leave(request);
    if (!request->rq) {
        pg_request_free(request);
        return;
    }
    pg_request_account(request);
    request_wake(request->rq);
}

void pg_request_fail(struct pg_request *request, enum failure_kind kind)
{
    request->failure = (struct failure){.kind = kind};
    pg_request_done(request);
}

static void pg_request_copy_field(char *to, size_t size, const PGresult *result, int code)
{
    const char *text = PQresultErrorField(result, code);

    snprintf(to, size, "%s", text ? text : "");
}

/*
 * Prepared statements are stale if a table has changed (0A000), or if a pooler has switched to a
 * session without them or with others. Only RevalidateCachedQuery raises 0A000 for changed tables.
 */
bool pg_is_stale(const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);

    if (!sqlstate)
        return false;
    if (!strcmp(sqlstate, "0A000"))
        return function && !strcmp(function, "RevalidateCachedQuery");
    return sqlstate_has(sqlstate, SQLSTATE_STALE);
}

void pg_failure(struct failure *failure, const struct pg_op *op, const PGresult *result)
{
    *failure = (struct failure){.kind = FAILED_SQL};
    if (op) {
        failure->sql = op->sql;
        failure->host = op->host;
    }
    failure->stale = pg_is_stale(result);
    pg_request_copy_field(failure->sqlstate, sizeof failure->sqlstate, result, PG_DIAG_SQLSTATE);
    pg_request_copy_field(failure->constraint, sizeof failure->constraint, result,
                          PG_DIAG_CONSTRAINT_NAME);
    pg_request_copy_field(failure->text, sizeof failure->text, result, PG_DIAG_MESSAGE_PRIMARY);
}
