#include "core/store/sql.h"

#include <stdlib.h>
#include <string.h>

#include "core/lib/sqlstate.h"
#include "core/module/engine.h"
#include "core/module/reply.h"

/* ---- failures of statements ---- */

static const struct bb_sql migration_runs = {
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND classid::bigint << 32 | objid::bigint = " MIGRATION_LOCK " AND database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database()))",
    0};

void sql_failed(struct core_request *rq, const struct failure *failure)
{
    struct failure why = *failure;

    /* 25P02 only reports that the transaction has failed: keep the first failure */
    if (!strcmp(why.sqlstate, "25P02") && rq->failure.kind == FAILED_SQL)
        return;
    if (why.kind == FAILED_SQL && sqlstate_has(why.sqlstate, SQLSTATE_UNDEFINED)) {
        /* a table, column or function may be missing because a host is running a migration */
        const struct engine *engine = rq->loop->engine;
        int schema = engine ? atomic_load(&engine->schema) : SCHEMA_READY;
        bool runs = schema == SCHEMA_PENDING || schema == SCHEMA_UNFIT;
        const struct bb_rows *rows = runs ? NULL : sql_query(rq, &migration_runs, NULL, 0);

        why.migration_running = !rows || strcmp(api_rows_text(rows, 0, 0), "f") != 0;
    }
    rq->failure = why;
    /* logs the failure, because only an HTTP request has a response that can report it */
    if (rq->kind != REQUEST_HTTP && why.kind == FAILED_SQL &&
        !sqlstate_has(why.sqlstate, SQLSTATE_EXPECTED))
        module_error_statement(rq, failure_is_passing(&why) ? BB_WARN : BB_ERROR);
}

/* ---- queries ---- */

struct bb_rows *sql_query(struct core_request *rq, const struct bb_sql *sql,
                          const struct bb_value *values, size_t count)
{
    enum pg_pool_kind pool = sql->flags & BB_SQL_LONG    ? PG_LONG
                             : sql->flags & BB_SQL_WRITE ? PG_WRITE
                                                         : PG_READ;
    bool may_use_replica = (sql->flags & (BB_SQL_REPLICA | BB_SQL_WRITE)) == BB_SQL_REPLICA;
    struct bb_rows *rows = may_use_replica ? pg_replica_query(rq, sql, values, count) : NULL;

    if (rows)
        return rows;
    /* allocated now: if memory ran out after a write, the write could not be taken back */
    struct bb_rows *kept = pg_rows_new(rq);
    struct pg_request *request = pg_request_one(rq, sql, values, count);

    request->write = sql->flags & BB_SQL_WRITE;
    if (pg_submit(rq->loop->pg, pool, request)) {
        pg_request_free(request);
        return NULL;
    }
    if (request_wait(rq, &request->done)) {
        pg_request_abandon(request);
        return NULL;
    }
    if (request->failure.kind)
        sql_failed(rq, &request->failure);
    else
        rows = pg_rows_take(rq, kept, request->ops);
    pg_request_free(request);
    if (!rows && !rq->failure.kind)
        request_out_of_memory(rq);
    return rows;
}

struct bb_rows *api_query(struct bb_request *rq, const struct bb_sql *sql,
                          const struct bb_value *values, size_t count)
{
    struct core_request *core = request_of(rq);

    if (module_error_waits(core, "bb_query()"))
        return NULL;
    return sql_query(core, sql, values, count);
}

/*
 * Returns the row's index in rows->result, or -1 if the row does not exist. For the index -1, libpq
 * returns defaults, such as an empty text.
 */
static int sql_row_of(const struct bb_rows *rows, size_t row)
{
    if (row >= (size_t)rows->count)
        return -1;
    return rows->order ? rows->order[row] : (int)row;
}

size_t api_rows_count(const struct bb_rows *rows)
{
    return (size_t)rows->count;
}

size_t api_rows_affected(const struct bb_rows *rows)
{
    if (rows->order)
        return (size_t)rows->count;
    return (size_t)strtoull(PQcmdTuples(rows->result), NULL, 10);
}

const char *api_rows_text(const struct bb_rows *rows, size_t row, size_t column)
{
    int at = sql_row_of(rows, row);

    if (PQgetisnull(rows->result, at, (int)column))
        return NULL;
    return PQgetvalue(rows->result, at, (int)column);
}

size_t api_rows_length(const struct bb_rows *rows, size_t row, size_t column)
{
    return (size_t)PQgetlength(rows->result, sql_row_of(rows, row), (int)column);
}

const char *api_sqlstate(struct bb_request *rq)
{
    return request_of(rq)->failure.sqlstate;
}

const char *api_constraint(struct bb_request *rq)
{
    return request_of(rq)->failure.constraint;
}

/* ---- ids ---- */

struct id_block {
    struct id_block *next;
    size_t count;
    int64_t ids[32];
    char sequence[]; /* name of the sequence that the ids are from */
};

int64_t api_next_id(struct bb_request *rq, const char *sequence)
{
    static const struct bb_sql next_ids = {
        "SELECT nextval($1::regclass) FROM generate_series(1, 32)", BB_SQL_WRITE};
    struct core_request *core = request_of(rq);
    struct id_block *block = core->loop->ids;

    if (module_error_waits(core, "bb_next_id()"))
        return -1;
    while (block && strcmp(block->sequence, sequence) != 0)
        block = block->next;
    if (!block) {
        size_t size = strlen(sequence) + 1;

        block = calloc(1, sizeof *block + size);
        if (!block)
            request_out_of_memory(core);
        memcpy(block->sequence, sequence, size);
        block->next = core->loop->ids;
        core->loop->ids = block;
    }
    if (!block->count) {
        unsigned lost = core->loop->ids_lost;
        struct bb_rows *rows = sql_query(core, &next_ids, BB_ARGS(bb_t(block->sequence)));

        if (!rows)
            return -1;
        if (lost != core->loop->ids_lost) /* the ids were forgotten meanwhile: keep none of these */
            return strtoll(api_rows_text(rows, 0, 0), NULL, 10);
        block->count = 0; /* drop ids that another request stored during the query */
        for (size_t i = api_rows_count(rows); i-- > 0;)
            block->ids[block->count++] = strtoll(api_rows_text(rows, i, 0), NULL, 10);
    }
    return block->ids[--block->count];
}

void sql_ids_forget(struct loop *loop)
{
    loop->ids_lost++;
    for (struct id_block *block = loop->ids; block; block = block->next)
        block->count = 0;
}

void sql_ids_free(struct loop *loop)
{
    while (loop->ids) {
        struct id_block *next = loop->ids->next;

        free(loop->ids);
        loop->ids = next;
    }
}
