/* A statement has failed: its reason, and its line in the log. */
#include <string.h>

#include "core/lib/sqlstate.h"
#include "core/module/engine.h"
#include "core/module/module_error.h"
#include "core/module/reply.h"
#include "core/store/sql.h"

static const struct bb_sql migration_runs = {
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND classid::bigint << 32 | objid::bigint = " MIGRATION_LOCK " AND database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database()))",
    0};

/*
 * Whether a migration runs, on this host or another one, so that a table, column or function may be
 * missing for a while. True where that cannot be found out.
 */
static bool is_migrated(struct core_request *rq)
{
    struct engine *engine = rq->loop->engine;
    struct pg_request *entry = NULL;
    bool runs = true;

    if (engine) {
        int schema = atomic_load(&engine->schema);

        if (schema == SCHEMA_PENDING || schema == SCHEMA_UNFIT)
            return true;
    }
    entry = pg_request_new(rq);
    if (!entry)
        return true;
    if (!pg_request_add(entry, &migration_runs, NULL, 0) ||
        pg_submit(rq->loop->pg, PG_READ, entry)) {
        pg_request_free(entry);
        return true;
    }
    if (request_wait(rq, &entry->done)) {
        pg_request_abandon(entry);
        return true;
    }
    if (!entry->failure.kind && PQntuples(entry->ops->result) == 1)
        runs = strcmp(PQgetvalue(entry->ops->result, 0, 0), "f") != 0;
    pg_request_free(entry);
    return runs;
}

void sql_failed(struct core_request *rq, const struct failure *failure)
{
    struct failure why = *failure;

    /* PostgreSQL only reports that the transaction has failed: keep the first failure, the reason
     */
    if (!strcmp(why.sqlstate, "25P02") && rq->failure.kind == FAILED_SQL)
        return;
    if (why.kind == FAILED_SQL && sqlstate_has(why.sqlstate, SQLSTATE_UNDEFINED))
        why.passing = is_migrated(rq);
    rq->failure = why;
    /* there is no answer in which anybody would see it */
    if (rq->kind != REQUEST_HTTP && why.kind == FAILED_SQL &&
        !sqlstate_has(why.sqlstate, SQLSTATE_EXPECTED))
        module_error_statement(rq, failure_is_passing(&why) ? BB_WARN : BB_ERROR);
}
